#!/usr/bin/env python3
"""Long tests of what must hold: kills, signals, full disks, races for one file, a soak of the ring.

    tests/endurance.py kill    --ringcall target/release/ringcall --times 200
    tests/endurance.py full    --ringcall target/release/ringcall --times 20     (as root: mounts a small tmpfs)
    tests/endurance.py two     --ringcall target/release/ringcall --times 20
    tests/endurance.py signals --ringcall target/release/ringcall --times 200
    tests/endurance.py soak    --chaos target/release/deps/chaos-HASH --requests 1000000000

Each prints a line a failure and a last line with counts, and ends with 0 if nothing failed. Standard library alone.
"""
import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = ["sweep", "--distances", "3,5", "--noises", "0.01,0.02", "--shots", "20000", "--batch", "100"]
# A state that is locked by a process that was just killed, or has no room: what a run may end with besides success.
ENDED_BY_US = (-signal.SIGKILL,)


def points(program, state=None):
    """The counts of the study, as it ends; without times, which differ."""
    more = ["--state", str(state)] if state else []
    done = subprocess.run([program, *STUDY, "--json", "-", *more], capture_output=True, check=True, timeout=600)

    def untimed(value):
        if isinstance(value, dict):
            timed = ("_ns", "_us", "_s", "seconds", "time")
            return {key: untimed(item) for key, item in value.items() if not key.endswith(timed)}
        return [untimed(item) for item in value] if isinstance(value, list) else value

    return untimed(json.loads(done.stdout)["points"])


def users_file(folder):
    """A file of somebody's beside the state, which nothing may touch."""
    path = folder / "thesis.tex"
    path.write_text("chapter one, without an end")
    return path, path.read_bytes()


