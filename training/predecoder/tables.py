"""From the detector error model to what the sampler needs: the rate of every mechanism, and its label.

A mechanism's label is a set of channels out (geometry.py) whose syndrome is the mechanism's and whose parity over the
logical support is its observable: for each type of check the shortest path in the graph whose nodes are detectors and
whose edges are data errors (within a layer) and measurement flips (between layers). So the label of a shot, the parity
of its mechanisms' labels, has residual 0 and the right frame by construction.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from .geometry import OUT, X, Z, Volume, circuit

BOUNDARY = -1


def mechanisms(volume: Volume, p: float):
    """{(detectors, observable flipped): probability} of the undecomposed model."""
    model = circuit(volume.distance, volume.rounds, volume.basis, p).detector_error_model(flatten_loops=True)
    found = {}
    for instruction in model:
        if instruction.type != "error":
            continue
        targets = instruction.targets_copy()
        key = (
            tuple(sorted(t.val for t in targets if t.is_relative_detector_id())),
            any(t.is_logical_observable_id() for t in targets),
        )
        assert key not in found
        found[key] = instruction.args_copy()[0]
    return found


def graph(volume: Volume, kind: int):
    """Neighbours of each detector of one type: (detector or BOUNDARY, channel out, whether the observable flips)."""
    ids = {(check.position, layer): k for k, (check, layer) in enumerate(volume.detectors)}
    edges = {k: [] for k, (check, _) in enumerate(volume.detectors) if check.type == kind}
    logical = set(volume.logical) if kind == volume.own else set()

    def add(ends, cell, flips):
        for a, b in ((ends[0], ends[-1]), (ends[-1], ends[0])) if len(ends) == 2 else ((ends[0], BOUNDARY),):
            edges[a].append((b, cell, flips))

    checks = [check for check in volume.checks if check.type == kind]
    touching = {}
    for check in checks:
        for qubit in check.data:
            touching.setdefault(qubit, []).append(check)
    for layer in range(volume.layers):
        if volume.has_detector(kind, layer):
            for qubit, around in touching.items():
                ends = [ids[check.position, layer] for check in around]
                add(ends, volume.data_cell(kind, layer, qubit), qubit in logical)
    for rnd in range(volume.rounds):
        for check in checks:
            cell = volume.flip_cell(check, rnd)
            if cell is not None:
                add([ids[check.position, t] for t in (rnd, rnd + 1) if volume.has_detector(kind, t)], cell, False)
    return edges


def shortest(edges, ends, flips):
    """Channels out on a shortest path between two detectors (or one and the boundary), of the given parity."""
    start, goal = ends[0], (ends[1] if len(ends) == 2 else BOUNDARY, flips)
    before = {(start, False): None}
    queue = deque(before)
    while queue:
        here = queue.popleft()
        if here == goal:
            path = []
            while before[here] is not None:
                here, cell = before[here]
                path.append(cell)
            return path
        if here[0] == BOUNDARY:
            continue
        for node, cell, flip in edges[here[0]]:
            there = (node, here[1] ^ flip)
            if there not in before:
                before[there] = (here, cell)
                queue.append(there)
    raise ValueError(f"no path between {ends}")


def padded(rows, fill):
    out = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return out


@dataclass
class Tables:
    """What sampling one volume takes; M mechanisms, L levels of noise."""

    levels: np.ndarray  # [L] p
    cumulative: np.ndarray  # [L, M] running sums of the rates; the last column is the sum of all
    inputs: np.ndarray  # [M, <= 4] channels in that are flipped, padded with cells * 4
    labels: np.ndarray  # [M, k] channels out that are flipped, padded with cells * 4
    observable: np.ndarray  # [M] whether the observable is flipped


def build(volume: Volume, levels) -> Tables:
    """Mechanism m fires an odd number of times with probability p_m if it is a Poisson process of rate
    -ln(1 - 2 p_m) / 2; sampling events instead of mechanisms takes time in what happens, not in what might."""
    first = mechanisms(volume, levels[0])
    keys = sorted(first)
    rates = []
    for p in levels:
        model = mechanisms(volume, p)
        assert sorted(model) == keys, "the mechanisms must not depend on the noise"
        rates.append(-0.5 * np.log1p(-2.0 * np.array([model[key] for key in keys])))
    graphs = {kind: graph(volume, kind) for kind in (X, Z)}
    known, labels = {}, []
    for detectors, flips in keys:
        label = []
        for kind in (X, Z):
            ends = tuple(k for k in detectors if volume.detectors[k][0].type == kind)
            parity = flips and kind == volume.own
            assert len(ends) <= 2 and not (parity and not ends)
            if ends and (ends, parity) not in known:
                known[ends, parity] = shortest(graphs[kind], ends, parity)
            label += known.get((ends, parity), [])
        labels.append(label)
    pad = volume.cells * OUT
    return Tables(
        levels=np.asarray(levels, dtype=np.float64),
        cumulative=np.cumsum(np.array(rates), axis=1),
        inputs=padded([volume.detector_cells[list(detectors)] for detectors, _ in keys], pad),
        labels=padded(labels, pad),
        observable=np.array([flips for _, flips in keys]),
    )


@dataclass
class Moves:
    """Sets of channels out that flip no detector and not the observable, in classes that share no channel.

    A move is four channels (padded with cells * 4). Flipping it where that makes the label cheaper leaves the cheapest
    of the labels that no decoder could tell apart, or something near it: so the network need not guess among them.
    """

    classes: list  # of [n, 4]


def cost(volume: Volume) -> np.ndarray:
    """Cost of each channel out: nearly 1, and no two sides of a move equal. The same for a cell's surroundings
    everywhere in the volume, so that a convolution can tell."""
    layer, row, column, channel = np.indices((*volume.shape, OUT)).reshape(4, -1)
    # Row and column enter a plaquette's diagonals only through the product.
    order = 24 * row + 10 * column + 60 * layer - (row % 2) * (column % 2) * 4 + 7 * (channel >= 2)
    out = 16384 + order
    return np.append(out, 0).astype(np.int32)


def moves(volume: Volume) -> Moves:
    pad = volume.cells * OUT
    classes = {}

    def add(name, cells):
        cells = [c for c in cells if c is not None]
        if len(cells) > 1:
            classes.setdefault(name, []).append(cells + [pad] * (4 - len(cells)))

    for kind in (X, Z):
        # Z errors (detected by X checks) around a Z check, and the other way round.
        for check in (c for c in volume.checks if c.type != kind):
            for layer in range(volume.layers):
                add(("space", check.position[0] // 2 % 2), [volume.data_cell(kind, layer, q) for q in check.data])
        # An error in two layers, and flips of what would see it in between.
        for row in range(volume.distance):
            for column in range(volume.distance):
                around = [c for c in volume.checks if c.type == kind and (row, column) in c.data]
                for rnd in range(volume.rounds):
                    cells = [volume.data_cell(kind, t, (row, column)) for t in (rnd, rnd + 1)]
                    flips = [volume.flip_cell(c, rnd) for c in around]
                    if None in flips:
                        continue  # one round only: nothing of the other basis is ever seen
                    add(("time", rnd % 2, row % 2, column % 2), cells + flips)
    return Moves([np.array(rows, dtype=np.int64) for _, rows in sorted(classes.items())])
