"""The user's circuits and detector error models, as files for the command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringcall import _load


@dataclass(frozen=True)
class Given:
    """A model as an option of the command, and its size if known."""

    options: dict[str, Any]
    num_detectors: int | None = None
    num_observables: int | None = None


def given(model: Any, folder: Path) -> Given:
    """Writes a model of Stim into a folder. A path is used as it is: of a model if it ends in `.dem`, else of a circuit."""
    if model is None:
        return Given({})
    for name, option in (("Circuit", "circuit"), ("DetectorErrorModel", "dem")):
        if _load.instance_of(model, "stim", name):
            path = folder / f"model.{option}"
            model.to_file(str(path))
            return Given({option: path}, model.num_detectors, model.num_observables)
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"a circuit or a model must be one of stim's, or the path of one, not {model!r}")
    path = Path(model).absolute()
    if path.suffix != ".dem":
        return Given({"circuit": path})
    from ringcall.matching import Matching

    graph = Matching.from_detector_error_model_file(path)
    return Given({"dem": path}, graph.num_detectors, graph.num_fault_ids)
