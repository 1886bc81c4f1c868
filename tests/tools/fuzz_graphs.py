"""Random valid ONNX graphs: types, shapes with zero extents and rank 0, broadcasting corners, chains
that fuse, movement around contractions and reductions.

Every value knows its type, shape, a bound on its magnitude, and whether it is exact: small multiples
of 1/4 that every implementation computes alike. Only exact values go to functions with steps
(rounding, comparisons, indices of extremes), which would make a difference in the last place a large
one."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INTEGER, BOOL = ("float32", "float64"), ("int32", "int64", "int8", "uint8"), "bool"
OPSET = 21
MOST_ELEMENTS = 4096
EXTENTS = (1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 17)


class Value:
    def __init__(self, name, dtype, shape, bound, exact):
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)
        self.bound, self.exact = bound, exact

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_float(self):
        return self.dtype in FLOAT


class NotHere(Exception):
    """A maker found no operands it can use."""


class Generator:
    """Makes one graph from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.values, self.nodes, self.weights, self.inputs = [], [], [], []
        self.data, self.count = {}, 0

    # Choices

    def below(self, n):
        return int(self.rng.integers(n))

    def chance(self, p):
        return self.rng.random() < p

    def one(self, options):
        return options[self.below(len(options))]

    def pick(self, test=lambda v: True):
        """One of the values that pass the test, late ones more often."""
        found = [v for v in self.values if test(v)]
        if not found:
            raise NotHere
        weights = np.arange(1, len(found) + 1, dtype=float) ** 2
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def floating(self, rank=None, **more):
        low, high = (0, 9) if rank is None else rank
        return self.pick(lambda v: v.is_float and low <= v.rank <= high and v.bound < 1e4
                         and (v.size > 0 or not more.get("filled")))  # fmt: skip

    # Pieces of a graph

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def values_of(self, dtype, shape, spread=4):
        if dtype == BOOL:
            return np.asarray(self.rng.integers(0, 2, shape), bool)
        if dtype in FLOAT:
            return np.asarray(self.rng.integers(-4 * spread, 4 * spread + 1, shape) / 4, dtype)
        low = 0 if dtype.startswith("u") else -spread
        return np.asarray(self.rng.integers(low, spread + 1, shape), dtype)

    def add(self, op, operands, dtype, shape, bound, exact=False, **attributes):
        """A node with one result, which it returns."""
        if int(np.prod(shape, dtype=np.int64)) > MOST_ELEMENTS:
            raise NotHere
        return self.add_many(op, operands, [(dtype, shape, bound, exact)], **attributes)[0]

    def add_many(self, op, operands, results, **attributes):
        names = [operand if isinstance(operand, str) else operand.name for operand in operands]
        outputs = [Value(self.fresh(), *result) for result in results]
        self.nodes.append(helper.make_node(op, names, [v.name for v in outputs], **attributes))
        self.values += outputs
        return outputs

    def constant(self, array):
        name = self.fresh()
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def tensor(self, dtype, shape, spread=4):
        """A new tensor: an input or a weight; not yet among the values that others pick."""
        array = self.values_of(dtype, shape, spread)
        name = self.fresh()
        if self.chance(0.5):
            self.weights.append(numpy_helper.from_array(array, name))
        else:
            self.inputs.append(helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))  # fmt: skip
            self.data[name] = array
        return Value(name, dtype, shape, spread, True)

    def shape(self, most=4):
        rank = self.one((0, 1, 1, 2, 2, 2, 3, 3, 4, 4)[: 2 + 2 * most])
        extents = [self.one(EXTENTS) for _ in range(rank)]
        if rank and self.chance(0.05):
            extents[self.below(rank)] = 0
        while np.prod(extents, dtype=np.int64) > MOST_ELEMENTS // 4:
            extents[int(np.argmax(extents))] = 2
        return tuple(extents)

    def partner(self, v):
        """A value or a new tensor that broadcasts with `v`."""
        if self.chance(0.4):
            found = [w for w in self.values if w.dtype == v.dtype and broadcast(v.shape, w.shape)]
            if found:
                return self.one(found)
        shape = [1 if self.chance(0.3) else d for d in v.shape]
        shape = shape[self.below(len(shape) + 1) :] if self.chance(0.5) else shape
        if self.chance(0.1):
            shape = [self.one((1, 2, 3)), *shape] if len(shape) == v.rank < 4 else shape
        return self.tensor(v.dtype, tuple(shape))

    def graph(self):
        """The model, after as many nodes as chance wants."""
        for _ in range(1 + self.below(2)):
            dtype = self.one(("float32",) * 6 + ("float64", *INTEGER, BOOL))
            shape = self.shape()
            array = self.values_of(dtype, shape)
            name = self.fresh()
            self.inputs.append(helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))  # fmt: skip
            self.data[name] = array
            self.values.append(Value(name, dtype, shape, 4, True))
        wanted = 1 + self.below(14)
        for _ in range(8 * wanted):
            if len(self.nodes) >= wanted:
                break
            before = len(self.nodes), len(self.values), len(self.weights), len(self.inputs)
            try:
                self.one(MAKERS)(self)
            except NotHere:
                for index in range(before[3], len(self.inputs)):
                    del self.data[self.inputs[index].name]
                for items, length in zip((self.nodes, self.values, self.weights, self.inputs), before):
                    del items[length:]
        if not self.nodes:
            v = self.values[0]
            self.add("Identity", [v], v.dtype, v.shape, v.bound, True)
        return self.finish()

    def finish(self):
        used = {name for node in self.nodes for name in node.input}
        made = {name: v for v in self.values for name in [v.name]}
        outputs = [made[name] for node in self.nodes for name in node.output if name not in used]
        for v in self.values:  # one result that is read and given away
            if v.name in used and v not in outputs and self.chance(0.05) and v.name not in self.data:
                outputs.append(v)
        inputs = [info for info in self.inputs if info.name in used]
        weights = [w for w in self.weights if w.name in used]
        infos = [helper.make_tensor_value_info(
            v.name, helper.np_dtype_to_tensor_dtype(np.dtype(v.dtype)), v.shape) for v in outputs]  # fmt: skip
        graph = helper.make_graph(self.nodes, "fuzz", inputs, infos, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10
        onnx.checker.check_model(model, full_check=True)
        return model, {info.name: self.data[info.name] for info in inputs}


def broadcast(a, b):
    try:
        return np.broadcast_shapes(a, b) is not None
    except ValueError:
        return False


SMOOTH = {  # bound of the result
    "Relu": lambda b: b, "Sigmoid": lambda b: 1, "Tanh": lambda b: 1, "Erf": lambda b: 1,
    "Softplus": lambda b: b + 1, "Softsign": lambda b: 1, "Elu": lambda b: b, "Selu": lambda b: 2 * b,
    "LeakyRelu": lambda b: b, "HardSigmoid": lambda b: 1, "HardSwish": lambda b: b, "Neg": lambda b: b,
    "Abs": lambda b: b, "Cos": lambda b: 1, "Sin": lambda b: 1, "Atan": lambda b: 2, "Mish": lambda b: b,
    "Gelu": lambda b: b,
}  # fmt: skip
EXACT = ("Relu", "Neg", "Abs")
F32_ONLY = ("HardSwish", "Mish", "Gelu", "Softsign", "Selu", "Elu", "Softplus", "HardSigmoid", "Erf",
            "Atan", "LeakyRelu", "Cos")  # fmt: skip


def unary(g):
    v = g.floating()
    op = g.one(list(SMOOTH))
    if v.dtype != "float32" and op in F32_ONLY or v.bound > 50 and op in ("Sin", "Cos"):
        raise NotHere
    if op == "Sigmoid" and v.bound > 8:  # onnxruntime's is a polynomial, 7 % off at -14
        raise NotHere
    g.add(op, [v], v.dtype, v.shape, SMOOTH[op](v.bound), v.exact and op in EXACT)


def positive(g):
    """Functions of what is not negative."""
    v = g.floating()
    inner = g.add("Abs", [v], v.dtype, v.shape, v.bound, v.exact)
    one = g.constant(np.asarray(1, v.dtype))
    shifted = g.add("Add", [inner, one], v.dtype, v.shape, v.bound + 1, v.exact)
    op = g.one(("Sqrt", "Log", "Reciprocal"))
    g.add(op, [shifted], v.dtype, v.shape, v.bound + 1)


def stepped(g):
    v = g.pick(lambda v: v.is_float and v.exact and v.bound < 1e4)
    op = g.one(("Floor", "Ceil", "Round", "Sign"))
    g.add(op, [v], v.dtype, v.shape, v.bound + 1, True)


def clip(g):
    v = g.pick(lambda v: v.dtype in ("float32", "int32", "int64", "int8"))
    low, high = sorted(g.values_of("int32", (2,)).tolist())
    if v.dtype == "int8" and v.bound > 100:
        raise NotHere
    g.add("Clip", [v, g.constant(np.asarray(low, v.dtype)), g.constant(np.asarray(high, v.dtype))],
          v.dtype, v.shape, 4, v.exact)  # fmt: skip


def binary(g):
    v = g.pick(lambda v: v.dtype != BOOL and v.bound < 1e3)
    w = g.partner(v)
    op = g.one(("Add", "Sub", "Mul", "Min", "Max", "Add", "Mul"))
    if v.dtype in ("int8", "uint8") and (op in ("Add", "Sub", "Mul") or v.bound > 100):
        raise NotHere
    bound = v.bound * w.bound if op == "Mul" else v.bound + w.bound
    if bound > 1e5:
        raise NotHere
    exact = v.exact and w.exact and (op != "Mul" or v.bound * w.bound < 100)
    operands = [v, w] if g.chance(0.5) else [w, v]
    g.add(op, operands, v.dtype, np.broadcast_shapes(v.shape, w.shape), bound, exact)


def divide(g):
    v = g.floating()
    w = g.tensor(v.dtype, v.shape if g.chance(0.5) else ())
    inner = g.add("Abs", [w], v.dtype, w.shape, w.bound, True)
    one = g.add("Add", [inner, g.constant(np.asarray(1, v.dtype))], v.dtype, w.shape, 5, True)
    g.add("Div", [v, one], v.dtype, v.shape, v.bound)


def compare(g):
    v = g.pick(lambda v: v.exact and v.dtype in ("float32", "int32", "int64"))
    w = g.partner(v)
    if not w.exact:
        raise NotHere
    op = g.one(("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"))
    g.add(op, [v, w], BOOL, np.broadcast_shapes(v.shape, w.shape), 1, True)


def logic(g):
    v = g.pick(lambda v: v.dtype == BOOL)
    if g.chance(0.3):
        g.add("Not", [v], BOOL, v.shape, 1, True)
        return
    w = g.partner(v)
    g.add(g.one(("And", "Or", "Xor")), [v, w], BOOL, np.broadcast_shapes(v.shape, w.shape), 1, True)


def where(g):
    c = g.pick(lambda v: v.dtype == BOOL)
    v = g.tensor("float32", c.shape) if g.chance(0.5) else g.floating()
    if v.dtype != "float32" or not broadcast(c.shape, v.shape):
        raise NotHere
    w = g.partner(v)
    if not broadcast(np.broadcast_shapes(c.shape, v.shape), w.shape):
        raise NotHere
    shape = np.broadcast_shapes(c.shape, v.shape, w.shape)
    g.add("Where", [c, v, w], v.dtype, shape, max(v.bound, w.bound), v.exact and w.exact)


def cast(g):
    v = g.pick(lambda v: v.exact and v.bound < 100)
    to = g.one(("float32", "float32", "float64", "int32", "int64", BOOL))
    if v.is_float and to in INTEGER:
        v = g.add("Floor", [v], v.dtype, v.shape, v.bound + 1, True)
    g.add("Cast", [v], to, v.shape, max(1, v.bound), True,
          to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))  # fmt: skip


