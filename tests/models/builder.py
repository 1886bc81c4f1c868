"""A small ONNX graph builder with seeded weights, scaled so that activations keep their size."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


class Network:
    """One ONNX graph under construction; every method that adds a node returns its output name."""

    def __init__(self, name, seed, opset, ir_version, named_nodes=True):
        self.name = name
        self.opset = opset
        self.ir_version = ir_version
        self.named_nodes = named_nodes
        self.rng = np.random.default_rng(seed)
        self.nodes, self.inputs, self.outputs, self.initializers = [], [], [], []
        self.value_info = []
        self.domains, self.functions = {}, []
        self.counter = 0

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, name, shape, dtype=FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def fresh(self, stem):
        self.counter += 1
        return f"{stem}_{self.counter}"

    def const(self, value, dtype=np.float32, name=None):
        """An initialiser."""
        name = name or self.fresh("const")
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def constant_node(self, value, dtype=np.float32):
        """The same as a Constant node, as older exporters write it."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype))
        return self.op("Constant", [], value=tensor)

    def op(self, kind, inputs, output=None, outputs=1, domain="", **attributes):
        """Adds a node; `outputs` is a count (then the names are made up) or a list of names."""
        stem = self.fresh(kind)
        if isinstance(outputs, int):
            outputs = [stem] if outputs == 1 else [f"{stem}.{i}" for i in range(outputs)]
        if output:
            outputs = [output]
        name = stem if self.named_nodes else None
        node = helper.make_node(kind, inputs, outputs, name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def weights(self, shape, fan_in, gain=2.0):
        return self.rng.standard_normal(shape) * np.sqrt(gain / fan_in)

    def conv(self, x, c_in, c_out, kernel, output=None, group=1, bias=True, pads=None, gain=2.0,
             **attributes):
        """A convolution; `kernel` is a number (square) or a list, pads default to `same`."""
        kernel = [kernel] * 2 if isinstance(kernel, int) else list(kernel)
        dilations = attributes.get("dilations", [1] * len(kernel))
        half = [d * (k // 2) for d, k in zip(dilations, kernel)]
        fan_in = c_in // group * int(np.prod(kernel))
        stem = self.fresh("w")
        weight = self.weights([c_out, c_in // group, *kernel], fan_in, gain)
        operands = [x, self.const(weight, name=f"{stem}.weight")]
        if bias:
            operands.append(self.const(self.rng.normal(0, 0.2, c_out), name=f"{stem}.bias"))
        attributes = {"kernel_shape": kernel, "pads": pads or half * 2, "group": group, **attributes}
        return self.op("Conv", operands, output, **attributes)

    def gemm(self, x, c_in, c_out, output=None, gain=2.0):
        weight = self.const(self.weights([c_out, c_in], c_in, gain))
        bias = self.const(self.rng.normal(0, 0.2, c_out))
        return self.op("Gemm", [x, weight, bias], output, transB=1)

    def batch_norm(self, x, channels):
        """Inference form: scales near 1, means near 0, variances well off 1."""
        rng = self.rng
        operands = [
            self.const(rng.uniform(0.7, 1.3, channels)),
            self.const(rng.normal(0, 0.2, channels)),
            self.const(rng.normal(0, 0.2, channels)),
            self.const(rng.uniform(0.5, 1.5, channels)),
        ]
        return self.op("BatchNormalization", [x, *operands], epsilon=1e-5)

    def model(self, check=True):
        graph = helper.make_graph(
            self.nodes, self.name, self.inputs, self.outputs, self.initializers,
            value_info=self.value_info,
        )
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        model = helper.make_model(
            graph,
            opset_imports=imports,
            ir_version=self.ir_version,
            producer_name="tests/models/make.py",
            functions=self.functions,
        )
        if check:
            onnx.checker.check_model(model)
        return model
