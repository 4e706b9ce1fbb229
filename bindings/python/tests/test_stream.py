"""Round by round: the same corrections as of whole syndromes, and what is refused."""

import gc
import threading

import numpy as np
import pytest
import ringcall
import stim
from cases import memory, without_ties


def rounds_of(circuit):
    return np.array([at[-1] for _, at in sorted(circuit.get_detector_coordinates().items())])


@pytest.fixture(scope="module")
def experiment():
    circuit = memory(3, 0.02, rounds=5)
    model = without_ties(circuit.detector_error_model(decompose_errors=True))
    matching = ringcall.Matching.from_detector_error_model(model, enable_correlations=True)
    shots = circuit.compile_detector_sampler(seed=5).sample(300)
    return matching, rounds_of(circuit), shots


@pytest.mark.parametrize("correlations", [False, True])
def test_a_stream_is_as_a_whole_syndrome(experiment, correlations):
    matching, rounds, shots = experiment
    stream = matching.stream(rounds, enable_correlations=correlations)
    assert stream.num_rounds == 6 and stream.next_round == 0 and stream.weight is None
    assert [list(stream.detectors(t)) for t in range(6)] == [list(np.flatnonzero(rounds == t)) for t in range(6)]
    for shot in shots:
        answers = [stream.push(shot[rounds == t]) for t in range(6)]
        assert answers[:-1] == [None] * 5
        faults, weight = matching.decode(shot, return_weight=True, enable_correlations=correlations)
        assert answers[-1].tolist() == faults.tolist() and stream.weight == pytest.approx(weight)


def test_a_round_that_is_refused_can_be_given_again(experiment):
    matching, rounds, shots = experiment
    stream = matching.stream(rounds)
    shot = shots[shots.any(axis=1)][0]
    first = shot[rounds == 0]
    for wrong in (first[:-1], np.append(first, 0), "abc", None, [[[0]]]):
        with pytest.raises((TypeError, ValueError)):
            stream.push(wrong)
    assert stream.next_round == 0
    stream.push(first)
    stream.restart()
    assert stream.next_round == 0
    answers = [stream.push(shot[rounds == t].astype(kind)) for t, kind in enumerate([bool, int, float] * 2)]
    assert answers[-1].tolist() == matching.decode(shot).tolist()
    with pytest.raises(ValueError):
        stream.detectors(6)


def test_boundary_nodes_need_no_round():
    matching = ringcall.Matching([[1, 1, 0], [0, 1, 1]])
    assert matching.boundary == {2}
    stream = matching.stream([0, 1])
    assert stream.push([1]) is None and stream.push([0]).tolist() == matching.decode([1, 0]).tolist()
    assert list(matching.stream([0, 0, 1]).detectors(1)) == []
    with pytest.raises(ValueError):
        matching.endless([0, 1])


@pytest.mark.parametrize(
    "rounds", [[0], [0, 1, 2, 3], [0, -1], [0, 0.5], [0, float("nan")], [[0, 1]], [0, 2**40], "ab", None, [0, 2**31]]
)
def test_rounds_that_are_none(rounds):
    matching = ringcall.Matching()
    matching.add_edge(0, 1, fault_ids=0)
    for make in (matching.stream, matching.endless):
        with pytest.raises((TypeError, ValueError)):
            make(rounds)


def test_an_odd_part_is_refused():
    matching = ringcall.Matching()
    matching.add_edge(0, 1)
    stream = matching.stream([0, 1])
    assert stream.push([1]) is None
    with pytest.raises(ValueError):
        stream.push([0])
    assert stream.push([1]).tolist() == []


@pytest.mark.parametrize("correlations", [False, True])
def test_a_run_without_end(correlations):
    short, long = 10, 60
    circuits = [memory(3, 0.004, rounds=count) for count in (short, long)]
    graphs = [ringcall.Matching.from_stim_circuit(circuit, enable_correlations=True) for circuit in circuits]
    run = graphs[0].endless(rounds_of(circuits[0]), enable_correlations=correlations)
    rounds = rounds_of(circuits[1])
    shots = circuits[1].compile_detector_sampler(seed=6).sample(40)
    assert run.least_rounds <= long and run.margin > 0
    differ = 0
    for shot in shots:
        parts = [shot[rounds == t] for t in range(long + 1)]
        tail = len(parts) - run.tail_rounds
        for t, part in enumerate(parts[:tail]):
            assert run.num_detectors(t) == len(part)
            run.push(part)
        assert run.progress[0] == tail and run.fault_ids.shape == (1,)
        answer = run.finish(parts[tail:])
        faults, weight = graphs[1].decode(shot, return_weight=True, enable_correlations=correlations)
        differ += answer.tolist() != faults.tolist()
        if not correlations:
            assert run.forced == 0 and run.weight == pytest.approx(weight)
    assert differ <= 2  # several corrections may weigh the same


def test_what_a_run_refuses():
    circuit = memory(3, 0.01, rounds=10)
    matching, rounds = ringcall.Matching(circuit), rounds_of(circuit)
    run = matching.endless(rounds, margin=3)
    assert run.margin == 3
    for tail in ([], [[0]] * run.tail_rounds, None, 3):
        with pytest.raises((TypeError, ValueError)):
            run.finish(tail)
    sizes = [np.count_nonzero(rounds == t) for t in range(11)][-run.tail_rounds :]
    with pytest.raises(ValueError, match="rounds"):
        run.finish([[0] * size for size in sizes])  # shorter than any run
    with pytest.raises(ValueError):
        run.push([0])
    with pytest.raises(ValueError):
        matching.endless(rounds, margin=0)
    run.push([0] * run.num_detectors(0))
    run.restart()
    assert run.progress[0] == 0
    with pytest.raises(ValueError, match="enable_correlations"):
        matching.stream(rounds, enable_correlations=True)


def test_streams_outlive_their_graph_and_threads_do_not_hang():
    matching = ringcall.Matching()
    matching.add_edge(0, 1, fault_ids=0)
    stream = matching.stream([0, 1])
    matching.add_edge(1, 2)
    del matching
    gc.collect()

    def push():
        for _ in range(200):
            try:
                stream.push([1])
            except ValueError:
                stream.restart()

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    stream.restart()
    assert stream.push([1]) is None and stream.push([1]).tolist() == [1]


def test_a_model_of_stim_has_rounds():
    model = stim.DetectorErrorModel("error(0.1) D0 D1\nerror(0.1) D1 L0\ndetector(0, 0, 0) D0\ndetector(0, 0, 1) D1")
    stream = ringcall.Matching(model).stream([at[-1] for _, at in sorted(model.get_detector_coordinates().items())])
    assert stream.push([0]) is None and stream.push([1]).tolist() == [1]
