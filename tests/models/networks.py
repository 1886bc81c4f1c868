"""Small networks of the kinds that real models are of: the same operators in the same idioms, with
seeded weights. Each function returns (fp32 model, inputs of the first data set)."""

import numpy as np

from builder import Network


def smooth_image(rng, shape):
    """Noise over a slow pattern, about -1 to 1: nearer to a picture than noise alone."""
    n, c, h, w = shape
    y, x = np.mgrid[0:h, 0:w]
    phase = rng.uniform(0, 6, (n, c, 1, 1))
    return (0.6 * np.sin(x / 5 + phase) * np.cos(y / 7) + 0.3 * rng.standard_normal(shape)).astype(
        np.float32
    )


# Detector: ShuffleNetV2 backbone, feature pyramid with linear Resize, three heads, six outputs.


def channel_shuffle(net, x, channels, size):
    split = net.const([1, 2, channels // 2, size, size], np.int64)
    x = net.op("Reshape", [x, split])
    x = net.op("Transpose", [x], perm=[0, 2, 1, 3, 4])
    return net.op("Reshape", [x, net.const([1, -1, size, size], np.int64)])


def leaky(net, x):
    return net.op("LeakyRelu", [x], alpha=0.1)


def shuffle_down(net, x, c_in, half):
    """Stride-2 unit: two branches, concatenated."""
    left = net.conv(x, c_in, c_in, 3, group=c_in, strides=[2, 2])
    left = leaky(net, net.conv(left, c_in, half, 1))
    right = leaky(net, net.conv(x, c_in, half, 1))
    right = net.conv(right, half, half, 3, group=half, strides=[2, 2])
    right = leaky(net, net.conv(right, half, half, 1))
    return net.op("Concat", [left, right], axis=1)


def shuffle_unit(net, x, half):
    """Stride-1 unit: one half passes, the other is transformed; opset 10 Slice."""
    first, one, end = (net.const([v], np.int64) for v in (0, 1, 2 * half))
    middle = net.const([half], np.int64)
    left = net.op("Slice", [x, first, middle, one])
    right = net.op("Slice", [x, middle, end, one])
    right = leaky(net, net.conv(right, half, half, 1))
    right = net.conv(right, half, half, 3, group=half)
    right = leaky(net, net.conv(right, half, half, 1))
    return net.op("Concat", [left, right], axis=1)


def detector():
    net = Network("detector", 11, opset=11, ir_version=6)
    x = net.input("input.1", [1, 3, 64, 64])
    x = leaky(net, net.conv(x, 3, 12, 3, strides=[2, 2]))
    x = net.op("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    channels, levels = 12, []
    for half, size in ((14, 8), (28, 4), (56, 2)):
        x = channel_shuffle(net, shuffle_down(net, x, channels, half), 2 * half, size)
        channels = 2 * half
        x = channel_shuffle(net, shuffle_unit(net, x, half), channels, size)
        levels.append(net.conv(x, channels, 24, 1, gain=1.0))

    roi = net.const(np.zeros(0))

    def resize(x, factor):
        scales = net.const([1, 1, factor, factor])
        return net.op("Resize", [x, roi, scales], mode="linear", nearest_mode="floor",
                      coordinate_transformation_mode="pytorch_half_pixel")

    low, middle, high = levels
    middle = net.op("Add", [middle, resize(high, 2)])
    low = net.op("Add", [low, resize(middle, 2)])
    middle = net.op("Add", [middle, resize(low, 0.5)])
    high = net.op("Add", [high, resize(middle, 0.5)])

    for x, size, stride in ((low, 8, 8), (middle, 4, 16), (high, 2, 32)):
        for _ in range(2):
            x = leaky(net, net.conv(x, 24, 24, 3, group=24))
            x = leaky(net, net.conv(x, 24, 24, 1))
        x = net.conv(x, 24, 20, 1, gain=1.0)
        scores, boxes = net.op("Split", [x], outputs=2, axis=1, split=[12, 8])
        scores = net.op("Sigmoid", [scores])
        for part, count, name in ((scores, 12, "cls"), (boxes, 8, "dis")):
            flat = net.op("Reshape", [part, net.const([1, count, -1], np.int64)])
            result = f"{name}_pred_stride_{stride}"
            net.op("Transpose", [flat], output=result, perm=[0, 2, 1])
            net.output(result, [1, size * size, count])
    return net.model(), {"input.1": smooth_image(net.rng, (1, 3, 64, 64))}


# SSD face detector: batch normalisation unfolded, shapes computed in the graph, box decoding.


def conv_bn(net, x, c_in, c_out, kernel, relu=True, **attributes):
    x = net.conv(x, c_in, c_out, kernel, bias=False, **attributes)
    x = net.batch_norm(x, c_out)
    return net.op("Relu", [x]) if relu else x


def separable(net, x, c_in, c_out, stride=1):
    x = conv_bn(net, x, c_in, c_in, 3, group=c_in, strides=[stride, stride])
    return conv_bn(net, x, c_in, c_out, 1)


def receptive_field_block(net, x, channels):
    """Three dilated branches, concatenated, over a linear shortcut."""
    narrow, wide = channels // 8, channels // 4
    branches = []
    for dilation in (2, 3, 5):
        y = conv_bn(net, x, channels, narrow, 1, relu=False)
        y = conv_bn(net, y, narrow, wide, 3)
        branches.append(
            conv_bn(net, y, wide, wide, 3, relu=False, dilations=[dilation, dilation])
        )
    y = net.op("Concat", branches, axis=1)
    y = conv_bn(net, y, 3 * wide, channels, 1, relu=False)
    shortcut = conv_bn(net, x, channels, channels, 1, relu=False)
    return net.op("Relu", [net.op("Add", [y, shortcut])])


def flatten_predictions(net, x, last):
    """[n, c, h, w] -> [n, anything, last], with the batch size read from the shape."""
    x = net.op("Transpose", [x], perm=[0, 2, 3, 1])
    shape = net.op("Shape", [x])
    batch = net.op("Gather", [shape, net.constant_node(0, np.int64)], axis=0)
    parts = [batch, net.constant_node(-1, np.int64), net.constant_node(last, np.int64)]
    parts = [net.op("Unsqueeze", [part], axes=[0]) for part in parts]
    return net.op("Reshape", [x, net.op("Concat", parts, axis=0)])


def ssd():
    net = Network("ssd", 12, opset=9, ir_version=4, named_nodes=False)
    x = net.input("input", [1, 3, 48, 64])
    x = conv_bn(net, x, 3, 8, 3, strides=[2, 2])
    x = separable(net, x, 8, 16, stride=2)
    x = receptive_field_block(net, separable(net, x, 16, 16), 16)
    features = [(x, 16, 12 * 16, 3)]
    x = separable(net, separable(net, x, 16, 32, stride=2), 32, 32)
    features.append((x, 32, 6 * 8, 2))

    scores, boxes = [], []
    for x, channels, _, anchors in features:
        for results, last in ((scores, 2), (boxes, 4)):
            y = net.op("Relu", [net.conv(x, channels, channels, 3, group=channels)])
            y = net.conv(y, channels, anchors * last, 1, gain=1.0)
            results.append(flatten_predictions(net, y, last))
    scores = net.op("Concat", scores, axis=1)
    boxes = net.op("Concat", boxes, axis=1)
    net.op("Softmax", [scores], output="scores", axis=2)

    count = sum(cells * anchors for _, _, cells, anchors in features)
    centres = net.constant_node(net.rng.uniform(0, 1, (1, count, 2)))
    sizes = net.constant_node(net.rng.uniform(0.1, 0.6, (1, count, 2)))
    end = 2**63 - 1

    def columns(x, start, stop):
        return net.op("Slice", [x], axes=[2], starts=[start], ends=[stop])

    offset = net.op("Mul", [columns(boxes, 0, 2), net.constant_node(0.1)])
    offset = net.op("Mul", [offset, sizes])
    centre = net.op("Add", [offset, centres])
    extent = net.op("Exp", [net.op("Mul", [columns(boxes, 2, end), net.constant_node(0.2)])])
    extent = net.op("Mul", [extent, sizes])
    both = net.op("Concat", [centre, extent], axis=2)

    def corner(kind):
        half = net.op("Div", [columns(both, 2, end), net.constant_node(2.0)])
        return net.op(kind, [columns(both, 0, 2), half])

    net.op("Concat", [corner("Sub"), corner("Add")], output="boxes", axis=2)
    net.output("scores", [1, count, 2])
    net.output("boxes", [1, count, 4])
    return net.model(), {"input": smooth_image(net.rng, (1, 3, 48, 64))}


def upscaler():
    net = Network("upscaler", 13, opset=15, ir_version=8)
    x = net.input("input", ["batch_size", 1, 24, 24])
    x = net.op("Relu", [net.conv(x, 1, 16, 5)])
    x = net.op("Relu", [net.conv(x, 16, 16, 3)])
    x = net.op("Relu", [net.conv(x, 16, 8, 3)])
    x = net.conv(x, 8, 9, 3, gain=1.0)
    net.op("DepthToSpace", [x], output="output", blocksize=3, mode="CRD")
    net.output("output", ["batch_size", 1, 72, 72])
    return net.model(), {"input": smooth_image(net.rng, (1, 1, 24, 24))}


# Audio: a constant-Q transform by 1-d convolutions over octaves, log scale, harmonic stacking.


def audio():
    samples, frames, bins, octaves, taps = 1020, 32, 12, 3, 64
    kept = bins * octaves - 3
    net = Network("audio", 14, opset=15, ir_version=8)
    whole = 2**31 - 1

    def ints(*values):
        return net.const(values, np.int64)

    def reshape(x, *shape):
        return net.op("Reshape", [x, ints(*shape)])

    x = net.input("serving_default_input_2:0", ["unk__749", samples, 1])
    x = reshape(x, -1, 1, samples)
    x = net.op("Slice", [x, ints(0, 0, 0), ints(whole, whole, whole), ints(0, 1, 2)])

    time = np.arange(taps)
    window = np.hanning(taps)
    frequencies = 2 * np.pi * 0.12 * 2 ** (np.arange(bins) / bins)
    waves = np.exp(1j * np.outer(frequencies, time)) * window / taps * 4
    real, imaginary = (
        net.const(part.reshape(bins, 1, 1, taps)) for part in (waves.real, waves.imag)
    )
    low_pass = net.const((window / window.sum()).reshape(1, 1, 1, taps))
    no_bias, one_zero = net.const(np.zeros(bins)), net.const(np.zeros(1))

    length, hop, all_octaves = samples, 32, []
    for octave in range(octaves):
        pads = ints(0, 0, taps // 2, 0, 0, taps // 2)
        y = net.op("Pad", [x, pads], mode="reflect")
        padded = length + taps
        y = net.op("Unsqueeze", [reshape(y, -1, padded, 1), ints(-3)])
        y = reshape(y, -1, 1, 1, padded)
        parts = []
        for weight in (real, imaginary):
            z = net.op("Conv", [y, weight, no_bias], kernel_shape=[1, taps], strides=[1, hop])
            if weight == imaginary:
                z = net.op("Neg", [z])
            count = (padded - taps) // hop + 1
            z = reshape(net.op("Transpose", [z], perm=[0, 2, 3, 1]), -1, count, bins)
            parts.append(net.op("Unsqueeze", [z, ints(3)]))
        z = net.op("Concat", parts, axis=3)
        z = net.op("Slice", [z, ints(0), ints(frames), ints(1)])
        all_octaves.insert(0, z)
        if octave + 1 < octaves:
            pads = ints(0, 0, taps // 2 - 1, 0, 0, taps // 2 - 1)
            y = net.op("Pad", [x, pads])
            padded = length + taps - 2
            y = net.op("Unsqueeze", [reshape(y, -1, padded, 1), ints(-3)])
            y = reshape(y, -1, 1, 1, padded)
            y = net.op("Conv", [y, low_pass, one_zero], kernel_shape=[1, taps], strides=[1, 2])
            length = (padded - taps) // 2 + 1
            x = reshape(y, -1, 1, length)
            hop //= 2

    x = net.op("Concat", all_octaves, axis=2)
    starts, ends = ints(0, -kept, 0, 0), ints(whole, whole, whole, whole)
    x = net.op("Slice", [x, starts, ends, ints(0, 2, 1, 3)])
    x = net.op("Transpose", [x], perm=[0, 2, 1, 3])
    x = net.op("Mul", [x, net.const(net.rng.uniform(0.5, 1.5, (kept, 1, 1)))])
    x = net.op("Mul", [x, x])
    x = net.op("ReduceSum", [x, ints(-1)], keepdims=0, noop_with_empty_axes=1)
    x = net.op("Transpose", [net.op("Sqrt", [x])], perm=[0, 2, 1])

    # Decibels, normalised per example to 0..1; a silent example divides by zero and becomes 0.
    y = net.op("Add", [net.op("Mul", [x, x]), net.const(1e-10)])
    y = net.op("Mul", [net.op("Log", [y]), net.const(1 / np.log(10))])
    y = net.op("Mul", [y, net.const(10)])
    shape = net.op("Cast", [net.op("Shape", [x])], to=6)
    batch = net.op("Slice", [shape, ints(0), ints(1), ints(0)])
    one = net.const([1], np.int32)
    column = net.op("Cast", [net.op("Concat", [batch, one, one], axis=0)], to=7)
    least = net.op("ReduceMin", [y], axes=[1, 2], keepdims=0)
    y = net.op("Sub", [y, net.op("Reshape", [least, column])])
    most = net.op("Reshape", [net.op("ReduceMax", [y], axes=[1, 2], keepdims=0), column])
    zero = net.const(0)
    y = net.op("Where", [net.op("Equal", [most, zero]), zero, net.op("Div", [y, most])])
    y = net.op("Reshape", [y, net.op("Cast", [shape], to=7)])
    y = net.op("Unsqueeze", [y, ints(-1)])
    y = net.op("Add", [net.op("Mul", [y, net.const([2.4])]), net.const([-0.9])])

    # Harmonics beside each other: shifted along the bins, the gap filled with zeros.
    used = kept - 5
    axes = ints(0, 1, 2, 3)
    below = net.op("Slice", [y, ints(0, 0, 0, 0), ints(whole, whole, -7, whole), axes])
    harmonics = [net.op("Pad", [below, ints(0, 0, 7, 0, 0, 0, 0, 0)]), y]
    for shift in (7, 12):
        above = net.op("Slice", [y, ints(0, 0, shift, 0), ends, axes])
        harmonics.append(net.op("Pad", [above, ints(0, 0, 0, 0, 0, 0, shift, 0)]))
    y = net.op("Concat", harmonics, axis=-1)
    y = net.op("Slice", [y, ints(0, 0, 0, 0), ints(whole, whole, used, whole), axes])
    y = net.op("Transpose", [y], perm=[0, 3, 1, 2])

    third = (used - 1) // 3 + 1
    onset = net.conv(y, 4, 8, 5, strides=[1, 3])
    contour = net.op("Relu", [net.conv(y, 4, 8, [3, 9])])
    contour = net.op("Sigmoid", [net.conv(contour, 8, 1, 5, gain=1.0)])
    contour = net.op("Reshape", [contour, ints(-1, frames, used)], output="StatefulPartitionedCall:0")
    note = net.op("Unsqueeze", [contour, ints(-1)])
    note = reshape(note, -1, 1, frames, used)
    note = net.op("Relu", [net.conv(note, 1, 8, 7, strides=[1, 3])])
    note = net.op("Sigmoid", [net.conv(note, 8, 1, [7, 3], gain=1.0)])
    net.op("Reshape", [note, ints(-1, frames, third)], output="StatefulPartitionedCall:1")
    onset = net.op("Concat", [note, net.op("Relu", [onset])], axis=1)
    onset = net.op("Sigmoid", [net.conv(onset, 9, 1, 3, gain=1.0)])
    net.op("Reshape", [onset, ints(-1, frames, third)], output="StatefulPartitionedCall:2")
    for index, width in enumerate((used, third, third)):
        net.output(f"StatefulPartitionedCall:{index}", [f"unk__{750 + index}", frames, width])

    time = np.arange(samples)
    tone = 0.5 * np.sin(time * 0.9) + 0.3 * np.sin(time * 0.31 + time**2 * 1e-4)
    wave = tone + 0.05 * net.rng.standard_normal(samples)
    return net.model(), {"serving_default_input_2:0": wave.reshape(1, samples, 1).astype(np.float32)}


def classifier_end(net, x, channels, kernel, classes, transpose=True):
    """Average over the whole picture, flatten in NHWC order, Gemm, Softmax."""
    x = net.op("AveragePool", [x], kernel_shape=kernel, strides=kernel)
    if transpose:
        x = net.op("Transpose", [x], perm=[0, 2, 3, 1])
    x = net.op("Reshape", [x, net.const([-1, channels], np.int64)])
    x = net.gemm(x, channels, classes, gain=20.0)
    net.op("Softmax", [x], output="Identity", axis=-1)
    net.output("Identity", [1, classes])


def mobilenet():
    net = Network("mobilenet", 15, opset=11, ir_version=6)
    x = net.input("input_1", [1, 3, 32, 32])
    x = net.op("Relu", [net.conv(x, 3, 8, 3, strides=[2, 2], pads=[0, 0, 1, 1])])
    channels = 8
    for c_out, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (64, 1)):
        pads = [0, 0, 1, 1] if stride == 2 else [1, 1, 1, 1]
        x = net.conv(x, channels, channels, 3, group=channels, strides=[stride] * 2, pads=pads)
        x = net.op("Relu", [net.conv(net.op("Relu", [x]), channels, c_out, 1)])
        channels = c_out
    classifier_end(net, x, channels, [4, 4], 2)
    return net.model(), {"input_1": smooth_image(net.rng, (1, 3, 32, 32))}


def resnet_body(net, x):
    x = net.op("Relu", [net.conv(x, 3, 8, 3)])
    channels = 8
    for c_out, stride in ((8, 1), (16, 2), (32, 2)):
        pads = [0, 0, 1, 1] if stride == 2 else [1, 1, 1, 1]
        y = net.op("Relu", [net.conv(x, channels, c_out, 3, strides=[stride] * 2, pads=pads)])
        y = net.conv(y, c_out, c_out, 3, gain=1.0)
        if stride == 2:
            x = net.conv(x, channels, c_out, 1, strides=[2, 2], gain=1.0)
        x = net.op("Relu", [net.op("Add", [x, y])])
        channels = c_out
    classifier_end(net, x, channels, [4, 4], 10)


def resnet():
    net = Network("resnet", 16, opset=11, ir_version=6)
    resnet_body(net, net.input("input_1", [1, 3, 16, 16]))
    return net.model(), {"input_1": smooth_image(net.rng, (1, 3, 16, 16))}


def resnet_nhwc():
    """The same body behind an NHWC input: the source of the QDQ twin."""
    net = Network("resnet", 16, opset=15, ir_version=8)
    x = net.input("input_1", [1, 16, 16, 3])
    resnet_body(net, net.op("Transpose", [x], perm=[0, 3, 1, 2]))
    image = smooth_image(net.rng, (1, 3, 16, 16)).transpose(0, 2, 3, 1)
    return net.model(), {"input_1": np.ascontiguousarray(image)}


def keyword_dscnn():
    """Depthwise-separable keyword spotting over 49 x 10 features."""
    net = Network("keyword_dscnn", 17, opset=15, ir_version=8)
    x = net.input("input_1", [1, 490])
    x = net.op("Reshape", [x, net.const([-1, 1, 49, 10], np.int64)])
    x = net.op("Relu", [net.conv(x, 1, 24, [10, 4], strides=[2, 2], pads=[4, 1, 5, 1])])
    for _ in range(4):
        x = net.op("Relu", [net.conv(x, 24, 24, 3, group=24)])
        x = net.op("Relu", [net.conv(x, 24, 24, 1)])
    classifier_end(net, x, 24, [25, 5], 12, transpose=False)
    return net.model(), {"input_1": net.rng.standard_normal((1, 490)).astype(np.float32)}


def autoencoder():
    net = Network("autoencoder", 18, opset=13, ir_version=6)
    x = net.input("input_1", [1, 64])
    widths = [64, 32, 32, 8, 32, 32]
    for c_in, c_out in zip(widths, widths[1:]):
        x = net.op("Relu", [net.gemm(x, c_in, c_out)])
    net.gemm(x, 32, 64, output="Identity", gain=1.0)
    net.output("Identity", [1, 64])
    return net.model(), {"input_1": net.rng.standard_normal((1, 64)).astype(np.float32)}


def gated():
    """Inverted residuals with squeeze and excite: products of tensors, functions other than relu."""
    net = Network("gated", 20, opset=15, ir_version=8)
    x = net.input("image", [1, 3, 24, 24])
    x = net.op("HardSwish", [net.conv(x, 3, 16, 3, strides=[2, 2])])
    for activation in ("HardSwish", "Swish"):
        y = net.conv(x, 16, 32, 1)
        if activation == "Swish":
            y = net.op("Mul", [y, net.op("Sigmoid", [y])])
        else:
            y = net.op(activation, [y])
        y = net.op("LeakyRelu", [net.conv(y, 32, 32, 3, group=32)], alpha=0.1)
        gate = net.op("GlobalAveragePool", [y])
        gate = net.op("Relu", [net.conv(gate, 32, 8, 1)])
        gate = net.op("HardSigmoid", [net.conv(gate, 8, 32, 1)], alpha=1 / 6, beta=0.5)
        y = net.conv(net.op("Mul", [y, gate]), 32, 16, 1)
        x = net.op("Add", [x, y])
    x = net.op("Flatten", [net.op("GlobalAveragePool", [net.op("Tanh", [x])])])
    net.gemm(x, 16, 10, output="scores", gain=4.0)
    net.output("scores", [1, 10])
    return net.model(), {"image": smooth_image(net.rng, (1, 3, 24, 24))}


def attention():
    """One layer of an encoder without normalisation: products of two tensors, softmax, Gelu."""
    net = Network("attention", 21, opset=15, ir_version=8)
    tokens, width, heads = 20, 32, 4
    source = x = net.input("tokens", [1, tokens, width])

    def project(x, c_in, c_out):
        weight = net.const(net.weights([c_in, c_out], c_in, 1.0))
        return net.op("Add", [net.op("MatMul", [x, weight]), net.const(net.rng.normal(0, 0.2, c_out))])

    def split(x, perm):
        shape = net.const([1, tokens, heads, width // heads], np.int64)
        return net.op("Transpose", [net.op("Reshape", [x, shape])], perm=perm)

    query, value = (split(project(x, width, width), [0, 2, 1, 3]) for _ in range(2))
    key = split(project(x, width, width), [0, 2, 3, 1])
    scores = net.op("Mul", [net.op("MatMul", [query, key]), net.const((width // heads) ** -0.5)])
    mixed = net.op("MatMul", [net.op("Softmax", [scores], axis=-1), value])
    mixed = net.op("Transpose", [mixed], perm=[0, 2, 1, 3])
    mixed = net.op("Reshape", [mixed, net.const([1, tokens, width], np.int64)])
    x = net.op("Add", [project(mixed, width, width), source])
    y = project(x, width, 64)
    half = net.op("Erf", [net.op("Mul", [y, net.const(2**-0.5)])])
    half = net.op("Mul", [net.op("Add", [half, net.const(1)]), net.const(0.5)])
    y = project(net.op("Mul", [y, half]), 64, width)
    net.op("Add", [x, y], output="encoded")
    net.output("encoded", [1, tokens, width])
    return net.model(), {"tokens": net.rng.standard_normal((1, tokens, width)).astype(np.float32)}


def keyword_micro():
    """Keyword spotting with both pools and MatMul + Add layers."""
    net = Network("keyword_micro", 19, opset=15, ir_version=8)
    x = net.input("serving_default_input:0", [1, 480])
    x = net.op("Reshape", [x, net.const([-1, 1, 24, 20], np.int64)])
    pools = ("MaxPool", "AveragePool", "AveragePool")
    sizes = ((1, 8, 8, [3, 3, 4, 4]), (8, 6, 6, [2, 2, 3, 3]), (6, 8, 4, [1, 1, 2, 2]))
    for (c_in, c_out, kernel, pads), pool in zip(sizes, pools):
        x = net.op("Relu", [net.conv(x, c_in, c_out, kernel, pads=pads)])
        x = net.op(pool, [x], kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Transpose", [x], perm=[0, 2, 3, 1])
    x = net.op("Reshape", [x, net.const([-1, 48], np.int64)])
    for c_in, c_out in ((48, 32), (32, 16), (16, 10)):
        x = net.op("MatMul", [x, net.const(net.weights([c_in, c_out], c_in, gain=1.5))])
        x = net.op("Add", [x, net.const(net.rng.normal(0, 0.2, c_out))])
        x = net.op("Relu", [x]) if c_out > 10 else x
    net.op("Softmax", [x], output="StatefulPartitionedCall:0")
    net.output("StatefulPartitionedCall:0", [1, 10])
    return net.model(), {
        "serving_default_input:0": net.rng.standard_normal((1, 480)).astype(np.float32)
    }
