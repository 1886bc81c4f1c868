#!/usr/bin/env python3
"""Probes of the design that take more than one run of one model: operators of users, values carried
from run to run, caches that grow in place, one file for several batch sizes or several machines, no
optimisation at all. Each on the interpreter and as a program made of the generated file.

    test_probes.py [NAME...]     as unittest names its tests, such as UserOperator.test_called
"""

import contextlib
import ctypes
import os
import re
import subprocess
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
from arena_bound import read
from generated import Model, build_library, compile_model
from tenon import model_file, tenon
from tensors import plain_session, read_data_set

OPERATORS = Path(__file__).parent / "operators"
REAL = Path(os.environ.get("TENON_MODELS") or ROOT.parent / "shared/models")


def only_if(condition):
    """Leaves out what this machine has not got the model or the GPU for; a skip fails in CI."""
    return lambda test: test if condition else None


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


class Carried(Probe):
    """Values carried in the context: every step gets the new input alone."""

    targets = ("interpreter", "cpu:generic")
    # What a generated file says where a state moves, where any does or where old rows are read by themselves, and where
    # a row is appended.
    replaces = r"memcpy\(f\.state<float>\(at::state_\w+\), "
    moves = r"memcpy|memmove|at::state_(keys|values)\)"
    appends = r"f\.state<float>\(at::state_\w+\) \+ f\.dims\[0\] \* 8"

    def steps(self, name, inputs, outputs, state, ranges=()):
        """Each data set on its own with the state as an input, then all of them as one sequence from
        the first one's state; returns the generated text."""
        model = self.write(name)
        words = [f"--state={state}", *[f"--range={r}" for r in ranges]]
        folders = sorted(model.parent.glob("test_data_set_*"))
        for target in self.targets:
            self.passes(model, folders[0], target, *words, "-O0")
            for folder in folders[:2]:
                self.passes(model, folder, target, *words)
        text = self.compile(model, *words)
        return text, self.build(), [
            ([i[k] for k in inputs], [o[k] for k in outputs]) for i, o in self.data(model)
        ]

    def run_sequence(self, program, data):
        for given, expected in data:
            found = [np.zeros_like(e) for e in expected]
            program.bind([np.ascontiguousarray(g) for g in given], found)
            program.run()
            for f, e in zip(found, expected):
                self.close(f, e)

    def test_replaced(self):
        text, program, data = self.steps("probe_streaming", ["frame"], ["y"], "cache=cache_out")
        self.has(text, self.replaces)  # 4 of 5 frames move up
        self.run_sequence(program, data)
        reset = program.function("reset")
        self.assertEqual(reset(program.context), 0)
        self.run_sequence(program, data)  # the first data set starts from zeros

    @staticmethod
    def steps_of(text):
        """The part of a generated file that is about this model."""
        return text[text.index("// Weights, packed") :]

    def sequence(self, name, caches, data, length):
        """(inputs, outputs) of `length` steps from an empty cache, as ONNX Runtime has them."""
        session = plain_session(onnx.load(self.folder / name / "model.onnx"))
        shapes = {i.name: i.shape for i in session.get_inputs()}
        past = {c: np.zeros([d if isinstance(d, int) else 0 for d in shapes[c]], np.float32)
                for c in caches}
        names = [o.name for o in session.get_outputs()]
        for step in range(length):
            x = data[step % len(data)][0][0] * np.float32(1 + 0.1 * step)
            found = dict(zip(names, session.run(names, {"x": x, **past})))
            past = {c: found[c + "_out"] for c in caches}
            yield [x], [found["y"]]

    def check_growth(self, name, caches, axis, capacity, rows):
        """Steps up to the capacity and one beyond; shortened and reset in between."""
        state = ",".join(f"{c}={c}_out:append@{axis}" for c in caches)
        text, program, data = self.steps(name, ["x"], ["y"], state, [f"T=0..{capacity}"])
        self.has(self.steps_of(text), self.moves, False)  # nothing old moves
        steps = capacity // rows + 1  # the last one starts at the capacity
        expected = list(self.sequence(name, caches, data, steps))
        self.run_sequence(program, expected)
        given, found = expected[0][0], np.zeros_like(expected[0][1][0])
        program.bind(given, [found])
        with self.assertRaisesRegex(RuntimeError, "largest extent"):
            program.run()
        self.assertFalse(found.any(), "a refused run writes nothing")

        set_dim, reset = program.function("set_dim"), program.function("reset")
        self.assertEqual(reset(program.context), 0)
        self.run_sequence(program, expected[:2])
        # Back to one step, by hand: the second step again gives the same.
        self.assertEqual(set_dim(program.context, 0, rows), 0)
        self.run_sequence(program, expected[1:3])
        self.assertNotEqual(set_dim(program.context, 0, capacity + 1), 0)
        return text

    def test_appended(self):
        text = self.check_growth("probe_growing_cache", ["keys"], 1, 9, 1)
        # The new row is made where it belongs, behind T old ones.
        self.has(text, self.appends)

    def test_appended_to_an_inner_dimension(self):
        self.check_growth("probe_heads_cache", ["keys", "values"], 2, 12, 2)

    def test_appended_for_heads_that_share(self):
        """Reshapes of the grown caches stay views of them, which one operation reads."""
        self.check_growth("probe_shared_heads_cache", ["keys", "values"], 2, 12, 1)
        model = self.folder / "probe_shared_heads_cache/model.onnx"
        optimised = self.folder / "optimised.tn"
        for target, words in (("cpu:x86-64-v3", []), ("cuda:sm_80", ["--precision=fp16"])):
            compile_model(model, optimised, f"--target={target}", "--emit=tn", "--stage=optimized", "--range=T=0..12",
                          "--state=keys=keys_out:append@2,values=values_out:append@2", *words)  # fmt: skip
            text = optimised.read_text()
            self.assertIn(" = attention ", text)
            self.assertNotIn(" = softmax ", text)


