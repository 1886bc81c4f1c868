"""Language models: tokens in, logits out, generation, taking tokens back; and the documents that show it."""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import onnxruntime
import tenon

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "examples/llm"), str(SOURCE / "tests/models")]

import random_decoder
from decoder_reference import Reference

CAPACITY = 48
CONFIG = random_decoder.Config(max_position_embeddings=CAPACITY)


class Decoder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.path = random_decoder.build(str(cls.folder / "small.onnx"), CONFIG)
        cls.modules = {logits: tenon.compile(cls.path, decoder=f"{CAPACITY},logits={logits}") for logits in ("last", "all")}
        cls.prompt = [int(t) for t in np.random.default_rng(5).integers(0, CONFIG.vocab_size, 21)]

    def sequence(self, logits="last"):
        return self.modules[logits].context()

    def greedy(self, count):
        reference = self.reference()
        return reference.greedy(reference.run(self.prompt)[-1], count)

    def reference(self):
        return Reference(onnxruntime.InferenceSession(self.path), CONFIG.head_size)

    def test_what_it_holds(self):
        module = self.modules["last"]
        self.assertEqual((module.capacity, module.vocabulary), (CAPACITY, CONFIG.vocab_size))
        context = module.context()
        self.assertEqual(context.length, 0)
        context.run_tokens(self.prompt, rows=0)
        self.assertEqual((context.length, module.length), (len(self.prompt), 0))

    def test_logits_are_those_of_onnxruntime(self):
        for logits, rows in (("last", 3), ("all", 21)):
            context, expected = self.sequence(logits), self.reference().run(self.prompt)
            found = context.run_tokens(np.array([self.prompt]), rows=rows)
            self.assertEqual((found.shape, found.dtype), ((rows, CONFIG.vocab_size), np.float32))
            np.testing.assert_allclose(found, expected[-rows:], rtol=2e-4, atol=2e-4)
        self.assertEqual(self.sequence().run_tokens(self.prompt, rows=0).shape, (0, CONFIG.vocab_size))

    def test_generate_stream_and_steps_agree(self):
        expected, context = self.greedy(12), self.sequence()
        self.assertEqual(context.generate(self.prompt, 12), expected)
        self.assertEqual(context.length, len(self.prompt) + 12)
        self.assertEqual(list(self.sequence().stream(self.prompt, 12)), expected)
        context.set_length(len(self.prompt) - 1)
        self.assertEqual(context.generate(self.prompt[-1:], 12), expected)
        ids = self.sequence().generate(self.prompt, 12, temperature=1.0, top_k=20, top_p=0.9, seed=3)
        self.assertEqual(self.sequence().generate(self.prompt, 12, temperature=1.0, top_k=20, top_p=0.9, seed=3), ids)
        self.assertNotEqual(self.sequence().generate(self.prompt, 12, temperature=1.0, seed=4), ids)

    def test_a_stop_token_and_full_caches_end_it(self):
        expected = self.greedy(12)
        before, context = expected[: expected.index(expected[5])], self.sequence()
        self.assertEqual(context.generate(self.prompt, 12, stop=expected[5]), before)
        self.assertEqual(context.length, len(self.prompt) + len(before))
        context = self.sequence()
        self.assertEqual(len(context.generate(self.prompt)), CAPACITY - len(self.prompt))
        self.assertEqual(context.length, CAPACITY)
        self.assertEqual(list(context.stream(max_tokens=3)), [])

    def test_runs_between_them(self):
        """The model's own inputs and outputs go on from the same sequence, and the other way round."""
        context, reference = self.sequence("all"), self.reference()
        context.run_tokens(self.prompt[:5], rows=0)
        found = context(np.array([self.prompt[5:8]]))
        expected = reference.run(self.prompt[:8])
        np.testing.assert_allclose(found[0], expected[5:], rtol=2e-4, atol=2e-4)
        self.assertEqual(context.length, 8)
        np.testing.assert_allclose(context.run_tokens(self.prompt[8:10], rows=2), reference.run(self.prompt[8:10]),
                                   rtol=2e-4, atol=2e-4)  # fmt: skip
        found = context(np.array([self.prompt[10:11]]))
        np.testing.assert_allclose(found[0], reference.run(self.prompt[10:11]), rtol=2e-4, atol=2e-4)
        context.reset()
        self.assertEqual(context.length, 0)

    def test_sequences_of_threads(self):
        expected, found = self.greedy(8), {}

        def talk(number):
            found[number] = self.sequence().generate(self.prompt, 8)

        threads = [threading.Thread(target=talk, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {n: expected for n in range(4)})

    def test_what_does_not_fit_is_refused_and_nothing_changes(self):
        context = self.sequence()
        context.run_tokens(self.prompt, rows=0)
        for call, words in [
            (lambda: context.run_tokens([CONFIG.vocab_size]), "tokens: expected 0 to 255, found 256 in place 0"),
            (lambda: context.run_tokens([1.5]), "tokens: expected integers, found float64"),
            (lambda: context.run_tokens(np.zeros((2, 3), int)), r"found the shape \[2, 3\]"),
            (lambda: context.run_tokens([1] * 28), "at most 27, which the caches have room for of 48, found 28"),
            (lambda: context.run_tokens([1] * 20, rows=17), "rows: expected 0 to 16, found 17; compile with"),
            (lambda: context.run_tokens([1], inputs={"x": 1}), "there is no input 'x' beside the tokens; there are none"),
            (lambda: context.set_length(22), "length: expected 0 to 21, the tokens that there are, found 22"),
            (lambda: context.generate(max_tokens=-1), "max_tokens: expected 0 or more, or None, found -1"),
            (lambda: context.generate(temperature=-1), "temperature: expected 0 or more, found -1"),
            (lambda: context.generate(top_p=0), "top_p: expected more than 0, at most 1, found 0"),
            (lambda: context.stream(seed=2**32), r"seed: expected 0 to 2\*\*32 - 1"),
            (lambda: self.sequence().generate(), "expected one at least, since the sequence is empty"),
        ]:
            with self.assertRaisesRegex(tenon.InputError, words):
                call()
            self.assertEqual(context.length, len(self.prompt))
        context.set_length(5)
        with self.assertRaisesRegex(tenon.RunError, "append a token first") as refused:
            context.generate(max_tokens=1)
        self.assertIsInstance(refused.exception, tenon.TenonError)
        self.assertEqual(str(pickle.loads(pickle.dumps(refused.exception))), str(refused.exception))

    def test_models_that_take_no_tokens_say_so(self):
        module = tenon.compile(SOURCE / "examples/digits/digits.onnx")
        for call in (lambda: module.length, lambda: module.generate([1]), lambda: module.capacity,
                     lambda: module.context().run_tokens([1])):  # fmt: skip
            with self.assertRaisesRegex(tenon.TenonError, "compile it with decoder=MAX"):
                call()
        interpreted = tenon.compile(self.path, "interpreter", decoder=CAPACITY)
        with self.assertRaisesRegex(tenon.TenonError, "the interpreter does not generate"):
            interpreted.generate([1])

    def test_kept_in_a_folder(self):
        self.modules["last"].save(self.folder / "kept")
        self.assertEqual(tenon.load(self.folder / "kept").generate(self.prompt, 4), self.greedy(4))


class Documents(unittest.TestCase):
    def test_the_tutorial_runs(self):
        site = next(pathlib.Path(p) for p in os.environ["PYTHONPATH"].split(os.pathsep) if (pathlib.Path(p) / "tenon").is_dir())
        environment = os.environ | {"TENON": str(site / "tenon/bin/tenon")}
        done = subprocess.run([sys.executable, SOURCE / "tests/python/test_documents.py",
                               SOURCE / "docs/tutorials/language-model.md"], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("3 passed, 0 failed", done.stdout)
        self.assertNotIn("are not run", done.stdout)


if __name__ == "__main__":
    unittest.main()
