#!/usr/bin/env python3
"""What configurations take in memory, against what the commands estimate.

    tests/memory.py PROGRAM [--json FILE] [--device WORDS] [NAME …]

Starts each command alone with `--max-memory 64GiB`, which makes it say its estimate, and reads the most that it had in memory: from its
usage once it has ended. A service is told to end after two seconds; one that reloads gets a changed file and SIGHUP first. Prints a table,
and how many estimates are within a quarter of what was taken. Some estimates are bounds: they count memory that the configuration may
take, and that this run does not. NAME picks configurations whose names contain it.

The script asserts nothing, except that no command takes more than its estimate and a quarter: such a command might go past `--max-memory`.
Exit code 1 says that one did.
"""

import argparse
import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
ESTIMATE = re.compile(r"takes about ([0-9.]+) (B|KiB|MiB|GiB) of memory")
LIMIT = ["--max-memory", "64GiB"]
# A run of few requests at d = 25 and more is over when its decoder is there.
RUN = ["run", "--workers", "1", "--requests", "5"]
SWEEP = ["sweep", "--noises", "0.002", "--shots", "100", "--threads", "2"]
SERVE = ["serve", "--bind", "127.0.0.1:0"]
# Relay-BP in a development build is slow.
CODE = ["run", "--workers", "1", "--requests", "1", "--relay-iterations", "10"]
OSD = [*CODE[:-1], "1"]
NEAR_LISTS = {"bound": "near lists of a model as long as they may be"}

# Name, the command's words, and what else: `bound` says why an estimate is a bound, `reload` the configuration that a service reads again, with another rate in it.
CONFIGURATIONS = [
    ("d5", [*RUN, "--distance", "5"], {}),
    ("d9", [*RUN, "--distance", "9"], {}),
    ("d11", [*RUN, "--distance", "11"], {}),
    ("d17", [*RUN, "--distance", "17"], {}),
    ("d21", [*RUN, "--distance", "21"], {}),
    ("d25", [*RUN, "--distance", "25"], {}),
    ("d7-r200", [*RUN, "--distance", "7", "--rounds", "200"], {}),
    ("d13-8workers", ["run", "--requests", "5", "--workers", "8", "--distance", "13"], {}),
    ("d13-plain", [*RUN, "--distance", "13", "--matching", "plain"], {}),
    ("d7-network", [*RUN[:-1], "2", "--distance", "7", "--engine", "cpu"], {}),
    ("d9-network-2workers", ["run", "--requests", "4", "--workers", "2", "--distance", "9", "--engine", "cpu"], {}),
    ("ensemble-d9", [*RUN, "--distance", "9", "--matching", "ensemble"], {}),
    ("ensemble-d17", [*RUN, "--distance", "17", "--matching", "ensemble"], {}),
    ("ensemble-d21", [*RUN, "--distance", "21", "--matching", "ensemble"], {}),
    (
        "ensemble-d13-8workers",
        ["run", "--requests", "400", "--workers", "8", "--distance", "13", "--matching", "ensemble"],
        {},
    ),
    ("ensemble-sweep-d17", [*SWEEP, "--distances", "17", "--matching", "ensemble"], {}),
    ("ensemble-serve-d17", [*SERVE, "--distance", "17", "--matching", "ensemble", "--confidence"], {}),
    ("ensemble-predict-grid", ["predict", "--dem", "GRID24", "--matching", "ensemble", "--threads", "2"], {"shots": True}),
    ("sweep-d7", [*SWEEP, "--distances", "7"], {}),
    ("sweep-d17", [*SWEEP, "--distances", "17"], {}),
    ("sweep-d13-both", [*SWEEP, "--distances", "13", "--matching", "both"], {}),
    ("serve-ring-64", [*SERVE, "--slots", "64", "--slot-bytes", "1024"], {}),
    ("serve-ring-65536", [*SERVE, "--slots", "65536", "--slot-bytes", "1024"], {}),
    ("serve-ring-2^20", [*SERVE, "--slots", "1048576", "--slot-bytes", "64"], {}),
    ("serve-ring-2048x64000", [*SERVE, "--slots", "2048", "--slot-bytes", "64000"], {}),
    ("run-ring-2^20", [*RUN, "--distance", "5", "--slots", "1048576"], {}),
    ("serve-d17", [*SERVE, "--distance", "17"], {}),
    (
        "serve-roce",
        [*SERVE, "--transport", "roce", "--slots", "4096", "--slot-bytes", "4096"],
        {"bound": "a window of each of 64 peers, as if each had written to all of it"},
    ),
    ("serve-roce-1peer", [*SERVE, "--transport", "roce", "--slots", "256", "--slot-bytes", "4096", "--peers", "1"], {}),
    ("stream-d7-4", [*SERVE, "--stream", "--distance", "7", "--decoders", "4"], {}),
    ("patches-d5-100", [*SERVE, "--stream", "--distance", "5", "--decoders", "100"], {}),
    ("config-bb144", [*SERVE, "--config", "BB144"], {}),
    ("config-d13-2", [*SERVE, "--config", "D13"], NEAR_LISTS),
    ("config-d9-2", [*SERVE, "--config", "D9"], NEAR_LISTS),
    ("reload-d9", [*SERVE, "--config", "D9"], {"reload": "D9", **NEAR_LISTS}),
    ("reload-d13", [*SERVE, "--config", "D13"], {"reload": "D13", **NEAR_LISTS}),
    ("reload-bb144", [*SERVE, "--config", "BB144"], {"reload": "BB144"}),
    ("emulate-d17", ["emulate", "--connect", "SERVICE", "--function", "decode", "--distance", "17", "--requests", "5"], {}),
    ("emulate-d9", ["emulate", "--connect", "SERVICE", "--function", "decode", "--distance", "9", "--requests", "5"], {}),
    ("predict-chain", ["predict", "--dem", "CHAIN", "--threads", "1"], {"shots": True}),
    ("predict-grid24", ["predict", "--dem", "GRID24", "--threads", "1"], {"shots": True}),
    (
        "predict-grid8",
        ["predict", "--dem", "GRID8", "--threads", "1"],
        {"shots": True, **NEAR_LISTS},
    ),
    ("bb144", [*CODE, "--code", "bb144"], {}),
    ("bb288-both-8workers", ["run", "--requests", "1", "--relay-iterations", "10", "--workers", "8", "--code", "bb288", "--detectors", "both"], {}),
    ("color-d21", [*CODE, "--code", "color", "--distance", "21"], {}),
    ("osd-bb144", [*OSD, "--code", "bb144", "--relay-osd", "0"], {}),
    ("osd-bb288-cs10", [*OSD, "--code", "bb288", "--relay-osd", "cs:10"], {}),
    ("osd-bb288-both-cs100", [*OSD, "--code", "bb288", "--detectors", "both", "--relay-osd", "cs:100"], {}),
    ("osd-color-d21-4workers", ["run", "--requests", "4", "--relay-iterations", "1", "--workers", "4", "--code", "color", "--distance", "21", "--relay-osd", "0"], {}),
    ("osd-sweep-bb144", [*SWEEP[:1], "--code", "bb144", "--noises", "0.002", "--shots", "8", "--threads", "2", "--relay-iterations", "1", "--relay-osd", "cs:10"], {}),
]


