#!/usr/bin/env python3
"""Trains the networks, then measures them: see README.md. Everything lands in --out; nothing else is needed.

One network after the other, each on every GPU; --seconds is the whole command's time.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

# PyTorch is imported where it is used: the evaluation's worker processes read this file too, and want none of it.

# (distance, p, weight of its time)
CASES = [
    (13, 0.006, 1.0),
    (13, 0.003, 4.0),
    (9, 0.006, 0.6),
    (9, 0.003, 1.5),
    (7, 0.006, 0.4),
    (7, 0.003, 1.0),
]
TINY = [(3, 0.006, 1.0), (5, 0.006, 1.0)]


def train(arguments):
    import torch
    from predecoder import fit

    recipe = fit.Recipe(
        width=arguments.width,
        hidden=arguments.hidden,
        ends=arguments.until,
        seed=arguments.seed,
        max_steps=arguments.max_steps,
        rate=arguments.rate,
        start=str(arguments.start or ""),
        devices=arguments.processes,
        integers=arguments.integers,
    )
    if arguments.tiny:
        recipe.volumes, recipe.cells, recipe.warm_up = ((3, 0.5), (5, 0.5)), 4000, 10
    device = torch.device("cuda", arguments.rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    say = lambda text: print(text, flush=True)  # noqa: E731
    workers = max(1, arguments.workers // arguments.processes)
    fit.fit(recipe, arguments.out, device, arguments.rank, arguments.port, workers, say)


def train_together(arguments, width, until):
    """A process for each device. One that fails ends the others, who would wait for it. Whether it went well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(arguments.processes):
        more = {"until": until, "width": width, "rank": rank, "port": port, "processes": arguments.processes}
        command = [sys.executable, __file__, *sys.argv[1:]]
        command += [word for name, value in more.items() for word in (f"--{name}", str(value))]
        processes.append(subprocess.Popen(command))
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            for process in processes:
                process.terminate()
        time.sleep(0.2)
    return not any(process.returncode for process in processes)


def evaluate(arguments, name, seconds, evaluator):
    import torch
    from predecoder import measure
    from predecoder.quantized import load

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network, held = load(arguments.out / f"{name}.pt")
    torch.backends.cudnn.benchmark = True
    # In half precision, as it is exported. Integers are exact in what tensor cores make of single precision.
    dtype = torch.float16 if device.type == "cuda" and not held["integers"] else torch.float32
    network = measure.Network(network, device, dtype)
    path = arguments.out / f"{name}.metrics.json"

    def save(results):
        held = {"name": name, "seed": arguments.seed, "cases": results}
        path.write_text(json.dumps(held, indent=1) + "\n")

    say = lambda text: print(f"{name}: {text}", flush=True)  # noqa: E731
    cases = TINY if arguments.tiny else CASES
    measure.evaluate(network, evaluator, cases, seconds, arguments.failures, arguments.seed, say, save)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=560, help="of the whole command")
    parser.add_argument("--evaluate", type=float, default=110, help="seconds of them kept for the evaluation")
    parser.add_argument("--widths", default="128,64", help="networks to train, hidden layers this wide")
    parser.add_argument("--shares", default="0.72,0.28", help="of the training time, for each")
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate")
    parser.add_argument("--start", type=Path, help="a core in ONNX, of the one width trained, whose training goes on")
    parser.add_argument("--integers", action="store_true", help="for integer arithmetic: see predecoder/integers.py")
    parser.add_argument("--processes", type=int, help="that train a network together (default: one a GPU)")
    parser.add_argument("--hidden", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failures", type=int, default=4000, help="of matching alone, after which a case ends")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--max-steps", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="small volumes: a test of the program, not of the network")
    parser.add_argument("--only-evaluate", action="store_true", help="checkpoints are in --out already")
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    for name in ("--width", "--rank", "--port"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.until:
        return train(arguments)
    begun = time.monotonic()
    import torch
    from predecoder import measure

    arguments.out.mkdir(parents=True, exist_ok=True)
    cases = TINY if arguments.tiny else CASES
    evaluator = measure.Evaluator(arguments.workers, [(distance, p) for distance, p, _ in cases])
    widths = [int(width) for width in arguments.widths.split(",")]
    shares = [float(share) for share in arguments.shares.split(",")]
    gpus = torch.cuda.device_count()
    arguments.processes = arguments.processes or max(1, gpus)
    print(f"PyTorch {torch.__version__} after {time.monotonic() - begun:.1f} s, {gpus} GPUs", flush=True)
    failed = False
    if not arguments.only_evaluate:
        left = arguments.seconds - arguments.evaluate
        for k, width in enumerate(widths):
            share = sum(shares[: k + 1]) / sum(shares[: len(widths)])
            until = time.time() + left * share - (time.monotonic() - begun)
            failed |= not train_together(arguments, width, until)
    print(f"training: {time.monotonic() - begun:.1f} s", flush=True)
    for k, width in enumerate(widths):
        left = arguments.seconds - (time.monotonic() - begun) - 5
        # The first, largest network's figures matter most.
        share = left if k == len(widths) - 1 else left * 0.65
        name = f"{arguments.hidden}x{width}" + "_int8" * arguments.integers
        if share > 1 and (arguments.out / f"{name}.pt").exists():
            evaluate(arguments, name, share, evaluator)
    evaluator.close()
    print(f"all: {time.monotonic() - begun:.1f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