def reshape(g):
    v = g.pick(lambda v: v.size > 0)
    factors, rest = [], v.size
    while rest > 1 and len(factors) < 3:
        f = g.one([k for k in range(1, min(rest, 32) + 1) if rest % k == 0])
        factors.append(f)
        rest //= f
    shape = [*factors, rest] if rest > 1 or not factors else factors
    g.add("Reshape", [v, g.constant(np.asarray(shape, np.int64))], v.dtype, shape, v.bound, v.exact)


def transpose(g):
    v = g.pick(lambda v: v.rank > 1)
    perm = [int(i) for i in g.rng.permutation(v.rank)]
    g.add("Transpose", [v], v.dtype, [v.shape[p] for p in perm], v.bound, v.exact, perm=perm)


def unsqueeze(g):
    v = g.pick(lambda v: v.rank < 4)
    axis = g.below(v.rank + 1)
    shape = [*v.shape[:axis], 1, *v.shape[axis:]]
    g.add("Unsqueeze", [v, g.constant(np.asarray([axis]))], v.dtype, shape, v.bound, v.exact)


def squeeze(g):
    v = g.pick(lambda v: 1 in v.shape)
    axis = g.one([i for i, d in enumerate(v.shape) if d == 1])
    shape = [*v.shape[:axis], *v.shape[axis + 1 :]]
    g.add("Squeeze", [v, g.constant(np.asarray([axis]))], v.dtype, shape, v.bound, v.exact)


