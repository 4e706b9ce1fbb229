"""The network in integers: what it computes is the same, bit by bit, on everything that computes it.

A hidden layer takes and leaves bytes, 0..255. A convolution is a sum of products of integers that single precision holds
exactly, whatever the order; then come one multiplication, one addition and one rounding (to the nearest, ties to the even),
which IEEE 754 defines:

    layer     byte'  = clamp(round(sum * factor[channel] + offset[channel]), 0, 255)
    last one  logit  = sum * factor[channel] + offset[channel]

The volume's values, 0, 0.5 and 1, come in doubled. Nothing here needs PyTorch; what trains such networks is in
`quantized.py`.
"""

from dataclasses import dataclass

import numpy as np

DOUBLED = 2.0
TOP = 255
# A weight's bits, its sign included, of the first layer, the middle ones and the last. The middle ones are what a GPU multiplies
# in bytes; the others cost next to nothing.
BITS = (10, 8, 10)
# Integers up to here are exact in single precision.
EXACT = 2**24


@dataclass
class Layer:
    weight: np.ndarray  # int16 [out, in, 3, 3, 3]
    factor: np.ndarray  # f32 [out]
    offset: np.ndarray  # f32 [out]

    def largest_sum(self, inputs):
        """What no partial sum exceeds, for inputs of 0..`inputs`."""
        flat = self.weight.reshape(len(self.weight), -1).astype(np.int64)
        return int(max(flat.clip(min=0).sum(1).max(), (-flat).clip(min=0).sum(1).max())) * inputs
