"""A memory experiment of the repetition code as a deq program, whose qubits are lost.

    python lossy_code.py DISTANCE PROBABILITY LOSS > lossy.deq

Logical zero, as many rounds as the distance, a measurement of the data. Each qubit is lost once a round with probability LOSS before its gates
(a data qubit) or its measurement (an ancilla), and flipped with PROBABILITY.
"""

import sys


def lossy_memory(distance, probability, loss):
    """The program's text."""
    data = [2 * i for i in range(distance)]
    ancillas = [2 * i + 1 for i in range(distance - 1)]
    every, checks = " ".join(map(str, data)), " ".join(map(str, ancillas))
    left = " ".join(f"{data[i]} {ancilla}" for i, ancilla in enumerate(ancillas))
    right = " ".join(f"{data[i + 1]} {ancilla}" for i, ancilla in enumerate(ancillas))
    logical = "*".join(f"X{i}" for i in range(distance))
    stabilizers = " ".join(f"Z{i}*Z{i + 1}" for i in range(distance - 1))
    return f"""CODE Repetition [[{distance},1,1]] {{
    LOGICAL {logical} Z0
    STABILIZER {stabilizers}
}}

GADGET Prepare {{
    R {every}
    X_ERROR({probability}) {every}
    OUTPUT Repetition {every}
}}

GADGET Round {{
    INPUT Repetition {every}
    LOSS_ERROR({loss}) {every}
    X_ERROR({probability}) {every}
    R {checks}
    CX {left}
    CX {right}
    LOSS_ERROR({loss}) {checks}
    X_ERROR({probability}) {checks}
    M {checks}
    OUTPUT Repetition {every}
}}

GADGET Measure {{
    INPUT Repetition {every}
    X_ERROR({probability}) {every}
    M {every}
    READOUT rec[-{distance}]
}}

PROGRAM Memory {{
    Prepare 0
    REPEAT {distance} {{
        Round 0
    }}
    Measure 0
    ASSERT_EQ rec[-1] 0
}}
"""


if __name__ == "__main__":
    sys.stdout.write(lossy_memory(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
