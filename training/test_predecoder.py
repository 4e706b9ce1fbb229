"""python3 -m pytest training: sampling, the network, training. Needs PyTorch, and no GPU; what needs neither is in
test_forms.py."""

import multiprocessing
import socket

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from predecoder import fit, measure, onnx_forms, tables
from predecoder.geometry import Volume, circuit
from predecoder.integers import BITS, EXACT, TOP
from predecoder.network import Predecoder, convolved, with_margin
from predecoder.quantized import Quantized
from predecoder.sampler import Residual, Sampler
from predecoder.team import Team

CASES = [(3, 1, "X"), (3, 2, "Z"), (5, 4, "X"), (5, 5, "Z")]
CPU = torch.device("cpu")


@pytest.mark.parametrize("case", CASES)
def test_labels_explain_every_shot_and_moves_change_nothing(case):
    volume = Volume(*case)
    sampler = Sampler(volume, tables.build(volume, [0.002, 0.01]), CPU, passes=1)
    residual_of = Residual(volume, CPU)
    generator, host = torch.Generator().manual_seed(1), np.random.default_rng(1)
    inputs, labels, observable = sampler.draw([300, 300], generator, host)
    detectors = inputs[volume.detector_cells]
    assert detectors.any() and inputs.sum() == detectors.sum()
    costs = torch.as_tensor(tables.cost(volume)[:-1]).unsqueeze(1)
    last = None
    for _ in range(8):
        residual, frame = residual_of(detectors, labels)
        assert not residual.any()
        assert (frame == observable).all()
        assert not labels[~torch.as_tensor(volume.label_mask)].any()
        cost = (labels * costs).sum(0)
        assert last is None or (cost <= last).all()
        last, before = cost, labels
        labels = sampler.canonical(labels)
    assert (labels == before).all()


@pytest.mark.parametrize("case", CASES)
def test_shots_have_stims_statistics(case):
    volume, p, shots = Volume(*case), 0.01, 40_000
    sampler = Sampler(volume, tables.build(volume, [p]), CPU)
    inputs, _, observable = sampler.draw([shots], torch.Generator().manual_seed(2), np.random.default_rng(2))
    ours = inputs[volume.detector_cells].float()
    theirs, flips = circuit(*case, p).compile_detector_sampler(seed=3).sample(shots, separate_observables=True)
    theirs = torch.as_tensor(theirs.T.astype(np.float32))
    # Means of each detector, and of each pair: five standard deviations of a difference.
    for a, b in ((ours.mean(1), theirs.mean(1)), (ours @ ours.T / shots, theirs @ theirs.T / shots)):
        assert ((a - b).abs() < 5.5 * (2 * b.clamp(min=1 / shots) / shots).sqrt() + 2 / shots).all()
    assert abs(observable.float().mean() - flips.mean()) < 5.5 * (2 * flips.mean() / shots) ** 0.5


def random_network():
    torch.manual_seed(5)
    network = Predecoder(8).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_((0.15 * torch.randn_like(parameter)).half().float())
    return network


