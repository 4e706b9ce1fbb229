"""python3 -m pytest training/test_forms.py: what needs no PyTorch. Volumes, labels, exported forms, the committed files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import oracles
from predecoder import integers, onnx_forms, tables
from predecoder.geometry import IN, OUT, Volume, circuit

CASES = [(3, 1, "X"), (3, 2, "Z"), (5, 4, "X"), (5, 5, "Z")]
MODELS = Path(__file__).resolve().parent / "models"
CORES = sorted(path for path in MODELS.glob("*.onnx") if "_d" not in path.name)
BOUND = sorted(path for path in MODELS.glob("*.onnx") if "_d" in path.name)


def applied(volume, detectors, decisions):
    """What decisions [shots, cells * 4], channels innermost, leave of detectors [shots, detectors], and the frames."""
    padded = np.pad(decisions, ((0, 0), (0, 1))).astype(np.uint8)
    return detectors ^ padded[:, volume.residual_cells].sum(2) % 2, padded[:, volume.frame_cells].sum(1) % 2


def taken(cells, size):
    """Rows of channels out, padded with `size`, as decisions: each flips what it names an odd number of times."""
    decisions = np.zeros((len(cells), size + 1), np.uint8)
    for column in np.asarray(cells).T:
        decisions[np.arange(len(cells)), column] ^= 1
    return decisions[:, :size]


@pytest.mark.parametrize("case", CASES)
def test_detectors_lie_where_stim_says(case):
    volume = Volume(*case)
    coordinates = circuit(*case, 0.01).get_detector_coordinates()
    assert len(coordinates) == len(volume.detectors)
    for number, (check, layer) in enumerate(volume.detectors):
        assert tuple(coordinates[number]) == (*check.position, layer)
    assert len(set(volume.detector_cells)) == len(volume.detectors)


@pytest.mark.parametrize("case", CASES)
def test_a_mechanisms_label_takes_back_what_it_flips(case):
    volume = Volume(*case)
    made, size = tables.build(volume, [0.002, 0.01]), volume.cells * OUT
    flipped = taken(made.inputs, size)[:, volume.detector_cells]
    residual, frame = applied(volume, flipped, taken(made.labels, size))
    assert len(flipped) > 10 and flipped.any(1).all()
    assert not residual.any()
    assert (frame == made.observable).all() and frame.any()
    assert not taken(made.labels, size)[:, ~volume.label_mask].any()
    # Likelier where the noise is stronger.
    rates = np.diff(made.cumulative, prepend=0)
    assert (rates[1] > rates[0]).all() and (rates > 0).all()


@pytest.mark.parametrize("case", CASES)
def test_moves_are_trivial_and_classes_do_not_overlap(case):
    volume = Volume(*case)
    size = volume.cells * OUT
    for rows in tables.moves(volume).classes:
        used = rows[rows < size]
        assert len(set(used)) == len(used)
        none = np.zeros((len(rows), len(volume.detectors)), np.uint8)
        residual, frame = applied(volume, none, taken(rows, size))
        assert not residual.any() and not frame.any()


def test_the_volumes_of_the_rust_tests_are_these():
    lines = (oracles.QEC / "digests.txt").read_text().splitlines()
    assert len(lines) == 10
    for line in lines:
        distance, rounds, basis, digest = line.split()
        text = oracles.volume_text(Volume(int(distance), int(rounds), basis.upper()))
        assert f"{oracles.fnv1a(text):016x}" == digest, line
    for name, case in (("d3_r1_x.txt", (3, 1, "X")), ("d3_r3_z.txt", (3, 3, "Z"))):
        assert oracles.volume_text(Volume(*case)) == (oracles.QEC / name).read_text()


def run(model, **feeds):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


def random_weights(width=8):
    rng = np.random.default_rng(5)
    sizes = [IN, width, width, width, OUT]
    draw = lambda *shape: (0.15 * rng.standard_normal(shape)).astype(np.float16).astype(np.float32)  # noqa: E731
    return [(draw(b, a, 3, 3, 3), draw(b)) for a, b in zip(sizes, sizes[1:])]


@pytest.mark.parametrize("case", CASES)
def test_all_three_forms_agree(case):
    volume, weights, threshold = Volume(*case), random_weights(), 0.1
    made = circuit(*case, 0.02)
    measured = made.compile_sampler(seed=1).sample(50)
    found = made.compile_m2d_converter().convert(measurements=measured, append_observables=False).astype(np.uint8)
    inputs = np.tile(volume.maps, (len(found), 1))
    inputs[:, volume.detector_cells] = found
    inputs = inputs.reshape(-1, *volume.shape, IN).transpose(0, 4, 1, 2, 3)
    (logits,) = run(onnx_forms.core(weights, {}), volume=np.ascontiguousarray(inputs))
    logits = logits.transpose(0, 2, 3, 4, 1).reshape(len(found), -1)
    # Shots of which rounding might flip a decision are left out.
    clear = (np.abs(logits - threshold) > 1e-5).all(1)
    assert clear.sum() > 40
    residual, frame = applied(volume, found, logits > threshold)

    one = run(onnx_forms.bound(weights, volume, threshold, False, {}), detectors=found)
    values = onnx_forms.measurements_of(volume, measured.astype(np.int32))
    other = run(onnx_forms.bound(weights, volume, threshold, True, {}), measurements=values)
    for left, frames in (one, other):
        assert (left == residual)[clear].all() and (frames[:, 0] == frame)[clear].all()
    assert residual.any() and frame.any() and (residual != found).any()


def committed_weights(path):
    """A core's weights as `onnx_forms` takes them, and its metadata."""
    held, about = onnx_forms.read_core(path)
    layers = range(sum(name.endswith(".weight") for name in held))
    of = lambda what, k: held[f"convs.{k}.{what}"]  # noqa: E731
    if "convs.0.bias" in held:
        return [(of("weight", k), of("bias", k)) for k in layers], about
    return [
        integers.Layer(of("weight", k).astype(np.int16), of("factor", k).reshape(-1), of("offset", k).reshape(-1))
        for k in layers
    ], about


