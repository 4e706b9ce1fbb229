"""PyMatching's answers are ours: equal weights, and equal predictions but for ties."""

import numpy as np
import pymatching
import pytest
import ringcall
import stim
from cases import BOTH, memory, random_graph, same_edges, without_ties


def outcome(call):
    try:
        return call()
    except ValueError:
        return "no solution"


def explained(matching, edges):
    """The syndrome, the faults and the weight of a list of edges."""
    syndrome = np.zeros(matching.num_nodes, dtype=np.uint8)
    faults = np.zeros(matching.num_fault_ids, dtype=np.uint8)
    weight = 0.0
    for u, v in edges:
        syndrome[u] ^= 1
        if v >= 0:
            syndrome[v] ^= 1
            candidates = [matching.get_edge_data(u, v)]
        else:
            candidates = [matching.get_edge_data(u, node) for node in matching.boundary if matching.has_edge(u, node)]
            candidates += [matching.get_boundary_edge_data(u)] if matching.has_boundary_edge(u) else []
        data = min(candidates, key=lambda data: data["weight"])
        weight += data["weight"]
        for fault in data["fault_ids"]:
            faults[fault] ^= 1
    return syndrome, faults, weight


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs(seed):
    ours, theirs, draw = random_graph(seed)
    assert same_edges(ours.edges(), theirs.edges())
    assert repr(ours) == repr(theirs).replace("pymatching", "ringcall")
    fired = draw.random((20, ours.num_nodes)) < draw.choice([0.05, 0.3])
    inner = [node not in ours.boundary for node in range(ours.num_nodes)]
    for syndrome in fired.astype(np.uint8):
        mine, other = (outcome(lambda: m.decode(syndrome, return_weight=True)) for m in (ours, theirs))
        if isinstance(other, str):
            assert mine == other
            continue
        assert mine[1] == pytest.approx(other[1], rel=1e-6, abs=1e-5)
        assert mine[0].tolist() == other[0].tolist()
        edges = ours.decode_to_edges_array(syndrome)
        assert edges.dtype == np.int64 and edges.shape == theirs.decode_to_edges_array(syndrome).shape
        flipped, faults, weight = explained(ours, edges)
        assert (flipped[inner] == syndrome[inner]).all()
        assert faults.tolist() == mine[0].tolist()
        assert weight == pytest.approx(mine[1], abs=1e-4)
        pairs, their_pairs = (outcome(lambda: m.decode_to_matched_dets_dict(syndrome)) for m in (ours, theirs))
        if isinstance(their_pairs, str):
            assert pairs == their_pairs
            continue
        # Paths that cross can be cut into pairs in several ways.
        assert sorted(pairs) == sorted(their_pairs) == sorted(np.flatnonzero(syndrome & inner).tolist())
        array = ours.decode_to_matched_dets_array(syndrome)
        assert {(a, -1 if b is None else b) for a, b in pairs.items() if b is None or a < b} == set(
            map(tuple, array.tolist())
        )
        total = 0.0
        for a, b in array.tolist():
            alone = np.zeros_like(syndrome)
            alone[[a] if b < 0 else [a, b]] = 1
            total += theirs.decode(alone, return_weight=True)[1]
        assert total == pytest.approx(mine[1], abs=1e-4)


SIZES = pytest.mark.parametrize("distance, probability", [(3, 0.01), (5, 0.003), (7, 0.008)])


@SIZES
@pytest.mark.parametrize("correlations", [False, True])
def test_models_without_ties(distance, probability, correlations):
    circuit = memory(distance, probability)
    model = without_ties(circuit.detector_error_model(decompose_errors=True))
    ours, theirs = (kind(model, enable_correlations=True) for kind in BOTH)
    shots = circuit.compile_detector_sampler(seed=5).sample(2000)
    options = {"return_weights": True, "enable_correlations": correlations}
    (mine, my_weights), (other, other_weights) = (m.decode_batch(shots, **options) for m in (ours, theirs))
    assert mine.dtype == other.dtype and my_weights.dtype == other_weights.dtype
    np.testing.assert_allclose(my_weights, other_weights, rtol=1e-6)
    assert (mine == other).all()
    for shot in shots[:200]:
        one, weight = ours.decode(shot, return_weight=True, enable_correlations=correlations)
        again = ours.decode_batch(shot[None], **options)
        assert (one == again[0][0]).all() and weight == again[1][0]
        edges, their_edges = (m.decode_to_edges_array(shot, enable_correlations=correlations) for m in (ours, theirs))
        assert sorted(map(sorted, edges.tolist())) == sorted(map(sorted, their_edges.tolist()))


