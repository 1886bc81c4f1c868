#!/usr/bin/env python3
"""Times layers of transformers with and without the operation `attention`, and ONNX Runtime, on the CPU.

    bench/encoder_layers.py [NAME,...] [--layers=2] [--seconds=8]

Every network is a stack of encoder layers with random weights as torch exports them, one thread, all
three peers in turns as bench/cpu.py times them. Ratios below 1: Tenon with `attention` is faster than
Tenon with --disable=raise-attention, and than ONNX Runtime with every optimisation.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cpu  # finds the project's packages
import numpy as np
import onnx
from generated import Model, build_library, compile_model, empty_like
from nodes import Nodes
from onnx import TensorProto, helper

LOWEST = np.float32(np.finfo(np.float32).min)


@dataclass
class Form:
    """Tokens, width, heads; how an export scales scores ("split" between q and k, or "div") and what
    it hides: the tokens of a padding mask, or those ahead."""

    tokens: int
    width: int = 768
    heads: int = 12
    scale: str = "div"
    hides: str = ""


FORMS = {
    "vit_b16": Form(197, scale="split"),
    "bert_128": Form(128, hides="padding"),
    "bert_384": Form(384, hides="padding"),
    "gpt2_256": Form(256, hides="ahead"),
    "gpt2_1024": Form(1024, hides="ahead"),
    "small_20": Form(20, 64, 4, hides="padding"),
}


class Builder(Nodes):
    def __init__(self, form, seed=1):
        super().__init__(seed)
        self.form = form

    def weights(self, *shape, scale):
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, x, inputs, outputs):
        product = self.op("MatMul", x, self.weights(inputs, outputs, scale=inputs**-0.5))
        return self.op("Add", product, self.weights(outputs, scale=0.02))

    def normalized(self, x):
        width = self.form.width
        scale = self.constant(np.ones(width, np.float32))
        return self.op("LayerNormalization", x, scale, self.weights(width, scale=0.02), epsilon=1e-5)

    def attention(self, x, mask):
        f = self.form
        size = f.width // f.heads
        split = self.constant(np.array([1, f.tokens, f.heads, size], np.int64))
        whole = self.constant(np.array([1, f.tokens, f.width], np.int64))
        widths = self.constant(np.array([f.width] * 3, np.int64))
        parts = self.op("Split", self.linear(x, f.width, 3 * f.width), widths, outputs=3, axis=2)
        q, k, v = (self.op("Transpose", self.op("Reshape", part, split), perm=perm)
                   for part, perm in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))  # fmt: skip
        if f.scale == "split":
            factor = self.constant(np.float32(size**-0.25))
            scores = self.op("MatMul", self.op("Mul", q, factor), self.op("Mul", k, factor))
        else:
            scores = self.op("Div", self.op("MatMul", q, k), self.constant(np.float32(size**0.5)))
        if f.hides == "padding":
            scores = self.op("Add", scores, mask)
        elif f.hides == "ahead":
            seen = self.constant(np.tril(np.ones((1, 1, f.tokens, f.tokens), bool)))
            scores = self.op("Where", seen, scores, self.constant(LOWEST))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), whole)
        return self.linear(y, f.width, f.width)

    def gelu(self, x):
        inner = self.op("Erf", self.op("Div", x, self.constant(np.float32(2**0.5))))
        half = self.op("Mul", x, self.constant(np.float32(0.5)))
        return self.op("Mul", half, self.op("Add", inner, self.constant(np.float32(1))))

    def model(self, layers):
        f = self.form
        shape = [1, f.tokens, f.width]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        x, mask = "x", None
        if f.hides == "padding":
            inputs.append(helper.make_tensor_value_info("seen", TensorProto.FLOAT, [1, 1, 1, f.tokens]))
            hidden = self.op("Sub", self.constant(np.float32(1)), "seen")
            mask = self.op("Mul", hidden, self.constant(LOWEST))
        for _ in range(layers):
            x = self.op("Add", x, self.attention(self.normalized(x), mask))
            wide = self.gelu(self.linear(self.normalized(x), f.width, 4 * f.width))
            x = self.op("Add", x, self.linear(wide, 4 * f.width, f.width))
        output = helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "layers", inputs, [output], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Decomposed(cpu.Tenon):
    name = "decomposed"

    def __init__(self, path, inputs, outputs, folder):
        source = Path(folder) / "decomposed.cpp"
        compile_model(path, source, "--target=cpu:native", "-q", "--disable=raise-attention")
        self.model = Model(build_library(source, "-O2", []))
        self.results = empty_like(outputs)
        self.model.bind(list(inputs.values()), self.results)


def bench(name, layers, seconds):
    form = FORMS[name]
    model = Builder(form).model(layers)
    rng = np.random.default_rng(2)
    inputs = {"x": rng.standard_normal([1, form.tokens, form.width]).astype(np.float32)}
    if form.hides == "padding":
        inputs["seen"] = np.ones([1, 1, 1, form.tokens], np.float32)
        inputs["seen"][..., -form.tokens // 8 :] = 0
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        peer = cpu.OnnxRuntime(model, inputs, 1)
        ours = cpu.Tenon(path, model, inputs, peer.results, 1, "cpu:native", folder)
        apart = Decomposed(path, inputs, peer.results, folder)
        for tenon in (ours, apart):
            tenon.run()
        error = max(cpu.worst_error(tenon.results, peer.results) for tenon in (ours, apart))
        times = cpu.interleave([ours, apart, peer], seconds, time.thread_time)
    return {"network": name, **times, "to decomposed": times["tenon"] / times["decomposed"],
            "to onnxruntime": times["tenon"] / times["onnxruntime"], "error": error}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="?", default=",".join(FORMS), metavar="NAME,...")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each peer and network")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names.split(",") if name not in FORMS]
    if unknown:
        sys.exit(f"encoder_layers.py: no network {unknown[0]}; there are {', '.join(FORMS)}")
    rows = [bench(name, arguments.layers, arguments.seconds) for name in arguments.names.split(",")]
    cpu.table(rows, list(rows[0]), sys.stdout)


if __name__ == "__main__":
    main()
