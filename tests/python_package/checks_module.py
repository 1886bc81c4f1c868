"""Compiling, calling, errors, run-time dimensions, states, the cache, reports."""

import copy
import ctypes
import errno
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

import ml_dtypes
import numpy as np
import onnx
import tenon
from onnx import TensorProto, helper, numpy_helper
from tenon import cache, compiler, options, sources, types
from tenon.command import binary as command_binary
from tenon.report import Report, format_bytes

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
DIGITS = SOURCE / "examples/digits/digits.onnx"
DATA = SOURCE / "examples/digits/test_data_set_0"


def model(nodes, inputs, outputs, initializers=()):
    """An ONNX model; inputs and outputs: {name: (type, shape)}."""
    infos = [[helper.make_tensor_value_info(name, *form) for name, form in ports.items()] for ports in (inputs, outputs)]
    graph = helper.make_graph(nodes, "small", *infos, [numpy_helper.from_array(v, n) for n, v in initializers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def pointwise(kind=TensorProto.FLOAT, shape=("N", 4)):
    return model([helper.make_node("Add", ["x", "y"], ["sum"]), helper.make_node("Neg", ["sum"], ["minus"])],
                 {"x": (kind, shape), "y": (kind, shape)}, {"sum": (kind, shape), "minus": (kind, shape)})  # fmt: skip


def finished(child):
    """The status of a process, which has 20 seconds."""
    for _ in range(200):
        if (ended := os.waitpid(child, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(ended[1])
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tensor(name):
    return numpy_helper.to_array(onnx.load_tensor(DATA / name))


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = tenon.compile(DIGITS)
        cls.image, cls.expected = tensor("input_0.pb"), tensor("output_0.pb")

    def test_every_form_of_a_call_gives_the_reference(self):
        out = np.empty_like(self.expected)
        answers = [self.module(self.image), self.module(image=self.image),
                   self.module({"image": self.image})["probabilities"], self.module.context()(self.image),
                   self.module(self.image.tolist()), self.module(np.asfortranarray(self.image)),
                   self.module(self.image, out=out), self.module(self.image, out={"probabilities": out})]  # fmt: skip
        for answer in answers:
            np.testing.assert_allclose(answer, self.expected, rtol=1e-4, atol=1e-5)
        self.assertIs(answers[-1], out)

    def test_models_come_as_path_bytes_and_proto(self):
        for given in (str(DIGITS), DIGITS.read_bytes(), onnx.load(DIGITS)):
            np.testing.assert_allclose(tenon.compile(given)(self.image), self.expected, rtol=1e-4, atol=1e-5)

    def test_the_interpreter_needs_no_compiler(self):
        with mock.patch.dict(os.environ, {"CXX": "/nowhere/c++"}):
            with self.assertRaisesRegex(tenon.ToolMissing, "CXX names '/nowhere/c\\+\\+'"):
                tenon.compile(DIGITS, level=1)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                interpreted = tenon.compile(DIGITS, level=1, fallback="interpreter")
        self.assertIn("running on the interpreter", str(told[0].message))
        self.assertEqual(interpreted.target, "interpreter")
        np.testing.assert_allclose(interpreted(self.image), self.expected, rtol=1e-4, atol=1e-5)

    def test_errors_name_input_expected_found_and_remedy(self):
        for arguments, words in [
            ((self.image.astype("f8"),), "input 'image': expected elements of float32, found float64; pass it as x.astype"),
            ((self.image[0],), r"input 'image': expected the shape \[1, 1, 8, 8\], found \[1, 8, 8\]"),
            ((np.zeros((1, 1, 8, 9), "f4"),),
             r"expected 8, found 9; to leave it open compile with shapes=\{'image': \(1, 1, 8, 'N'\)\}, ranges=\{'N': \(1, 9\)\}"),
            ((np.zeros((0, 1, 8, 8), "f4"),), r"ranges=\{'N': \(0, 1\)\}"),
            ((self.image, self.image), r"expected 1 input \(image\), found 2"),
            ((), "no value for input image: float32"),
            (({"picture": self.image},), "there is no input 'picture'; there are image"),
            (("text",), "expected an array of float32, found builtins.str"),
            (([[1, 2], [3]],), "rows of one length"),
            ((self.image[..., 0],), "expected 4 dimensions, found 3"),
            ((self.image.astype(">f4"),), "found float32 of the other byte order"),
        ]:  # fmt: skip
            with self.assertRaisesRegex(tenon.InputError, words):
                self.module(*arguments)
        with self.assertRaisesRegex(tenon.InputError, "output 'probabilities'"):
            self.module(self.image, out=np.empty(10, "f4"))

    def test_a_forked_process_runs_with_threads_of_its_own(self):
        module = tenon.compile(DIGITS, threads=2)
        mine, expected = module.context(), module(self.image)
        mine(self.image)
        child = os.fork()
        if child == 0:
            good = all(np.array_equal(run(self.image), expected) for run in (module, mine, module.context()))
            os._exit(0 if good else 1)
        self.assertEqual(finished(child), 0)
        np.testing.assert_array_equal(mine(self.image), expected)

    def test_what_goes_to_other_processes(self):
        for thing in (self.module, self.module.context()):
            for travel in (pickle.dumps, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "cannot be pickled or copied"):
                    travel(thing)
        for error in (tenon.BuildError(["c++", "-c"], "m.cpp:1: error: no"), tenon.InputError("input 'x'")):
            back = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(back), str(back), vars(back)), (type(error), str(error), vars(error)))
        with self.assertRaises(tenon.CompileError) as refused:
            tenon.compile(b"no model")
        self.assertEqual(str(pickle.loads(pickle.dumps(refused.exception))), str(refused.exception))

    def test_report(self):
        report = self.module.report
        self.assertEqual(self.module.layers, report.layers)
        self.assertTrue(report.target.startswith("cpu:") and "native" not in report.target)
        self.assertIn("softmax", {name for layer in report.layers for name in layer.nodes})
        self.assertTrue(any(f.accepted for f in report.fusions) and all(f.id for f in report.fusions))
        self.assertGreater(report.weight_bytes, 0)
        self.assertEqual(report.inspect()["model"], "digits")
        self.assertIn("<html", report.html())
        self.assertIn("kernels", str(report))
        with tempfile.TemporaryDirectory() as folder:
            command = [command_binary(), "compile", DIGITS, "-o", pathlib.Path(folder) / "digits.cpp"]
            summary = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertIn(f"weights  {format_bytes(report.weight_bytes)}, ", summary)
        self.assertIn(f"{format_bytes(report.weight_bytes)} of weights", str(report))

    def test_amounts_of_memory(self):
        for count, text in [(0, "0 B"), (10239, "10239 B"), (10240, "10 KiB"), (10241, "10.0 KiB"), (1048575, "1.0 MiB"),
                            (1 << 20, "1 MiB"), (3 << 19, "1.5 MiB"), (10 << 30, "10 GiB"), (1 << 43, "8192 GiB")]:  # fmt: skip
            self.assertEqual(format_bytes(count), text)

    def test_report_of_chains(self):
        """What is decided by time has times, and the machine level that they are of."""
        rng = np.random.default_rng(1)
        weights = [("w", rng.normal(size=(96, 16, 1, 1)).astype("f2")), ("f", rng.normal(size=(96, 1, 3, 3)).astype("f2"))]
        layers = [helper.make_node("Conv", ["x", "w"], ["e"], "expand"),
                  helper.make_node("Conv", ["e", "f"], ["y"], "depthwise", pads=[1] * 4, strides=[2, 2], group=96)]  # fmt: skip
        pair = model(layers, {"x": (TensorProto.FLOAT16, (8, 16, 112, 112))},
                     {"y": (TensorProto.FLOAT16, (8, 96, 56, 56))}, weights)  # fmt: skip
        output, messages = compiler._run_compiler(sources.read(pair), "cuda:sm_90a", {}, "pair", "pair")
        report = Report.from_json(Report.of(output, messages), None)
        chain = next(f for f in report.fusions if f.id == "fuse.expand-depthwise")
        self.assertTrue(chain.accepted)
        self.assertEqual((chain.variant, chain.nodes), ("cuda:sm_90a", ("expand", "depthwise")))
        self.assertTrue(0 < chain.together < chain.apart)
        self.assertEqual({(f.variant, f.together, f.apart) for f in self.module.report.fusions}, {("", 0, 0)})

    def test_threads_share_a_module(self):
        image, failures = self.image, []

        def work():
            for _ in range(50):
                if not np.array_equal(self.module(image), answer):
                    failures.append(1)

        answer = self.module(image)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_worker_threads(self):
        np.testing.assert_allclose(tenon.compile(DIGITS, threads=2)(self.image), self.expected, rtol=1e-4, atol=1e-5)

    def test_save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.module.save(folder)
            loaded = tenon.load(folder)
            self.assertEqual(loaded.report, self.module.report)
            np.testing.assert_array_equal(loaded(self.image), self.module(self.image))
            with self.assertRaisesRegex(tenon.TenonError, "no model to inspect"):
                loaded.report.html()
        with self.assertRaisesRegex(tenon.TenonError, "holds no compiled module"):
            tenon.load("/nowhere")

    def test_generated_files_are_the_commands(self):
        files = tenon.generate(DIGITS, "cpu:generic", name="digits", weights="inline")
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "digits.cpp"
            subprocess.run([sys.executable, "-m", "tenon", "compile", DIGITS, "-o", out, "--target=cpu:generic",
                            "--weights=inline", "-q"], check=True)  # fmt: skip
            self.assertEqual(files, {path.name: path.read_bytes() for path in out.parent.iterdir()})


class Settings(unittest.TestCase):
    def test_options_that_are_none(self):
        with self.assertRaisesRegex(tenon.TenonError, "no option 'presicion'; did you mean 'precision'"):
            tenon.compile(DIGITS, presicion="fp16")
        with self.assertRaisesRegex(tenon.TenonError, r'option \'bind\' cannot be 3: .* bind=\{"N": 1'):
            tenon.compile(DIGITS, bind=3)
        with self.assertRaisesRegex(tenon.TenonError, "weights: expected one of auto, file, incbin, inline"):
            tenon.compile(DIGITS, weights="here")
        with self.assertRaisesRegex(tenon.TenonError, "expected a path, bytes"):
            tenon.compile(3)
        with self.assertRaisesRegex(tenon.TenonError, "there is no file '/nowhere.onnx'"):
            tenon.compile("/nowhere.onnx")
        with self.assertRaisesRegex(tenon.TenonError, "is a folder: expected an ONNX or .tn file"):
            tenon.compile(DATA)
        with self.assertRaisesRegex(tenon.TenonError, "expected the path of a model or Tenon's text, found ''"):
            tenon.compile("")

    def test_arguments_that_are_none(self):
        for arguments, words in [({"threads": 0}, "threads: expected 1 to 64, found 0"), ({"threads": "2"}, "threads: .*'2'"),
                                 ({"device": -1}, "device: expected 0 or more"), ({"target": None}, "target: expected a name"),
                                 ({"shared": [np.zeros(1)]}, "shared: the weights of 'cpu:native' lie in its own memory"),
                                 ({"shared": [np.zeros(1)], "target": "interpreter"}, "shared: the weights of 'interpreter'"),
                                 ({"device": 1}, "device: 'cpu:native' runs on no GPU: .*'cuda:native', found 1"),
                                 ({"example_inputs": (1,)}, "example_inputs are for a torch.nn.Module")]:  # fmt: skip
            with self.assertRaisesRegex(tenon.TenonError, words):
                tenon.compile(DIGITS, **arguments)

    def test_words_that_are_none(self):
        module = tenon.compile(DIGITS, "interpreter")
        with self.assertRaisesRegex(tenon.TenonError, "^format: expected one of text, json, dot, html, found 'pdf'$"):
            module.report.inspect("pdf")
        x = np.zeros((1, 1, 8, 8), np.float32)
        self.assertEqual(module(np.ma.array(x)).shape, (1, 10))
        with self.assertRaisesRegex(tenon.InputError, r"found a masked array; fill it with x.filled\(0\)"):
            module(np.ma.array(x, mask=x == 0))
        self.assertIn("<tenon.Context: image: float32[1, 1, 8, 8] -> ", repr(tenon.compile(DIGITS).context()))

    def test_streams_are_of_gpus(self):
        x = np.zeros((1, 1, 8, 8), np.float32)
        for target in ("cpu:native", "interpreter"):
            module = tenon.compile(DIGITS, target)
            for callee in (module, module.context()) if target != "interpreter" else (module,):
                with self.assertRaisesRegex(tenon.InputError, "stream: the model runs on the processor.*leave stream= out"):
                    callee(x, stream=0)

    def test_refusals_name_options_as_python_does(self):
        for said, words in [
            ("bind them with --bind batch=1 or keep them with --range NAME=1..8",
             'bind them with bind={"batch": 1} or keep them with ranges={"NAME": (1, 8)}'),
            ("bounds with --range count=1..100, or bind it: --bind h=w*32,n=1", 'bounds with ranges={"count": (1, 100)}, or bind it: '
             'bind={"h": "w*32", "n": 1}'),
            ("--shape=image=N,1,8,8 gives one this name", 'shapes={"image": ("N", 1, 8, 8)} gives one this name'),
            ("(--bind NAME=@FILE)", '(constants={"NAME": "FILE"})'), ("--state a=b:append@2.", 'states={"a": ("b", 2)}.'),
            ("-O: expected a level", "level: expected a level"), ("--bind names 'n'", "bind names 'n'"),
            ("--precision=fp16, --disable=fuse.a,fold", 'precision="fp16", disable=["fuse.a", "fold"]'),
            ("--input-range x=-1..1.5", 'input_ranges={"x": (-1, 1.5)}'), ("`tenon compile --range N=1..8`", "`tenon compile --range N=1..8`"),
            ("--report=fusion stays, x--bind and --binder, too", "--report=fusion stays, x--bind and --binder, too"),
        ]:  # fmt: skip
            self.assertEqual(options.in_python(said), words)
        with self.assertRaisesRegex(tenon.CompileError, r'dimensions have no value: \'N\'; bind them with bind=\{"N": 1\}'):
            tenon.compile(pointwise())

    def test_refusals_are_messages(self):
        with self.assertRaises(tenon.CompileError) as caught:
            tenon.compile(model([helper.make_node("Frobnicate", ["x"], ["y"], "strange")],
                                {"x": (TensorProto.FLOAT, (2,))}, {"y": (TensorProto.FLOAT, (2,))}))  # fmt: skip
        self.assertIn("Frobnicate", str(caught.exception))
        self.assertTrue(caught.exception.messages)
        with self.assertRaisesRegex(tenon.CompileError, "cpu:z80"):
            tenon.compile(DIGITS, "cpu:z80")

    def test_options_are_the_command_lines(self):
        module = tenon.compile(pointwise(), ranges={"N": (1, 8)}, disable=["fuse.*"], level=1, weights="file")
        self.assertEqual([layer.step for layer in module.layers], list(range(len(module.layers))))
        document = module.report.inspect()
        self.assertEqual(document["target"], module.target)


class Dimensions(unittest.TestCase):
    def check(self, target):
        module = tenon.compile(pointwise(), target, ranges={"N": (1, 8)})
        self.assertEqual(module.inputs[0].shape, ("N", 4))
        self.assertEqual([(d.name, d.low, d.high) for d in module.run_time_dims], [("N", 1, 8)])
        for count in (3, 8, 1, 3):
            x, y = np.random.default_rng(count).standard_normal((2, count, 4), "f4")
            total, minus = module(x, y=y)
            np.testing.assert_array_equal(total, x + y)
            np.testing.assert_array_equal(minus, -(x + y))
        with self.assertRaisesRegex(tenon.InputError, "input 'y': expected the shape .N, 4., found .2, 4.: N is 3, found 2"):
            module(np.zeros((3, 4), "f4"), np.zeros((2, 4), "f4"))
        with self.assertRaisesRegex(tenon.InputError, "it is 1 to 8; compile with ranges"):
            module(np.zeros((9, 4), "f4"), np.zeros((9, 4), "f4"))
        with self.assertRaisesRegex(tenon.InputError, "there is no run-time dimension 'M'"):
            module.set_dims(M=3)
        with self.assertRaisesRegex(tenon.InputError, "'N': expected 1 to 8, found 9"):
            module.set_dims(N=9)

    def test_compiled(self):
        self.check("cpu:generic")

    def test_interpreted(self):
        self.check("interpreter")

    def test_expressions(self):
        made = model([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2])],
                     {"x": (TensorProto.FLOAT, (1, 1, "w"))}, {"y": (TensorProto.FLOAT, (1, 1, "v"))})  # fmt: skip
        module = tenon.compile(made, bind={"w": "h*2"}, ranges={"h": (1, 16)})
        x = np.arange(10, dtype="f4").reshape(1, 1, 10)
        np.testing.assert_array_equal(module(x), x[..., 1::2])
        with self.assertRaisesRegex(tenon.InputError, "for no h from 1 to 16 is .h . 2. 9"):
            module(x[..., :9])

    def test_data_decide(self):
        made = model([helper.make_node("NonZero", ["x"], ["y"])], {"x": (TensorProto.FLOAT, (3, 4))},
                     {"y": (TensorProto.INT64, (2, "count"))})  # fmt: skip
        module = tenon.compile(made, "cpu:generic")
        for seed in range(3):
            x = np.random.default_rng(seed).integers(0, 2, (3, 4)).astype("f4")
            np.testing.assert_array_equal(module(x), np.stack(np.nonzero(x)))


