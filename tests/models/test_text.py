#!/usr/bin/env python3
"""Text as generated C++ has it: what moves, picks and chooses it against ONNX Runtime, and the program
of docs/text.md.

    test_text.py [NAME...]     as unittest names its tests, such as Text.test_moves
"""

import os
import re
import subprocess
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
from generated import compile_model
from onnx import TensorProto, helper, numpy_helper
from tenon import build_flags, tenon

STRING, BOOL, INT64 = TensorProto.STRING, TensorProto.BOOL, TensorProto.INT64
node = helper.make_node


def texts(*values):
    return np.array(values, object)


def branch(name, operation, operands, result):
    nodes = [node(operation, operands, [result])]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(result, STRING, [2, 3])])


class Text(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="tenon-text-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def save(self, nodes, inputs, outputs, constants, ml=False):
        info = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for k, v in inputs.items()]  # fmt: skip
        graph = helper.make_graph(nodes, "text", info, [onnx.ValueInfoProto(name=name) for name in outputs],
                                  [numpy_helper.from_array(v, k) for k, v in constants.items()])  # fmt: skip
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        path = self.folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path, model

    def test_moves(self):
        x, y = texts("b", "", "é\n").reshape(1, 3), texts("a?", "b", "c").reshape(1, 3)
        rows = ["rows"]
        nodes = [
            node("Concat", ["x", "y"], rows, axis=0),
            node("Transpose", rows, ["transposed"], perm=[1, 0]),
            node("Gather", ["rows", "places"], ["picked"], axis=1),
            node("Slice", ["rows", "from", "to", "axes", "steps"], ["reversed"]),
            node("Compress", ["rows", "mask"], ["kept"], axis=1),
            node("Unique", ["rows"], ["classes", "first", "inverse", "counts"]),
            node("Unique", ["rows"], ["seen"], sorted=0),
            node("Concat", ["rows", "labels"], ["labelled"], axis=0),
            node("If", ["flag"], ["chosen"],
                 then_branch=branch("then", "Identity", ["rows"], "t"),
                 else_branch=branch("else", "Identity", ["labels"], "e")),
            node("Shape", ["kept"], ["shape"]),
        ]  # fmt: skip
        outputs = ["transposed", "picked", "reversed", "kept", "classes", "first", "inverse", "counts",
                   "seen", "labelled", "chosen", "shape"]  # fmt: skip
        constants = {
            "places": np.array([2, 0, 2, -1]), "from": np.array([-1]), "to": np.array([-9]),
            "axes": np.array([1]), "steps": np.array([-2]),
            "labels": texts("one", "two", "three", "\\", '"', "").reshape(2, 3),
        }  # fmt: skip
        inputs = {"x": x, "y": y, "mask": np.array([True, False, True]), "flag": np.array(False)}
        path, model = self.save(nodes, inputs, outputs, constants)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        expected = session.run(None, inputs)
        self.expect(path, inputs, dict(zip(outputs, expected)))

    def expect(self, path, inputs, expected):
        """What tenon gives for `inputs`, on the interpreter and compiled."""
        for kind, arrays in (("input", inputs), ("output", expected)):
            for index, (name, array) in enumerate(arrays.items()):
                message = numpy_helper.from_array(array, name).SerializeToString()
                (self.folder / f"{kind}_{index}.pb").write_bytes(message)
        for target in ("interpreter", "cpu:generic"):
            with self.subTest(target):
                answer = tenon("run", path, f"--target={target}", f"--data={self.folder}")
                self.assertEqual(answer.status, 0, answer.output + answer.errors)

    def test_cast(self):
        """Numbers as text and back, as ONNX Runtime has them."""
        reals = [0.1, 1 / 3, 314.15926, 1e10, 1e-5, 123456789.0, -0.0, np.nan, np.inf, -np.inf, 100.0, 3e38]
        whole = texts("1", "-3", " 7\n", "+5", "0042", "-0")
        inputs = {
            "f": np.array(reals, np.float32), "d": np.array(reals), "h": np.array([0.1, 1 / 3, 314], np.float16),
            "i": np.array([0, -128, 127], np.int8), "u": np.array([0, 2**64 - 1], np.uint64),
            "b": np.array([True, False]), "whole": whole,
            "said": texts("1", "-3", " 7\n", "100.5", "1e3", "+5", "INF", "nan", "-inf", "1E-3", ".5", "4."),
        }  # fmt: skip
        nodes = [node("Cast", [name], [f"{name}_text"], to=STRING) for name in "fdhiub"]
        nodes += [node("Cast", ["said"], [f"said_{to}"], to=to) for to in (1, 10, 11)]
        nodes += [node("Cast", ["whole"], [f"whole_{to}"], to=to) for to in (3, 6, 7, 9, 13)]
        nodes += [node("CastLike", ["whole", "f"], ["like"])]
        outputs = [n.output[0] for n in nodes]
        path, model = self.save(nodes, inputs, outputs, {})
        session = onnxruntime.InferenceSession(model.SerializeToString())
        expected = dict(zip(outputs, session.run(None, inputs)))
        self.expect(path, inputs, {k: v.astype(object) if v.dtype.kind in "OU" else v
                                   for k, v in expected.items()})  # fmt: skip

    def test_no_number(self):
        """What is too large or too small is infinity or 0; text that says no number ends a run."""
        x = texts("1e400", "-1e400", "1e-400", "1e30", "0." + "0" * 400 + "1")
        path, _ = self.save([node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE),
                             node("Cast", ["x"], ["z"], to=TensorProto.FLOAT)], {"x": x}, ["y", "z"], {})  # fmt: skip
        large = np.array([np.inf, -np.inf, 0, 1e30, 0])
        self.expect(path, {"x": x}, {"y": large, "z": large.astype(np.float32)})
        for word in ("three", "", "1,5", "0x10", "7a", "nan(1)", "infinity", "- 1"):
            values = numpy_helper.from_array(texts("1", "2", word, "4", "5"), "x")
            (self.folder / "input_0.pb").write_bytes(values.SerializeToString())
            for target in ("interpreter", "cpu:generic") if word == "three" else ("interpreter",):
                answer = tenon("run", path, f"--target={target}", f"--data={self.folder}")
                self.assertEqual(answer.status, 1, word)
                said = f"'{word}' is no f" if target == "interpreter" else "says none, or one that does not fit"
                self.assertIn(said, answer.errors)

    def test_manual(self):
        """The program of docs/text.md builds as C and prints a label."""
        fruits = dict(keys_strings=["round", "long"], values_strings=["apple", "banana"], default_string="fruit?")
        path, _ = self.save([node("LabelEncoder", ["words"], ["label"], domain="ai.onnx.ml", **fruits),
                             node("Slice", ["label", "from", "to"], ["first"])],
                            {"words": texts("", "")}, ["first"],
                            {"from": np.array([0]), "to": np.array([1])})  # fmt: skip
        source = self.folder / "fruit.cpp"
        compile_model(path, source, "--target=cpu:generic")
        manual = (ROOT / "docs/text.md").read_text()
        program = next(block for block in re.findall(r"```c\n(.*?)```", manual, re.DOTALL) if "main" in block)
        (self.folder / "main.c").write_text(program)
        compiler = os.environ.get("CXX", "c++")
        for words in (["-std=c++17", *build_flags(source), "-c", "fruit.cpp"],
                      ["-x", "c", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "main.c"],
                      ["fruit.o", "main.o", "-lm", "-o", "main"]):  # fmt: skip
            done = subprocess.run([compiler, *words], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([str(self.folder / "main")], capture_output=True, text=True)
        self.assertEqual(done.stdout, "apple\n")


if __name__ == "__main__":
    unittest.main()