def slice_(g):
    v = g.pick(lambda v: v.rank > 0)
    axis, step = g.below(v.rank), g.one((1, 1, 2, -1, -2))
    start, end = g.below(v.shape[axis] + 1), g.below(v.shape[axis] + 1)
    if step > 0:
        start, end = min(start, end), max(start, end)
    picked = len(range(v.shape[axis])[start:end:step])
    shape = [picked if i == axis else d for i, d in enumerate(v.shape)]
    words = [g.constant(np.asarray([n])) for n in (start, end, axis, step)]
    g.add("Slice", [v, *words], v.dtype, shape, v.bound, v.exact)


def concat(g):
    v = g.pick(lambda v: v.rank > 0)
    axis = g.below(v.rank)
    parts = [v]
    for _ in range(1 + g.below(2)):
        like = [w for w in g.values if w.dtype == v.dtype and w.rank == v.rank and all(
            a == b for i, (a, b) in enumerate(zip(w.shape, v.shape)) if i != axis)]  # fmt: skip
        shape = [g.one(EXTENTS) if i == axis else d for i, d in enumerate(v.shape)]
        parts.append(g.one(like) if like and g.chance(0.6) else g.tensor(v.dtype, shape))
    if g.chance(0.5):
        parts.reverse()
    shape = [sum(p.shape[axis] for p in parts) if i == axis else d for i, d in enumerate(v.shape)]
    g.add("Concat", parts, v.dtype, shape, max(p.bound for p in parts), all(p.exact for p in parts),
          axis=axis)  # fmt: skip