class States(unittest.TestCase):
    def check(self, target):
        made = model([helper.make_node("Add", ["x", "h"], ["h_next"]), helper.make_node("Identity", ["h_next"], ["y"])],
                     {"x": (TensorProto.FLOAT, (2,)), "h": (TensorProto.FLOAT, (2,))},
                     {"y": (TensorProto.FLOAT, (2,)), "h_next": (TensorProto.FLOAT, (2,))})  # fmt: skip
        module = tenon.compile(made, target, states={"h": "h_next"})
        self.assertEqual([[p.name for p in ports] for ports in (module.inputs, module.outputs)], [["x"], ["y"]])
        ones = np.ones(2, "f4")
        self.assertEqual([module(ones)[0] for _ in range(3)], [1, 2, 3])
        module.reset()
        self.assertEqual(module(ones)[0], 1)
        return module

    def test_compiled(self):
        module = self.check("cpu:generic")
        context, ones = module.context(), np.ones(2, "f4")
        self.assertEqual([context(ones)[0], module(ones)[0]], [1, 2])

    def test_interpreted(self):
        self.check("interpreter")

    def test_models_without(self):
        with self.assertRaisesRegex(tenon.TenonError, "carries no values"):
            tenon.compile(pointwise(), "interpreter", bind={"N": 1}).reset()