@pytest.mark.parametrize("path", CORES, ids=lambda path: path.name)
def test_a_committed_core_is_written_again_the_same(path):
    weights, about = committed_weights(path)
    assert onnx_forms.core(weights, about).graph == onnx.load(path).graph
    metrics = json.loads((MODELS / f"{about['predecoder.network']}.metrics.json").read_text())
    chosen = {(case["confirm"]["distance"], case["confirm"]["p"]): case["chosen"] for case in metrics["cases"]}
    found = {key: value for key, value in about.items() if key.startswith("predecoder.threshold.")}
    assert found == {f"predecoder.threshold.d{d}.p{p}": str(threshold) for (d, p), threshold in chosen.items()}


@pytest.mark.parametrize("path", BOUND, ids=lambda path: path.name)
def test_a_committed_form_is_its_core_bound(path):
    core, distance, rounds, basis, form = re.search(r"^(\w+)_d(\d+)_r(\d+)_([XZ])\.(\w+)\.onnx$", path.name).groups()
    weights, about = committed_weights(MODELS / f"{core}.onnx")
    committed = onnx.load(path)
    own = {one.key: one.value for one in committed.metadata_props}
    assert own == about | {
        "predecoder.distance": distance,
        "predecoder.rounds": rounds,
        "predecoder.basis": basis,
        "predecoder.p": "0.003",
        "predecoder.threshold": about[f"predecoder.threshold.d{distance}.p0.003"],
    }
    volume = Volume(int(distance), int(rounds), basis)
    threshold = float(own["predecoder.threshold"])
    assert onnx_forms.bound(weights, volume, threshold, form == "measurements", own).graph == committed.graph


def test_the_tables_are_those_of_the_metrics():
    files = sorted(MODELS.glob("*.metrics.json"))
    made = subprocess.run(
        [sys.executable, MODELS.parent / "figures.py", *files], check=True, capture_output=True, text=True
    )
    assert made.stdout == (MODELS / "README.md").read_text()