def split(g):
    v = g.pick(lambda v: v.rank > 0 and max(v.shape) > 1)
    axis = g.one([i for i, d in enumerate(v.shape) if d > 1])
    first = 1 + g.below(v.shape[axis] - 1)
    sizes = [first, v.shape[axis] - first]
    results = [(v.dtype, [n if i == axis else d for i, d in enumerate(v.shape)], v.bound, v.exact)
               for n in sizes]  # fmt: skip
    g.add_many("Split", [v, g.constant(np.asarray(sizes))], results, axis=axis)


def gather(g):
    v = g.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    axis = g.below(v.rank)
    shape = g.one(((), (1,), (3,), (2, 2)))
    indices = g.constant(g.rng.integers(-v.shape[axis], v.shape[axis], shape))
    g.add("Gather", [v, indices], v.dtype, [*v.shape[:axis], *shape, *v.shape[axis + 1 :]], v.bound,
          v.exact, axis=axis)  # fmt: skip


def gather_elements(g):
    v = g.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    axis = g.below(v.rank)
    shape = [1 + g.below(d) for d in v.shape]
    indices = g.constant(g.rng.integers(-v.shape[axis], v.shape[axis], shape))
    g.add("GatherElements", [v, indices], v.dtype, shape, v.bound, v.exact, axis=axis)


