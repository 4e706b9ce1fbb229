"""Decodes shots with PyMatching and writes what the tests `decode_pymatching.rs` compare with.

    pip install stim==1.16.0 pymatching==2.4.0
    cargo run --release -p ringcall-qec --example decode_oracle_inputs -- /tmp/oracle
    python3 host/qec/tests/data/decode/pymatching_oracle.py /tmp/oracle

The inputs are written by this project (the models of its memory experiments, shots of its own sampler), so that the
tests can draw them again and only the answers are kept here. All numbers are little-endian.

NAME.memory.bin, for each model NAME.dem and its shots NAME.b8 (detectors, then observables):
    u64  FNV-1a digest of the shot file, so that a test knows whether it has the same shots
    f64  steps per unit of weight: PyMatching's integer weights divided by the weights it returns
    u32  per shot: the weight of PyMatching's matching in steps, modulo 2^32
    u8   per 8 shots: the observable that PyMatching predicts, least significant bit first

NAME.slices.bin, for each check matrix NAME.rows and its residuals NAME.b8 (slices of one bit per row):
    u64  the digest as above
    u16  per residual: the corrections over all its slices
"""

import glob
import os
import struct
import sys

import numpy as np
import pymatching
import stim

HERE = os.path.dirname(os.path.abspath(__file__))


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) % 2**64
    return struct.pack("<Q", digest)


def memory(folder, name):
    model = stim.DetectorErrorModel.from_file(f"{folder}/{name}.dem")
    shots = stim.read_shot_data_file(
        path=f"{folder}/{name}.b8",
        format="b8",
        num_detectors=model.num_detectors,
        num_observables=model.num_observables,
    )
    detectors, truth = shots[:, : model.num_detectors], shots[:, model.num_detectors :]
    matching = pymatching.Matching.from_detector_error_model(model)
    weights = [edge["weight"] for _, _, edge in matching.edges()]
    # PyMatching keeps 24 bits of the largest weight, and doubles.
    scale = 2 * (2**24 - 1) / max(map(abs, weights))
    steps, predictions = [], []
    for row in detectors:
        prediction, weight = matching.decode(row, return_weight=True)
        assert abs(weight * scale - round(weight * scale)) < 1e-3, "the scale is not PyMatching's"
        steps.append(round(weight * scale) % 2**32)
        predictions.append(prediction)
    predictions = np.array(predictions, dtype=bool)
    print(f"{name}: {len(shots)} shots, {int((predictions != truth).any(axis=1).sum())} logical errors")
    with open(f"{HERE}/{name}.memory.bin", "wb") as out:
        out.write(fnv1a(open(f"{folder}/{name}.b8", "rb").read()))
        out.write(struct.pack("<d", scale))
        out.write(np.array(steps, dtype="<u4").tobytes())
        out.write(np.packbits(predictions[:, 0], bitorder="little").tobytes())


def slices(folder, name):
    lines = open(f"{folder}/{name}.rows").read().splitlines()
    columns, per_shot = (int(word) for word in lines[0].split())
    rows = [[int(word) for word in line.split()] for line in lines[1:]]
    checks = np.zeros((len(rows), columns), dtype=np.uint8)
    for index, row in enumerate(rows):
        checks[index, row] = 1
    matching = pymatching.Matching(checks, merge_strategy="smallest-weight")
    residuals = stim.read_shot_data_file(
        path=f"{folder}/{name}.b8", format="b8", num_detectors=len(rows) * per_shot
    )
    totals = [
        sum(int(matching.decode(part).sum()) for part in residual.reshape(per_shot, len(rows)))
        for residual in residuals
    ]
    print(f"{name}: {len(residuals)} residuals, {np.mean(totals):.2f} corrections each")
    with open(f"{HERE}/{name}.slices.bin", "wb") as out:
        out.write(fnv1a(open(f"{folder}/{name}.b8", "rb").read()))
        out.write(np.array(totals, dtype="<u2").tobytes())


for path in sorted(glob.glob(f"{sys.argv[1]}/*.dem")):
    memory(sys.argv[1], os.path.basename(path)[: -len(".dem")])
for path in sorted(glob.glob(f"{sys.argv[1]}/*.rows")):
    slices(sys.argv[1], os.path.basename(path)[: -len(".rows")])
