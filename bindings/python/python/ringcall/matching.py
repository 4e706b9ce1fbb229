"""The class `Matching`: what is written in Rust, and the loading and drawing of graphs."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ringcall import _convert, _load
from ringcall._ringcall import Endless, MatchingGraph, Stream

if TYPE_CHECKING:
    import networkx as nx
    import rustworkx as rx
    import stim

    from ringcall._ringcall import EdgeData


class Matching(MatchingGraph):
    """A matching graph and its decoder: a drop-in for `pymatching.Matching`.

    `graph` may be a check matrix (dense, nested lists or of scipy), a `stim.DetectorErrorModel`, a `stim.Circuit`, a
    graph of networkx or of rustworkx, or nothing, for a graph without nodes. The other arguments are those of
    `load_from_check_matrix`, and `enable_correlations` is that of `from_detector_error_model`.

    Examples
    --------
    >>> import ringcall
    >>> m = ringcall.Matching()
    >>> m.add_edge(0, 1, fault_ids={0}, weight=0.1)
    >>> m.add_edge(1, 2, fault_ids={1}, weight=0.15)
    >>> m.set_boundary_nodes({2})
    >>> m
    <ringcall.Matching object with 2 detectors, 1 boundary node, and 2 edges>
    >>> ringcall.Matching([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    <ringcall.Matching object with 3 detectors, 1 boundary node, and 4 edges>
    """

    def __init__(
        self,
        graph: Any = None,
        weights: Any = None,
        error_probabilities: Any = None,
        repetitions: int | None = None,
        timelike_weights: Any = None,
        measurement_error_probabilities: Any = None,
        *,
        enable_correlations: bool = False,
        **kwargs: Any,
    ) -> None:
        if graph is None:
            graph = kwargs.pop("H", None)
        if graph is None:
            return
        if _load.instance_of(graph, "networkx", "Graph"):
            self.load_from_networkx(graph)
        elif _load.instance_of(graph, "rustworkx", "PyGraph"):
            self.load_from_rustworkx(graph)
        elif _load.instance_of(graph, "stim", "DetectorErrorModel"):
            self._load_model_text(str(graph), enable_correlations)
        elif _load.instance_of(graph, "stim", "Circuit"):
            self._load_from_circuit(graph, enable_correlations)
        else:
            self.load_from_check_matrix(
                graph,
                weights,
                error_probabilities,
                repetitions,
                timelike_weights,
                measurement_error_probabilities,
                **kwargs,
            )

    @staticmethod
    def from_check_matrix(
        check_matrix: Any,
        weights: Any = None,
        error_probabilities: Any = None,
        repetitions: int | None = None,
        timelike_weights: Any = None,
        measurement_error_probabilities: Any = None,
        *,
        faults_matrix: Any = None,
        merge_strategy: str = "smallest-weight",
        use_virtual_boundary_node: bool = False,
        **kwargs: Any,
    ) -> Matching:
        """A graph from a check matrix. The arguments are those of `load_from_check_matrix`.

        >>> import ringcall
        >>> ringcall.Matching.from_check_matrix([[1, 1, 0], [0, 1, 1]], use_virtual_boundary_node=True)
        <ringcall.Matching object with 2 detectors, 0 boundary nodes, and 3 edges>
        """
        matching = Matching()
        matching.load_from_check_matrix(
            check_matrix,
            weights,
            error_probabilities,
            repetitions,
            timelike_weights,
            measurement_error_probabilities,
            faults_matrix=faults_matrix,
            merge_strategy=merge_strategy,
            use_virtual_boundary_node=use_virtual_boundary_node,
            **kwargs,
        )
        return matching

    def load_from_check_matrix(
        self,
        check_matrix: Any = None,
        weights: Any = None,
        error_probabilities: Any = None,
        repetitions: int | None = None,
        timelike_weights: Any = None,
        measurement_error_probabilities: Any = None,
        *,
        faults_matrix: Any = None,
        merge_strategy: str = "smallest-weight",
        use_virtual_boundary_node: bool = False,
        **kwargs: Any,
    ) -> None:
        """Replaces the graph by that of a check matrix.

        A row is a detector and a column an edge: between two detectors, or from one to the boundary.

        Parameters
        ----------
        check_matrix : scipy matrix, array or nested lists
            Zeros and ones, with at most two ones in a column.
        weights, error_probabilities : number, or one for each column
            Those of the edges. `spacelike_weights` is an old name of the first.
        repetitions : int
            How often the checks are measured. Between a check and itself a time later there is an edge.
        timelike_weights, measurement_error_probabilities : number, or one for each row
            Those of the edges in time. `measurement_error_probability` is an old name of the second.
        faults_matrix : scipy matrix, array or nested lists
            A row for each fault id, with ones in the columns that flip it. Without it, column `j` flips fault `j`.
        merge_strategy : str
            What happens to parallel columns, as `add_edge` has it.
        use_virtual_boundary_node : bool
            Whether the boundary is no node. By default it is the last node, if there is a column with a single one.

        Examples
        --------
        >>> import ringcall
        >>> m = ringcall.Matching()
        >>> m.load_from_check_matrix([[1, 1, 0], [0, 1, 1]], weights=[1, 2, 3], faults_matrix=[[1, 0, 0]])
        >>> for edge in m.edges():
        ...     print(edge)
        (0, 2, {'fault_ids': {0}, 'weight': 1.0, 'error_probability': -1.0})
        (0, 1, {'fault_ids': set(), 'weight': 2.0, 'error_probability': -1.0})
        (1, 2, {'fault_ids': set(), 'weight': 3.0, 'error_probability': -1.0})
        """
        check_matrix = kwargs.get("H") if check_matrix is None else check_matrix
        if check_matrix is None:
            raise ValueError("no check matrix is given")
        weights = _load.renamed("weights", weights, "spacelike_weights", kwargs)
        measurement = "measurement_error_probabilities"
        measurement_error_probabilities = _load.renamed(
            measurement, measurement_error_probabilities, "measurement_error_probability", kwargs
        )
        rounds = _load.repetitions(repetitions)
        if rounds <= 1:
            timelike_weights = measurement_error_probabilities = None
        checks, count, columns = _load.columns(check_matrix)
        faults = None
        num_faults = count
        if faults_matrix is not None:
            num_faults, width, faults = _load.columns(faults_matrix)
            if width != count:
                raise ValueError(f"`faults_matrix` has {width} columns, but the check matrix has {count}")
        self._load_columns(
            checks,
            columns,
            num_faults,
            faults,
            _load.for_columns(weights, count, 1.0, "weights"),
            _load.for_columns(error_probabilities, count, -1.0, "error_probabilities"),
            rounds,
            _load.for_checks(timelike_weights, checks, 1.0, "timelike_weights"),
            _load.for_checks(measurement_error_probabilities, checks, -1.0, measurement),
            merge_strategy,
            use_virtual_boundary_node,
        )

    @staticmethod
    def from_detector_error_model(model: stim.DetectorErrorModel, *, enable_correlations: bool = False) -> Matching:
        """A graph from a detector error model of Stim: an edge for each part of an error with one or two detectors.

        With `enable_correlations`, it is remembered which parts belong to one error, for correlated matching. Parts
        with more detectors are left out, and refused with `enable_correlations`.

        >>> import ringcall, stim
        >>> model = stim.DetectorErrorModel("error(0.1) D0 D1 L0")
        >>> ringcall.Matching.from_detector_error_model(model).decode([1, 1])
        array([1], dtype=uint8)
        """
        if not _load.instance_of(model, "stim", "DetectorErrorModel"):
            raise TypeError(f"`model` must be a `stim.DetectorErrorModel`, not {type(model)}")
        matching = Matching()
        matching._load_model_text(str(model), enable_correlations)
        return matching

    @staticmethod
    def from_detector_error_model_file(dem_path: str | Path, *, enable_correlations: bool = False) -> Matching:
        """A graph from a file with a detector error model. Stim is not needed.

        >>> import pathlib, ringcall, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.dem"
        ...     _ = path.write_text("error(0.1) D0 D1 L0")
        ...     ringcall.Matching.from_detector_error_model_file(path)
        <ringcall.Matching object with 2 detectors, 0 boundary nodes, and 1 edge>
        """
        matching = Matching()
        matching._load_model_file(os.fsdecode(dem_path), enable_correlations)
        return matching

    @staticmethod
    def from_stim_circuit(circuit: stim.Circuit, *, enable_correlations: bool = False) -> Matching:
        """A graph from a circuit of Stim, by way of its decomposed detector error model.

        >>> import ringcall, stim
        >>> circuit = stim.Circuit.generated(
        ...     "surface_code:rotated_memory_x", distance=5, rounds=5, after_clifford_depolarization=0.005
        ... )
        >>> ringcall.Matching.from_stim_circuit(circuit)
        <ringcall.Matching object with 120 detectors, 0 boundary nodes, and 502 edges>
        """
        if not _load.instance_of(circuit, "stim", "Circuit"):
            raise TypeError(f"`circuit` must be a `stim.Circuit`, not {type(circuit)}")
        matching = Matching()
        matching._load_from_circuit(circuit, enable_correlations)
        return matching

    @staticmethod
    def from_stim_circuit_file(stim_circuit_path: str | Path, *, enable_correlations: bool = False) -> Matching:
        """A graph from a file with a circuit of Stim, which must be installed.

        >>> import pathlib, ringcall, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "circuit.stim"
        ...     _ = path.write_text("X_ERROR(0.1) 0\\nM 0\\nDETECTOR rec[-1]")
        ...     ringcall.Matching.from_stim_circuit_file(path)
        <ringcall.Matching object with 1 detector, 0 boundary nodes, and 1 edge>
        """
        import stim

        try:
            text = Path(os.fsdecode(stim_circuit_path)).read_text()
        except OSError as error:
            raise ValueError(f"reading {stim_circuit_path!r} failed: {error}") from None
        return Matching.from_stim_circuit(stim.Circuit(text), enable_correlations=enable_correlations)

    def _load_from_circuit(self, circuit: stim.Circuit, enable_correlations: bool) -> None:
        self._load_model_text(str(circuit.detector_error_model(decompose_errors=True)), enable_correlations)

    @staticmethod
    def from_networkx(graph: nx.Graph[Any], *, min_num_fault_ids: int | None = None) -> Matching:
        """A graph from one of networkx, as `load_from_networkx` reads it.

        >>> import networkx, ringcall
        >>> ringcall.Matching.from_networkx(networkx.path_graph(3))
        <ringcall.Matching object with 3 detectors, 0 boundary nodes, and 2 edges>
        """
        matching = Matching()
        matching.load_from_networkx(graph, min_num_fault_ids=min_num_fault_ids)
        return matching

    def load_from_networkx(self, graph: nx.Graph[Any], *, min_num_fault_ids: int | None = None) -> None:
        """Replaces the graph by one of networkx.

        Edges may have the attributes `fault_ids`, `weight` and `error_probability`, nodes `is_boundary`.

        >>> import networkx, ringcall
        >>> graph = networkx.Graph()
        >>> graph.add_edge(0, 1, fault_ids=0, weight=2)
        >>> graph.add_edge(1, 2, fault_ids=1)
        >>> graph.nodes[2]["is_boundary"] = True
        >>> m = ringcall.Matching()
        >>> m.load_from_networkx(graph)
        >>> m
        <ringcall.Matching object with 2 detectors, 1 boundary node, and 2 edges>
        """
        if not _load.instance_of(graph, "networkx", "Graph"):
            raise TypeError("`graph` must be a networkx graph")
        self._load_parts(graph.number_of_nodes(), *_load.networkx_parts(graph), min_num_fault_ids)

    def load_from_rustworkx(self, graph: rx.PyGraph, *, min_num_fault_ids: int | None = None) -> None:
        """Replaces the graph by one of rustworkx, whose nodes and edges have dictionaries.

        Those of edges may have the keys `fault_ids`, `weight` and `error_probability`, those of nodes `is_boundary`.

        >>> import ringcall, rustworkx
        >>> graph = rustworkx.PyGraph()
        >>> nodes = graph.add_nodes_from([{}, {}, {"is_boundary": True}])
        >>> edges = graph.add_edges_from([(0, 1, {"fault_ids": 0}), (1, 2, {"weight": 2})])
        >>> m = ringcall.Matching()
        >>> m.load_from_rustworkx(graph)
        >>> m
        <ringcall.Matching object with 2 detectors, 1 boundary node, and 2 edges>
        """
        if not _load.instance_of(graph, "rustworkx", "PyGraph"):
            raise TypeError("`graph` must be a rustworkx graph")
        self._load_parts(len(graph), *_load.rustworkx_parts(graph), min_num_fault_ids)

    def _load_parts(self, num_nodes: int, boundary: set[int], edges: Any, min_num_fault_ids: int | None) -> None:
        fresh = Matching()
        fresh._clear(num_nodes, 0 if min_num_fault_ids is None else min_num_fault_ids)
        for u, v, attributes in edges:
            fresh.add_edge(u, v, **_load.edge_arguments(attributes))
        fresh.set_boundary_nodes(boundary)
        self._take(fresh)

    def load_from_retworkx(self, graph: rx.PyGraph, *, min_num_fault_ids: int | None = None) -> None:
        """The old name of `load_from_rustworkx`.

        >>> import ringcall, rustworkx, warnings
        >>> warnings.simplefilter("ignore", DeprecationWarning)
        >>> ringcall.Matching().load_from_retworkx(rustworkx.PyGraph())
        """
        warnings.warn("`load_from_retworkx` is now `load_from_rustworkx`", DeprecationWarning, stacklevel=2)
        self.load_from_rustworkx(graph, min_num_fault_ids=min_num_fault_ids)

    def to_networkx(self) -> nx.Graph[int]:
        """The graph as one of networkx. If there are edges to the virtual boundary, it becomes the last node.

        >>> import ringcall
        >>> graph = ringcall.Matching([[1, 1, 0], [0, 1, 1]]).to_networkx()
        >>> graph.edges[0, 1]
        {'fault_ids': {1}, 'weight': 1.0, 'error_probability': -1.0}
        >>> graph.nodes[2]
        {'is_boundary': True}
        """
        import networkx as nx

        boundary, edges, _ = self._with_boundary_node()
        graph: nx.Graph[int] = nx.Graph()
        graph.add_edges_from((u, v, dict(data)) for u, v, data in edges)
        for node, data in graph.nodes(data=True):
            data["is_boundary"] = node in boundary
        return graph

    def to_rustworkx(self) -> rx.PyGraph:
        """The graph as one of rustworkx. If there are edges to the virtual boundary, it becomes the last node.

        >>> import ringcall
        >>> graph = ringcall.Matching([[1, 1, 0], [0, 1, 1]]).to_rustworkx()
        >>> graph.get_edge_data(0, 1)
        {'fault_ids': {1}, 'weight': 1.0, 'error_probability': -1.0}
        >>> graph[2]
        {'is_boundary': True}
        """
        import rustworkx as rx

        boundary, edges, num_nodes = self._with_boundary_node()
        graph = rx.PyGraph()
        graph.add_nodes_from([{"is_boundary": node in boundary} for node in range(num_nodes)])
        graph.extend_from_weighted_edge_list(edges)
        return graph

    def to_retworkx(self) -> rx.PyGraph:
        """The old name of `to_rustworkx`.

        >>> import ringcall, warnings
        >>> warnings.simplefilter("ignore", DeprecationWarning)
        >>> len(ringcall.Matching([[1, 1]]).to_retworkx())
        2
        """
        warnings.warn("`to_retworkx` is now `to_rustworkx`", DeprecationWarning, stacklevel=2)
        return self.to_rustworkx()

    def _with_boundary_node(self) -> tuple[set[int], list[tuple[int, int, EdgeData]], int]:
        """Boundary nodes, edges and the number of nodes, once the virtual boundary is a node, too."""
        boundary, num_nodes, edges = self.boundary, self.num_nodes, self.edges()
        virtual = num_nodes
        if any(v is None for _, v, _ in edges):
            boundary.add(virtual)
            num_nodes += 1
        return boundary, [(u, virtual if v is None else v, data) for u, v, data in edges], num_nodes

    def stream(self, rounds: Any, *, enable_correlations: bool = False) -> Stream:
        """A decoder of syndromes that come round by round, which does most of its work before the last round.

        Parameters
        ----------
        rounds : array of int
            The round of each detector, from 0: of a Stim circuit the last coordinate, in most cases.
        enable_correlations : bool
            As `decode` has it. The second pass is made after the last round.

        Examples
        --------
        >>> import numpy as np
        >>> import ringcall
        >>> import stim
        >>> circuit = stim.Circuit.generated(
        ...     "surface_code:rotated_memory_x", distance=3, rounds=4, after_clifford_depolarization=0.01
        ... )
        >>> m = ringcall.Matching(circuit)
        >>> rounds = np.array([at[-1] for _, at in sorted(circuit.get_detector_coordinates().items())])
        >>> stream = m.stream(rounds)
        >>> shot = circuit.compile_detector_sampler(seed=1).sample(1)[0]
        >>> for t in range(stream.num_rounds):
        ...     answer = stream.push(shot[rounds == t])
        >>> bool((answer == m.decode(shot)).all())
        True
        """
        return self._stream(_convert.rounds(rounds), enable_correlations)

    def endless(self, rounds: Any, *, margin: int | None = None, enable_correlations: bool = False) -> Endless:
        """A decoder of runs of any length, round by round, in memory that does not grow with the run.

        The graph is that of a short run of the same experiment: a few rounds more than its beginning and its end need, so that the
        round that repeats can be found.

        Parameters
        ----------
        rounds : array of int
            The round of each detector, as for `stream`.
        margin : int or None
            Rounds after which a matched pair is decided; None for as many as the graph asks for. `Endless.forced` counts what was
            decided too early.
        enable_correlations : bool
            As `decode` has it, window by window.

        Examples
        --------
        >>> import ringcall
        >>> m = ringcall.Matching()
        >>> for t in range(6):
        ...     m.add_boundary_edge(t, fault_ids=0, weight=3)
        >>> for t in range(5):
        ...     m.add_edge(t, t + 1, weight=2)
        >>> run = m.endless(range(6))
        >>> for t in range(1000):
        ...     moved = run.push([t == 500])
        >>> run.finish([[0]] * run.tail_rounds)
        array([1], dtype=uint8)
        """
        if margin is not None and margin < 1:
            raise ValueError(f"`margin` must be at least 1, or None, not {margin}")
        return self._endless(_convert.rounds(rounds), margin or 0, enable_correlations)

    def draw(self) -> None:
        """Draws the graph with matplotlib: detectors in grey, boundary nodes in white, edges the thicker the lighter.

        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import ringcall
        >>> ringcall.Matching([[1, 1, 0], [0, 1, 1]]).draw()
        """
        import matplotlib.pyplot as plt
        import networkx as nx

        graph: Any = self.to_networkx()
        if not graph.edges:
            raise ValueError("a graph without edges cannot be drawn")
        weights = np.array([weight for _, _, weight in graph.edges(data="weight")])
        widths = np.clip(2 * np.exp(-weights / max(np.mean(np.abs(weights)), np.finfo(float).eps)), 0.2, 2)
        colours = ["white" if data["is_boundary"] else "lightgrey" for _, data in graph.nodes(data=True)]
        labels = {(u, v): ",".join(map(str, sorted(ids))) for u, v, ids in graph.edges(data="fault_ids")}
        positions = nx.spectral_layout(graph, weight=None)
        axes = plt.gca()
        nx.draw_networkx_nodes(graph, positions, node_color=colours, edgecolors="black", ax=axes)
        nx.draw_networkx_edges(graph, positions, width=widths, ax=axes)
        nx.draw_networkx_labels(graph, positions, ax=axes)
        nx.draw_networkx_edge_labels(graph, positions, edge_labels=labels, ax=axes)
        axes.set_axis_off()
