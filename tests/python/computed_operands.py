"""Groups in which one operand of an anchor is computed on the way in: every anchor by every kind of
operand, as .tn text. See test_computed_operands.py."""

import re
from dataclasses import dataclass

FLOATS = {"f32", "f16", "bf16"}


@dataclass
class Source:
    """What computes one operand: a map of tensors. `inputs`: element types, `C` behind them for one
    number per channel; `body` is given the names of their elements, as f32 where floats are
    narrower, and gives lines and the name of its result in the type `to`."""

    name: str
    inputs: tuple
    body: str
    to: str = "f32"


def dequantize(element, zero):
    return (f"%s = const {{to = !f32, value = 0.05}} : f32\n%z = const {{to = !{element}, value = {zero}}} : "
            f"{element}\n%r = dequantize %a, %s, %z : f32")  # fmt: skip


def cast(element):
    return f"%r = cast %a {{to = !{element}}} : {element}"


# `E`: the element type of the operand; `O`: another float.
FLOAT_SOURCES = [
    Source("relu", ("E",), "%r = relu %a : f32"),
    Source("scaled", ("E", "f32C"), "%r = mul %a, %b : f32"),
    Source("scaled_in_halves", ("E", "f16C"), "%r = mul %a, %b : f32"),
    Source("other_float", ("O",), "%r = relu %a : f32"),
    Source("u8", ("u8",), dequantize("u8", 3)),
    Source("i8", ("i8",), dequantize("i8", -3)),
    Source("i8_channels", ("i8", "f32C"), dequantize("i8", 0).replace("%a, %s", "%a, %b")),
    Source("u8_zeros", ("u8", "u8C"), dequantize("u8", 0).replace("%s, %z", "%s, %b")),
    Source("u4", ("u4",), dequantize("u4", 7)),
    Source("i4_zeros", ("u8", "i4C"), "%k = cast %b {to = !u8} : u8\n" + dequantize("u8", 0).replace("%s, %z", "%s, %k")),
    Source("i16", ("i16",), dequantize("i16", 3)),
    Source("i32", ("i32",), dequantize("i32", 3)),
    Source("i64", ("i64",), cast("f32")),
    Source("f64", ("f64",), cast("f32")),
    Source("bool", ("i1",), cast("f32")),
    Source("sum", ("E", "E"), "%r = add %a, %b : f32"),
    Source("sum_dequantized", ("u8", "E"), dequantize("u8", 3).replace("%r =", "%d =") + "\n%r = add %d, %b : f32"),
    Source("position", ("E",), "%i = index {dim = 1, to = !i64} : i64\n%f = cast %i {to = !f32} : f32\n%r = add %a, %f : f32"),
]  # fmt: skip
BYTE_SOURCES = [
    Source("narrowed", ("i32",), cast("E"), "E"),
    Source("other_byte", ("O",), cast("E"), "E"),
    Source("widened", ("u4",), cast("E"), "E"),
]


@dataclass
class Anchor:
    """An operation whose first operand is computed. `shape`: of that operand, `channel` its dimension of
    channels; `line`: the operation, reading %m and `constants` (name -> type); `results`: types."""

    name: str
    shape: tuple
    line: str
    results: tuple
    elements: tuple = ("f32", "f16", "bf16")
    layouts: tuple = ("", ", nhwc")
    channel: int = 1
    constants: dict = None


