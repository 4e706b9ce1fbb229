import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypedDict, overload, type_check_only

import numpy as np
from numpy.typing import ArrayLike, NDArray

__version__: str

def command(arguments: list[str]) -> int: ...
def call(arguments: list[str]) -> tuple[str, str] | None: ...

@type_check_only
class EdgeData(TypedDict):
    fault_ids: set[int]
    weight: float
    error_probability: float

class MatchingGraph:
    def __new__(cls, *_args: Any, **_kwargs: Any) -> MatchingGraph: ...
    def add_edge(
        self,
        node1: SupportsIndex,
        node2: SupportsIndex,
        fault_ids: SupportsIndex | AbstractSet[int] | None = None,
        weight: float = 1.0,
        error_probability: SupportsFloat | None = None,
        *,
        merge_strategy: str = "disallow",
        **kwargs: Any,
    ) -> None: ...
    def add_boundary_edge(
        self,
        node: SupportsIndex,
        fault_ids: SupportsIndex | AbstractSet[int] | None = None,
        weight: float = 1.0,
        error_probability: SupportsFloat | None = None,
        *,
        merge_strategy: str = "disallow",
        **kwargs: Any,
    ) -> None: ...
    def edges(self) -> list[tuple[int, int | None, EdgeData]]: ...
    def has_edge(self, node1: SupportsIndex, node2: SupportsIndex) -> bool: ...
    def has_boundary_edge(self, node: SupportsIndex) -> bool: ...
    def get_edge_data(self, node1: SupportsIndex, node2: SupportsIndex) -> EdgeData: ...
    def get_boundary_edge_data(self, node: SupportsIndex) -> EdgeData: ...
    def set_boundary_nodes(self, nodes: AbstractSet[int]) -> None: ...
    @property
    def boundary(self) -> set[int]: ...
    @property
    def num_detectors(self) -> int: ...
    @property
    def num_nodes(self) -> int: ...
    @property
    def num_edges(self) -> int: ...
    @property
    def num_fault_ids(self) -> int: ...
    def ensure_num_fault_ids(self, min_num_fault_ids: SupportsIndex) -> None: ...
    def add_noise(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]] | None: ...
    @overload
    def decode(
        self,
        z: ArrayLike,
        *,
        return_weight: Literal[False] = False,
        enable_correlations: bool = False,
        edge_reweights: ArrayLike | None = None,
        **kwargs: Any,
    ) -> NDArray[np.uint8]: ...
    @overload
    def decode(
        self,
        z: ArrayLike,
        *,
        return_weight: Literal[True],
        enable_correlations: bool = False,
        edge_reweights: ArrayLike | None = None,
        **kwargs: Any,
    ) -> tuple[NDArray[np.uint8], float]: ...
    @overload
    def decode_batch(
        self,
        shots: NDArray[Any] | Sequence[Sequence[int]],
        *,
        return_weights: Literal[False] = False,
        bit_packed_shots: bool = False,
        bit_packed_predictions: bool = False,
        enable_correlations: bool = False,
        threads: int | None = 1,
    ) -> NDArray[np.uint8]: ...
    @overload
    def decode_batch(
        self,
        shots: NDArray[Any] | Sequence[Sequence[int]],
        *,
        return_weights: Literal[True],
        bit_packed_shots: bool = False,
        bit_packed_predictions: bool = False,
        enable_correlations: bool = False,
        threads: int | None = 1,
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64]]: ...
    def decode_to_edges_array(self, syndrome: ArrayLike, *, enable_correlations: bool = False) -> NDArray[np.int64]: ...
    def decode_to_matched_dets_array(self, syndrome: ArrayLike) -> NDArray[np.int64]: ...
    def decode_to_matched_dets_dict(self, syndrome: ArrayLike) -> dict[int, int | None]: ...
    def _clear(self, num_nodes: int, num_fault_ids: int) -> None: ...
    def _take(self, other: MatchingGraph) -> None: ...
    def _load_model_text(self, text: str, correlations: bool) -> None: ...
    def _load_model_file(self, path: str | os.PathLike[str], correlations: bool) -> None: ...
    def _load_columns(
        self,
        checks: int,
        columns: tuple[NDArray[np.int64], NDArray[np.int64]],
        num_faults: int,
        faults: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
        weights: NDArray[np.float64],
        probabilities: NDArray[np.float64],
        repetitions: int,
        timelike_weights: NDArray[np.float64],
        timelike_probabilities: NDArray[np.float64],
        merge_strategy: str,
        virtual_boundary: bool,
    ) -> None: ...

class ModelSampler:
    def __new__(cls, text: str, *, enable_correlations: bool = False, seed: int | None = None) -> ModelSampler: ...
    def count_errors(self, shots: int) -> int: ...

def set_seed(seed: int) -> None: ...
def randomize() -> None: ...
def rand_float(from_: float, to: float) -> float: ...
