#!/usr/bin/env python3
"""Rounds the weights of a QDQ network to fewer bits: what sizes and instruction counts of such networks
are measured with. Their accuracy is another matter.

    round_weights.py MODEL OUT [--bits=4]

Constants behind DequantizeLinear, weights in 8 bits and biases in 32, become multiples of as large a step
as leaves weights `bits` bits; their type stays. Scales grow by the same factor."""

import argparse
from pathlib import Path

from project_venv import require

require("numpy", "onnx")

import numpy as np
import onnx
from onnx import numpy_helper


def rounded(values, bits):
    """A constant in larger steps, and how much larger."""
    factor = 2 ** (8 - bits)
    steps = np.rint(values / factor)
    if values.dtype == np.int8:
        steps = np.clip(steps, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return steps.astype(values.dtype), factor


def round_weights(model, bits):
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in constants:
            continue
        values = numpy_helper.to_array(constants[node.input[0]])
        if values.dtype not in (np.int8, np.int32):
            continue
        steps, factor = rounded(values, bits)
        scale = numpy_helper.to_array(constants[node.input[1]]) * np.float32(factor)
        for index, array in enumerate((steps, scale)):
            name = f"{node.output[0]}_rounded_{index}"
            graph.initializer.append(numpy_helper.from_array(array, name))
            node.input[index] = name
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bits", type=int, default=4, choices=(2, 4))
    arguments = parser.parse_args()
    model = onnx.load(arguments.model)
    round_weights(model, arguments.bits)
    onnx.checker.check_model(model)
    onnx.save(model, arguments.out)


if __name__ == "__main__":
    main()
