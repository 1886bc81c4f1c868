"""Networks whose height and width are open, in the idioms in which exporters write them: detectors, optical
character recognition, segmentation. `width` scales the channels. Each function returns a Dynamic."""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from builder import Network

INT = np.int64


@dataclass
class Dynamic:
    """A model of one image input, the words that keep its extents open, the run-time dimensions (in capitals)
    that say height and width divided by `multiple`, and sizes to run it at."""

    name: str
    model: object
    words: list
    dims: tuple  # of height and width; None: it is known
    sizes: list  # (height, width)
    multiple: int = 1
    small: bool = False  # quick enough for the emulated GPU

    def image(self, size):
        rng = np.random.default_rng(size)
        return rng.standard_normal((1, 3, *size)).astype(np.float32)

    def extents(self, size):
        """{dimension: value}"""
        return {dim: extent // self.multiple for dim, extent in zip(self.dims, size) if dim}


def multiples(of, pairs):
    return [(h * of, w * of) for h, w in pairs]


EIGHT = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (1, 4), (4, 3), (3, 4)]


class Open(Network):
    """A network with the shape computations of exporters."""

    def ints(self, *values):
        return self.const(list(values), INT)

    def scalar(self, value, dtype=INT):
        return self.const(np.array(value), dtype)

    def extent(self, x, axis):
        """Dimension `axis` of x, of rank 0."""
        return self.op("Gather", [self.op("Shape", [x]), self.scalar(axis)], axis=0)

    def listed(self, *scalars):
        """Scalars or numbers as a list."""
        parts = []
        for s in scalars:
            parts.append(self.op("Unsqueeze", [s, self.ints(0)]) if isinstance(s, str) else self.ints(s))
        return self.op("Concat", parts, axis=0)

    def unit(self, x, c_in, c_out, kernel=3, stride=1, act="silu", group=1):
        x = self.conv(x, c_in, c_out, kernel, strides=[stride, stride], group=group)
        if act == "silu":
            return self.op("Mul", [x, self.op("Sigmoid", [x])])
        return self.op("Relu", [x]) if act == "relu" else x

    def twice(self, x):
        scales = self.const([1, 1, 2, 2])
        roi = "" if self.opset > 12 else self.const(np.zeros(0))
        return self.op("Resize", [x, roi, scales], mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")  # fmt: skip

    def sized_like(self, x, like, mode="nearest"):
        """x resampled to the height and width of `like`, as F.interpolate(x, size=...) is exported."""
        shape, wanted = self.op("Shape", [x]), self.op("Shape", [like])
        keep = self.op("Slice", [shape, self.ints(0), self.ints(2), self.ints(0)])
        take = self.op("Slice", [wanted, self.ints(2), self.ints(4), self.ints(0)])
        sizes = self.op("Concat", [keep, take], axis=0)
        rule = "asymmetric" if mode == "nearest" else "half_pixel"
        return self.op("Resize", [x, "", "", sizes], mode=mode, nearest_mode="floor",
                       coordinate_transformation_mode=rule)  # fmt: skip


def yolo(width=1):
    """A detector without anchors: three scales, distances as distributions, boxes decoded in the graph."""
    net = Open("yolo", 21, opset=17, ir_version=8)
    c, bins, classes = [8 * width * k for k in (1, 2, 4, 8)], 8, 5
    x = net.unit(net.input("images", [1, 3, "height", "width"]), 3, c[0], stride=2)
    levels = []
    for c_in, c_out in ((c[0], c[1]), (c[1], c[1]), (c[1], c[2]), (c[2], c[3])):
        x = net.unit(x, c_in, c_out, stride=2)
        a, b = net.op("Split", [x], outputs=2, axis=1)
        b = net.op("Add", [b, net.unit(net.unit(b, c_out // 2, c_out // 2), c_out // 2, c_out // 2)])
        x = net.unit(net.op("Concat", [a, b], axis=1), c_out, c_out, 1)
        levels.append(x)
    p3, p4, p5 = levels[1:]
    # Spatial pyramid: pools of stride 1.
    pools = [p5]
    for _ in range(2):
        pools.append(net.op("MaxPool", [pools[-1]], kernel_shape=[5, 5], pads=[2] * 4))
    p5 = net.unit(net.op("Concat", pools, axis=1), 3 * c[3], c[3], 1)
    p4 = net.unit(net.op("Concat", [net.twice(p5), p4], axis=1), c[3] + c[2], c[2])
    p3 = net.unit(net.op("Concat", [net.twice(p4), p3], axis=1), c[2] + c[1], c[1])
    p4 = net.unit(net.op("Concat", [net.unit(p3, c[1], c[1], stride=2), p4], axis=1), c[1] + c[2], c[2])
    p5 = net.unit(net.op("Concat", [net.unit(p4, c[2], c[2], stride=2), p5], axis=1), c[2] + c[3], c[3])

    flat, points, strides = [], [], []
    outputs = 4 * bins + classes
    for p, channels, stride in ((p3, c[1], 8.0), (p4, c[2], 16.0), (p5, c[3], 32.0)):
        box = net.conv(net.unit(p, channels, channels), channels, 4 * bins, 1, gain=1.0)
        kind = net.conv(net.unit(p, channels, channels), channels, classes, 1, gain=1.0)
        both = net.op("Concat", [box, kind], axis=1)
        flat.append(net.op("Reshape", [both, net.listed(net.extent(both, 0), outputs, -1)]))
        h, w = net.extent(p, 2), net.extent(p, 3)
        grid = []
        for axis, extent in ((1, w), (0, h)):
            end = net.op("Cast", [extent], to=TensorProto.FLOAT)
            line = net.op("Range", [net.scalar(0, np.float32), end, net.scalar(1, np.float32)])
            line = net.op("Add", [line, net.scalar(0.5, np.float32)])
            line = net.op("Unsqueeze", [line, net.ints(1 - axis)])
            grid.append(net.op("Expand", [line, net.listed(h, w)]))
        pairs = [net.op("Unsqueeze", [g, net.ints(-1)]) for g in grid]
        points.append(net.op("Reshape", [net.op("Concat", pairs, axis=-1), net.ints(-1, 2)]))
        count = net.op("Mul", [h, w])
        one = net.const([[stride]])
        strides.append(net.op("Expand", [one, net.listed(count, 1)]))
    flat = net.op("Concat", flat, axis=2)
    points = net.op("Transpose", [net.op("Concat", points, axis=0)], perm=[1, 0])
    strides = net.op("Transpose", [net.op("Concat", strides, axis=0)], perm=[1, 0])
    boxes, kinds = net.op("Split", [flat, net.ints(4 * bins, classes)], outputs=2, axis=1)
    spread = net.op("Reshape", [boxes, net.listed(1, 4, bins, net.extent(boxes, 2))])
    spread = net.op("Softmax", [net.op("Transpose", [spread], perm=[0, 2, 1, 3])], axis=1)
    numbers = net.const(np.arange(bins).reshape(1, bins, 1, 1))
    distance = net.op("Conv", [spread, numbers], kernel_shape=[1, 1])
    distance = net.op("Reshape", [distance, net.listed(1, 4, net.extent(distance, 3))])
    before, after = net.op("Split", [distance], outputs=2, axis=1)
    points = net.op("Unsqueeze", [points, net.ints(0)])
    first, last = net.op("Sub", [points, before]), net.op("Add", [points, after])
    centre = net.op("Div", [net.op("Add", [first, last]), net.scalar(2, np.float32)])
    size = net.op("Sub", [last, first])
    box = net.op("Mul", [net.op("Concat", [centre, size], axis=1), strides])
    net.op("Concat", [box, net.op("Sigmoid", [kinds])], "output0", axis=1)
    net.output("output0", [1, 4 + classes, "anchors"])
    return Dynamic("yolo", net.model(), ["--bind", "height=h*32,width=w*32", "--range", "h=1..4", "--range", "w=1..4"],
                   ("H", "W"), multiples(32, EIGHT), 32, small=True)  # fmt: skip


def dbnet(width=1):
    """The detector of an OCR pair: a pyramid whose scales are joined at the largest, transposed
    convolutions back to the image."""
    net = Open("dbnet", 22, opset=12, ir_version=7)
    c, inner = [8 * width * k for k in (1, 2, 4, 8)], 16 * width
    x = net.unit(net.input("x", ["N", 3, "H", "W"]), 3, c[0], 3, 2, "relu")
    x = net.op("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    levels, c_in = [], c[0]
    for k, c_out in enumerate(c):
        y = net.unit(x, c_in, c_out, 3, 1 if k == 0 else 2, "relu")
        y = net.unit(y, c_out, c_out, 3, 1, "linear")
        if k > 0 or c_in != c_out:
            x = net.unit(x, c_in, c_out, 1, 1 if k == 0 else 2, "linear")
        x = net.op("Relu", [net.op("Add", [x, y])])
        levels.append(x)
        c_in = c_out
    sides = [net.conv(level, ch, inner, 1, bias=False) for level, ch in zip(levels, c)]
    for k in (2, 1, 0):
        sides[k] = net.op("Add", [sides[k], net.twice(sides[k + 1])])
    joined = []
    for k, side in enumerate(sides):
        y = net.conv(side, inner, inner // 4, 3, bias=False)
        if k > 0:
            scales = net.const([1, 1, 2**k, 2**k])
            y = net.op("Resize", [y, net.const(np.zeros(0)), scales], mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")  # fmt: skip
        joined.append(y)
    x = net.op("Concat", joined[::-1], axis=1)
    x = net.unit(x, inner, inner // 4, 3, 1, "relu")
    for c_out in (inner // 4, 1):
        w = net.const(net.weights([inner // 4, c_out, 2, 2], inner // 4))
        x = net.op("ConvTranspose", [x, w, net.const(np.zeros(c_out))], kernel_shape=[2, 2], strides=[2, 2])
        if c_out > 1:
            x = net.op("Relu", [net.batch_norm(x, c_out)])
    net.op("Sigmoid", [x], "maps")
    net.output("maps", ["N", 1, "H", "W"])
    return Dynamic("dbnet", net.model(), ["--bind", "N=1,H=h*32,W=w*32", "--range", "h=1..4", "--range", "w=1..4"],
                   ("H", "W"), multiples(32, EIGHT), 32)  # fmt: skip


def crnn(width=1):
    """The recogniser of an OCR pair: lines of 32 pixels and any width, read by a recurrent network."""
    net = Open("crnn", 23, opset=13, ir_version=7)
    c, hidden, letters = [8 * width * k for k in (1, 2, 4)], 16 * width, 12
    x = net.unit(net.input("line", ["batch", 3, 32, "width"]), 3, c[0], 3, 1, "relu")
    x = net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = net.unit(x, c[0], c[1], 3, 1, "relu")
    x = net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = net.unit(x, c[1], c[2], 3, 1, "relu")
    x = net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 1], pads=[0, 1, 0, 1])
    x = net.op("MaxPool", [net.unit(x, c[2], c[2], 3, 1, "relu")], kernel_shape=[2, 2], strides=[2, 1],
               pads=[0, 1, 0, 1])  # fmt: skip
    x = net.op("Relu", [net.conv(x, c[2], c[2], 2, pads=[0, 0, 0, 0])])
    x = net.op("Squeeze", [x, net.ints(2)])
    x = net.op("Transpose", [x], perm=[2, 0, 1])  # [T, N, C]
    w = net.const(net.weights([2, 4 * hidden, c[2]], c[2], 1.0))
    r = net.const(net.weights([2, 4 * hidden, hidden], hidden, 1.0))
    b = net.const(net.rng.normal(0, 0.1, [2, 8 * hidden]))
    y, _, _ = net.op("LSTM", [x, w, r, b], outputs=3, hidden_size=hidden, direction="bidirectional")
    y = net.op("Transpose", [y], perm=[0, 2, 1, 3])
    y = net.op("Reshape", [y, net.ints(0, 0, -1)])  # [T, N, 2 * hidden]
    t, n = net.extent(y, 0), net.extent(y, 1)
    rows = net.op("Reshape", [y, net.listed(net.op("Mul", [t, n]), 2 * hidden)])
    rows = net.gemm(rows, 2 * hidden, letters, gain=1.0)
    y = net.op("Reshape", [rows, net.listed(t, n, letters)])
    net.op("LogSoftmax", [y], "letters", axis=2)
    net.output("letters", ["T", "batch", letters])
    return Dynamic("crnn", net.model(), ["--bind", "batch=1", "--range", "width=16..160"], (None, "WIDTH"),
                   [(32, w) for w in (16, 17, 31, 64, 99, 100, 147, 160)])  # fmt: skip


def unet(up, width=1):
    """Segmentation. `up`: transposed convolutions, for multiples of 8, or bilinear Resize to the size of
    what is joined, for any size."""
    net = Open(f"unet_{up}", 24, opset=16, ir_version=8)
    c = [8 * width * k for k in (1, 2, 4, 8)]
    x, c_in, skips = net.input("image", [1, 3, "H", "W"]), 3, []
    for c_out in c[:3]:
        x = net.unit(net.unit(x, c_in, c_out, act="relu"), c_out, c_out, act="relu")
        skips.append(x)
        x = net.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
        c_in = c_out
    x = net.unit(x, c[2], c[3], act="relu")
    for skip, c_in, c_out in zip(skips[::-1], c[:0:-1], c[2::-1]):
        if up == "transposed":
            w = net.const(net.weights([c_in, c_out, 2, 2], c_in))
            x = net.op("ConvTranspose", [x, w, net.const(net.rng.normal(0, 0.1, c_out))], strides=[2, 2])
        else:
            x = net.conv(net.sized_like(x, skip, "linear"), c_in, c_out, 1)
        x = net.op("Concat", [skip, x], axis=1)
        x = net.unit(net.unit(x, 2 * c_out, c_out, act="relu"), c_out, c_out, act="relu")
    net.conv(x, c[0], 2, 1, output="mask", gain=1.0)
    net.output("mask", [1, 2, "H", "W"])
    if up == "transposed":
        words = ["--bind", "H=h*8,W=w*8", "--range", "h=1..8", "--range", "w=1..8"]
        sizes = multiples(8, [(1, 1), (8, 8), (3, 5), *EIGHT[2:7]])
        return Dynamic(net.name, net.model(), words, ("H", "W"), sizes, 8)
    words = ["--range", "H=16..64", "--range", "W=16..64"]
    sizes = [(16, 16), (17, 33), (64, 64), (40, 24), (63, 31), (19, 50), (33, 16), (48, 61)]
    return Dynamic(net.name, net.model(), words, ("H", "W"), sizes, small=True)


def faces(width=1):
    """A face detector for any size: the image is padded to a multiple of 32 in the graph, three scales of a
    pyramid, each with two anchors for a pixel."""
    net = Open("faces", 25, opset=14, ir_version=7)
    c, inner = [8 * width * k for k in (1, 2, 4, 8)], 16 * width
    x = net.input("input", [1, 3, "?", "?"])
    ends = []
    for axis in (2, 3):
        missing = net.op("Mod", [net.op("Neg", [net.extent(x, axis)]), net.scalar(32)])
        ends.append(missing)
    x = net.op("Pad", [x, net.listed(0, 0, 0, 0, 0, 0, *ends)], mode="constant")
    x = net.unit(x, 3, c[0], 3, 2, "relu")
    levels, c_in = [], c[0]
    for c_out in (c[1], c[1], c[2], c[3]):
        x = net.unit(x, c_in, c_in, 3, 2, "relu", group=c_in)
        x = net.unit(x, c_in, c_out, 1, 1, "relu")
        levels.append(x)
        c_in = c_out
    sides = [net.unit(level, ch, inner, 1, 1, "relu") for level, ch in zip(levels[1:], c[1:])]
    for k in (1, 0):
        up = net.sized_like(sides[k + 1], sides[k])
        sides[k] = net.unit(net.op("Add", [sides[k], up]), inner, inner, 3, 1, "relu")
    heads = {"boxes": 4, "scores": 2, "marks": 10}
    for name, numbers in heads.items():
        parts = []
        for side in sides:
            y = net.conv(side, inner, 2 * numbers, 1, gain=1.0)
            y = net.op("Transpose", [y], perm=[0, 2, 3, 1])
            parts.append(net.op("Reshape", [y, net.listed(net.extent(y, 0), -1, numbers)]))
        if name == "scores":
            net.op("Softmax", [net.op("Concat", parts, axis=1)], name, axis=-1)
        else:
            net.op("Concat", parts, name, axis=1)
        net.output(name, [1, "anchors", numbers])
    sizes = [(32, 32), (33, 64), (50, 90), (100, 31), (128, 128), (97, 128), (64, 65), (16, 111)]
    words = ["--range", "input.d2=16..128", "--range", "input.d3=16..128"]
    return Dynamic("faces", net.model(), words, ("INPUT_D2", "INPUT_D3"), sizes)


def pieces():
    """Windows whose padding follows from the extent, transposed ones, and resampling by every rule."""
    net = Open("pieces", 26, opset=19, ir_version=9)
    x = net.input("x", [1, 3, "H", "W"])
    image = net.conv(x, 3, 4, 1)

    def out(y):
        net.output(y, [1, 4, None, None])

    for pad in ("SAME_UPPER", "SAME_LOWER"):
        for kernel, stride in ((3, 2), (2, 2), (5, 3)):
            window = {"kernel_shape": [kernel] * 2, "strides": [stride, stride], "auto_pad": pad}
            w = net.const(net.weights([4, 4, kernel, kernel], 4 * kernel * kernel))
            out(net.op("Conv", [image, w], **window))
            out(net.op("MaxPool", [image], **window))
            out(net.op("AveragePool", [image], **window))
            w = net.const(net.weights([4, 4, kernel, kernel], 4 * kernel * kernel))
            out(net.op("ConvTranspose", [image, w], **window))
    w = net.const(net.weights([4, 4, 3, 3], 36))
    out(net.op("ConvTranspose", [image, w], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]))
    for ceil in (0, 1):
        out(net.op("MaxPool", [image], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=ceil))
        out(net.op("LpPool", [image], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=ceil))
    for mode, coordinates, scale in (
        ("nearest", "asymmetric", 1.5), ("nearest", "half_pixel", 0.6), ("linear", "half_pixel", 2.0),
        ("linear", "align_corners", 1.5), ("linear", "pytorch_half_pixel", 0.75), ("cubic", "half_pixel", 1.25),
    ):  # fmt: skip
        scales = net.const([1, 1, scale, scale])
        out(net.op("Resize", [image, "", scales], mode=mode, coordinate_transformation_mode=coordinates))
    scales = net.const([1, 1, 0.5, 0.5])
    out(net.op("Resize", [image, "", scales], mode="linear", antialias=1))
    sizes = net.listed(1, 4, net.op("Add", [net.extent(x, 3), net.scalar(3)]), net.extent(x, 2))
    out(net.op("Resize", [image, "", "", sizes], mode="linear"))
    for mode in ("linear", "cubic"):
        out(net.op("Resize", [image, "", "", net.ints(1, 4, 5, 3)], mode=mode, antialias=1))
    out(net.op("Resize", [image, "", "", sizes], mode="cubic", antialias=1, exclude_outside=1))
    # Tiles, slices and joins that follow from the extents.
    h, w = net.extent(x, 2), net.extent(x, 3)
    half = net.op("Div", [h, net.scalar(2)])
    first = net.op("Slice", [image, net.ints(0), net.listed(half), net.ints(2)])
    rest = net.op("Slice", [image, net.listed(half), net.ints(2**31), net.ints(2)])
    out(net.op("Concat", [rest, first], axis=2))
    out(net.op("Tile", [image, net.listed(1, 1, 2, 1)]))
    steps = net.op("Range", [net.scalar(0.5, np.float32), net.op("Cast", [w], to=TensorProto.FLOAT),
                             net.scalar(0.25, np.float32)])  # fmt: skip
    net.op("Expand", [steps, net.listed(1, 4, h, 1)], "grid")
    net.output("grid", [1, 4, None, None])
    # From 4 on: ONNX Runtime copies where a scale other than 1 leaves the extents as they are.
    sizes = [(4, 5), (7, 4), (4, 7), (5, 5), (8, 8), (11, 6), (16, 9), (13, 12)]
    words = ["--range", "H=4..16", "--range", "W=4..12"]
    return Dynamic("pieces", net.model(), words, ("H", "W"), sizes, small=True)


def networks(width=1):
    return [yolo(width), dbnet(width), crnn(width), unet("transposed", width), unet("linear", width), faces(width)]
