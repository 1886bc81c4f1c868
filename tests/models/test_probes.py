#!/usr/bin/env python3
"""Probes of the design that take more than one run of one model: operators of users, values carried
from run to run, caches that grow in place, one file for several batch sizes. Each on the interpreter
and as a program made of the generated file.

    test_probes.py [NAME...]     as unittest names its tests, such as UserOperator.test_called
"""

import contextlib
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import make
import numpy as np
import onnx
from generated import Model, build_library, compile_model
from tenon import tenon
from tensors import read_data_set

OPERATORS = Path(__file__).parent / "operators"


class Probe(unittest.TestCase):
    """A folder of its own for every test, and the probes in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tenon-probes-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name):
        with contextlib.redirect_stdout(None):
            make.write_model(name, make.MODELS[name], self.folder)
        return self.folder / name / "model.onnx"

    def data(self, model):
        """(inputs, outputs) of each data set in order, by name."""
        proto = onnx.load(model)
        sets = sorted(model.parent.glob("test_data_set_*"))
        return [read_data_set(folder, proto) for folder in sets]

    def compile(self, model, *words):
        """The text of the generated file."""
        self.source = self.folder / "net.cpp"
        compile_model(model, self.source, "--target=cpu:generic", *words)
        return self.source.read_text()

    def build(self, *flags):
        flags = ("-Wall", "-Wextra", "-Werror", "-fno-tree-vectorize", *flags)
        library = build_library(self.source, "-O2", flags)
        model = Model(library, "net")
        self.addCleanup(model.close)
        return model

    def passes(self, model, data, target, *words):
        answer = tenon("run", model, f"--target={target}", f"--data={data}", "--check=groups",
                       "--json", *words)
        self.assertEqual(answer.status, 0, answer.errors or answer.output)
        self.assertTrue(answer.document["pass"])

    def has(self, text, pattern, expected=True):
        """Generated text is too long to be shown by a failed assertion."""
        found = re.search(pattern, text, re.MULTILINE) is not None
        self.assertEqual(found, expected, f"{pattern!r} in {self.source.name}")

    def close(self, found, expected):
        scale = max(np.abs(expected).max(), 1e-6)
        self.assertLess(np.abs(found - expected).max() / scale, 1e-4)


class UserOperator(Probe):
    def check(self, declaration):
        model = self.write("probe_user_operator")
        op = f"--op={OPERATORS / declaration}"
        for target in ("interpreter", "cpu:generic"):
            for level in ("-O0", "-O2"):
                self.passes(model, model.parent / "test_data_set_0", target, op, level)
        text = self.compile(model, op)
        program = self.build(f"-I{OPERATORS}")
        [(inputs, outputs)] = self.data(model)
        found = np.zeros_like(outputs["y"])
        program.bind([inputs["x"]], [found])
        program.run()
        self.close(found, outputs["y"])
        return text

    def test_called(self):
        text = self.check("squared_relu.tn")
        self.has(text, r'^#include "squared_relu.h"$')
        self.has(text, r"::squared_relu\(.*, 1, 8, 6, 6\);")

    def test_inlined(self):
        text = self.check("squared_relu_inline.tn")
        self.has(text, r"squared_relu\(", False)
        # Fused: the kernel of the first convolution does it all.
        self.has(text, r"^// Conv_\d+, SquaredRelu_\d+ \| conv")

    def test_manual_shows_what_is_tested(self):
        manual = (ROOT / "docs/user-operators.md").read_text()
        for name in ("squared_relu.tn", "squared_relu.h"):
            self.assertIn((OPERATORS / name).read_text(), manual)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    result = program.result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped")  # fmt: skip
    sys.exit(1 if failed else 0)