def kill(args, rng):
    expected = points(args.ringcall)
    failed = kills = ends = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mine, before = users_file(folder)
        state = folder / "state"
        while kills < args.times:
            run = subprocess.Popen([args.ringcall, *STUDY, "--state", str(state)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
            try:
                run.wait(timeout=rng.uniform(0, args.within))
            except subprocess.TimeoutExpired:
                run.kill()
            said = run.communicate()[1].decode()
            if run.returncode in ENDED_BY_US:
                kills += 1
            elif run.returncode == 0:
                ends += 1
                failed += points(args.ringcall, state) != expected
                state.unlink()
            else:
                failed += 1
                print(f"ended with {run.returncode}: {said}")
        if points(args.ringcall, state) != expected:
            failed += 1
            print("counts differ after the last kill")
        failed += mine.read_bytes() != before
    return failed, f"{kills} kills, {ends} studies that came to their end in between"


def full(args, rng):
    expected = points(args.ringcall)
    failed = filled = 0
    for _ in range(args.times):
        with tempfile.TemporaryDirectory() as name:
            small = Path(name) / "small"
            small.mkdir()
            pages = rng.randint(2, 24)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={pages * 4096}", "tmpfs", str(small)], check=True)
            try:
                mine, before = users_file(small)
                state = small / "state"
                run = subprocess.run([args.ringcall, *STUDY, "--state", str(state)], capture_output=True, timeout=600)
                filled += run.returncode != 0
                if run.returncode not in (0, 1) or (run.returncode == 1 and run.stderr.count(b"\n") != 1):
                    failed += 1
                    print(f"ended with {run.returncode}: {run.stderr.decode()}")
                failed += mine.read_bytes() != before
                # With room it goes on.
                subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
                if points(args.ringcall, state) != expected:
                    failed += 1
                    print("counts differ after the disk was full")
            finally:
                subprocess.run(["umount", str(small)], check=True)
    return failed, f"{args.times} small disks, {filled} of them full"


def two(args, rng):
    expected = points(args.ringcall)
    failed = refused = 0
    for _ in range(args.times):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            mine, before = users_file(folder)
            command = [args.ringcall, *STUDY, "--state", str(folder / "state")]
            first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(rng.uniform(0, 0.05))
            second = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for run in (first, second):
                said = run.communicate(timeout=600)[1].decode()
                refused += run.returncode == 1
                if run.returncode not in (0, 1) or (run.returncode == 1 and "another process" not in said):
                    failed += 1
                    print(f"ended with {run.returncode}: {said}")
            failed += first.returncode + second.returncode > 1
            if points(args.ringcall, folder / "state") != expected:
                failed += 1
                print("counts differ after two processes")
            failed += mine.read_bytes() != before
    return failed, f"{args.times} pairs, {refused} refused"


def commands(program, folder, port):
    """Every command that takes longer than a moment: its arguments, and how long it may drain."""
    model = folder / "model.dem"
    yield "run", ["run", "--distance", "5", "--requests", "100000000"], 2.0
    yield "run, set-up", ["run", "--distance", "31", "--requests", "100000000"], 0.5
    yield "serve", ["serve", "--distance", "3"], 2.0
    yield "serve, roce", ["serve", "--transport", "roce", "--distance", "3"], 2.0
    yield "serve, nic", ["serve", "--transport", "nic", "--distance", "3"], 2.0
    yield "emulate", ["emulate", "--connect", f"127.0.0.1:{port}", "--requests", "1000000000"], 2.0
    yield "sweep", ["sweep", "--shots", "1000000000", "--state", str(folder / "state")], 0.5
    yield "bench", ["bench", "host-call/32", "--trips", "1000000000"], 0.5
    if model.exists():
        yield "predict", ["predict", "--dem", str(model), "--in", "/dev/zero", "--in_format", "b8", "--out_format", "01",
                          "--out", "/dev/null"], 0.5


def signals(args, rng):
    failed, worst, sent = 0, {}, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.dem").write_text("error(0.1) D0 L0\n" + "".join(f"error(0.1) D{d - 1} D{d}\n" for d in range(1, 64)))
        peer = subprocess.Popen([args.ringcall, "serve", "--distance", "3"], stdout=subprocess.PIPE)
        line = peer.stdout.readline().decode()
        port = dict(word.split("=", 1) for word in line.split())["port"]
        plan = list(commands(args.ringcall, folder, port))
        for turn in range(args.times):
            what, command, bound = plan[turn % len(plan)]
            number = rng.choice([signal.SIGINT, signal.SIGTERM])
            run = subprocess.Popen([args.ringcall, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            # Half of the moments lie in the first 50 ms: set-up.
            time.sleep(rng.uniform(0, 0.05) if turn % 2 else rng.uniform(0, args.within))
            if run.poll() is not None:
                failed += 1
                print(f"{what}: ended by itself with {run.returncode}: {run.stderr.read().decode()}")
                continue
            begin = time.monotonic()
            run.send_signal(number)
            sent += 1
            try:
                run.wait(timeout=30)
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
            took = time.monotonic() - begin
            worst[what] = max(worst.get(what, 0), took)
            said = run.stderr.read().decode()
            if took > bound or run.returncode not in (0, 128 + number, -number):
                failed += 1
                print(f"{what}: {number.name} took {took:.2f} s of {bound}, ended with {run.returncode}: {said}")
        peer.terminate()
        peer.wait()
    longest = ", ".join(f"{what} {took * 1e3:.0f} ms" for what, took in worst.items())
    return failed, f"{sent} signals; the longest: {longest}"


def soak(args, rng):
    """Chaos runs with seeds of their own: panics, failures, deferrals, garbage, restarts; every request accounted for."""
    done, failed, peaks = 0, 0, []
    begin = time.monotonic()
    until = begin + args.minutes * 60
    with tempfile.NamedTemporaryFile() as log:
        while done < args.requests and time.monotonic() < until:
            each = min(args.each, args.requests - done)
            env = {**os.environ, "RINGCALL_CHAOS_REQUESTS": str(each), "RINGCALL_CHAOS_SEED": str(rng.getrandbits(32))}
            with open(log.name, "wb") as out:
                run = subprocess.Popen([args.chaos, "--test-threads", "1"], env=env, stdout=out, stderr=subprocess.STDOUT)
                _, status, usage = os.wait4(run.pid, 0)
                run.returncode = os.waitstatus_to_exitcode(status)
            if run.returncode != 0:
                failed += 1
                shutil.copy(log.name, f"soak-{env['RINGCALL_CHAOS_SEED']}.log")
                print(f"seed {env['RINGCALL_CHAOS_SEED']} failed: soak-{env['RINGCALL_CHAOS_SEED']}.log")
            done += each
            peaks.append(usage.ru_maxrss / 1024)
            if len(peaks) % 10 == 1:
                print(f"{done} requests after {time.monotonic() - begin:.0f} s, peak {peaks[-1]:.0f} MiB", flush=True)
    return failed, f"{done} requests in {len(peaks)} runs; peak memory {min(peaks):.0f} to {max(peaks):.0f} MiB a run"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kill", "full", "two", "signals", "soak"])
    parser.add_argument("--ringcall", default="target/release/ringcall")
    parser.add_argument("--chaos", help="the program of the test `chaos` of ringcall-pipeline")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--within", type=float, default=1.0, help="seconds until a kill or signal, at most")
    parser.add_argument("--requests", type=int, default=1_000_000_000)
    parser.add_argument("--each", type=int, default=10_000_000, help="requests of a run of the soak")
    parser.add_argument("--minutes", type=float, default=1e9, help="the soak ends after so many")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    failed, text = globals()[args.what](args, random.Random(args.seed))
    print(f"{args.what}: {text}; {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
