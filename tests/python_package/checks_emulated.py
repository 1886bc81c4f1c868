"""What a module does on a GPU, where there is none: checks_cuda.py, and language models, in code that
tests/tools/emulated-nvcc builds, with a driver whose memory is the processor's."""

import ctypes
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import checks_cuda
import checks_decoder
import numpy as np
import tenon

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TARGET, OPTIONS = "cuda:sm_80", {"runtime": "include"}
# A stream is the emulator's where all of its members are 0 or empty.
DRIVER = """
#include <stdlib.h>
#include <string.h>
typedef unsigned long long address;
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuMemAlloc_v2(address *at, size_t bytes) { return *at = (address)malloc(bytes), 0; }
int cuMemFree_v2(address at) { return free((void *)at), 0; }
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes) { return memcpy((void *)to, from, bytes), 0; }
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes) { return memcpy(to, (void *)from, bytes), 0; }
int cuStreamCreate(void **stream, unsigned flags) { return *stream = calloc(1, 4096), 0; }
int cuStreamSynchronize(void *stream) { return 0; }
"""
_environment = mock.patch.dict(os.environ, {"NVCC": str(SOURCE / "tests/tools/emulated-nvcc")})


def setUpModule():
    assert "no CUDA driver" in tenon.toolchain.no_gpu() or not tenon.toolchain.no_gpu()
    with tempfile.TemporaryDirectory() as name:
        library = pathlib.Path(name) / "driver.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", library], input=DRIVER,
                       text=True, check=True)  # fmt: skip
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)  # from now on it is what "libcuda.so.1" names
    _environment.start()
    unittest.addModuleCleanup(_environment.stop)


class Emulated(checks_cuda.Cuda):
    TARGET, OPTIONS = TARGET, OPTIONS


class Decoder(unittest.TestCase):
    """Tokens lie in host memory on every target, so what the processor's module says holds for a GPU's."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = checks_decoder.random_decoder.build(f"{folder.name}/small.onnx", checks_decoder.CONFIG)
        decoder = f"{checks_decoder.CAPACITY},logits=last"
        cls.module = tenon.compile(path, TARGET, decoder=decoder, **OPTIONS)
        cls.reference = tenon.compile(path, decoder=decoder)
        cls.prompt = [int(t) for t in np.random.default_rng(5).integers(0, checks_decoder.CONFIG.vocab_size, 21)]

    def test_tokens_logits_and_text(self):
        found, expected = self.module.context(), self.reference.context()
        np.testing.assert_allclose(found.run_tokens(self.prompt, rows=3), expected.run_tokens(self.prompt, rows=3),
                                   rtol=2e-4, atol=2e-4)  # fmt: skip
        ids = expected.generate(max_tokens=8)
        self.assertEqual(found.generate(max_tokens=8), ids)
        self.assertEqual((found.length, self.module.length), (len(self.prompt) + 8, 0))
        found.set_length(len(self.prompt) - 1)
        self.assertEqual(list(found.stream(self.prompt[-1:], 8, stop=ids[5])), ids[: ids.index(ids[5])])
        drawn = [c.generate(max_tokens=6, temperature=1.0, top_k=20, top_p=0.9, seed=3) for c in (found, expected)]
        self.assertEqual(len(drawn[0]), 6)
        found.reset()
        self.assertEqual(found.length, 0)

    def test_runs_between_them(self):
        found, expected = self.module.context(), self.reference.context()
        for context in (found, expected):
            context.run_tokens(self.prompt[:5], rows=0)
        some = np.array([self.prompt[5:8]])
        np.testing.assert_allclose(found(some)[0], expected(some)[0], rtol=2e-4, atol=2e-4)
        self.assertEqual(found.length, 8)

    def test_what_does_not_fit(self):
        with self.assertRaisesRegex(tenon.InputError, "at most 48, which the caches have room for of 48, found 49"):
            self.module.run_tokens([1] * 49)


if __name__ == "__main__":
    unittest.main()
