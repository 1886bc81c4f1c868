#!/usr/bin/env python3
"""Networks for int8 benchmarks, quantised by ONNX Runtime's own tool.

    bench/quantized.py DIR [NETWORK...] [--forms=FORM,...]

writes for each DIR/NETWORK/model.onnx that bench/networks.py wrote (default: all there) folders
DIR/NETWORK_FORM for bench/cpu.py --int8 --models='*_FORM'. Forms:

    qdq, qdq_tensor     QuantizeLinear and DequantizeLinear, activations uint8; weights int8 for each channel, as
                        the tool's documentation advises for x86-64, or uint8 with a zero point for the tensor
    qdq_reduced         qdq with weights of 7 bits, as the documentation advises for x86-64 without VNNI, where the
                        tool's own runtime saturates sums of two products in 16 bits
    qoperator           QLinearConv and its like, weights int8
    dynamic_TYPE        activations quantised at run time, weights TYPE (i8, u8) for each tensor
    dynamic_TYPE_channel    the same for each channel
    dynamic_reduced     dynamic_i8_channel with weights of 7 bits

Masks of -inf become -50: a range that has them leaves scores no steps.

bench/cpu.py makes a ResNet-50 of its own, in the form qdq.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
    quant_pre_process,
)

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width and number of blocks; each gives 4 * width
IMAGE = (1, 3, 224, 224)


class Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def tensor(self, name, array):
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def op(self, kind, inputs, **attributes):
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x, c_in, c_out, kernel, stride=1, gain=2.0):
        """As a convolution with its normalisation folded into it."""
        shape = (c_out, c_in, kernel, kernel)
        scale = np.sqrt(gain / (c_in * kernel * kernel))
        at = len(self.nodes)
        w = self.tensor(f"w_{at}", self.rng.standard_normal(shape) * scale)
        b = self.tensor(f"b_{at}", self.rng.standard_normal(c_out) * 0.1)
        return self.op("Conv", [x, w, b], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                       pads=[kernel // 2] * 4)  # fmt: skip

    def block(self, x, c_in, width, stride):
        y = self.op("Relu", [self.conv(x, c_in, width, 1)])
        y = self.op("Relu", [self.conv(y, width, width, 3, stride)])
        y = self.conv(y, width, 4 * width, 1, gain=0.4)
        if c_in != 4 * width:
            x = self.conv(x, c_in, 4 * width, 1, stride, gain=1.0)
        return self.op("Relu", [self.op("Add", [y, x])])


def resnet50(seed=1):
    g = Graph(seed)
    x = g.op("Relu", [g.conv("image", 3, 64, 7, 2)])
    x = g.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, (width, blocks) in enumerate(STAGES):
        for block in range(blocks):
            x = g.block(x, channels, width, 2 if stage and not block else 1)
            channels = 4 * width
    x = g.op("Flatten", [g.op("GlobalAveragePool", [x])])
    w = g.tensor("w_classes", g.rng.standard_normal((1000, channels)) / np.sqrt(channels))
    b = g.tensor("b_classes", g.rng.standard_normal(1000) * 0.1)
    x = g.op("Gemm", [x, w, b], transB=1)
    graph = helper.make_graph(
        g.nodes,
        "resnet50",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, (1, 1000))],
        g.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Images(CalibrationDataReader):
    def __init__(self, count, seed=2):
        rng = np.random.default_rng(seed)
        self.left = [rng.standard_normal(IMAGE).astype(np.float32) for _ in range(count)]

    def get_next(self):
        return {"image": self.left.pop()} if self.left else None


class Once(CalibrationDataReader):
    """The inputs of a data set, once."""

    def __init__(self, inputs):
        self.left = [inputs]

    def get_next(self):
        return self.left.pop() if self.left else None


def dynamic(weights, per_channel, reduced=False):
    def write(source, path, _):
        quantize_dynamic(
            source, path, weight_type=weights, per_channel=per_channel, reduce_range=reduced,
            op_types_to_quantize=["Conv", "MatMul", "Gemm"],
        )  # fmt: skip

    return write


def static(layout, weights, per_channel, reduced=False):
    def write(source, path, calibration):
        quantize_static(
            source, path, calibration, quant_format=layout, per_channel=per_channel, reduce_range=reduced,
            activation_type=QuantType.QUInt8, weight_type=weights,
        )  # fmt: skip

    return write


FORMS = {
    "qdq": static(QuantFormat.QDQ, QuantType.QInt8, True),
    "qdq_tensor": static(QuantFormat.QDQ, QuantType.QUInt8, False),
    "qdq_reduced": static(QuantFormat.QDQ, QuantType.QInt8, True, reduced=True),
    "qoperator": static(QuantFormat.QOperator, QuantType.QInt8, True),
    "dynamic_i8": dynamic(QuantType.QInt8, False),
    "dynamic_i8_channel": dynamic(QuantType.QInt8, True),
    "dynamic_reduced": dynamic(QuantType.QInt8, True, reduced=True),
    "dynamic_u8": dynamic(QuantType.QUInt8, False),
    "dynamic_u8_channel": dynamic(QuantType.QUInt8, True),
}


def bound_masks(path):
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.min(initial=0) < -1e4:
            tensor.CopyFrom(numpy_helper.from_array(np.maximum(array, np.float32(-50)), tensor.name))
    onnx.save(model, path)


def quantize(source, form, path, calibration):
    """Writes the float model `source` in a form; `calibration` is read by static ones alone."""
    with tempfile.TemporaryDirectory() as scratch:
        prepared = Path(scratch) / "prepared.onnx"
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        bound_masks(prepared)
        FORMS[form](prepared, path, calibration)


def make_resnet50_qdq(folder):
    """Writes folder/model.onnx and the inputs folder/test_data_set_0/input_0.pb."""
    folder = Path(folder)
    (folder / "test_data_set_0").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        onnx.save(resnet50(), Path(scratch) / "float.onnx")
        quantize(Path(scratch) / "float.onnx", "qdq", folder / "model.onnx", Images(2))
    image = Images(1, seed=3).get_next()["image"]
    tensor = numpy_helper.from_array(image, "image")
    (folder / "test_data_set_0/input_0.pb").write_bytes(tensor.SerializeToString())


def write(folder, form):
    """DIR/NETWORK_FORM beside the folder DIR/NETWORK."""
    target = folder.with_name(f"{folder.name}_{form}")
    data = target / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    inputs = {}
    for file in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        (data / file.name).write_bytes(file.read_bytes())
        tensor = onnx.load_tensor(file)
        inputs[tensor.name] = numpy_helper.to_array(tensor)
    quantize(folder / "model.onnx", form, target / "model.onnx", Once(inputs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--forms", default=",".join(FORMS))
    arguments = parser.parse_args()
    made = [f"_{form}" for form in FORMS]
    names = arguments.networks or sorted(
        path.parent.name for path in arguments.folder.glob("*/model.onnx")
        if not path.parent.name.endswith(tuple(made))
    )  # fmt: skip
    forms = arguments.forms.split(",")
    for form in forms:
        if form not in FORMS:
            sys.exit(f"quantized.py: no form '{form}'; there are {', '.join(FORMS)}")
    for name in names:
        if not (arguments.folder / name / "model.onnx").is_file():
            sys.exit(f"quantized.py: {arguments.folder / name} has no model.onnx; bench/networks.py writes it")
        for form in forms:
            write(arguments.folder / name, form)
            print(f"{name}_{form}", flush=True)


if __name__ == "__main__":
    main()
