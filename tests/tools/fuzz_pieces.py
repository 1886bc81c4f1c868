"""What random ONNX graphs are put together from: values with what is known of them, chance, nodes.

Every value knows its type, shape, a bound on its magnitude, and whether it is exact: small multiples
of 1/4 that every implementation computes alike. Only exact values go to functions with steps
(rounding, comparisons, indices of extremes), which would make a difference in the last place a large
one."""

import numpy as np
from onnx import helper, numpy_helper

FLOAT, INTEGER, BOOL = ("float32", "float64"), ("int32", "int64", "int8", "uint8"), "bool"
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


def reads(node):
    """Names that a node reads, those that its graphs take from around them included."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            own = {info.name for info in graph.input} | {w.name for w in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            names += [name for inner in graph.node for name in reads(inner) if name not in own]
    return names


def broadcast(a, b):
    try:
        return np.broadcast_shapes(a, b) is not None
    except ValueError:
        return False


class Pieces:
    """Values and nodes of one graph so far, and chance: what a maker of nodes is given."""

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

    def add_open(self, op, operands, **attributes):
        """A node whose result has a size that depends on data; its name, which the maker goes on from."""
        names = [operand if isinstance(operand, str) else operand.name for operand in operands]
        name = self.fresh()
        self.nodes.append(helper.make_node(op, names, [name], **attributes))
        return name

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
