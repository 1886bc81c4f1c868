"""ResNet-50 for int8 benchmarks, with random weights, quantised by ONNX Runtime's own tool: QDQ,
activations uint8, weights int8 for each channel, as its documentation advises for x86-64."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
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


def make_resnet50_qdq(folder):
    """Writes folder/model.onnx and the inputs folder/test_data_set_0/input_0.pb."""
    folder = Path(folder)
    (folder / "test_data_set_0").mkdir(parents=True, exist_ok=True)
    onnx.save(resnet50(), folder / "float.onnx")
    quant_pre_process(
        folder / "float.onnx", folder / "prepared.onnx", skip_symbolic_shape=True
    )
    quantize_static(
        folder / "prepared.onnx",
        folder / "model.onnx",
        Images(2),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    for name in ("float.onnx", "prepared.onnx"):
        (folder / name).unlink()
    image = Images(1, seed=3).get_next()["image"]
    tensor = numpy_helper.from_array(image, "image")
    (folder / "test_data_set_0/input_0.pb").write_bytes(tensor.SerializeToString())
