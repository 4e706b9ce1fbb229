#!/usr/bin/env python3
"""Makes the oracles that the Rust tests read:

host/infer/tests/data/predecoder.json   what ONNX Runtime makes of models/*.onnx
host/qec/tests/data/predecoder/         the volume of geometry.py, as text; larger ones as digests

    python3 oracles.py [--models models]
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
import onnxruntime
from predecoder import onnx_forms
from predecoder.geometry import Volume, circuit

ROOT = Path(__file__).resolve().parent.parent
INFER = ROOT / "host/infer/tests/data/predecoder.json"
QEC = ROOT / "host/qec/tests/data/predecoder"
NOISE = (0.003, 0.006)
# No decision of a case is nearer to the threshold than this: rounding cannot flip it.
MARGIN = 2e-3


def session(path, logits=False):
    """With the logits as a last output, where asked for."""
    if not logits:
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    import onnx

    model = onnx.load(path)
    model.graph.output.append(onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, None))
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def bits(array):
    """Values 0 and 1, bit-packed, least significant first."""
    return np.packbits(np.asarray(array).astype(np.uint8).reshape(-1), bitorder="little").tobytes().hex()


def core_cases(path, rng):
    run = session(path)
    for layers, height, width in ((4, 3, 3), (3, 5, 4)):
        volume = (rng.random((1, 4, layers, height, width)) < 0.15).astype(np.float32)
        volume[:, 2:] *= rng.choice([0.5, 1.0], size=volume[:, 2:].shape).astype(np.float32)
        (logits,) = run.run(None, {"volume": volume})
        yield {
            "model": path.name,
            "symbols": {"layers": layers, "height": height, "width": width},
            "input": volume.tobytes().hex(),
            "outputs": [logits.tobytes().hex()],
            "packed": False,
        }


def bound_cases(path, shots, seed):
    distance, rounds, basis, form = re.search(r"_d(\d+)_r(\d+)_([XZ])\.(\w+)\.onnx$", path.name).groups()
    volume = Volume(int(distance), int(rounds), basis)
    run = session(path, logits=True)
    threshold = float(run.get_modelmeta().custom_metadata_map["predecoder.threshold"])
    for p in NOISE:
        made = circuit(volume.distance, volume.rounds, basis, p)
        measured = made.compile_sampler(seed=seed).sample(20 * shots)
        found = made.compile_m2d_converter().convert(measurements=measured, append_observables=False)
        inputs = onnx_forms.measurements_of(volume, measured.astype(np.int32))
        inputs = inputs if form == "measurements" else found.astype(np.uint8)
        kept = 0
        for one in inputs:
            residual, frame, logits = run.run(None, {form: one[None]})
            if np.abs(logits - threshold).min() > MARGIN and kept < shots:
                kept += 1
                outputs = [bits(residual), bits(frame)]
                yield {"model": path.name, "symbols": {}, "input": bits(one), "outputs": outputs, "packed": True}
        assert kept == shots, "too few shots with a clear margin"


def models(folder, shots):
    rng = np.random.default_rng(2026)
    cases = []
    for path in sorted(folder.glob("*.onnx")):
        cases += list(bound_cases(path, shots, 2026) if "_d" in path.name else core_cases(path, rng))
    INFER.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    print(f"{INFER}: {len(cases)} cases, {INFER.stat().st_size} bytes")


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def volume_text(volume):
    """Channels first, as the network's tensors are. A line of maps (doubled), one of the detectors' places, one of the
    logical frame's cells, then for each detector those its residual shows."""
    sites, pad = volume.cells, volume.cells * onnx_forms.OUT
    maps = (2 * volume.maps.reshape(sites, 4).T.reshape(-1)).astype(int)
    line = lambda values: " ".join(map(str, values))  # noqa: E731
    places = onnx_forms.channels_first(volume, volume.detector_cells)
    lines = [line(maps), line(places), line(sorted(onnx_forms.channels_first(volume, volume.frame_cells)))]
    lines += [line(sorted(onnx_forms.channels_first(volume, row[row != pad]))) for row in volume.residual_cells]
    return "\n".join(lines) + "\n"


def volumes():
    QEC.mkdir(parents=True, exist_ok=True)
    for distance, rounds, basis in ((3, 1, "X"), (3, 3, "Z")):
        (QEC / f"d{distance}_r{rounds}_{basis.lower()}.txt").write_text(volume_text(Volume(distance, rounds, basis)))
    digests = []
    for distance, rounds in ((3, 2), (5, 5), (5, 9), (7, 7), (13, 13)):
        for basis in "XZ":
            digests.append(f"{distance} {rounds} {basis.lower()} {fnv1a(volume_text(Volume(distance, rounds, basis))):016x}")
    (QEC / "digests.txt").write_text("\n".join(digests) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=ROOT / "training/models")
    parser.add_argument("--shots", type=int, default=2, help="for each noise, of a bound model")
    arguments = parser.parse_args()
    volumes()
    models(arguments.models, arguments.shots)


if __name__ == "__main__":
    main()
