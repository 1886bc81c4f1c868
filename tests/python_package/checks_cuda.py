"""Modules on a GPU: host arrays, device arrays by DLPack without copies, streams, contexts.
Needs an NVIDIA GPU and nvcc: run.py is told `cuda` on a machine that has them (torch takes part where it is).
checks_emulated.py runs the same without either."""

import ctypes
import os
import pathlib
import unittest

import numpy as np
import tenon
from onnx import TensorProto, helper
from tenon import _native

DIGITS = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "examples/digits/digits.onnx"


def driver(name, *arguments):
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    assert code == 0, f"{name}: {code}"


def to_device(array):
    """An object with __dlpack__ on GPU 0, of no library that tenon knows."""
    made = _native.device_array(list(array.shape), 2, 32, 0)
    driver("cuMemcpyHtoD_v2", ctypes.c_uint64(_native.View(made).address), ctypes.c_void_p(array.ctypes.data),
           ctypes.c_size_t(array.nbytes))  # fmt: skip
    return made


def to_host(made):
    view = _native.View(made)
    array = np.empty(view.shape, "f4")
    driver("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(view.address), ctypes.c_size_t(array.nbytes))
    return array


class Cuda(unittest.TestCase):
    TARGET, OPTIONS = "cuda:native", {}

    @classmethod
    def setUpClass(cls):
        cls.module = tenon.compile(DIGITS, cls.TARGET, **cls.OPTIONS)
        cls.image = np.random.default_rng(0).uniform(0, 16, (1, 1, 8, 8)).astype("f4")
        cls.expected = tenon.compile(DIGITS, "interpreter")(cls.image)
        cls.module(cls.image)  # a context of the driver's exists

    def close(self, found):
        np.testing.assert_allclose(found, self.expected, rtol=1e-3, atol=1e-5)

    def test_host_arrays(self):
        self.close(self.module(self.image))
        self.close(self.module.context()(image=self.image))

    def test_device_arrays(self):
        x = to_device(self.image)
        self.assertEqual(tenon.arrays.read_input(self.module.inputs[0], x).address, _native.View(x).address)
        y = self.module(x)
        self.assertEqual(_native.View(y).device, (2, 0))
        self.close(to_host(y))

    def test_given_outputs(self):
        out = _native.device_array([1, 10], 2, 32, 0)
        self.assertIs(self.module(to_device(self.image), out=out), out)
        self.close(to_host(out))
        with self.assertRaisesRegex(tenon.InputError, "has to lie where the inputs do"):
            self.module(to_device(self.image), out=np.empty((1, 10), "f4"))

    def test_streams(self):
        stream = ctypes.c_void_p()
        driver("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
        y = self.module(to_device(self.image), stream=stream.value)
        driver("cuStreamSynchronize", stream)
        self.close(to_host(y))

    def test_extents_that_data_decide(self):
        nodes = [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Cast", ["at"], ["y"], to=TensorProto.FLOAT)]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "found", [info("x", TensorProto.FLOAT, [6])], [info("y", TensorProto.FLOAT, [1, "n"])])
        module = tenon.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.TARGET,
                               **self.OPTIONS)  # fmt: skip
        image = np.array([0, 2, 0, 0, 1, 3], "f4")
        np.testing.assert_array_equal(module(image), [[1, 4, 5]])
        np.testing.assert_array_equal(to_host(module(to_device(image))), [[1, 4, 5]])

    def test_wrong_places(self):
        with self.assertRaisesRegex(tenon.InputError, "it lies on GPU 0, the model runs on the processor"):
            tenon.compile(DIGITS, "interpreter")(to_device(self.image))

    def test_torch(self):
        try:
            import torch
        except ImportError:
            print("torch is not here: its tensors on the GPU were not tried")
            return
        x = torch.from_numpy(self.image).cuda()
        y = self.module(x)
        self.assertEqual(y.device.type, "cuda")
        self.close(y.cpu().numpy())
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            self.close(self.module(x.clone()).cpu().numpy())


if __name__ == "__main__":
    unittest.main()
