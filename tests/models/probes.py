"""Small models that each probe one part of the design: control flow, data-dependent shapes, state,
integer groups, user operators, fusion with several results. Each function returns
(model, list of data sets); a data set is a dictionary of inputs, or a function of the previous
data set's outputs where the model carries state."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from builder import FLOAT, Network

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def subgraph(name, nodes, outputs, inputs=()):
    info = helper.make_tensor_value_info
    return helper.make_graph(nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs])


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def control_flow(reference=False):
    """If inside Loop and after it: captured weights, carried values, a scan output, a branch that
    returns an outer value unchanged (which ONNX Runtime refuses: `reference` puts an Identity in),
    and a loop that stops early on data."""
    net = Network("control_flow", 31, opset=16, ir_version=8)
    x = net.input("x", [2, 6])
    steps = net.input("steps", [], INT64)
    weight = net.const(net.weights([6, 6], 6, gain=1.0), name="weight")
    limit = net.const(4.0, name="limit")
    true = net.const(True, np.bool_, name="true")
    node = helper.make_node

    then_branch = subgraph(
        "shrink", [node("Tanh", ["advanced"], ["shrunk"])], [("shrunk", FLOAT, [2, 6])]
    )
    else_branch = subgraph(
        "keep", [node("Identity", ["advanced"], ["kept"])], [("kept", FLOAT, [2, 6])]
    )
    body = subgraph(
        "body",
        [
            node("MatMul", ["carried", "weight"], ["product"]),
            node("Add", ["product", "x"], ["advanced"]),
            node("ReduceMax", ["advanced"], ["peak"], keepdims=0),
            node("Greater", ["peak", "limit"], ["large"]),
            node("If", ["large"], ["next"], then_branch=then_branch, else_branch=else_branch),
            node("Add", ["total", "peak"], ["next_total"]),
            node("ReduceSum", ["next"], ["row"], keepdims=0),
            node("Less", ["next_total", "bound"], ["go_on"]),
        ],
        [
            ("go_on", BOOL, []),
            ("next", FLOAT, [2, 6]),
            ("next_total", FLOAT, []),
            ("row", FLOAT, []),
        ],
        [
            ("iteration", INT64, []),
            ("condition", BOOL, []),
            ("carried", FLOAT, [2, 6]),
            ("total", FLOAT, []),
        ],
    )
    net.const(12.0, name="bound")
    zero = net.const(0.0)
    last, total, rows = net.op(
        "Loop", [steps, true, x, zero], outputs=["last", "total", "rows"], body=body
    )
    positive = net.op("Greater", [net.op("ReduceSum", [last], keepdims=0), zero])
    copy = [node("Identity", ["last"], ["copy"])] if reference else []
    outer = subgraph("outer", copy, [("copy" if copy else "last", FLOAT, [2, 6])])
    negated = subgraph("negated", [node("Neg", ["last"], ["minus"])], [("minus", FLOAT, [2, 6])])
    net.op("If", [positive], output="y", then_branch=outer, else_branch=negated)
    net.output("y", [2, 6])
    net.output("total", [])
    net.output("rows", ["iterations"])
    x = normal(net.rng, 2, 6)
    data = [(x, 5), (-x, 5), (3 * x, 5), (x, 0)]
    return net.model(check=False), [
        {"x": values, "steps": np.array(count, np.int64)} for values, count in data
    ]


def nonzero():
    """An output whose extent is known only afterwards, and a gather through it."""
    net = Network("nonzero", 32, opset=13, ir_version=8)
    x = net.input("x", [4, 6])
    where = net.op("NonZero", [net.op("Relu", [x])], output="positions")
    net.op("GatherND", [x, net.op("Transpose", [where], perm=[1, 0])], output="values")
    net.output("positions", [2, "count"], INT64)
    net.output("values", ["count"])
    x = normal(net.rng, 4, 6)
    return net.model(), [{"x": x}, {"x": -np.abs(x)}, {"x": np.abs(x) + 1}]


def detections():
    """What stands behind a detector's heads: boxes above a score, none of which takes a branch of
    its own, with a result of another extent; the best that overlap little; marks scattered at these;
    the first scores, as many as there are, and half of them in steps of three."""
    net = Network("detections", 36, opset=13, ir_version=8)
    node = helper.make_node
    boxes, scores = net.input("boxes", [24, 4]), net.input("scores", [24])
    where = net.op("NonZero", [net.op("Greater", [scores, net.const(0.3)])])
    where = net.op("Squeeze", [where, net.const([0], np.int64)])
    net.op("Gather", [boxes, where], output="kept")
    net.op("Gather", [scores, where], output="kept_scores")
    net.op("Shape", ["kept_scores"], output="count")
    empty = net.op("Equal", [net.op("Size", ["kept_scores"]), net.const(0, np.int64)])
    for name, value in (("batch", [0]), ("batch_class", [0, 1]), ("most", [20])):
        net.const(value, np.int64, name=name)
    net.const([0.4], name="overlap")
    none = numpy_helper.from_array(np.zeros(0, np.int64))
    then_branch = subgraph("none", [node("Constant", [], ["nothing"], value=none)],
                           [("nothing", INT64, [0])])  # fmt: skip
    else_branch = subgraph(
        "some",
        [
            node("Unsqueeze", ["kept", "batch"], ["candidates"]),
            node("Unsqueeze", ["kept_scores", "batch_class"], ["order"]),
            node("NonMaxSuppression", ["candidates", "order", "most", "overlap"], ["selected"]),
            node("Constant", [], ["column"], value_int=2),
            node("Gather", ["selected", "column"], ["places"], axis=1),
        ],
        [("places", INT64, ["selected_count"])],
    )
    chosen = net.op("If", [empty], then_branch=then_branch, else_branch=else_branch)
    net.op("Gather", ["kept", chosen], output="best")
    marks = net.op("Gather", ["kept_scores", chosen])
    zeros = net.op("ConstantOfShape", ["count"])
    net.op("ScatterElements", [zeros, chosen, marks], output="marks", axis=0)
    first = net.op("Min", ["count", net.const([5], np.int64)])
    net.op("TopK", ["kept_scores", first], outputs=["first", "first_places"])
    half = net.op("Div", ["count", net.const([2], np.int64)])
    begin, axis, step = (net.const([v], np.int64) for v in (0, 0, 3))
    net.op("Slice", ["kept_scores", begin, half, axis, step], output="half")
    net.output("best", ["chosen", 4])
    net.output("marks", ["kept_count"])
    net.output("first", ["first_count"])
    net.output("first_places", ["first_count"], INT64)
    net.output("half", ["half_count"])
    corners = net.rng.uniform(0, 4, (24, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + 1.5], axis=1)
    scores = net.rng.permutation(24).astype(np.float32) / 24
    return net.model(), [{"boxes": boxes, "scores": s} for s in (scores, scores - 1, scores / 3, scores + 1)]


def data_extents():
    """Extents that numbers decide: pieces before and behind a place that an input gives, rows that the
    sum of rounded durations counts, the largest of as many as are asked for, a piece for each step of a
    loop, a picture as wide as the input says and as high as a number scales it."""
    net = Network("data_extents", 37, opset=17, ir_version=8)
    node = helper.make_node
    x = net.input("x", [8, 3])
    place, durations = net.input("at", [], INT64), net.input("durations", [5])
    zero, one, many = (net.const([v], np.int64, name=n) for v, n in ((0, "zero"), (1, "one"), (99, "many")))
    at = net.op("Unsqueeze", [place, zero])
    following = net.op("Add", [at, one])
    net.op("Slice", [x, at, following, zero], output="row")
    net.op("Slice", [x, zero, at, zero], output="head")
    net.op("Slice", [x, following, many, zero], output="tail")
    clipped = net.op("Clip", [durations, net.const(0.0), net.const(4.0)])
    total = net.op("ReduceSum", [net.op("Ceil", [clipped])], keepdims=0)
    count = net.op("Cast", [total], to=INT64)
    places = net.op("Range", [net.const(0, np.int64), count, net.const(1, np.int64)])
    net.op("Mul", [net.op("Cast", [places], to=FLOAT), net.const(0.25)], output="frames")
    net.op("TopK", [durations, net.op("Clip", [at, one, net.const([5], np.int64)])], outputs=["largest", "who"])
    picture = net.op("Reshape", [x, net.const([1, 1, 8, 3], np.int64)])
    sizes = net.op("Concat", [net.const([1, 1, 5], np.int64), following], axis=0)
    net.op("Resize", [picture, "", "", sizes], output="stretched", mode="cubic")
    level = net.op("ReduceMax", [clipped], keepdims=1)
    scales = net.op("Concat", [net.const([1.0, 1.0]), net.op("Add", [level, net.const([0.5])]), net.const([2.0])], axis=0)
    net.op("Resize", [picture, "", scales], output="scaled", coordinate_transformation_mode="asymmetric",
           nearest_mode="floor")  # fmt: skip
    body = subgraph(
        "body",
        [
            node("Unsqueeze", ["step", "zero"], ["begin"]),
            node("Add", ["begin", "one"], ["end"]),
            node("Slice", ["x", "begin", "end", "zero"], ["piece"]),
            node("Tanh", ["sum"], ["shrunk"]),
            node("Add", ["shrunk", "piece"], ["next"]),
            node("Identity", ["go"], ["go_on"]),
        ],
        [("go_on", BOOL, []), ("next", FLOAT, [1, 3])],
        [("step", INT64, []), ("go", BOOL, []), ("sum", FLOAT, [1, 3])],
    )
    net.op("Loop", [net.const(6, np.int64), net.const(True, np.bool_), net.const(np.zeros((1, 3)))],
           output="steps", body=body)  # fmt: skip
    for name, shape in (("row", [1, 3]), ("head", ["a", 3]), ("tail", ["b", 3]), ("frames", ["c"]),
                        ("largest", ["d"]), ("steps", [1, 3]), ("stretched", [1, 1, 5, "e"]),
                        ("scaled", [1, 1, "f", 6])):  # fmt: skip
        net.output(name, shape)
    net.output("who", ["d"], INT64)
    x = normal(net.rng, 8, 3)
    data = [(x, 3, [0.2, 3, 9, 1.5, -1]), (x, 0, [-1, 2, 0.4, 3, 1]), (-x, 7, [-1, -2, 0, -3, -4]), (x, 4, [5, 6, 7, 8, 9])]
    return net.model(), [{"x": values, "at": np.array(place, np.int64), "durations": np.array(d, np.float32)}
                         for values, place, d in data]  # fmt: skip


def streaming():
    """A causal convolution one frame at a time: run with --state cache=cache_out."""
    net = Network("streaming", 33, opset=13, ir_version=8)
    frame = net.input("frame", [1, 8, 1])
    cache = net.input("cache", [1, 8, 4])
    window = net.op("Concat", [cache, frame], axis=2)
    first, end, axis = (net.const([v], np.int64) for v in (1, 5, 2))
    net.op("Slice", [window, first, end, axis], output="cache_out")
    x = net.op("Relu", [net.conv(window, 8, 12, [5], pads=[0, 0])])
    net.conv(x, 12, 3, [1], output="y", gain=1.0)
    net.output("y", [1, 3, 1])
    net.output("cache_out", [1, 8, 4])
    frames = normal(net.rng, 4, 1, 8, 1)
    start = {"frame": frames[0], "cache": np.zeros((1, 8, 4), np.float32)}
    steps = [
        lambda outputs, frame=frame: {"frame": frame, "cache": outputs["cache_out"]}
        for frame in frames[1:]
    ]
    return net.model(), [start, *steps]


def growing_cache():
    """Attention over a cache that grows by one row a step: --state keys=keys_out:append@1."""
    net = Network("growing_cache", 34, opset=13, ir_version=8)
    x = net.input("x", [1, 1, 8])
    keys = net.input("keys", [1, "T", 8])
    key = net.op("MatMul", [x, net.const(net.weights([8, 8], 8, 1.0))])
    keys = net.op("Concat", [keys, key], output="keys_out", axis=1)
    query = net.op("MatMul", [x, net.const(net.weights([8, 8], 8, 1.0))])
    scores = net.op("MatMul", [query, net.op("Transpose", [keys], perm=[0, 2, 1])])
    scores = net.op("Softmax", [net.op("Mul", [scores, net.const(8**-0.5)])], axis=-1)
    net.op("MatMul", [scores, keys], output="y")
    net.output("y", [1, 1, 8])
    net.output("keys_out", [1, "T_plus_1", 8])
    values = normal(net.rng, 4, 1, 1, 8)
    start = {"x": values[0], "keys": normal(net.rng, 1, 2, 8)}
    steps = [
        lambda outputs, x=x: {"x": x, "keys": outputs["keys_out"]} for x in values[1:]
    ]
    return net.model(), [start, *steps]


def heads_cache():
    """Two caches along an inner dimension, [batch, heads, time, depth] as exporters write them,
    which grow by two rows a step:
    --state keys=keys_out:append@2,values=values_out:append@2."""
    net = Network("heads_cache", 38, opset=13, ir_version=8)
    heads, depth, rows = 2, 4, 2
    width = heads * depth
    x = net.input("x", [1, rows, width])

    def split(gain):
        y = net.op("MatMul", [x, net.const(net.weights([width, width], width, gain))])
        y = net.op("Reshape", [y, net.const([1, rows, heads, depth], np.int64)])
        return net.op("Transpose", [y], perm=[0, 2, 1, 3])

    caches = {}
    for name in ("keys", "values"):
        past = net.input(name, [1, heads, "T", depth])
        caches[name] = net.op("Concat", [past, split(1.0)], output=name + "_out", axis=2)
    keys = net.op("Transpose", [caches["keys"]], perm=[0, 1, 3, 2])
    scores = net.op("Mul", [net.op("MatMul", [split(1.5), keys]), net.const(depth**-0.5)])
    scores = net.op("Softmax", [scores], axis=-1)
    y = net.op("MatMul", [scores, caches["values"]])
    y = net.op("Transpose", [y], perm=[0, 2, 1, 3])
    net.op("Reshape", [y, net.const([1, rows, width], np.int64)], output="y")
    net.output("y", [1, rows, width])
    net.output("keys_out", [1, heads, "S", depth])
    net.output("values_out", [1, heads, "S", depth])

    steps = normal(net.rng, 4, 1, rows, width)
    past = normal(net.rng, 2, 1, heads, 3, depth)
    start = {"x": steps[0], "keys": past[0], "values": past[1]}
    later = [
        lambda o, x=x: {"x": x, "keys": o["keys_out"], "values": o["values_out"]}
        for x in steps[1:]
    ]
    return net.model(), [start, *later]


def shared_heads_cache():
    """A decoder's attention as onnxruntime-genai's builder writes it: packed queries, keys and values,
    of which two heads of queries share one, rotary tables inside, and past keys and values that grow
    by one row a step: --state keys=keys_out:append@2,values=values_out:append@2."""
    net = Network("shared_heads_cache", 39, opset=21, ir_version=10)
    net.domains["com.microsoft"] = 1
    heads, groups, size, most = 4, 2, 16, 16
    width = (heads + 2 * groups) * size
    x = net.input("x", [1, 1, 24])
    past = [net.input(name, [1, groups, "T", size]) for name in ("keys", "values")]
    packed = net.op("MatMul", [x, net.const(net.weights([24, width], 24, 1.5))])
    length = net.op("Gather", [net.op("Shape", [past[0]]), net.const(2, np.int64)])
    total = net.op("Add", [length, net.const(1, np.int64)])
    lengths = net.op("Cast", [net.op("Unsqueeze", [length, net.const([0], np.int64)])], to=TensorProto.INT32)
    angles = np.outer(np.arange(most), 10.0 ** -np.arange(size // 2))
    tables = [net.const(f(angles)) for f in (np.cos, np.sin)]
    operands = [packed, "", "", *past, lengths, net.op("Cast", [total], to=TensorProto.INT32), *tables]
    y, *_ = net.op("GroupQueryAttention", operands, outputs=["attended", "keys_out", "values_out"],
                   domain="com.microsoft", num_heads=heads, kv_num_heads=groups, do_rotary=1)  # fmt: skip
    net.op("MatMul", [y, net.const(net.weights([heads * size, 24], heads * size, 1.0))], output="y")
    net.output("y", [1, 1, 24])
    net.output("keys_out", [1, groups, "S", size])
    net.output("values_out", [1, groups, "S", size])
    steps, kept = normal(net.rng, 4, 1, 1, 24), normal(net.rng, 2, 1, groups, 3, size)
    start = {"x": steps[0], "keys": kept[0], "values": kept[1]}
    later = [lambda o, x=x: {"x": x, "keys": o["keys_out"], "values": o["values_out"]} for x in steps[1:]]
    return net.model(), [start, *later]


def qdq_conv():
    """One int8 convolution: QuantizeLinear ... Conv ... QuantizeLinear with an int8 output."""
    net = Network("qdq_conv", 35, opset=13, ir_version=8)
    rng = net.rng
    x = net.input("x", [1, 5, 7, 9])
    scale, zero = net.const(0.031), net.const(-9, np.int8)
    x = net.op("QuantizeLinear", [x, scale, zero])
    x = net.op("DequantizeLinear", [x, scale, zero])
    weight_scale = rng.uniform(0.004, 0.012, 6).astype(np.float32)
    weight = net.op(
        "DequantizeLinear",
        [
            net.const(rng.integers(-127, 128, (6, 5, 3, 3)), np.int8),
            net.const(weight_scale),
            net.const(np.zeros(6), np.int8),
        ],
        axis=0,
    )
    bias = net.op(
        "DequantizeLinear",
        [
            net.const(rng.integers(-2000, 2000, 6), np.int32),
            net.const(weight_scale * np.float32(0.031)),
            net.const(np.zeros(6), np.int32),
        ],
        axis=0,
    )
    y = net.op("Conv", [x, weight, bias], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    net.op("QuantizeLinear", [y, net.const(0.11), net.const(-20, np.int8)], output="y")
    net.output("y", [1, 6, 7, 9], TensorProto.INT8)
    return net.model(), [{"x": normal(rng, 1, 5, 7, 9)}, {"x": 3 * normal(rng, 1, 5, 7, 9)}]


def prologue_two_results():
    """Scale, shift and ReLU indexed by the contracted channel before a 1x1 convolution (zero
    padding must stay zero in the 3x3 one), whose result leaves raw and activated."""
    net = Network("prologue_two_results", 36, opset=13, ir_version=8)
    x = net.input("x", [1, 12, 6, 10])
    y = net.op("Relu", [net.batch_norm(x, 12)])
    raw = net.conv(y, 12, 7, 1, output="raw", gain=1.0)
    net.op("Sigmoid", [raw], output="gate")
    y = net.op("Relu", [net.batch_norm(raw, 7)])
    net.conv(y, 7, 5, 3, output="y", bias=False, gain=1.0)
    net.output("raw", [1, 7, 6, 10])
    net.output("gate", [1, 7, 6, 10])
    net.output("y", [1, 5, 6, 10])
    return net.model(), [{"x": normal(net.rng, 1, 12, 6, 10)}]


def user_operator(reference=False):
    """`com.example.SquaredRelu` between two convolutions. ONNX Runtime does not know it, so that
    the expected outputs come from the same network with Relu and Mul in its place."""
    net = Network("user_operator", 37, opset=13, ir_version=8)
    x = net.input("x", [1, 4, 6, 6])
    x = net.conv(x, 4, 8, 3)
    if reference:
        x = net.op("Relu", [x])
        x = net.op("Mul", [x, net.op("Mul", [x, net.const(0.5)])])
    else:
        net.domains["com.example"] = 1
        x = net.op("SquaredRelu", [x], domain="com.example", gain=0.5)
    net.conv(x, 8, 4, 1, output="y", gain=1.0)
    net.output("y", [1, 4, 6, 6])
    return net.model(check=reference), [{"x": normal(np.random.default_rng(370), 1, 4, 6, 6)}]
