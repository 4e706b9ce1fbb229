"""The network as ONNX files, in three forms. Weights are stored in half precision and computed with in single: every
engine multiplies the same numbers, whatever precision it then works in. A network in integers (integers.py) has integers
for weights, and every engine leaves the same bits.

core          volume f32[batch, 4, layers, height, width] -> logits f32 of the same shape, any size (geometry.py)
detectors     detectors u8[batch, D] -> residual_detectors u8[batch, D], logical_frame u8[batch, 1]
measurements  measurements i32[batch, 3 (d d - 1) / 2, T] -> residual_detectors i32[batch, D], logical_frame i32[batch, 1]

The last two are of one distance d, T rounds and basis; D = T (d d - 1) detectors in Stim's order, values 0 and 1. Row
r < d d - 1 of the measurements is the ancilla of check r, row by row over the lattice; the other (d d - 1) / 2 rows are
the checks of the experiment's basis as the read-out of the data qubits shows them, in the last column; what stands in
their other columns is not read. The answer to a request is logical_frame xor matching(residual_detectors).
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import integers
from .geometry import IN, OUT, Volume

OPSET = 17


class Graph:
    def __init__(self):
        self.nodes, self.constants, self.names = [], [], set()

    def constant(self, name, value):
        if name not in self.names:
            self.names.add(name)
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, operator, inputs, output, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def model(self, name, inputs, outputs, metadata):
        info = lambda all: [helper.make_tensor_value_info(*one) for one in all]  # noqa: E731
        graph = helper.make_graph(self.nodes, name, info(inputs), info(outputs), self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="ringcall")
        made.ir_version = 8
        for key, value in metadata.items():
            entry = made.metadata_props.add()
            entry.key, entry.value = key, str(value)
        onnx.checker.check_model(made, full_check=True)
        return made

    def network(self, weights, volume):
        """Logits of a float volume. `weights`: (weight, bias) of each convolution, or an `integers.Layer`."""
        if isinstance(weights[0], integers.Layer):
            return self.integer_network(weights, volume)
        at = volume
        for k, (weight, bias) in enumerate(weights):
            last = k == len(weights) - 1
            inputs = [at]
            for what, value in (("weight", weight), ("bias", bias)):
                stored = self.constant(f"conv{k}.{what}", value.astype(np.float16))
                inputs.append(self.add("Cast", [stored], f"conv{k}.{what}.f32", to=TensorProto.FLOAT))
            out = "logits" if last else f"conv{k}"
            at = self.add("Conv", inputs, out, kernel_shape=[3, 3, 3], pads=[1] * 6)
            if not last:
                at = self.add("Relu", [at], f"relu{k}")
        return at

    def integer_network(self, layers, volume):
        """The same in integers, multiplied in single precision, which holds all sums exactly."""
        number = lambda name, value: self.constant(name, np.array(value, np.float32))  # noqa: E731
        at = self.add("Mul", [volume, number("doubled", integers.DOUBLED)], "conv0.input")
        for k, layer in enumerate(layers):
            last = k == len(layers) - 1
            # Half precision holds them, and TensorRT reads no weights in bytes that it is not to quantize itself.
            stored = self.constant(f"conv{k}.weight", layer.weight.astype(np.float16))
            weight = self.add("Cast", [stored], f"conv{k}.weight.f32", to=TensorProto.FLOAT)
            at = self.add("Conv", [at, weight], f"conv{k}.sum", kernel_shape=[3, 3, 3], pads=[1] * 6)
            # Which changes nothing of an integer, but keeps optimizers from multiplying the weights by the factor.
            at = self.add("Round", [at], f"conv{k}.integer")
            for operator, what, value in (("Mul", "factor", layer.factor), ("Add", "offset", layer.offset)):
                name = self.constant(f"conv{k}.{what}", value.reshape(1, -1, 1, 1, 1))
                at = self.add(operator, [at, name], "logits" if last and what == "offset" else f"conv{k}.{what}ed")
            if not last:
                at = self.add("Round", [at], f"conv{k}.rounded")
                at = self.add("Clip", [at, number("bottom", 0), number("top", integers.TOP)], f"conv{k}.bytes")
        return at

    def parity(self, bits, cells, output):
        """Parity of the bits at [n, k] indices, into [batch, n]; an index may be one past the last, for a 0."""
        padded = f"{bits}.padded"
        if padded not in self.names:
            self.names.add(padded)
            self.add("Pad", [bits, self.constant("one_more", np.array([0, 0, 0, 1], np.int64))], padded)
        at = self.add("Gather", [padded, self.constant(f"{output}.cells", cells.astype(np.int32))], f"{output}.each", axis=1)
        two = self.constant("axis2", np.array([2], np.int64))
        at = self.add("ReduceSum", [at, two], f"{output}.sum", keepdims=0)
        return self.add("Mod", [at, self.constant("two", np.array(2, np.int32))], output)


def read_core(path):
    """A core's weights, by the names that a `Predecoder` of that size gives them, and its metadata."""
    model = onnx.load(path)
    held = {one.name: numpy_helper.to_array(one).astype(np.float32) for one in model.graph.initializer}
    return {f"convs.{name.removeprefix('conv')}": value for name, value in held.items()}, {
        one.key: one.value for one in model.metadata_props
    }


