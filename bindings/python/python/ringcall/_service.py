"""A decoder service in a separate process, and its client."""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ringcall import _convert, _models
from ringcall._ringcall import ServiceClient
from ringcall._studies import _pandas, _words

_START_S = 60.0
_STOP_S = 30.0
#: Options that `Service` gives itself.
_OWN = ("json", "transport", "tag_key", "config", "stream", "check", "write_config", "service", "measurements", "slices")


def _table(rows: dict[str, Any]) -> str:
    cells = (f"<tr><th>{html.escape(str(k))}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items())
    return f"<table>{''.join(cells)}</table>"


@dataclass(frozen=True)
class Decoded:
    """The answers of a service to a batch of shots.

    >>> import ringcall
    >>> import stim
    >>> model = stim.DetectorErrorModel("error(0.1) D0 L0\\nerror(0.1) D0 D1\\nerror(0.1) D1")
    >>> with ringcall.Service(model, timeout_s=60) as service:
    ...     decoded = service.decode_batch([[0, 0], [1, 0]])
    >>> decoded.predictions
    array([[0],
           [1]], dtype=uint8)
    >>> decoded.late, len(decoded.took_us)
    (0, 2)
    """

    #: A row of `uint8` for each shot: its observables.
    predictions: np.ndarray
    #: False for shots that the service's decoder gave up, or that were past its deadline.
    converged: np.ndarray
    #: Shots that the service's `deadline` cut off.
    late: int
    #: How long each request was under way, in microseconds, as the client saw it.
    took_us: np.ndarray = field(repr=False)

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each shot."""
        columns: dict[str, Any] = {f"L{index}": bits for index, bits in enumerate(self.predictions.T)}
        return _pandas().DataFrame({**columns, "converged": self.converged, "took_us": self.took_us})

    def _repr_html_(self) -> str:
        shown: dict[str, Any] = {"shots": len(self.predictions), "late": self.late}
        if len(self.took_us):
            for name, q in (("p50 in us", 50), ("p99 in us", 99), ("longest in us", 100)):
                shown[name] = f"{np.percentile(self.took_us, q):.1f}"
        return _table(shown)


@dataclass(frozen=True)
class ServiceResult:
    """The counters of a service when it was stopped.

    >>> import ringcall
    >>> service = ringcall.Service(distance=3)
    >>> found = service.stop()
    >>> found.answers, found.refused, found.lost
    (0, 0, 0)
    """

    #: Decodes that were answered.
    answers: int
    #: Answers that the deadline cut off.
    late: int
    #: Requests that were refused, by a status.
    refused: int
    #: Requests and frames that the service's books do not explain: 0, or it is a defect.
    lost: int
    #: Counters of the transport.
    transport: dict[str, int]
    #: Everything that `ringcall serve --json` writes.
    json: dict[str, Any] = field(repr=False)

    def to_pandas(self) -> Any:
        """A Series of all counters."""
        own = {name: getattr(self, name) for name in ("answers", "late", "refused", "lost")}
        counters = {f"transport.{name}": count for name, count in self.transport.items()}
        return _pandas().Series({**own, **counters})

    def _repr_html_(self) -> str:
        counted = {name: count for name, count in self.transport.items() if count}
        own = {name: getattr(self, name) for name in ("answers", "late", "refused", "lost")}
        return _table({**own, **counted})


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        child.terminate()


class Service:
    """A decoder service over UDP, as of `ringcall serve`, in a separate process until `stop` or the end of a `with`.

    `model` is a `stim.Circuit`, a `stim.DetectorErrorModel` or the path of a file with one; without it the service decodes a generated
    experiment. Keyword arguments are the options of `ringcall serve`, by their names with underscores. `timeout_s` is how long
    `decode` waits for an answer, `window` how many requests are under way at a time. A wrong option is a ValueError, a service
    that does not start a RuntimeError.

    >>> import ringcall
    >>> import stim
    >>> model = stim.DetectorErrorModel("error(0.1) D0 L0\\nerror(0.1) D0 D1\\nerror(0.1) D1")
    >>> with ringcall.Service(model, timeout_s=60) as service:
    ...     service.decode([1, 0])
    array([1], dtype=uint8)
    >>> service.result.answers
    1
    """

    #: What the service counted, once it is stopped.
    result: ServiceResult | None

    def __init__(self, model: Any = None, *, window: int = 16, timeout_s: float = 1.0, **options: Any) -> None:
        for name in _OWN:
            if name in options:
                raise TypeError(f"Service() does not take `{name}`: use the command `ringcall serve`")
        self.result = None
        self._folder = tempfile.TemporaryDirectory(prefix="ringcall-")
        folder = Path(self._folder.name)
        self._report = folder / "report.json"
        self._model = _models.given(model, folder)
        words = _words("serve", {**self._model.options, **options})
        program = [sys.executable, "-c", "from ringcall._command import main; main()"]
        self._child = subprocess.Popen(
            [*program, *words, f"--json={self._report}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the caller, who stops the service.
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _end, self._child)
        # What it writes to its standard error is kept, so that it never waits for a reader.
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(self._child.stderr, self._errors), daemon=True)
        self._reader.start()
        try:
            #: The line that the service printed: where it is reached, and what it decodes.
            self.endpoint = self._first_line()
            pairs = dict(pair.split("=", 1) for pair in self.endpoint.split())
            #: Where it is reached.
            self.address = (pairs["ip"], int(pairs["port"]))
            host = f"[{self.address[0]}]" if ":" in self.address[0] else self.address[0]
            self._client = ServiceClient(f"{host}:{self.address[1]}", window=window, timeout_s=timeout_s)
        except BaseException:
            self._finalizer()
            raise

    @staticmethod
    def _read(stream: Any, lines: list[str]) -> None:
        lines.extend(stream)

    def _first_line(self) -> str:
        lines: list[str] = []
        stdout: Any = self._child.stdout
        reader = threading.Thread(target=lambda: lines.append(stdout.readline()), daemon=True)
        reader.start()
        reader.join(_START_S)
        if lines and lines[0].strip():
            return lines[0].strip()
        self._finalizer()
        status = self._child.wait(_STOP_S)
        self._reader.join(_STOP_S)
        why = "".join(self._errors).strip() or "the service said nothing"
        first = why.splitlines()[0].removeprefix("ringcall: ").removeprefix("error: ")
        raise (ValueError if status == 2 else RuntimeError)(first)

    def decode(self, z: Any) -> np.ndarray:
        """Decodes one syndrome into an array of `uint8` observables. `decode_batch` lists what is refused."""
        return self.decode_batch(np.asarray(z)[np.newaxis]).predictions[0]

    def decode_batch(self, shots: Any) -> Decoded:
        """Decodes a row of detectors for each shot, each a request of its own, with `window` of them in flight at a time.

        The service was given a model of Stim's or the path of a `.dem` file. An answer that does not come in time is a TimeoutError, a
        refusal a RuntimeError; Ctrl-C ends the wait. The service goes on after each of these.
        """
        if self.result is not None:
            raise RuntimeError("the service is stopped")
        detectors, observables = self._model.num_detectors, self._model.num_observables
        if detectors is None or observables is None:
            raise ValueError("the size of the model is not known: give the service a model of Stim's, or a .dem file")
        rows = _convert.shots(shots, detectors, detectors, False)
        packed = np.packbits(rows != 0, axis=1, bitorder="little")
        bits, converged, took = self._client.decode(packed, -(-observables // 8))
        predictions = np.unpackbits(bits, axis=1, bitorder="little", count=observables)
        return Decoded(predictions, converged == 1, int(np.count_nonzero(converged == 3)), took)

    def stop(self) -> ServiceResult:
        """Stops the service, which first answers the requests in flight. Returns its counters."""
        if self.result is None:
            self._finalizer()
            try:
                self._child.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._reader.join(_STOP_S)
            try:
                found = json.loads(self._report.read_text())
            except (OSError, ValueError):
                why = "".join(self._errors).strip() or f"it ended with {self._child.returncode}"
                raise RuntimeError(f"the service left no report: {why}") from None
            finally:
                for stream in (self._child.stdout, self._child.stderr):
                    if stream is not None:
                        stream.close()
                self._folder.cleanup()
            self.result = ServiceResult(
                answers=found["decodes"]["answers"],
                late=found["decodes"]["late"],
                refused=found["refused"],
                lost=sum(found["unaccounted"].values()),
                transport=found["transport"],
                json=found,
            )
        return self.result

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self.result is not None else "{}:{}".format(*self.address)
        return f"<ringcall.Service {state}>"
