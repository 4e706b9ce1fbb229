#!/usr/bin/env python3
"""Tables of metrics files, as Markdown."""

import json
import sys
from pathlib import Path


def main():
    print("# The committed networks\n")
    print(
        "Made by `adopt.sh` from runs of `train.py` ([../README.md](../README.md)). Shots drawn by Stim, both bases"
        " in equal\nshares, matched by PyMatching; the threshold was chosen on one set of shots, the figures are of"
        " another. Intervals are\n95%, of the ratio of two counts of the same shots. Times are processor time a shot,"
        " in batches.\n"
    )
    print(
        "Correlated matching alone makes fewer errors than these networks with plain matching: 0.29 of plain"
        " matching's at d = 13,\np = 0.006, where 3x128 leaves 0.65"
        " ([../../docs/performance/matching.md](../../docs/performance/matching.md)).\n"
    )
    for path in map(Path, sys.argv[1:]):
        held = json.loads(path.read_text())
        trained = json.loads(path.with_name(path.name.replace(".metrics.", ".train.")).read_text())
        print(f"## {held['name']}\n")
        print(
            f"{trained['steps']} steps, {trained['shots']:.3e} shots, {trained['seconds']:.0f} s on"
            f" {trained['recipe'].get('devices', 1)} x {trained['device']},"
            f" seed {trained['recipe']['seed']}, PyTorch {trained['torch']}.\n"
        )
        if before := trained.get("before"):
            same = before["network"] == held["name"]
            origin = "the network committed before it" if same else f"`{before['network']}`"
            print(
                f"It began as {origin}, of {before['steps']} steps and"
                f" {float(before['shots']):.3e} shots.\n"
            )
        print("| d | p | shots | threshold | errors, matching alone | with the network | ratio | density | cut | matching | cut |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for case in held["cases"]:
            found = case["confirm"]
            row = found["thresholds"][0]
            ratio = "{:.3f} ({:.3f} to {:.3f})".format(*row["ratio"]) if row["ratio"] else "-"
            cut = f"{row['density_cut']:.1f}" if row["density_cut"] else "-"
            print(
                f"| {found['distance']} | {found['p']} | {found['shots']} | {row['threshold']} | {found['errors_alone']}"
                f" | {row['errors']} | {ratio} | {found['density']:.4f} to {row['density']:.5f} | {cut}"
                f" | {found['matching_us']:.1f} to {row['matching_us']:.1f} us | {row['matching_cut']:.1f} |"
            )
        print("\nOther thresholds, on the shots that it was chosen on (errors of matching alone first):\n")
        print("| d | p | threshold: errors, density cut |")
        print("|---|---|---|")
        for case in held["cases"]:
            found = case["tune"]
            rows = "; ".join(
                f"{row['threshold']}: {row['errors']}, {row['density_cut']:.1f}" for row in found["thresholds"]
            )
            print(f"| {found['distance']} | {found['p']} | {found['errors_alone']}; {rows} |")
        print()


if __name__ == "__main__":
    main()
