"""Evaluates a QDQ network in exact arithmetic: what its file says, without the rounding of any float type.

A dequantised tensor and all that is linear in such tensors is kept as sums of integers times rational
coefficients. QuantizeLinear divides in double and asks the rational numbers wherever the quotient lies
so close to the boundary between two steps that the double's last bits could decide. Functions (sigmoid,
softmax, ...) are computed in double from there on. An input that is quantised first is divided in
float32, as the operator has it.
"""

from fractions import Fraction

import numpy as np
import onnx
from onnx import numpy_helper

NEAR = 1e-6  # of a step; reals are exact to about 1e-13 of one


def fractions(values):
    values = np.asarray(values)
    found = np.empty(values.shape, object)
    found.flat = [Fraction(float(v)) for v in values.flat]
    return found


class Sum:
    """The sum of terms (coefficients, integers): arrays of Fraction and int64 that broadcast."""

    def __init__(self, *terms):
        self.terms = tuple((np.asarray(c, object), np.asarray(n)) for c, n in terms)

    @property
    def shape(self):
        return np.broadcast_shapes(*(np.broadcast_shapes(c.shape, n.shape) for c, n in self.terms))

    def real(self):
        return np.broadcast_to(sum(c.astype(float) * n for c, n in self.terms), self.shape)

    def map(self, function):
        """`function`, which moves or adds up elements, of every tensor of integers."""
        return Sum(*((c, function(self._whole(c, n))) if c.size == 1 else
                     (function(np.broadcast_to(c, self.shape)), function(self._whole(c, n)))
                     for c, n in self.terms))  # fmt: skip

    def scaled(self, factor):
        return Sum(*((c * Fraction(factor), n) for c, n in self.terms))

    def where(self, mask):
        return Sum(*((c, np.where(mask, n, 0)) for c, n in self.terms))

    def _whole(self, coefficients, integers):
        return np.broadcast_to(integers, self.shape)

    def quantized(self, scale):
        """round(self / scale), half to even."""
        quotient = self.real() / float(scale)
        steps = np.rint(quotient).astype(np.int64)
        close = np.abs(quotient - np.floor(quotient) - 0.5) < NEAR
        if close.any():
            terms = [(np.broadcast_to(c, close.shape), np.broadcast_to(n, close.shape))
                     for c, n in self.terms]  # fmt: skip
            for at in zip(*np.nonzero(close)):
                value = sum(c[at] * int(n[at]) for c, n in terms)
                steps[at] = round(value / Fraction(float(scale)))
        return steps


def constant(values):
    coefficients = fractions(values)
    return Sum((coefficients, np.ones(coefficients.shape, np.int64)))


def real(value):
    return value.real() if isinstance(value, Sum) else np.asarray(value, float)


