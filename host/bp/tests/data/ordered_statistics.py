"""Weights of the errors that BP+OSD of `ldpc` finds, for `ordered_statistics.rs`: python ordered_statistics.py > ordered_statistics.txt

Written with ldpc 2.4.1 and numpy 2.4.6. One iteration of min-sum from integer priors, none of whose marginals are equal, so that the order of
columns is the same in integers and in floating point. Each line: number of checks, the columns as prior:check,check, the defects, and the
weights (sums of priors) of order 0 and of combination sweeps of order 1 and 7.
"""

import numpy as np
from ldpc import BpOsdDecoder

rng = np.random.default_rng(24)
written = 0
while written < 200:
    checks, columns = int(rng.integers(6, 20)), int(rng.integers(16, 36))
    matrix = np.zeros((checks, columns), dtype=np.uint8)
    for column in range(columns):
        degree = int(rng.integers(1, 5))
        matrix[rng.choice(checks, degree, replace=False), column] = 1
    priors = rng.integers(40, 101, columns)
    syndrome = (matrix @ (rng.random(columns) < 0.2)) % 2
    # Marginals after an iteration: the prior and, of each check, the least prior of its other columns, negated if the check fired.
    marginals = priors.copy()
    for check in range(checks):
        members = np.flatnonzero(matrix[check])
        for column in members:
            others = [priors[other] for other in members if other != column]
            least = min(others, default=127)
            marginals[column] += -least if syndrome[check] else least
    lone = (matrix.sum(axis=1) == 1).any()
    if len(set(marginals)) < columns or len(np.unique(matrix, axis=1).T) < columns or lone:
        continue
    weights = []
    for method, order in [("OSD_0", 0), ("OSD_CS", 1), ("OSD_CS", 7)]:
        decoder = BpOsdDecoder(
            matrix,
            error_channel=list(1 / (1 + np.exp(priors / 8))),
            max_iter=1,
            bp_method="minimum_sum",
            ms_scaling_factor=1.0,
            osd_method=method,
            osd_order=order,
        )
        found = decoder.decode(syndrome.astype(np.uint8))
        assert ((matrix @ found) % 2 == syndrome).all()
        weights.append(int(priors @ found))
    if decoder.converge:
        continue
    written += 1
    listed = " ".join(
        f"{prior}:{','.join(map(str, np.flatnonzero(matrix[:, column])))}" for column, prior in enumerate(priors)
    )
    defects = ",".join(map(str, np.flatnonzero(syndrome)))
    print(f"{checks} | {listed} | {defects} | {' '.join(map(str, weights))}")
