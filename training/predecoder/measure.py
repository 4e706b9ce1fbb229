"""Logical errors, syndrome density and matching time with the network and without, on the same shots.

Stim draws the shots and PyMatching matches, in worker processes; the network runs on the device. So nothing of the
training's own sampler is trusted here.
"""

import math
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch

from . import shots
from .geometry import Volume
from .sampler import Residual

THRESHOLDS = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 4.0)


class Network:
    """The network on its device, from packed detectors to packed residuals."""

    def __init__(self, network, device, dtype):
        self.network = network.to(device, dtype, memory_format=torch.channels_last_3d).eval()
        self.device, self.dtype = device, dtype
        self.known = {}

    def _tools(self, volume):
        key = (volume.distance, volume.rounds, volume.basis)
        if key not in self.known:
            self.known[key] = (
                Residual(volume, self.device),
                torch.as_tensor(volume.maps, device=self.device, dtype=self.dtype),
                torch.as_tensor(volume.label_mask, device=self.device),
            )
        return self.known[key]

    @torch.no_grad()
    def __call__(self, volume, packed, thresholds):
        residual_of, maps, mask = self._tools(volume)
        n = len(volume.detectors)
        raw = torch.as_tensor(packed, device=self.device)
        bit = torch.arange(8, device=self.device, dtype=torch.uint8)
        bits = ((raw.unsqueeze(2) >> bit) & 1).flatten(1)[:, :n].t().contiguous()
        x = torch.zeros(volume.cells * 4, bits.shape[1], device=self.device, dtype=self.dtype)
        x[residual_of.detectors] = bits.to(self.dtype)
        x = (x.t() + maps).contiguous()
        x = x.view(-1, *volume.shape, 4).permute(0, 4, 1, 2, 3)
        logits = self.network(x).permute(0, 2, 3, 4, 1).reshape(bits.shape[1], -1).t()
        out = []
        for threshold in thresholds:
            decisions = ((logits > threshold) & mask.unsqueeze(1)).to(torch.uint8)
            residual, frame = residual_of(bits, decisions)
            padded = torch.nn.functional.pad(residual.t(), (0, -n % 8)).view(residual.shape[1], -1, 8)
            out.append(((padded << bit).sum(2, dtype=torch.uint8), frame))
        return [(a.cpu().numpy(), b.cpu().numpy()) for a, b in out]


def ratio(with_network, alone, both):
    """Ratio of two failure counts of the same shots, with a 95% interval (delta method, paired)."""
    if not with_network or not alone:
        return None
    spread = 1 / with_network + 1 / alone - 2 * both / (with_network * alone)
    middle, half = math.log(with_network / alone), 1.96 * math.sqrt(max(spread, 0.0))
    return [math.exp(middle), math.exp(middle - half), math.exp(middle + half)]


class Study:
    """Counts of one case: distance, noise, both bases together."""

    def __init__(self, distance, p, thresholds):
        self.distance, self.p, self.thresholds = distance, p, tuple(thresholds)
        self.shots = self.alone = self.detectors = self.before = 0
        self.alone_seconds = 0.0
        self.counts = np.zeros((len(self.thresholds), 5))
        self.per_basis = {b: {"shots": 0, "alone": 0, "with": [0] * len(self.thresholds)} for b in "XZ"}

    def add(self, basis, drawn, found, detectors):
        _, truth, alone, seconds, before = drawn
        self.shots += len(truth)
        self.alone += int(alone.sum())
        self.alone_seconds += seconds
        self.before += before
        self.detectors = detectors
        self.counts += np.array(found)
        own = self.per_basis[basis]
        own["shots"] += len(truth)
        own["alone"] += int(alone.sum())
        own["with"] = [a + int(b[0]) for a, b in zip(own["with"], found)]

    def rows(self):
        rows = []
        for threshold, (failed, both, seconds, left, empty) in zip(self.thresholds, self.counts):
            rows.append(
                {
                    "threshold": threshold,
                    "errors": int(failed),
                    "errors_in_common": int(both),
                    "ratio": ratio(failed, self.alone, both),
                    "density": left / self.shots / self.detectors,
                    "density_cut": self.before / left if left else None,
                    "matching_us": 1e6 * seconds / self.shots,
                    "matching_cut": self.alone_seconds / seconds,
                    "empty_residuals": empty / self.shots,
                }
            )
        return rows

    def json(self):
        return {
            "distance": self.distance,
            "rounds": self.distance,
            "p": self.p,
            "shots": self.shots,
            "errors_alone": self.alone,
            "density": self.before / self.shots / self.detectors,
            "matching_us": 1e6 * self.alone_seconds / self.shots,
            "per_basis": self.per_basis,
            "thresholds": self.rows(),
        }