@pytest.mark.parametrize("case", CASES)
def test_the_exported_form_decides_as_the_network_does(case):
    volume, network, threshold = Volume(*case), random_network(), 0.1
    found = circuit(*case, 0.02).compile_detector_sampler(seed=1).sample(50)
    model = onnx_forms.bound(onnx_forms.weights_of(network), volume, threshold, False, {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    one = session.run(None, {"detectors": found.astype(np.uint8)})
    packed = np.packbits(found, axis=1, bitorder="little")
    ((residual, frame),) = measure.Network(network, CPU, torch.float32)(volume, packed, (threshold,))
    residual = np.unpackbits(residual, axis=1, bitorder="little")[:, : found.shape[1]]
    assert (one[0] == residual).all() and (one[1][:, 0] == frame).all()
    assert residual.any() and frame.any() and (residual != found).any()


def random_quantized():
    network = Quantized(8).eval()
    network.load_state_dict(network.state_dict() | random_network().state_dict())
    network.calibrate(volumes(20))
    return network


def volumes(shots, case=(5, 4, "X")):
    volume = Volume(*case)
    found = circuit(*case, 0.02).compile_detector_sampler(seed=4).sample(shots)
    x = np.zeros((shots, volume.cells * 4), np.float32)
    x[:, volume.detector_cells] = found
    x += volume.maps
    return torch.from_numpy(x.reshape(shots, *volume.shape, 4).transpose(0, 4, 1, 2, 3).copy())


def test_integers_are_computed_alike_everywhere():
    """By what is trained, by ONNX Runtime from the file, and here, in integers."""
    network, x = random_quantized(), volumes(6)
    layers = network.layers()
    at, seen = (2 * x).numpy().astype(np.int64), []
    for k, layer in enumerate(layers):
        weight = torch.from_numpy(layer.weight.astype(np.int64))
        total = torch.nn.functional.conv3d(torch.from_numpy(at), weight, padding=1).numpy()
        assert np.abs(total).max() < EXACT
        shape = (1, -1, 1, 1, 1)
        out = total.astype(np.float32) * layer.factor.reshape(shape) + layer.offset.reshape(shape)
        assert out.dtype == np.float32
        at = np.rint(out).clip(0, TOP).astype(np.int64)
        seen.append(len(np.unique(at)))
    # Bytes of every size, or it would prove little.
    assert min(seen[:-1]) > TOP // 2
    tops = [2 ** (BITS[k] - 1) - 1 for k in (0, 1, 1, 2)]
    assert [np.abs(layer.weight).max() for layer in layers] == tops
    model = onnx_forms.core(layers, {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"volume": x.numpy()})
    assert (theirs == out).all()
    assert (network(x).detach().numpy() == out).all()


def test_sums_that_single_precision_might_not_hold_are_refused():
    for width, sign, refused in ((16, 1, False), (24, 1, True), (24, -1, True)):
        assert (width * 27 * 127 * TOP >= EXACT) == refused
        network = Quantized(width)
        with torch.no_grad():
            network.convs[1].weight.fill_(sign)
        if refused:
            with pytest.raises(ArithmeticError, match="layer 1"):
                network.layers()
        else:
            assert network.layers()[1].largest_sum(TOP) == width * 27 * 127 * TOP


def test_what_rounds_learns_its_steps():
    network, x = random_quantized().train(), volumes(6)
    network(x).square().mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_training_goes_on_from_a_core(tmp_path):
    network, margin = random_network(), 0.75
    saved = Predecoder(8)
    saved.load_state_dict(with_margin(network.state_dict(), margin))
    x = torch.randn(2, 4, 3, 5, 5)
    lower = network(x) - saved(x)
    assert torch.allclose(lower[:, :2], torch.zeros(()), atol=1e-5)
    assert torch.allclose(lower[:, 2:], torch.tensor(margin), atol=1e-5)
    about = {"predecoder.flip_margin": margin, "predecoder.shots": 7, "predecoder.threshold.d7.p0.003": 2}
    path = tmp_path / "core.onnx"
    onnx.save(onnx_forms.core(onnx_forms.weights_of(saved), about), path)
    again = Predecoder(8)
    assert fit.go_on(again, path) == {"flip_margin": "0.75", "shots": "7"}
    # Weights are stored in half precision.
    assert torch.allclose(again(x), network(x), atol=5e-3)
    rounded = Quantized(8)
    fit.go_on(rounded, path)
    assert all(torch.equal(a.weight, b.weight) for a, b in zip(rounded.convs, again.convs))


def test_padding_for_tensor_cores_changes_nothing():
    network = random_network()
    x = torch.randn(2, 4, 3, 5, 5)
    for conv in network.convs:
        plain, padded = (convolved(x, conv.weight, conv.bias, padded) for padded in (False, True))
        assert plain.shape == padded.shape and torch.allclose(plain, padded, atol=1e-5)
        x = plain


def test_the_ratio_has_a_paired_interval():
    assert measure.ratio(0, 10, 0) is None
    middle, low, high = measure.ratio(50, 100, 50)
    unpaired = measure.ratio(50, 100, 0)
    assert middle == 0.5 and low < 0.5 < high and high - low < unpaired[2] - unpaired[1]


def _member(rank, port, queue):
    ranks = Team(rank, 2, port)
    held = [torch.full((2, 3), float(rank)), torch.full((4,), 10.0 * rank)]
    ranks.average(held)
    led = [torch.full((2,), float(rank + 7))]
    ranks.follow(led)
    queue.put([tensor.tolist() for tensor in held + led] + [ranks.told(rank + 0.25)])
    ranks.leave()


def test_a_team_has_one_mean_and_one_leader():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    members = [context.Process(target=_member, args=(rank, port, queue)) for rank in range(2)]
    for member in members:
        member.start()
    answers = [queue.get(timeout=120) for _ in members]
    for member in members:
        member.join()
    assert answers[0] == answers[1] == [[[0.5] * 3] * 2, [5.0] * 4, [7.0] * 2, 0.25]
