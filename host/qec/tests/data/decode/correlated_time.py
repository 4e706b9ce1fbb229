"""Times plain and correlated matching beside PyMatching's, on the same shots, in turns.

    pip install stim==1.16.0 pymatching==2.4.0
    cargo build --release -p ringcall-qec --example correlated_time
    python3 host/qec/tests/data/decode/correlated_time.py target/release/examples/correlated_time [D,P,SHOTS...]

PyMatching decodes all shots in one call of `decode_batch`, once without correlations and once with them, bit-packed. Both give predictions alone. All times are CPU times of one
thread; a row is the median of five turns. With `load` in place of the shots, making the decoder is timed instead, from a
`.dem` file, each in a process of its own: CPU time, and the most memory less that of an empty process.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pymatching
import stim

TURNS = 5
USUAL = [f"{d},{p},{n}" for d, n in ((7, 20000), (9, 10000), (13, 4000), (21, 1000)) for p in (0.003, 0.006)]


def circuit(d, p):
    noise = dict.fromkeys(
        (
            "after_clifford_depolarization",
            "after_reset_flip_probability",
            "before_measure_flip_probability",
            "before_round_data_depolarization",
        ),
        p,
    )
    return stim.Circuit.generated("surface_code:rotated_memory_z", distance=d, rounds=d, **noise)


def write_model(c, path):
    model = c.detector_error_model(decompose_errors=True).flattened()
    with open(path, "w") as file:
        file.write(str(model))


def decode(program, d, p, count, folder):
    c = circuit(d, p)
    dem, b8 = f"{folder}/model.dem", f"{folder}/shots.b8"
    write_model(c, dem)
    shots = c.compile_detector_sampler(seed=1000 * d + 7).sample(count)
    stim.write_shot_data_file(data=shots, path=b8, format="b8", num_detectors=shots.shape[1])
    packed = np.packbits(shots, axis=1, bitorder="little")
    matchings = [
        pymatching.Matching.from_detector_error_model_file(dem, enable_correlations=correlations)
        for correlations in (False, True)
    ]
    rows = []
    for _ in range(TURNS):
        out = subprocess.run([program, dem, b8, "5", "both", "observables"], check=True, capture_output=True, text=True).stdout
        plain, correlated = (float(x) for x in re.findall(r"([0-9.]+) us", out))
        theirs = []
        for correlations, matching in enumerate(matchings):
            begin = time.process_time()
            matching.decode_batch(packed, bit_packed_shots=True, enable_correlations=bool(correlations))
            theirs.append((time.process_time() - begin) / count * 1e6)
        ratios = plain / theirs[0], correlated / theirs[1], correlated / plain
        rows.append((plain, theirs[0], correlated, theirs[1], *ratios))
    *times, plain, correlated, passes = (statistics.median(column) for column in zip(*rows))
    times = " | ".join(f"{time:.2f}" for time in times)
    print(f"| {d} | {p} | {times} | {plain:.3f} | {correlated:.3f} | {passes:.2f} |", flush=True)


def child(command):
    """CPU time and peak memory of a process, in seconds and MB."""
    pid = os.spawnvp(os.P_NOWAIT, command[0], command)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def load(program, d, p, folder):
    dem = f"{folder}/model.dem"
    write_model(circuit(d, p), dem)
    script = "import numpy, stim, pymatching, sys\nif len(sys.argv) > 1:\n"
    script += "    m = pymatching.Matching.from_detector_error_model_file(sys.argv[1], enable_correlations=True)\n"
    script += "    m.decode(numpy.zeros(m.num_detectors, dtype=numpy.uint8), enable_correlations=True)\n"
    python = [sys.executable, "-c", script]
    rows = []
    for _ in range(3):
        ours, empty = child([program, dem, "/dev/null", "1", "correlated"]), (0, 2)
        theirs, without = child([*python, dem]), child(python)
        less = [ours[0], ours[1] - empty[1], theirs[0] - without[0], theirs[1] - without[1]]
        rows.append((*less, less[0] / less[2], less[1] / less[3]))
    values = [statistics.median(column) for column in zip(*rows)]
    print("| {} | {:.2f} | {:.0f} | {:.2f} | {:.0f} | {:.2f} | {:.2f} |".format(d, *values), flush=True)


def main():
    program, wanted = sys.argv[1], sys.argv[2:] or USUAL
    with tempfile.TemporaryDirectory() as folder:
        if wanted[0] == "load":
            print("| d | ours s | MB | PyMatching s | MB | time | memory |")
            for d in map(int, wanted[1:] or (17, 21, 31, 41)):
                load(program, d, 0.003, folder)
            return
        print("| d | p | plain us | PyMatching us | correlated us | PyMatching us | ratio | ratio | correlated / plain |")
        for case in wanted:
            d, p, count = case.split(",")
            decode(program, int(d), float(p), int(count), folder)


if __name__ == "__main__":
    main()
