#!/usr/bin/env python3
"""External data that changes while `tenon compile` runs: an error that names the file, and nothing is written.

The compiler is held at a known point by a file that it opens, which is a pipe here: one that it reads before
the passes run, or one among those that it writes.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/tools")]
from project_venv import require

require("numpy", "onnx")

import numpy as np
from onnx import TensorProto, helper
from tenon import binary

PRODUCTS, WIDTH = 3, 768
PATIENCE = 300  # seconds


class ChangingFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.data = self.folder / "weights.bin"
        self.write_model()
        self.before = {path.name for path in self.folder.iterdir()}

    def write_model(self):
        rng = np.random.default_rng(1)
        weights = []
        with open(self.data, "wb") as data:
            for i in range(PRODUCTS):
                weights.append(TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=(WIDTH, WIDTH),
                                           data_location=TensorProto.EXTERNAL))  # fmt: skip
                weights[-1].external_data.add(key="location", value=self.data.name)
                weights[-1].external_data.add(key="offset", value=str(data.tell()))
                data.write(rng.standard_normal((WIDTH, WIDTH), np.float32).tobytes())
        self.size = self.data.stat().st_size
        os.utime(self.data, (1, 1))  # any write is later
        nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(PRODUCTS)]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "products", [value("x0", TensorProto.FLOAT, [1, WIDTH])],
                                  [value(f"x{PRODUCTS}", TensorProto.FLOAT, [1, WIDTH])], weights)  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (self.folder / "m.onnx").write_bytes(model.SerializeToString())

    def start(self, *options, target="cuda:sm_80", output="m.cu"):
        command = [str(binary()), "compile", str(self.folder / "m.onnx"), f"--target={target}",
                   "-o", str(self.folder / output), *options]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   cwd=self.folder)  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def pipe(self, name):
        os.mkfifo(self.folder / name)
        self.before.add(name)
        return self.folder / name

    def refused(self, process, *texts):
        errors = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 1, errors)
        for text in ("error: ", "weights.bin", "again", *texts):
            self.assertIn(text, errors)
        self.assertEqual(errors.count("error: "), 1, errors)
        self.assertEqual({path.name for path in self.folder.iterdir()}, self.before)

    def cut_before_passes(self, target, output):
        """Passes and packing look at the weights, on all threads."""
        tuning = self.pipe("m.tuning")
        process = self.start(f"--tuning={tuning}", target=target, output=output)
        with open(tuning, "w") as file:  # once it is opened, the model is imported
            os.truncate(self.data, 4096)
            file.write(f"tenon-tuning 1\ntarget {target}\n0 {target.split(':')[1]} 1 1 matmul<mr=1>\n")
        self.refused(process, "was cut", "found a file of 4096")

    def test_cut_before_passes_cuda(self):
        self.cut_before_passes("cuda:sm_80", "m.cu")

    def test_cut_before_passes_cpu(self):
        self.cut_before_passes("cpu:generic", "m.cpp")

    def held_while_writing(self, change):
        """Of the weights, which are written first, no more is written than fits into a pipe."""
        weights = self.pipe("m.weights")
        process = self.start("--weights=file")
        with open(weights, "rb", buffering=0) as file:
            file.read(64)
            change()
            while file.read(1 << 16):
                pass
        return process

    def test_cut_while_writing(self):
        process = self.held_while_writing(lambda: os.truncate(self.data, 8192))
        self.refused(process, "was cut", "found a file of 8192")

    def test_rewritten_while_writing(self):
        def rewrite():
            with open(self.data, "r+b") as file:
                file.write(bytes(64))

        self.refused(self.held_while_writing(rewrite), "was changed", f"{self.size} bytes")

    def test_left_alone(self):
        process = self.held_while_writing(lambda: None)
        self.assertEqual(process.communicate(timeout=PATIENCE)[1], "")
        self.assertEqual(process.returncode, 0)
        written = {"m.cu", "m.h", "m.hpp"}
        self.assertEqual({path.name for path in self.folder.iterdir()}, self.before | written)


if __name__ == "__main__":
    unittest.main()
