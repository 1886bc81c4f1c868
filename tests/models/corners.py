"""What importers get wrong: models that are legal, or that every runtime accepts, and odd. Each
function returns (model, data sets, tidy model): the tidy one is the same computation without the
oddities that ONNX Runtime refuses, and gives the expected outputs (None: the model itself)."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from builder import FLOAT, Network

INT64 = TensorProto.INT64


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def copy_of(model):
    result = type(model)()
    result.CopyFrom(model)
    return result


def structure():
    """Initialisers that are also inputs, nodes in reverse order, `ai.onnx` as a domain, repeated
    `""` outputs, omitted middle inputs, an initialiser and an input as graph outputs, rank 0
    everywhere, a zero-size initialiser, an unused one, a declared symbol that lies."""
    net = Network("structure", 41, opset=13, ir_version=8)
    x = net.input("x", ["N", 6])
    weight = net.const(net.weights([6, 6], 6, 1.0), name="weight")
    net.input("weight", [6, 6])
    net.const(normal(net.rng, 3), name="unused")
    y = net.op("MatMul", [x, weight])
    y = net.op("Clip", [y, "", net.const(1.5)], domain="ai.onnx")
    for _ in range(2):
        y, _ = net.op("Dropout", [y], outputs=[net.fresh("kept"), ""])
    y = net.op("Concat", [y, net.const(np.zeros((0, 6)))], axis=0)
    mean = net.op("ReduceMean", [y], output="mean", keepdims=0)
    y = net.op("Mul", [y, net.const(2.0)])
    net.op("Sub", [y, mean], output="y")
    net.const([1.5, -2.5, 0.25], name="constant_output")
    net.output("y", ["M", 6])
    net.output("mean", [])
    net.output("constant_output", [3])
    tidy = net.model(check=False)
    odd = copy_of(tidy)
    reversed_nodes = [node for node in reversed(odd.graph.node)]
    del odd.graph.node[:]
    odd.graph.node.extend(reversed_nodes)
    # `y` has the rows of `x`; the model says that they are those of the weight.
    lie = helper.make_tensor_value_info(tidy.graph.node[0].output[0], FLOAT, ["K", "K"])
    odd.graph.value_info.append(lie)
    return odd, [{"x": normal(net.rng, 3, 6)}], tidy


NAMES = [
    'quote " and \\ backslash',
    "new\nline",
    "comment */ // /* end",
    "trigraph ??/ percent %s {brace}",
    "größe/ключ/重み",
    "int",
    "1st",
    "a.b/c:0",
    "a_b_c_0",
    "",
]


def names():
    """Names of values, nodes and weights that no identifier, string or comment may take as they
    are; nodes without names, with the same name, and one named like a value."""
    net = Network('graph "odd"\n*/', 42, opset=13, ir_version=8)
    x = net.input(NAMES[0], ["batch\n*/ \"size\"", 4])
    for index, name in enumerate(NAMES[1:-1]):
        weight = net.const(net.weights([4, 4], 4, 1.0), name=f"weight {name}")
        x = net.op("MatMul", [x, weight], output=name)
        x = net.op("Tanh" if index % 2 else "Sigmoid", [x], output=f"{name}\t{index}")
        net.nodes[-1].name = ("same name", "", NAMES[2], "int")[index % 4]
        net.nodes[-2].name = "same name"
    final = 'out "put"\n'
    net.op("Identity", [x], output=final)
    net.output(final, ["batch\n*/ \"size\"", 4])
    odd = net.model(check=False)
    tidy = copy_of(odd)
    for node in tidy.graph.node:
        node.name = ""
    return odd, [{NAMES[0]: normal(net.rng, 2, 4)}], tidy


def storage():
    """Initialisers in every field that TensorProto has for them."""
    net = Network("storage", 43, opset=13, ir_version=8)
    rng = net.rng
    x = net.input("x", [2, 3])
    make = helper.make_tensor

    def add(name, dtype, shape, values):
        net.initializers.append(make(name, dtype, shape, values))
        return net.op("Cast", [name], to=FLOAT)

    total = x
    small = rng.integers(0, 100, (10, 3)).tolist()
    for row, dtype in zip(small, ("INT8", "UINT8", "INT16", "UINT16", "INT32", "INT64", "UINT32",
                                  "UINT64", "FLOAT", "DOUBLE")):
        value = add(f"{dtype.lower()}_data", getattr(TensorProto, dtype), [3], row)
        total = net.op("Add", [total, value])
    total = net.op("Add", [total, add("half_data", TensorProto.FLOAT16, [1], [0.333])])
    total = net.op("Add", [total, add("bfloat_data", TensorProto.BFLOAT16, [], [-7.25])])
    flags = add("bool_data", TensorProto.BOOL, [3], [True, False, True])
    total = net.op("Mul", [total, flags])
    raw = numpy_helper.from_array(np.array([[0.5], [-2.0]], np.float16), "raw_half")
    net.initializers.append(raw)
    net.op("Mul", [total, net.op("Cast", ["raw_half"], to=FLOAT)], output="y")
    net.output("y", [2, 3])
    return net.model(), [{"x": normal(rng, 2, 3)}], None


def functions():
    """Model-local functions: attributes by reference, a nested call, an optional input left out,
    inner names that collide with outer ones."""
    net = Network("functions", 44, opset=16, ir_version=8)
    net.domains["local"] = 1
    node = helper.make_node
    opset = [helper.make_opsetid("", 16), helper.make_opsetid("local", 1)]

    leaky = node("LeakyRelu", ["x"], ["y"])
    reference = leaky.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
    net.functions.append(
        helper.make_function("local", "Slope", ["x"], ["y"], [leaky], opset, ["slope"])
    )
    twice = [
        node("Slope", ["a"], ["x"], domain="local", slope=0.5),
        node("Clip", ["x", "low"], ["z"]),
        node("Add", ["z", "a"], ["b"]),
    ]
    net.functions.append(helper.make_function("local", "Twice", ["a", "low"], ["b"], twice, opset))

    x = net.input("x", [2, 5])
    y = net.op("Twice", [x, net.const(-0.25)], domain="local")
    y = net.op("Twice", [y], domain="local")
    net.op("Slope", [y], output="z", domain="local", slope=0.1)
    net.output("z", [2, 5])
    return net.model(check=False), [{"x": normal(net.rng, 2, 5)}], None


def windows():
    """Padding rules: ceil_mode, SAME_UPPER and SAME_LOWER, padding that is counted or not,
    dilation with stride, a transposed convolution with output padding."""
    net = Network("windows", 45, opset=13, ir_version=8)
    x = net.input("x", [1, 4, 9, 11])
    results = [
        net.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER"),
        net.op("MaxPool", [x], kernel_shape=[2, 3], strides=[1, 2], dilations=[2, 1]),
        net.op("AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
               count_include_pad=1),
        net.op("AveragePool", [x], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
        net.op("LpPool", [net.op("Abs", [x])], kernel_shape=[2, 2], strides=[3, 3], p=2),
    ]
    weight = net.const(net.weights([5, 4, 3, 3], 36))
    for auto_pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        results.append(
            net.op("Conv", [x, weight], kernel_shape=[3, 3], strides=[2, 2], auto_pad=auto_pad)
        )
    results.append(net.conv(x, 4, 6, 3, group=2, dilations=[2, 2], strides=[1, 3]))
    transposed = net.const(net.weights([4, 3, 3, 3], 36))
    results.append(
        net.op("ConvTranspose", [x, transposed], kernel_shape=[3, 3], strides=[2, 2],
               pads=[1, 1, 1, 1], output_padding=[1, 1])
    )
    flat = [net.op("Reshape", [y, net.const([-1], np.int64)]) for y in results]
    net.op("Concat", flat, output="y", axis=0)
    net.output("y", ["count"])
    return net.model(), [{"x": normal(net.rng, 1, 4, 9, 11)}], None


def resizes():
    """Coordinate modes and rounding of Resize, by scales and by sizes, up and down."""
    net = Network("resizes", 46, opset=13, ir_version=8)
    x = net.input("x", [1, 2, 5, 7])
    results = []
    scales = net.const([1, 1, 1.6, 0.7])
    for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
        for kind, nearest in (("nearest", "round_prefer_floor"), ("nearest", "ceil"),
                              ("linear", "floor"), ("cubic", "floor")):
            results.append(
                net.op("Resize", [x, "", scales], mode=kind, nearest_mode=nearest,
                       coordinate_transformation_mode=mode)
            )
    sizes = net.const([1, 2, 9, 4], np.int64)
    results.append(net.op("Resize", [x, "", "", sizes], mode="linear"))
    flat = [net.op("Reshape", [y, net.const([-1], np.int64)]) for y in results]
    net.op("Concat", flat, output="y", axis=0)
    net.output("y", ["count"])
    return net.model(), [{"x": normal(net.rng, 1, 2, 5, 7)}], None


def concats():
    """Concats within concats: a block whose layers each read all before them, one that goes into two
    concats and is an output, too, pairs stacked along an inner dimension; a part of a concat that
    is read last of all, by what gives an output."""
    net = Network("concats", 47, opset=13, ir_version=8)
    x = net.input("x", [1, 4, 6, 5])
    block = net.op("Relu", [net.conv(x, 4, 8, 3)])
    for width in (8, 16, 24):
        layer = net.op("Relu", [net.conv(block, width, 8, 3)])
        block = net.op("Concat", [block, layer], axis=1)
    tail = net.conv(block, 32, 8, 1)
    part = net.op("Concat", [tail, net.op("Tanh", [tail])], output="part", axis=1)
    whole = net.op("Concat", [part, net.conv(part, 16, 16, 1), part], axis=1)
    pairs = []
    for _ in range(3):
        # Each of a pair has an innermost dimension of its own.
        halves = [net.op("Unsqueeze", [net.conv(block, 32, 4, 3), net.const([4], np.int64)])
                  for _ in range(2)]  # fmt: skip
        pairs.append(net.op("Concat", halves, axis=4))
    stacked = net.op("Concat", pairs, axis=3)
    net.op("Sigmoid", [stacked], output="stacked")
    net.conv(whole, 48, 6, 1, output="y")
    rows = net.input("rows", [6, 5])
    first = net.op("Softmax", [rows], axis=1)
    both = net.op("Concat", [first, net.op("Softmax", [rows], axis=0)], axis=0)
    net.op("MatMul", [both, net.const(normal(net.rng, 5, 3))], output="product")
    net.op("Add", [first, net.op("ReduceMax", ["product"], keepdims=0)], output="raised")
    net.output("y", [1, 6, 6, 5])
    net.output("part", [1, 16, 6, 5])
    net.output("stacked", [1, 4, 6, 15, 2])
    net.output("product", [12, 3])
    net.output("raised", [6, 5])
    return net.model(), [{"x": normal(net.rng, 1, 4, 6, 5), "rows": normal(net.rng, 6, 5)}], None


def upsampled(net, x, channels_in, channels_out, kernel, strides, **attributes):
    """A transposed convolution with bias and activation."""
    weight = net.weights([channels_in, channels_out, *kernel], channels_in)
    bias = net.rng.normal(0, 0.2, channels_out)
    y = net.op("ConvTranspose", [x, net.const(weight), net.const(bias)], kernel_shape=kernel,
               strides=strides, **attributes)  # fmt: skip
    return net.op("Relu", [y])


def upsamples():
    """Transposed convolutions that are concatenated with what was kept before pooling, at a batch
    known at run time: windows that overlap, strides of either axis, phases without taps, several in
    one concat and in one within another, channels too few or too odd to be written apart, results
    that others read and that are outputs; one dimension."""
    net = Network("upsamples", 48, opset=13, ir_version=8)
    x = net.input("x", ["N", 4, 12, 6])
    skip = net.op("Relu", [net.conv(x, 4, 8, 3)])
    low = net.conv(net.op("MaxPool", [skip], kernel_shape=[2, 2], strides=[2, 2]), 8, 16, 3)
    pair = [upsampled(net, low, 16, 8, [2, 2], [2, 2]),
            upsampled(net, low, 16, 4, [4, 4], [2, 2], pads=[1, 1, 1, 1])]  # fmt: skip
    inner = net.op("Concat", pair, axis=1)
    whole = net.op("Concat", [inner, skip, upsampled(net, low, 16, 12, [1, 3], [2, 2],
                   pads=[0, 1, 0, 1], output_padding=[1, 1])], axis=1)  # fmt: skip
    net.conv(whole, 32, 6, 3, output="y")
    third = net.op("MaxPool", [skip], kernel_shape=[3, 1], strides=[3, 1])
    tall = upsampled(net, third, 8, 6, [5, 1], [3, 1], pads=[1, 0, 1, 0])
    short = upsampled(net, third, 8, 3, [3, 1], [3, 1])
    both = net.op("Concat", [tall, net.op("Sigmoid", [skip]), short], axis=1)
    net.op("Mul", [net.conv(both, 17, 6, 1), net.op("Sigmoid", [tall])], output="gated")
    kept = upsampled(net, low, 16, 4, [2, 2], [2, 2])
    net.op("Tanh", [net.op("Concat", [kept, net.op("Neg", [skip])], axis=1)], output="squashed")
    net.op("Identity", [kept], output="kept")
    line = net.input("line", [1, 6, 5])
    wide = [upsampled(net, line, 6, 8, [6], [3], pads=[1, 2]),
            upsampled(net, line, 6, 4, [3], [3])]  # fmt: skip
    net.conv(net.op("Concat", wide, axis=1), 12, 4, [3], output="lines")
    # One value under two shapes, in two concats: only one of them can have it in place.
    shares = net.op("Softmax", [line], axis=2)
    above = net.op("Reshape", [shares, net.const([5, 6], np.int64)])
    below = net.op("Reshape", [shares, net.const([2, 15], np.int64)])
    net.op("Concat", [above, net.const(normal(net.rng, 1, 6))], output="above", axis=0)
    net.op("Concat", [net.const(normal(net.rng, 1, 15)), below], output="below", axis=0)
    net.output("y", ["N", 6, 12, 6])
    net.output("gated", ["N", 6, 12, 6])
    net.output("squashed", ["N", 12, 12, 6])
    net.output("kept", ["N", 4, 12, 6])
    net.output("lines", [1, 4, 15])
    net.output("above", [6, 6])
    net.output("below", [3, 15])
    feeds = [{"x": normal(net.rng, n, 4, 12, 6), "line": normal(net.rng, 1, 6, 5)} for n in (2, 3)]
    return net.model(), feeds, None
