#!/usr/bin/env python3
"""What `tenon compile` needs for a decoder's weights: memory of its own for little more than the largest of
them, however many entries read them, and an image that holds each once.

Tensors beyond what the limit leaves make the compiler fail, so a second copy of the table shows. The limit is
that of Linux on private writable memory: pages of mapped files do not count.
"""

import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
from project_venv import require

require("numpy", "onnx")

import decoders
from tenon import binary

MIB = 1 << 20
# One layer, whose table of tokens is its head, transposed: 64 MiB.
CONFIG = decoders.Config(hidden=512, layers=1, heads=8, key_heads=4, head=64, inner=1024, vocabulary=1 << 16,
                         positions=4096)  # fmt: skip
TABLE = 2 * CONFIG.hidden * CONFIG.vocabulary
# Programs of few weights take some 60 MiB with their threads' stacks and arenas.
REST = 128 * MIB


class Memory(unittest.TestCase):
    def compiled(self, precision, target, decoder="2048"):
        """The sizes of the model's weights and of the program's."""
        with tempfile.TemporaryDirectory() as folder:
            model = decoders.write(Path(folder) / "m.onnx", CONFIG, precision)
            limit = int(1.3 * TABLE) + REST
            command = [str(binary()), "compile", str(model), f"--target={target}", f"--decoder={decoder}",
                       "-o", str(Path(folder) / ("m.cu" if target.startswith("cuda") else "m.cpp"))]  # fmt: skip
            run = subprocess.run(command, capture_output=True, text=True,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))  # fmt: skip
            self.assertEqual(run.returncode, 0, run.stderr[-2000:])
            return Path(str(model) + ".data").stat().st_size, (Path(folder) / "m.weights").stat().st_size

    def test_halves(self):
        """The head is stored as strips, the table as it is; five entries read both."""
        given, stored = self.compiled("fp16", "cuda:sm_90a")
        self.assertLess(stored, given + TABLE + 8 * MIB)

    def test_nibbles(self):
        """So it is of 4 bits, with scales for 32 of them."""
        given, stored = self.compiled("int4", "cuda:sm_90a", "2048,prefill=none")
        self.assertLess(stored, given + TABLE // 4 + TABLE // 32 + 8 * MIB)


if __name__ == "__main__":
    unittest.main()
