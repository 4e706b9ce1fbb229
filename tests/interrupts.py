#!/usr/bin/env python3
"""How long Ctrl-C and SIGTERM take to end each command, at random moments.

    tests/interrupts.py PROGRAM [COUNT [SEED [NAME …]]]

Starts each command COUNT times (50), sends SIGINT or SIGTERM at a random moment of its first seconds, or of its whole time where it ends
by itself, and prints for each the median and the slowest end and the exit codes. A command that is not gone after 20 s is killed and counted. It
asserts no time: a machine that is busy is slow. The bound that is aimed at is 0.5 s, and 2 s where requests under way are answered
first (`run`, `serve`).

Exit codes: 130 and 143 are the program's own; -2 and -15 are the system's, for a signal that came before the program's first line; 0 is a service
that was told to end, or a command that was through.
"""

import collections
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
DATA = HERE / "../host/cli/tests/data/predict"
SURFACE = ["--dem", str(DATA / "surface.dem")]
LARGE = ["--distance", "71", "--max-memory", "1TiB"]
OPTION = ["--in_includes_appended_observables"]
# Within which time the signal comes, s, or None for a command that ends by itself; the command's words.
COMMANDS = {
    "run": (2.0, ["run", "--duration", "60"]),
    "run, a large code": (4.0, ["run", *LARGE]),
    "run, Relay-BP": (2.0, ["run", "--code", "bb144", "--duration", "60"]),
    "sweep": (2.0, ["sweep", "--shots", "1e9"]),
    "sweep, a large code": (4.0, ["sweep", "--distance", "71,101", "--p", "0.001", "--max-memory", "1TiB"]),
    "merge": (None, ["merge", "SHARDS"]),
    "predict": (2.0, ["predict", *SURFACE, "--in", "/dev/zero", "--out", "{}/out"]),
    "predict, a large model": (2.0, ["predict", "--dem", "MODEL", "--in", "/dev/zero", "--out", "{}/out"]),
    "count_mistakes": (2.0, ["count_mistakes", *SURFACE, "--in", "/dev/zero", "--in_format", "b8", *OPTION]),
    "explain": (None, ["explain", "--output", "{}/shot.html"]),
    "explain, a large code": (4.0, ["explain", *LARGE, "--output", "{}/shot.html"]),
    "serve": (2.0, ["serve"]),
    "serve, a large code": (4.0, ["serve", *LARGE, "--slot-bytes", "65536"]),
    "serve --config": (2.0, ["serve", "--config", "CONFIG"]),
    "serve --stream": (2.0, ["serve", "--stream"]),
    "serve --transport roce": (2.0, ["serve", "--transport", "roce"]),
    "serve --transport nic": (2.0, ["serve", "--transport", "nic"]),
    "emulate": (2.0, ["emulate", "--connect", "127.0.0.1:PORT", "--requests", "1e9", "--timeout", "1s"]),
    "emulate, a service": (2.0, ["emulate", "--connect", "SERVICE", "--requests", "1e9"]),
    "emulate, a large code": (
        4.0,
        ["emulate", "--connect", "127.0.0.1:PORT", "--function", "decode", "--timeout", "60s", *LARGE],
    ),
    "top": (2.0, ["top", "METRICS"]),
    "bench": (2.0, ["bench", "floor-host", "host-call", "matching"]),
    "bench, pipelines": (4.0, ["bench", "pipeline-overhead", "pipeline"]),
    "bench, the rest": (4.0, ["bench", "udp", "tag", "bp", "preset/d13"]),
    "doctor": (None, ["doctor"]),
    "completions": (None, ["completions", "bash"]),
    "man": (None, ["man", "{}"]),
    "help": (None, ["help", "run"]),
}


def prepare(program, folder):
    """What the commands' words in capitals stand for, and processes that are there meanwhile."""
    # It is there, and never answers.
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    service = subprocess.Popen(
        [program, "serve", "--metrics", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    line = service.stdout.readline().strip()
    words = {
        "PORT": str(silent.getsockname()[1]),
        "SERVICE": line,
        "METRICS": line.split("metrics=")[1].split()[0],
        "SHARDS": f"{folder}/shards",
        "CONFIG": f"{folder}/decoders.yaml",
        "MODEL": f"{folder}/large.dem",
    }
    study = ["sweep", "--shots", "200", "--batch", "10", "--distance", "3-9", "--p", "0.002:0.02:40"]
    for shard in ["1/2", "2/2"]:
        subprocess.run([program, *study, "--state", words["SHARDS"], "--shard", shard], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([program, "serve", "--distance", "9", "--write-config", words["CONFIG"], "--decoders", "4"], check=True)
    with open(words["MODEL"], "w") as model:
        model.writelines(f"error(0.001) D{i} D{i + 1}\n" for i in range(1_000_000))
        model.write("error(0.001) D0 L0\nerror(0.001) D1000000\n")
    return words, (silent, service)


def filled(words, given, folder):
    return [given.get(word, word.replace("{}", folder).replace("PORT", given["PORT"])) for word in words]


def trial(program, words, within, draw):
    """How long the end took and after which moment, the exit code, and how many files were left."""
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [program, *filled(*words, folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        moment = draw.uniform(0.0, within)
        time.sleep(moment)
        begin = time.monotonic()
        child.send_signal(draw.choice([signal.SIGINT, signal.SIGTERM]))
        try:
            code = child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            code = "not gone after 20 s"
        took = time.monotonic() - begin
        return took, moment, code, 0 if code == 0 else len(list(pathlib.Path(folder).iterdir()))


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    names = sys.argv[4:] or list(COMMANDS)
    with tempfile.TemporaryDirectory() as folder:
        given, (silent, service) = prepare(program, folder)
        for name in names:
            within, words = COMMANDS[name]
            if within is None:
                begin = time.monotonic()
                subprocess.run([program, *filled(words, given, folder)], check=False, stdout=subprocess.DEVNULL)
                within = time.monotonic() - begin
            trials = [trial(program, (words, given), within, draw) for _ in range(count)]
            took, moment, _, _ = max(trials)
            median = sorted(took for took, _, _, _ in trials)[count // 2]
            codes = collections.Counter(code for _, _, code, _ in trials)
            shown = ", ".join(f"{code}: {times}" for code, times in sorted(codes.items(), key=str))
            left = sum(left for _, _, _, left in trials)
            load = os.getloadavg()[0]
            print(
                f"{name:23} median {median:5.3f} s  slowest {took:5.3f} s (after {moment:4.2f} s)  exit codes {shown}  files left {left}  load {load:.0f}",
                flush=True,
            )
        service.terminate()
        service.wait()
        silent.close()


if __name__ == "__main__":
    main()
