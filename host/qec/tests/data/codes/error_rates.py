"""Logical error rates of several decoders on the same shots of a code's memory experiment (docs/performance/codes.md).

    pip install stim==1.16.0 numpy scipy ldpc==2.4.1 relay-bp==0.2.2
    cargo run --release -p ringcall-qec --example code_circuits -- /tmp/circuits
    python3 error_rates.py RINGCALL /tmp/circuits/bb72-r6-z-memory-even.stim[@NOISE] DECODER:SOLUTIONS:SHOTS ...

NOISE replaces the circuit's rate of 0.003, which is that of every operation in the circuits named `even`.
RINGCALL is the program; DECODER is `ringcall` (`predict --decoder relay`), `sweep` (`sweep --decoder relay`, which draws its own
shots), `relay-bp` (the crate, single precision, the same settings) or `bp-osd` (ldpc: min-sum with as many iterations as detectors,
ordered statistics by combination sweep of order 7). Shots are Stim's, of seed 1; each decoder takes the first SHOTS. Prints a
line of JSON for each decoder: with `first_only` and `this_only`, the shots of these that the first decoder alone, or this one alone,
decodes wrongly, and `ratio`, the first decoder's errors by this one's on the shots of both, with its 95% interval.
"""

import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import relay_bp
import scipy.sparse as sparse
import stim
from ldpc.bposd_decoder import BpOsdDecoder


def matrices(model):
    checks, observables, priors = [], [], []
    for instruction in model.flattened():
        if instruction.type != "error":
            continue
        for target in instruction.targets_copy():
            place = (target.val, len(priors))
            (checks if target.is_relative_detector_id() else observables).append(place)
        priors.append(instruction.args_copy()[0])

    def matrix(places, rows):
        ones = np.ones(len(places), np.uint8)
        return sparse.csr_matrix((ones, tuple(zip(*places))), shape=(rows, len(priors)))

    return (
        matrix(checks, model.num_detectors),
        matrix(observables, model.num_observables),
        np.array(priors),
    )


def ringcall(program, model, detectors, solutions):
    with tempfile.TemporaryDirectory() as folder:
        dem = os.path.join(folder, "model.dem")
        model.to_file(dem)
        shots = os.path.join(folder, "shots.01")
        np.savetxt(shots, detectors, fmt="%d", delimiter="")
        command = [program, "predict", "--dem", dem, "--in", shots, "--in_format", "01", "--decoder", "relay"]
        command += ["--relay-solutions", str(solutions)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return np.array([[int(bit) for bit in line] for line in out.split()], np.uint8)


def sweep(program, model, shots, solutions):
    with tempfile.TemporaryDirectory() as folder:
        dem = os.path.join(folder, "model.dem")
        model.to_file(dem)
        command = [program, "sweep", "--dem", dem, "--decoder", "relay", "--relay-solutions", str(solutions)]
        command += ["--shots", str(shots), "--batch", "100", "--json", "-"]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    point = json.loads(out)["points"][0]
    return point["alone"]["errors"], point["shots"]


def relay(model, detectors, solutions):
    checks, observables, priors = matrices(model)
    decoder = relay_bp.RelayDecoderF32(
        checks,
        error_priors=priors,
        gamma0=0.125,
        pre_iter=80,
        num_sets=300,
        set_max_iter=60,
        gamma_dist_interval=(-0.24, 0.66),
        stop_nconv=solutions,
    )
    runner = relay_bp.ObservableDecoderRunner(decoder, observables, include_decode_result=False)
    return runner.decode_observables_batch(detectors, parallel=False)


def bp_osd(model, detectors):
    checks, observables, priors = matrices(model)
    decoder = BpOsdDecoder(
        checks,
        error_channel=list(priors),
        max_iter=model.num_detectors,
        bp_method="ms",
        ms_scaling_factor=0.625,
        osd_method="osd_cs",
        osd_order=7,
    )
    return np.array([observables @ decoder.decode(shot) % 2 for shot in detectors], np.uint8)


def ratio(ours, theirs):
    """The ratio of two decoders' errors on the same shots, with the 95% interval of its logarithm."""
    first, this = int(ours.sum()), int(theirs.sum())
    if first == 0 or this == 0:
        return None
    apart = int((ours != theirs).sum())
    spread = 1.96 * math.sqrt(apart / (first * this))
    return [round(first / this * math.exp(side * spread), 3) for side in (0, -1, 1)]


def main(program, circuit, *runs):
    path, _, noise = circuit.partition("@")
    with open(path) as file:
        text = file.read()
    if noise:
        text = text.replace("(0.003)", f"({float(noise)})")
    model = stim.Circuit(text).detector_error_model(flatten_loops=True)
    runs = [(name, int(solutions), int(shots)) for name, solutions, shots in (run.split(":") for run in runs)]
    most = max(shots for _, _, shots in runs)
    detectors, truth, _ = model.compile_sampler(seed=1).sample(most)
    detectors, truth = detectors.astype(np.uint8), truth.astype(np.uint8)
    first = None
    for name, solutions, shots in runs:
        row = {"circuit": os.path.basename(circuit), "decoder": name, "solutions": solutions}
        if name == "sweep":
            row["wrong"], row["shots"] = sweep(program, model, shots, solutions)
            print(json.dumps(row), flush=True)
            continue
        if name == "ringcall":
            predicted = ringcall(program, model, detectors[:shots], solutions)
        elif name == "relay-bp":
            predicted = relay(model, detectors[:shots], solutions)
        else:
            predicted = bp_osd(model, detectors[:shots])
        wrong = (predicted != truth[:shots]).any(axis=1)
        first = wrong if first is None else first
        paired = min(len(wrong), len(first))
        ours, theirs = first[:paired], wrong[:paired]
        row.update(wrong=int(wrong.sum()), shots=shots)
        row.update(first_only=int((ours & ~theirs).sum()), this_only=int((theirs & ~ours).sum()))
        row["ratio"] = ratio(ours, theirs)
        print(json.dumps(row), flush=True)


main(*sys.argv[1:])
