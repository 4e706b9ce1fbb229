"""Trains one network for a number of seconds, on one device or on several together."""

import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from . import tables
from .geometry import Volume
from .network import Average, Predecoder, with_margin
from .onnx_forms import read_core
from .quantized import Quantized
from .sampler import Sampler, level_counts
from .team import Team

LEVELS = [round(0.001 * k, 3) for k in range(1, 11)]


@dataclass
class Recipe:
    width: int = 128
    hidden: int = 3
    ends: float = 0.0  # time.time() at which it ends, the making of tables included
    seed: int = 1
    # (distance = rounds, share of the steps); a step has about `cells` cells whatever the distance.
    volumes: tuple = ((7, 0.2), (9, 0.3), (13, 0.5))
    cells: int = 830_000
    chunk: int = 4  # steps drawn at once
    peak: float = 0.005  # the noise is drawn from a triangle over LEVELS with its top here
    rate: float = 2e-3
    warm_up: int = 300
    decay: float = 1e-4
    average: float = 0.9995
    max_steps: int = 0  # 0: only time ends it
    devices: int = 1  # each with a step's cells of its own
    start: str = ""  # a core in ONNX whose training goes on
    # Taken off the logits of flips, in what is saved: one threshold then serves all four channels.
    flip_margin: float = 0.75
    integers: bool = False  # trained for integers.py


def _tables(distance, basis):
    return tables.build(Volume(distance, distance, basis), LEVELS)


def level_weights(peak):
    at = np.array(LEVELS)
    weight = np.where(at <= peak, (at - 0.0) / peak, (LEVELS[-1] + 0.001 - at) / (LEVELS[-1] + 0.001 - peak))
    return weight / weight.sum()


def all_tables(recipe, workers):
    """Of both bases of every volume, made in parallel."""
    jobs = [(distance, basis) for distance, _ in sorted(recipe.volumes, reverse=True) for basis in "XZ"]
    with ProcessPoolExecutor(workers) as pool:
        return dict(zip(jobs, pool.map(_tables, *zip(*jobs))))


