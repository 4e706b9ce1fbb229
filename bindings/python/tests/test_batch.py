"""Batches: layouts, threads, and what happens beside them."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import ringcall
from cases import memory


@pytest.fixture(scope="module")
def small():
    circuit = memory(3, 0.02)
    shots = circuit.compile_detector_sampler(seed=1).sample(2000).astype(np.uint8)
    matching = ringcall.Matching(circuit)
    expected = np.array([matching.decode(shot) for shot in shots])
    assert expected.any()
    return matching, shots, expected


@pytest.mark.parametrize(
    "layout",
    [
        lambda shots: shots,
        lambda shots: shots.astype(bool),
        lambda shots: shots.astype(np.int64),
        lambda shots: shots.astype(float),
        lambda shots: shots * 255,
        np.asfortranarray,
        lambda shots: np.repeat(shots, 2, axis=0)[::2],
        lambda shots: np.repeat(shots, 2, axis=1)[:, ::2],
        lambda shots: shots.tolist(),
    ],
)
@pytest.mark.parametrize("threads", [1, 3, None])
def test_layouts(small, layout, threads):
    matching, shots, expected = small
    given = layout(shots)
    predictions = matching.decode_batch(given, threads=threads)
    assert predictions.dtype == np.uint8 and (predictions == expected).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_packed(small, threads):
    matching, shots, expected = small
    packed = np.packbits(shots, axis=1, bitorder="little")
    predictions, weights = matching.decode_batch(
        packed, bit_packed_shots=True, bit_packed_predictions=True, return_weights=True, threads=threads
    )
    assert (predictions == np.packbits(expected, axis=1, bitorder="little")).all()
    assert weights.tolist() == [matching.decode(shot, return_weight=True)[1] for shot in shots]


def test_no_shots(small):
    matching, shots, _ = small
    predictions, weights = matching.decode_batch(shots[:0], return_weights=True)
    assert predictions.shape == (0, 1) and weights.shape == (0,)
    assert ringcall.Matching().decode_batch(np.zeros((3, 0), dtype=np.uint8)).shape == (3, 0)


def test_boundary_nodes_do_not_fire():
    matching = ringcall.Matching([[1, 1, 0], [0, 1, 1]])
    assert matching.boundary == {2}
    assert matching.decode_batch(np.array([[1, 1, 1]], dtype=np.uint8)).tolist() == [[0, 1, 0]]
    assert matching.decode_batch(np.array([[0b111]], dtype=np.uint8), bit_packed_shots=True).tolist() == [[0, 1, 0]]
    with pytest.raises(ValueError):
        matching.decode_batch(np.array([[0b1000]], dtype=np.uint8), bit_packed_shots=True)


def test_a_bad_shot_among_many():
    matching = ringcall.Matching()
    matching.add_edge(0, 1, fault_ids=0)
    shots = np.zeros((5000, 2), dtype=np.uint8)
    shots[4321, 0] = 1
    for threads in (1, 4):
        with pytest.raises(ValueError):
            matching.decode_batch(shots, threads=threads)
    assert matching.decode([1, 1]).tolist() == [1]


@pytest.fixture(scope="module")
def long_batch():
    """A batch of a million shots, which takes many seconds."""
    circuit = memory(9, 0.006)
    shots = circuit.compile_detector_sampler(seed=2).sample(10_000, bit_packed=True)
    return ringcall.Matching(circuit), np.tile(shots, (100, 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupts(long_batch, threads):
    matching, shots = long_batch
    matching.decode_batch(shots[:1], bit_packed_shots=True)
    ticks = []
    done = threading.Event()

    def beside():
        # Others run while a batch is decoded.
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    def interrupt():
        time.sleep(0.3)
        ticks.append("now")
        os.kill(os.getpid(), signal.SIGINT)

    helpers = [threading.Thread(target=work) for work in (beside, interrupt)]
    for helper in helpers:
        helper.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        matching.decode_batch(shots, bit_packed_shots=True, threads=threads)
    took = time.monotonic() - start
    done.set()
    for helper in helpers:
        helper.join()
    # A generous deadline, which a batch that minds no interrupt misses by far.
    assert took < 5
    assert ticks.index("now") >= 3
    assert matching.decode_batch(shots[:9], bit_packed_shots=True).shape == (9, 1)


def test_threads_share_a_matching(small):
    matching, shots, expected = small
    failed = []

    def work(seed):
        draw = np.random.default_rng(seed)
        for _ in range(300):
            at = int(draw.integers(0, len(shots)))
            if matching.decode(shots[at]).tolist() != expected[at].tolist():
                failed.append(at)
        if (matching.decode_batch(shots) != expected).any():
            failed.append("batch")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork(small):
    matching, shots, expected = small
    matching.decode_batch(shots, threads=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if (matching.decode_batch(shots, threads=2) == expected).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
