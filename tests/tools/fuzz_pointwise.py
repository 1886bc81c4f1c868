"""Makers of pointwise nodes: each takes a graph so far (fuzz_pieces.Pieces) and adds to it, or raises
NotHere."""

import numpy as np
from fuzz_pieces import BOOL, INTEGER, NotHere, broadcast
from onnx import helper

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
