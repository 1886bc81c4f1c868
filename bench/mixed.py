"""ResNet-50 with random weights, seeded: in floats, quantised throughout (qdq), and in part (mixed: the first
layer, the last stage and the classifier stay floats, which is where deployed networks keep them). Writes the
models; with --run also measures each with `tenon bench`.

    bench/mixed.py DIR [--batch=1,8,64] [--run [--target=cuda:sm_90a] [--precision=fp16,fp32]]

Activations are uint8 with one scale, weights int8 with a scale for each filter. Scales come from how the weights
are drawn (each layer's results have a variance of about 1), not from data: what is measured is time."""

import argparse
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import quantized

ROOT = Path(__file__).resolve().parents[1]
# Stages of the network whose layers are quantised: 0 is the first layer, 5 the classifier.
QUANTISED = {"float": set(), "qdq": {0, 1, 2, 3, 4, 5}, "mixed": {1, 2, 3}}
RANGE = 6.0  # of results, behind relu from 0


class Network(quantized.Graph):
    """Layers of `stage` are quantised where `stages` has it."""

    def __init__(self, stages, seed=1):
        super().__init__(seed)
        self.stages, self.stage = stages, 0

    def constant(self, array):
        name = f"c_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def requantised(self, x, signed=False):
        """x with QuantizeLinear and DequantizeLinear behind it."""
        if self.stage not in self.stages:
            return x
        scale, zero = (2 * RANGE / 255, 128) if signed else (RANGE / 255, 0)
        operands = [self.constant(np.float32(scale)), self.constant(np.uint8(zero))]
        return self.op("DequantizeLinear", [self.op("QuantizeLinear", [x, *operands]), *operands])

    def filters(self, array):
        """Weights, or their integers with DequantizeLinear behind them."""
        array = array.astype(np.float32)
        if self.stage not in self.stages:
            return self.constant(array)
        scale = np.abs(array.reshape(len(array), -1)).max(1) / 127
        q = np.rint(array / scale.reshape(-1, *[1] * (array.ndim - 1))).astype(np.int8)
        operands = [q, scale.astype(np.float32), np.zeros(len(scale), np.int8)]
        return self.op("DequantizeLinear", [self.constant(v) for v in operands], axis=0)

    def conv(self, x, c_in, c_out, kernel, stride=1, gain=2.0):
        shape = (c_out, c_in, kernel, kernel)
        w = self.rng.standard_normal(shape) * np.sqrt(gain / (c_in * kernel * kernel))
        b = self.constant((self.rng.standard_normal(c_out) * 0.1).astype(np.float32))
        return self.op("Conv", [x, self.filters(w), b], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                       pads=[kernel // 2] * 4)  # fmt: skip

    def block(self, x, c_in, width, stride):
        y = self.requantised(self.op("Relu", [self.conv(x, c_in, width, 1)]))
        y = self.requantised(self.op("Relu", [self.conv(y, width, width, 3, stride)]))
        y = self.requantised(self.conv(y, width, 4 * width, 1, gain=0.4), signed=True)
        if c_in != 4 * width:
            x = self.requantised(self.conv(x, c_in, 4 * width, 1, stride, gain=1.0), signed=True)
        return self.requantised(self.op("Relu", [self.op("Add", [y, x])]))


def resnet50(kind, batch):
    g = Network(QUANTISED[kind])
    x = g.requantised("image", signed=True)
    x = g.op("Relu", [g.conv(x, 3, 64, 7, 2)])
    g.stage = 1
    x = g.op("MaxPool", [g.requantised(x)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = g.requantised(x)
    channels = 64
    for stage, (width, blocks) in enumerate(quantized.STAGES):
        g.stage = stage + 1
        for block in range(blocks):
            x = g.block(x, channels, width, 2 if stage and not block else 1)
            channels = 4 * width
    g.stage = 5
    x = g.requantised(g.op("GlobalAveragePool", [x]))
    x = g.op("Flatten", [x])
    w = g.filters(g.rng.standard_normal((1000, channels)) / np.sqrt(channels))
    b = g.constant((g.rng.standard_normal(1000) * 0.1).astype(np.float32))
    x = g.requantised(g.op("Gemm", [x, w, b], transB=1), signed=True)
    shape = (batch, *quantized.IMAGE[1:])
    graph = helper.make_graph(
        g.nodes, f"resnet50_{kind}",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, (batch, 1000))], g.weights)  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measured(file, target, precision):
    """Median milliseconds of a run, or why there are none."""
    words = [os.environ.get("TENON") or ROOT / "build/tenon", "bench", file, f"--target={target}",
             f"--precision={precision}", "--json"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"failure": done.stderr.strip()[-200:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", default="1,8,64")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--precision", default="fp16,fp32")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for batch in (int(b) for b in options.batch.split(",")):
        for kind in QUANTISED:
            file = options.folder / f"resnet50_{kind}_b{batch}.onnx"
            onnx.save(resnet50(kind, batch), file)
            for precision in options.precision.split(",") if options.run else []:
                answer = measured(file, options.target, precision)
                print(f"{file.stem} {precision}: {answer.get('median_ms') or answer}", flush=True)


if __name__ == "__main__":
    main()
