"""ContribCase: tests of one node each against ONNX Runtime, or against given outputs, on the interpreter
and as generated code. The nodes of a test stand in one model, side by side, which is compiled once."""

import re
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import onnxruntime
from onnx import helper, numpy_helper
from tenon import tenon

DOMAIN, ML = "com.microsoft", "ai.onnx.ml"
TARGETS = ("interpreter", "cpu:generic")
FLOAT = np.float32


def write(folder, kind, arrays):
    for index, (name, array) in enumerate(arrays.items()):
        message = numpy_helper.from_array(array, name).SerializeToString()
        (folder / f"{kind}_{index}.pb").write_bytes(message)


class ContribCase(unittest.TestCase):
    tolerance = 1e-5  # of float outputs; may be set in a test
    opset = 17  # of ai.onnx

    def setUp(self):
        self.rng = np.random.default_rng(5)
        self.cases = {}  # by opsets: models with inputs and expected outputs, named apart

    def tearDown(self):
        for cases in self.cases.values():
            self.compare_together(cases)

    def normal(self, *shape):
        return self.rng.normal(size=shape).astype(FLOAT)

    def bytes(self, *shape):
        return self.rng.integers(0, 255, shape).astype(np.uint8)

    def model(self, op, names, inputs, weights, outputs, domain, attributes):
        """One node whose operands are `names`."""
        node = helper.make_node(op, names, list(outputs), domain=domain, **attributes)
        info = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for k, v in inputs.items()]  # fmt: skip
        results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
        graph = helper.make_graph([node], "contrib", info, results,
                                  [numpy_helper.from_array(v, k) for k, v in weights.items()])  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1), helper.make_opsetid(ML, 3)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def outputs(self, model, inputs):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1  # recurrent operators quantise what a thread has
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return {output.name: array for output, array in zip(session.get_outputs(), session.run(None, inputs))}

    def reference(self, op, names, inputs, weights, outputs=("y",), domain=DOMAIN, **attributes):
        """ONNX Runtime's outputs by name."""
        return self.outputs(self.model(op, names, inputs, weights, outputs, domain, attributes), inputs)

    def check(self, op, names, inputs, weights, outputs=("y",), domain=DOMAIN, expected=None, **attributes):
        """The outputs are `expected`, or what ONNX Runtime gives: integers exactly."""
        model = self.model(op, names, inputs, weights, outputs, domain, attributes)
        if expected is None:
            expected = self.reference(op, names, inputs, weights, outputs, domain, **attributes)
        self.compare(op, model, inputs, {name: expected[name] for name in outputs if name})

    def compare(self, op, model, inputs, expected):
        """Done at the test's end, for all of its models of the same opsets at once; arrays may change."""
        opsets = tuple(sorted((opset.domain, opset.version) for opset in model.opset_import))
        cases = self.cases.setdefault(opsets, [])
        prefix = f"{re.sub(r'[^A-Za-z0-9]+', '_', op)}_{len(cases)}_"
        cases.append((onnx.compose.add_prefix(model, prefix),
                      {prefix + name: np.array(array) for name, array in inputs.items()},
                      {prefix + name: np.array(array) for name, array in expected.items()}))  # fmt: skip

    def compare_together(self, cases):
        model = onnx.ModelProto()
        model.CopyFrom(cases[0][0])
        inputs, expected = {}, {}
        for index, (one, given, wanted) in enumerate(cases):
            inputs |= given
            expected |= wanted
            if index:
                for field in ("node", "input", "output", "initializer"):
                    getattr(model.graph, field).extend(getattr(one.graph, field))
        self.assertEqual([output.name for output in model.graph.output], list(expected))
        with tempfile.TemporaryDirectory(prefix="tenon-contrib-") as scratch:
            file, data = Path(scratch) / "model.onnx", Path(scratch) / "data"
            onnx.save(model, file)
            data.mkdir()
            write(data, "input", inputs)
            write(data, "output", expected)
            for target in TARGETS:
                answer = tenon("run", file, f"--target={target}", f"--data={data}",
                               f"--tolerance={self.tolerance}")  # fmt: skip
                self.assertEqual(answer.status, 0, f"on {target}: {answer.output}{answer.errors}")