class OnCuda(Probe):
    """Generated CUDA on the emulator of the kernels' tests, or on a GPU of the architecture that
    TENON_CUDA_TARGET names, such as cuda:sm_90a."""

    GPU = os.environ.get("TENON_CUDA_TARGET", "")
    target = GPU or "cuda:sm_80"
    runtime = "embed" if GPU else "include"
    NVCC = "nvcc" if GPU else str(ROOT / "tests/tools/emulated-nvcc")

    def passes(self, model, data, target, *words):
        answer = tenon("run", model, f"--target={target}", f"--data={data}", "--check=groups",
                       f"--runtime={self.runtime}", *words, environment={"NVCC": self.NVCC})  # fmt: skip
        self.assertEqual(answer.status, 0, answer.errors or answer.output)

    def compile(self, model, *words):
        self.source = self.folder / "net.cu"
        compile_model(model, self.source, f"--target={self.target}", f"--runtime={self.runtime}", *words)
        return self.source.read_text()

    def build(self, *flags):
        library = self.source.with_suffix(".so")
        arch = self.target.partition("sm_")[2]
        position = ["-Xcompiler=-fPIC"] if self.GPU else ["-fPIC"]
        words = [self.NVCC, "-std=c++17", "-O3", "-shared", *position, "-gencode",
                 f"arch=compute_{arch},code=sm_{arch}", f"-I{self.folder}", self.source, "-o", library]  # fmt: skip
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        model = Model(library, "net", device=0)
        self.addCleanup(model.close)
        return model


class UserOperatorOnCuda(OnCuda):
    def test_inlined(self):
        """Between two convolutions, compared with its body in the interpreter; in one kernel with
        the first."""
        model = self.write("probe_user_operator")
        op = f"--op={OPERATORS / 'squared_relu_inline.tn'}"
        for precision, tolerance in (("fp32", 1e-4), ("fp16", 2e-3)):
            words = [op, f"--precision={precision}"]
            self.passes(model, model.parent / "test_data_set_0", self.target,
                        f"--tolerance={tolerance}",
                        f"--group-tolerance={tolerance}", *words)  # fmt: skip
            self.has(self.compile(model, *words), r"^// Conv_\d+, SquaredRelu_\d+ \|")


