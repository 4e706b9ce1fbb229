#!/usr/bin/env python3
"""Writes error models with PyMatching's answers in correlated matching (two passes).

    make_correlated.py random SEED COUNT         random models, one line each, to standard output
    make_correlated.py circuits                  a few circuits with shots, to standard output
    make_correlated.py circuit TASK D P SHOTS SEED  one circuit with shots, to standard output
    make_correlated.py time D P SHOTS            times PyMatching, shot by shot and in a batch

A line is `DETECTORS OBSERVABLES;ERROR;...|SHOT|...`. An ERROR is `PROBABILITY PART^PART...`, a PART
`DETECTORS:OBSERVABLES`. A SHOT is `DEFECTS=WEIGHT PREDICTED FIRST TRUTH`: the weight and the observables that the second
pass gives, the edges `U-V` (or `U-b` for the boundary) of the first pass, and the observables that were flipped
(`?` where there is no truth). Lists are joined by commas. The answer is `odd` where there is no perfect matching.

The committed files are `random 1 300 > correlated_random.txt` and `circuits > correlated_circuits.txt`, made with
PyMatching 2.4.0 and Stim 1.16.0.
"""
import random
import sys
import time

import numpy as np
import pymatching
import stim


def errors_of(dem):
    out = []
    for instruction in dem.flattened():
        if instruction.type != "error":
            continue
        parts = [([], [])]
        for target in instruction.targets_copy():
            if target.is_separator():
                parts.append(([], []))
            elif target.is_relative_detector_id():
                parts[-1][0].append(target.val)
            else:
                parts[-1][1].append(target.val)
        text = "^".join(f"{','.join(map(str, d))}:{','.join(map(str, o))}" for d, o in parts)
        out.append(f"{instruction.args_copy()[0]!r} {text}")
    return out


def line(dem, detections, truth=None):
    matching = pymatching.Matching.from_detector_error_model(dem, enable_correlations=True)
    texts = [f"{dem.num_detectors} {dem.num_observables};" + ";".join(errors_of(dem))]
    for number, row in enumerate(detections):
        row = np.asarray(row, dtype=np.uint8)
        defects = ",".join(map(str, np.flatnonzero(row)))
        try:
            predicted, weight = matching.decode(row, return_weight=True, enable_correlations=True)
        except ValueError:
            texts.append(f"{defects}=odd")
            continue
        first = ",".join(f"{u}-{'b' if v == -1 else v}" for u, v in matching.decode_to_edges_array(row))
        flips = ",".join(map(str, np.flatnonzero(predicted)))
        true = "?" if truth is None else ",".join(map(str, np.flatnonzero(truth[number])))
        texts.append(f"{defects}={float(weight)!r} {flips} {first} {true}")
    return "|".join(texts)


def circuit(task, distance, p):
    return stim.Circuit.generated(
        task,
        distance=distance,
        rounds=distance,
        after_clifford_depolarization=p,
        before_round_data_depolarization=p,
        before_measure_flip_probability=p,
        after_reset_flip_probability=p,
    )


def sampled(task, distance, p, shots, seed):
    c = circuit(task, distance, p)
    detections, truth = c.compile_detector_sampler(seed=seed).sample(shots, separate_observables=True)
    return c.detector_error_model(decompose_errors=True), detections, truth


def random_model(rng):
    """Any parts at all: up to four, repeated ones, loose ends, parallel edges with other observables."""
    n = rng.randint(2, 12) if rng.random() < 0.85 else rng.randint(13, 50)
    observables = rng.choice([0, 1, 1, 2, 70])
    boundary = rng.choice([0.0, 0.2, 0.4])
    high = rng.choice([0.05, 0.3, 0.5])
    # Edges are drawn from a list, so that errors share them.
    edges = []
    for _ in range(rng.randint(n, 3 * n)):
        u = rng.randrange(n)
        v = rng.choice([w for w in range(n) if w != u])
        flips = [o for o in range(observables) if rng.random() < 0.7 / observables]
        edges.append((f"D{u}" if rng.random() < boundary else f"D{u} D{v}", " ".join(f"L{o}" for o in flips)))
    lines = []
    for _ in range(rng.randint(n, 4 * n)):
        p = rng.choice([rng.uniform(0, high), 10 ** rng.uniform(-6, -1), 0.0 if rng.random() < 0.1 else 0.5 * high])
        parts = [" ".join(rng.choice(edges)) for _ in range(rng.choice([1, 1, 2, 2, 3, 4]))]
        lines.append(f"error({p!r}) " + " ^ ".join(parts))
    lines.append(f"detector D{n - 1}")
    if observables:
        lines.append(f"logical_observable L{observables - 1}")
    if rng.random() < 0.1:
        lines.append("error(0.1) L0" if observables else "error(0.1)")
    return stim.DetectorErrorModel("\n".join(lines)), n


def main():
    if sys.argv[1] == "random":
        rng = random.Random(int(sys.argv[2]))
        left = int(sys.argv[3])
        while left:
            dem, n = random_model(rng)
            weights = pymatching.Matching.from_detector_error_model(dem).edges()
            if max((w["weight"] for _, _, w in weights), default=0) < 0.01:
                continue  # all of it is rounding error, which differs
            left -= 1
            shots = [[rng.random() < density for _ in range(n)] for density in (0.2, 0.4, 0.6, 1.0)]
            print(line(dem, shots))
    elif sys.argv[1] == "circuits":
        for task, d, p, shots in [
            ("surface_code:rotated_memory_z", 3, 0.01, 1200),
            ("surface_code:rotated_memory_x", 5, 0.005, 1000),
            ("surface_code:rotated_memory_z", 5, 0.01, 400),
            ("surface_code:rotated_memory_z", 7, 0.005, 500),
        ]:
            print(line(*sampled(task, d, p, shots, 7)))
    elif sys.argv[1] == "circuit":
        print(line(*sampled(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))))
    else:
        d, p, shots = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
        dem, detections, _ = sampled("surface_code:rotated_memory_z", d, p, shots, 7)
        matching = pymatching.Matching.from_detector_error_model(dem, enable_correlations=True)
        rows = [np.ascontiguousarray(row, dtype=np.uint8) for row in detections]
        times = []
        for row in rows[:100] + rows:
            begin = time.perf_counter_ns()
            matching.decode(row, enable_correlations=True)
            times.append(time.perf_counter_ns() - begin)
        packed = np.packbits(detections, axis=1, bitorder="little")
        best = float("inf")
        for _ in range(3):
            begin = time.perf_counter()
            matching.decode_batch(packed, bit_packed_shots=True, enable_correlations=True)
            best = min(best, time.perf_counter() - begin)
        p50, p99 = np.percentile(times[100:], [50, 99]) / 1000
        print(f"d={d} p={p}: decode p50 {p50:.1f} us, p99 {p99:.1f} us; decode_batch {best / shots * 1e6:.1f} us a shot")


main()