def least_cut(p):
    """How many fold the syndrome's density must fall at the chosen threshold."""
    return 5.0 if p > 0.004 else 10.0


def choose(study):
    """The threshold with the fewest logical errors among those that thin the syndrome enough."""
    rows = study.rows()
    fit = [row for row in rows if row["density_cut"] is None or row["density_cut"] >= least_cut(study.p)]
    return min(fit or rows, key=lambda row: (row["errors"], -row["threshold"]))["threshold"]


class Evaluator:
    """Worker processes; they make the decoders of `cases`, (distance, p), as soon as they are there."""

    def __init__(self, workers, cases=()):
        self.workers = workers
        known = [(distance, basis, p) for distance, p in cases for basis in "XZ"]
        self.pool = ProcessPoolExecutor(workers, get_context("spawn"), shots.warm_up, (known,))
        self.started = [self.pool.submit(int) for _ in range(workers)]

    def run(self, network, distance, p, thresholds, seconds, failures, seed, batch=1024):
        """Draws until matching alone has failed `failures` times, or for `seconds`, or `most` shots."""
        study = Study(distance, p, thresholds)
        volumes = {basis: Volume(distance, distance, basis) for basis in "XZ"}
        drawing, finishing = deque(), deque()
        begun, started = time.monotonic(), 0

        def settle():
            basis, drawn, finish = finishing.popleft()
            study.add(basis, drawn, finish.result(), len(volumes[basis].detectors))

        def enough():
            return study.alone >= failures or time.monotonic() - begun > seconds

        while True:
            while not enough() and len(drawing) < self.workers + 4:
                basis = "XZ"[started % 2]
                # A seed for each batch; the study's seed leaves room for a million of them.
                case = (distance, basis, p)
                number = seed * 1_000_000_007 + started + int(p * 1e6) * 4099 + distance * 65_537
                drawing.append((basis, self.pool.submit(shots.draw, case, number, batch)))
                started += 1
            if not drawing:
                break
            basis, future = drawing.popleft()
            if enough():
                # What was drawn ahead is not looked at: the stop must not depend on its outcome.
                future.cancel()
                continue
            drawn = future.result()
            answers = network(volumes[basis], drawn[0], study.thresholds)
            case = (distance, basis, p)
            finishing.append((basis, drawn, self.pool.submit(shots.finish, case, drawn[1], drawn[2], answers)))
            while len(finishing) > self.workers + 4 or (finishing and finishing[0][2].done()):
                settle()
        while finishing:
            settle()
        return study

    def close(self):
        self.pool.shutdown(cancel_futures=True)


def evaluate(network, evaluator, cases, seconds, failures, seed, log, save, batch=1024):
    """Thresholds chosen on one set of shots, then reported on another. `cases`: (distance, p, weight)."""
    ends = time.monotonic() + seconds
    out = []
    for k, (distance, p, weight) in enumerate(cases):
        share = (ends - time.monotonic()) * weight / sum(weight for _, _, weight in cases[k:])
        if share < 0.5:
            log(f"d{distance} p {p}: no time left")
            continue
        tune = evaluator.run(network, distance, p, THRESHOLDS, 0.35 * share, failures, 2 * seed, batch)
        chosen = choose(tune)
        held = evaluator.run(network, distance, p, (chosen,), 0.65 * share, failures, 2 * seed + 1, batch)
        row = held.rows()[0]
        result = {"chosen": chosen, "tune": tune.json(), "confirm": held.json()}
        out.append(result)
        log(
            f"d{distance} p {p}: threshold {chosen}, {held.shots} shots, errors {held.alone} -> {row['errors']}"
            f" ratio {row['ratio']}, density cut {row['density_cut']}, matching cut {row['matching_cut']:.2f}"
        )
        for row in tune.rows():
            log(
                f"    {row['threshold']:4.1f}: {tune.alone} -> {row['errors']}"
                f" cut {row['density_cut'] and round(row['density_cut'], 2)} time {row['matching_cut']:.2f}"
            )
        save(out)
    return out
