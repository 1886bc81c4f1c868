#!/usr/bin/env python3
"""Complex numbers as generated code has them: what moves, picks and chooses them, against ONNX's
reference implementation; CUDA in the emulator of the kernel tests.

    test_complex.py [NAME...]     as unittest names its tests, such as Complex.test_c64
"""

import os
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
from onnx.reference import ReferenceEvaluator
from tenon import tenon

os.environ["NVCC"] = str(ROOT / "tests/tools/emulated-nvcc")
WAYS = [
    ["--target=interpreter"],
    ["--target=cpu:generic"],
    ["--target=cpu:native"],
    ["--target=cuda:sm_90a", "--runtime=include"],
]
MORE_WAYS = [
    ["--target=cpu:native", "-O0"],
    ["--target=mcu:generic"],
    ["--target=cuda:sm_75", "--runtime=include"],
]
node = helper.make_node


class Complex(unittest.TestCase):
    def check(self, kind, dtype, ways):
        rng = np.random.default_rng(5)

        def random(*shape):
            return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)

        def branch(name, operation, operands):
            result = helper.make_tensor_value_info(name, kind, None)
            return helper.make_graph([node(operation, operands, [name])], name, [], [result])

        x = random(4, 37, 6)
        nodes = [
            node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
            node("Concat", ["turned", "k"], ["joined"], axis=0),
            node("Slice", ["joined", "from", "to", "axes", "steps"], ["backwards"]),
            node("Gather", ["backwards", "places"], ["picked"], axis=2),
            node("Pad", ["picked", "pads", "border"], ["padded"]),
            node("Reshape", ["padded", "shape"], ["flat"]),
            node("Expand", ["flat", "wide"], ["repeated"]),
            node("Split", ["backwards", "sizes"], ["left", "right"], axis=2),
            node("ScatterElements", ["backwards", "where", "what"], ["replaced"], axis=2),
            node("Where", ["mask", "backwards", "replaced"], ["chosen"]),
            node("Tile", ["chosen", "times"], ["tiled"]),
            node("Compress", ["x", "kept"], ["some"], axis=1),
            node("If", ["flag"], ["branch"], then_branch=branch("then", "Identity", ["right"]),
                 else_branch=branch("else", "Identity", ["left"])),
            node("Identity", ["x"], ["same"]),
            node("Shape", ["some"], ["extents"]),
        ]  # fmt: skip
        constants = {
            "k": random(1, 6, 37), "from": np.array([5, 0]), "to": np.array([-9, 37]), "axes": np.array([1, 2]),
            "steps": np.array([-2, 2]), "places": np.array([3, 0, 17, -1]), "pads": np.array([0, 1, 0, 0, 1, 2]),
            "border": np.array(1.5 - 2j, dtype), "shape": np.array([5, 1, 30]), "wide": np.array([5, 2, 30]),
            "sizes": np.array([8, 11]), "where": rng.integers(0, 19, (5, 3, 1)), "what": random(5, 3, 1),
            "mask": rng.integers(0, 2, (5, 3, 19)).astype(bool), "times": np.array([1, 2, 1]),
        }  # fmt: skip
        inputs = {"x": x, "kept": rng.integers(0, 2, 37).astype(bool), "flag": np.array(False)}
        outputs = ["repeated", "replaced", "tiled", "some", "branch", "same", "extents"]
        info = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                for name, value in inputs.items()]  # fmt: skip
        graph = helper.make_graph(nodes, "complex", info, [onnx.ValueInfoProto(name=name) for name in outputs],
                                  [numpy_helper.from_array(v, k) for k, v in constants.items()])  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        expected = dict(zip(outputs, ReferenceEvaluator(model).run(None, inputs)))
        with tempfile.TemporaryDirectory(prefix="tenon-complex-") as name:
            folder = Path(name)
            (folder / "model.onnx").write_bytes(model.SerializeToString())
            for port, arrays in (("input", inputs), ("output", expected)):
                for index, (label, array) in enumerate(arrays.items()):
                    tensor = numpy_helper.from_array(np.asarray(array, order="C"), label)
                    (folder / f"{port}_{index}.pb").write_bytes(tensor.SerializeToString())
            for way in ways:
                with self.subTest(" ".join(way)):
                    answer = tenon("run", folder / "model.onnx", *way, f"--data={folder}")
                    self.assertEqual(answer.status, 0, answer.output + answer.errors)
                    self.assertEqual(answer.output.count("error 0 (data)"), len(outputs), answer.output)

    def test_c64(self):
        self.check(TensorProto.COMPLEX64, np.complex64, WAYS + MORE_WAYS)

    def test_c128(self):
        self.check(TensorProto.COMPLEX128, np.complex128, WAYS)


if __name__ == "__main__":
    unittest.main()
