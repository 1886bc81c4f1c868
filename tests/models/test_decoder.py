#!/usr/bin/env python3
"""Language models compiled with --decoder, token by token and in pieces, against ONNX Runtime on the
same file: the interpreter for each step alone, and a program of the generated file from the first
token to a full cache, with tokens taken back, drawn greedily and at random.

    test_decoder.py [NAME...]     as unittest names its tests, such as Generated.test_steps
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "examples/llm")]
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
import random_decoder
from decoder_reference import Reference
from generated import Model, build_library, compile_model
from onnx import TensorProto, helper, numpy_helper
from tenon import build_flags, tenon
from tensors import plain_session

VOCABULARY, CAPACITY = 24, 40
CONFIG = random_decoder.Config(vocab_size=VOCABULARY, max_position_embeddings=CAPACITY, rope_theta=100)


def build(path, element=TensorProto.FLOAT):
    return random_decoder.build(str(path), CONFIG, element)


class Sampling(ctypes.Structure):
    _fields_ = [("temperature", ctypes.c_float), ("top_k", ctypes.c_int), ("top_p", ctypes.c_float),
                ("seed", ctypes.c_ulong), ("stop", ctypes.POINTER(ctypes.c_int)), ("stop_count", ctypes.c_int)]  # fmt: skip


OK, INVALID, FULL, UNSUPPORTED, NO_LOGITS = 0, 1, 6, 9, 21


class Program(Model):
    """The functions of a decoder."""

    logit = np.float32

    def tokens(self, tokens, rows):
        """(code, logits [rows, vocabulary])."""
        given, out = (ctypes.c_int * len(tokens))(*tokens), np.full([rows, VOCABULARY], np.nan, self.logit)
        code = self.function("run_tokens")(self.context, given, len(tokens), None,
                                           out.ctypes.data_as(ctypes.c_void_p) if rows else None, rows)  # fmt: skip
        return code, out

    def generate(self, count, temperature=0.0, top_k=0, top_p=1.0, seed=1, stop=()):
        """(code, tokens)."""
        ends = (ctypes.c_int * len(stop))(*stop)
        how = Sampling(temperature, top_k, top_p, seed, ends, len(stop))
        out, made = (ctypes.c_int * count)(), ctypes.c_int()
        code = self.function("run_generate")(self.context, ctypes.byref(how), count, None, out, ctypes.byref(made))
        return code, list(out)[: made.value]

    def length(self):
        length = ctypes.c_long()
        self.check(self.function("length")(self.context, ctypes.byref(length)))
        return length.value

    def set_length(self, length):
        return self.function("set_length")(self.context, ctypes.c_long(length))


DRIVER = r"""
#include "llm.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv) {
  std::vector<int> prompt;
  for (int i = 1; i < argc; ++i)
    prompt.push_back(std::atoi(argv[i]));
  auto model = llm::model::open();
  auto context = llm::context::create(*model);
  std::vector<float> logits(2 * LLM_VOCABULARY);
  if (!context || !context->run_tokens(prompt, logits))
    return 1;
  for (size_t i = 0; i < logits.size(); ++i)
    std::printf("%.9g%c", double(logits[i]), i % LLM_VOCABULARY + 1 < LLM_VOCABULARY ? ' ' : '\n');
  int text[9], made = 0;
  llm::sampling how;
  if (!context->generate(text, made, how) || made != 9)
    return 1;
  for (int token : text)
    std::printf("%d ", token);
  std::printf("\n%ld\n", *context->length());
  // What does not fit: half a row, more rows than tokens, tokens beyond the vocabulary, more than there are.
  float half[LLM_VOCABULARY / 2];
  const int one[] = {1}, wrong[] = {LLM_VOCABULARY};
  std::printf("%d %d %d %d\n", context->run_tokens(one, half).code(), context->run_tokens(one, logits).code(),
              context->run_tokens(wrong).code(), context->set_length(1000).code());
  std::vector<int> many(LLM_CAPACITY);
  std::printf("%d", context->generate(many, made).code());
  std::printf(" %d\n", context->set_length(3).code());
  return context->length().has_value() && *context->length() == 3 ? 0 : 1;
}
"""


class DecoderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tenon-decoder-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.model = build(cls.folder / "decoder.onnx")
        cls.session = plain_session(onnx.load(cls.model))
        cls.prompt = [int(t) for t in np.random.default_rng(5).integers(0, VOCABULARY, 21)]

    def close(self, found, expected):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


class Interpreted(DecoderTest):
    def test_steps(self):
        """Each step alone, its caches given: a prompt of five tokens, then one and two."""
        reference = Reference(self.session, CONFIG.head_size)
        for step, tokens in enumerate((self.prompt[:5], self.prompt[5:6], self.prompt[6:8])):
            for target in ("interpreter", "cpu:native"):
                given = [f"--input=input_ids={self.save('ids', np.array([tokens]))}"]
                given += [f"--input={name}={self.save(name, value)}" for name, value in reference.past.items()]
                out = self.folder / f"out-{step}-{target[:3]}"
                answer = tenon("run", self.model, f"--target={target}", f"--decoder={CAPACITY},logits=all",
                               f"--save={out}", *given)  # fmt: skip
                self.assertEqual(answer.status, 0, answer.errors or answer.output)
                found = np.load(out / "logits.npy")[0]
                expected = Reference(self.session, CONFIG.head_size)
                expected.past, expected.length = dict(reference.past), reference.length
                self.close(found, expected.run(tokens))
            reference.run(tokens)

    def save(self, name, value):
        path = self.folder / f"{name}.npy"
        np.save(path, value)
        return path


class Generated(DecoderTest):
    """A program in C++."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = {logits: cls.built(logits) for logits in ("last", "all")}

    SUFFIX, ENTRIES = ".cpp", r"<= (\d+)\) return run_rows"

    @classmethod
    def built(cls, logits):
        source = cls.folder / f"{logits}{cls.SUFFIX}"
        return cls.shared_library(cls.compiled(cls.model, source, f"--decoder={CAPACITY},logits={logits}"))

    @classmethod
    def compiled(cls, model, source, *words):
        compile_model(model, source, *words)
        return source

    @classmethod
    def shared_library(cls, source):
        return build_library(source, "-O1")

    def program(self, logits):
        program = Program(self.programs[logits], logits)
        self.addCleanup(program.close)
        return program

    def test_steps(self):
        """A prompt in two pieces (16 and 5), then a few tokens at a time: logits of the last rows."""
        for logits in ("last", "all"):
            program, reference = self.program(logits), Reference(self.session, CONFIG.head_size)
            expected = reference.run(self.prompt)
            code, found = program.tokens(self.prompt, 1)
            self.assertEqual(code, OK)
            self.close(found, expected[-1:])
            for tokens, rows in (([3], 1), ([1, 2, 5], 3), ([7, 8], 0), ([4, 4, 9, 2], 2)):
                expected = reference.run(tokens)
                code, found = program.tokens(tokens, rows)
                self.assertEqual(code, OK)
                self.close(found, expected[len(tokens) - rows :])
            self.assertEqual(program.length(), reference.length)

    def test_entries(self):
        """The graph that a run takes says its tokens alone: with all rows of logits, one by one and in runs of every
        size, caches and logits are the same. `prefill` adds one more graph, for all of the prompt."""
        source = self.compiled(self.model, self.folder / f"prefill{self.SUFFIX}", f"--decoder={CAPACITY},prefill=24,logits=all")
        text = source.read_text()
        self.assertEqual([int(most) for most in re.findall(self.ENTRIES, text, re.M)], [1, 8, 16])
        program = Program(self.shared_library(source), "prefill")
        self.addCleanup(program.close)
        session = self.session
        for sizes in ((21, 1, 1, 8, 1), (1, 2, 7, 8, 9, 1, 4), (16, 17)):
            reference, at = Reference(session, CONFIG.head_size), 0
            self.assertEqual(program.set_length(0), OK)
            for size in sizes:
                tokens = [(7 * i + at) % VOCABULARY for i in range(size)]
                expected = reference.run(tokens)
                code, found = program.tokens(tokens, size)
                self.assertEqual(code, OK)
                self.close(found, expected)
                at += size

    def test_rows_across_pieces(self):
        program, reference = self.program("all"), Reference(self.session, CONFIG.head_size)
        code, found = program.tokens(self.prompt, 19)
        self.assertEqual(code, OK)
        self.close(found, reference.run(self.prompt)[2:])

    def test_greedy(self):
        """The tokens are ONNX Runtime's; a stop token ends them and is not appended."""
        program, reference = self.program("last"), Reference(self.session, CONFIG.head_size)
        expected = reference.greedy(reference.run(self.prompt)[-1], 12)
        self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
        self.assertEqual(program.generate(12), (OK, expected))
        self.assertEqual(program.length(), len(self.prompt) + 12)

        stop = expected[5]
        before = expected[: expected.index(stop)]
        self.assertEqual(program.set_length(0), OK)
        self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
        self.assertEqual(program.generate(12, stop=[99, stop]), (OK, before))
        self.assertEqual(program.length(), len(self.prompt) + len(before))

    def test_taken_back(self):
        """What is taken back is as if it had never been; there are no logits to draw from then."""
        program, reference = self.program("last"), Reference(self.session, CONFIG.head_size)
        self.assertEqual(program.generate(1), (NO_LOGITS, []))
        self.assertEqual(program.tokens(self.prompt + [1, 2, 3, 4], 0)[0], OK)
        self.assertEqual(program.set_length(len(self.prompt) + 5), INVALID)
        self.assertEqual(program.set_length(len(self.prompt)), OK)
        self.assertEqual(program.generate(1), (NO_LOGITS, []))
        reference.run(self.prompt)
        code, found = program.tokens([9, 6], 2)
        self.assertEqual(code, OK)
        self.close(found, reference.run([9, 6]))

    def test_full(self):
        """What does not fit is refused, and nothing changes."""
        program, reference = self.program("last"), Reference(self.session, CONFIG.head_size)
        self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
        self.assertEqual(program.tokens([1] * (CAPACITY - len(self.prompt) + 1), 0)[0], FULL)
        self.assertEqual(program.length(), len(self.prompt))
        expected = reference.greedy(reference.run(self.prompt)[-1], CAPACITY - len(self.prompt))
        self.assertEqual(program.generate(CAPACITY), (FULL, expected))
        self.assertEqual(program.length(), CAPACITY)
        self.assertEqual(program.tokens([1], 0)[0], FULL)
        self.assertEqual(program.set_length(CAPACITY - 1), OK)
        self.assertEqual(program.tokens([1], 0)[0], OK)

    def test_arguments(self):
        program = self.program("last")
        self.assertEqual(program.tokens([VOCABULARY], 0)[0], INVALID)
        self.assertEqual(program.tokens([-1], 0)[0], INVALID)
        self.assertEqual(program.tokens([1, 2], 3)[0], INVALID)
        self.assertEqual(program.length(), 0)

    def test_sampled(self):
        """One seed gives the same tokens each time; counts of what is drawn follow the softmax over what
        top_k and top_p leave."""
        program, reference = self.program("last"), Reference(self.session, CONFIG.head_size)
        logits = reference.run(self.prompt)[-1].astype(np.float64) / 0.7
        order = np.argsort(-logits)
        chances = np.exp(logits - logits.max())
        few = chances.copy()
        few[order[6:]] = 0
        few /= few.sum()
        within = np.cumsum(few[order]) - few[order] < 0.9
        few[order[~within]] = 0
        for expected, words in ((chances / chances.sum(), {}), (few / few.sum(), {"top_k": 6, "top_p": 0.9})):
            counts = np.zeros(VOCABULARY)
            draws = 600
            for seed in range(draws):
                self.assertEqual(program.set_length(0), OK)
                self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
                code, tokens = program.generate(1, temperature=0.7, seed=seed, **words)
                self.assertEqual(code, OK)
                counts[tokens[0]] += 1
            self.assertEqual(counts[expected == 0].sum(), 0)
            # Five standard deviations of each count.
            spread = np.sqrt(draws * expected * (1 - expected)) + 1
            self.assertTrue((np.abs(counts - draws * expected) < 5 * spread).all(), counts)
        runs = []
        for _ in range(2):
            self.assertEqual(program.set_length(0), OK)
            self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
            runs.append(program.generate(8, temperature=1.0, seed=3))
        self.assertEqual(runs[0], runs[1])


