"""A pipeline and a service for a model of the user's own."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import ringcall
import stim
from cases import memory

PATIENT = {"timeout_ms": 60_000, "interval": "0", "workers": 1}


@pytest.fixture(scope="module")
def experiment():
    circuit = memory(3, 0.02)
    shots, observables = circuit.compile_detector_sampler(seed=3).sample(400, separate_observables=True)
    return circuit, shots, observables


def test_a_pipeline_decodes_shots_of_ones_own(experiment, tmp_path):
    circuit, shots, observables = experiment
    model = circuit.detector_error_model(decompose_errors=True)
    errors = (ringcall.Matching(model).decode_batch(shots) != observables).any(axis=1).sum()
    pipeline = ringcall.Pipeline(model, matching="plain", **PATIENT)
    found = pipeline.run(shots, observables)
    assert (found.completed, found.shots, found.lost) == (400, 400, 0)
    assert abs(found.logical_errors - errors) <= 3  # several corrections may weigh the same
    assert "&lt;svg" in found._repr_html_() and len(found.to_pandas())
    assert pipeline.run(shots.astype(np.uint8)).completed == 400
    path = tmp_path / "model.dem"
    model.to_file(path)
    for given in (circuit, path, str(path)):
        assert ringcall.Pipeline(given, **PATIENT).run(50).completed == 50
    assert ringcall.Pipeline(distance=3, **PATIENT).run(50, seed=2).completed == 50
    assert repr(pipeline) == "<ringcall.Pipeline of DetectorErrorModel>"


def test_what_a_pipeline_refuses(experiment):
    circuit, shots, observables = experiment
    pipeline = ringcall.Pipeline(circuit, **PATIENT)
    bad = [
        (shots[:, :-1], observables),
        (shots, observables[:-1]),
        (shots, np.hstack([observables, observables])),
        (shots[0], None),
        (shots * 2.5, None),
        ("shots", None),
        (None, observables),
        (5, observables),
    ]
    for rows, truth in bad:
        with pytest.raises((TypeError, ValueError)):
            pipeline.run(rows, truth)
    with pytest.raises(ValueError):
        pipeline.run(5, no_such=1)
    with pytest.raises(TypeError):
        ringcall.Pipeline(3).run(5)


def test_a_service_answers(experiment):
    circuit, shots, _ = experiment
    model = circuit.detector_error_model(decompose_errors=True)
    matching = ringcall.Matching(model)
    expected = matching.decode_batch(shots)
    with ringcall.Service(model, matching="plain", timeout_s=60, window=4) as service:
        assert "transport=udp" in service.endpoint and service.address[0] == "127.0.0.1"
        assert str(service.address[1]) in repr(service)
        decoded = service.decode_batch(shots)
        one = service.decode(shots[7])
        assert service.decode_batch(shots[:0]).predictions.shape == (0, 1)
        for wrong in (shots[:, :-1], shots[0], "shots"):
            with pytest.raises((TypeError, ValueError)):
                service.decode_batch(wrong)
    assert one.tolist() == decoded.predictions[7].tolist()
    assert (decoded.predictions != expected).sum() <= 3  # several corrections may weigh the same
    assert decoded.converged.all() and decoded.late == 0 and (decoded.took_us > 0).all()
    assert list(decoded.to_pandas().columns) == ["L0", "converged", "took_us"]
    assert "<td>400</td>" in decoded._repr_html_()
    found = service.result
    assert (found.answers, found.late, found.refused, found.lost) == (401, 0, 0, 0)
    assert found.transport["answered"] == 401 == found.to_pandas()["transport.answered"]
    assert "<table>" in found._repr_html_() and service.stop() is found
    with pytest.raises(RuntimeError, match="stopped"):
        service.decode(shots[0])


def test_what_a_service_refuses(tmp_path):
    for options in ({"distance": 4}, {"no_such": 1}, {"bind": "nowhere"}):
        with pytest.raises(ValueError):
            ringcall.Service(**options)
    with pytest.raises(RuntimeError, match="/no/such"):
        ringcall.Service("/no/such.stim")
    with pytest.raises(TypeError):
        ringcall.Service(distance=3, json=tmp_path / "x")
    with pytest.raises(ValueError):
        ringcall.Service(distance=3, window=0)
    with ringcall.Service(distance=3) as service, pytest.raises(ValueError, match="size of the model"):
        service.decode([0] * 24)


def test_no_answer_is_a_timeout_and_ctrl_c_ends_the_wait():
    model = stim.DetectorErrorModel("error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1")
    service = ringcall.Service(model, timeout_s=0.2)
    os.kill(service._child.pid, signal.SIGSTOP)
    # On a busy machine it runs on for a while, and answers.
    os.waitid(os.P_PID, service._child.pid, os.WSTOPPED)
    try:
        with pytest.raises(TimeoutError):
            service.decode([1, 0])
        service._client = ringcall._ringcall.ServiceClient("{}:{}".format(*service.address), window=1, timeout_s=600)

        def interrupt():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            service.decode([1, 0])
        thread.join()
    finally:
        os.kill(service._child.pid, signal.SIGCONT)
    assert service.stop().refused == 0
