#!/usr/bin/env python3
"""Makes the expected data of the tests named dem_*: run it in this folder, with stim and pymatching installed.

memory/    d{distance}_r{rounds}_{basis}.dem        Stim's decomposed, flattened model of a memory experiment
           d{distance}_r{rounds}_{basis}.whole.dem  the same, undecomposed
           d{distance}_r{rounds}_{basis}.stim       the circuit
           d{distance}_r{rounds}_{basis}.edges      the matching graph that PyMatching builds from the model, a line
                                                    an edge: detector, detector or -, observables or -, probability
digests.txt    what is too large to keep, a line a model; ../model_digest.py defines the digest
text/      NAME.dem as Stim writes it, and NAME.flat.dem, the same flattened by Stim
versions.txt   of the programs that made all this
"""

import pathlib
import platform
import sys

import pymatching
import stim

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from model_digest import digest  # noqa: E402

# after Clifford, before round, before measure, after reset: all different, so that none can stand in for another.
UNEVEN = (0.001, 0.002, 0.003, 0.004)
EVEN = (0.003, 0.003, 0.003, 0.003)


def circuit(distance, rounds, basis, rates):
    names = (
        "after_clifford_depolarization",
        "before_round_data_depolarization",
        "before_measure_flip_probability",
        "after_reset_flip_probability",
    )
    task = f"surface_code:rotated_memory_{basis}"
    return stim.Circuit.generated(task, distance=distance, rounds=rounds, **dict(zip(names, rates)))


def model_of(circuit, decompose):
    return circuit.detector_error_model(decompose_errors=decompose, flatten_loops=True)


def write(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(exist_ok=True)
    path.write_text(str(text).rstrip("\n") + "\n")


def edges(model):
    matching = pymatching.Matching.from_detector_error_model(model)
    for a, b, data in matching.edges():
        ends = [a] if b is None else sorted((a, b))
        observables = ",".join(map(str, sorted(data["fault_ids"]))) or "-"
        yield (*ends, *[-1] * (2 - len(ends))), observables, data["error_probability"]


for distance, rounds in ((3, 1), (3, 2), (3, 3), (5, 2)):
    for basis in "xz":
        name = f"memory/d{distance}_r{rounds}_{basis}"
        c = circuit(distance, rounds, basis, UNEVEN)
        if distance == 3:
            write(name + ".stim", c)
        write(name + ".dem", model_of(c, True))
        if distance == 3 and rounds < 3:
            write(name + ".whole.dem", model_of(c, False))
        if distance == 3:
            lines = [f"{a} {'-' if b < 0 else b} {o} {p!r}" for (a, b), o, p in sorted(edges(model_of(c, True)))]
            write(name + ".edges", "\n".join(lines))

lines = []
for distance, rounds, basis, rates in (
    *((d, r, b, UNEVEN) for d, r in ((3, 1), (3, 30), (5, 5), (7, 7), (9, 4), (13, 13)) for b in "xz"),
    (5, 5, "z", EVEN),
    (21, 21, "x", EVEN),
    (21, 5, "z", UNEVEN),
    # One kind of noise alone, and noise that mixes fully.
    *((5, 3, b, tuple(0.01 * (i == k) for i in range(4))) for k in range(4) for b in "xz"),
    (5, 3, "x", (0.75, 0.75, 1.0, 1.0)),
    (3, 2, "x", (0.0, 0.0, 0.0, 0.0)),
):
    c = circuit(distance, rounds, basis, rates)
    for decompose in (True, False):
        head = f"{distance} {rounds} {basis} {' '.join(map(repr, rates))} {'split' if decompose else 'whole'}"
        lines.append(f"{head} {digest(model_of(c, decompose))}")
write("digests.txt", "\n".join(lines))

# The reader's own: with blocks and shifts, as Stim folds them, and flat.
for name, task, distance, rounds in (
    ("repetition", "repetition_code:memory", 3, 30),
    ("rotated", "surface_code:rotated_memory_x", 3, 40),
    ("unrotated", "surface_code:unrotated_memory_z", 2, 20),
    ("color", "color_code:memory_xyz", 3, 20),
):
    p = 0.001
    c = stim.Circuit.generated(task, distance=distance, rounds=rounds, before_round_data_depolarization=p)
    m = c.detector_error_model(decompose_errors=name != "color")
    assert "repeat" in str(m), name
    write(f"text/{name}.dem", m)
    write(f"text/{name}.flat.dem", m.flattened())

write("versions.txt", f"stim {stim.__version__}\npymatching {pymatching.__version__}\npython {platform.python_version()}")
