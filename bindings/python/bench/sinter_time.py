"""Times sinter with Ringcall's decoder and sampler beside sinter with PyMatching, end to end, and prints JSON.

One worker, by turns, and the least of the rounds counts. Time is from the call of `sinter.collect` to its end, with the start of the
worker and the making of the decoder in it:

    python bench/sinter_time.py --distance 11 --probabilities 0.001 0.003 0.005
"""

import argparse
import resource
import time

import ringcall
import sinter
from circuits import add_options, memory, report

BARS = {"decoder": 3, "sampler": 6}
PILOT = 4096


def cpu_time():
    """Of this process, and of workers that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def collect(circuit, decoder, shots):
    """Seconds, seconds of CPU time, and errors."""
    start, cpu_start = time.perf_counter(), cpu_time()
    [stats] = sinter.collect(
        num_workers=1,
        tasks=[sinter.Task(circuit=circuit, decoder=decoder)],
        max_shots=shots,
        custom_decoders=ringcall.sinter_decoders(),
    )
    assert stats.shots == shots
    return time.perf_counter() - start, cpu_time() - cpu_start, stats.errors


def one_shot(circuit):
    """CPU seconds of Stim's sampling and of PyMatching's decoding of one shot, in this process."""
    import pymatching  # not above: sinter's workers import this file, and a worker that decodes with Ringcall needs none

    matching, sampler = pymatching.Matching(circuit), circuit.compile_detector_sampler()
    start = time.process_time()
    packed = sampler.sample(PILOT, bit_packed=True)
    sampled = time.process_time()
    matching.decode_batch(packed, bit_packed_shots=True, bit_packed_predictions=True)
    return (sampled - start) / PILOT, (time.process_time() - sampled) / PILOT


def compare(probability, options):
    circuit = memory(options.distance, probability)
    sampling, decoding = one_shot(circuit)
    shots = max(1, int(options.seconds / (sampling + decoding)))
    row = {
        "distance": options.distance,
        "probability": probability,
        "shots": shots,
        "stim_us": round(sampling * 1e6, 2),
        "most_for_a_decoder": round(1 + decoding / sampling, 2),
    }
    runs = {"pymatching": [], "ringcall": [], "ringcall_sampler": []}
    for _ in range(options.rounds):
        for decoder, found in runs.items():
            found.append(collect(circuit, decoder, shots))
    for decoder, found in runs.items():
        row[decoder] = {
            "seconds": round(min(seconds for seconds, _, _ in found), 3),
            "cpu_seconds": round(min(cpu for _, cpu, _ in found), 3),
            "errors": sum(errors for _, _, errors in found),
            "shots": shots * options.rounds,
        }
    for name, decoder in (("decoder", "ringcall"), ("sampler", "ringcall_sampler")):
        row[name] = {
            of: round(row["pymatching"][of] / row[decoder][of], 2) for of in ("seconds", "cpu_seconds")
        }
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distance", type=int, default=11)
    parser.add_argument("--probabilities", type=float, nargs="+", default=[0.001, 0.003, 0.005])
    parser.add_argument("--seconds", type=float, default=20, help="of PyMatching's and Stim's time in a round")
    add_options(parser)
    options = parser.parse_args()
    report("sinter", options, BARS, [compare(probability, options) for probability in options.probabilities])


if __name__ == "__main__":
    main()
