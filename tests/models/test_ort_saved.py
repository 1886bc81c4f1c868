#!/usr/bin/env python3
"""Networks as ONNX Runtime's optimiser saves them at each of its levels, compiled and compared with what
ONNX Runtime makes of the network itself; a file for one machine alone is refused with the remedy.

    test_ort_saved.py [NAME...]     as unittest names its tests, such as Saved.test_bert_layer
"""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
import onnxruntime
from contrib import write
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from tenon import tenon

FLOAT = np.float32
LEVELS = {"basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
          "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
          "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL}  # fmt: skip
TARGETS = ("interpreter", "cpu:generic", "cpu:native")


class Network:
    """Nodes, weights and the one input of a network, named as they come."""

    def __init__(self, x):
        self.rng = np.random.default_rng(3)
        self.nodes, self.weights, self.x, self.count = [], [], x, 0

    def weight(self, *shape, by=None):
        values = self.rng.normal(size=shape) * (by or 1 / np.sqrt(shape[0] if len(shape) > 1 else 4))
        return self.constant(values.astype(FLOAT))

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def __call__(self, op, *inputs, results=1, **attributes):
        names = [f"v{self.count + i}" for i in range(results)]
        self.count += results
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if results == 1 else names

    def linear(self, x, width_in, width_out):
        return self("Add", self("MatMul", x, self.weight(width_in, width_out)), self.weight(width_out))

    def norm(self, x, width):
        return self("LayerNormalization", x, self.constant(np.ones(width, FLOAT)), self.weight(width), axis=-1)

    def heads(self, x, perm, length, width, heads):
        shape = self.constant(np.array([0, 0, heads, width // heads]))
        return self("Transpose", self("Reshape", x, shape), perm=perm)

    def attention(self, x, length, width, heads, mask=None):
        q, k, v = (self.heads(self.linear(x, width, width), perm, length, width, heads)
                   for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))  # fmt: skip
        scores = self("Div", self("MatMul", q, k), self.constant(np.array(np.sqrt(width / heads), FLOAT)))
        if mask is not None:
            scores = self("Add", scores, self.constant(mask))
        joined = self("Transpose", self("MatMul", self("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        joined = self("Reshape", joined, self.constant(np.array([0, 0, width])))
        return self.linear(joined, width, width)

    def gelu(self, x):
        e = self("Erf", self("Div", x, self.constant(np.array(np.sqrt(2), FLOAT))))
        return self("Mul", self("Mul", x, self("Add", e, self.constant(np.array(1, FLOAT)))),
                    self.constant(np.array(0.5, FLOAT)))  # fmt: skip

    def model(self, result):
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.x.shape)
        graph = helper.make_graph(self.nodes, "network", [info], [onnx.ValueInfoProto(name=result)], self.weights)
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))  # fmt: skip


def bert_layer(length=6, width=32):
    net = Network(np.random.default_rng(1).normal(size=(2, length, width)).astype(FLOAT))
    x = net.norm(net("Add", "x", net.attention("x", length, width, 4)), width)
    inner = net.linear(net.gelu(net.linear(x, width, 64)), 64, width)
    return net, net.norm(net("Add", x, inner), width)


def gpt_layer(length=6, width=32):
    net = Network(np.random.default_rng(1).normal(size=(1, length, width)).astype(FLOAT))
    mask = np.triu(np.full((1, 1, length, length), -1e4, FLOAT), 1)
    x = net("Add", "x", net.attention(net.norm("x", width), length, width, 4, mask))
    inner = net.linear(net.norm(x, width), width, 64)
    cube = net("Mul", net("Pow", inner, net.constant(np.array(3, FLOAT))), net.constant(np.array(0.044715, FLOAT)))
    t = net("Tanh", net("Mul", net("Add", inner, cube), net.constant(np.array(np.sqrt(2 / np.pi), FLOAT))))
    half = net("Mul", inner, net.constant(np.array(0.5, FLOAT)))
    inner = net("Mul", half, net("Add", t, net.constant(np.array(1, FLOAT))))
    return net, net("Add", x, net.linear(inner, 64, width))


def convolutions():
    net = Network(np.random.default_rng(1).normal(size=(1, 3, 16, 16)).astype(FLOAT))

    def conv(x, cin, cout, kernel, **attributes):
        w = net.weight(cout, cin, kernel, kernel, by=1 / np.sqrt(cin * kernel * kernel))
        return net("Conv", x, w, net.weight(cout, by=0.1), pads=[kernel // 2] * 4, **attributes)

    x = net("Relu", conv("x", 3, 16, 3))
    y = net("LeakyRelu", conv(x, 16, 16, 3), alpha=0.2)
    y = net("Relu", net("Add", conv(y, 16, 16, 1), x))
    y = net("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = net("Sigmoid", conv(y, 16, 16, 3, group=1))
    y = net("Concat", y, net("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), axis=1)
    y = net("Flatten", net("GlobalAveragePool", y))
    y = net("Relu", net("Gemm", y, net.weight(32, 16), net.weight(16)))
    return net, net("Gemm", y, net.weight(16, 10), net.weight(10))


def diffusion_block(channels=32, size=8):
    """Group norm as exporters write it, SiLU, convolutions, and a gated product."""
    net = Network(np.random.default_rng(1).normal(size=(1, channels, size, size)).astype(FLOAT))

    def group_norm(x):
        flat = net("Reshape", x, net.constant(np.array([0, 8, -1])))
        flat = net("InstanceNormalization", flat, net.constant(np.ones(8, FLOAT)), net.constant(np.zeros(8, FLOAT)))
        back = net("Reshape", flat, net.constant(np.array([1, channels, size, size])))
        scaled = net("Mul", back, net.weight(channels, 1, 1, by=1))
        y = net("Add", scaled, net.weight(channels, 1, 1, by=1))
        return net("Mul", y, net("Sigmoid", y))

    x = "x"
    for _ in range(2):
        w = net.weight(channels, channels, 3, 3, by=0.06)
        x = net("Conv", group_norm(x), w, net.weight(channels), pads=[1, 1, 1, 1])
    x = net("Add", x, "x")
    rows = net("Transpose", net("Reshape", x, net.constant(np.array([1, channels, -1]))), perm=[0, 2, 1])
    left, right = net("Split", net.linear(rows, channels, 64), results=2, axis=-1)
    return net, net.linear(net("Mul", left, net.gelu(right)), 32, channels)


def lstm():
    net = Network(np.random.default_rng(1).normal(size=(5, 1, 16)).astype(FLOAT))
    y = net("LSTM", "x", net.weight(2, 64, 16, by=0.2), net.weight(2, 64, 16, by=0.2), net.weight(2, 128, by=0.2),
            hidden_size=16, direction="bidirectional", results=3)[0]  # fmt: skip
    y = net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), net.constant(np.array([5, 1, 32])))
    return net, net("Tanh", net.linear(y, 32, 8))


class Once(CalibrationDataReader):
    def __init__(self, x):
        self.left = [{"x": x + FLOAT(0.1 * i)} for i in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


class Saved(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="tenon-saved-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def session(self, model, level, saved=None):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = level
        if saved:
            options.optimized_model_filepath = str(saved)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def check(self, model, x, holds, tolerance=1e-4):
        """Each saved form compiles and gives what ONNX Runtime gives for it; `holds` names operators
        that a level has to write, so that this is no comparison of the plain network."""
        seen = set()
        for name, level in LEVELS.items():
            saved, data = self.folder / f"{name}.onnx", self.folder / name
            self.session(str(model), level, saved)
            (expected,) = self.session(str(saved), onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, {"x": x})
            graph = onnx.load(saved).graph
            seen |= {node.op_type for node in graph.node}
            machine = any(node.domain == "com.microsoft.nchwc" for node in graph.node)
            data.mkdir()
            write(data, "input", {"x": x})
            write(data, "output", {graph.output[0].name: expected})
            for target in TARGETS:
                answer = tenon("run", saved, f"--target={target}", f"--data={data}", f"--tolerance={tolerance}")
                with self.subTest(level=name, target=target):
                    if machine:
                        self.assertNotEqual(answer.status, 0)
                        self.assertIn("ORT_ENABLE_EXTENDED or lower", answer.errors)
                    else:
                        self.assertEqual(answer.status, 0, answer.output + answer.errors)
        self.assertLessEqual(set(holds), seen)

    def save(self, net, result):
        path = self.folder / "network.onnx"
        onnx.save(net.model(result), path)
        return path

    def dynamic(self, net, result, **options):
        path = self.folder / "dynamic.onnx"
        # Without VNNI, ONNX Runtime adds pairs of products in 16 bits that saturate: weights of 7 bits.
        quantize_dynamic(self.save(net, result), path, weight_type=QuantType.QInt8, reduce_range=True, **options)
        return path

    def test_bert_layer(self):
        net, result = bert_layer()
        self.check(self.save(net, result), net.x, ["SkipLayerNormalization", "FusedMatMul"])

    def test_dynamic_bert_layer(self):
        net, result = bert_layer()
        # A value that rounds the other way moves the result by a step of 255.
        self.check(self.dynamic(net, result), net.x, ["DynamicQuantizeMatMul"], tolerance=2e-2)

    def test_dynamic_per_channel(self):
        net, result = bert_layer()
        self.check(self.dynamic(net, result, per_channel=True), net.x, ["DynamicQuantizeMatMul"], tolerance=2e-2)

    def test_gpt_layer(self):
        net, result = gpt_layer()
        self.check(self.save(net, result), net.x, ["FastGelu"])

    def test_convolutions(self):
        net, result = convolutions()
        self.check(self.save(net, result), net.x, ["FusedConv", "FusedGemm", "ReorderOutput"])

    def test_quantised_convolutions(self):
        net, result = convolutions()
        for kind, holds in ((QuantType.QUInt8, ["QLinearConv", "QLinearAdd"]), (QuantType.QInt8, ["QLinearConv"])):
            with self.subTest(kind=kind):
                path = self.folder / "static.onnx"
                quantize_static(self.save(net, result), path, Once(net.x), quant_format=QuantFormat.QDQ,
                                activation_type=kind, weight_type=QuantType.QInt8, per_channel=True,
                                reduce_range=True)  # fmt: skip
                self.check(path, net.x, holds, tolerance=5e-2)
                for name in LEVELS:
                    for file in (self.folder / name).iterdir():
                        file.unlink()
                    (self.folder / name).rmdir()

    def test_diffusion_block(self):
        net, result = diffusion_block()
        self.check(self.save(net, result), net.x, ["QuickGelu"])

    def test_dynamic_lstm(self):
        net, result = lstm()
        path = self.dynamic(net, result, op_types_to_quantize=["LSTM", "MatMul"])
        self.check(path, net.x, ["DynamicQuantizeLSTM", "DynamicQuantizeMatMul"], tolerance=2e-2)


if __name__ == "__main__":
    unittest.main()
