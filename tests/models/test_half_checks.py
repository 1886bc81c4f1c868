#!/usr/bin/env python3
"""How checks judge networks in half precision.

A deep detector (residual blocks, a gate, a path back up, boxes by an exponential) is right although
its outputs are further from the interpreter's, which rounds elsewhere, than single roundings: it is
held against fp64. Damaged copies are wrong: one weight in one block, a residual that is missing, a
filter moved by one tap, a bias.
"""

import copy
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tenon import tenon

CHANNELS, BLOCKS, SIZE = 24, 24, 20
TARGETS = ["cpu:generic", "interpreter"]


class Network:
    """Nodes in fp16, with seeded weights."""

    def __init__(self, element):
        self.nodes, self.weights = [], []
        self.element, self.rng = element, np.random.default_rng(7)

    def node(self, kind, *inputs, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, self.element), name))
        return name

    def conv(self, x, inputs, outputs, size=3, gain=1.0, **attributes):
        scale = gain * np.sqrt(2 / (inputs * size * size))
        w = self.constant(self.rng.standard_normal((outputs, inputs, size, size)) * scale)
        b = self.constant(self.rng.standard_normal(outputs) * 0.1)
        return self.node("Conv", x, w, b, pads=[size // 2] * 4, **attributes)

    def silu(self, x):
        return self.node("Mul", x, self.node("Sigmoid", x))


def detector():
    n = Network(np.float16)
    x = n.silu(n.conv("x", 3, CHANNELS))
    for _ in range(BLOCKS):
        y = n.conv(n.silu(n.conv(x, CHANNELS, CHANNELS)), CHANNELS, CHANNELS, gain=0.55)
        x = n.node("Add", x, y)
    x = n.silu(n.conv(x, CHANNELS, CHANNELS, gain=0.3, strides=[2, 2]))
    boxes = n.node("Exp", n.conv(x, CHANNELS, 4, size=1, gain=0.3))
    scores = n.node("Sigmoid", n.conv(x, CHANNELS, 10, size=1))
    half = TensorProto.FLOAT16
    graph = helper.make_graph(
        n.nodes, "detector", [helper.make_tensor_value_info("x", half, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info(name, half, None) for name in (boxes, scores)], n.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def weights(model, name):
    tensor = next(t for t in model.graph.initializer if t.name == name)
    return tensor, numpy_helper.to_array(tensor).copy()


def convolution(model, place):
    """The node of a convolution with 3x3 filters, by its place."""
    return [n for n in model.graph.node if n.op_type == "Conv"][place]


def change(model, name, edit):
    tensor, values = weights(model, name)
    edit(values)
    tensor.CopyFrom(numpy_helper.from_array(values, name))


def one_weight(model):
    def edit(w):
        w[3, 5, 1, 1] += np.abs(w).max()
    change(model, convolution(model, 2 * BLOCKS // 3).input[1], edit)


def late_weight(model):
    def edit(w):
        w[1, 2, 0, 1] += np.abs(w).max()
    change(model, convolution(model, 2 * BLOCKS).input[1], edit)


def moved_tap(model):
    def edit(w):
        w[4] = np.roll(w[4], 1, axis=2)
    change(model, convolution(model, BLOCKS).input[1], edit)


def other_bias(model):
    def edit(b):
        b[7] += 0.5
    change(model, convolution(model, BLOCKS + 1).input[2], edit)


def no_residual(model):
    adds = [n for n in model.graph.node if n.op_type == "Add"]
    skipped = adds[BLOCKS // 2]
    skipped.op_type = "Identity"
    del skipped.input[0]


class HalfChecks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="tenon-half-")
        cls.folder = Path(cls.scratch.name)
        cls.model = detector()
        cls.path = cls.folder / "detector.onnx"
        onnx.save(cls.model, cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def compare(self, path, target, *words):
        return tenon("run", path, f"--target={target}", "--check=groups", "--seeds=1", "--json", *words)

    def test_right_network(self):
        answer = self.compare(self.path, "cpu:generic")
        self.assertEqual(answer.status, 0, answer.reason)
        report = answer.document
        self.assertEqual(report["compared"]["outputs"]["with"], ["an fp64 evaluation"])
        self.assertEqual(report["compared"]["groups"]["with"], ["an fp64 evaluation"])
        for output in report["outputs"]:
            # Further from fp64 than a rounding or two, which is what this test is about, and no
            # further than the interpreter in the model's types by more than chance.
            self.assertGreater(output["rounding"], 2**-9, output)
            self.assertLess(output["error"], 2 * output["rounding"], output)
        for group in report["groups"]:
            self.assertLess(group["error"], 2**-9, group)

    def test_damaged_networks(self):
        for damage in (one_weight, late_weight, moved_tap, other_bias, no_residual):
            path = self.folder / f"{damage.__name__}.onnx"
            damaged = copy.deepcopy(self.model)
            damage(damaged)
            onnx.save(damaged, path)
            for target in TARGETS:
                with self.subTest(damage=damage.__name__, target=target):
                    answer = self.compare(path, target, f"--reference={self.path}")
                    report = answer.document
                    self.assertEqual((answer.status, report.get("pass")), (1, False), answer.reason)
                    wrong = [g["name"] for g in report["groups"] if not g["same"]]
                    if target != "interpreter": # seen where it is, not in all that follows
                        self.assertLessEqual(len(wrong), 3, wrong)
                        self.assertTrue(wrong or damage is no_residual)


if __name__ == "__main__":
    unittest.main()
