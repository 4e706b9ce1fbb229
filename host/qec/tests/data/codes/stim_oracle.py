"""Derives the error model of each circuit with Stim and writes what the tests `codes_stim.rs` compare with.

    pip install stim==1.16.0
    cargo run --release -p ringcall-qec --example code_circuits -- /tmp/circuits
    python3 host/qec/tests/data/codes/stim_oracle.py /tmp/circuits

Colour codes: the circuit must be what `stim.Circuit.generated("color_code:memory_xyz", ...)` gives, text by text.

digests.txt, a line a circuit:
    its name
    FNV-1a of the circuit's text, so that a test knows whether it has the circuit that Stim had
    detectors and observables
    the digest of `Circuit.detector_error_model(flatten_loops=True)`, undecomposed, as ../model_digest.py defines it

NAME.dem for the names in WHOLE: that model as Stim writes it.
"""

import glob
import os
import sys

import stim

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from model_digest import digest, fnv1a  # noqa: E402

UNEVEN = (0.001, 0.002, 0.003, 0.004)
EVEN = (0.003, 0.003, 0.003, 0.003)

WHOLE = ("bb72-r1-x-memory-uneven", "color-d3-r4-uneven")


def generated(name):
    _, distance, rounds, noise = name.split("-")
    names = (
        "after_clifford_depolarization",
        "before_round_data_depolarization",
        "before_measure_flip_probability",
        "after_reset_flip_probability",
    )
    rates = dict(zip(names, EVEN if noise == "even" else UNEVEN))
    return stim.Circuit.generated(
        "color_code:memory_xyz", distance=int(distance[1:]), rounds=int(rounds[1:]), **rates
    )


def main(folder):
    lines = []
    for path in sorted(glob.glob(os.path.join(folder, "*.stim"))):
        name = os.path.basename(path).removesuffix(".stim")
        with open(path) as file:
            text = file.read()
        circuit = stim.Circuit(text)
        if name.startswith("color-"):
            assert text.strip() == str(generated(name)), name
        model = circuit.detector_error_model(flatten_loops=True)
        if name in WHOLE:
            with open(os.path.join(HERE, name + ".dem"), "w") as file:
                file.write(str(model).rstrip("\n") + "\n")
        lines.append(
            f"{name} {fnv1a(text):016x} {model.num_detectors} {model.num_observables} {digest(model)}"
        )
    with open(os.path.join(HERE, "digests.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(HERE, "versions.txt"), "w") as file:
        file.write(f"stim {stim.__version__}\n")


main(sys.argv[1])