def along(values, axis, rank):
    """A vector as an array that broadcasts along an axis of a tensor."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def windows(x, kernel, strides, dilations, pads):
    """Every position of a window over the last dimensions, one view for each of its elements."""
    rank = len(kernel)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
    extents = [(n - (k - 1) * d - 1) // s + 1
               for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations)]  # fmt: skip
    for tap in np.ndindex(*kernel):
        cut = [slice(t * d, t * d + (n - 1) * s + 1, s)
               for t, d, n, s in zip(tap, dilations, extents, strides)]  # fmt: skip
        yield tap, x[(slice(None), slice(None), *cut)]


def only_term(value):
    (term,) = value.terms
    return term


def geometry(attributes, kernel):
    rank = len(kernel)
    assert attributes.get("auto_pad", b"NOTSET") == b"NOTSET" and not attributes.get("ceil_mode")
    return (kernel, attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank),
            attributes.get("pads", [0] * 2 * rank))  # fmt: skip


def conv(attributes, x, w, bias=None):
    (cx, x), (cw, w) = only_term(x), only_term(w)
    assert cx.size == 1
    groups, filters = attributes.get("group", 1), w.shape[0]
    found = 0
    for tap, view in windows(x, *geometry(attributes, w.shape[2:])):
        # In float64, where sums of products of bytes are exact and BLAS multiplies.
        views = view.astype(float).reshape(view.shape[0], groups, -1, np.prod(view.shape[2:], dtype=int))
        taps = w[(slice(None), slice(None), *tap)].astype(float).reshape(groups, filters // groups, -1)
        found = found + (taps @ views).reshape(view.shape[0], filters, *view.shape[2:])
    channels = (1, -1) + (1,) * (x.ndim - 2)
    cw = cw if cw.size == 1 else cw.reshape(channels)
    terms = [(cx.reshape(()) * cw, found.astype(np.int64))]
    if bias is not None:
        terms += [(c if c.size == 1 else c.reshape(channels), n.reshape(channels)) for c, n in bias.terms]
    return Sum(*terms)


def matmul(attributes, a, b):
    if not (isinstance(a, Sum) and isinstance(b, Sum)):
        return real(a) @ real(b)
    (ca, a), (cb, b) = only_term(a), only_term(b)
    assert ca.size == 1 and (cb.size == 1 or cb.shape[-2] == 1), "scales along the sum"
    return Sum((ca.reshape(()) * cb, np.rint(a.astype(float) @ b.astype(float)).astype(np.int64)))


def gemm(attributes, a, b, bias=None):
    assert not attributes.get("transA") and attributes.get("alpha", 1) == attributes.get("beta", 1) == 1
    if attributes.get("transB"):
        b = Sum(*((c if c.size == 1 else c.T, n.T) for c, n in b.terms))
    product = matmul({}, a, b)
    return product if bias is None else add({}, product, bias)


def add(attributes, a, b):
    if isinstance(a, Sum) and isinstance(b, Sum):
        return Sum(*a.terms, *b.terms)
    return real(a) + real(b)


def multiply(attributes, a, b):
    if isinstance(a, Sum) and isinstance(b, Sum):
        return Sum(*((c * d, n * m) for c, n in a.terms for d, m in b.terms))
    return real(a) * real(b)


def clip(attributes, x, low=None, high=None):
    low, high = (None if v is None else v.terms[0][0].item() for v in (low, high))
    value = real(x)
    inside = np.ones(value.shape, bool)
    terms = []
    for bound, beyond in ((low, lambda b: value < b), (high, lambda b: value > b)):
        if bound is not None:
            mask = beyond(float(bound))
            inside &= ~mask
            terms.append((np.array(bound, object), mask.astype(np.int64)))
    return Sum(*x.where(inside).terms, *terms)


def relu(attributes, x):
    return x.where(x.real() > 0) if isinstance(x, Sum) else np.maximum(x, 0)


def leaky_relu(attributes, x):
    negative = x.real() < 0
    slope = x.where(negative).scaled(attributes.get("alpha", 0.01))
    return Sum(*x.where(~negative).terms, *slope.terms)


def average_pool(attributes, x):
    shape = geometry(attributes, attributes["kernel_shape"])
    assert not any(shape[3]), "padding"
    add_up = lambda n: sum(view for _, view in windows(n, *shape))
    return x.map(add_up).scaled(Fraction(1, int(np.prod(attributes["kernel_shape"]))))


def global_average_pool(attributes, x):
    axes = tuple(range(2, len(x.shape)))
    count = int(np.prod(x.shape[2:]))
    return x.map(lambda n: n.sum(axes, keepdims=True)).scaled(Fraction(1, count))


def softmax(attributes, x):
    x = real(x)
    powers = np.exp(x - x.max(attributes.get("axis", -1), keepdims=True))
    return powers / powers.sum(attributes.get("axis", -1), keepdims=True)


def erf(attributes, x):
    from math import erf as scalar

    return np.vectorize(scalar)(real(x))


def hard_sigmoid(attributes, x):
    value = np.float32(attributes.get("alpha", 0.2)) * real(x) + np.float32(attributes.get("beta", 0.5))
    return np.clip(value, 0, 1)


def move(function):
    return lambda attributes, x, *rest: (
        x.map(lambda n: function(n, attributes, *rest)) if isinstance(x, Sum)
        else function(x, attributes, *rest))  # fmt: skip


def reshaped(x, attributes, shape):
    shape = [int(n) for n in shape]
    assert not attributes.get("allowzero")
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def flattened(x, attributes):
    return x.reshape(int(np.prod(x.shape[: attributes.get("axis", 1)], dtype=int)), -1)


OPERATORS = {
    "Add": add,
    "AveragePool": average_pool,
    "Clip": clip,
    "Conv": conv,
    "Erf": erf,
    "Flatten": move(flattened),
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda a, x: real(x) * np.clip(real(x) / 6 + 0.5, 0, 1),
    "LeakyRelu": leaky_relu,
    "MatMul": matmul,
    "Mul": multiply,
    "Relu": relu,
    "Reshape": move(reshaped),
    "Sigmoid": lambda a, x: 1 / (1 + np.exp(-real(x))),
    "Softmax": softmax,
    "Tanh": lambda a, x: np.tanh(real(x)),
    "Transpose": move(lambda n, a: n.transpose(a.get("perm"))),
}


class ExactNetwork:
    def __init__(self, file):
        self.graph = onnx.load(file).graph
        self.arrays = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
                       for v in self.graph.input}  # fmt: skip

    def quantized(self, inputs, given=None):
        """Every quantised tensor by its name, from inputs by name. With `given`, tensors of the same
        names, each of them is computed from those before it."""
        values = {name: array.reshape(self.shapes[name]) for name, array in inputs.items()}
        found = {}
        for node in self.graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "DequantizeLinear":
                result = self._dequantize(attributes, values, *node.input)
            elif node.op_type == "QuantizeLinear":
                result = found[node.output[0]] = self._quantize(attributes, values, *node.input)
                if given is not None:
                    result = given[node.output[0]].reshape(result.shape)
            else:
                operands = [self._operand(values, name, node, i) for i, name in enumerate(node.input)]
                result = OPERATORS[node.op_type](attributes, *operands)
            values[node.output[0]] = result
        return found

    def _operand(self, values, name, node, index):
        if name in values or not name:
            return values.get(name)
        array = self.arrays[name]
        return constant(array) if array.dtype == np.float32 else array

    def _dequantize(self, attributes, values, tensor, scale, zero=""):
        q = np.asarray(values[tensor] if tensor in values else self.arrays[tensor]).astype(np.int64)
        axis = attributes.get("axis", 1)
        zero = self.arrays[zero].astype(np.int64) if zero else np.zeros(1, np.int64)
        scale = fractions(self.arrays[scale])
        return Sum((along(scale, axis, q.ndim), q - along(zero, axis, q.ndim)))

    def _quantize(self, attributes, values, tensor, scale, zero):
        x, scale, zero = values[tensor], self.arrays[scale], self.arrays[zero]
        assert scale.size == 1
        if isinstance(x, Sum):
            steps = x.quantized(scale)
        else:
            # float32 by float32 for inputs of the network, doubles for functions
            steps = np.rint(x / (scale if x.dtype == np.float32 else float(scale))).astype(np.int64)
        limits = np.iinfo(zero.dtype)
        return np.clip(steps + int(zero), limits.min, limits.max).astype(zero.dtype)
