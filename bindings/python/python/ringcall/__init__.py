"""Exact minimum-weight perfect matching for quantum error correction.

`Matching` is a drop-in for `pymatching.Matching`:

>>> import ringcall
>>> m = ringcall.Matching([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
>>> m.decode([1, 1, 0])
array([0, 1, 0, 0], dtype=uint8)

`sinter_decoders` makes it known to sinter:

    sinter collect --custom_decoders_module_function "ringcall:sinter_decoders" --decoders ringcall ...

`run` and `sweep` are the commands `ringcall run` and `ringcall sweep` with results as values, `Pipeline` and `Service` do the same
for a circuit or model of your own; the command `ringcall` is installed beside them.
"""

from ringcall._pipeline import Pipeline
from ringcall._ringcall import Endless, Stream, __version__, rand_float, randomize, set_seed
from ringcall._service import Decoded, Service, ServiceResult
from ringcall._sinter import sinter_decoders
from ringcall._studies import Arm, Latency, Point, RunResult, SweepResult, run, sweep
from ringcall.matching import Matching

__all__ = [
    "Arm",
    "Decoded",
    "Endless",
    "Latency",
    "Matching",
    "Pipeline",
    "Point",
    "RunResult",
    "Service",
    "ServiceResult",
    "Stream",
    "SweepResult",
    "__version__",
    "rand_float",
    "randomize",
    "run",
    "set_seed",
    "sinter_decoders",
    "sweep",
]
