"""A memory experiment of the rotated surface code as a deq program, with circuit noise.

    python surface_code.py DISTANCE PROBABILITY > memory.deq

Prepares logical zero, measures every check once a round for as many rounds as the distance, and measures the data. Noise, each of
one probability: depolarisation after every gate, a flip after every reset and before every measurement.
"""

import sys


def checks(distance):
    """The checks as (kind, {corner: data qubit}), a corner being (row, column), each 0 or 1."""
    found = []
    for row in range(-1, distance):
        for column in range(-1, distance):
            kind = "X" if (row + column) % 2 == 0 else "Z"
            corners = {
                (i, j): (row + i) * distance + column + j
                for i in (0, 1)
                for j in (0, 1)
                if 0 <= row + i < distance and 0 <= column + j < distance
            }
            # Two corners lie on the rim: X checks end at the left and right, Z checks at the top and bottom.
            on_side = column in (-1, distance - 1)
            if len(corners) == 4 or (len(corners) == 2 and on_side == (kind == "X")):
                found.append((kind, corners))
    return found


def memory(distance, probability):
    """The program's text."""
    data = range(distance * distance)
    listed = checks(distance)
    assert len(listed) == distance * distance - 1
    every = " ".join(map(str, data))
    ancillas = {kind: [] for kind in "XZ"}
    for index, (kind, _) in enumerate(listed):
        ancillas[kind].append(len(data) + index)
    x, z = (" ".join(map(str, ancillas[kind])) for kind in "XZ")
    noise = f"({probability})"
    lines = [f"RZ {z}", f"X_ERROR{noise} {z}", f"RX {x}", f"Z_ERROR{noise} {x}"]
    # The two middle corners come in another order for each kind, so that a fault of an ancilla does not spread along a logical.
    orders = {"Z": [(0, 0), (0, 1), (1, 0), (1, 1)], "X": [(0, 0), (1, 0), (0, 1), (1, 1)]}
    for layer in range(4):
        pairs = []
        for index, (kind, corners) in enumerate(listed):
            qubit = corners.get(orders[kind][layer])
            if qubit is not None:
                ancilla = len(data) + index
                pairs.append(f"{ancilla} {qubit}" if kind == "X" else f"{qubit} {ancilla}")
        lines += [f"CX {' '.join(pairs)}", f"DEPOLARIZE2{noise} {' '.join(pairs)}"]
    lines += [f"X_ERROR{noise} {z}", f"MZ {z}", f"Z_ERROR{noise} {x}", f"MX {x}"]
    extraction = "\n    ".join(lines)
    stabilizers = " ".join("*".join(f"{kind}{q}" for q in corners.values()) for kind, corners in listed)
    # X along a row meets every Z check evenly, Z along a column every X check.
    logical_x = "*".join(f"X{i}" for i in range(distance))
    logical_z = "*".join(f"Z{distance * i}" for i in range(distance))
    readout = " ".join(f"rec[{distance * i - len(data)}]" for i in range(distance))
    return f"""CODE Surface [[{len(data)},1,{distance}]] {{
    LOGICAL {logical_x} {logical_z}
    STABILIZER {stabilizers}
}}

GADGET Prepare {{
    RZ {every}
    X_ERROR{noise} {every}
    {extraction}
    OUTPUT Surface {every}
}}

GADGET Round {{
    INPUT Surface {every}
    {extraction}
    OUTPUT Surface {every}
}}

GADGET Measure {{
    INPUT Surface {every}
    X_ERROR{noise} {every}
    MZ {every}
    READOUT {readout}
}}

PROGRAM Memory {{
    Prepare 0
    REPEAT {distance - 1} {{
        Round 0
    }}
    Measure 0
    ASSERT_EQ rec[-1] 0
}}
"""


if __name__ == "__main__":
    sys.stdout.write(memory(int(sys.argv[1]), float(sys.argv[2])))
