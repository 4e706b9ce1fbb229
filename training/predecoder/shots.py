"""The worker processes of the evaluation: Stim draws, PyMatching matches. No PyTorch in here."""

import os
import time

import numpy as np
import pymatching

from .geometry import circuit

_made = {}


def warm_up(cases):
    """Makes every decoder ahead of time, at the lowest priority: whoever trains meanwhile goes first."""
    os.nice(19)
    for case in cases:
        decoder(*case)


def decoder(distance, basis, p):
    key = (distance, basis, p)
    if key not in _made:
        made = circuit(distance, distance, basis, p)
        model = made.detector_error_model(decompose_errors=True)
        _made[key] = (pymatching.Matching.from_detector_error_model(model), made)
    return _made[key]


def match(matching, packed):
    """Predictions, and the seconds of processor time that they took."""
    begun = time.thread_time()
    predicted = matching.decode_batch(packed, bit_packed_shots=True)
    return predicted[:, 0].astype(bool), time.thread_time() - begun


def draw(case, seed, shots):
    """Shots bit-packed, truth, matching alone's failures, its seconds, detectors set."""
    matching, made = decoder(*case)
    sampler = made.compile_detector_sampler(seed=seed)
    packed, truth = sampler.sample(shots, separate_observables=True, bit_packed=True)
    truth = (truth[:, 0] & 1).astype(bool)
    predicted, seconds = match(matching, packed)
    return packed, truth, predicted != truth, seconds, int(np.bitwise_count(packed).sum())


def finish(case, truth, alone, answers):
    """Of each threshold's residual and frame: errors, those in common with matching alone, seconds, detectors set,
    empty residuals."""
    matching, _ = decoder(*case)
    found = []
    for packed, frame in answers:
        predicted, seconds = match(matching, packed)
        failed = (predicted ^ frame.astype(bool)) != truth
        left = int(np.bitwise_count(packed).sum())
        found.append((int(failed.sum()), int((failed & alone).sum()), seconds, left, int((~packed.any(axis=1)).sum())))
    return found
