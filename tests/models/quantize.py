"""Turns an fp32 network into its QDQ twin, in the form that post-training tools write:
int8 activations per tensor, int8 or int4 weights (convolutions per output channel) and int32 biases,
all behind DequantizeLinear; a ReLU becomes the clamp of the QuantizeLinear that follows it."""

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

QUANTIZED_OPS = {"Conv", "Gemm", "Add", "AveragePool", "Relu"}
# What networks of other functions have besides.
FUNCTIONS = {"GlobalAveragePool", "HardSigmoid", "HardSwish", "LeakyRelu", "MatMul", "Mul", "Sigmoid",
             "Softmax", "Tanh"}  # fmt: skip


def activation_parameters(low, high, relu):
    """Scale and zero point of an int8 tensor whose values reach from `low` to `high`."""
    low, high = min(low, 0.0), max(high, 0.0)
    if relu:
        low = 0.0
    scale = np.float32((high - low) / 255)
    return scale, np.int8(np.clip(round(-128 - low / scale), -128, 127))


class Quantizer:
    def __init__(self, model, ranges, opset, functions=False, weight_type=np.int8):
        self.weight_type = weight_type
        self.kinds = QUANTIZED_OPS | FUNCTIONS if functions else QUANTIZED_OPS
        self.source = model.graph
        self.ranges = ranges
        self.opset = opset
        self.arrays = {t.name: numpy_helper.to_array(t) for t in self.source.initializer}
        self.nodes, self.initializers = [], []
        self.scales = {}  # of every dequantised activation
        self.counter = 0

    def const(self, value):
        self.counter += 1
        name = f"quant_{self.counter}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def fresh(self):
        self.counter += 1
        return f"quant_value_{self.counter}"

    def activation(self, x, output, relu):
        """x -> QuantizeLinear -> DequantizeLinear -> output."""
        scale, zero = activation_parameters(*self.ranges[output], relu)
        middle = self.fresh()
        operands = [self.const(scale), self.const(zero)]
        self.nodes.append(helper.make_node("QuantizeLinear", [x, *operands], [middle]))
        operands = [self.const(scale), self.const(zero)]
        self.nodes.append(helper.make_node("DequantizeLinear", [middle, *operands], [output]))
        self.scales[output] = scale

    def weights(self, name, scale, dtype, per_channel):
        array = self.arrays[name]
        shaped = scale.reshape(-1, *[1] * (array.ndim - 1)) if per_channel else scale
        limits = ml_dtypes.iinfo(dtype)
        values = np.clip(np.rint(array / shaped), -limits.max, limits.max).astype(dtype)
        operands = [
            self.const(values),
            self.const(np.asarray(scale, np.float32)),
            self.const(np.zeros(np.shape(scale), dtype)),
        ]
        output = self.fresh()
        attributes = {"axis": 0} if per_channel else {}
        self.nodes.append(helper.make_node("DequantizeLinear", operands, [output], **attributes))
        return output

    def layer(self, node):
        """A Conv or Gemm with its weight and bias dequantised from integers."""
        x, weight, bias = node.input
        per_channel = node.op_type == "Conv"
        magnitude = np.abs(self.arrays[weight])
        largest = magnitude.reshape(len(magnitude), -1).max(1) if per_channel else magnitude.max()
        steps = ml_dtypes.iinfo(self.weight_type).max
        scale = np.asarray(np.maximum(largest, 1e-6) / steps, np.float32)
        bias_scale = np.asarray(scale * self.scales[x], np.float32)
        operands = [
            x,
            self.weights(weight, scale, self.weight_type, per_channel),
            self.weights(bias, bias_scale, np.int32, per_channel),
        ]
        copy = helper.make_node(node.op_type, operands, node.output)
        copy.attribute.extend(node.attribute)
        return copy

    def run(self):
        consumers = {}
        for node in self.source.node:
            for name in node.input:
                consumers.setdefault(name, []).append(node)
        outputs = {o.name for o in self.source.output}
        real_input = self.source.input[0].name
        rename = {}

        transposed_input = self.source.node[0].op_type in ("Transpose", "Reshape")
        if not transposed_input:
            quantized = real_input + "_dequantized"
            self.ranges[quantized] = self.ranges[real_input]
            self.activation(real_input, quantized, relu=False)
            rename[real_input] = quantized

        for node in self.source.node:
            copy = helper.make_node(node.op_type, [], [])
            copy.CopyFrom(node)
            for i, name in enumerate(copy.input):
                copy.input[i] = rename.get(name, name)
            if node.op_type in ("Conv", "Gemm"):
                copy = self.layer(copy)
            elif node.op_type == "MatMul" and "MatMul" in self.kinds and node.input[1] in self.arrays:
                scale = np.float32(np.abs(self.arrays[node.input[1]]).max() / 127)
                copy.input[1] = self.weights(node.input[1], scale, np.int8, per_channel=False)
            result = node.output[0]
            first = transposed_input and node is self.source.node[0]
            if node.op_type not in self.kinds and not first:
                if node.op_type in ("Transpose", "Reshape", "Flatten"):
                    self.scales[result] = self.scales[copy.input[0]]
                self.nodes.append(copy)
                continue
            following = consumers.get(result, [])
            relu = len(following) == 1 and following[0].op_type == "Relu"
            if node.op_type == "Relu":
                continue  # done by the QuantizeLinear behind its producer
            raw = self.fresh()
            copy.output[0] = raw
            self.nodes.append(copy)
            final = following[0].output[0] if relu else result
            self.activation(raw, final, relu)

        used = {name for node in self.nodes for name in node.input}
        kept = [t for t in self.source.initializer if t.name in used]
        graph = helper.make_graph(
            self.nodes,
            self.source.name + "_qdq",
            self.source.input,
            self.source.output,
            kept + self.initializers,
        )
        assert outputs <= {name for node in self.nodes for name in node.output}
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=6 if self.opset < 15 else 8 if self.opset < 21 else 10,
            producer_name="tests/models/make.py",
        )


def quantize(model, ranges, opset, functions=False, weight_type=np.int8):
    """The QDQ twin of `model`; `ranges` maps every float value to its (minimum, maximum).
    `functions`: the results of FUNCTIONS are quantised, too. `weight_type`: of convolutions and
    Gemm, np.int8 or ml_dtypes.int4."""
    return Quantizer(model, dict(ranges), opset, functions, weight_type).run()
