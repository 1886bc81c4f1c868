"""Arrays of JAX in and out, on the processor. Needs jax, which the project's requirements do not have:
TENON_PYTHON_CHECKS names an interpreter with jax and ml_dtypes, and run.py is told `jax`."""

import os
import pathlib
import unittest

import jax
import jax.numpy as jnp
import numpy as np
import tenon

DIGITS = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "examples/digits/digits.onnx"


class Jax(unittest.TestCase):
    def setUp(self):
        self.image = np.random.default_rng(0).uniform(0, 16, (1, 1, 8, 8)).astype("f4")

    def test_arrays_in_and_out(self):
        for target in ("cpu:generic", "interpreter"):
            module = tenon.compile(DIGITS, target)
            found = module(jnp.asarray(self.image))
            self.assertIsInstance(found, jax.Array)
            np.testing.assert_array_equal(np.asarray(found), module(self.image))

    def test_nothing_is_copied(self):
        port = tenon.compile(DIGITS, "interpreter").inputs[0]
        x = jnp.asarray(self.image)
        self.assertEqual(tenon.arrays.read_input(port, x).address, x.unsafe_buffer_pointer())


if __name__ == "__main__":
    unittest.main()
