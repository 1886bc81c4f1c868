#!/usr/bin/env python3
"""Quantised networks in integers and in floats.

    test_integers.py [--seeds=N] FILE.onnx... | own

With integer-arithmetic, which is the default, against the network in exact arithmetic (exact_qdq.py):
- each quantised tensor, from the same quantised tensors before it, is at most one step away, in at
  most 1 value of 1,000,000: where a factor of 31 bits crosses the boundary between steps;
- those from which the outputs are made are the same bytes for N seeded inputs.
Against the network as the interpreter computes it in floats:
- each quantised tensor, from the same quantised tensors before it, is at most one step away, in at
  most 1 value of 100,000: where the rounding errors of the floats cross the boundary between steps;
- a quantised softmax is at most one step away, too, in at most 1 value of 10,000;
- a network that is quantised throughout holds floats only before its first and behind its last integers;
- outputs from N seeded inputs are the interpreter's without that pass, byte for byte (floats made of
  dequantised values but for their last bits), but for 1 input of 20, in which such a step goes on.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

import numpy as np
import onnx
from exact_qdq import ExactNetwork
from generated import Interface, Model, build_library, compile_model
from onnx import helper, numpy_helper
from tenon import tenon

TYPES = {"f32": np.float32, "i8": np.int8, "u8": np.uint8}
OWN = ["resnet_qdq", "keyword_dscnn_qdq", "keyword_dscnn_int4", "gated_qdq", "attention_qdq"]
THROUGHOUT = ["gated_qdq", "attention_qdq", "ties_qdq"]


def compiled(model, folder, *words):
    folder.mkdir()
    source = folder / "net.cpp"
    compile_model(model, source, "--target=cpu:native", *words)
    ports = Interface(source.with_suffix(".h"))
    return Model(build_library(source, "-O2", ["-fno-tree-vectorize"]), "net"), ports


def random_input(port, rng):
    kind = TYPES[port.type]
    if kind is np.float32:
        scale = rng.choice([0.3, 1, 30, 120])
        return (rng.standard_normal(port.size) * scale).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max + 1, port.size).astype(kind)


def outputs(compiled, inputs):
    model, ports = compiled
    found = [np.zeros(port.size, TYPES[port.type]) for port in ports.outputs]
    model.bind(inputs, found)
    model.run()
    return found


def interpreted(file, ports, inputs, folder):
    """What the interpreter makes of the network as its file says it."""
    words = []
    model = onnx.load(file)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    for k, (port, array) in enumerate(zip(ports.inputs, inputs)):
        np.save(folder / f"{k}.npy", array.reshape(shapes[port.name]))
        words += ["--input", f"{port.name}={folder / f'{k}.npy'}"]
    answer = tenon("run", file, "--target=interpreter",
                   f"--save={folder / 'out'}", *words)  # fmt: skip
    if answer.status != 0:
        raise AssertionError(answer.errors)
    names = json.loads((folder / "out/names.json").read_text())
    return [np.load(folder / "out" / names[port.name]).reshape(-1) for port in ports.outputs]


def layers(file, whole, cut):
    """Two forms of a network that have every quantised tensor as an output. In the second one, what
    follows a quantised tensor reads an input instead."""
    model = onnx.shape_inference.infer_shapes(onnx.load(file))
    types = {v.name: v.type.tensor_type for v in [*model.graph.value_info, *model.graph.output]}
    outputs = {value.name for value in model.graph.output}
    quantized = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    for name in quantized:
        if name not in outputs:
            model.graph.output.append(helper.make_empty_tensor_value_info(name))
    onnx.save(model, whole)
    for name in quantized:
        readers = [n for n in model.graph.node if name in n.input]
        if readers:
            t = types[name]
            shape = [d.dim_value for d in t.shape.dim]
            model.graph.input.append(helper.make_tensor_value_info("cut_" + name, t.elem_type, shape))
        for node in readers:
            for i, value in enumerate(node.input):
                if value == name:
                    node.input[i] = "cut_" + name
    onnx.save(model, cut)


def last_quantized(file):
    """Names of quantised tensors that outputs are made of."""
    graph = onnx.load(file).graph
    made = {name: node for node in graph.node for name in node.output}
    found, names = set(), [value.name for value in graph.output]
    while names:
        node = made.get(names.pop())
        if node and node.op_type == "QuantizeLinear":
            found.add(node.output[0])
        elif node:
            names += node.input
    return found


class ExactComparison:
    """Counts values of quantised tensors that differ from those of exact arithmetic."""

    def __init__(self, file):
        self.network, self.last = ExactNetwork(file), last_quantized(file)
        self.values = self.apart = 0

    def add(self, inputs, named):
        """What is wrong with the quantised tensors `named` that the integers make of the inputs."""
        exact = self.network.quantized(inputs)
        same = [name for name, array in exact.items() if (array.reshape(-1) == named[name]).all()]
        if not self.last.issubset(same):
            return f"other values than exact arithmetic's: {sorted(self.last.difference(same))}"
        if len(same) < len(exact):
            exact = self.network.quantized(inputs, named)
        for name, array in exact.items():
            step = np.abs(array.reshape(-1).astype(int) - named[name].astype(int))
            if step.max(initial=0) > 1:
                return f"{name} is {step.max()} steps away from exact arithmetic"
            self.values, self.apart = self.values + step.size, self.apart + int(step.sum())
        return ""

    def verdict(self):
        return "" if self.apart <= max(1, 1e-6 * self.values) else str(self)

    def __str__(self):
        return f"{self.apart} of {self.values} values one step from exact arithmetic"


def same(a, b):
    if a.dtype == np.float32:
        return np.abs(a - b).max() <= 1e-6 * max(1e-6, np.abs(b).max())
    return (a == b).all()


def after_softmax(file):
    """Names of quantised tensors that are softmax."""
    nodes = onnx.load(file).graph.node
    softmax = {node.output[0] for node in nodes if node.op_type == "Softmax"}
    return {n.output[0] for n in nodes if n.op_type == "QuantizeLinear" and n.input[0] in softmax}


def floats_between(file, folder):
    """Floats of the optimised network that are neither inputs nor outputs."""
    answer = tenon("compile", file, "--target=cpu:native", "--emit=tn", "--stage=optimized",
                   "-o", folder / "optimized.tn")  # fmt: skip
    if answer.status != 0:
        raise AssertionError(answer.errors)
    lines = (folder / "optimized.tn").read_text().splitlines()
    outputs = next(line for line in lines if line.strip().startswith("return "))
    made = [line.split(" = ")[0].strip() for line in lines if "xf32" in line.rsplit(" : ", 1)[-1]
            and " = " in line]  # fmt: skip
    return [name for name in made if name not in outputs.replace(",", " ").split()]


def check(file, folder, seeds):
    """What is wrong with a model; nothing when it passes."""
    folder.mkdir()
    net = compiled(file, folder / "net")
    text = (folder / "net/net.cpp").read_text()
    if "round_shift" not in text and "mul_high" not in text:
        return "no integer arithmetic"
    if file.parent.name in THROUGHOUT and (found := floats_between(file, folder)):
        return f"floats between integers: {found}"
    others, softmax = [], after_softmax(file)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        inputs = [random_input(port, rng) for port in net[1].inputs]
        expected = interpreted(file, net[1], inputs, folder)
        if not all(same(a, b) for a, b in zip(outputs(net, inputs), expected)):
            others.append(seed)
    if len(others) > max(1, seeds // 20):
        return f"other outputs from {len(others)} of {seeds} inputs: {others}"

    layers(file, folder / "whole.onnx", folder / "cut.onnx")
    integers = compiled(folder / "whole.onnx", folder / "whole")
    floats = compiled(folder / "cut.onnx", folder / "cut", "--disable=integer-arithmetic")
    values = apart = probabilities = probabilities_apart = 0
    exact = ExactComparison(file)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        inputs = [random_input(port, rng) for port in integers[1].inputs]
        found = outputs(integers, inputs)
        named = {port.name: array for port, array in zip(integers[1].outputs, found)}
        ports = integers[1].inputs
        if wrong := exact.add({port.name: array for port, array in zip(ports, inputs)}, named):
            return f"seed {seed}: {wrong}"
        cuts = [named[port.name[len("cut_") :]] for port in floats[1].inputs[len(inputs) :]]
        for port, a, b in zip(integers[1].outputs, found, outputs(floats, [*inputs, *cuts])):
            if a.dtype != np.float32:
                step = np.abs(a.astype(int) - b.astype(int))
                if step.max(initial=0) > 1:
                    return f"seed {seed}: {port.name} is {step.max()} steps away"
                if port.name in softmax:
                    probabilities += step.size
                    probabilities_apart += int(step.sum())
                else:
                    values, apart = values + step.size, apart + int(step.sum())
    said = f"{exact}; {apart} of {values} from floats"
    if softmax:
        said += f", {probabilities_apart} of {probabilities} of softmax"
    print(f"{file.parent.name}/{file.name}: {said}; other outputs from {len(others)} of {seeds} inputs",
          flush=True)  # fmt: skip
    floats_agree = apart <= 1e-5 * values and probabilities_apart <= 1e-4 * probabilities
    return exact.verdict() or ("" if floats_agree else said)


def write_ties(file):
    """A network in which many quotients lie halfway between two steps: an average of four and a sum of
    two at the scale of their operands and at twice that scale, a convolution by 1 with power-of-two scales."""
    file.parent.mkdir()
    nodes, weights = [], []

    def const(array):
        weights.append(numpy_helper.from_array(array, f"c{len(weights)}"))
        return weights[-1].name

    def op(kind, *inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def quantized(x, scale, kind=np.int8):
        parameters = [const(np.float32(scale)), const(kind(0))]
        return op("DequantizeLinear", op("QuantizeLinear", x, *parameters), *parameters)

    x = quantized("x", 0.5)
    w = const(np.eye(8, dtype=np.int8).reshape(8, 8, 1, 1))
    w = op("DequantizeLinear", w, const(np.float32(0.25)))
    average = quantized(op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), 0.5)
    conv = quantized(op("Conv", average, w), 0.25)
    total = quantized(op("Add", average, conv), 1.0)
    op("QuantizeLinear", op("Add", total, average), const(np.float32(1.0)), const(np.int8(0)))
    image = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 12, 12])
    result = helper.make_tensor_value_info(nodes[-1].output[0], onnx.TensorProto.INT8, [1, 8, 6, 6])
    graph = helper.make_graph(nodes, "ties", [image], [result], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="tenon-integers-") as scratch:
        scratch = Path(scratch)
        words = argparse.ArgumentParser()
        words.add_argument("--seeds", type=int, default=100)
        words.add_argument("files", nargs="+")
        words = words.parse_args()
        files = [Path(word) for word in words.files if word != "own"]
        if "own" in words.files:
            make = ROOT / "tests/models/make.py"
            subprocess.run([sys.executable, make, scratch / "models", f"--models={','.join(OWN)}"],
                           check=True, stdout=subprocess.DEVNULL)  # fmt: skip
            files += [scratch / "models" / name / "model.onnx" for name in OWN]
            files.append(scratch / "ties_qdq/model.onnx")
            write_ties(files[-1])
        for number, file in enumerate(files):
            reason = check(file, scratch / str(number), words.seeds)
            passed, failed = passed + (not reason), failed + bool(reason)
            if reason:
                print(f"FAIL {file}: {reason}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
