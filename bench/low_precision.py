#!/usr/bin/env python3
"""Encoder layers and a UNet's block with random weights, seeded: in floats, and with QuantizeLinear and
DequantizeLinear around their products in int8 or e4m3, as quantisers write them. Writes the models; with --run
also measures each with `tenon bench`, one after the other.

    bench/low_precision.py DIR [NAME,...] [--batch=1,8,32] [--kinds=float,e4m3] [--attention] [--run]

`--attention` also quantises what attention multiplies: queries, keys, weights and values. Scales come from how the
weights are drawn (results have a variance of about 1), not from data: what is measured is time."""

import argparse
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
from nodes import Nodes
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]
LARGEST = {"int8": 127.0, "e4m3": 448.0}
RANGE = 6.0  # of what is quantised


class Network(Nodes):
    def __init__(self, kind, attention, batch, seed=1):
        super().__init__(seed)
        self.kind, self.quantises_attention, self.batch = kind, attention, batch
        self.inputs = []

    def input(self, name, *shape):
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def random(self, *shape, scale):
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def zero(self, *shape):
        """A zero point, whose type says what is quantised."""
        if self.kind == "int8":
            return self.constant(np.zeros(shape, np.int8))
        name = f"constant_{len(self.tensors)}"
        count = int(np.prod(shape, initial=1))
        kind = TensorProto.FLOAT8E4M3FN
        self.tensors.append(helper.make_tensor(name, kind, shape, bytes(count), raw=True))
        return name

    def quantised(self, x, largest=RANGE):
        if self.kind == "float":
            return x
        operands = [self.constant(np.float32(largest / LARGEST[self.kind])), self.zero()]
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, *operands), *operands)

    def weights(self, array, axis):
        """Weights, or their quantised form with a scale for each slice of `axis`."""
        if self.kind == "float":
            return self.constant(array)
        others = tuple(a for a in range(array.ndim) if a != axis)
        scale = (np.abs(array).max(others) / LARGEST[self.kind]).astype(np.float32)
        parts = [self.constant(array), self.constant(scale), self.zero(len(scale))]
        q = self.op("QuantizeLinear", *parts, axis=axis)
        return self.op("DequantizeLinear", q, *parts[1:], axis=axis)

    def linear(self, x, inputs, outputs, bias=True):
        w = self.weights(self.random(inputs, outputs, scale=inputs**-0.5), 1)
        y = self.op("MatMul", x, w)
        return self.op("Add", y, self.constant(self.random(outputs, scale=0.02))) if bias else y

    def conv(self, x, inputs, outputs, kernel):
        scale = (inputs * kernel * kernel) ** -0.5
        w = self.weights(self.random(outputs, inputs, kernel, kernel, scale=scale), 0)
        b = self.constant(self.random(outputs, scale=0.02))
        return self.op("Conv", self.quantised(x), w, b, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)

    def norm(self, x, width):
        scale = self.constant(np.ones(width, np.float32))
        return self.op("LayerNormalization", x, scale, self.constant(self.random(width, scale=0.02)))

    def group_norm(self, x, channels):
        scale, bias = (self.constant(f(channels, np.float32)) for f in (np.ones, np.zeros))
        return self.op("GroupNormalization", x, scale, bias, num_groups=32, epsilon=1e-5)

    def heads(self, x, heads, size, transposed=False):
        shape = self.constant(np.array([self.batch, -1, heads, size], np.int64))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 3, 1] if transposed else [0, 2, 1, 3])

    def attend(self, q, k, v, width, heads, mask=None):
        """Of projected queries, keys and values."""
        around = self.quantised if self.quantises_attention else lambda x, *_: x
        size = width // heads
        q, k, v = (self.heads(y, heads, size, y is k) for y in (q, k, v))
        scores = self.op("MatMul", around(q), around(k))
        scores = self.op("Mul", scores, self.constant(np.float32(size**-0.5)))
        scores = self.op("Add", scores, mask) if mask else scores
        y = self.op("MatMul", around(self.op("Softmax", scores, axis=-1), 1.0), around(v))
        whole = self.constant(np.array([self.batch, -1, width], np.int64))
        return self.quantised(self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), whole))

    def gelu(self, x):
        inner = self.op("Erf", self.op("Div", x, self.constant(np.float32(2**0.5))))
        half = self.op("Mul", x, self.constant(np.float32(0.5)))
        return self.op("Mul", half, self.op("Add", inner, self.constant(np.float32(1))))

    def encoder(self, tokens, width, heads, layers, masked):
        """Layers whose norms come behind the residual, as BERT's, or before, as ViT's."""
        x = self.input("x", self.batch, tokens, width)
        mask = self.input("mask", self.batch, 1, 1, tokens) if masked else None
        for _ in range(layers):
            y = x if masked else self.norm(x, width)
            y = self.quantised(y)
            q, k, v = (self.linear(y, width, width) for _ in range(3))
            x = self.op("Add", x, self.linear(self.attend(q, k, v, width, heads, mask), width, width))
            x = self.norm(x, width) if masked else x
            y = self.quantised(x if masked else self.norm(x, width))
            y = self.quantised(self.gelu(self.linear(y, width, 4 * width)))
            x = self.op("Add", x, self.linear(y, 4 * width, width))
            x = self.norm(x, width) if masked else x
        return x

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def unet_block(self, side, width, heads):
        """A residual block and a transformer block of Stable Diffusion's UNet."""
        x = self.input("x", self.batch, width, side, side)
        text = self.input("text", self.batch, 77, 768)
        y = x
        for _ in range(2):
            y = self.conv(self.silu(self.group_norm(y, width)), width, width, 3)
        image = self.op("Add", x, y)
        y = self.conv(self.group_norm(image, width), width, width, 1)
        rows = self.constant(np.array([self.batch, width, side * side], np.int64))
        x = self.op("Transpose", self.op("Reshape", y, rows), perm=[0, 2, 1])
        text = self.quantised(text)
        for other in (None, text):
            y = self.quantised(self.norm(x, width))
            seen, depth = (y, width) if other is None else (other, 768)
            q = self.linear(y, width, width, bias=False)
            k, v = (self.linear(seen, depth, width, bias=False) for _ in range(2))
            x = self.op("Add", x, self.linear(self.attend(q, k, v, width, heads), width, width))
        y = self.linear(self.quantised(self.norm(x, width)), width, 8 * width)
        half = self.constant(np.array([4 * width] * 2, np.int64))
        value, gate = self.op("Split", y, half, outputs=2, axis=2)
        y = self.quantised(self.op("Mul", value, self.gelu(gate)))
        x = self.op("Add", x, self.linear(y, 4 * width, width))
        shape = self.constant(np.array([self.batch, width, side, side], np.int64))
        y = self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1]), shape)
        return self.op("Add", image, self.conv(y, width, width, 1))

    def model(self, output):
        graph = helper.make_graph(
            self.nodes, "network", self.inputs, [onnx.ValueInfoProto(name=output)], self.tensors
        )
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


