"""Conversion of any values that numpy can read into arrays for the Rust part, which calls these functions."""

from __future__ import annotations

from typing import Any

import numpy as np


def syndrome(z: Any, num_detectors: int, num_nodes: int) -> np.ndarray:
    """A byte for each node, from a syndrome of one or two dimensions."""
    try:
        z = np.array(z, dtype=np.uint8)
    except ValueError:
        raise ValueError(f"a syndrome must be an array of numbers, or something to make one of, not {z!r}") from None
    if z.ndim == 1 and num_detectors <= z.shape[0] <= num_nodes:
        return np.ascontiguousarray(z)
    if z.ndim == 2 and z.size == num_detectors:
        # Checks in the first dimension, times in the second one: nodes are numbered time by time.
        return np.array(z).ravel(order="F")
    raise ValueError(
        f"a syndrome of the shape {z.shape} does not fit the graph: it has {num_detectors} detectors, {num_nodes} nodes"
    )


def shots(shots: Any, num_detectors: int, num_nodes: int, bit_packed: bool) -> np.ndarray:
    """Bytes in C order, from a batch of syndromes; the same array if it has that form."""
    try:
        array = shots if isinstance(shots, np.ndarray) else np.asarray(shots, dtype=np.uint8)
        if array.dtype == np.bool_:
            array = np.ascontiguousarray(array).view(np.uint8)
        elif array.dtype != np.uint8:
            array = array.astype(np.uint8)
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"`shots` must be an array of numbers: {error}") from None
    if array.ndim != 2:
        raise ValueError(f"`shots` must have two dimensions, not {array.ndim}")
    least, most = num_detectors, num_nodes
    if bit_packed:
        least, most = -(-least // 8), -(-most // 8)
    if not least <= array.shape[1] <= most:
        packed = "bit-packed " if bit_packed else ""
        raise ValueError(
            f"{packed}`shots` must have {least} to {most} columns, for {num_detectors} detectors and "
            f"{num_nodes} nodes, but they have {array.shape[1]}"
        )
    return np.ascontiguousarray(array)


def edge_reweights(value: Any) -> list[tuple[int, int, float]]:
    """Two ends and a weight for each row of an array."""
    try:
        rows = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`edge_reweights` must be an array of numbers, not {value!r}") from None
    if rows.size == 0:
        return []
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise ValueError(f"`edge_reweights` must have the shape (k, 3), not {rows.shape}")
    ends = rows[:, :2]
    if not np.array_equal(ends, np.rint(ends)) or np.abs(ends).max() > 2**53:
        raise ValueError("the ends of edges in `edge_reweights` must be whole numbers, with -1 for the boundary")
    return [(int(u), int(v), float(weight)) for u, v, weight in rows]


def rounds(value: Any) -> np.ndarray:
    """A whole number for each detector."""
    try:
        numbers = np.asarray(list(value) if isinstance(value, range) else value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`rounds` must be an array of whole numbers, not {value!r}") from None
    if numbers.ndim != 1:
        raise ValueError(f"`rounds` must have one dimension, not {numbers.ndim}")
    if not np.array_equal(numbers, np.rint(numbers)) or (numbers.size and np.abs(numbers).max() > 2**53):
        raise ValueError("`rounds` must be whole numbers")
    return np.ascontiguousarray(numbers, dtype=np.int64)


def only_bits(array: np.ndarray) -> np.ndarray:
    """An array of zeros and ones; anything else is a ValueError."""
    bits = array.astype(np.bool_)
    if not np.array_equal(bits, array):
        raise ValueError("there are other elements than 0 and 1")
    return bits