def scatter(g):
    v = g.pick(lambda v: v.rank > 0 and min(v.shape) > 0 and v.is_float)
    rows = g.rng.permutation(v.shape[0])[: 1 + g.below(v.shape[0])].reshape(-1, 1)
    updates = g.tensor(v.dtype, [len(rows), *v.shape[1:]])
    g.add("ScatterND", [v, g.constant(rows), updates], v.dtype, v.shape, max(v.bound, 4), v.exact)


def pad(g):
    v = g.pick(lambda v: v.rank > 0 and v.is_float and min(v.shape) > 0)
    mode = g.one(("constant", "constant", "edge", "reflect"))
    most = [min(3, d) if mode == "reflect" else 3 for d in v.shape]
    ends = [g.below(m) for m in most], [g.below(m) for m in most]
    shape = [d + a + b for d, a, b in zip(v.shape, *ends)]
    g.add("Pad", [v, g.constant(np.asarray(sum(ends, [])))], v.dtype, shape, v.bound, v.exact,
          mode=mode)  # fmt: skip


def tile(g):
    v = g.pick(lambda v: v.rank > 0 and v.dtype != "int8")
    repeats = [g.one((1, 1, 2, 3)) for _ in v.shape]
    g.add("Tile", [v, g.constant(np.asarray(repeats))], v.dtype, [d * r for d, r in zip(v.shape, repeats)],
          v.bound, v.exact)  # fmt: skip


def expand(g):
    v = g.pick()
    shape = [g.one((1, 2, 3)) if d == 1 else d for d in v.shape]
    shape = [2, *shape] if len(shape) < 4 and g.chance(0.4) else shape
    g.add("Expand", [v, g.constant(np.asarray(shape, np.int64))], v.dtype, shape, v.bound, v.exact)


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


def integer_arithmetic(g):
    v = g.pick(lambda v: v.dtype in ("int32", "int64") and v.bound < 1e4)
    by = g.constant(np.asarray(g.one((1, 2, 3, -2)), v.dtype))
    op = g.one(("Div", "Mod"))
    g.add(op, [v, by], v.dtype, v.shape, v.bound + 3, True)


def quantized(g):
    """Through 8-bit integers and back. The scale is a power of two and the input exact: no ties."""
    v = g.pick(lambda v: v.dtype == "float32" and v.exact and v.bound < 1e3)
    scale, zero = g.constant(np.float32(0.5)), g.constant(np.asarray(g.below(9), np.uint8))
    q = g.add("QuantizeLinear", [v, scale, zero], "uint8", v.shape, 255, True)
    g.add("DequantizeLinear", [q, scale, zero], "float32", v.shape, 128, True)


MAKERS = (
    unary, unary, unary, unary, positive, stepped, clip, binary, binary, binary, binary, divide, compare,
    logic, where, cast, reshape, reshape, transpose, transpose, unsqueeze, squeeze, slice_, slice_, concat,
    concat, split, gather, gather_elements, scatter, pad, tile, expand, reduce_, reduce_, arg, top, softmax,
    cumsum, matmul, matmul, gemm, conv, conv, pool, normalization, resize, triangle, integer_arithmetic,
    quantized,
)  # fmt: skip


def random_model(seed):
    """(model, {input: array})."""
    return Generator(seed).graph()