class CarriedOnCuda(OnCuda, Carried):
    """One graph, whose nodes follow the lengths."""

    targets = (OnCuda.target,)
    replaces = r"status carry0\("
    moves = r"status carry|at::state_(keys|values)\)"


class Decoder(Probe):
    """A decoder from the first token to the last with one file: its caches grow in the context."""

    LENGTH = 12

    def steps(self, model):
        """(inputs, logits) of each step from empty caches, as ONNX Runtime has them. The mask is as
        long as it becomes."""
        session = plain_session(onnx.load(model))
        names = [o.name for o in session.get_outputs()]
        past = {f"past_{k}": np.zeros([2, 1, 4, 0, 8], np.float32) for k in range(5)}
        for step in range(self.LENGTH):
            token, mask = np.int32([[37 * step % 1000]]), np.zeros([1, self.LENGTH], np.int32)
            mask[:, : step + 1] = 1
            now = {"input_ids": token, "position_ids": np.int32([[step]])}
            found = session.run(names, {**now, "attention_mask": mask[:, : step + 1], **past})
            past = {f"past_{k}": found[names.index(f"present_{k}")] for k in range(5)}
            yield [*now.values(), mask], found[names.index("logits")]

    @only_if((REAL / "tiny_random_gpt2_fp32").is_dir())
    def test_tiny_gpt2(self):
        model = model_file(REAL / "tiny_random_gpt2_fp32")
        caches = ",".join(f"past_{k}=present_{k}:append@3" for k in range(5))
        self.compile(model, "--bind=batch_size=1,seq_len=1,total_seq_len=past_seq_len+1",
                     f"--range=past_seq_len=0..{self.LENGTH - 1}", f"--state={caches}")  # fmt: skip
        program = self.build()
        for _ in range(2):
            for given, expected in self.steps(model):
                found = np.zeros_like(expected)
                program.bind([np.ascontiguousarray(g) for g in given], [found])
                program.run()
                self.close(found, expected)
            with self.assertRaisesRegex(RuntimeError, "largest extent"):
                program.run()
            self.assertEqual(program.function("reset")(program.context), 0)


@only_if(OnCuda.GPU)  # takes minutes on the emulator
class DecoderOnCuda(OnCuda, Decoder):
    pass


class Batches(Probe):
    """One file for batches of 1 to 4."""

    def sizes(self, model, image, output, ranges):
        """Runs at several sizes in turn against the outputs of ONNX Runtime; the sizes around them
        are refused."""
        session = plain_session(onnx.load(model))
        name = session.get_outputs()[0].name
        self.compile(model, *ranges)
        header = (self.folder / "net.h").read_text()
        for line in ("_MIN 1", "_MAX 4"):
            self.assertIn(f"#define NET_DIM_BATCH_SIZE{line}\n", header)
        program = self.build()
        set_dim = program.function("set_dim")
        largest = np.zeros(output, np.float32)
        for size in (1, 3, 4, 2):
            given = np.concatenate([image * (1 - 0.3 * k) for k in range(size)]).astype(np.float32)
            self.assertEqual(set_dim(program.context, 0, size), 0)
            largest.fill(np.nan)
            program.bind([given], [largest])
            program.run()
            self.assertEqual(program.output_shape(0), [size, *output[1:]])
            self.close(largest[:size], session.run([name], {session.get_inputs()[0].name: given})[0])
            self.assertTrue(np.isnan(largest[size:]).all(), "nothing is written beyond the batch")
        for size in (0, 5, -1):
            code = set_dim(program.context, 0, size)
            message = program.function("error_message")(code).decode()
            self.assertIn("outside its compiled range", message)

    def test_own(self):
        model = self.write("upscaler")
        for folder in sorted(model.parent.glob("test_data_set_*")):
            for target in ("interpreter", "cpu:generic"):
                self.passes(model, folder, target, "--range=batch_size=1..4")
        (inputs, outputs), *_ = self.data(model)
        (image,), (output,) = inputs.values(), outputs.values()
        self.sizes(model, image, [4, *output.shape[1:]], ["--range=batch_size=1..4"])

    @only_if((REAL / "super_resolution").is_dir())
    def test_super_resolution(self):
        folder = REAL / "super_resolution"
        model = model_file(folder)
        inputs, outputs = read_data_set(folder / "test_data_set_0", onnx.load(model))
        (image,), (output,) = inputs.values(), outputs.values()
        self.sizes(model, image[:1], [4, *output.shape[1:]], ["--range=batch_size=1..4"])


