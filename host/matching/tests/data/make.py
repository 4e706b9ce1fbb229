#!/usr/bin/env python3
"""Writes matching problems with PyMatching's answers.

    make.py random SEED COUNT [SHOTS]   random graphs, one line each, with 4 shots or as many, to standard output
    make.py circuits            a few circuit graphs with shots, to standard output
    make.py circuit D P SHOTS SEED  one circuit graph with shots, to standard output
    make.py bench D P SHOTS OUT a circuit graph and shots as OUT.graph and OUT.shots, for `examples/matching_bench.rs`

A line is `DETECTORS OBSERVABLES STRATEGY;U V WEIGHT PROBABILITY OBSERVABLES;...|DEFECTS=WEIGHT OBSERVABLES|...`: V is `b` for
the boundary, PROBABILITY is -1 where unknown, lists are joined by commas. The edges are as handed to PyMatching,
before merging. The answer is `odd` where PyMatching finds that there is no perfect matching.

The committed files are `make.py random 1 400 > random.txt` and `make.py circuits > circuits.txt`, made with PyMatching 2.4.0
and Stim 1.16.0.
"""
import random
import sys

import numpy as np
import pymatching

STRATEGIES = ["disallow", "independent", "smallest-weight", "keep-original", "replace"]


def weight(rng, kind):
    if kind == 0:
        return rng.randint(1, 3)
    if kind == 1:
        return rng.randint(0, 20)
    if kind == 2:
        return rng.random() * 10
    if kind == 3:
        return rng.choice([2.5, 2.5, 5.0, 7.25])
    if kind == 4:
        return rng.randint(-3, 8)
    if kind == 5:
        return rng.gauss(2, 2)
    return 10 ** rng.uniform(-3, 7)


