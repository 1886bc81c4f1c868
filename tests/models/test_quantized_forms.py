#!/usr/bin/env python3
"""A matrix product in every form that ONNX's QuantizeLinear and DequantizeLinear give it: 8, 16, 4 and 2
bits, signed and not, scales of a tensor, of channels, of blocks.

    test_quantized_forms.py

Each becomes integer arithmetic, or --report=fusion has the reason. Results are numpy's in double, but
for a step where that sum lies between two.
"""

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

ROWS, DEPTH, COLUMNS, BLOCK = 4, 32, 16, 8
INPUT_SCALE, OUTPUT_SCALE = np.float32(0.05), np.float32(0.3)
TYPES = {"i8": TensorProto.INT8, "u8": TensorProto.UINT8, "i16": TensorProto.INT16, "u16": TensorProto.UINT16,
         "i4": TensorProto.INT4, "u4": TensorProto.UINT4, "i2": TensorProto.INT2, "u2": TensorProto.UINT2}  # fmt: skip
INTEGERS = "i32"
# (activations, their zero point, weights, scales of weights) and what becomes of it.
FORMS = {
    ("i8", 3, "i8", "tensor"): INTEGERS,
    ("i8", 3, "i8", "channel"): INTEGERS,
    ("u8", 131, "u8", "channel"): INTEGERS,
    ("i8", 3, "i4", "tensor"): INTEGERS,
    ("i8", 3, "i4", "channel"): INTEGERS,
    ("u8", 131, "u4", "channel"): INTEGERS,
    ("i8", 3, "i2", "channel"): INTEGERS,
    ("i8", 3, "u2", "channel"): INTEGERS,
    ("i16", 0, "i8", "tensor"): INTEGERS,
    ("u16", 30000, "i8", "channel"): INTEGERS,
    ("i8", 3, "i8", "block"): "weights that are floats, or dequantised by blocks",
    ("u8", 131, "u4", "block"): "weights that are floats, or dequantised by blocks",
    ("i8", 3, "u16", "tensor"): "operands of other than 8 or 16 bits by 8",
}


def limits(name):
    """Lowest and highest value of an element type."""
    bits = int(name[1:])
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if name[0] == "i" else (0, 2**bits - 1)


def tensor(name, values, kind):
    values = np.asarray(values)
    return helper.make_tensor(name, TYPES[kind], values.shape, values.flatten().tolist())


def build(activation, zero, weight, granularity, rng):
    """The model, and what it computes."""
    low, high = limits(weight)
    w = rng.integers(low, high, (DEPTH, COLUMNS), endpoint=True)
    shape = {"tensor": (), "channel": (COLUMNS,), "block": (DEPTH // BLOCK, COLUMNS)}[granularity]
    bits = int(weight[1:])
    scale = rng.uniform(1, 3, shape).astype(np.float32) * np.float32(2.0 ** (1 - bits))
    middle = 0 if weight[0] == "i" else 2 ** (bits - 1)
    words = {"tensor": {}, "channel": {"axis": 1}, "block": {"axis": 0, "block_size": BLOCK}}[granularity]
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "x_scale", "zero"], ["xq"], name="quantize_x"),
        node("DequantizeLinear", ["xq", "x_scale", "zero"], ["xf"], name="dequantize_x"),
        node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wf"], name="dequantize_w", **words),
        node("MatMul", ["xf", "wf"], ["sum"], name="product"),
        node("QuantizeLinear", ["sum", "y_scale", "zero"], ["y"], name="quantize_y"),
    ]
    constants = [
        numpy_helper.from_array(INPUT_SCALE, "x_scale"), numpy_helper.from_array(OUTPUT_SCALE, "y_scale"),
        numpy_helper.from_array(scale, "w_scale"), tensor("zero", zero, activation),
        tensor("w", w, weight), tensor("w_zero", np.full(shape, middle), weight),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, DEPTH])
    y = helper.make_tensor_value_info("y", TYPES[activation], [ROWS, COLUMNS])
    model = helper.make_model(helper.make_graph(nodes, "form", [x], [y], constants),
                              opset_imports=[helper.make_opsetid("", 25)], ir_version=10)  # fmt: skip

    wide = np.repeat(scale, BLOCK, 0) if granularity == "block" else scale
    product = (w - middle) * wide.astype(np.float64)

    def compute(x):
        bounds = limits(activation)
        q = np.clip(np.rint(x / INPUT_SCALE) + zero, *bounds) - zero
        exact = (q * np.float64(INPUT_SCALE)) @ product / np.float64(OUTPUT_SCALE) + zero
        return np.clip(exact, *bounds)

    return model, compute


class Forms(unittest.TestCase):
    def test_forms(self):
        rng = np.random.default_rng(11)
        for form, outcome in FORMS.items():
            with self.subTest(form), tempfile.TemporaryDirectory(prefix="tenon-forms-") as folder:
                self.check(Path(folder), *build(*form, rng), outcome, rng)

    def check(self, folder, model, compute, outcome, rng):
        file = folder / "model.onnx"
        onnx.save(model, file)
        out = folder / "optimized.tn"
        answer = tenon("compile", file, "--target=mcu:generic", "--emit=tn", "--stage=optimized",
                       "--report=fusion", "-o", out)  # fmt: skip
        self.assertEqual(answer.status, 0, answer.errors)
        product = next(line for line in out.read_text().splitlines() if " = matmul " in line)
        if outcome == INTEGERS:
            self.assertIn("xi32>", product)
            self.assertNotIn("'quantize_y'", answer.output)
        else:
            self.assertIn("xf32>", product)
            self.assertIn(f"'quantize_y': {outcome}", answer.output)

        x = rng.normal(0, 1.5, (ROWS, DEPTH)).astype(np.float32)
        np.save(folder / "x.npy", x)
        answer = tenon("run", file, "--target=mcu:generic", "--against=interpreter", "--io=float",
                       f"--input=x={folder / 'x.npy'}", f"--save={folder / 'found'}")  # fmt: skip
        self.assertEqual(answer.status, 0, answer.errors)
        found, exact = np.load(folder / "found/y.npy").astype(np.float64), compute(x)
        self.assertGreater(np.ptp(exact), 20)
        self.assertLess(np.abs(found - exact).max(), 0.5001)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)
