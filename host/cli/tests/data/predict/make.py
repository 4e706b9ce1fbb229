"""Makes the oracle data of tests/predict.rs with Stim and PyMatching's own command.

    python3 make.py      # stim 1.16.0, pymatching 2.4.0

Two models, each with shots (true observables appended) in 01, b8 and dets, and what `pymatching predict` says, in all
formats without and in 01 with `--enable_correlations`:

* surface: the distance-5 rotated surface code, 3 rounds, one observable;
* bundle: eleven repetition codes side by side, eleven observables, so that a packed row is more than a byte.

The probabilities of a circuit repeat, so many matchings of it weigh the same and a decoder may choose freely. Here
each one is multiplied by its own random factor, so that the lightest matching is the only one.
"""

import pathlib
import random
import re
import subprocess

import numpy
import stim

HERE = pathlib.Path(__file__).parent
FORMATS = ["01", "b8", "dets"]


def without_ties(model: stim.DetectorErrorModel, seed: int) -> stim.DetectorErrorModel:
    rng = random.Random(seed)
    out = stim.DetectorErrorModel()
    for instruction in model.flattened():
        if instruction.type == "error":
            p = float(f"{instruction.args_copy()[0] * rng.uniform(0.5, 1.5):.5f}")
            out.append("error", p, instruction.targets_copy())
    return out


def surface() -> stim.DetectorErrorModel:
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_z",
        distance=5,
        rounds=3,
        after_clifford_depolarization=0.008,
        before_measure_flip_probability=0.008,
        after_reset_flip_probability=0.008,
        before_round_data_depolarization=0.008,
    )
    return without_ties(circuit.detector_error_model(decompose_errors=True), 1)


def bundle() -> stim.DetectorErrorModel:
    out = stim.DetectorErrorModel()
    for code in range(11):
        d = 4 * code
        target = stim.target_relative_detector_id
        out.append("error", 0.1, [target(d), stim.target_logical_observable_id(code)])
        for k in range(3):
            out.append("error", 0.1, [target(d + k), target(d + k + 1)])
        out.append("error", 0.1, [target(d + 3)])
    return without_ties(out, 2)


def make(name: str, model: stim.DetectorErrorModel, shots: int, seed: int) -> None:
    dem = HERE / f"{name}.dem"
    # Stim writes every digit; the five that were kept say the same.
    dem.write_text(re.sub(r"\((.*?)\)", lambda p: f"({float(p[1]):g})", str(model)) + "\n")
    assert stim.DetectorErrorModel.from_file(str(dem)) == model
    detectors, observables, _ = model.compile_sampler(seed=seed).sample(shots)
    both = numpy.concatenate([detectors, observables], axis=1)
    for kind in FORMATS:
        extra = {"num_detectors": model.num_detectors, "num_observables": model.num_observables}
        stim.write_shot_data_file(data=both, path=str(HERE / f"{name}.shots.{kind}"), format=kind, **extra)
    predicted = []
    for read in FORMATS:
        for write in FORMATS:
            out = HERE / f"{name}.predicted.{write}"
            command = ["pymatching", "predict", "--dem", dem, "--in", HERE / f"{name}.shots.{read}"]
            command += ["--in_format", read, "--in_includes_appended_observables"]
            subprocess.run([*command, "--out", out, "--out_format", write], check=True)
            predicted.append((write, out.read_bytes()))
    assert len(set(predicted)) == len(FORMATS), "the formats disagree"
    command += ["--enable_correlations", "--out", HERE / f"{name}.correlated.01", "--out_format", "01"]
    subprocess.run(command, check=True)
    for kind in ["predicted", "correlated"]:
        rows = (HERE / f"{name}.{kind}.01").read_text().split()
        wrong = sum([bool(int(c)) for c in row] != list(truth) for row, truth in zip(rows, observables))
        assert len(rows) == shots
        print(f"{name} {kind}: {model.num_detectors} detectors, {shots} shots, {wrong} logical errors")


make("surface", surface(), 300, 11)
make("bundle", bundle(), 200, 12)