class Variants(Probe):
    """One CUDA file for two architectures, on the emulator: each has kernels of its own, and the
    device decides at creation."""

    MODULE = ROOT / "tests/lit/emit/cuda-variants.tn"

    def test_device_decides(self):
        source = self.folder / "net.cu"
        compile_model(self.MODULE, source, "--target=cuda:sm_80+sm_90a", "--runtime=include")
        # What the C interface does not show.
        (self.folder / "shown.cu").write_text(
            '#include "net.cu"\n'
            'extern "C" int net_chosen(const net_model *m) { return opened(m)->variant->arch; }\n'
        )
        compiler = ROOT / "tests/tools/emulated-nvcc"
        # What the file is built for, the device, and the program chosen there or the error.
        for built, device, expected in (
            ("80", 800, 800),
            ("80", 860, 800),
            ("90a", 900, 900),
            ("80", 900, "built for other architectures"),
            ("75", 750, "compute capability"),
            ("100", 1000, "compute capability"),
        ):
            with self.subTest(f"sm_{built} code on {device}"):
                library = self.folder / f"net_{built}_{device}.so"
                words = [sys.executable, compiler, "-std=c++17", "-shared", "-fPIC", "-gencode",
                         f"arch=compute_{built},code=sm_{built}", f"-DTENON_EMULATED_DEVICE={device}",
                         f"-I{self.folder}", self.folder / "shown.cu", "-o", library]  # fmt: skip
                done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                code = ctypes.CDLL(str(library))
                code.net_error_message.restype = ctypes.c_char_p
                model = ctypes.c_void_p()
                status = code.net_model_open(None, ctypes.byref(model))
                said = code.net_error_message(status).decode()
                if isinstance(expected, int):
                    self.assertEqual(status, 0, said)
                    self.assertEqual(code.net_chosen(model), expected)
                else:
                    self.assertNotEqual(status, 0)
                    self.assertIn(expected, said)


class Unoptimised(Probe):
    """At -O0 no pass runs: every imported operation is a kernel, whose result has its own memory."""

    def compiled(self, name, *words):
        """(report, results of kernels by buffer); copies into concats are not the model's kernels."""
        model = self.write(name)
        text = self.folder / "scheduled.tn"
        words = ["--target=cpu:generic", *words]
        compile_model(model, text, "--emit=tn", *words)
        _, (graph,) = read(text)
        kernels = {name for op in graph.body.ops if op.name == "group" for name in op.results}
        kernels = {name for name in kernels if "_copy" not in name}
        answer = compile_model(model, self.folder / "net.cpp", "--json",
                               "--report=passes,fusion,memory", *words)  # fmt: skip
        buffers = answer.document["memory"][0]["buffers"]
        return answer.document, [kernels.intersection(b["values"]) for b in buffers]

    def test_nothing_runs_and_nothing_is_taken_over(self):
        for name in ("resnet_fp32", "corner_concats"):
            with self.subTest(name):
                plain, apart = self.compiled(name, "-O0")
                optimised, together = self.compiled(name)
                self.assertEqual((plain["passes"], plain["firings"], plain["fusion"]), ([], {}, []))
                self.assertEqual([results for results in apart if len(results) > 1], [])
                # The other level shows that the test can fail.
                self.assertGreater(len(optimised["passes"]), 5)
                self.assertNotEqual([results for results in together if len(results) > 1], [])
                self.assertGreater(plain["summary"]["kernels"], optimised["summary"]["kernels"])


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    result = program.result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped")  # fmt: skip
    sys.exit(1 if failed else 0)
