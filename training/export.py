#!/usr/bin/env python3
"""Writes a trained network as ONNX files (the forms are those of predecoder/onnx_forms.py).

    python3 export.py RUN/3x128.pt --out models                      # the core: models/predecoder_3x128.onnx
    python3 export.py RUN/3x128.pt --out models --bind 13:13:Z:0.006 --form measurements
                                           # bound to an experiment: models/predecoder_3x128_d13_r13_Z.measurements.onnx

Thresholds come from RUN/3x128.metrics.json; --threshold overrides what --bind would take from there.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import onnx
from predecoder import onnx_forms
from predecoder.geometry import Volume
from predecoder.quantized import load


def thresholds(path):
    """{(distance, p): chosen threshold} of an evaluation."""
    if not path.exists():
        return {}
    cases = json.loads(path.read_text())["cases"]
    return {(case["confirm"]["distance"], case["confirm"]["p"]): case["chosen"] for case in cases}


def nearest(chosen, distance, p):
    """The threshold of the nearest noise (by ratio), then of the nearest distance."""
    return chosen[min(chosen, key=lambda key: (abs(math.log(key[1] / p)), abs(key[0] - distance), key))]


def metadata(name, held, chosen):
    recipe = json.loads(held["recipe"])
    out = {
        "predecoder.network": name,
        "predecoder.seed": recipe["seed"],
        "predecoder.shots": held["shots"],
        "predecoder.steps": held["step"],
        "predecoder.flip_margin": recipe.get("flip_margin", 0),
    }
    for (distance, p), threshold in sorted(chosen.items()):
        out[f"predecoder.threshold.d{distance}.p{p}"] = threshold
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bind", metavar="DISTANCE:ROUNDS:BASIS:P", help="one memory experiment")
    parser.add_argument("--form", choices=["detectors", "measurements"], default="detectors")
    parser.add_argument("--threshold", type=float)
    arguments = parser.parse_args()
    network, held = load(arguments.checkpoint)
    weights = onnx_forms.weights_of(network)
    chosen = thresholds(arguments.checkpoint.with_suffix(".metrics.json"))
    about = metadata(network.name, held, chosen)
    name = f"predecoder_{network.name}"
    if arguments.bind:
        distance, rounds, basis, p = arguments.bind.split(":")
        volume = Volume(int(distance), int(rounds), basis)
        threshold = arguments.threshold
        if threshold is None:
            if not chosen:
                sys.exit("no metrics beside the checkpoint: give --threshold")
            threshold = nearest(chosen, volume.distance, float(p))
        about |= {
            "predecoder.distance": distance,
            "predecoder.rounds": rounds,
            "predecoder.basis": basis,
            "predecoder.p": p,
            "predecoder.threshold": threshold,
        }
        model = onnx_forms.bound(weights, volume, threshold, arguments.form == "measurements", about)
        name += f"_d{distance}_r{rounds}_{basis}.{arguments.form}"
    else:
        model = onnx_forms.core(weights, about)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{name}.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(str(path), full_check=True)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