class Commands(DecoderTest):
    """Other commands of a module with entries: each graph is run, and says which it is."""

    GRAPHS = ["1 token (rows1)", "up to 8 tokens (rows8)", "up to 16 tokens"]

    def command(self, *words):
        answer = tenon(*words, f"--decoder={CAPACITY}", "--target=cpu:native")
        self.assertEqual(answer.status, 0, answer.errors)
        return answer

    def test_run(self):
        answer = self.command("run", self.model, "--check=groups", "--seeds=1")
        self.assertIn("in 3 sets of inputs\nPASS\n", answer.output)

    def test_bench(self):
        report = self.command("bench", self.model, "--seconds=0.05", "--profile", "--json").document
        self.assertEqual([report["graph"], *(run["graph"] for run in report["runs_of_tokens"])], self.GRAPHS)
        self.assertTrue(all(run["median_ms"] > 0 for run in report["runs_of_tokens"]))

    def test_tune(self):
        report = self.command("tune", self.model, "-o", self.folder / "net.tuning", "--seconds=0.3", "--candidates=1",
                              "--json").document  # fmt: skip
        self.assertEqual([run["graph"] for run in report["runs"]], self.GRAPHS)
        self.assertTrue(all(form["candidates"][0]["measured_us"] > 0 for run in report["runs"] for form in run["forms"]))
        answer = tenon("compile", self.model, "-o", self.folder / "tuned.cpp", f"--decoder={CAPACITY}",
                       "--target=cpu:native", f"--tuning={self.folder / 'net.tuning'}")  # fmt: skip
        self.assertEqual((answer.status, answer.errors), (0, ""))

    def test_inspect(self):
        text = self.command("inspect", self.model).output
        for graph in self.GRAPHS:
            self.assertIn(f"runs of {graph}, weights and RAM in bytes\n", text)
        report = self.command("inspect", self.model, "--format=json").document
        self.assertEqual([variant["runs"] for variant in report["variants"]], [self.GRAPHS[i] for i in (2, 0, 1)])

    def test_chosen_lengths(self):
        """Where nobody says lengths of prompts, the maximum does; the summary says what they cost, and weights are
        there once."""
        config = random_decoder.Config(vocab_size=VOCABULARY, max_position_embeddings=5000, rope_theta=100)
        model = random_decoder.build(str(self.folder / "long.onnx"), config)
        for words, lengths in ((f"{CAPACITY}", []), ("64", [32]), ("300", [128]), ("2000", [128, 512]), ("5000", [128, 1024]),
                               ("5000,logits=all", [128]), ("5000,prefill=none", []), ("5000,prefill=77", [77])):  # fmt: skip
            source = self.folder / "chosen.cpp"
            answer = tenon("compile", model, "-o", source, f"--decoder={words}", "--target=cpu:native", "--json")
            decoder = answer.document["summary"]["decoder"]
            self.assertEqual(decoder["prefill"], lengths)
            self.assertEqual([run["tokens"] for run in decoder["runs"]], [1, 8, 16, *lengths])
            self.assertEqual({run["copied_weight_bytes"] for run in decoder["runs"]}, {0})

    def test_beyond_the_tables(self):
        """Positions that the rotary tables lack are refused when compiling; ONNX Runtime has none of them, either."""
        answer = tenon("compile", self.model, "-o", self.folder / "no.cpp", f"--decoder={CAPACITY + 1}")
        self.assertEqual(answer.status, 1)
        self.assertIn(f"row {CAPACITY} of 'cos', which has {CAPACITY} rows: expected --decoder={CAPACITY} or less", answer.errors)
        reference = Reference(self.session, CONFIG.head_size)
        reference.run([1] * CAPACITY)
        with self.assertRaises(Exception):
            reference.run([1])


