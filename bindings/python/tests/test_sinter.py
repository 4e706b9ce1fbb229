"""Ringcall as a decoder of sinter."""

import csv
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pymatching
import pytest
import ringcall
import sinter
from cases import memory, without_ties
from ringcall._ringcall import ModelSampler


def test_pickle_and_compile():
    circuit = memory(3, 0.01)
    model = circuit.detector_error_model(decompose_errors=True)
    shots = circuit.compile_detector_sampler(seed=3).sample(500, bit_packed=True)
    for name, decoder in ringcall.sinter_decoders().items():
        if name.endswith("sampler"):
            continue
        assert isinstance(decoder, sinter.Decoder)
        compiled = pickle.loads(pickle.dumps(decoder)).compile_decoder_for_dem(dem=model)
        predictions = compiled.decode_shots_bit_packed(bit_packed_detection_event_data=shots)
        correlations = name.endswith("correlated")
        theirs = pymatching.Matching(model, enable_correlations=correlations).decode_batch(
            shots, bit_packed_shots=True, bit_packed_predictions=True, enable_correlations=correlations
        )
        assert predictions.shape == (500, 1) and predictions.dtype == np.uint8
        assert (predictions != theirs).mean() < 0.01


def test_files():
    circuit = memory(3, 0.01)
    model = circuit.detector_error_model(decompose_errors=True)
    shots = circuit.compile_detector_sampler(seed=3).sample(100, bit_packed=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model.to_file(folder / "model.dem")
        shots.tofile(folder / "shots.b8")
        decoder = ringcall.sinter_decoders()["ringcall"]
        decoder.decode_via_files(
            num_shots=100,
            num_dets=model.num_detectors,
            num_obs=1,
            dem_path=folder / "model.dem",
            dets_b8_in_path=folder / "shots.b8",
            obs_predictions_b8_out_path=folder / "out.b8",
            tmp_dir=folder,
        )
        compiled = decoder.compile_decoder_for_dem(dem=model)
        expected = compiled.decode_shots_bit_packed(bit_packed_detection_event_data=shots)
        assert (np.fromfile(folder / "out.b8", dtype=np.uint8) == expected[:, 0]).all()


def test_collect(tmp_path):
    memory(3, 0.02).to_file(tmp_path / "d=3.stim")
    out = tmp_path / "stats.csv"
    command = [Path(sys.executable).parent / "sinter", "collect"]
    command += ["--circuits", tmp_path / "d=3.stim", "--decoders", *ringcall.sinter_decoders()]
    command += ["--custom_decoders_module_function", "ringcall:sinter_decoders"]
    command += ["--max_shots", "2000", "--processes", "2", "--quiet", "--save_resume_filepath", out]
    subprocess.run(list(map(str, command)), check=True, timeout=120)
    with out.open() as file:
        rows = [{key.strip(): value for key, value in row.items()} for row in csv.DictReader(file)]
    for name in ringcall.sinter_decoders():
        shots, errors = (sum(int(row[key]) for row in rows if row["decoder"] == name) for key in ("shots", "errors"))
        assert shots == 2000 and 0 < errors < 1000


@pytest.mark.parametrize("name", ["ringcall", "ringcall_correlated"])
def test_samplers(name):
    circuit = memory(5, 0.01)
    model = circuit.detector_error_model(decompose_errors=True)
    sampler = pickle.loads(pickle.dumps(ringcall.sinter_decoders()[name + "_sampler"]))
    assert isinstance(sampler, sinter.Sampler)
    task = sinter.Task(circuit=circuit, detector_error_model=model)
    shots = 20_000
    compiled, stats = sampler.compiled_sampler_for_task(task), sinter.AnonTaskStats()
    while stats.shots < shots:
        more = compiled.sample(shots - stats.shots)
        assert 0 < more.shots <= shots - stats.shots
        stats += more
    detections, observables = circuit.compile_detector_sampler(seed=8).sample(shots, separate_observables=True)
    correlations = name == "ringcall_correlated"
    matching = pymatching.Matching(model, enable_correlations=correlations)
    predictions = matching.decode_batch(detections, enable_correlations=correlations)
    expected = int((predictions != observables).any(axis=1).sum())
    # Two independent counts: five standard deviations of their difference.
    assert abs(stats.errors - expected) < 5 * (2 * expected) ** 0.5


def test_a_sampler_can_be_repeated():
    text = str(memory(3, 0.02).detector_error_model(decompose_errors=True))
    first, again, other = (ModelSampler(text, seed=seed).count_errors(5000) for seed in (1, 1, 2))
    assert first == again != other and first[0] == other[0] == 5000
    with pytest.raises(ValueError):
        ModelSampler("erro(0.1) D0")
    with pytest.raises(ValueError):
        ModelSampler("error(0.5) D0 D1 D2", seed=1).count_errors(1000)


@pytest.mark.parametrize("correlations", [False, True])
def test_what_is_not_drawn_makes_no_difference(correlations):
    """The sampler draws the detectors that answers depend on: its rate of errors is that of whole shots."""
    circuit = memory(3, 0.02)
    model = circuit.detector_error_model(decompose_errors=True)
    shots = 400_000
    _, errors = ModelSampler(str(model), enable_correlations=correlations, seed=5).count_errors(shots)
    detections, observables = circuit.compile_detector_sampler(seed=6).sample(
        shots, separate_observables=True, bit_packed=True
    )
    matching = ringcall.Matching(model, enable_correlations=correlations)
    chosen = {"bit_packed_shots": True, "bit_packed_predictions": True, "enable_correlations": correlations}
    predictions, _ = matching.decode_batch(detections, return_weights=True, **chosen)
    expected = int((predictions != observables).any(axis=1).sum())
    # Of two independent counts: five standard deviations of their difference, some 2% of either.
    assert abs(errors - expected) < 5 * (2 * expected) ** 0.5
    # Without weights no shot that has one best solution is decoded otherwise.
    alone = without_ties(model)
    matching = ringcall.Matching(alone, enable_correlations=correlations)
    whole, _ = matching.decode_batch(detections, return_weights=True, **chosen)
    assert (matching.decode_batch(detections, **chosen) == whole).all()


def test_a_sampler_gives_what_it_has_when_its_time_is_up():
    sampler = ModelSampler(str(memory(5, 0.01).detector_error_model(decompose_errors=True)), seed=1)
    shots, errors = sampler.count_errors(10**12, 0.0)
    assert 0 < shots < 10**12 and 0 <= errors <= shots
    # So sinter, which asks for all shots at once, gets to know that there are errors enough.
    [stats] = sinter.collect(
        num_workers=1,
        tasks=[sinter.Task(circuit=memory(3, 0.02), decoder="ringcall_sampler")],
        max_shots=10**12,
        max_errors=100,
        custom_decoders=ringcall.sinter_decoders(),
    )
    assert 100 <= stats.errors and stats.shots < 10**12


def test_a_sampler_refuses_what_it_does_not_do():
    circuit = memory(3, 0.01)
    mask = np.ones(-(-circuit.num_detectors // 8), dtype=np.uint8)
    with pytest.raises(ValueError):
        ringcall.sinter_decoders()["ringcall_sampler"].compiled_sampler_for_task(
            sinter.Task(circuit=circuit, postselection_mask=mask)
        )
