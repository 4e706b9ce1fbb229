"""Bad input is an exception of the type that PyMatching raises, or of a better one where that is said."""

import warnings

import networkx as nx
import numpy as np
import pytest
import ringcall
import stim
from cases import BOTH

NAN, INF = float("nan"), float("inf")
ROWS = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def code(kind):
    return kind(ROWS)


def single(kind):
    matching = kind()
    matching.add_edge(0, 1)
    return matching


def negative(kind):
    matching = kind()
    matching.add_edge(0, 1, weight=-1)
    return matching


def plain(kind):
    return kind(stim.DetectorErrorModel("error(0.1) D0"))


def edge_with(**attributes):
    graph = nx.Graph()
    graph.add_edge(0, 1, **attributes)
    return graph


U8 = np.uint8
CASES = {
    "negative node": lambda K: K().add_edge(-1, 0),
    "fractional node": lambda K: K().add_edge(0.5, 0),
    "text node": lambda K: K().add_edge("a", 0),
    "no second node": lambda K: K().add_edge(0, None),
    "negative boundary node": lambda K: K().add_boundary_edge(-1),
    "list of faults": lambda K: K().add_edge(0, 1, fault_ids=[1]),
    "negative fault": lambda K: K().add_edge(0, 1, fault_ids={-1}),
    "other negative fault": lambda K: K().add_edge(0, 1, fault_ids=-2),
    "fractional fault": lambda K: K().add_edge(0, 1, fault_ids=1.0),
    "two names of faults": lambda K: K().add_edge(0, 1, fault_ids=1, qubit_id=1),
    "text weight": lambda K: K().add_edge(0, 1, weight="1"),
    "no weight": lambda K: K().add_edge(0, 1, weight=None),
    "complex weight": lambda K: K().add_edge(0, 1, weight=1j),
    "text probability": lambda K: K().add_edge(0, 1, error_probability="a"),
    "unknown merge strategy": lambda K: K().add_edge(0, 1, merge_strategy="bad"),
    "no merge strategy": lambda K: K().add_edge(0, 1, merge_strategy=None),
    "parallel edge": lambda K: single(K).add_edge(1, 0),
    "missing edge": lambda K: single(K).get_edge_data(0, 5),
    "missing boundary edge": lambda K: single(K).get_boundary_edge_data(0),
    "boundary edge far away": lambda K: single(K).get_boundary_edge_data(99),
    "edge of negative node": lambda K: single(K).has_edge(-1, 0),
    "edge of fractional node": lambda K: single(K).has_edge(0.0, 1),
    "list of boundary nodes": lambda K: single(K).set_boundary_nodes([0]),
    "negative boundary": lambda K: single(K).set_boundary_nodes({-1}),
    "no boundary": lambda K: single(K).set_boundary_nodes(None),
    "negative number of faults": lambda K: K().ensure_num_fault_ids(-1),
    "set a property": lambda K: setattr(K(), "num_nodes", 1),
    "short syndrome": lambda K: code(K).decode([1, 0]),
    "long syndrome": lambda K: code(K).decode([0, 0, 0, 0, 0]),
    "scalar syndrome": lambda K: code(K).decode(5),
    "no syndrome": lambda K: code(K).decode(None),
    "text syndrome": lambda K: code(K).decode("abc"),
    "texts as syndrome": lambda K: code(K).decode(["a", "b", "c"]),
    "ragged syndrome": lambda K: code(K).decode([[1, 0], [1]]),
    "deep syndrome": lambda K: code(K).decode(np.zeros((3, 1, 1))),
    "syndrome of other shape": lambda K: code(K).decode(np.zeros((2, 2))),
    "syndrome with large numbers": lambda K: code(K).decode([256, 0, 0]),
    "set as syndrome": lambda K: code(K).decode({0, 1}),
    "weight by position": lambda K: code(K).decode([0, 0, 0], True),
    "odd syndrome": lambda K: single(K).decode([1, 0]),
    "odd syndrome to edges": lambda K: single(K).decode_to_edges_array([1, 0]),
    "odd syndrome to pairs": lambda K: single(K).decode_to_matched_dets_array([1, 0]),
    "pairs with negative weights": lambda K: negative(K).decode_to_matched_dets_dict([1, 1]),
    "correlations not loaded": lambda K: plain(K).decode([1], enable_correlations=True),
    "correlations not loaded, batch": lambda K: plain(K).decode_batch(np.ones((1, 1), U8), enable_correlations=True),
    "correlations not loaded, edges": lambda K: plain(K).decode_to_edges_array([1], enable_correlations=True),
    "narrow shots": lambda K: code(K).decode_batch(np.zeros((2, 2), U8)),
    "wide shots": lambda K: code(K).decode_batch(np.zeros((2, 5), U8)),
    "wide packed shots": lambda K: code(K).decode_batch(np.zeros((2, 2), U8), bit_packed_shots=True),
    "stray bits": lambda K: code(K).decode_batch(np.full((2, 1), 0xF0, U8), bit_packed_shots=True),
    "flat shots": lambda K: code(K).decode_batch(np.zeros(3, U8)),
    "deep shots": lambda K: code(K).decode_batch(np.zeros((1, 1, 3), U8)),
    "no shots": lambda K: code(K).decode_batch(None),
    "text shots": lambda K: code(K).decode_batch(np.array([["a", "b", "c"]])),
    "ragged shots": lambda K: code(K).decode_batch([[1, 0], [1]]),
    "shots with large numbers": lambda K: code(K).decode_batch([[300, 0, 0]]),
    "unknown option": lambda K: code(K).decode_batch(np.zeros((1, 3), U8), foo=1),
    "option by position": lambda K: code(K).decode_batch(np.zeros((1, 3), U8), True),
    "twos in a matrix": lambda K: K([[2, 1]]),
    "halves in a matrix": lambda K: K([[0.5, 1]]),
    "text as matrix": lambda K: K("abc"),
    "deep matrix": lambda K: K(np.zeros((2, 2, 2))),
    "heavy column": lambda K: K(np.ones((3, 1))),
    "no matrix": lambda K: K().load_from_check_matrix(),
    "too few weights": lambda K: K(ROWS, weights=[1, 2]),
    "text weights": lambda K: K(ROWS, weights="a"),
    "flat weights": lambda K: K(ROWS, weights=[[1, 2, 3, 4]]),
    "two names of weights": lambda K: K(ROWS, weights=1, spacelike_weights=1),
    "too few probabilities": lambda K: K(ROWS, error_probabilities=[0.1]),
    "negative repetitions": lambda K: K(ROWS, repetitions=-1),
    "fractional repetitions": lambda K: K(ROWS, repetitions=1.5),
    "text repetitions": lambda K: K(ROWS, repetitions="a"),
    "too few weights in time": lambda K: K(ROWS, repetitions=2, timelike_weights=[1]),
    "text weights in time": lambda K: K(ROWS, repetitions=2, timelike_weights="a"),
    "narrow faults": lambda K: K(ROWS, faults_matrix=[[1, 1]]),
    "parallel columns": lambda K: K([[1, 1], [1, 1]], merge_strategy="disallow"),
    "infinite weight decoded": lambda K: K(ROWS, weights=[1, INF, 1, 1]).decode([1, 0, 0]),
    "large weight decoded": lambda K: K(ROWS, weights=[1, 2**25, 1, 1]).decode([1, 0, 0]),
    "certain error decoded": lambda K: K(stim.DetectorErrorModel("error(1) D0")).decode([1]),
    "text as model": lambda K: K.from_detector_error_model("error(0.1) D0"),
    "text as circuit": lambda K: K.from_stim_circuit("H 0"),
    "missing model file": lambda K: K.from_detector_error_model_file("/no/such/file"),
    "missing circuit file": lambda K: K.from_stim_circuit_file("/no/such/file"),
    "number as file": lambda K: K.from_detector_error_model_file(55),
    "errors that do not decompose": lambda K: K(
        stim.Circuit("X_ERROR(0.1) 0\nM 0\nDETECTOR rec[-1]\nDETECTOR rec[-1]\nDETECTOR rec[-1]")
    ),
    "likely error with correlations": lambda K: K(stim.DetectorErrorModel("error(0.7) D0"), enable_correlations=True),
    "number as networkx": lambda K: K.from_networkx(5),
    "text nodes": lambda K: K(nx.Graph([("a", "b")])),
    "negative nodes": lambda K: K(nx.Graph([(-1, 0)])),
    "text fault": lambda K: K(edge_with(fault_ids="a")),
    "no faults": lambda K: K(edge_with(fault_ids=None)),
    "two names of faults in networkx": lambda K: K(edge_with(fault_ids=1, qubit_id=1)),
    "text weight in networkx": lambda K: K(edge_with(weight="a")),
    "negative minimum of faults": lambda K: K.from_networkx(nx.Graph(), min_num_fault_ids=-1),
    "networkx as rustworkx": lambda K: K().load_from_rustworkx(nx.Graph()),
    "drawing nothing": lambda K: K().draw(),
}


