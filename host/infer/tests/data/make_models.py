#!/usr/bin/env python3
"""Makes the models and oracles of ringcall-infer's tests: *.onnx and cases.json beside this file.

    pip install onnx==1.23 onnxruntime==1.31 numpy stim   # any recent versions do
    python3 make_models.py

Weights and inputs come from one seeded generator, expected outputs from ONNX Runtime on the CPU. A case gives
the sizes of open dimensions other than the batch, packed inputs and expected outputs in hex, and a tolerance:
0 means equal bytes.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[3] / "training"))
from predecoder import integers, onnx_forms  # noqa: E402

rng = np.random.default_rng(20260)
cases = []


def weights(name, shape, scale=0.5, dtype=np.float32):
    return numpy_helper.from_array((rng.standard_normal(shape) * scale).astype(dtype), name)


def const(name, value, dtype):
    return numpy_helper.from_array(np.asarray(value, dtype=dtype), name)


def save(name, nodes, inputs, outputs, initializers, opset=17, metadata=None, check=True):
    graph = h.make_graph(
        nodes,
        name,
        [h.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [h.make_tensor_value_info(n, t, s) for n, t, s in outputs],
        initializers,
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], producer_name="make_models.py")
    model.ir_version = 8
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    if check:
        onnx.checker.check_model(model, full_check=True)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    return name


def case(name, feeds, symbols=None, absolute=0.0, relative=0.0):
    session = onnxruntime.InferenceSession(HERE / f"{name}.onnx", providers=["CPUExecutionProvider"])
    results = session.run(None, feeds)
    cases.append(
        {
            "model": name,
            "symbols": symbols or {},
            "inputs": [feeds[i.name].tobytes().hex() for i in session.get_inputs()],
            "outputs": [np.ascontiguousarray(r).tobytes().hex() for r in results],
            "shapes": [list(r.shape) for r in results],
            "absolute": absolute,
            "relative": relative,
        }
    )


def bits(shape, dtype, density=0.2):
    return (rng.random(shape) < density).astype(dtype)


def conv_integers():
    """int32 in and out around a two-layer 3x3x3 convolution, and its logits: as a predecoder is exported."""
    name = save(
        "conv_integers",
        [
            h.make_node("Cast", ["detectors"], ["x"], to=T.FLOAT),
            h.make_node("Conv", ["x", "w1", "b1"], ["y"], kernel_shape=[3, 3, 3], pads=[1] * 6),
            h.make_node("Relu", ["y"], ["z"]),
            h.make_node("Conv", ["z", "w2", "b2"], ["logits"], kernel_shape=[3, 3, 3], pads=[1] * 6),
            h.make_node("Greater", ["logits", "zero"], ["fires"]),
            h.make_node("Cast", ["fires"], ["flips"], to=T.INT32),
        ],
        [("detectors", T.INT32, ["batch", 2, 4, 3, 3])],
        [("flips", T.INT32, ["batch", 1, 4, 3, 3]), ("logits", T.FLOAT, ["batch", 1, 4, 3, 3])],
        [
            weights("w1", (4, 2, 3, 3, 3)),
            weights("b1", (4,)),
            weights("w2", (1, 4, 3, 3, 3)),
            weights("b2", (1,)),
            const("zero", 0, np.float32),
        ],
        metadata={"threshold": "2.0", "p": "0.006"},
    )
    for _ in range(3):
        case(name, {"detectors": bits((1, 2, 4, 3, 3), np.int32)}, absolute=2e-5, relative=1e-5)


def fully_convolutional():
    """One network for every distance: rounds, height and width are open. Operator set 21."""
    name = save(
        "fully_convolutional",
        [
            h.make_node("Conv", ["detectors", "w1", "b1"], ["y"], kernel_shape=[3, 3, 3], pads=[1] * 6),
            h.make_node("Relu", ["y"], ["z"]),
            h.make_node("Conv", ["z", "w2", "b2"], ["logits"], kernel_shape=[3, 3, 3], pads=[1] * 6),
        ],
        [("detectors", T.FLOAT, ["batch", 4, "rounds", "height", "width"])],
        [("logits", T.FLOAT, ["batch", 4, "rounds", "height", "width"])],
        [weights("w1", (4, 4, 3, 3, 3)), weights("b1", (4,)), weights("w2", (4, 4, 3, 3, 3)), weights("b2", (4,))],
        opset=21,
    )
    for rounds, height, width in [(2, 3, 3), (3, 4, 2)]:
        case(
            name,
            {"detectors": bits((1, 4, rounds, height, width), np.float32)},
            {"rounds": rounds, "height": height, "width": width},
            absolute=2e-5,
            relative=1e-5,
        )


def residual():
    """Measurements in, residual detectors and logical frame out, in integers: slices, modulus, shape arithmetic."""
    name = save(
        "residual",
        [
            h.make_node("Slice", ["measurements", "zero", "last", "axis"], ["before"]),
            h.make_node("Slice", ["measurements", "one", "end", "axis"], ["after"]),
            h.make_node("Sub", ["after", "before"], ["difference"]),
            h.make_node("Abs", ["difference"], ["changes"]),
            h.make_node("Slice", ["measurements", "zero", "one", "axis"], ["first"]),
            h.make_node("Concat", ["first", "changes"], ["detectors"], axis=2),
            h.make_node("Shape", ["measurements"], ["shape"]),
            h.make_node("Gather", ["shape", "index0"], ["n"], axis=0),
            h.make_node("Concat", ["n", "minus"], ["flat_shape"], axis=0),
            h.make_node("Reshape", ["detectors", "flat_shape"], ["residual_detectors"]),
            h.make_node("ReduceSum", ["residual_detectors", "axis1"], ["sum"], keepdims=1),
            h.make_node("Mod", ["sum", "two"], ["logical_frame"]),
        ],
        [("measurements", T.INT32, ["batch", 8, 3])],
        [
            ("residual_detectors", T.INT32, ["batch", 24]),
            ("logical_frame", T.INT32, ["batch", 1]),
            ("shape", T.INT64, [3]),
        ],
        [
            const("zero", [0], np.int64),
            const("one", [1], np.int64),
            const("last", [2], np.int64),
            const("end", [3], np.int64),
            const("axis", [2], np.int64),
            const("axis1", [1], np.int64),
            const("index0", [0], np.int64),
            const("minus", [-1], np.int64),
            const("two", 2, np.int32),
        ],
    )
    for _ in range(3):
        case(name, {"measurements": bits((1, 8, 3), np.int32, 0.4)})


def many_types():
    """Five inputs and five outputs, each type once. The batch is a symbol that only ever is dimension 0."""
    name = save(
        "many_types",
        [
            h.make_node("Where", ["mask", "a", "zero"], ["kept"]),
            h.make_node("Cast", ["bytes"], ["bytes_f"], to=T.FLOAT),
            h.make_node("Add", ["kept", "bytes_f"], ["sum_f32"]),
            h.make_node("Cast", ["sum_f32"], ["sum_f16"], to=T.FLOAT16),
            h.make_node("Mul", ["big", "three"], ["big_times_3"]),
            h.make_node("Not", ["mask"], ["unmask"]),
            h.make_node("Cast", ["half"], ["half_f"], to=T.FLOAT),
            h.make_node("Mul", ["half_f", "hundred"], ["scaled"]),
            h.make_node("Cast", ["scaled"], ["half_u8"], to=T.UINT8),
        ],
        [
            ("a", T.FLOAT, ["batch", 5]),
            ("mask", T.BOOL, ["batch", 5]),
            ("bytes", T.UINT8, ["batch", 5]),
            ("big", T.INT64, ["batch", 2]),
            ("half", T.FLOAT16, ["batch", 5]),
        ],
        [
            ("sum_f32", T.FLOAT, ["batch", 5]),
            ("sum_f16", T.FLOAT16, ["batch", 5]),
            ("big_times_3", T.INT64, ["batch", 2]),
            ("unmask", T.BOOL, ["batch", 5]),
            ("half_u8", T.UINT8, ["batch", 5]),
        ],
        [const("zero", 0, np.float32), const("three", 3, np.int64), const("hundred", 100, np.float32)],
        opset=13,
    )
    for big in ([1 << 40, -7], [0, (1 << 61)]):
        case(
            name,
            {
                "a": rng.standard_normal((1, 5)).astype(np.float32),
                "mask": bits((1, 5), np.bool_, 0.5),
                "bytes": rng.integers(0, 256, (1, 5), dtype=np.uint8),
                "big": np.asarray([big], dtype=np.int64),
                "half": rng.random((1, 5)).astype(np.float16),
            },
        )


def bytes_unbatched():
    """uint8 in and out through a matrix product; the batch is a dimension of 0 in the file, as some exporters write."""
    name = save(
        "bytes_unbatched",
        [
            h.make_node("Cast", ["syndrome"], ["x"], to=T.FLOAT),
            h.make_node("MatMul", ["x", "w"], ["y"]),
            h.make_node("Round", ["y"], ["r"]),
            h.make_node("Clip", ["r", "low", "high"], ["c"]),
            h.make_node("Cast", ["c"], ["correction"], to=T.UINT8),
        ],
        [("syndrome", T.UINT8, ["N", 12])],
        [("correction", T.UINT8, ["N", 6])],
        [
            const("w", rng.integers(-4, 12, (12, 6)), np.float32),
            const("low", 0, np.float32),
            const("high", 255, np.float32),
        ],
        opset=14,
    )
    for density in (0.2, 1.0):
        case(name, {"syndrome": bits((1, 12), np.uint8, density) * 3})
    # ONNX Runtime refuses a fixed size of 0, so the oracle is made with a symbol and the files are edited after.
    for variant, value in (("bytes_zero", 0), ("bytes_minus_one", -1)):
        model = onnx.load(HERE / f"{name}.onnx")
        for tensor in list(model.graph.input) + list(model.graph.output):
            tensor.type.tensor_type.shape.dim[0].dim_value = value
        (HERE / f"{variant}.onnx").write_bytes(model.SerializeToString(deterministic=True))
        cases.extend({**c, "model": variant} for c in cases[-2:] if c["model"] != variant)


def half_precision():
    """A binary16 network; ONNX Runtime computes it in binary32 between casts, so the tolerance is that of binary16."""
    name = save(
        "half_precision",
        [
            h.make_node("Conv", ["x", "w1", "b1"], ["y"], kernel_shape=[3, 3, 3], pads=[1] * 6),
            h.make_node("Relu", ["y"], ["z"]),
            h.make_node("Conv", ["z", "w2", "b2"], ["logits"], kernel_shape=[1, 1, 1]),
        ],
        [("x", T.FLOAT16, ["batch", 2, 3, 3, 3])],
        [("logits", T.FLOAT16, ["batch", 2, 3, 3, 3])],
        [
            weights("w1", (4, 2, 3, 3, 3), 0.3, np.float16),
            weights("b1", (4,), 0.3, np.float16),
            weights("w2", (2, 4, 1, 1, 1), 0.3, np.float16),
            weights("b2", (2,), 0.3, np.float16),
        ],
    )
    case(name, {"x": bits((1, 2, 3, 3, 3), np.float16)}, absolute=4e-3, relative=4e-3)


def predecoder_in_integers():
    """A network in integers, with weights as large as they may be: equal to the last bit (training/predecoder/integers.py)."""
    layers = []
    sizes = (4, 8, 8, 4)
    for inputs, outputs, wide in zip(sizes, sizes[1:], integers.BITS):
        top = 2 ** (wide - 1) - 1
        weight = (rng.standard_normal((outputs, inputs, 3, 3, 3)) * top / 2.5).round().clip(-top, top).astype(np.int16)
        spread = (1 if inputs == 4 else 60) * top * np.sqrt(inputs * 27)
        factor = (rng.uniform(0.5, 1.5, outputs) * 150 / spread).astype(np.float32)
        layers.append(integers.Layer(weight, factor, rng.uniform(-40, 40, outputs).astype(np.float32)))
    name = "predecoder_in_integers"
    model = onnx_forms.core(layers, {})
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for size in ((4, 3, 3), (6, 5, 5)):
        volume = bits((1, 4, *size), np.float32, 0.3)
        volume[:, 2:] *= 0.5
        case(name, {"volume": volume}, symbols=dict(zip(("layers", "height", "width"), size)))


def unusable():
    """Well-formed files that no engine with static shapes and ONNX's operators can run."""
    one = [("x", T.FLOAT, ["batch", 3])]
    out = [("y", T.FLOAT, ["batch", 3])]
    save("unknown_operator", [h.make_node("Frobnicate", ["x"], ["y"])], one, out, [], check=False)
    save("foreign_domain", [h.make_node("Relu", ["x"], ["y"], domain="com.example")], one, out, [], check=False)
    save("doubles", [h.make_node("Relu", ["x"], ["y"])], [("x", T.DOUBLE, [1, 3])], [("y", T.DOUBLE, [1, 3])], [])
    save(
        "shape_from_data",
        [h.make_node("NonZero", ["x"], ["y"])],
        one,
        [("y", T.INT64, [2, "found"])],
        [],
    )
    save("wrong_output_type", [h.make_node("Relu", ["x"], ["y"])], one, [("y", T.INT32, [1, 3])], [], check=False)
    save("dangling", [h.make_node("Add", ["x", "nowhere"], ["y"])], one, out, [], check=False)


conv_integers()
fully_convolutional()
residual()
many_types()
bytes_unbatched()
half_precision()
unusable()
predecoder_in_integers()
(HERE / "cases.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
