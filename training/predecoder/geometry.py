"""Where checks, detectors and labels of a rotated surface code's memory experiment lie in the network's volume.

The volume of a distance d and T rounds is (T + 1) layers of d rows (y) and d columns (x), one cell a data qubit and
layer. The data qubit of row y and column x is Stim's at (2x + 1, 2y + 1). The check at (2i, 2j) lies in the cell of row
j and column i; where that is outside (the right column of Z checks, the bottom row of X checks), one cell further in.
No two checks of one type share a cell.

Layer t of the detectors compares round t with round t - 1: layer 0 is round 0 alone, layer T the read-out of the data
qubits with the last round. Checks of the experiment's own basis have detectors in layers 0..T, those of the other
basis in layers 1..T-1.

Channels in:  X-check bits, Z-check bits, X-check map, Z-check map. A map is 1 where a detector of a check of weight 4
              is, 0.5 where one of weight 2 is, 0 elsewhere; so it tells the memory basis and the first and last layer.
Channels out: logits of a Z error and an X error on the data qubit, in this layer; and of a flip of the X check and of
              the Z check that lies in the cell, as measured in round t (so between layers t and t + 1).
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import stim

IN, OUT = 4, 4
X, Z = 0, 1  # types of checks; an error that checks of type X detect is a Z error
RATES = (
    "after_clifford_depolarization",
    "before_round_data_depolarization",
    "before_measure_flip_probability",
    "after_reset_flip_probability",
)


def circuit(distance, rounds, basis, p):
    """The memory experiment, uniform circuit noise p: equal to ringcall-qec's, which its tests hold to Stim's."""
    task = f"surface_code:rotated_memory_{basis.lower()}"
    return stim.Circuit.generated(task, distance=distance, rounds=rounds, **{name: p for name in RATES})


@dataclass(frozen=True)
class Check:
    type: int
    position: tuple  # (2i, 2j)
    cell: tuple  # (row, column)
    data: tuple  # (row, column) of each data qubit of its support, row by row


@dataclass(frozen=True)
class Volume:
    """One memory experiment's geometry: distance, rounds and basis ("X" or "Z")."""

    distance: int
    rounds: int
    basis: str
    layers: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "layers", self.rounds + 1)

    @property
    def own(self):
        return X if self.basis == "X" else Z

    @property
    def shape(self):
        return (self.layers, self.distance, self.distance)

    @property
    def cells(self):
        return self.layers * self.distance**2

    @cached_property
    def checks(self):
        """Every check, row by row: the order of measurement in a round."""
        d = self.distance
        found = []
        for j in range(d + 1):
            for i in range(d + 1):
                data = tuple((y, x) for y in (j - 1, j) for x in (i - 1, i) if 0 <= y < d and 0 <= x < d)
                kind = X if (i + j) % 2 else Z
                if len(data) < 2 or (len(data) == 2 and (kind == X) != (j in (0, d))):
                    continue
                found.append(Check(kind, (2 * i, 2 * j), (min(j, d - 1), min(i, d - 1)), data))
        return found

    @cached_property
    def by_position(self):
        return {check.position: check for check in self.checks}

    def has_detector(self, kind, layer):
        return 0 <= layer <= self.rounds if kind == self.own else 1 <= layer < self.rounds

    @cached_property
    def detectors(self):
        """(check, layer) of each detector, in Stim's order."""
        ends = sorted((c for c in self.checks if c.type == self.own), key=lambda c: c.position)
        found = [(c, 0) for c in ends]
        for layer in range(1, self.rounds):
            found += [(c, layer) for c in self.checks]
        return found + [(c, self.rounds) for c in ends]

    @cached_property
    def logical(self):
        """Data qubits of the observable: the left column for X, the top row for Z."""
        return [(k, 0) if self.own == X else (0, k) for k in range(self.distance)]

    def cell(self, channel, layer, row, column):
        """Index of a channel of a cell, channels innermost."""
        d = self.distance
        return ((layer * d + row) * d + column) * OUT + channel

    def data_cell(self, kind, layer, qubit):
        """Index of the error that checks of this type detect, on a data qubit; None where it flips no detector."""
        return self.cell(kind, layer, *qubit) if self.has_detector(kind, layer) else None

    def flip_cell(self, check, rnd):
        """Index of a flip of the check as measured in a round; None where it flips no detector."""
        seen = 0 <= rnd < self.rounds and any(self.has_detector(check.type, t) for t in (rnd, rnd + 1))
        return self.cell(2 + check.type, rnd, *check.cell) if seen else None

    @cached_property
    def detector_cells(self):
        """Index of each detector's bit in the channels in."""
        return np.array([self.cell(c.type, t, *c.cell) for c, t in self.detectors], dtype=np.int64)

    @cached_property
    def maps(self):
        """The two constant channels in: [cells * 4], 0 elsewhere."""
        out = np.zeros(self.cells * IN, dtype=np.float32)
        for check, layer in self.detectors:
            out[self.cell(2 + check.type, layer, *check.cell)] = 1.0 if len(check.data) == 4 else 0.5
        return out

    @cached_property
    def label_mask(self):
        """Which channels out stand for anything: [cells * 4] booleans."""
        out = np.zeros(self.cells * OUT, dtype=bool)
        for kind in (X, Z):
            for layer in range(self.layers):
                cells = [self.data_cell(kind, layer, (y, x)) for y in range(self.distance) for x in range(self.distance)]
                out[[c for c in cells if c is not None]] = True
        for check in self.checks:
            out[[c for t in range(self.rounds) if (c := self.flip_cell(check, t)) is not None]] = True
        return out

    @cached_property
    def residual_cells(self):
        """Channels out whose parity each detector shows: [detectors, 6], padded with cells * 4.

        Residual of a detector = detector ^ parity of these.
        """
        pad = self.cells * OUT
        out = np.full((len(self.detectors), 6), pad, dtype=np.int64)
        for row, (check, layer) in enumerate(self.detectors):
            cells = [self.data_cell(check.type, layer, qubit) for qubit in check.data]
            cells += [self.flip_cell(check, layer), self.flip_cell(check, layer - 1)]
            cells = [c for c in cells if c is not None]
            out[row, : len(cells)] = cells
        return out

    @cached_property
    def frame_cells(self):
        """Channels out whose parity is the logical frame."""
        return np.array([self.data_cell(self.own, t, q) for t in range(self.layers) for q in self.logical])
