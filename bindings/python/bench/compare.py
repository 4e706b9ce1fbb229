"""Times Ringcall beside PyMatching in one run, and prints JSON.

Both decode the same shots, by turns, and the least of the rounds counts:

    python bench/compare.py --distances 3 5 11 --probabilities 0.001 0.005
"""

import argparse
import json
import platform
import time

import numpy as np
import pymatching
import ringcall
import stim


def least(rounds, *works):
    """The least time of each work, over rounds in which each has its turn."""
    times = [float("inf")] * len(works)
    for _ in range(rounds):
        for at, work in enumerate(works):
            start = time.perf_counter()
            work()
            times[at] = min(times[at], time.perf_counter() - start)
    return times


def compare(distance, probability, shots, seconds, rounds):
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_x",
        distance=distance,
        rounds=distance,
        after_clifford_depolarization=probability,
        after_reset_flip_probability=probability,
        before_measure_flip_probability=probability,
        before_round_data_depolarization=probability,
    )
    model = circuit.detector_error_model(decompose_errors=True)
    packed = circuit.compile_detector_sampler(seed=distance).sample(shots, bit_packed=True)
    bits = np.unpackbits(packed, axis=1, bitorder="little", count=model.num_detectors)
    theirs, ours = (
        kind.from_detector_error_model(model, enable_correlations=True)
        for kind in (pymatching.Matching, ringcall.Matching)
    )
    row = {"distance": distance, "probability": probability, "shots": shots, "detectors": model.num_detectors}

    def batch(matching, correlations, count):
        options = {"bit_packed_shots": True, "bit_packed_predictions": True, "return_weights": True}
        return matching.decode_batch(packed[:count], enable_correlations=correlations, **options)

    for name, correlations in (("batch", False), ("correlated", True)):
        start = time.perf_counter()
        batch(theirs, correlations, max(1, shots // 50))
        one = (time.perf_counter() - start) / max(1, shots // 50)
        count = max(1, min(shots, int(seconds / one)))
        (our_bits, our_weights), (their_bits, their_weights) = (
            batch(matching, correlations, count) for matching in (ours, theirs)
        )
        differ = int((our_bits != their_bits).any(axis=1).sum())
        if not correlations:
            assert np.allclose(our_weights, their_weights, rtol=1e-9), "weights differ"
        their_s, our_s = least(
            rounds, lambda: batch(theirs, correlations, count), lambda: batch(ours, correlations, count)
        )
        row[name] = {
            "shots": count,
            "pymatching_us": their_s / count * 1e6,
            "ringcall_us": our_s / count * 1e6,
            "times_as_fast": their_s / our_s,
            "predictions_that_differ": differ,
        }

    single = bits[: max(1, min(shots, int(seconds / max(row["batch"]["pymatching_us"] * 1e-6, 5e-6))))]

    def singles(matching):
        decode = matching.decode
        for z in single:
            decode(z)

    their_s, our_s = least(rounds, lambda: singles(theirs), lambda: singles(ours))
    row["single"] = {
        "shots": len(single),
        "pymatching_us": their_s / len(single) * 1e6,
        "ringcall_us": our_s / len(single) * 1e6,
        "ratio": our_s / their_s,
    }
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distances", type=int, nargs="+", default=[3, 5, 11])
    parser.add_argument("--probabilities", type=float, nargs="+", default=[0.001, 0.005])
    parser.add_argument("--shots", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=0.5, help="of PyMatching's time in a round, at most")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = [
        compare(distance, probability, options.shots, options.seconds, options.rounds)
        for distance in options.distances
        for probability in options.probabilities
    ]
    versions = {"ringcall": ringcall.__version__, "pymatching": pymatching.__version__, "stim": stim.__version__}
    print(json.dumps({"machine": platform.machine(), "versions": versions, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
