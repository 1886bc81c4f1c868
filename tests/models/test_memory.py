#!/usr/bin/env python3
"""Memory of the compiler: weights in a file beside the model are neither held nor copied as a whole, and
equal ones stand once in what is written."""

import os
import struct
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

MIB = 1 << 20
NARROW, WIDE, PRODUCTS = 2048, 4096, 20
MATRIX = NARROW * WIDE * 2  # bytes


class LargeWeights(unittest.TestCase):
    def write(self, folder):
        """Products of one row with matrices [K, N], of which the last two are the first two again."""
        rng = np.random.default_rng(1)
        nodes, weights, name = [], [], "x"
        with open(folder / "weights.bin", "wb") as data:
            for i in range(PRODUCTS):
                shape = (NARROW, WIDE) if i % 2 == 0 else (WIDE, NARROW)
                if i < PRODUCTS - 2:
                    offset = data.tell()
                    # In pieces: what this process held at most counts for the one that it starts.
                    for _ in range(MATRIX // MIB):
                        data.write((rng.integers(-99, 100, MIB // 2) / 4096).astype(np.float16).tobytes())
                else:
                    offset = (i % 2) * MATRIX
                tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT16, dims=shape,
                                     data_location=TensorProto.EXTERNAL)  # fmt: skip
                for key, value in {"location": "weights.bin", "offset": offset, "length": MATRIX}.items():
                    tensor.external_data.add(key=key, value=str(value))
                weights.append(tensor)
                nodes.append(helper.make_node("MatMul", [name, f"w{i}"], [f"y{i}"]))
                name = f"y{i}"
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "large", [value("x", TensorProto.FLOAT16, [1, NARROW])],
                                  [value(name, TensorProto.FLOAT16, [1, NARROW])], weights)  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (folder / "large.onnx").write_bytes(model.SerializeToString())

    def test_resident_memory(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.write(folder)
            command = [str(binary()), "compile", str(folder / "large.onnx"), "--target=cuda:sm_80", "-q",
                       "-o", str(folder / "large.cu")]  # fmt: skip
            _, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ), 0)
            self.assertEqual(status, 0)
            with open(folder / "large.weights", "rb") as file:
                magic, size = struct.unpack("<8sQ", file.read(16))
            self.assertEqual((magic, size), (b"TENONWT1", (PRODUCTS - 2) * MATRIX))
            self.assertEqual((folder / "large.weights").stat().st_size, 32 + size)
            # The program, a matrix, and its image; with all of them it would be 300 MiB and more.
            self.assertLess(usage.ru_maxrss / 1024, size / MIB / 2)


if __name__ == "__main__":
    unittest.main()