def convolution(name, channels, filters, kernel, size=8, groups=1, stride=1, rank=2, **more):
    out = -(-size // stride)
    taps, plane = "x".join([str(kernel)] * rank), "x".join([str(out)] * rank)
    pads = ", ".join([str(kernel // 2)] * (2 * rank))
    return Anchor(
        name, (2, channels, *[size] * rank),
        f"conv %m, %w {{groups = {groups}, pads = [{pads}], strides = [{', '.join([str(stride)] * rank)}]}}",
        (f"2x{filters}x{plane}xA",), constants={"w": f"{filters}x{channels // groups}x{taps}xE"},
        layouts=("", ", nhwc") if rank == 2 else ("",), **more)  # fmt: skip


ANCHORS = [
    convolution("conv_1x1", 32, 32, 1),
    convolution("conv_3x3", 32, 32, 3),
    convolution("conv_strided", 32, 32, 3, stride=2),
    convolution("conv_first", 3, 16, 3, stride=2),
    convolution("conv_grouped", 32, 32, 3, groups=4),
    convolution("conv_depthwise", 16, 16, 3, groups=16),
    convolution("conv_multiplied", 16, 32, 3, groups=16),
    convolution("conv_wide_windows", 16, 16, 7, groups=16, size=16),
    convolution("conv_line", 16, 32, 3, rank=1),
    convolution("conv_volume", 16, 16, 3, rank=3, size=4),
    convolution("conv_point", 64, 32, 1, size=1),
    Anchor("matmul_row", (1, 64), "matmul %m, %w", ("1x32xA",), constants={"w": "64x32xE"}, layouts=("",)),
    Anchor("matmul_rows", (40, 64), "matmul %m, %w", ("40x32xA",), constants={"w": "64x32xE"}, layouts=("",)),
    Anchor("matmul_batches", (3, 40, 64), "matmul %m, %v", ("3x40x32xA",), channel=2, layouts=("",),
           constants={"v": "3x64x32xE input"}),
    Anchor("matmul_right", (3, 64, 32), "matmul %v, %m", ("3x40x32xA",), channel=2, layouts=("",),
           constants={"v": "3x40x64xE input"}),
    Anchor("matmul_columns", (64, 40), "matmul %m, %w {trans_a = true}", ("40x32xA",), channel=0,
           constants={"w": "64x32xE"}, layouts=("",)),
    Anchor("matmul_narrow", (1, 64), "matmul %m, %w, %h {block = 32, trans_b = true}", ("1x32xE",), layouts=("",),
           elements=("f32", "f16"), constants={"w": "32x64xi4", "h": "32x2xE"}),
    Anchor("pool_max", (2, 16, 8, 8), "pool %m {kind = max, kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}",
           ("2x16x4x4xE",), elements=("f32", "f16", "u8")),
    Anchor("pool_mean", (2, 16, 8, 8), "pool %m {kind = average, kernel = [2, 2], strides = [2, 2], pads = [0, 0, 0, 0]}",
           ("2x16x4x4xE",)),
    Anchor("pool_line", (2, 16, 8), "pool %m {kind = max, kernel = [3], strides = [2], pads = [1, 1]}", ("2x16x4xE",),
           layouts=("",)),
    Anchor("pool_volume", (1, 8, 4, 4, 4), "pool %m {kind = max, kernel = [2, 2, 2], strides = [2, 2, 2], pads = [0, 0, 0, 0, 0, 0]}",
           ("1x8x2x2x2xE",), layouts=("",)),
    Anchor("resize_nearest", (2, 16, 4, 4), "resize %m {mode = nearest, shape = dims[2, 16, 8, 8]}", ("2x16x8x8xE",),
           elements=("f32", "f16", "u8")),
    Anchor("resize_linear", (2, 16, 4, 4), "resize %m {mode = linear, shape = dims[2, 16, 8, 8]}", ("2x16x8x8xE",)),
    Anchor("resize_channels", (2, 16, 4), "resize %m {mode = linear, shape = dims[2, 32, 4]}", ("2x32x4xE",), layouts=("",)),
    Anchor("reduce_sum", (6, 40), "reduce %m {axes = [1], init = floats[0.0]} (%p: E, %q: E) {\n%t = add %p, %q : E\nyield %t\n}",
           ("6xE",), elements=("f32",), layouts=("",)),
    Anchor("reduce_across", (40, 6), "reduce %m {axes = [0], init = floats[0.0]} (%p: E, %q: E) {\n%t = add %p, %q : E\nyield %t\n}",
           ("6xE",), elements=("f32",), layouts=("",)),
    Anchor("softmax", (6, 40), "softmax %m {axis = 1}", ("6x40xE",), layouts=("",)),
    Anchor("softmax_across", (6, 40), "softmax %m {axis = 0}", ("6x40xE",), layouts=("",)),
    Anchor("normalize", (6, 40), "normalize %m {axes = [1], centered = true, epsilon = 0.00001}", ("6x40xf32",), layouts=("",)),
    Anchor("topk", (6, 40), "topk %m {axis = 1, k = dims[3], largest = true, sorted = true}", ("6x3xE", "6x3xi64"),
           layouts=("",), elements=("f32", "f16", "u8")),
    Anchor("gather", (6, 40), "gather %m, %v {axis = 0}", ("3x40xE",), constants={"v": "3xi64 input"}, layouts=("",)),
    Anchor("attention", (3, 20, 32), "attention %m, %v, %v {scale = 0.2}", ("3x20x32xE",), channel=2,
           elements=("f16", "bf16"), constants={"v": "3x20x32xE input"}, layouts=("",)),
]  # fmt: skip
BYTES = ("i8", "u8")
for a in ANCHORS[:13]:
    a.elements = (*a.elements, *BYTES)
OTHER = {"f32": "f16", "f16": "f32", "bf16": "f32", "i8": "u8", "u8": "i8"}


def shape_text(shape):
    return "x".join(str(d) for d in shape)


class Case:
    """One group. `takes` says what of the graph it needs."""

    def __init__(self, anchor, source, element, layout):
        self.anchor, self.source, self.element, self.layout = anchor, source, element, layout
        words = [anchor.name, element, source.name, layout.strip(", ")]
        self.name = ".".join(w for w in words if w)

    def concrete(self, element):
        """(element type, whether there is one for each channel)"""
        channels = element.endswith("C")
        return element.removesuffix("C").replace("E", self.element).replace("O", OTHER[self.element]), channels

    def text(self, number, precision="", copied=False):
        """(inputs of the graph, its lines, names of results), with names of their own. `precision`: of
        products of f32; `copied`: what is read lies in memory of the model's own."""
        a, s, e = self.anchor, self.source, self.element
        accumulated = "i32" if e in BYTES else e
        inputs, lines, arguments, regions, names = [], [], [], [], "abcd"
        maps, scalars, widened = [], [], ""
        for i, element in enumerate(s.inputs):
            element, channels = self.concrete(element)
            layout = "" if channels else self.layout
            shape = (a.shape[a.channel],) if channels else a.shape
            kind = f"tensor<{shape_text(shape)}x{element}{layout}>"
            inputs.append((f"x{number}_{i}", kind))
            if copied:
                lines.append(f"%k{number}_{i} = map %x{number}_{i} (%e{number}_{i}: {element}) {{")
                lines += [f"yield %e{number}_{i}", f"}} : {kind}"]
            arguments.append(f"%{'k' if copied else 'x'}{number}_{i}")
            regions.append(f"%g{i}: {kind}")
            maps.append(f"%g{i}" + (f"[{a.channel}]" if channels else ""))
            narrow = element in FLOATS and element != "f32"
            scalars.append(f"%{names[i]}{'_' if narrow else ''}: {element}")
            if narrow:
                widened += f"%{names[i]} = cast %{names[i]}_ {{to = !f32}} : f32\n"
        for name, kind in (a.constants or {}).items():
            given = kind.endswith(" input")
            # Weights of bytes are signed.
            kind = kind.removesuffix(" input").replace("E", e if given or e not in BYTES else "i8")
            if given:
                inputs.append((f"{name}{number}", f"tensor<{kind}>"))
            else:
                layout = self.layout if kind.count("x") == 4 else ""
                value = f"splat<{kind}: 3>" if kind.endswith("i4") else f"random<{kind}>"
                lines.append(f"%{name}{number} = constant {{value = {value}}} : tensor<{kind}{layout}>")
                kind += layout
            arguments.append(f"%{name}{number}")
            regions.append(f"%{name}: tensor<{kind}>")
        body = widened + s.body.replace("E", e)
        result = "%r"
        if s.to == "f32" and e != "f32":
            body += f"\n%n = cast %r {{to = !{e}}} : {e}"
            result = "%n"
        operation = a.line.replace("E", e)
        if precision and e == "f32" and operation.startswith(("conv", "matmul")) and "block" not in operation:
            operation = operation.replace("{", f"{{precision = {precision}, ")
            operation += "" if "{" in operation else f" {{precision = {precision}}}"
        results = [f"tensor<{r.replace('A', accumulated).replace('E', e)}{self.layout}>" for r in a.results]
        made = ", ".join(f"%y{number}_{i}" for i in range(len(results)))
        inner = ", ".join(f"%o{i}" for i in range(len(results)))
        types = ", ".join(results)
        lines.append(f"{made} = group {', '.join(arguments)} ({', '.join(regions)}) {{")
        text = (f"%m = map {', '.join(maps)} ({', '.join(scalars)}) {{\n{body}\nyield {result}\n"
                f"}} : tensor<{shape_text(a.shape)}x{e}{self.layout}>\n{inner} = {operation} : {types}\nyield {inner}")
        # Names of a region are its own only if they differ from those around it.
        text = re.sub(r"%(?!g\d)([a-zA-Z_]\w*)", rf"%\1_{number}", text)
        text = re.sub(r"%g(\d)", rf"%g\1_{number}", text)
        lines[-1] = re.sub(r"%(g\d|[a-z])(?=: )", rf"%\1_{number}", lines[-1])
        lines += text.splitlines()
        lines.append(f'}} : {types} loc("{self.name}")')
        return inputs, lines, [f"%y{number}_{i}" for i in range(len(results))]


def all_cases():
    for anchor in ANCHORS:
        for element in anchor.elements:
            for source in BYTE_SOURCES if element in BYTES else FLOAT_SOURCES:
                for layout in anchor.layouts:
                    packed = any(i.startswith(("u4", "i4")) for i in source.inputs)
                    if not (packed and layout):
                        yield Case(anchor, source, element, layout)


def module(cases, **how):
    """The text of a module with a group for each case. `how`: see Case.text."""
    inputs, lines, results = [], [], []
    for number, case in enumerate(cases):
        i, l, r = case.text(number, **how)
        inputs += i
        lines += l
        results += r
    parameters = ", ".join(f'%{n} "{n}": {t}' for n, t in inputs)
    names = ", ".join(f'"{r[1:]}"' for r in results)
    body = "\n".join("    " + line for line in lines)
    return (f'module "operands" stage=imported {{\n  graph @main ({parameters}) -> ({names}) {{\n{body}\n'
            f"    return {', '.join(results)}\n  }}\n}}\n")  # fmt: skip
