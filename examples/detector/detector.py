#!/usr/bin/env python3
"""Writes a small detector as ONNX, with the parts that detectors of one stage have: a convolutional backbone
whose height and width are open, a head that says classes and boxes for each cell of a grid, boxes decoded from
the grid's own coordinates, and non-maximum suppression. Its weights are set, not trained: it finds patches of
red, green and blue.

    detector.py FILE.onnx                     the network
    detector.py --image FILE.npz HEIGHT WIDTH an image of these sizes (multiples of 8) with three patches

The image is [1, 3, height, width], 0 to 1; `boxes` are [n, 4] corners (x0, y0, x1, y1) in pixels, `scores`
[n], `classes` [n]. Needs numpy and onnx.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STRIDE, CHANNELS, CLASSES = 8, (16, 32, 32), 3


def build(path):
    random = np.random.default_rng(3)
    nodes, weights = [], {}

    def constant(name, value, kind=np.float32):
        weights[name] = np.asarray(value, kind)
        return name

    def node(op, inputs, name, outputs=None, **attributes):
        nodes.append(helper.make_node(op, inputs, outputs or [name], name=name, **attributes))
        return outputs or name

    # The first three channels of every layer are the colours, halved in size; the others are there for the work.
    x, inside = "image", 3
    for i, outside in enumerate(CHANNELS):
        w = random.normal(0, 0.1, (outside, inside, 3, 3))
        w[:3] = 0
        for c in range(3):
            w[c, c, 1:, 1:] = 1 / 4
        x = node("Conv", [x, constant(f"backbone{i}.weight", w)], f"backbone{i}", strides=[2, 2], pads=[1, 1, 1, 1])
        scale = constant(f"norm{i}.scale", np.ones(outside)), constant(f"norm{i}.bias", np.zeros(outside))
        moments = constant(f"norm{i}.mean", np.zeros(outside)), constant(f"norm{i}.var", np.ones(outside) - 1e-5)
        x = node("Relu", [node("BatchNormalization", [x, *scale, *moments], f"norm{i}", epsilon=1e-5)], f"relu{i}")
        inside = outside

    # A class is its colour without the others'; a box is two cells wide around its cell.
    head = np.zeros((CLASSES + 4, inside, 1, 1))
    for c in range(CLASSES):
        head[c, :3] = -10
        head[c, c] = 10
    bias = np.concatenate([np.full(CLASSES, -5.0), np.zeros(2), np.full(2, np.log(2))])
    x = node("Conv", [x, constant("head.weight", head), constant("head.bias", bias)], "head")
    x = node("Reshape", [x, constant("flat", [1, CLASSES + 4, -1], np.int64)], "cells")
    scores, offsets, sizes = node("Split", [x, constant("parts", [CLASSES, 2, 2], np.int64)], "parted",
                                  ["logits", "offsets", "log_sizes"], axis=1)  # fmt: skip
    scores = node("Sigmoid", [scores], "confidences")

    # The cells' middles, from the extents that the head has for this image.
    shape = node("Shape", ["head"], "extents")
    one, zero = constant("one", 1, np.int64), constant("zero", 0, np.int64)
    ranges = {}
    for axis, at in (("rows", 2), ("columns", 3)):
        count = node("Gather", [shape, constant(f"{axis}.at", at, np.int64)], f"{axis}.count")
        ranges[axis] = node("Cast", [node("Range", [zero, count, one], f"{axis}.range")], axis, to=TensorProto.FLOAT)
    like = node("Slice", ["head", constant("first", [0], np.int64), constant("last", [1], np.int64),
                          constant("channel", [1], np.int64)], "one_channel")  # fmt: skip
    plane = node("Mul", [node("Reshape", [like, constant("two", [0, 0, 0, -1], np.int64)], "plane"),
                         constant("nothing", 0)], "zeros")  # fmt: skip
    down = node("Unsqueeze", [ranges["rows"], constant("last_axis", [1], np.int64)], "rows.down")
    grid = [node("Reshape", [node("Add", [plane, r], f"{name}.grid"), constant(f"{name}.flat", [1, 1, -1], np.int64)],
                 f"{name}.cells") for name, r in (("x", ranges["columns"]), ("y", down))]  # fmt: skip
    grid = node("Concat", grid, "grid", axis=1)
    middles = node("Add", [node("Add", [grid, offsets], "moved"), constant("half", 0.5)], "middles")
    halves = node("Mul", [node("Exp", [sizes], "sizes"), constant("half_size", 0.5)], "halves")
    corners = node("Concat", [node("Sub", [middles, halves], "from"), node("Add", [middles, halves], "to")], "corners",
                   axis=1)  # fmt: skip
    boxes = node("Transpose", [node("Mul", [corners, constant("stride", STRIDE)], "pixels")], "all_boxes", perm=[0, 2, 1])

    chosen = node("NonMaxSuppression",
                  [boxes, scores, constant("most", [20], np.int64), constant("overlap", [0.2]), constant("least", [0.5])],
                  "chosen")  # fmt: skip
    columns = {}
    for at, name in enumerate(("image", "class", "cell")):
        columns[name] = node("Gather", [chosen, constant(f"chosen.{name}", at, np.int64)], f"chosen.{name}.of", axis=1)
    node("Gather", [node("Squeeze", [boxes, constant("batch", [0], np.int64)], "boxes.flat"), columns["cell"]], "boxes")
    node("GatherND", [scores, chosen], "scores")
    node("Identity", [columns["class"]], "classes")

    graph = helper.make_graph(
        nodes, "detector",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, "height", "width"])],
        [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["found", 4]),
         helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["found"]),
         helper.make_tensor_value_info("classes", TensorProto.INT64, ["found"])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])  # fmt: skip
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def image(height, width):
    """Three patches on dark ground, one of each colour."""
    pixels = np.random.default_rng(1).uniform(0, 0.1, (1, 3, height, width)).astype(np.float32)
    for colour, (y, x) in enumerate(((0.25, 0.25), (0.5, 0.75), (0.75, 0.375))):
        row, column = int(height * y) // STRIDE * STRIDE, int(width * x) // STRIDE * STRIDE
        pixels[0, colour, row : row + STRIDE, column : column + STRIDE] = 1
    return pixels


if __name__ == "__main__":
    if len(sys.argv) == 2:
        build(sys.argv[1])
    elif len(sys.argv) == 5 and sys.argv[1] == "--image":
        np.savez(sys.argv[2], image=image(int(sys.argv[3]), int(sys.argv[4])))
    else:
        sys.exit(__doc__)
