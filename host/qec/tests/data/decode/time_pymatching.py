"""Times PyMatching shot by shot, as its users call it: `Matching.decode` on one row of detectors.

    pip install stim==1.16.0 pymatching==2.4.0
    cargo run --release -p ringcall-qec --example decode_oracle_inputs -- /tmp/oracle
    python3 host/qec/tests/data/decode/time_pymatching.py /tmp/oracle
    cargo run --release -p ringcall-qec --example decode_time

The example times this project's decoder on the same shots. Run both on a quiet machine, in turn.
"""

import glob
import os
import sys
import time

import numpy as np
import pymatching
import stim

for path in sorted(glob.glob(f"{sys.argv[1]}/*.dem")):
    name = os.path.basename(path)[: -len(".dem")]
    model = stim.DetectorErrorModel.from_file(path)
    shots = stim.read_shot_data_file(
        path=f"{sys.argv[1]}/{name}.b8",
        format="b8",
        num_detectors=model.num_detectors,
        num_observables=model.num_observables,
    )
    rows = [np.ascontiguousarray(row, dtype=np.uint8) for row in shots[:, : model.num_detectors]]
    matching = pymatching.Matching.from_detector_error_model(model)
    for row in rows[:200]:
        matching.decode(row)
    times = []
    for row in rows:
        start = time.perf_counter_ns()
        matching.decode(row)
        times.append(time.perf_counter_ns() - start)
    p50, p99 = np.percentile(times, [50, 99]) / 1000
    print(f"{name}  pymatching {pymatching.__version__}  p50 {p50:8.2f} us  p99 {p99:8.2f} us")