@SIZES
def test_circuits(distance, probability):
    circuit = memory(distance, probability)
    ours, theirs = (kind(circuit) for kind in BOTH)
    shots, actual = circuit.compile_detector_sampler(seed=5).sample(3000, separate_observables=True)
    (mine, my_weights), (other, other_weights) = (m.decode_batch(shots, return_weights=True) for m in (ours, theirs))
    np.testing.assert_allclose(my_weights, other_weights, rtol=1e-6)
    assert (mine != other).any(axis=1).mean() < 0.005
    assert abs(int((mine != actual).sum()) - int((other != actual).sum())) <= 10


def test_a_repeated_code():
    matrix = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]])
    draw = np.random.default_rng(3)
    options = {"repetitions": 4, "weights": draw.random(5), "timelike_weights": draw.random(4)}
    ours, theirs = (kind(matrix, **options) for kind in BOTH)
    assert same_edges(ours.edges(), theirs.edges())
    for syndrome in (draw.random((200, 4, 4)) < 0.2).astype(int):
        assert ours.decode(syndrome).tolist() == theirs.decode(syndrome).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "error(0.1) D0 D1 L0\nerror(0.2) D1\nerror(0.3) D1 D0",
        "error(0) D0 L1\nerror(0.5) D0",
        "error(0.1) D0 ^ D1 D2 L2",
        "error(0.1) L0",
        "error(0.1) D0 D1\ndetector D5\nlogical_observable L3",
        "repeat 3 {\n error(0.1) D0 D1\n shift_detectors 1\n}\nerror(0.1) D0",
        "error(0.3333333333333333148) D0 L70",
        "error(0.7) D0 D1\nerror(1) D0",
        "error(0.1) D0 D1 D2",
        "error(0.1) D0 ^ L0",
    ],
)
@pytest.mark.parametrize("correlations", [False, True])
def test_models(text, correlations):
    def load(kind):
        model = stim.DetectorErrorModel(text)
        matching = outcome(lambda: kind.from_detector_error_model(model, enable_correlations=correlations))
        if isinstance(matching, str):
            return matching
        return matching.edges(), matching.num_nodes, matching.num_fault_ids

    mine, other = map(load, BOTH)
    if isinstance(other, str):
        assert mine == other
    else:
        assert same_edges(mine[0], other[0]) and mine[1:] == other[1:]


@pytest.mark.parametrize("left_out", [1e6 + 0.5, 1e6, 3.0])
def test_edges_left_out_count_for_the_grid(left_out):
    # All weights share one grid, and those between boundary nodes are never used.
    weights = []
    for kind in BOTH:
        matching = kind()
        matching.add_edge(0, 1, weight=0.1)
        matching.add_edge(2, 3, weight=left_out)
        matching.add_edge(0, 2, weight=left_out)
        matching.add_edge(0, 3, weight=5)
        matching.set_boundary_nodes({2, 3})
        weights.append(matching.decode([1, 1, 0, 0], return_weight=True)[1])
    assert weights[0] == pytest.approx(weights[1], rel=1e-12)


def test_weights_of_a_syndrome_are_those_of_a_graph_made_with_them():
    rng = np.random.default_rng(172)
    for case in range(60):
        nodes = int(rng.integers(2, 12))
        edges = {}
        for _ in range(3 * nodes):
            u, v = sorted(int(node) for node in rng.integers(-1, nodes, 2))
            if u != v:
                edges[v if u == -1 else u, None if u == -1 else v] = float(rng.integers(1, 9))
        edges[0, None] = 2.0

        def built(kind, weights):
            matching = kind()
            for fault, ((u, v), weight) in enumerate(weights.items()):
                if v is None:
                    matching.add_boundary_edge(u, fault_ids=fault, weight=weight)
                else:
                    matching.add_edge(u, v, fault_ids=fault, weight=weight)
            return matching

        ours = built(ringcall.Matching, edges)
        for _ in range(10):
            names = list(edges)
            chosen = rng.choice(len(names), int(rng.integers(0, len(names) + 1)), replace=False)
            others = {names[at]: float(rng.integers(0, 40)) / 4 for at in chosen}
            theirs = built(pymatching.Matching, {**edges, **others})
            fired = np.zeros(ours.num_nodes, np.uint8)
            for u, v in np.array([(u, -1 if v is None else v) for u, v in names])[rng.random(len(names)) < 0.3]:
                fired[u] ^= 1
                if v >= 0:
                    fired[v] ^= 1
            rows = [[v, u, weight] if rng.random() < 0.5 else [u, v, weight]
                    for (u, v), weight in (((u, -1 if v is None else v), weight) for (u, v), weight in others.items())]
            _, weight = ours.decode(fired, edge_reweights=rows, return_weight=True)
            assert abs(weight - theirs.decode(fired, return_weight=True)[1]) < 1e-4, case
        # And afterwards the graph's weights hold again.
        assert ours.decode(fired, return_weight=True)[1] == built(pymatching.Matching, edges).decode(fired, return_weight=True)[1]
