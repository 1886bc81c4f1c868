"""Makers of reductions, contractions, windows and normalizations, as those of fuzz_pointwise."""

import numpy as np
from fuzz_pieces import EXTENTS, NotHere


def reduce_(g):
    v = g.floating((1, 4), filled=True)
    axes = [i for i in range(v.rank) if g.chance(0.5)] or [g.below(v.rank)]
    keep = g.below(2)
    shape = [1 if i in axes else d for i, d in enumerate(v.shape) if keep or i not in axes]
    n = int(np.prod([v.shape[i] for i in axes]))
    op = g.one(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare"))
    bound = {"ReduceSum": n * v.bound, "ReduceSumSquare": n * v.bound**2}.get(op, n * v.bound)
    if bound > 1e5:
        raise NotHere
    exact = v.exact and (op in ("ReduceMax", "ReduceMin") or (op == "ReduceSum" and bound < 1e4))
    g.add(op, [v, g.constant(np.asarray(axes))], v.dtype, shape, bound, exact, keepdims=keep)


def arg(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.exact and v.rank > 0 and min(v.shape) > 0)
    axis, keep = g.below(v.rank), g.below(2)
    shape = [1 if i == axis else d for i, d in enumerate(v.shape) if keep or i != axis]
    g.add(g.one(("ArgMax", "ArgMin")), [v], "int64", shape, v.shape[axis], True, axis=axis,
          keepdims=keep)  # fmt: skip


def top(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.exact and v.rank > 0 and min(v.shape) > 0)
    axis = g.below(v.rank)
    k = 1 + g.below(v.shape[axis])
    shape = [k if i == axis else d for i, d in enumerate(v.shape)]
    g.add_many("TopK", [v, g.constant(np.asarray([k]))],
               [("float32", shape, v.bound, True), ("int64", shape, v.shape[axis], True)], axis=axis,
               largest=g.below(2))  # fmt: skip


def softmax(g):
    v = g.floating((1, 4), filled=True)
    op = g.one(("Softmax", "LogSoftmax"))
    g.add(op, [v], v.dtype, v.shape, 1 if op == "Softmax" else 2 * v.bound + 10, axis=g.below(v.rank))


def cumsum(g):
    v = g.floating((1, 3), filled=True)
    axis = g.below(v.rank)
    bound = v.bound * v.shape[axis]
    g.add("CumSum", [v, g.constant(np.asarray(axis))], v.dtype, v.shape, bound, v.exact and bound < 1e4,
          reverse=g.below(2), exclusive=g.below(2))  # fmt: skip


def matmul(g):
    v = g.floating((2, 4))
    k, n = v.shape[-1], g.one(EXTENTS)
    batch = list(v.shape[:-2]) if g.chance(0.4) else []
    w = g.tensor(v.dtype, [*batch, k, n], 2)
    g.add("MatMul", [v, w], v.dtype, [*v.shape[:-1], n], max(1, k) * v.bound * 2)


def gemm(g):
    v = g.floating((2, 2))
    ta, tb = g.below(2), g.below(2)
    m, k = v.shape[::-1] if ta else v.shape
    n = g.one(EXTENTS)
    w = g.tensor(v.dtype, [n, k] if tb else [k, n], 2)
    c = g.tensor(v.dtype, g.one(((n,), (m, n), (1, n), (m, 1), ())))
    g.add("Gemm", [v, w, c], v.dtype, [m, n], max(1, k) * v.bound * 2 + 8, transA=ta, transB=tb,
          # onnxruntime leaves beta out where k is 0.
          alpha=g.one((1.0, 0.5)), beta=g.one((1.0, 2.0)) if k else 1.0)  # fmt: skip


def conv(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.rank in (3, 4) and min(v.shape) > 0 and v.bound < 1e3)
    c, space = v.shape[1], v.shape[2:]
    groups = g.one([d for d in (1, 1, 2, c) if c % d == 0])
    filters = groups * g.one((1, 2, 4))
    kernel = [g.one((1, 2, 3)) for _ in space]
    strides, dilations = [g.one((1, 1, 2)) for _ in space], [g.one((1, 1, 2)) for _ in space]
    ends = [g.below(3) for _ in space], [g.below(3) for _ in space]
    out = [(d + a + b - (k - 1) * l - 1) // s + 1
           for d, a, b, k, l, s in zip(space, *ends, kernel, dilations, strides)]  # fmt: skip
    if min(out) < 1:
        raise NotHere
    w = g.tensor("float32", [filters, c // groups, *kernel], 2)
    operands = [v, w, g.tensor("float32", [filters])] if g.chance(0.5) else [v, w]
    bound = v.bound * 2 * (c // groups) * int(np.prod(kernel)) + 4
    g.add("Conv", operands, "float32", [v.shape[0], filters, *out], bound, strides=strides,
          dilations=dilations, pads=sum(ends, []), group=groups)  # fmt: skip


def pool(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.rank in (3, 4) and min(v.shape) > 0)
    space = v.shape[2:]
    op = g.one(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if op.startswith("Global"):
        g.add(op, [v], "float32", [*v.shape[:2], *(1 for _ in space)], v.bound, v.exact and "Max" in op)
        return
    kernel, strides = [g.one((1, 2, 3)) for _ in space], [g.one((1, 2)) for _ in space]
    ends = [g.below(k) for k in kernel], [g.below(k) for k in kernel]
    out = [(d + a + b - k) // s + 1 for d, a, b, k, s in zip(space, *ends, kernel, strides)]
    if min(out) < 1:
        raise NotHere
    more = {"count_include_pad": g.below(2)} if op == "AveragePool" else {}
    g.add(op, [v], "float32", [*v.shape[:2], *out], v.bound, v.exact and op == "MaxPool",
          kernel_shape=kernel, strides=strides, pads=sum(ends, []), **more)  # fmt: skip


def normalization(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.rank in (3, 4) and min(v.shape) > 0 and v.bound < 100)
    op, c = g.one(("BatchNormalization", "InstanceNormalization", "LayerNormalization")), v.shape[1]
    if op == "BatchNormalization":
        scale, bias, mean = (g.tensor("float32", [c]) for _ in range(3))
        var = g.constant(np.abs(g.values_of("float32", [c])) + 1)
        g.add(op, [v, scale, bias, mean, var], "float32", v.shape, 4 * v.bound + 20)
    elif op == "InstanceNormalization":
        g.add(op, [v, g.tensor("float32", [c]), g.tensor("float32", [c])], "float32", v.shape, 100,
              epsilon=1e-2)  # fmt: skip
    else:
        axis = 1 + g.below(v.rank - 1)
        shape = v.shape[axis:]
        g.add(op, [v, g.tensor("float32", shape), g.tensor("float32", shape)], "float32", v.shape, 100,
              axis=axis, epsilon=1e-2)  # fmt: skip


def resize(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.rank == 4 and min(v.shape) > 0)
    sizes = [*v.shape[:2], *(d * g.one((1, 2, 3)) for d in v.shape[2:])]
    mode = g.one(("nearest", "linear"))
    form = g.one(("half_pixel", "asymmetric"))
    g.add("Resize", [v, "", "", g.constant(np.asarray(sizes))], "float32", sizes, v.bound,
          v.exact and mode == "nearest", mode=mode, coordinate_transformation_mode=form,
          **({"nearest_mode": "floor"} if mode == "nearest" else {}))  # fmt: skip


def triangle(g):
    v = g.pick(lambda v: v.rank >= 2 and v.is_float)
    g.add("Trilu", [v, g.constant(np.asarray(g.below(5) - 2))], v.dtype, v.shape, v.bound, v.exact,
          upper=g.below(2))  # fmt: skip


def einsum(g):
    v = g.floating((2, 3), filled=True)
    letters = "abc"[: v.rank]
    other = letters[-1] + "d" if g.chance(0.5) else letters
    shape = [5 if c == "d" else v.shape[letters.index(c)] for c in other]
    w = g.tensor(v.dtype, shape, 2)
    kept = [c for c in sorted({*letters, *other}) if c == "d" or g.chance(0.6)]
    g.rng.shuffle(kept)
    extents = dict(zip(letters, v.shape)) | {"d": 5}
    bound = v.bound * 2 * v.size
    if bound > 1e5:
        raise NotHere
    g.add("Einsum", [v, w], v.dtype, [extents[c] for c in kept], bound,
          equation=f"{letters},{other}->{''.join(kept)}")  # fmt: skip


def conv_transpose(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.rank in (3, 4) and min(v.shape) > 0 and v.bound < 1e3)
    c, space = v.shape[1], v.shape[2:]
    groups = g.one([d for d in (1, 1, 2) if c % d == 0])
    filters = g.one((1, 2, 4))
    kernel, strides = [g.one((1, 2, 3)) for _ in space], [g.one((1, 2, 3)) for _ in space]
    ends = [g.below(k) for k in kernel], [g.below(k) for k in kernel]
    more = [g.below(s) for s in strides]
    out = [(d - 1) * s + k + o - a - b
           for d, s, k, o, a, b in zip(space, strides, kernel, more, *ends)]  # fmt: skip
    if min(out) < 1:
        raise NotHere
    w = g.tensor("float32", [c, filters, *kernel], 2)
    bound = v.bound * 2 * (c // groups) * int(np.prod(kernel))
    g.add("ConvTranspose", [v, w], "float32", [v.shape[0], filters * groups, *out], bound, strides=strides,
          pads=sum(ends, []), output_padding=more, group=groups)  # fmt: skip


def blocks(g):
    """Blocks of positions become channels, or the reverse."""
    v = g.pick(lambda v: v.dtype == "float32" and v.rank == 4 and min(v.shape) > 0)
    n, c, h, w = v.shape
    if h % 2 == 0 and w % 2 == 0:
        g.add("SpaceToDepth", [v], "float32", [n, 4 * c, h // 2, w // 2], v.bound, v.exact, blocksize=2)
    elif c % 4 == 0:
        g.add("DepthToSpace", [v], "float32", [n, c // 4, 2 * h, 2 * w], v.bound, v.exact, blocksize=2,
              mode=g.one(("DCR", "CRD")))  # fmt: skip
    else:
        raise NotHere
