"""Makers of sizes that depend on data, as those of fuzz_pointwise: what has such a size is folded again,
so that others find known shapes only."""

import numpy as np
from fuzz_pieces import BOOL, NotHere
from onnx import helper


def exact(g, dtypes, rank=(1, 4)):
    """A value that every implementation computes alike, small enough to be summed."""
    return g.pick(lambda v: v.exact and v.dtype in dtypes and rank[0] <= v.rank <= rank[1]
                  and 0 < v.size <= 512 and v.bound * v.size < 1e4)  # fmt: skip


def passed_on(g, name):
    """An open value, or what a pointwise operator makes of it."""
    return g.add_open(g.one(("Neg", "Abs")), [name]) if g.chance(0.4) else name


def folded(g, name, dtype, shape, bound, axis):
    """The sum over the open dimension."""
    g.add("ReduceSum", [name, g.constant(np.asarray([axis]))], dtype, shape, bound, True, keepdims=0)


def places(g):
    v = exact(g, ("float32", "int32", "int64", "uint8", BOOL))
    found = g.add_open("NonZero", [v])
    folded(g, passed_on(g, found), "int64", (v.rank,), v.size * max(v.shape), 1)


def kept(g):
    v = exact(g, ("float32", "float64", "int32", "int64"))
    axis = g.below(v.rank)
    some = g.tensor(BOOL, (1 + g.below(v.shape[axis]),))
    found = g.add_open("Compress", [v, some], axis=axis)
    shape = [d for i, d in enumerate(v.shape) if i != axis]
    folded(g, passed_on(g, found), v.dtype, shape, v.bound * v.shape[axis], axis)


def distinct(g):
    v = exact(g, ("float32", "float64", "int64"))
    rows = g.chance(0.5)
    axis = g.below(v.rank)
    attributes = {"axis": axis} if rows else {}
    found = g.add_open("Unique", [v], sorted=g.below(2), **attributes)
    shape = [d for i, d in enumerate(v.shape) if i != axis] if rows else []
    folded(g, passed_on(g, found), v.dtype, shape, v.bound * v.size, axis if rows else 0)


def picked(g):
    """Rows at positions that were counted."""
    v = exact(g, ("float32", "float64", "int64"), (1, 3))
    marks = g.tensor("float32", (v.shape[0],), 1)
    where = g.add_open("NonZero", [marks])
    flat = g.add_open("Squeeze", [where, g.constant(np.asarray([0]))])
    if v.shape[0] > 64:
        raise NotHere
    rows = g.add_open("Gather", [v, flat], axis=0)
    folded(g, passed_on(g, rows), v.dtype, v.shape[1:], v.bound * v.shape[0], 0)


def cut(g):
    """What lies before a place that is computed, or behind it."""
    v = exact(g, ("float32", "float64", "int64"))
    axis = g.below(v.rank)
    marks = g.tensor("float32", (4,), 1)
    total = g.add_open("ReduceSum", [g.add_open("Abs", [marks])], keepdims=0)
    most = g.add_open("Clip", [total, g.constant(np.float32(0)), g.constant(np.float32(v.shape[axis] + 1))])
    place = g.add_open("Unsqueeze", [g.add_open("Cast", [most], to=7), g.constant(np.asarray([0]))])
    ends = [g.constant(np.asarray([0])), place]
    if g.chance(0.5):
        ends = [place, g.constant(np.asarray([99]))]
    found = g.add_open("Slice", [v, *ends, g.constant(np.asarray([axis]))])
    shape = [d for i, d in enumerate(v.shape) if i != axis]
    folded(g, passed_on(g, found), v.dtype, shape, v.bound * v.shape[axis], axis)


def branched(g):
    """Branches that keep different parts of what they read, and what goes on from either."""
    v = exact(g, ("float32", "float64", "int64"))
    axis = g.below(v.rank)
    marks = g.tensor("float32", (4,), 1)
    condition = g.add_open("Greater", [g.add_open("ReduceSum", [marks], keepdims=0),
                                       g.constant(np.float32(0))])  # fmt: skip
    graphs = []
    for branch in ("most", "some"):
        result = g.fresh()
        begin, end = sorted(g.below(v.shape[axis] + 1) for _ in range(2))
        bounds = [g.constant(np.asarray([number])) for number in (begin, end, axis)]
        kept_there = helper.make_node("Slice", [v.name, *bounds], [result])
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(v.dtype))
        info = helper.make_tensor_value_info(result, kind, [None] * v.rank)
        graphs.append(helper.make_graph([kept_there], branch, [], [info]))
    found = g.add_open("If", [condition], then_branch=graphs[0], else_branch=graphs[1])
    shape = [d for i, d in enumerate(v.shape) if i != axis]
    folded(g, passed_on(g, found), v.dtype, shape, v.bound * v.shape[axis], axis)
