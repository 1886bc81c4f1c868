"""ONNX's backend interface: its own test runner on some tests, lists, values that shapes need, single nodes."""

import os
import unittest

import numpy as np
import onnx
import onnx.backend.test
import tenon.backend
from onnx import TensorProto, helper

os.environ["TENON_BACKEND_TARGET"] = "interpreter"

# ONNX's own tests, as its runner makes them.
runner = onnx.backend.test.BackendTest(tenon.backend, __name__)
for pattern in ("test_a.*_cpu", "test_concat.*_cpu", "test_reshape.*_cpu", "test_sequence_.*_cpu", "test_optional.*_cpu",
                "test_LSTM.*_cpu", "test_Conv2d.*_cpu", "test_identity.*_cpu"):  # fmt: skip
    runner.include(pattern)
runner.exclude("test_a(i_onnx_ml|ttention|ffine_grid).*")  # long; scripts/conformance has all
suite = [case for tests in runner.test_cases.values() for case in unittest.defaultTestLoader.loadTestsFromTestCase(tests)]


class Backend(unittest.TestCase):
    def test_onnx_runner(self):
        result = unittest.TestResult()
        for case in suite:
            case.run(result)
        wrong = [f"{case}: {text.splitlines()[-1]}" for case, text in result.failures + result.errors]
        self.assertEqual(wrong, [])
        self.assertGreater(result.testsRun - len(result.skipped), 150)

    def test_values_that_shapes_need(self):
        node = helper.make_node("Tile", ["x", "repeats"], ["y"])
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
                                                helper.make_tensor_value_info("repeats", TensorProto.INT64, [1])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])])  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        prepared = tenon.backend.prepare(model)
        for count in (2, 3):
            y = prepared.run([np.array([1, 2], "f4"), np.array([count])])[0]
            np.testing.assert_array_equal(y, np.tile(np.array([1, 2], "f4"), count))
        self.assertEqual(prepared.bound, ["repeats"])

    def test_one_node(self):
        x = np.array([[1.5, -2]], "f4")
        np.testing.assert_array_equal(tenon.backend.run_node(helper.make_node("Abs", ["x"], ["y"]), [x])[0], abs(x))

    def test_generated_code(self):
        model = helper.make_model(helper.make_graph(
            [helper.make_node("Abs", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]), ir_version=10,
            opset_imports=[helper.make_opsetid("", 20)])  # fmt: skip
        prepared = tenon.backend.prepare(model, "CPU", target="cpu:generic")
        np.testing.assert_array_equal(prepared.run(np.array([1, -1], "f4"))[0], [1, 1])

    def test_devices(self):
        self.assertTrue(tenon.backend.supports_device("CPU"))
        self.assertFalse(tenon.backend.supports_device("FPGA"))


if __name__ == "__main__":
    unittest.main()
