"""Models that only move elements, so that every element type can go through them: what an operator does
to the numbers 0, 1, 2, … says what it does to any values."""

import numpy as np
from onnx import TensorProto, helper

node, opset = helper.make_node, helper.make_opsetid
OPSET, IR = 24, 11
# Each list of values has NUMBERS of them, so that element i of a type stands for the number i.
NUMBERS = 8


def words():
    return np.array(["", "b", "é\n", '"\\', "long enough to lie on the heap", "A", "b ", "zz"], object)


def values_of(dtype):
    """The values that stand for the numbers, of an onnx element type; 0 stands for zero, or no text."""
    if dtype == TensorProto.STRING:
        return words()
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if dtype == TensorProto.FLOAT4E2M1:
        return np.array([0, 0.5, 1, 1.5, 2, 3, -4, 6]).astype(kind)
    if kind.kind == "c":
        return np.array([0, 1j, 1, -1 - 2j, 3 + 1j, -0.5j, 7, 2 - 2j]).astype(kind)
    most = {TensorProto.BOOL: 2, TensorProto.INT2: 2, TensorProto.UINT2: 4}.get(dtype, NUMBERS)
    values = np.arange(NUMBERS) % most
    unsigned = kind.kind in "ub" or dtype in (TensorProto.UINT4, TensorProto.UINT2)
    return np.where(values % 2 == 1, values if unsigned else -values, values).astype(kind)


class Case:
    """`make(dtype)` gives nodes from x [2, 3, 4], y [2, 3, 4] and v [4] to `results`; `operator` is
    whose types count."""

    def __init__(self, name, operator, make, results=("z",), constants=None):
        self.name, self.operator, self.make = name, operator, make
        self.results, self.constants = results, constants or {}


