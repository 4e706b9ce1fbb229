"""Every public name of PyMatching is here, with its parameters and defaults, and every example runs."""

import doctest
import inspect
from pathlib import Path

import matplotlib
import networkx as nx
import numpy as np
import pymatching
import pytest
import ringcall
import rustworkx as rx
from cases import BOTH, memory, random_graph, same_edges
from scipy import sparse

matplotlib.use("Agg")


def public(kind):
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", [*public(pymatching.Matching), "__init__"])
def test_parameters(name):
    ours, theirs = (getattr(kind, name) for kind in BOTH)
    assert callable(ours) == callable(theirs)
    if not callable(theirs):
        return
    mine, other = (inspect.signature(member).parameters for member in (ours, theirs))
    # Beyond PyMatching, at the end and by keyword.
    extra = [parameter for key, parameter in mine.items() if key not in other]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in extra)
    for key, parameter in other.items():
        if key == "self":
            continue
        assert mine[key].kind == parameter.kind
        assert mine[key].default == parameter.default


def test_functions():
    missing = {name for name in public(pymatching) if not inspect.ismodule(getattr(pymatching, name))}
    assert missing - set(dir(ringcall)) == {"cli"}


NAMES = [f"Matching.{name}" for name in public(ringcall.Matching)]
NAMES += [name for name in ringcall.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    member = ringcall
    for part in name.split("."):
        member = getattr(member, part)
    test = doctest.DocTestParser().get_doctest(member.__doc__, {}, name, None, 0)
    assert test.examples, "there is no example"
    result = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(test)
    assert result.failed == 0


def test_graphs_of_others():
    graph = nx.Graph()
    graph.add_edge(0, 1, fault_ids=0, weight=2, error_probability=0.1)
    graph.add_edge(1, 4, qubit_id={1, 2})
    graph.add_node(5)
    graph.nodes[4]["is_boundary"] = True
    payloads = rx.PyGraph()
    payloads.add_nodes_from([{}, {}, {}, {}, {"is_boundary": True}, {}])
    payloads.add_edge(0, 1, {"fault_ids": 0, "weight": 2, "error_probability": 0.1})
    payloads.add_edge(1, 4, {"qubit_id": [1, 2]})
    for given in (graph, payloads):
        ours, theirs = (kind(given) for kind in BOTH)
        assert same_edges(ours.edges(), theirs.edges()) and ours.boundary == theirs.boundary
        assert repr(ours) == repr(theirs).replace("pymatching", "ringcall")
    for matching in (ours, ringcall.Matching([[1, 1, 0], [0, 1, 1]], use_virtual_boundary_node=True)):
        assert pymatching.Matching(matching.to_networkx()).num_edges == matching.num_edges
        assert ringcall.Matching(matching.to_networkx()).num_edges == matching.num_edges
        assert len(ringcall.Matching(matching.to_rustworkx()).edges()) == matching.num_edges


@pytest.mark.parametrize("seed", range(10))
def test_conversions(seed):
    ours, theirs, _ = random_graph(seed)
    mine, other = (matching.to_networkx() for matching in (ours, theirs))
    assert list(mine.nodes(data=True)) == list(other.nodes(data=True))
    assert same_edges(mine.edges(data=True), other.edges(data=True))
    mine, other = (matching.to_rustworkx() for matching in (ours, theirs))
    assert list(mine.nodes()) == list(other.nodes())
    assert same_edges(mine.weighted_edge_list(), other.weighted_edge_list())


MATRIX = np.array([[1, 1, 0, 0, 1], [0, 1, 1, 0, 1], [0, 0, 1, 1, 0]])


@pytest.mark.parametrize(
    "matrix",
    [MATRIX, MATRIX.tolist(), MATRIX.astype(bool), MATRIX.astype(float), np.zeros((2, 2)), np.zeros((2, 0)), []],
)
@pytest.mark.parametrize("form", [lambda matrix: matrix, sparse.csc_matrix, sparse.csr_matrix, sparse.coo_array])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": 2, "error_probabilities": 0.25},
        {"repetitions": 3, "timelike_weights": 4, "measurement_error_probability": 0.5},
        {"repetitions": 2, "use_virtual_boundary_node": True},
        {"merge_strategy": "independent"},
        {"repetitions": 0},
    ],
)
def test_check_matrices(matrix, form, options):
    if form is sparse.coo_array and isinstance(matrix, list) and not matrix:
        pytest.skip("scipy makes a vector of it")
    ours, theirs = (kind.from_check_matrix(form(matrix), **options) for kind in BOTH)
    assert same_edges(ours.edges(), theirs.edges()) and ours.boundary == theirs.boundary
    assert (ours.num_nodes, ours.num_fault_ids) == (theirs.num_nodes, theirs.num_fault_ids)


def test_faults_matrix():
    for faults in ([[1, 1, 0, 0, 0]], sparse.csr_matrix(np.eye(5, dtype=int)[:2]), [1, 0, 0, 0, 1]):
        ours, theirs = (kind(MATRIX, faults_matrix=faults) for kind in BOTH)
        assert same_edges(ours.edges(), theirs.edges()) and ours.num_fault_ids == theirs.num_fault_ids


def test_noise():
    circuit = memory(3, 0.01)
    matching = ringcall.Matching(circuit)
    ringcall.set_seed(4)
    drawn = [matching.add_noise() for _ in range(50)]
    ringcall.set_seed(4)
    again = [matching.add_noise() for _ in range(50)]
    for (faults, syndrome), (faults2, syndrome2) in zip(drawn, again, strict=True):
        assert faults.dtype == syndrome.dtype == np.uint8
        assert (faults == faults2).all() and (syndrome == syndrome2).all()
        assert (faults.shape, syndrome.shape) == ((1,), (24,))
    assert any(syndrome.any() for _, syndrome in drawn)
    assert ringcall.Matching(MATRIX).add_noise() is None
    ones = ringcall.Matching(MATRIX, error_probabilities=1, merge_strategy="replace")
    theirs = pymatching.Matching(MATRIX, error_probabilities=1, merge_strategy="replace")
    for mine, other in zip(ones.add_noise(), theirs.add_noise(), strict=True):
        assert mine.tolist() == other.tolist()


def test_changes_reach_the_decoder():
    matching = ringcall.Matching()
    matching.add_edge(0, 1, fault_ids=0, weight=5)
    assert matching.decode([1, 1], return_weight=True)[1] == 5
    matching.add_edge(0, 1, fault_ids=0, weight=3, merge_strategy="replace")
    assert matching.decode([1, 1], return_weight=True)[1] == 3
    matching.add_boundary_edge(0, weight=1)
    matching.add_boundary_edge(1, weight=1)
    assert matching.decode([1, 1], return_weight=True)[1] == 2
    matching.set_boundary_nodes({1})
    assert matching.decode([1, 1], return_weight=True)[1] == 1


def test_the_readme():
    text = (Path(__file__).parent.parent / "README.md").read_text()
    program = text.split("```python\n")[1].split("```")[0]
    exec(compile(program, "README.md", "exec"), {})
