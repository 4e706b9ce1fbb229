"""Writes the shot files of this folder with Stim: pip install stim==1.16.0; python3 make_shots.py

One set of 64 shots of a distance-3 memory under heavy noise, per kind of content and per format:
    detectors       detectors alone
    appended        detectors followed by observables (Stim's --append_observables)
    measurements    raw measurement results
"""

import os

import numpy as np
import stim

HERE = os.path.dirname(os.path.abspath(__file__))
RATE = 0.03
circuit = stim.Circuit.generated(
    "surface_code:rotated_memory_z",
    distance=3,
    rounds=3,
    after_clifford_depolarization=RATE,
    before_round_data_depolarization=RATE,
    before_measure_flip_probability=RATE,
    after_reset_flip_probability=RATE,
)
measurements = circuit.compile_sampler(seed=5).sample(64)
detectors, observables = circuit.compile_m2d_converter().convert(
    measurements=measurements, separate_observables=True
)
assert detectors.any() and observables.any()
for extension in ("01", "b8", "r8", "ptb64", "hits", "dets"):
    for name, data, counts in (
        ("detectors", detectors, {"num_detectors": circuit.num_detectors}),
        (
            "appended",
            np.hstack([detectors, observables]),
            {"num_detectors": circuit.num_detectors, "num_observables": circuit.num_observables},
        ),
        ("measurements", measurements, {"num_measurements": circuit.num_measurements}),
    ):
        stim.write_shot_data_file(
            data=data, path=os.path.join(HERE, f"{name}.{extension}"), format=extension, **counts
        )
print(circuit.num_measurements, circuit.num_detectors, circuit.num_observables)
