"""`ringcall run` and `ringcall sweep` for programs and notebooks."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ringcall._ringcall import call

_WRITTEN = {"json", "report", "sinter_csv"}


def _words(command: str, options: dict[str, Any]) -> list[str]:
    """The command line of keyword arguments, by the names of options."""
    words = [command]
    for name, value in options.items():
        if name in _WRITTEN:
            raise TypeError(f"{command}() does not take `{name}`: results are returned")
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            # `=` keeps a value that begins with a dash from being an option.
            words.append(option + "=" + ",".join(map(str, value)))
        else:
            words.append(f"{option}={value}")
    return words


def _take(kind: Any, values: dict[str, Any]) -> Any:
    """A dataclass of the keys that it knows."""
    return kind(**{f.name: values[f.name] for f in fields(kind) if f.name in values})


def _frame(page: str) -> str:
    """A whole page within another one, which keeps the styles of the two apart."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:40em;border:0"></iframe>'


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from error
    return pandas


@dataclass(frozen=True)
class Arm:
    """One way of decoding the shots of a point.

    >>> import ringcall
    >>> point = ringcall.sweep(distances=3, noises=0.02, shots=1000).points[0]
    >>> [(arm.matching, arm.predecoder) for arm in point.arms]
    [('correlated', False)]
    """

    matching: str | None
    predecoder: bool
    errors: int
    logical_error_rate: float | None
    #: Clopper-Pearson, at the confidence of the sweep.
    logical_error_rate_ci: tuple[float | None, float | None]
    logical_error_rate_per_round: float | None
    #: The mean of a shot.
    matching_us: float | None
    #: Shots that this arm and the first one got wrong.
    errors_in_common: int
    #: Errors for each of the first arm's, on the same shots.
    ratio: float | None
    ratio_ci: tuple[float | None, float | None]


@dataclass(frozen=True)
class Point:
    """One memory experiment of a sweep.

    >>> import ringcall
    >>> point = ringcall.sweep(distances=3, noises=0.02, shots=1000).points[0]
    >>> point.code, point.distance, point.rounds, point.basis, point.p, point.complete
    ('surface', 3, 3, 'Z', 0.02, True)
    """

    code: str
    distance: int
    rounds: int
    basis: str | None
    p: float
    complete: bool
    shots: int
    unconverged: int
    density_in: float | None
    #: The first is matching alone.
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class SweepResult:
    """What `sweep` found. In a notebook it shows the report of `ringcall sweep`.

    >>> import ringcall
    >>> found = ringcall.sweep(distances=3, noises=0.02, shots=1000)
    >>> found.complete, found.settings["seed"]
    (True, 1)
    """

    complete: bool
    settings: dict[str, Any]
    points: tuple[Point, ...]
    #: The report, a page of its own.
    html: str = field(repr=False)

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each point and arm."""
        rows = []
        for point in self.points:
            own = {name: value for name, value in asdict(point).items() if name != "arms"}
            for arm in point.arms:
                cells = asdict(arm)
                for name in ("logical_error_rate_ci", "ratio_ci"):
                    cells[name[:-2] + "low"], cells[name[:-2] + "high"] = cells.pop(name)
                rows.append({**own, **cells})
        return _pandas().DataFrame(rows)

    def _repr_html_(self) -> str:
        return _frame(self.html)


@dataclass(frozen=True)
class Latency:
    """A distribution of times, in microseconds; None without a sample.

    >>> import ringcall
    >>> latency = ringcall.run(distance=3, requests=100, timeout_ms=60_000).latency_us
    >>> latency.min <= latency.p50 <= latency.p99 <= latency.max
    True
    """

    min: float | None
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None
    stddev: float | None


@dataclass(frozen=True)
class RunResult:
    """What `run` measured. In a notebook it shows the report of `ringcall run`.

    >>> import ringcall
    >>> measured = ringcall.run(distance=3, requests=100, timeout_ms=60_000)
    >>> measured.submitted, measured.lost, sorted(measured.stages_us)[0]
    (100, 0, 'dispatch')
    """

    settings: dict[str, str]
    submitted: int
    completed: int
    lost: int
    throughput_per_s: float | None
    latency_us: Latency
    stages_us: dict[str, Latency]
    shots: int
    logical_errors: int
    logical_error_rate: float | None
    logical_error_rate_ci: tuple[float | None, float | None] | None
    #: Everything that `ringcall run --json` writes (docs/report.md).
    json: dict[str, Any] = field(repr=False)
    #: The report, a page of its own.
    html: str = field(repr=False)

    def to_pandas(self) -> Any:
        """A DataFrame of times in microseconds, with a row for the whole and for each stage."""
        rows = {"latency": asdict(self.latency_us)}
        rows.update((name, asdict(stage)) for name, stage in self.stages_us.items())
        return _pandas().DataFrame.from_dict(rows, orient="index")

    def _repr_html_(self) -> str:
        return _frame(self.html)


def sweep(**options: Any) -> SweepResult | None:
    """Measures logical error rates over codes, distances and noises.

    Keyword arguments are the options of `ringcall sweep`, by their names with underscores; a list is for an option that takes
    several values. Results are returned: `json`, `report` and `sinter_csv` are not taken. With `shard="i/n"` and `state` it counts
    one shard and returns None; `ringcall merge` joins all of them. Other Python threads run meanwhile, and Ctrl-C raises
    KeyboardInterrupt; with `state`, the same call goes on from there.

    A wrong option is a ValueError, anything else that the command would fail of a RuntimeError.

    >>> import ringcall
    >>> found = ringcall.sweep(distances=[3, 5], noises=[0.02], shots=1000)
    >>> [(point.distance, point.shots) for point in found.points]
    [(3, 1000), (5, 1000)]
    """
    called = call(_words("sweep", options))
    if called is None:
        return None
    text, page = called
    found = json.loads(text)

    def arm(values: dict[str, Any]) -> Arm:
        pairs = {name: tuple(values[name]) for name in ("logical_error_rate_ci", "ratio_ci")}
        return _take(Arm, {**values, **pairs})

    points = tuple(
        _take(Point, {**point, "arms": tuple(map(arm, point["arms"]))}) for point in found["points"]
    )
    return SweepResult(complete=found["complete"], settings=found["settings"], points=points, html=page)


def run(**options: Any) -> RunResult:
    """Runs a memory experiment through the whole pipeline, and measures it.

    Keyword arguments are the options of `ringcall run`, as those of `sweep` are. A request that was lost, timed out or
    refused is a RuntimeError.

    >>> import ringcall
    >>> ringcall.run(distance=3, requests=100, timeout_ms=60_000).completed
    100
    """
    text, page = call(_words("run", options))  # type: ignore[misc]
    found = json.loads(text)
    interval = found.get("logical_error_rate_ci")
    return _take(
        RunResult,
        {
            **found,
            "latency_us": _take(Latency, found["latency_us"]),
            "stages_us": {
                name: _take(Latency, stage)
                for name, stage in found["stages_us"].items()
                if isinstance(stage, dict)
            },
            "logical_error_rate_ci": tuple(interval) if interval else None,
            "json": found,
            "html": page,
        },
    )