def chain(path, detectors):
    """Errors between neighbours in a line, of many rates."""
    rates = random.Random(1)
    with open(path, "w") as file:
        print("error(0.01) D0 L0", file=file)
        for at in range(detectors - 1):
            print(f"error({rates.uniform(0.005, 0.02):.4f}) D{at} D{at + 1}", file=file)
        print(f"error(0.01) D{detectors - 1}", file=file)


def grid(path, side):
    """Errors between neighbours in a box, which two faces bound, of many rates."""
    rates = random.Random(1)
    number = lambda x, y, z: (x * side + y) * side + z
    with open(path, "w") as file:
        for x in range(side):
            for y in range(side):
                for z in range(side):
                    at = number(x, y, z)
                    if x == 0:
                        print(f"error(0.002) D{at} L0", file=file)
                    if x == side - 1:
                        print(f"error(0.002) D{at}", file=file)
                    for other in [(x + 1, y, z), (x, y + 1, z), (x, y, z + 1)]:
                        if max(other) < side:
                            print(f"error({rates.uniform(0.001, 0.004):.5f}) D{at} D{number(*other)}", file=file)


class Files:
    """What the words in capitals stand for. Each is made when it is asked for."""

    def __init__(self, program, folder):
        self.program, self.folder, self.service = program, pathlib.Path(folder), None

    def path(self, word):
        path = self.folder / word
        if path.exists():
            return str(path)
        if word == "CHAIN":
            chain(path, 200_000)
        elif word.startswith("GRID"):
            grid(path, int(word.removeprefix("GRID")))
        else:
            words = ["--code", "bb144"] if word == "BB144" else ["--distance", word.removeprefix("D")]
            decoders = "1" if word == "BB144" else "2"
            command = [self.program, "serve", *words, "--write-config", str(path), "--decoders", decoders]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return str(path)

    def again(self, word, path):
        """Writes the changed configuration to a file: its first error has another rate. (By a child, since this script has to stay small.)"""
        rate = r"0,/error_rate_vec: \[[0-9.e-]*/s//error_rate_vec: [0.00123/"
        with open(path, "w") as file:
            subprocess.run(["sed", rate, self.path(word)], check=True, stdout=file)

    def port(self):
        """A port where nobody answers."""
        if self.service is None:
            self.service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.service.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{self.service.getsockname()[1]}"

    def words(self, words):
        for word in words:
            if word == "SERVICE":
                yield self.port()
            elif word.isupper() and word.isalnum():
                yield self.path(word)
            else:
                yield word


