"""Exact minimum-weight perfect matching for quantum error correction.

`Matching` is a drop-in for `pymatching.Matching`:

>>> import ringcall
>>> m = ringcall.Matching([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
>>> m.decode([1, 1, 0])
array([0, 1, 0, 0], dtype=uint8)

`sinter_decoders` makes it known to sinter:

    sinter collect --custom_decoders_module_function "ringcall:sinter_decoders" --decoders ringcall ...
"""

from ringcall._ringcall import __version__, rand_float, randomize, set_seed
from ringcall._sinter import sinter_decoders
from ringcall.matching import Matching

__all__ = ["Matching", "__version__", "rand_float", "randomize", "set_seed", "sinter_decoders"]