def info(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def ints(*values):
    return np.array(values, np.int64)


SHAPES = {"x": (2, 3, 4), "y": (2, 3, 4), "v": (4,)}


def branches(dtype):
    def graph(name, nodes):
        return helper.make_graph(nodes, name, [], [info(name, dtype, None)])

    return [node("If", ["flag"], ["z"], then_branch=graph("t", [node("Identity", ["x"], ["t"])]),
                 else_branch=graph("e", [node("Transpose", ["y"], ["r"], perm=[0, 1, 2]),
                                         node("Identity", ["r"], ["e"])]))]  # fmt: skip


def loop(dtype):
    body = helper.make_graph(
        [node("Identity", ["more"], ["again"]), node("Identity", ["b"], ["a2"]),
         node("Identity", ["a"], ["b2"]), node("Identity", ["a"], ["seen"])],
        "body", [info("i", TensorProto.INT64, []), info("more", TensorProto.BOOL, []),
                 info("a", dtype, SHAPES["x"]), info("b", dtype, SHAPES["y"])],
        [info("again", TensorProto.BOOL, []), info("a2", dtype, SHAPES["x"]), info("b2", dtype, SHAPES["y"]),
         info("seen", dtype, SHAPES["x"])])  # fmt: skip
    return [node("Loop", ["three", "", "x", "y"], ["z", "w", "all"], body=body)]


def scan(dtype):
    body = helper.make_graph(
        [node("Identity", ["row"], ["state2"]), node("Concat", ["state", "row"], ["both"], axis=0)],
        "body", [info("state", dtype, [3, 4]), info("row", dtype, [3, 4])],
        [info("state2", dtype, [3, 4]), info("both", dtype, [6, 4])])  # fmt: skip
    return [node("Gather", ["y", "zero"], ["first"], axis=0),
            node("Scan", ["first", "x"], ["z", "all"], body=body, num_scan_inputs=1)]  # fmt: skip


def simple(name, operands=("x",), results=("z",), constants=None, operator=None, **attributes):
    def make(dtype):
        return [node(operator or name, list(operands), list(results), **attributes)]

    return Case(name, operator or name, make, results, constants)


CASES = [
    simple("Identity"),
    simple("Reshape", ["x", "to"], constants={"to": ints(4, -1)}),
    simple("Flatten"),
    simple("Transpose", perm=[2, 0, 1]),
    simple("Squeeze", ["x"]),
    simple("Unsqueeze", ["x", "axes"], constants={"axes": ints(1)}),
    simple("Slice", ["x", "from", "to", "axes", "steps"],
           constants={"from": ints(-1, 0), "to": ints(-9, 4), "axes": ints(1, 2), "steps": ints(-2, 3)}),
    simple("Concat", ["x", "y"], axis=1),
    simple("Split", ["x"], ["z", "w"], axis=2, num_outputs=2),
    simple("Gather", ["x", "places"], axis=1, constants={"places": ints(2, 0, -1, 1)}),
    simple("GatherElements", ["x", "places"], axis=2,
           constants={"places": np.arange(12).reshape(2, 3, 2) % 4}),
    simple("GatherND", ["x", "places"], constants={"places": ints(1, 2, 0, -1).reshape(2, 2)}),
    simple("ScatterElements", ["x", "places", "part"], axis=2,
           constants={"places": np.arange(12).reshape(2, 3, 2) % 4}),
    simple("ScatterND", ["x", "places", "rows"], constants={"places": ints(1, 2, 0, 1).reshape(2, 2)}),
    simple("Compress", ["x", "mask"], axis=1, constants={"mask": np.array([True, False, True])}),
    simple("Tile", ["x", "times"], constants={"times": ints(1, 2, 2)}),
    simple("Expand", ["v", "to"], constants={"to": ints(3, 4)}),
    simple("Pad", ["x", "pads", "one"], constants={"pads": ints(0, 1, 0, 0, 0, 2)}),
    simple("PadEdge", ["x", "pads"], operator="Pad", mode="edge", constants={"pads": ints(0, 1, 2, 1, 0, 0)}),
    simple("PadReflect", ["x", "pads"], operator="Pad", mode="reflect",
           constants={"pads": ints(0, 1, 2, 0, 0, 1)}),
    simple("Where", ["mask", "x", "v"],
           constants={"mask": np.arange(24).reshape(2, 3, 4) % 3 == 0}),
    Case("DepthToSpace", "DepthToSpace", lambda dtype: [
        node("Reshape", ["x", "to"], ["image"]), node("DepthToSpace", ["image"], ["z"], blocksize=2)],
        constants={"to": ints(2, 4, 1, 3)}),
    Case("SpaceToDepth", "SpaceToDepth", lambda dtype: [
        node("Reshape", ["x", "to"], ["image"]), node("SpaceToDepth", ["image"], ["z"], blocksize=2)],
        constants={"to": ints(1, 1, 4, 6)}),
    simple("ReverseSequence", ["x", "lengths"], batch_axis=0, time_axis=1, constants={"lengths": ints(2, 3)}),
    simple("OneHot", ["places", "four", "pair"], constants={"places": ints(1, 3, -1), "four": np.int64(4)}),
    simple("CenterCropPad", ["x", "to"], axes=[1, 2], constants={"to": ints(2, 4)}),
    simple("TensorScatter", ["x", "update"], axis=1),
    simple("Trilu", ["x"]),
    Case("If", "If", branches, constants={"flag": np.array(False)}),
    Case("Loop", "Loop", loop, ("z", "w", "all"), {"three": np.int64(3)}),
    Case("Scan", "Scan", scan, ("z", "all"), {"zero": np.int64(0)}),
    Case("Sequence", "SequenceConstruct", lambda dtype: [
        node("SequenceConstruct", ["x", "y"], ["s"]), node("SequenceInsert", ["s", "x"], ["s3"]),
        node("ConcatFromSequence", ["s3"], ["z"], axis=0, new_axis=1),
        node("SequenceAt", ["s3", "last"], ["w"])], ("z", "w"), {"last": np.int64(-2)}),
    Case("SplitToSequence", "SplitToSequence", lambda dtype: [
        node("SplitToSequence", ["x", "sizes"], ["s"], axis=2), node("SequenceAt", ["s", "second"], ["z"])],
        constants={"sizes": ints(1, 3), "second": np.int64(1)}),
]  # fmt: skip
# What else cases read, by name.
EXTRA = {"part": (2, 3, 2), "rows": (2, 4), "pair": (2,), "update": (2, 2, 4), "one": ()}


def numbers():
    rng = np.random.default_rng(3)
    return {name: rng.integers(0, NUMBERS, shape).astype(np.float32)
            for name, shape in {**SHAPES, **EXTRA}.items()}  # fmt: skip
