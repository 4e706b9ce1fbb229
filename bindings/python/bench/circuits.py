"""The circuits that the benchmarks and the tests decode, and how benchmarks report."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import stim


def memory(distance, probability, rounds=None):
    """A memory experiment on the rotated surface code, with noise of one probability everywhere."""
    return stim.Circuit.generated(
        "surface_code:rotated_memory_x",
        distance=distance,
        rounds=rounds or distance,
        after_clifford_depolarization=probability,
        after_reset_flip_probability=probability,
        before_measure_flip_probability=probability,
        before_round_data_depolarization=probability,
    )


def processor():
    """The processor's name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def report(name, options, bars, rows):
    """Prints rows of figures as JSON, or puts them under a name into the file that the options give."""
    versions = {package: version(package) for package in ("ringcall", "pymatching", "sinter", "stim")}
    figures = {"processor": processor(), "versions": versions, "bars": bars, "rows": rows}
    if options.into is None:
        print(json.dumps(figures, indent=2))
        return
    file = Path(options.into)
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {name: figures}, indent=1) + "\n")


def add_options(parser):
    """Options that all benchmarks have."""
    parser.add_argument("--rounds", type=int, default=5, help="turns, of which the fastest counts")
    parser.add_argument("--into", help="a JSON file to put the figures into, beside others'")
