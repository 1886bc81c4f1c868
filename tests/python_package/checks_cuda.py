"""Modules on a GPU: host arrays, device arrays by DLPack without copies, streams, contexts; language models; torch.compile.
Needs an NVIDIA GPU and nvcc: run.py is told `cuda` on a machine that has them (torch takes part where it is).
checks_emulated.py runs the same without either."""

import ctypes
import importlib.util
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import checks_decoder
import numpy as np
import tenon
from onnx import TensorProto, helper, numpy_helper
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
        with self.assertRaisesRegex(tenon.InputError, "stream: the inputs lie in the processor's memory"):
            self.module(self.image, stream=stream.value)

    def test_extents_that_data_decide(self):
        nodes = [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Cast", ["at"], ["y"], to=TensorProto.FLOAT)]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "found", [info("x", TensorProto.FLOAT, [6])], [info("y", TensorProto.FLOAT, [1, "n"])])
        module = tenon.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.TARGET,
                               **self.OPTIONS)  # fmt: skip
        image = np.array([0, 2, 0, 0, 1, 3], "f4")
        np.testing.assert_array_equal(module(image), [[1, 4, 5]])
        np.testing.assert_array_equal(to_host(module(to_device(image))), [[1, 4, 5]])

    def test_weights_that_arrays_have(self):
        numbers = np.random.default_rng(1)
        table, other = numbers.standard_normal((64, 32)).astype("f4"), numbers.standard_normal((64, 32)).astype("f4")
        nodes = [helper.make_node("Gather", [name, "ids"], [f"rows of {name}"]) for name in ("table", "other")]
        nodes.append(helper.make_node("Mul", ["rows of table", "rows of other"], ["y"]))
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "tables", [info("ids", TensorProto.INT64, [5])], [info("y", TensorProto.FLOAT, [5, 32])],
                                  [numpy_helper.from_array(table, "table"), numpy_helper.from_array(other, "other")])  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        ids, shared, elsewhere = np.array([3, 0, 63, 7, 3]), to_device(table), to_device(table + 1)
        module = tenon.compile(model, self.TARGET, weights="file", shared=[elsewhere, shared], **self.OPTIONS)
        self.assertEqual(module.shared_bytes, table.nbytes)
        np.testing.assert_array_equal(module(ids), table[ids] * other[ids])
        # It is that memory which is read: what must not be done shows it.
        driver("cuMemcpyHtoD_v2", ctypes.c_uint64(_native.View(shared).address), ctypes.c_void_p(other.ctypes.data),
               ctypes.c_size_t(other.nbytes))  # fmt: skip
        np.testing.assert_array_equal(module(ids), other[ids] * other[ids])
        plain = tenon.compile(model, self.TARGET, weights="file", **self.OPTIONS)
        self.assertEqual(plain.shared_bytes, 0)
        np.testing.assert_array_equal(plain(ids), table[ids] * other[ids])
        with self.assertRaisesRegex(tenon.InputError, "shared: array 0 does not lie on GPU 0"):
            tenon.compile(model, self.TARGET, weights="file", shared=[table], **self.OPTIONS)

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


class Decoder(unittest.TestCase):
    """Tokens lie in host memory on every target, so what the processor's module says holds for a GPU's."""

    TARGET, OPTIONS = "cuda:native", {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = checks_decoder.random_decoder.build(f"{folder.name}/small.onnx", checks_decoder.CONFIG)
        decoder = f"{checks_decoder.CAPACITY},logits=last"
        cls.module = tenon.compile(path, cls.TARGET, decoder=decoder, **cls.OPTIONS)
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


@unittest.skipIf(importlib.util.find_spec("torch") is None, "torch is not here")
class Torch(unittest.TestCase):
    """torch.compile on a GPU."""

    def setUp(self):
        import torch

        if not torch.cuda.is_available():
            self.skipTest("torch sees no GPU")
        self.torch = torch
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.enterContext(torch.no_grad())

    def modules(self, compiled, *arguments):
        """What was compiled during a call, and the call's result."""
        made, original = [], tenon.dynamo.compile
        with mock.patch.object(tenon.dynamo, "compile", lambda *a, **k: made.append(original(*a, **k)) or made[-1]):
            return made, compiled(*arguments)

    def close(self, found, expected):
        self.assertEqual(found.device, expected.device)
        self.torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)

    def test_parameters_are_shared(self):
        torch = self.torch
        network = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda().half().eval()
        x = torch.randn(128, 256, device="cuda").half()
        modules, y = self.modules(torch.compile(network, backend="tenon"), x)
        self.close(y, network(x))
        weights = sum(p.nbytes for p in network.parameters() if p.dim() == 2)
        self.assertEqual([m.shared_bytes >= weights // 2 for m in modules], [True])  # one of the two at least
        compiled = torch.compile(network, backend="tenon")
        network[0].weight.mul_(0.5)  # a change that torch counts
        self.close(compiled(x), network(x))

    def test_channels_last(self):
        torch = self.torch
        network = torch.nn.Conv2d(256, 256, 3, padding=1, bias=False).cuda().half().eval().to(memory_format=torch.channels_last)
        x = torch.randn(8, 256, 28, 28, device="cuda").half().to(memory_format=torch.channels_last)
        modules, y = self.modules(torch.compile(network, backend="tenon"), x)
        self.close(y, network(x))
        self.assertEqual([m.shared_bytes for m in modules], [network.weight.nbytes])

    def test_calls_are_captured(self):
        torch = self.torch
        module = tenon.compile(DIGITS, "cuda:native")
        x, stream, graph = torch.rand(1, 1, 8, 8, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            module(x)  # makes the stream's context
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            y = module(x)
        x.copy_(torch.rand_like(x) * 16)
        graph.replay()
        self.close(y, module(x))

    def test_streams_and_open_batch(self):
        torch = self.torch
        network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda().half().eval()
        compiled = torch.compile(network, backend="tenon", dynamic=True)
        side = torch.cuda.Stream()
        for rows in (5, 8, 7):
            x = torch.randn(rows, 64, device="cuda").half()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = compiled(x)
            torch.cuda.current_stream().wait_stream(side)
            self.close(y, network(x))


if __name__ == "__main__":
    unittest.main()
