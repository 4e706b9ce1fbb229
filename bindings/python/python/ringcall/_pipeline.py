"""`ringcall run` for the user's circuit or model, and shots."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ringcall import _convert, _models
from ringcall._studies import RunResult, run


def _bits(name: str, array: Any, columns: int | None) -> np.ndarray:
    """Zeros and ones, a row for each shot."""
    try:
        bits = np.asarray(array)
        if bits.dtype != np.bool_:
            bits = _convert.only_bits(bits)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be an array of zeros and ones") from None
    if bits.ndim != 2 or columns is not None and bits.shape[1] != columns:
        width = "as many columns as the model has" if columns is None else f"{columns} columns"
        raise ValueError(f"`{name}` must have two dimensions and {width}, not the shape {bits.shape}")
    return bits


class Pipeline:
    """The whole pipeline in this process: a ring, its dispatcher, workers that decode, and a consumer that checks and measures.

    `model` is a `stim.Circuit`, a `stim.DetectorErrorModel` or the path of a file with one; without it the pipeline runs a generated
    experiment. Keyword arguments are the options of `ringcall run`, by their names with underscores.

    >>> import ringcall
    >>> import stim
    >>> circuit = stim.Circuit.generated(
    ...     "surface_code:rotated_memory_x", distance=3, rounds=3, after_clifford_depolarization=0.01
    ... )
    >>> pipeline = ringcall.Pipeline(circuit, workers=1, interval="0", timeout_ms=60_000)
    >>> shots, observables = circuit.compile_detector_sampler(seed=1).sample(500, separate_observables=True)
    >>> found = pipeline.run(shots, observables)
    >>> found.completed, found.lost, 0 < found.logical_errors < 50
    (500, 0, True)
    """

    def __init__(self, model: Any = None, **options: Any) -> None:
        self.model = model
        self.options = options

    def run(self, shots: Any = None, observables: Any = None, **options: Any) -> RunResult:
        """Sends shots through the pipeline and measures it.

        `shots` is an array with a row of detectors for each shot, and `observables` has what truly flipped; or `shots` is how many
        shots to sample from the model, as the option `shots` of `ringcall run` is. Other options add to those of the pipeline, or take
        their place. Errors are those of `ringcall.run`.
        """
        with tempfile.TemporaryDirectory(prefix="ringcall-") as name:
            folder = Path(name)
            model = _models.given(self.model, folder)
            words: dict[str, Any] = {**model.options, **self.options, **options}
            if isinstance(shots, (int, np.integer)) or shots is None:
                if observables is not None:
                    raise ValueError("`observables` are those of `shots`, which must be an array, too")
                if shots is not None:
                    words["shots"] = int(shots)
            else:
                rows = _bits("shots", shots, model.num_detectors)
                if observables is not None:
                    truth = _bits("observables", observables, model.num_observables)
                    if truth.shape[0] != rows.shape[0]:
                        raise ValueError(f"there are {rows.shape[0]} `shots`, and {truth.shape[0]} `observables`")
                    rows = np.hstack([rows, truth])
                    words["in_includes_appended_observables"] = True
                path = folder / "shots.b8"
                np.packbits(rows, axis=1, bitorder="little").tofile(path)
                words["in"] = path
            return run(**words)

    def __repr__(self) -> str:
        return f"<ringcall.Pipeline of {'a generated experiment' if self.model is None else type(self.model).__name__}>"