def weights_of(network):
    """What the network's forms are made of."""
    if hasattr(network, "layers"):
        return network.layers()
    return [(c.weight.detach().cpu().float().numpy(), c.bias.detach().cpu().float().numpy()) for c in network.convs]


def core(weights, metadata):
    graph = Graph()
    graph.network(weights, "volume")
    shape = ["batch", IN, "layers", "height", "width"]
    return graph.model(
        "predecoder",
        [("volume", TensorProto.FLOAT, shape)],
        [("logits", TensorProto.FLOAT, ["batch", OUT, *shape[2:]])],
        metadata,
    )


def channels_first(volume: Volume, cells):
    """From indices with channels innermost to those of the network's tensors; padding stays padding."""
    size, sites = volume.cells * OUT, volume.cells
    site, channel = np.divmod(cells, OUT)
    return np.where(cells == size, size, channel * sites + site)


def bound(weights, volume: Volume, threshold, measurements, metadata):
    """The form of one memory experiment; `measurements` says which."""
    graph = Graph()
    detectors, sites = len(volume.detectors), volume.cells
    checks = len(volume.checks)
    if measurements:
        rows = checks + checks // 2
        flat = graph.add("Reshape", ["measurements", graph.constant("flat", np.array([0, -1], np.int64))], "measured")
        bits = graph.parity(flat, measured_cells(volume), "detectors")
    else:
        bits = graph.add("Cast", ["detectors"], "detectors.i32", to=TensorProto.INT32)
    # Detectors to their places; all other places read the 0 after the last.
    places = np.full(sites * IN, detectors, np.int64)
    places[channels_first(volume, volume.detector_cells)] = np.arange(detectors)
    at = graph.add("Pad", [bits, graph.constant("one_more", np.array([0, 0, 0, 1], np.int64))], "spread.padded")
    at = graph.add("Gather", [at, graph.constant("places", places.astype(np.int32))], "spread", axis=1)
    at = graph.add("Cast", [at], "spread.f32", to=TensorProto.FLOAT)
    shape = graph.constant("volume.shape", np.array([0, IN, *volume.shape], np.int64))
    at = graph.add("Reshape", [at, shape], "bits")
    maps = volume.maps.reshape(*volume.shape, IN).transpose(3, 0, 1, 2)[None]
    at = graph.add("Add", [at, graph.constant("maps", maps.astype(np.float32))], "volume")
    at = graph.network(weights, at)
    at = graph.add("Greater", [at, graph.constant("threshold", np.array(threshold, np.float32))], "fires")
    at = graph.add("Cast", [at], "fires.i32", to=TensorProto.INT32)
    at = graph.add("Reshape", [at, graph.constant("flat", np.array([0, -1], np.int64))], "decisions")
    left = graph.parity(at, channels_first(volume, volume.residual_cells), "correction")
    residual = graph.add("Add", [bits, left], "residual.sum")
    two = graph.constant("two", np.array(2, np.int32))
    residual = graph.add("Mod", [residual, two], "residual_detectors" if measurements else "residual.i32")
    frame = "logical_frame" if measurements else "frame.i32"
    graph.parity(at, channels_first(volume, volume.frame_cells[None]), frame)
    if measurements:
        kind = TensorProto.INT32
        inputs = [("measurements", kind, ["batch", rows, volume.rounds])]
    else:
        kind = TensorProto.UINT8
        inputs = [("detectors", kind, ["batch", detectors])]
        graph.add("Cast", [residual], "residual_detectors", to=kind)
        graph.add("Cast", [frame], "logical_frame", to=kind)
    outputs = [("residual_detectors", kind, ["batch", detectors]), ("logical_frame", kind, ["batch", 1])]
    return graph.model("predecoder", inputs, outputs, metadata)


def measured_cells(volume: Volume):
    """The one or two measurements whose parity each detector is, as indices into the flat measurements."""
    order = {check.position: row for row, check in enumerate(volume.checks)}
    own = [check.position for check in volume.checks if check.type == volume.own]
    read = {position: len(order) + row for row, position in enumerate(own)}
    rounds = volume.rounds
    pad = (len(order) + len(own)) * rounds
    out = np.full((len(volume.detectors), 2), pad, np.int64)
    for row, (check, layer) in enumerate(volume.detectors):
        last = layer == rounds
        out[row, 0] = read[check.position] * rounds + rounds - 1 if last else order[check.position] * rounds + layer
        if layer > 0:
            out[row, 1] = order[check.position] * rounds + layer - 1
    return out


def measurements_of(volume: Volume, circuit_measurements):
    """The measurements form's input, from the circuit's own measurements [shots, T (d d - 1) + d d]."""
    checks, rounds, d = len(volume.checks), volume.rounds, volume.distance
    shots = len(circuit_measurements)
    out = np.zeros((shots, checks + checks // 2, rounds), np.int32)
    split = checks * rounds
    out[:, :checks] = circuit_measurements[:, :split].reshape(shots, rounds, checks).transpose(0, 2, 1)
    data = circuit_measurements[:, split:].reshape(shots, d, d)
    own = [check for check in volume.checks if check.type == volume.own]
    for row, check in enumerate(own):
        out[:, checks + row, -1] = sum(data[:, y, x] for y, x in check.data) % 2
    return out
