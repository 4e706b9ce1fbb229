"""The Python package `pymatching` as a server; oracles/src/core/main.rs says what is read and written.

The clock runs around `Matching.decode` on a row of detectors, which is how its users decode one shot.
"""

import struct
import sys
import time

try:
    import numpy as np
    import pymatching
except ImportError:
    sys.exit(3)


def read():
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        sys.exit(0)
    return sys.stdin.buffer.read(struct.unpack("<I", head)[0])


def write(frame):
    sys.stdout.buffer.write(struct.pack("<I", len(frame)) + frame)
    sys.stdout.buffer.flush()


def bits(mask):
    return {i for i in range(64) if mask >> i & 1}


frame = read()
detectors, observables = struct.unpack_from("<II", frame)
matching = pymatching.Matching()
matching.ensure_num_fault_ids(observables)
for u, v, weight, mask in struct.iter_unpack("<IIdQ", frame[8:]):
    if v == 0xFFFFFFFF:
        matching.add_boundary_edge(u, fault_ids=bits(mask), weight=weight)
    else:
        matching.add_edge(u, v, fault_ids=bits(mask), weight=weight)
write(f"PyMatching {pymatching.__version__}, Matching.decode".encode())

while True:
    words = np.frombuffer(read(), dtype="<u4")
    at, answers = 0, []
    while at < len(words):
        rows = []
        shots = words[at]
        at += 1
        for _ in range(shots):
            count = words[at]
            row = np.zeros(detectors, dtype=np.uint8)
            row[words[at + 1 : at + 1 + count]] = 1
            at += 1 + count
            rows.append(row)
        begin = time.perf_counter_ns()
        for row in rows:
            matching.decode(row)
        ns = time.perf_counter_ns() - begin
        total, mask = 0.0, 0
        for row in rows:
            prediction, weight = matching.decode(row, return_weight=True)
            total += weight
            mask ^= sum(1 << int(i) for i in np.flatnonzero(prediction))
        answers.append(struct.pack("<QdQ", ns, total, mask))
    write(b"".join(answers))