FEATURES = 4


def build_following(path, mask):
    """A decoder that takes whatever follows from the length, each in another way, so that a wrong value
    changes the logits; `mask`: the element of a 4-dimensional mask. Its second state is replaced by each run."""
    random = np.random.default_rng(13)
    weights = {"table": random.standard_normal([VOCABULARY, FEATURES]).astype(np.float32),
               "head": random.standard_normal([FEATURES, VOCABULARY]).astype(np.float32),
               "one": np.array([1]), "two": np.array([2]),
               "visible": np.float32(0), "hidden": np.float32(-1e9), "cached": np.float32(0.25), "fresh": np.float32(9),
               "half": np.float32(0.5), "third": np.float32(0.3), "tenth": np.float32(0.1)}  # fmt: skip
    nodes = []

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def number(name, factor):
        value = node("Cast", [name], f"{name}.float", to=TensorProto.FLOAT)
        return node("Mul", [value, factor], f"{name}.scaled")

    x = node("Gather", ["table", "input_ids"], "x", axis=0)
    places = node("Cast", ["position_ids"], "places.float", to=TensorProto.FLOAT)
    query = node("Add", [x, node("Unsqueeze", [places, "two"], "places.column")], "query")
    keys = node("Concat", ["past_key_values.0.key", x], "present.0.key", axis=1)
    scores = node("MatMul", [query, node("Transpose", [keys], "turned", perm=[0, 2, 1])], "scores")
    seen = node("Squeeze", ["attention_mask", "one"], "seen")
    if mask == TensorProto.BOOL:
        seen = node("Where", [seen, "visible", "hidden"], "added")
    weighed = node("Softmax", [node("Add", [scores, seen], "masked")], "weighed", axis=2)
    y = node("MatMul", [weighed, keys], "attended")
    numbers = (("past_sequence_length", "half"), ("total_sequence_length", "third"), ("seqlens_k", "tenth"),
               ("num_logits_to_keep", "half"))  # fmt: skip
    for name, factor in numbers:
        y = node("Add", [y, number(name, factor)], f"with.{name}")
    y = node("Add", [y, node("Where", ["use_cache_branch", "cached", "fresh"], "branch")], "with.branch")
    y = node("Add", [y, "past_conv.0"], "with.conv")
    node("Add", ["past_conv.0", node("ReduceSum", [x, "one"], "sum", keepdims=1)], "present_conv.0")
    node("MatMul", [y, "head"], "logits")

    def info(name, kind, *shape):
        return helper.make_tensor_value_info(name, kind, list(shape))

    whole, short, real = TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "following",
        [info("input_ids", whole, "batch", "count"), info("attention_mask", mask, "batch", 1, "count", "total"),
         info("position_ids", whole, "batch", "count"), info("past_sequence_length", short, 1),
         info("total_sequence_length", short), info("seqlens_k", short, "batch"),
         info("num_logits_to_keep", whole), info("use_cache_branch", TensorProto.BOOL, 1),
         info("past_key_values.0.key", real, "batch", "past", FEATURES), info("past_conv.0", real, "batch", 1, FEATURES)],
        [info("logits", real, "batch", "count", VOCABULARY), info("present.0.key", real, "batch", "total", FEATURES),
         info("present_conv.0", real, "batch", 1, FEATURES)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


class Following(unittest.TestCase):
    """Inputs that follow from the length, against ONNX Runtime, which is given each."""

    def check(self, mask, element, visible, hidden):
        with tempfile.TemporaryDirectory(prefix="tenon-decoder-") as name:
            folder = Path(name)
            model = build_following(folder / "following.onnx", mask)
            source = folder / "following.cpp"
            compile_model(model, source, f"--decoder={CAPACITY},logits=all")
            program = Program(build_library(source, "-O1"), "following")
            session, prompt = plain_session(onnx.load(model)), [3, 1, 4, 1, 5, 9, 2]
            try:
                for _ in range(2):  # from the beginning again
                    past = {"past_key_values.0.key": np.zeros([1, 0, FEATURES], np.float32),
                            "past_conv.0": np.zeros([1, 1, FEATURES], np.float32)}  # fmt: skip
                    for tokens in (prompt, [6], [5, 3], [5]):
                        length, count = past["past_key_values.0.key"].shape[1], len(tokens)
                        rows, columns = np.ogrid[:count, : length + count]
                        given = {
                            "input_ids": np.array([tokens]),
                            "attention_mask": np.where(columns <= rows + length, visible, hidden).astype(element)[None, None],
                            "position_ids": np.arange(length, length + count)[None],
                            "past_sequence_length": np.array([length], np.int32),
                            "total_sequence_length": np.array(length + count, np.int32),
                            "seqlens_k": np.array([length + count - 1], np.int32),
                            "num_logits_to_keep": np.array(0),
                            "use_cache_branch": np.array([True]),
                        }  # fmt: skip
                        expected, keys, conv = session.run(None, given | past)
                        past = {"past_key_values.0.key": keys, "past_conv.0": conv}
                        code, found = program.tokens(tokens, count)
                        self.assertEqual(code, OK)
                        np.testing.assert_allclose(found, expected[0], rtol=2e-4, atol=2e-4)
                    # What a run replaces cannot be taken back to any but the beginning.
                    self.assertEqual(program.set_length(4), UNSUPPORTED)
                    self.assertEqual(program.set_length(0), OK)
            finally:
                program.close()

    def test_mask_of_floats(self):
        self.check(TensorProto.FLOAT, np.float32, 0, -1e9)

    def test_mask_of_booleans(self):
        self.check(TensorProto.BOOL, bool, True, False)


def build_cut(path):
    """A decoder with as many positions as its caches hold rows, as GPT-2 has them: rows of positions that are learned, and a
    square from which the mask is cut."""
    random = np.random.default_rng(17)
    weights = {"table": random.standard_normal([VOCABULARY, FEATURES]).astype(np.float32),
               "places": random.standard_normal([CAPACITY, FEATURES]).astype(np.float32),
               "square": np.triu(np.full([CAPACITY, CAPACITY], -1e9, np.float32), 1),
               "head": random.standard_normal([FEATURES, VOCABULARY]).astype(np.float32),
               "zero": np.array([0]), "axes": np.array([0, 1])}  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Gather", ["places", "position_ids"], ["placed"]),
        helper.make_node("Add", ["words", "placed"], ["x"]),
        helper.make_node("Concat", ["past_key_values.0.key", "x"], ["present.0.key"], axis=1),
        helper.make_node("Transpose", ["present.0.key"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["scores"]),
        helper.make_node("Shape", ["past_key_values.0.key"], ["past_length"], start=1, end=2),
        helper.make_node("Shape", ["present.0.key"], ["length"], start=1, end=2),
        helper.make_node("Concat", ["past_length", "zero"], ["starts"], axis=0),
        helper.make_node("Concat", ["length", "length"], ["ends"], axis=0),
        helper.make_node("Slice", ["square", "starts", "ends", "axes"], ["mask"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weighed"], axis=2),
        helper.make_node("MatMul", ["weighed", "present.0.key"], ["attended"]),
        helper.make_node("MatMul", ["attended", "head"], ["logits"]),
    ]

    def info(name, kind, *shape):
        return helper.make_tensor_value_info(name, kind, list(shape))

    whole, real = TensorProto.INT64, TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "cut",
        [info("input_ids", whole, "batch", "count"), info("position_ids", whole, "batch", "count"),
         info("past_key_values.0.key", real, "batch", "past", FEATURES)],
        [info("logits", real, "batch", "count", VOCABULARY), info("present.0.key", real, "batch", "total", FEATURES)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


class UpToTheLastPosition(unittest.TestCase):
    """MAX is the model's number of positions."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tenon-decoder-")
        cls.addClassCleanup(folder.cleanup)
        cls.model = build_cut(Path(folder.name) / "cut.onnx")
        source = Path(folder.name) / "cut.cpp"
        compile_model(cls.model, source, f"--decoder={CAPACITY},prefill={CAPACITY},logits=all")
        cls.built = build_library(source, "-O1")

    def setUp(self):
        self.program = Program(self.built, "cut")
        self.addCleanup(self.program.close)

    def expected(self, tokens):
        """Of all tokens at once."""
        session = plain_session(onnx.load(self.model))
        fed = {"input_ids": np.array([tokens]), "position_ids": np.arange(len(tokens))[None],
               "past_key_values.0.key": np.zeros([1, 0, FEATURES], np.float32)}  # fmt: skip
        return session.run(["logits"], fed)[0][0]

    def test_pieces(self):
        """Runs of every graph until nothing more fits; what does not is refused, and nothing changes."""
        tokens = [(7 * i) % VOCABULARY for i in range(CAPACITY)]
        expected = self.expected(tokens)
        for sizes in ((CAPACITY,), (1, 7, 8, 16, 8), (16, 22, 1, 1)):
            self.assertEqual(sum(sizes), CAPACITY)
            self.assertEqual(self.program.set_length(0), OK)
            at = 0
            for size in sizes:
                code, found = self.program.tokens(tokens[at : at + size], size)
                self.assertEqual(code, OK)
                np.testing.assert_allclose(found, expected[at : at + size], rtol=2e-4, atol=2e-4)
                at += size
            self.assertEqual(self.program.tokens([1], 0)[0], FULL)
            self.assertEqual(self.program.length(), CAPACITY)

    def test_runs_of_the_interface(self):
        """The length and the tokens of a run are both within their bounds, and too many together."""
        ids, logits = np.zeros([1, 4], np.int64), np.zeros([4, VOCABULARY], np.float32)
        self.program.bind([ids], [logits])
        count, past = 0, 1
        run = self.program.function("run")
        arguments = self.program.context, self.program.inputs, self.program.outputs
        self.assertEqual(self.program.tokens([1] * (CAPACITY - 3), 0)[0], OK)
        self.program.set_dim(count, 4)
        self.assertEqual(run(*arguments), FULL)
        self.assertEqual(self.program.length(), CAPACITY - 3)
        self.program.set_dim(count, 3)
        self.assertEqual(run(*arguments), OK)
        self.assertEqual(self.program.length(), CAPACITY)
        self.program.set_dim(past, CAPACITY - 4)
        self.program.set_dim(count, 4)
        self.assertEqual(run(*arguments), OK)
        np.testing.assert_allclose(logits[-1], self.expected([1] * (CAPACITY - 4) + [0] * 4)[-1], rtol=2e-4, atol=2e-4)


class Header(DecoderTest):
    """The C++ header's functions: without a warning, and with the same tokens and logits."""

    def test_functions(self):
        source, built = self.folder / "llm.cpp", self.folder / "drive"
        compile_model(self.model, source, f"--decoder={CAPACITY}")
        (self.folder / "drive.cpp").write_text(DRIVER)
        compiler = os.environ.get("TENON_CXX", "c++")
        subprocess.run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
                        "-fno-exceptions", "-c", self.folder / "drive.cpp", "-o", self.folder / "drive.o"], check=True)  # fmt: skip
        subprocess.run([compiler, *build_flags(source), "-O1", self.folder / "drive.o", source, "-o", built], check=True)
        done = subprocess.run([built, *map(str, self.prompt)], stdout=subprocess.PIPE, text=True, check=True)
        lines, reference = done.stdout.splitlines(), Reference(self.session, CONFIG.head_size)
        expected = reference.run(self.prompt)[-2:]
        self.close([[float(x) for x in line.split()] for line in lines[:2]], expected)
        self.assertEqual([int(x) for x in lines[2].split()], reference.greedy(expected[-1], 9))
        self.assertEqual(lines[3:], [str(len(self.prompt) + 9), "1 1 1 1", "6 0"])


class OnCuda(Generated):
    """The same in CUDA: on the emulator of the kernels' tests, or on a GPU of the architecture that
    TENON_CUDA_TARGET names, such as cuda:sm_90a."""

    GPU = os.environ.get("TENON_CUDA_TARGET", "")
    SUFFIX, ENTRIES = ".cu", r"^ +\{\d+, 1, (\d+), \{"

    @classmethod
    def compiled(cls, model, source, *words):
        compile_model(model, source, *words, f"--target={cls.GPU or 'cuda:sm_80'}",
                      "--runtime=" + ("embed" if cls.GPU else "include"))  # fmt: skip
        return source

    @classmethod
    def shared_library(cls, source):
        return cls.build(source, source.with_suffix(".so"), "-shared")

    @classmethod
    def build(cls, source, out, *words):
        target, nvcc = cls.GPU or "cuda:sm_80", "nvcc" if cls.GPU else str(ROOT / "tests/tools/emulated-nvcc")
        arch = target.partition("sm_")[2]
        words = [nvcc, "-std=c++17", "-O1", *(["-Xcompiler=-fPIC"] if cls.GPU else ["-fPIC"]), "-gencode",
                 f"arch=compute_{arch},code=sm_{arch}", f"-I{source.parent}", source, *words, "-o", out]  # fmt: skip
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr[-2000:])
        return out

    if not GPU:  # hundreds of runs take minutes there
        test_sampled = None

    def test_sampled_alike(self):
        """A seed gives the tokens that it gives in C++, with stop tokens and without."""
        source = self.folder / "host.cpp"
        compile_model(self.model, source, f"--decoder={CAPACITY}")
        library = build_library(source, "-O1")
        for words in ({"temperature": 0.9}, {"temperature": 0.8, "top_k": 5}, {"temperature": 1.2, "top_p": 0.7},
                      {"temperature": 1.0, "top_k": 9, "top_p": 0.8}, {"temperature": 1.0, "stop": [3, 11, 17]}):  # fmt: skip
            host, there = Program(library, "host"), self.program("last")
            self.addCleanup(host.close)
            answers = []
            for program in (host, there):
                self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
                answers.append(program.generate(15, seed=5, **words))
                answers[-1] += (program.length(), program.generate(2, seed=6))
            self.assertEqual(*answers)

    def test_stopped_at_once(self):
        program, reference = self.program("last"), Reference(self.session, CONFIG.head_size)
        first = int(reference.run(self.prompt)[-1].argmax())
        self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
        for _ in range(2):
            self.assertEqual(program.generate(12, stop=[first]), (OK, []))
            self.assertEqual(program.length(), len(self.prompt))
        self.assertEqual(program.generate(1), (OK, [first]))


class HalfOnCuda(DecoderTest):
    """In fp16: rotations, the caches' new rows and attention are one kernel then, and products of few rows have
    theirs. On the emulator, or on a GPU, as above."""

    def program(self, *words):
        model = build(self.folder / "half.onnx", TensorProto.FLOAT16)
        source = OnCuda.compiled(model, self.folder / "half.cu", f"--decoder={CAPACITY}", *words)
        text = source.read_text()
        program = Program(OnCuda.shared_library(source), "half")
        program.logit = np.float16
        self.addCleanup(program.close)
        return program, text

    def test_steps(self):
        """Against ONNX Runtime in fp32 over the same numbers: a prompt in two pieces, then a few at a time."""
        program, text = self.program("--only=tactic.decode_attention,tactic.decode_attention_cached,tactic.strip,"
                                     "tactic.strip_joined,tactic.map,tactic.gather,tactic.reduce,tactic.shape_of,"
                                     "tactic.normalize")  # fmt: skip
        graphs = 3  # for one token, 8 and 16
        # The caches stay, are read ahead of the kernel before, and rows come in whole words, as the tables' do.
        caches = "cuda::make_appended_rows<false, true, true, "
        self.assertEqual(text.count(caches), graphs * CONFIG.num_hidden_layers)
        reference = Reference(self.session, CONFIG.head_size)
        for tokens in (self.prompt, [3], [5], [1, 2, 5], [7]):
            expected = reference.run(tokens)
            code, found = program.tokens(tokens, 1)
            self.assertEqual(code, OK)
            np.testing.assert_allclose(found[0].astype(np.float32), expected[-1], atol=0.02 * np.abs(expected).max())
        self.assertEqual(program.set_length(len(self.prompt)), OK)
        again = Reference(self.session, CONFIG.head_size)
        again.run(self.prompt)
        expected = again.run([9])
        code, found = program.tokens([9], 1)
        np.testing.assert_allclose(found[0].astype(np.float32), expected[-1], atol=0.02 * np.abs(expected).max())

    def test_bench(self):
        """Runs of each graph are timed, and the steps of one are profiled."""
        nvcc = {} if OnCuda.GPU else {"NVCC": str(ROOT / "tests/tools/emulated-nvcc")}
        with mock.patch.dict(os.environ, nvcc):
            answer = tenon("bench", build(self.folder / "half.onnx", TensorProto.FLOAT16), f"--decoder={CAPACITY}",
                           f"--target={OnCuda.GPU or 'cuda:sm_80'}", "--runtime=" + ("embed" if OnCuda.GPU else "include"),
                           "--runs=1", "--warmup=0", "--profile", "--json")  # fmt: skip
        self.assertEqual(answer.status, 0, answer.errors)
        self.assertEqual([run["graph"] for run in answer.document["runs_of_tokens"]], Commands.GRAPHS[1:])
        self.assertTrue(answer.document["profile"])

    def test_captured(self):
        """Runs that the caller captures once and replays (captured_steps.cpp): attention in one kernel, and in
        several, whose blocks follow from the length."""
        driver = ROOT / "tests/models/captured_steps.cpp"
        for element in (TensorProto.FLOAT16, TensorProto.FLOAT):
            with self.subTest(element=element):
                source = self.folder / f"captured{element}" / "llm.cu"
                source.parent.mkdir()
                OnCuda.compiled(build(source.with_suffix(".onnx"), element), source, f"--decoder={CAPACITY},logits=all")
                built = OnCuda.build(source, source.with_name("captured"), driver)
                done = subprocess.run([built], stdout=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, "ok\n"))

    def test_greedy(self):
        """What is generated are the tokens that the same program gives the largest logits."""
        program, _ = self.program()
        self.assertEqual(program.tokens(self.prompt, 0)[0], OK)
        code, tokens = program.generate(10)
        self.assertEqual((code, program.length()), (OK, len(self.prompt) + 10))
        self.assertEqual(program.set_length(0), OK)
        code, logits = program.tokens(self.prompt, 1)
        for token in tokens:
            self.assertEqual(token, int(logits[0].argmax()))
            code, logits = program.tokens([token], 1)


class Examples(DecoderTest):
    """examples/llm: the C++ program, on numbers of tokens. The Python script needs the package
    (tests/python_package/checks_decoder.py)."""

    def test_greedy(self):
        source = self.folder / "llm.cpp"
        compile_model(self.model, source, f"--decoder={CAPACITY}")
        example = ROOT / "examples/llm"
        flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *build_flags(source)]
        words = [os.environ.get("CXX", "c++"), *flags, f"-I{self.folder}", example / "generate.cpp", source, "-o",
                 self.folder / "generate"]  # fmt: skip
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        reference, prompt = Reference(self.session, CONFIG.head_size), " ".join(map(str, self.prompt))
        expected = reference.greedy(reference.run(self.prompt)[-1], 8)
        done = subprocess.run([str(self.folder / "generate"), "8"], capture_output=True, text=True, input=prompt)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([int(word) for word in done.stdout.split()], expected)
        self.assertRegex(done.stderr, "prompt: 21 tokens, .* text: 8 tokens, ")



if __name__ == "__main__":
    unittest.main()