NETWORKS = {
    "bert": lambda n: n.encoder(384, 768, 12, 2, True),
    "vit": lambda n: n.encoder(197, 768, 12, 2, False),
    "unet320": lambda n: n.unet_block(64, 320, 8),
    "unet640": lambda n: n.unet_block(32, 640, 8),
}


def measured(file, arguments):
    """Median milliseconds of a run, or why there are none."""
    words = [os.environ.get("TENON") or ROOT / "build/tenon", "bench", file, f"--target={arguments.target}",
             f"--precision={arguments.precision}", f"--seconds={arguments.seconds}", "--json"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["median_ms"]
    except (json.JSONDecodeError, KeyError):
        return done.stderr.strip()[-200:] or done.stdout[-200:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="?", default=",".join(NETWORKS))
    parser.add_argument("--batch", default="1,8,32")
    parser.add_argument("--kinds", default="float,int8,e4m3")
    parser.add_argument("--attention", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--seconds", default="1")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--precision", default="fp16")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names.split(","):
        for batch in (int(b) for b in arguments.batch.split(",")):
            for kind in arguments.kinds.split(","):
                network = Network(kind, arguments.attention and kind != "float", batch)
                end = "_attention" if network.quantises_attention else ""
                file = arguments.folder / f"{name}_{kind}{end}_b{batch}.onnx"
                onnx.save(network.model(NETWORKS[name](network)), file)
                print(file.stem, *[measured(file, arguments)] if arguments.run else [], flush=True)


if __name__ == "__main__":
    main()