def ends(rng, n):
    """Pairs to join: dense, sparse, a ring with chords, or a grid."""
    kind = rng.randrange(4)
    if kind == 0:
        p = rng.choice([0.3, 0.6, 1.0]) if n < 20 else 6.0 / n
        return [(u, v) for u in range(n) for v in range(u) if rng.random() < p]
    if kind == 1:
        return [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randint(1, 3 * n))]
    if kind == 2:
        return [(i, (i + 1) % n) for i in range(n)] + [(rng.randrange(n), rng.randrange(n)) for _ in range(n // 4)]
    side = max(2, int(n**0.5))
    return [(i, i + 1) for i in range(n - 1) if (i + 1) % side] + [(i, i + side) for i in range(n - side)]


def problem(rng, shots):
    size = rng.random()
    # Few are beyond the 512 detectors up to which there is a table of all pairs.
    n = rng.randint(2, 14) if size < 0.85 else rng.randint(15, 60) if size < 0.998 else rng.randint(500, 700)
    kind = rng.randrange(7)
    observables = rng.choice([0, 1, 1, 2, 3, 70])
    strategy = rng.choice(STRATEGIES)
    m = pymatching.Matching()
    m.ensure_num_fault_ids(observables)
    edges = []
    pairs = [(u, v) for u, v in ends(rng, n) if u != v]
    for u in range(n):
        if rng.random() < (0, 0, 0.15, 0.5, 1.0)[hash_kind(rng)]:
            pairs.append((u, None))
    if pairs and strategy != "disallow" and rng.random() < 0.3:
        pairs += rng.choices(pairs, k=rng.randint(1, len(pairs)))
    rng.shuffle(pairs)
    seen = set()
    for u, v in pairs:
        key = (u, None) if v is None else (min(u, v), max(u, v))
        if key in seen and strategy == "disallow":
            continue
        seen.add(key)
        w = weight(rng, kind)
        p = rng.random() if rng.random() < 0.5 else None
        flips = set(rng.randrange(observables) for _ in range(rng.randint(0, 2))) if observables else set()
        args = dict(fault_ids=flips, weight=w, error_probability=p, merge_strategy=strategy)
        if v is None:
            m.add_boundary_edge(u, **args)
        else:
            m.add_edge(u, v, **args)
        name = "b" if v is None else v
        edges.append(f"{u} {name} {w!r} {-1 if p is None else repr(p)} {','.join(map(str, sorted(flips)))}")
    if not edges:
        return None
    n = m.num_detectors
    out = [f"{n} {m.num_fault_ids} {strategy};" + ";".join(edges)]
    for _ in range(shots):
        density = rng.choice([0.2, 0.5, 0.9, 1.0])
        defects = [i for i in range(n) if rng.random() < density]
        out.append(shot(m, n, defects))
    return "|".join(out)


def hash_kind(rng):
    """One draw per graph would be less varied than one per node; this keeps both kinds of graph."""
    rng.kind = getattr(rng, "kind", 0)
    if rng.random() < 0.1:
        rng.kind = rng.randrange(5)
    return rng.kind


def shot(m, n, defects):
    syndrome = np.zeros(n, dtype=np.uint8)
    syndrome[defects] = 1
    try:
        prediction, w = m.decode(syndrome, return_weight=True)
    except ValueError:
        answer = "odd"
    else:
        answer = f"{float(w)!r} {','.join(map(str, np.flatnonzero(prediction)))}"
    return f"{','.join(map(str, defects))}={answer}"


def circuit(distance, p, shots, seed=7, task="surface_code:rotated_memory_z"):
    import stim

    c = stim.Circuit.generated(
        task,
        distance=distance,
        rounds=distance,
        after_clifford_depolarization=p,
        before_round_data_depolarization=p,
        before_measure_flip_probability=p,
        after_reset_flip_probability=p,
    )
    m = pymatching.Matching.from_detector_error_model(c.detector_error_model(decompose_errors=True))
    return m, c, c.compile_detector_sampler(seed=seed).sample(shots)


def print_circuit(distance, p, shots, seed):
    m, c, detections = circuit(distance, p, shots, seed)
    edges = [
        f"{u} {'b' if v is None else v} {a['weight']!r} {a['error_probability']!r} "
        f"{','.join(map(str, sorted(a['fault_ids'])))}"
        for u, v, a in m.edges()
    ]
    head = f"{c.num_detectors} {c.num_observables} disallow;" + ";".join(edges)
    shot_texts = [shot(m, c.num_detectors, list(np.flatnonzero(s))) for s in detections]
    print("|".join([head] + shot_texts))


def bench(distance, p, shots, out):
    import time

    m, c, detections = circuit(distance, p, shots)
    with open(out + ".graph", "w") as f:
        f.write(f"{c.num_detectors} {c.num_observables}\n")
        for u, v, a in m.edges():
            flips = " ".join(map(str, sorted(a["fault_ids"])))
            f.write(f"{u} {'b' if v is None else v} {a['weight']!r} {flips}\n")
    with open(out + ".shots", "w") as f:
        for s in detections:
            prediction, w = m.decode(s, return_weight=True)
            f.write(f"{float(w)!r} {int(prediction[0])} {' '.join(map(str, np.flatnonzero(s)))}\n")
    packed = np.packbits(detections, axis=1, bitorder="little")
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        m.decode_batch(packed, bit_packed_shots=True)
        best = min(best, time.perf_counter() - begin)
    print(f"d={distance} p={p}: PyMatching decode_batch {best / shots * 1e6:.2f} us a shot")


def main():
    if sys.argv[1] == "random":
        rng = random.Random(int(sys.argv[2]))
        left = int(sys.argv[3])
        shots = int(sys.argv[4]) if len(sys.argv) > 4 else 4
        while left:
            line = problem(rng, shots)
            if line:
                print(line)
                left -= 1
    elif sys.argv[1] == "circuits":
        for distance, p in [(3, 0.01), (5, 0.008), (5, 0.03), (7, 0.008)]:
            print_circuit(distance, p, 40, 7)
    elif sys.argv[1] == "circuit":
        print_circuit(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        bench(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])


main()
