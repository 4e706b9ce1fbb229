"""Times Ringcall beside PyMatching in one run, and prints JSON.

Both decode the same shots, by turns, and the least of the rounds counts:

    python bench/compare.py --distances 3 5 11 --probabilities 0.001 0.005
"""

import argparse
import time

import numpy as np
import pymatching
import ringcall
from circuits import add_options, memory, report

BARS = {"batch": 3, "correlated": 4.5, "single": 1}
PACKED = {"bit_packed_shots": True, "bit_packed_predictions": True}


def least(rounds, *works):
    """The least CPU time of each work, over rounds in which each has its turn."""
    times = [float("inf")] * len(works)
    for _ in range(rounds):
        for at, work in enumerate(works):
            start = time.process_time()
            work()
            times[at] = min(times[at], time.process_time() - start)
    return times


def batches(model, packed, correlations, options):
    """Many shots in one call, predictions alone; weights are compared on a few."""
    chosen = {"enable_correlations": correlations}
    theirs, ours = (
        kind.from_detector_error_model(model, **chosen) for kind in (pymatching.Matching, ringcall.Matching)
    )
    pilot = packed[: max(1, len(packed) // 50)]
    start = time.process_time()
    _, their_weights = theirs.decode_batch(pilot, return_weights=True, **PACKED, **chosen)
    one = (time.process_time() - start) / len(pilot)
    _, our_weights = ours.decode_batch(pilot, return_weights=True, **PACKED, **chosen)
    # A second pass starts from the first, of which there may be several of the least weight.
    assert correlations or np.allclose(our_weights, their_weights, rtol=1e-9), "weights differ"

    shots = packed[: max(1, int(options.seconds / one))]
    works = [lambda kind=kind: kind.decode_batch(shots, **PACKED, **chosen) for kind in (theirs, ours)]
    differ = int((works[0]() != works[1]()).any(axis=1).sum())
    their_s, our_s = least(options.rounds, *works)
    return {
        "shots": len(shots),
        "pymatching_us": round(their_s / len(shots) * 1e6, 3),
        "ringcall_us": round(our_s / len(shots) * 1e6, 3),
        "times_as_fast": round(their_s / our_s, 2),
        "predictions_that_differ": differ,
    }


def singles(model, bits, options):
    """A shot in each call."""
    kinds = pymatching.Matching(model), ringcall.Matching(model)
    start = time.process_time()
    kinds[0].decode_batch(bits)
    shots = bits[: max(1, int(options.seconds / max((time.process_time() - start) / len(bits), 5e-6)))]

    def decode_all(matching):
        decode = matching.decode
        for shot in shots:
            decode(shot)

    their_s, our_s = least(options.rounds, *(lambda kind=kind: decode_all(kind) for kind in kinds))
    return {
        "shots": len(shots),
        "pymatching_us": round(their_s / len(shots) * 1e6, 3),
        "ringcall_us": round(our_s / len(shots) * 1e6, 3),
        "ratio": round(our_s / their_s, 3),
    }


def compare(distance, probability, options):
    circuit = memory(distance, probability)
    model = circuit.detector_error_model(decompose_errors=True)
    packed = circuit.compile_detector_sampler(seed=distance).sample(options.shots, bit_packed=True)
    few = packed[: max(1, options.shots // 20)]
    return {
        "distance": distance,
        "probability": probability,
        "detectors": model.num_detectors,
        "batch": batches(model, packed, False, options),
        "correlated": batches(model, packed, True, options),
        "single": singles(
            model, np.unpackbits(few, axis=1, bitorder="little", count=model.num_detectors), options
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distances", type=int, nargs="+", default=[3, 5, 11])
    parser.add_argument("--probabilities", type=float, nargs="+", default=[0.001, 0.005])
    parser.add_argument("--shots", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=0.5, help="of PyMatching's time in a round, at most")
    add_options(parser)
    options = parser.parse_args()
    rows = [
        compare(distance, probability, options)
        for distance in options.distances
        for probability in options.probabilities
    ]
    report("calls", options, BARS, rows)


if __name__ == "__main__":
    main()