def until(holds, seconds=300):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def measure(files, words, more):
    """Estimate and peak, MiB."""
    words = list(files.words(words))
    if "reload" in more:
        served = str(files.folder / "served.yaml")
        subprocess.run(["cp", words[-1], served], check=True)
        words[-1] = served
    if "--connect" in words:
        words += ["--transport", "udp", "--timeout", "200ms"]
    with tempfile.TemporaryFile("w+") as log, tempfile.NamedTemporaryFile() as shots, tempfile.NamedTemporaryFile() as out:
        if more.get("shots"):
            # No shot at all: the decoder is what takes memory.
            words += ["--in", shots.name, "--in_format", "b8", "--out", out.name, "--out_format", "01"]
        child = subprocess.Popen(
            [files.program, *words, *LIMIT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )

        def logged():
            log.flush()
            return os.pread(log.fileno(), 1 << 16, 0).decode()

        if words[0] == "serve":
            if not child.stdout.readline():
                child.wait()
                raise RuntimeError(logged())
            if "reload" in more:
                files.again(more["reload"], words[words.index("--config") + 1])
                os.kill(child.pid, signal.SIGHUP)
                until(lambda: "was read again" in logged())
            time.sleep(2)
            child.send_signal(signal.SIGTERM)
        for _ in child.stdout:
            pass
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        text = logged()
    estimates = ESTIMATE.findall(text)
    if not estimates:
        raise RuntimeError(f"exit code {child.returncode}: {text}")
    number, unit = estimates[-1]
    # A child that is forked begins with this script's pages, which its program then replaces.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if usage.ru_maxrss <= own:
        raise RuntimeError(f"{usage.ru_maxrss} KiB, no more than this script has: not measured")
    return float(number) * UNITS[unit] / (1 << 20), usage.ru_maxrss / 1024


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("program")
    arguments.add_argument("--json", type=pathlib.Path)
    arguments.add_argument("--device", default="this machine")
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    chosen = [c for c in CONFIGURATIONS if not options.names or any(name in c[0] for name in options.names)]
    rows, past, within, bounds = [], [], 0, 0
    print("| configuration | estimate, MiB | taken, MiB | ratio | |")
    print("|---|--:|--:|--:|---|")
    with tempfile.TemporaryDirectory() as folder:
        files = Files(program, folder)
        for name, words, more in chosen:
            estimate, taken = measure(files, words, more)
            ratio = estimate / taken
            bound = more.get("bound")
            close = abs(ratio - 1) <= 0.25
            within += close
            bounds += bound is not None and not close
            if taken > 1.25 * estimate:
                past.append(name)
            note = "" if close else f"a bound: {bound}" if bound else "not within 25%"
            print(f"| `{' '.join(words)}`{', then SIGHUP' if 'reload' in more else ''} | {estimate:.0f} | {taken:.0f} | {ratio:.2f} | {note} |")
            sys.stdout.flush()
            row = {"name": name, "command": " ".join(words), "estimate_mib": round(estimate, 1), "taken_mib": round(taken, 1)}
            rows.append({**row, "ratio": round(ratio, 2), **({"bound": bound} if bound else {})})
    print(f"\n{within} of {len(rows)} are within 25%, {bounds} others are bounds; {len(past)} took more than estimate and a quarter")
    if options.json:
        how = "tests/memory.py PROGRAM --json FILE: each command's estimate and the most that it had in memory"
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        head = f' "device": {json.dumps(options.device)},\n "how": {json.dumps(how)},\n'
        options.json.write_text(f'{{\n{head} "rows": [\n{lines}\n ]\n}}\n')
    return 1 if past else 0


if __name__ == "__main__":
    sys.exit(main())