def raised(case, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case(kind)
        except Exception as error:  # noqa: BLE001
            return type(error)
    return None


@pytest.mark.parametrize("name", CASES)
def test_same_type(name):
    ours, theirs = (raised(CASES[name], kind) for kind in BOTH)
    assert theirs is not None, "PyMatching takes it"
    assert ours is not None and issubclass(ours, theirs)


OURS = {
    "weight that is no number": (lambda K: K().add_edge(0, 1, weight=NAN), ValueError),
    "weights that are no numbers": (lambda K: K(ROWS, weights=NAN), ValueError),
    "node beyond all": (lambda K: K().add_edge(0, 2**40), ValueError),
    "boundary beyond all": (lambda K: K().set_boundary_nodes({2**63}), ValueError),
    "fault beyond all": (lambda K: K().add_edge(0, 1, fault_ids=2**33), ValueError),
    "more faults than all": (lambda K: K().ensure_num_fault_ids(2**33), ValueError),
    "more repetitions than all": (lambda K: K(ROWS, repetitions=2**40), ValueError),
    "no threads": (lambda K: code(K).decode_batch(np.zeros((1, 3), U8), threads=0), ValueError),
    "negative threads": (lambda K: code(K).decode_batch(np.zeros((1, 3), U8), threads=-1), ValueError),
    "fractional threads": (lambda K: code(K).decode_batch(np.zeros((1, 3), U8), threads=1.5), TypeError),
    "broken columns": (lambda K: broken_columns(K), ValueError),
}


def broken_columns(kind):
    from scipy.sparse import csc_matrix

    matrix = csc_matrix(np.array(ROWS))
    matrix.indices[0] = 77
    kind(matrix)


@pytest.mark.parametrize("name", OURS)
def test_ours(name):
    case, expected = OURS[name]
    with pytest.raises(expected):
        case(BOTH[0])


@pytest.mark.parametrize("weight", [INF, -INF, 2**24, -(2**24)])
def test_large_weights_are_warned_of(weight):
    for kind in BOTH:
        matching = kind()
        with pytest.warns(UserWarning, match="has not been added"):
            matching.add_edge(0, 1, weight=weight)
        with pytest.warns(UserWarning, match="has not been added"):
            matching.add_boundary_edge(0, weight=weight)
        assert matching.num_edges == 0 and matching.num_nodes == 0


def test_a_bad_model_file(tmp_path):
    path = tmp_path / "bad.dem"
    path.write_text("erro(0.1) D0\n")
    with pytest.raises(ValueError, match="line 1"):
        BOTH[0].from_detector_error_model_file(path)


def test_a_refused_graph_leaves_the_old_one():
    matching = code(BOTH[0])
    for bad in (
        lambda: matching.load_from_check_matrix([[2]]),
        lambda: matching.load_from_networkx(edge_with(fault_ids="a")),
    ):
        with pytest.raises((TypeError, ValueError)):
            bad()
    assert matching.num_edges == 4


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([[0, 2, 1.0]], r"the edge \(0, 2\), which is not in the graph"),
        ([[-1, -1, 1.0]], "not in the graph"),
        ([[0, 7, 1.0]], "not in the graph"),
        ([[0, 1, -1.0]], "not a number from 0"),
        ([[0, 1, NAN]], "not a number from 0"),
        ([[0, 1, INF]], "not a number from 0"),
        ([[0, 1, 1.0], [1, 0, 2.0]], "twice"),
        ([[0, 1]], "shape"),
        ([0, 1, 1.0], "shape"),
        ([[0.5, 1, 1.0]], "whole numbers"),
        ([[NAN, 1, 1.0]], "whole numbers"),
    ],
)
def test_bad_edge_reweights(rows, reason):
    matching = ringcall.Matching(ROWS)
    with pytest.raises(ValueError, match=reason):
        matching.decode([1, 1, 0], edge_reweights=rows)
    assert list(matching.decode([1, 1, 0], edge_reweights=[])) == [0, 1, 0, 0]


def test_edge_reweights_have_no_correlations():
    with pytest.raises(ValueError, match="together"):
        ringcall.Matching(ROWS).decode([1, 1, 0], edge_reweights=[], enable_correlations=True)
    with pytest.raises(TypeError, match="array of numbers"):
        ringcall.Matching(ROWS).decode([1, 1, 0], edge_reweights=[["a", 1, 2]])
