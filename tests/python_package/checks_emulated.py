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
int cuMemAlloc_v2(address *at, size_t bytes) { return *at = (address)aligned_alloc(512, (bytes + 511) / 512 * 512), 0; }
int cuMemFree_v2(address at) { return free((void *)at), 0; }
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes) { return memcpy((void *)to, from, bytes), 0; }
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes) { return memcpy(to, (void *)from, bytes), 0; }
int cuStreamCreate(void **stream, unsigned flags) { return *stream = calloc(1, 4096), 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = 0, 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxPushCurrent_v2(void *context) { return 0; }
int cuCtxPopCurrent_v2(void **context) { return 0; }
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


class EmulatedDecoder(checks_cuda.Decoder):
    TARGET, OPTIONS = TARGET, OPTIONS


if __name__ == "__main__":
    unittest.main()
