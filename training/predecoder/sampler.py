"""Shots and canonical labels, drawn on the device: no host work that depends on what was drawn."""

import numpy as np
import torch

from . import tables
from .geometry import IN, OUT, Volume


class Sampler:
    """Draws shots of one volume. `levels` are the noises that its tables know."""

    def __init__(self, volume: Volume, built: tables.Tables, device, passes=3):
        self.volume, self.passes, self.device = volume, passes, device
        self.levels = built.levels
        self.totals = built.cumulative[:, -1]
        to = lambda array, dtype=None: torch.as_tensor(array, device=device, dtype=dtype)  # noqa: E731
        self.cumulative = to(built.cumulative, torch.float64)
        self.inputs, self.labels = to(built.inputs), to(built.labels)
        self.observable = to(built.observable, torch.int32)
        self.moves = [to(rows) for rows in tables.moves(volume).classes]
        costs = tables.cost(volume)
        self.costs = [to(costs)[rows].unsqueeze(2) for rows in self.moves]
        self.maps = to(volume.maps)

    def draw(self, shots_per_level, generator, host):
        """Shots with shots_per_level[k] of them at levels[k], in that order.

        Returns channels in as [cells * 4, shots] bits (without the maps), labels the same way, not yet canonical, and
        the observable's flips [shots]. `host` is a numpy generator: how many events there are is drawn by it.
        """
        shots = int(sum(shots_per_level))
        rows, mechanisms = [], []
        first = 0
        for level, count in enumerate(shots_per_level):
            if count == 0:
                continue
            events = int(host.poisson(count * self.totals[level]))
            at = torch.rand(events, generator=generator, device=self.device, dtype=torch.float64)
            found = torch.searchsorted(self.cumulative[level], at * self.totals[level], right=True)
            mechanisms.append(found.clamp_(max=len(self.observable) - 1))
            rows.append(torch.randint(count, (events,), generator=generator, device=self.device) + first)
            first += int(count)
        rows, mechanisms = torch.cat(rows), torch.cat(mechanisms)
        inputs = self._flip(self.inputs[mechanisms], rows, shots, self.volume.cells * IN)
        labels = self._flip(self.labels[mechanisms], rows, shots, self.volume.cells * OUT)
        observable = torch.zeros(shots, dtype=torch.int32, device=self.device)
        observable.index_add_(0, rows, self.observable[mechanisms])
        return inputs, labels, (observable & 1).to(torch.uint8)

    def _flip(self, cells, rows, shots, size):
        """Parity of hits of each cell in each shot; `cells` is padded with `size`."""
        out = torch.zeros((size + 1) * shots, dtype=torch.int32, device=self.device)
        at = (cells * shots + rows.unsqueeze(1)).flatten()
        out.index_add_(0, at, torch.ones_like(at, dtype=torch.int32))
        return (out[: size * shots] & 1).to(torch.uint8).view(size, shots)

    def canonical(self, labels):
        """The labels [cells * 4, shots], each moved where that makes it cheaper."""
        state = torch.cat([labels, labels.new_zeros(1, labels.shape[1])])
        for _ in range(self.passes):
            for rows, costs in zip(self.moves, self.costs):
                here = state[rows]
                gain = ((here.to(torch.int32) * 2 - 1) * costs).sum(1) > 0
                state[rows] = here ^ gain.unsqueeze(1)
                state[-1] = 0
        return state[:-1]

    def network_input(self, inputs):
        """[shots, 4, layers, d, d] in half or brain floats' range, channels last in memory."""
        out = inputs.t().to(torch.bfloat16) + self.maps.to(torch.bfloat16)
        return out.view(-1, *self.volume.shape, IN).permute(0, 4, 1, 2, 3)

    def network_target(self, labels):
        return labels.t().contiguous().view(-1, *self.volume.shape, OUT).permute(0, 4, 1, 2, 3)


class Residual:
    """Applies decisions: what detectors are left, and the logical frame."""

    def __init__(self, volume: Volume, device):
        self.cells = torch.as_tensor(volume.residual_cells, device=device)
        self.frame = torch.as_tensor(volume.frame_cells, device=device)
        self.detectors = torch.as_tensor(volume.detector_cells, device=device)
        self.volume = volume

    def __call__(self, detectors, decisions):
        """Of bits [detectors, shots] and decisions [cells * 4, shots]: residual [detectors, shots], frame [shots]."""
        padded = torch.cat([decisions, decisions.new_zeros(1, decisions.shape[1])])
        residual = detectors
        for column in self.cells.t():
            residual = residual ^ padded[column]
        frame = decisions[self.frame].sum(0, dtype=torch.int32) & 1
        return residual, frame.to(torch.uint8)


def level_counts(shots, levels, weights, host: np.random.Generator, kinds=8):
    """Splits shots evenly over a few levels drawn with these weights."""
    chosen = host.choice(len(levels), size=kinds, p=weights)
    return np.bincount(np.resize(chosen, shots), minlength=len(levels))