class Types(unittest.TestCase):
    def test_elements_beyond_numpys(self):
        for kind, dtype in ((TensorProto.BFLOAT16, ml_dtypes.bfloat16), (TensorProto.FLOAT16, np.float16)):
            module = tenon.compile(pointwise(kind, (2, 4)), "cpu:generic")
            x = np.arange(8).reshape(2, 4).astype(dtype)
            total, minus = module(x, x)
            self.assertEqual(total.dtype, dtype)
            np.testing.assert_array_equal(minus.astype("f4"), -2 * np.arange(8).reshape(2, 4))

    def test_below_a_byte(self):
        for target in ("cpu:generic", "interpreter"):
            made = model([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])],
                         {"x": (TensorProto.INT4, (3, 3))}, {"y": (TensorProto.INT4, (3, 3))})  # fmt: skip
            x = np.arange(-4, 5).reshape(3, 3).astype(ml_dtypes.int4)
            y = tenon.compile(made, target)(x)
            self.assertEqual(y.dtype, ml_dtypes.int4)
            np.testing.assert_array_equal(y.astype("i1"), x.astype("i1").T)

    def test_packing(self):
        for element in types.ELEMENTS.values():
            if element.bits < 8:
                codes = np.random.default_rng(0).integers(0, 1 << element.bits, 7).astype(np.uint8)
                values = codes.view(element.dtype)
                unpacked = types.unpack(types.pack(values, element), element, (7,))
                np.testing.assert_array_equal(unpacked.view(np.uint8) & ((1 << element.bits) - 1), codes, element.name)

    def test_text(self):
        for target in ("cpu:generic", "interpreter"):
            made = model([helper.make_node("StringConcat", ["x", "y"], ["z"])],
                         {n: (TensorProto.STRING, (2,)) for n in "xy"}, {"z": (TensorProto.STRING, (2,))})  # fmt: skip
            z = tenon.compile(made, target)(np.array(["a", "öl"], object), np.array(["", "b"], object))
            self.assertEqual(list(z), ["a", "ölb"])
        taker = tenon.compile(made, "interpreter")
        for words in (np.zeros(2), [None, "a"], np.array(["a", 3], object)):
            with self.assertRaisesRegex(tenon.InputError, r"input 'x': expected text \(str or bytes\), found \w+ as element"):
                taker(words, ["", "b"])
        self.assertEqual(list(taker(np.array([b"a", b"b"]), ["c", "d"])), ["ac", "bd"])

    def test_dlpack_is_not_copied(self):
        class Foreign:  # an array of a library that tenon does not know
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **keywords):
                return self.array.__dlpack__(**keywords)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x = np.ones((2, 4), "f4")
        buffer = tenon.arrays.read_input(tenon.compile(pointwise(), "interpreter", bind={"N": 2}).inputs[0], Foreign(x))
        self.assertEqual(buffer.address, x.ctypes.data)
        module = tenon.compile(pointwise(), "cpu:generic", bind={"N": 2})
        out = [np.zeros((2, 4), "f4"), np.zeros((2, 4), "f4")]
        module(Foreign(x), Foreign(x), out=[Foreign(array) for array in out])
        np.testing.assert_array_equal(out[1], -2 * x)
        with self.assertRaisesRegex(tenon.InputError, "expected elements of float32, found int64"):
            module(Foreign(np.ones((2, 4), "i8")), x)
        with self.assertRaisesRegex(tenon.InputError, "not dense in row-major order; copy it"):
            module(Foreign(np.ones((4, 2), "f4").T), x)


