"""Makers of what optimisers recognise as a whole and of what holds graphs of its own, as those of
fuzz_pointwise: attention, quantised layers, control flow, recurrences, text."""

import numpy as np
from fuzz_pieces import BOOL, EXTENTS, MOST_ELEMENTS, NotHere
from onnx import helper


def attention(g):
    """softmax(scale · q · kᵀ + mask) · v as exports write it, heads shared or not."""
    q = g.pick(lambda v: v.dtype == "float32" and v.rank in (2, 3, 4) and min(v.shape) > 0 and v.bound <= 8)
    *leading, queries, size = q.shape
    keys, extent = g.one(EXTENTS), g.one(EXTENTS)
    shared = [1 if d > 1 and g.chance(0.3) else d for d in leading]  # keys that several heads read
    order = [*range(len(leading)), len(leading) + 1, len(leading)]
    k, v = g.tensor("float32", [*shared, keys, size], 1), g.tensor("float32", [*shared, keys, extent])
    kt = g.add("Transpose", [k], "float32", [*shared, size, keys], 1, perm=order)
    scores = [*leading, queries, keys]
    s = g.add("MatMul", [q, kt], "float32", scores, q.bound * size)
    scale = g.constant(np.float32(1 / np.sqrt(size)))
    s = g.add("Mul", [s, scale], "float32", scores, q.bound * size)
    form = g.below(4)
    if form == 1:  # added
        mask = g.constant(np.where(g.values_of(BOOL, (queries, keys)), 0, -1e4).astype(np.float32))
        s = g.add("Add", [s, mask], "float32", scores, 2e4)
    elif form == 2:  # chosen, from an input
        mask = g.tensor(BOOL, g.one(((queries, keys), (1, keys), (queries, 1))))
        s = g.add("Where", [mask, s, g.constant(np.float32(-1e4))], "float32", scores, 2e4)
    elif form == 3:  # later keys are hidden
        mask = g.constant(np.triu(np.full((queries, keys), -np.inf, np.float32), 1))
        s = g.add("Add", [s, mask], "float32", scores, 2e4)
    w = g.add("Softmax", [s], "float32", scores, 1, axis=len(leading) + 1)
    g.add("MatMul", [w, v], "float32", [*leading, queries, extent], 4)


def quantized_layer(g):
    """A convolution or product between quantised tensors. Scales are powers of two and numbers small:
    sums are exact in floats, so that rounding, to even at ties, is the same everywhere."""
    x = g.pick(lambda v: v.dtype == "float32" and v.exact and v.rank in (2, 4) and min(v.shape) > 0
               and v.bound < 1e3)  # fmt: skip
    zero = g.below(9)
    sx, zx = g.constant(np.float32(0.5)), g.constant(np.uint8(zero))
    q = g.add("QuantizeLinear", [x, sx, zx], "uint8", x.shape, 255, True)
    x = g.add("DequantizeLinear", [q, sx, zx], "float32", x.shape, 128, True)
    out = g.one((1, 2, 5, 8, 16))
    image = x.rank == 4
    taps = [1 + g.below(min(3, d)) for d in x.shape[2:]]
    shape = [out, x.shape[1], *taps] if image else [x.shape[1], out]
    axis = 0 if image else 1
    if g.chance(0.5):  # a scale for each channel
        scale = g.constant(g.one((0.25, 0.5)) * 2.0 ** -g.rng.integers(0, 3, out).astype(np.float32))
        wz = g.constant(np.zeros(out, np.int8))
    else:
        scale, wz = g.constant(np.float32(0.25)), g.constant(np.int8(0))
    w = g.constant(g.rng.integers(-8, 9, shape).astype(np.int8))
    w = g.add("DequantizeLinear", [w, scale, wz], "float32", shape, 4, True, axis=axis)
    bias = g.constant((g.rng.integers(-64, 65, out) / 32).astype(np.float32))
    if image:
        spatial = [d - k + 1 for d, k in zip(x.shape[2:], taps)]
        y = g.add("Conv", [x, w, bias], "float32", [x.shape[0], out, *spatial], 1e5)
    else:
        y = g.add("Gemm", [x, w, bias], "float32", [x.shape[0], out], 1e5)
    if g.chance(0.6):
        y = g.add("Relu", [y], "float32", y.shape, 1e5)
    sy, zy = g.constant(np.float32(g.one((1, 4)))), g.constant(np.uint8(g.one((0, 0, 128))))
    q = g.add("QuantizeLinear", [y, sy, zy], "uint8", y.shape, 255, True)
    g.add("DequantizeLinear", [q, sy, zy], "float32", y.shape, 1024, True)


def info(v, name=None):
    return helper.make_tensor_value_info(
        name or v.name, helper.np_dtype_to_tensor_dtype(np.dtype(v.dtype)), v.shape)  # fmt: skip