class Batches:
    """Batches of one volume, half of them X and half Z, noises mixed."""

    def __init__(self, recipe, distance, pair, device, generator, host):
        self.recipe, self.pair, self.device = recipe, pair, device
        self.generator, self.host = generator, host
        self.weights = level_weights(recipe.peak)
        volume = pair[0].volume
        self.size = max(2, recipe.cells // volume.cells // 32 * 32)
        masks = np.stack([sampler.volume.label_mask for sampler in pair])
        self.masks = torch.as_tensor(masks, device=device, dtype=torch.bfloat16)
        self.queue = []

    @torch.no_grad()
    def next(self):
        if not self.queue:
            self._draw()
        return self.queue.pop()

    def _draw(self):
        shots = self.size * self.recipe.chunk
        inputs, targets = [], []
        for sampler in self.pair:
            counts = level_counts(shots // 2, LEVELS, self.weights, self.host, kinds=16)
            bits, labels, _ = sampler.draw(counts, self.generator, self.host)
            inputs.append(sampler.network_input(bits).permute(0, 2, 3, 4, 1))
            targets.append(sampler.canonical(labels).t())
        basis = torch.arange(2, device=self.device).repeat_interleave(shots // 2)
        order = torch.randperm(shots, generator=self.generator, device=self.device)
        inputs, targets = torch.cat(inputs), torch.cat(targets)
        for part in order.split(self.size):
            self.queue.append((inputs[part].permute(0, 4, 1, 2, 3), targets[part], self.masks[basis[part]]))


def loss_of(logits, target, mask):
    """Mean binary cross entropy over the channels that stand for something."""
    logits = logits.permute(0, 2, 3, 4, 1).reshape(target.shape).float()
    each = functional.binary_cross_entropy_with_logits(logits, target.float(), reduction="none")
    return (each * mask).sum() / mask.sum(dtype=torch.float32)


def go_on(network, path):
    """Gives the network the weights of a core in ONNX. What that says of its training."""
    found, about = read_core(path)
    margin = float(about.get("predecoder.flip_margin", 0))
    weights = {name: torch.from_numpy(value.copy()) for name, value in found.items()}
    # Steps of bytes are not in such a file.
    network.load_state_dict(network.state_dict() | with_margin(weights, -margin))
    return {key.removeprefix("predecoder."): about[key] for key in sorted(about) if "threshold" not in key}


# Steps between two checks of the clock, the leader's, which says when all of a team end.
STEPS_BETWEEN_CLOCKS = 16


def fit(recipe: Recipe, out: Path, device, rank=0, port=0, workers=8, log=print):
    out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    # Forks, so before the device is touched.
    built = all_tables(recipe, workers)
    log(f"tables: {time.monotonic() - begun:.1f} s")
    team = Team(rank, recipe.devices, port, device)
    torch.manual_seed(recipe.seed)
    torch.backends.cudnn.benchmark = True
    # The same distances everywhere, so that nobody waits for a larger volume; each its own shots.
    common = np.random.default_rng(recipe.seed)
    host = np.random.default_rng([recipe.seed, rank])
    generator = torch.Generator(device=device).manual_seed(recipe.seed + 1_000_003 * rank)
    made = {job: Sampler(Volume(job[0], job[0], job[1]), found, device) for job, found in built.items()}
    sources = {
        d: Batches(recipe, d, [made[d, "X"], made[d, "Z"]], device, generator, host) for d, _ in recipe.volumes
    }
    distances = [d for d, _ in recipe.volumes]
    shares = np.array([share for _, share in recipe.volumes])
    kind = Quantized if recipe.integers else Predecoder
    network = kind(recipe.width, recipe.hidden)
    trained_before = go_on(network, recipe.start) if recipe.start else {}
    network = network.to(device, memory_format=torch.channels_last_3d)
    if recipe.integers:
        network.calibrate(sources[distances[-1]].next()[0].float())
    team.follow(network.parameters())
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=recipe.rate, weight_decay=recipe.decay, fused=device.type == "cuda"
    )
    average = Average(network, recipe.average)
    name, history = network.name, []

    def save(step, elapsed):
        if not team.leads:
            return
        weights = with_margin(average.state(), recipe.flip_margin)
        held = {"width": recipe.width, "hidden": recipe.hidden, "integers": recipe.integers}
        held |= {"weights": weights, "step": step}
        held |= {"shots": shots, "seconds": elapsed, "recipe": json.dumps(asdict(recipe))}
        torch.save(held, out / f"{name}.part")
        (out / f"{name}.part").replace(out / f"{name}.pt")

    step = shots = 0
    total = {d: torch.zeros((), device=device) for d in distances}
    counts = dict.fromkeys(distances, 0)
    started = last_log = last_save = time.monotonic()
    seconds = max(recipe.ends - time.time(), 1.0)
    spent = 0.0
    while True:
        if step % STEPS_BETWEEN_CLOCKS == 0:
            # Waits for the device, so that the clock is the work's.
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            spent = team.told((time.monotonic() - started) / seconds)
        progress = max(spent, step / recipe.max_steps if recipe.max_steps else 0.0)
        if progress >= 1.0:
            break
        rate = recipe.rate * min(1.0, (step + 1) / recipe.warm_up) * 0.5 * (1 + math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = rate
        distance = distances[common.choice(len(distances), p=shares / shares.sum())]
        inputs, target, mask = sources[distance].next()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            logits = network(inputs if device.type == "cuda" else inputs.float())
        loss = loss_of(logits, target, mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        team.average([parameter.grad for parameter in network.parameters()])
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        average.update()
        total[distance] += loss.detach()
        counts[distance] += 1
        step += 1
        shots += len(target) * team.size
        now = time.monotonic()
        if team.leads and now - last_log > 5:
            losses = {str(d): float(total[d]) / counts[d] for d in distances if counts[d]}
            history.append({"step": step, "seconds": now - started, "shots": shots, "rate": rate, "loss": losses})
            shown = " ".join(f"d{d} {value:.6f}" for d, value in losses.items())
            log(f"{name}: {now - started:6.1f} s, step {step}, {shots:.3e} shots, rate {rate:.2e}, loss {shown}")
            if not all(math.isfinite(value) for value in losses.values()):
                raise FloatingPointError("the loss is not finite")
            for d in distances:
                total[d].zero_()
                counts[d] = 0
            last_log = now
        if now - last_save > 30:
            save(step, now - started)
            last_save = now
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elapsed = time.monotonic() - started
    save(step, elapsed)
    team.leave()
    if not team.leads:
        return
    log(f"{name}: done, {step} steps, {shots:.3e} shots, {elapsed:.1f} s")
    summary = {"name": name, "recipe": asdict(recipe), "steps": step, "shots": shots, "seconds": elapsed}
    summary |= {"torch": torch.__version__, "before": trained_before, "history": history}
    summary["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    (out / f"{name}.train.json").write_text(json.dumps(summary, indent=1) + "\n")
