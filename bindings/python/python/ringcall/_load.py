"""Reading check matrices and the graphs of other packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

Columns = tuple[np.ndarray, np.ndarray]


def instance_of(value: Any, module: str, name: str) -> bool:
    """Whether a value is of a class of a package; the package is not imported for the check."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _only_ones(data: np.ndarray) -> None:
    data = data.astype(np.uint8)
    wrong = data[data != 1]
    if wrong.size:
        raise ValueError(f"a check matrix must have only zeros and ones, but the element {wrong[0]} was found")


def columns(matrix: Any) -> tuple[int, int, Columns]:
    """The shape of a binary matrix, and the rows of the ones in each column, compressed."""
    if hasattr(matrix, "tocsc"):
        sparse = matrix.tocsc(copy=True)
        sparse.sum_duplicates()
        if sparse.dtype.kind not in "biuf":
            raise ValueError(f"a check matrix must be of numbers, not of {sparse.dtype}")
        sparse.eliminate_zeros()
        _only_ones(sparse.data)
        return (*sparse.shape, (sparse.indptr.astype(np.int64), sparse.indices.astype(np.int64)))
    dense = np.atleast_2d(np.asarray(matrix))
    if dense.dtype.kind not in "biuf":
        raise ValueError(f"a check matrix must be of numbers, not of {dense.dtype}")
    if dense.ndim != 2:
        raise ValueError(f"a check matrix must have two dimensions, not {dense.ndim}")
    column, row = np.nonzero(dense.T)
    _only_ones(dense[row, column])
    starts = np.searchsorted(column, np.arange(dense.shape[1] + 1))
    return (*dense.shape, (starts.astype(np.int64), row.astype(np.int64)))


def for_columns(values: Any, count: int, default: float, name: str) -> np.ndarray:
    """A number for each column of the check matrix."""
    if values is None:
        values = default
    if isinstance(values, (int, float, np.integer, np.floating)):
        return np.full(count, float(values))
    try:
        numbers: np.ndarray = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a number or an array of numbers") from None
    if numbers.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension, not {numbers.ndim}")
    if numbers.shape[0] != count:
        raise ValueError(f"`{name}` has {numbers.shape[0]} entries, but the check matrix has {count} columns")
    return numbers


def for_checks(values: Any, count: int, default: float, name: str) -> np.ndarray:
    """A number for each row of the check matrix, for the row's edges between rounds."""
    if values is None:
        values = default
    if isinstance(values, (int, float, np.integer, np.floating)):
        return np.full(count, float(values))
    try:
        numbers: np.ndarray = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(())
    if numbers.ndim != 1:
        raise ValueError(f"`{name}` must be a number or an array of numbers in one dimension")
    if numbers.shape[0] != count:
        raise ValueError(f"`{name}` has {numbers.shape[0]} entries, but the check matrix has {count} rows")
    return numbers


def repetitions(value: Any) -> int:
    """How often the check matrix is repeated."""
    if value is None:
        return 1
    if not isinstance(value, (int, np.integer)) or value < 0:
        raise TypeError("`repetitions` must be an integer that is not negative")
    return int(value)


def renamed(name: str, value: Any, old: str, kwargs: dict[str, Any]) -> Any:
    """An argument that may be given by its old name instead."""
    if kwargs.get(old) is None:
        return value
    if value is not None:
        raise ValueError(f"both `{name}` and its old name `{old}` are given: give `{name}` alone")
    return kwargs[old]


def _fault_ids(value: Any) -> set[int]:
    if isinstance(value, (int, np.integer)):
        return set() if value == -1 else {int(value)}
    try:
        ids = set(value)
    except TypeError:
        ids = {None}
    if not all(isinstance(item, (int, np.integer)) for item in ids):
        raise TypeError(f"`fault_ids` must be an int or a set of int, not {value!r}")
    return ids


def edge_arguments(attributes: Any) -> dict[str, Any]:
    """The arguments of `add_edge`, from the attributes of an edge in a graph of another package."""
    if "fault_ids" in attributes and "qubit_id" in attributes:
        raise ValueError("an edge has both `fault_ids` and its old name `qubit_id`: give `fault_ids` alone")
    return {
        "fault_ids": _fault_ids(attributes.get("fault_ids", attributes.get("qubit_id", -1))),
        "weight": attributes.get("weight", 1),
        "error_probability": attributes.get("error_probability", -1),
        "merge_strategy": "smallest-weight",
    }


def networkx_parts(graph: Any) -> tuple[set[int], Iterator[tuple[int, int, Any]]]:
    """The boundary nodes and the edges of a networkx graph."""
    boundary = {int(node) for node, data in graph.nodes(data=True) if data.get("is_boundary", False)}
    return boundary, ((int(u), int(v), data) for u, v, data in graph.edges(data=True))


def rustworkx_parts(graph: Any) -> tuple[set[int], Iterator[tuple[int, int, Any]]]:
    """The boundary nodes and the edges of a rustworkx graph."""
    boundary = {index for index in graph.node_indices() if graph[index].get("is_boundary", False)}
    return boundary, iter(graph.weighted_edge_list())
