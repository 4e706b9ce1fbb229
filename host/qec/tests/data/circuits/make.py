"""Makes the expected data of the test `circuit_text.rs`: run it in this folder, with stim 1.16.0 installed.

NAME.stim      a circuit in Stim's format: random ones of every gate that the reader takes, each followed by its inverse and with
               noise between, products of Paulis, and what Stim generates, with blocks
digests.txt    a line a circuit: its name, detectors, observables, and the digest of
               `Circuit.detector_error_model(flatten_loops=True)` as ../model_digest.py defines it
"""

import os
import random
import sys

import stim

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from model_digest import digest  # noqa: E402

ONE = """I X Y Z H H_XY H_YZ H_NXY H_NXZ H_NYZ S S_DAG SQRT_X SQRT_X_DAG SQRT_Y SQRT_Y_DAG C_XYZ C_ZYX C_NXYZ C_XNYZ C_XYNZ
C_NZYX C_ZNYX C_ZYNX""".split()
TWO = """CX CY CZ XCX XCY XCZ YCX YCY YCZ SWAP CXSWAP SWAPCX CZSWAP ISWAP ISWAP_DAG SQRT_XX SQRT_XX_DAG SQRT_YY SQRT_YY_DAG
SQRT_ZZ SQRT_ZZ_DAG""".split()
QUBITS = 6
PRODUCTS = """
# Every product is measured twice; errors between show, and those of the results.
R 0 1 2 3
RX 4
RY 5
MPP X0*X1 Y2*Y3*Z0 !Z4*X5
MXX 0 2
MYY(0.125) 1 3
MZZ 4 5
X_ERROR(0.01) 0 1 2 3 4 5
Y_ERROR(0.02) 0 1 2 3 4 5
Z_ERROR(0.03) 0 1 2 3 4 5
DEPOLARIZE2(0.04) 0 5 3 1
MZZ(0.0625) 4 5
DETECTOR rec[-1] rec[-2]
REPEAT 2 {
    MYY 1 3
    MPP(0.03125) Y1*Y3
    DETECTOR(1, 2.5) rec[-1] rec[-2]
    SHIFT_COORDS(0, 1)
}
MRX[a tag] 4
MRY(0.25) 5
MRZ(0.25) 0
DEPOLARIZE1(0.05) 4 5 0
MX 4
MY(0.01) 5
MZ 0
DETECTOR(5) rec[-1] rec[-1] rec[-1]
OBSERVABLE_INCLUDE(0) rec[-2]
OBSERVABLE_INCLUDE(3) rec[-3]
OBSERVABLE_INCLUDE(3) rec[-2]
"""


def noisy(rng, unitary):
    lines = []
    for instruction in unitary:
        lines.append(str(instruction))
        kind = rng.choice(["X_ERROR", "Y_ERROR", "Z_ERROR", "DEPOLARIZE1", "DEPOLARIZE2"])
        targets = rng.sample(range(QUBITS), 2)
        lines.append(f"{kind}({rng.choice([0.001, 0.002, 0.004])}) {targets[0]} {targets[1]}")
    return lines


def scrambled(seed):
    rng = random.Random(seed)
    unitary = stim.Circuit()
    gates = ONE + TWO
    rng.shuffle(gates)
    for gate in gates:
        targets = rng.sample(range(QUBITS), 4 if gate in TWO else 3)
        unitary.append(gate, targets)
    bases = [rng.choice("XYZ") for _ in range(QUBITS)]
    lines = [f"R{basis} {qubit}" for qubit, basis in enumerate(bases)]
    lines += noisy(rng, unitary) + noisy(rng, unitary.inverse())
    for qubit, basis in enumerate(bases):
        lines.append(f"{rng.choice(['M', 'MR'])}{basis}({rng.choice([0.01, 0.02])}) {qubit}")
    lines += [f"DETECTOR rec[-{k}] rec[-{k + 1}]" for k in range(1, QUBITS)]
    lines.append("OBSERVABLE_INCLUDE(1) rec[-1]")
    return "\n".join(lines) + "\n"


def generated(task, distance, rounds):
    p = 0.003
    return str(
        stim.Circuit.generated(
            task,
            distance=distance,
            rounds=rounds,
            after_clifford_depolarization=p,
            before_measure_flip_probability=p,
            after_reset_flip_probability=p,
        )
    )


texts = {f"random_{seed}": scrambled(seed) for seed in range(4)}
texts["products"] = PRODUCTS
texts["repetition"] = generated("repetition_code:memory", 5, 1000) + "\n"
texts["unrotated"] = generated("surface_code:unrotated_memory_x", 3, 5) + "\n"
lines = []
for name, text in texts.items():
    with open(f"{name}.stim", "w") as file:
        file.write(text)
    model = stim.Circuit(text).detector_error_model(flatten_loops=True)
    lines.append(f"{name} {model.num_detectors} {model.num_observables} {digest(model)}")
with open("digests.txt", "w") as file:
    file.write("\n".join(lines) + "\n")
