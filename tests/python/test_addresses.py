"""Tensors of the caller may lie at any address of the device: a program whose kernels load and store whole words
gives the same bytes where inputs and outputs lie 16 bytes apart and anywhere else, and leaves what surrounds the
outputs alone. Built against the emulator of the kernel tests, whose loads of words trap elsewhere.

usage: test_addresses.py
"""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy")

import numpy as np
from tenon import tenon

GUARD, FILL = 64, 0xCD
TEXT = """
module "addresses" stage=imported {
  graph @main (%x "x": tensor<32x64xf16>, %y "y": tensor<64x40xf16>) -> ("z", "t") {
    %z = matmul %x, %y : tensor<32x40xf16>
    %t = map %x (%0: f16) {
      %1 = tanh %0 : f16
      yield %1
    } : tensor<32x64xf16>
    return %z, %t
  }
}
"""


def placed(shift, count):
    """Bytes that begin `shift` beyond a multiple of 64, between guards; and their address."""
    memory = np.full(count + 2 * GUARD + 64, FILL, np.uint8)
    begin = -memory.ctypes.data % 64 + GUARD + shift
    return memory, memory[begin : begin + count]


def main():
    with tempfile.TemporaryDirectory(prefix="tenon-addresses-") as name:
        folder = Path(name)
        (folder / "net.tn").write_text(TEXT)
        answer = tenon("compile", folder / "net.tn", "-o", folder / "net.cu", "--target=cuda:sm_80", "--runtime=include")
        assert answer.status == 0, answer.errors
        assert ", true" in (folder / "net.cu").read_text(), "no tensor of fixed size"
        subprocess.run([sys.executable, ROOT / "tests/tools/emulated-nvcc", "-gencode=arch=compute_80,code=sm_80",
                        "-shared", "-fPIC", folder / "net.cu", "-o", folder / "net.so"], check=True)  # fmt: skip
        library = ctypes.CDLL(folder / "net.so")
        library.net_error_message.restype = ctypes.c_char_p
        model, context = ctypes.c_void_p(), ctypes.c_void_p()

        def checked(code):
            assert code == 0, library.net_error_message(code)

        checked(library.net_model_open(None, ctypes.byref(model)))
        checked(library.net_context_create(model, ctypes.byref(context)))
        random = np.random.default_rng(1)
        inputs = [random.uniform(-1, 1, shape).astype(np.float16) for shape in ((32, 64), (64, 40))]
        sizes = (32 * 40 * 2, 32 * 64 * 2)

        def run(shifts):
            memory = [placed(s, a.nbytes) for s, a in zip(shifts, inputs)]
            for (_, place), a in zip(memory, inputs):
                place[:] = a.view(np.uint8).reshape(-1)
            results = [placed(s, n) for s, n in zip(shifts[2:], sizes)]
            given = (ctypes.c_void_p * 2)(*(place.ctypes.data for _, place in memory))
            taken = (ctypes.c_void_p * 2)(*(place.ctypes.data for _, place in results))
            checked(library.net_enqueue(context, given, taken, None))
            for (whole, place), n in zip(results, sizes):
                assert np.count_nonzero(whole != FILL) <= n, "written beside an output"
            return [place.tobytes() for _, place in results]

        want = run((0, 0, 0, 0))
        x, y = (a.astype(np.float64) for a in inputs)
        found = np.frombuffer(want[0], np.float16).reshape(32, 40)
        assert np.abs(found - x @ y).max() < 0.02, "a wrong product"
        cases = [(2, 0, 0, 0), (0, 6, 0, 0), (0, 0, 4, 0), (0, 0, 0, 8), (2, 4, 6, 14), (0, 0, 0, 0)]
        for shifts in cases:
            assert run(shifts) == want, shifts
        library.net_context_destroy(context)
        library.net_model_close(model)
    print(f"{len(cases) + 1} passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
