#!/usr/bin/env python3
"""How long Ctrl-C takes to end each command, at random moments.

    tests/interrupts.py PROGRAM [COUNT [SEED [NAME …]]]

Starts each command COUNT times (50), sends SIGINT at a random moment of its first seconds, and prints for each the slowest end
and the exit codes. A command that is not gone after 20 s is killed and counted. It asserts no time: a machine that is busy is
slow. The bound that is aimed at is 0.5 s, and 2 s where requests under way are answered first (`run`, `serve`).
"""

import collections
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
# Within which time the signal comes, s; the command's words.
COMMANDS = {
    "run": (3.0, ["run", "--duration", "60"]),
    "run, a large code": (6.0, ["run", "--distance", "71", "--max-memory", "1TiB"]),
    "sweep": (3.0, ["sweep", "--shots", "1e9"]),
    "sweep, a large code": (6.0, ["sweep", "--distance", "71,101", "--p", "0.001", "--max-memory", "1TiB"]),
    "predict": (2.0, ["predict", "--dem", str(DATA / "surface.dem"), "--in", "/dev/zero", "--out", "{}/out"]),
    "count_mistakes": (
        2.0,
        ["count_mistakes", "--dem", str(DATA / "surface.dem"), "--in", "/dev/zero", "--in_format", "b8",
         "--in_includes_appended_observables"],
    ),
    "serve": (2.0, ["serve"]),
    "emulate": (2.0, ["emulate", "--connect", "127.0.0.1:PORT", "--requests", "1e9", "--timeout", "1s"]),
    "bench": (3.0, ["bench", "floor-host", "host-call", "matching"]),
    "doctor": (0.3, ["doctor"]),
}


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    names = sys.argv[4:] or list(COMMANDS)
    # What `emulate` asks: it is there, and never answers.
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    port = str(silent.getsockname()[1])
    for name in names:
        within, words = COMMANDS[name]
        slowest, codes, left = (0.0, 0.0), collections.Counter(), 0
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder:
                words_here = [word.replace("{}", folder).replace("PORT", port) for word in words]
                child = subprocess.Popen(
                    [program, *words_here],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                moment = draw.uniform(0.0, within)
                time.sleep(moment)
                begin = time.monotonic()
                child.send_signal(signal.SIGINT)
                try:
                    code = child.wait(20)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
                    code = "not gone after 20 s"
                slowest = max(slowest, (time.monotonic() - begin, moment))
                codes[code] += 1
                left += len(list(pathlib.Path(folder).iterdir()))
        took, moment = slowest
        shown = ", ".join(f"{code}: {times}" for code, times in sorted(codes.items(), key=str))
        print(f"{name:22} slowest {took:6.3f} s (after {moment:5.2f} s)  exit codes {shown}  files left {left}", flush=True)


if __name__ == "__main__":
    main()