def branch(g):
    """An If whose branches read a value of the graph around them."""
    v = g.pick(lambda v: v.dtype in ("float32", "float64", "int32", "int64") and v.bound < 1e4)
    condition = g.tensor(BOOL, ())
    graphs = []
    for op in (g.one(("Neg", "Abs", "Identity")), g.one(("Add", "Mul", "Sub"))):
        inner = g.fresh()
        operands = [v.name] * (2 if op in ("Add", "Mul", "Sub") else 1)
        graphs.append(helper.make_graph([helper.make_node(op, operands, [inner])], op, [], [info(v, inner)]))
    bound = max(v.bound**2, 2 * v.bound)
    g.add("If", [condition], v.dtype, v.shape, bound, v.exact and bound < 100,
          then_branch=graphs[0], else_branch=graphs[1])  # fmt: skip


def loop(g):
    """s ← s / 2 + v: for a number of trips, with s of each trip, or until a condition fails."""
    v = g.pick(lambda v: v.dtype == "float32" and v.rank < 4 and v.bound < 1e4)
    trips, fixed = 1 + g.below(4), g.chance(0.5)
    i, before, s, half, shrunk, after, kept, more, limit = (g.fresh() for _ in range(9))
    nodes = [helper.make_node("Mul", [s, half], [shrunk]), helper.make_node("Add", [shrunk, v.name], [after])]
    scalar = helper.make_tensor_value_info
    weights, results = [helper.make_tensor(half, 1, [], [0.5])], [scalar(more, 9, []), info(v, after)]
    made = [("float32", v.shape, 2 * v.bound + 4, False)]
    if fixed:
        nodes += [helper.make_node("Identity", [before], [more]), helper.make_node("Neg", [after], [kept])]
        results.append(info(v, kept))
        made.append(("float32", (trips, *v.shape), 2 * v.bound + 4, False))
        if trips * v.size > MOST_ELEMENTS:
            raise NotHere
    else:
        nodes.append(helper.make_node("Less", [i, limit], [more]))
        weights.append(helper.make_tensor(limit, 7, [], [g.below(5)]))
    body = helper.make_graph(nodes, "body", [scalar(i, 7, []), scalar(before, 9, []), info(v, s)], results,
                             weights)  # fmt: skip
    g.add_many("Loop", [g.constant(np.int64(trips)), g.constant(np.bool_(True)),
                        g.tensor("float32", v.shape)], made, body=body)  # fmt: skip


def scan(g):
    """Sums along a value's first dimension, forwards or backwards."""
    v = g.pick(lambda v: v.dtype == "float32" and v.rank in (2, 3) and min(v.shape) > 0
               and v.bound * v.shape[0] < 1e3)  # fmt: skip
    s, x, after, kept = (g.fresh() for _ in range(4))
    row = v.shape[1:]
    rows = lambda name: helper.make_tensor_value_info(name, 1, row)
    body = helper.make_graph(
        [helper.make_node("Add", [s, x], [after]), helper.make_node("Tanh", [after], [kept])],
        "body", [rows(s), rows(x)], [rows(after), rows(kept)])  # fmt: skip
    backwards = g.below(2)
    g.add_many("Scan", [g.tensor("float32", row), v],
               [("float32", row, v.bound * v.shape[0] + 4, False), ("float32", v.shape, 1, False)],
               body=body, num_scan_inputs=1, scan_input_directions=[backwards],
               scan_output_directions=[g.below(2)])  # fmt: skip


def recurrence(g):
    v = g.pick(lambda v: v.dtype == "float32" and v.rank == 3 and min(v.shape) > 0 and v.bound <= 8)
    op, gates = g.one((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, width = v.shape
    hidden, direction = g.one((1, 3, 4, 8)), g.one(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    w = g.tensor("float32", [ways, gates * hidden, width], 1)
    r = g.tensor("float32", [ways, gates * hidden, hidden], 1)
    bias = g.tensor("float32", [ways, 2 * gates * hidden], 1) if g.chance(0.5) else ""
    more = {"linear_before_reset": g.below(2)} if op == "GRU" else {}
    results = [("float32", (steps, ways, batch, hidden), 1, False),
               ("float32", (ways, batch, hidden), 1, False)]  # fmt: skip
    if steps * ways * batch * hidden > 2048:
        raise NotHere
    g.add_many(op, [v, w, r, bias], results, hidden_size=hidden, direction=direction, **more)


def text(g):
    """Words joined and compared."""
    words = np.array(["", "a", "ab", "Zü", "längeres Wort", "b"], object)
    shape = g.shape(2)
    left = g.constant(words[g.rng.integers(0, len(words), shape)])
    other = g.constant(words[g.rng.integers(0, len(words), shape[g.below(len(shape) + 1) :])])
    name = g.fresh()
    g.inputs.append(helper.make_tensor_value_info(name, 8, shape))
    g.data[name] = words[g.rng.integers(0, len(words), shape)]
    if not shape:
        g.data[name] = np.array(g.data[name], object)
    joined = g.add_open("StringConcat", [name, other])
    right = g.add_open("StringConcat", [left, other]) if g.chance(0.5) else left
    g.add("Equal", [joined, right], BOOL, shape, 1, True)