class Cache(unittest.TestCase):
    def test_content_decides(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TENON_CACHE": folder}):
            first = tenon.compile(pointwise(), "cpu:generic", bind={"N": 1})
            with mock.patch.object(tenon.toolchain, "build_library", side_effect=AssertionError):
                self.assertEqual(tenon.compile(pointwise(), "cpu:generic", bind={"N": 1}).folder, first.folder)
                with self.assertRaises(AssertionError):
                    tenon.compile(pointwise(), "cpu:generic", bind={"N": 2})
            self.assertEqual([p.name for p in pathlib.Path(folder).iterdir()], [first.folder.name])
            # What is not whole is made again.
            ones = np.ones((1, 4), "f4")
            (first.folder / "module.json").write_text("{")
            np.testing.assert_array_equal(tenon.compile(pointwise(), "cpu:generic", bind={"N": 1})(ones, ones)[0], 2)
            next(first.folder.glob("*.so")).unlink()
            np.testing.assert_array_equal(tenon.compile(pointwise(), "cpu:generic", bind={"N": 1})(ones, ones)[0], 2)
            cache.clear()
            self.assertFalse(os.path.exists(folder))
            os.mkdir(folder)

    def test_external_data_counts(self):
        made = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (TensorProto.FLOAT, (300,))},
                     {"y": (TensorProto.FLOAT, (300,))}, [("w", np.ones(300, "f4"))])  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=16)
            zero = np.zeros(300, "f4")
            self.assertEqual(tenon.compile(path, "cpu:generic")(zero)[0], 1)
            (path.parent / "weights.bin").write_bytes(np.full(300, 7, "f4").tobytes())
            self.assertEqual(tenon.compile(path, "cpu:generic")(zero)[0], 7)

    def test_folders_that_cannot_be_written(self):
        x = np.ones((2, 4), "f4")
        with tempfile.TemporaryDirectory() as folder:
            # A file stands where the folder would be: nobody can write there, not even root.
            (pathlib.Path(folder) / "cache").touch()
            with mock.patch.dict(os.environ, {"TENON_CACHE": f"{folder}/cache/tenon"}):
                with self.assertWarnsRegex(UserWarning, "cannot be written .*; name another folder in TENON_CACHE"):
                    first = tenon.compile(pointwise(), "cpu:generic", bind={"N": 2})
                np.testing.assert_array_equal(first(x, x)[0], 2 * x)
                with mock.patch.object(tenon.toolchain, "build_library", side_effect=AssertionError):
                    self.assertEqual(tenon.compile(pointwise(), "cpu:generic", bind={"N": 2}).folder, first.folder)
                with self.assertRaisesRegex(tenon.TenonError, "cannot save to"):
                    first.save(f"{folder}/cache")

    def test_a_full_disk(self):
        made = []

        def make(folder):
            made.append(folder)
            if len(made) == 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            (folder / "here").touch()

        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TENON_CACHE": folder}):
            with mock.patch.object(cache, "_is_full", return_value=False), self.assertRaises(OSError):
                cache.entry("key", lambda place: True, make)
            made.clear()
            with mock.patch.object(cache, "_is_full", return_value=True), \
                    self.assertWarnsRegex(UserWarning, "no space is left .*; name another folder in TENON_CACHE"):
                place = cache.entry("key", lambda place: True, make)
            self.assertTrue((place / "here").exists())
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_where_it_is(self):
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "/somewhere"}):
            os.environ.pop("TENON_CACHE")
            self.assertEqual(cache.folder(), pathlib.Path("/somewhere/tenon"))


class Text(unittest.TestCase):
    def test_tenons_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.tn"
            onnx.save(pointwise(shape=(2, 2)), pathlib.Path(folder) / "m.onnx")
            subprocess.run([sys.executable, "-m", "tenon", "opt", pathlib.Path(folder) / "m.onnx", "--passes=", "-o",
                            path], check=True)  # fmt: skip
            x = np.ones((2, 2), "f4")
            for given in (path, path.read_text()):
                np.testing.assert_array_equal(tenon.compile(given, "interpreter")(x, x)[0], 2 * x)


if __name__ == "__main__":
    unittest.main()
