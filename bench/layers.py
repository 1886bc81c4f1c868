#!/usr/bin/env python3
"""Times single layers of generated C++ against ONNX Runtime and OpenVINO on the CPU, or of generated CUDA against
PyTorch on a GPU, in two sizes.

    bench/layers.py [--cases=GLOB,...] [--sizes=2] [--threads=1] [--target=cpu:native] [--seconds=S]
                    [--json FILE]
    bench/layers.py --target=cuda:sm_90a [--precision=fp16,fp32] [--inductor] [--share=I/N] [--against=TENON] [...]

A case is a model of one layer whose size has one extent left open; it is timed with that extent as
the table of cases says, and with four times as much. Reported are the times, the ratio (that of the
fastest peer over Tenon's: above 1, Tenon is faster) and the growth of Tenon's time from the
one to the other: an algorithm whose cost is that of its elements stays near 4, and one above 5 grows
faster than they do (caches aside). Inputs are seeded. Peers are made and timed in turns in one
process as in bench/cpu.py, and every output is compared first; the exit status is 1 where one differs
or a layer does not compile. On a GPU everything is built first, on all cores, and bench/layers_gpu.py says how it is
timed; --share leaves other shares of the cases to other runs. With --against programs of another build of
the compiler run in the same turns: their times stand beside, the ratio is to the peers'.
"""

import argparse
import fnmatch
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
from cpu import (
    FP32_ERROR,
    OnnxRuntime,
    Tenon,
    best_peer,
    clock_of,
    geometric_mean,
    interleave,
    openvino_peer,
    worst_error,
)
from generated import BuildError
from onnx import helper, numpy_helper
from tenon import binary, table

TIMES = 4  # how much larger the second size is
MOST_GROWTH = 5
OPSET = 18


def floats(*shape, low=-1.0, high=1.0):
    """A seeded array, different for each shape."""
    return np.random.default_rng(list(shape)).uniform(low, high, shape).astype(np.float32)


def layer(op, x, *constants, outputs=1, domain="", **attributes):
    """A model of one operator on input `x` (an array) and constants, with the input's values. None
    stands for an operand that is left out; an array in a list is an input, too."""
    names, initializers, inputs = ["x"], [], {"x": x}
    for i, c in enumerate(constants):
        name = f"c{i}" if c is not None else ""
        names.append(name)
        if isinstance(c, list):
            inputs[name] = np.asarray(c[0])
        elif c is not None:
            initializers.append(numpy_helper.from_array(np.asarray(c), name))
    results = [f"y{k}" for k in range(outputs)]
    return model_of([helper.make_node(op, names, results, domain=domain, **attributes)], inputs,
                    initializers, results)  # fmt: skip


def model_of(nodes, inputs, initializers, results):
    """A model of nodes and input values, and these."""
    given = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for name, a in inputs.items()]  # fmt: skip
    graph = helper.make_graph(nodes, "layer", given,
                              [helper.make_empty_tensor_value_info(name) for name in results],
                              initializers)  # fmt: skip
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    return onnx.shape_inference.infer_shapes(model), inputs


def cumulative(shape, axis=-1, **attributes):
    return layer("CumSum", floats(*shape), np.int64(axis), **attributes)


def power(n, exponent):
    return layer("Pow", floats(n, low=0.25, high=2.0), np.float32(exponent))


def elementwise(op, n, **attributes):
    return layer(op, floats(n, low=-3.0, high=3.0), **attributes)


def pool(op, shape, kernel, **attributes):
    return layer(op, floats(*shape), kernel_shape=kernel, **attributes)


def convolution(shape, filters, kernel, group=1, dilation=1, **attributes):
    weights = floats(filters, shape[1] // group, *kernel)
    pads = [k // 2 * dilation for k in kernel] * 2
    return layer("Conv", floats(*shape), weights, pads=pads, group=group,
                 dilations=[dilation] * len(kernel), **attributes)  # fmt: skip


def transposed(shape, filters, kernel, group=1):
    """Doubles every extent with a kernel of 4."""
    weights = floats(shape[1], filters // group, *kernel)
    rank = len(kernel)
    return layer("ConvTranspose", floats(*shape), weights, strides=[2] * rank, pads=[1] * 2 * rank,
                 group=group)  # fmt: skip


def recurrent(op, gates, steps, inputs, hidden, batch=1, both=False, **attributes):
    x = floats(steps, batch, inputs)
    d = 2 if both else 1
    w, r = floats(d, gates * hidden, inputs), floats(d, gates * hidden, hidden)
    scale = np.float32(1 / np.sqrt(hidden))
    return layer(op, x, w * scale, r * scale, hidden_size=hidden,
                 direction="bidirectional" if both else "forward", **attributes)  # fmt: skip


def reduction(op, shape, axes=None, **attributes):
    """Over all axes where none are named; of the Arg operators over one."""
    if op.startswith("Arg"):
        return layer(op, floats(*shape), axis=axes, **attributes)
    return layer(op, floats(*shape), None if axes is None else np.int64(axes), **attributes)


def transpose(shape, perm):
    return layer("Transpose", floats(*shape), perm=perm)


def product(m, k, n, computed=False):
    b = floats(k, n)
    return layer("MatMul", floats(m, k), [b] if computed else b)


def batched(shape_a, shape_b):
    return layer("MatMul", floats(*shape_a), [floats(*shape_b)])


def narrow(m, k, n, zero=False):
    """int4 weights in blocks of 32, accuracy level 4: activations may be rounded to 8 bits."""
    rng = np.random.default_rng([m, k, n])
    blocks = k // 32
    bytes_of = rng.integers(0, 256, (n, blocks, 16)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.02, n * blocks).astype(np.float32)
    zeros = rng.integers(0, 256, n * ((blocks + 1) // 2)).astype(np.uint8) if zero else None
    return layer("MatMulNBits", floats(m, k), bytes_of, scales, zeros, domain="com.microsoft",
                 K=k, N=n, bits=4, block_size=32, accuracy_level=4)  # fmt: skip


def normalization(op, shape, *parameters, **attributes):
    return layer(op, floats(*shape), *[floats(n) for n in parameters], **attributes)


def attention(heads, queries, keys, size):
    """Softmax of scaled scores times the values, as exporters write it."""
    q, k, v = floats(1, heads, queries, size), floats(1, heads, size, keys), floats(1, heads, keys, size)
    nodes = [helper.make_node("MatMul", ["q", "k"], ["s"]),
             helper.make_node("Mul", ["s", "scale"], ["t"]),
             helper.make_node("Softmax", ["t"], ["p"], axis=-1),
             helper.make_node("MatMul", ["p", "v"], ["y"])]  # fmt: skip
    scale = numpy_helper.from_array(np.float32(size**-0.5), "scale")
    return model_of(nodes, {"q": q, "k": k, "v": v}, [scale], ["y"])


def quantized(x, zero, weights, op, **attributes):
    """x (uint8, one zero point) through `op` with int8 weights, scales of each output channel, and
    back to uint8, as explicit quantisation."""
    first = {"x_scale": np.float32(0.02), "x_zero": np.uint8(zero), "w": weights,
             "w_scale": np.float32(0.005), "w_zero": np.int8(0),
             "y_scale": np.float32(0.05), "y_zero": np.uint8(128)}  # fmt: skip
    nodes = [helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["xf"]),
             helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wf"]),
             helper.make_node(op, ["xf", "wf"], ["yf"], **attributes),
             helper.make_node("QuantizeLinear", ["yf", "y_scale", "y_zero"], ["y"])]  # fmt: skip
    constants = [numpy_helper.from_array(np.asarray(a), name) for name, a in first.items()]
    return model_of(nodes, {"x": x}, constants, ["y"])


def small_integers(low, high, dtype, *shape):
    return np.random.default_rng(list(shape)).integers(low, high, shape).astype(dtype)


def quantized_convolution(shape, filters, group):
    weights = small_integers(-127, 128, np.int8, filters, shape[1] // group, 3, 3)
    return quantized(small_integers(0, 256, np.uint8, *shape), 120, weights, "Conv", group=group,
                     pads=[1] * 4)  # fmt: skip


def gathered(shape, count, axis):
    places = small_integers(0, shape[axis], np.int64, count)
    return layer("Gather", floats(*shape), [places], axis=axis)


def grid_sample(n, mode):
    x, grid = floats(1, 32, n, 128), floats(1, n, 128, 2)
    return layer("GridSample", x, [grid], mode=mode, align_corners=0)


def resize(shape, scales, mode, **attributes):
    return layer("Resize", floats(*shape), None, np.float32(scales), mode=mode, **attributes)


# Name: the smaller extent, and the layer for an extent.
CASES = {
    "cumsum_row": (4096, lambda n: cumulative((64, n))),
    "cumsum_back": (4096, lambda n: cumulative((64, n), exclusive=1, reverse=1)),
    "cumsum_col": (4096, lambda n: cumulative((n, 64), axis=0)),
    "cumsum_one": (65536, lambda n: cumulative((n,))),
    "cumsum_mask": (2048, lambda n: layer("CumSum", np.ones((1, n), np.int64), np.int64(1))),
    "lstm": (100, lambda n: recurrent("LSTM", 4, n, 512, 512)),
    "lstm_batch": (50, lambda n: recurrent("LSTM", 4, n, 256, 256, batch=32)),
    "lstm_bi": (100, lambda n: recurrent("LSTM", 4, n, 128, 128, both=True)),
    "gru": (100, lambda n: recurrent("GRU", 3, n, 512, 512)),
    "gru_linear": (100, lambda n: recurrent("GRU", 3, n, 512, 512, linear_before_reset=1)),
    "rnn": (200, lambda n: recurrent("RNN", 1, n, 128, 128)),
    "top1": (32064, lambda n: layer("TopK", floats(1, n), np.int64([1]), outputs=2)),
    "top50": (32064, lambda n: layer("TopK", floats(1, n), np.int64([50]), outputs=2)),
    "topk_rows": (300, lambda n: layer("TopK", floats(n, 91), np.int64([5]), outputs=2)),
    "max2_s2": (56, lambda n: pool("MaxPool", (1, 64, n, 56), [2, 2], strides=[2, 2])),
    "max3": (56, lambda n: pool("MaxPool", (1, 64, n, 56), [3, 3], pads=[1] * 4)),
    "max3_s2": (112, lambda n: pool("MaxPool", (1, 64, n, 112), [3, 3], pads=[1] * 4, strides=[2, 2])),
    "max3_d2": (56, lambda n: pool("MaxPool", (1, 64, n, 56), [3, 3], pads=[2] * 4, dilations=[2, 2])),
    "max13": (20, lambda n: pool("MaxPool", (1, 256, n, 20), [13, 13], pads=[6] * 4)),
    "avg_1x127": (4096, lambda n: pool("AveragePool", (1, 64, 1, n), [1, 127], pads=[0, 63, 0, 63])),
    "avg3": (56, lambda n: pool("AveragePool", (1, 64, n, 56), [3, 3], pads=[1] * 4)),
    "max3_1d": (4096, lambda n: pool("MaxPool", (1, 256, n), [3], pads=[1, 1])),
    "max3_3d": (16, lambda n: pool("MaxPool", (1, 32, n, 56, 56), [3, 3, 3], pads=[1] * 6)),
    "avg3_3d": (16, lambda n: pool("AveragePool", (1, 32, n, 56, 56), [3, 3, 3], pads=[1] * 6)),
    "lrn5": (55, lambda n: layer("LRN", floats(1, 96, n, 55), size=5)),
    "nearest2": (64, lambda n: resize((1, 64, n, 64), [1, 1, 2, 2], "nearest")),
    "bilinear2": (64, lambda n: resize((1, 64, n, 64), [1, 1, 2, 2], "linear")),
    "grid_linear": (128, lambda n: grid_sample(n, "bilinear")),
    "sum_all": (1 << 20, lambda n: reduction("ReduceSum", (n,))),
    "max_all": (1 << 20, lambda n: reduction("ReduceMax", (n,))),
    "argmax_all": (1 << 20, lambda n: reduction("ArgMax", (n,), 0)),
    "sum_tall": (262144, lambda n: reduction("ReduceSum", (n, 16), [0])),
    "sum_rows": (65536, lambda n: reduction("ReduceSum", (n, 64), [1])),
    "mean_hw": (32, lambda n: reduction("ReduceMean", (n, 256, 28, 28), [2, 3])),
    "argmax_channel": (128, lambda n: reduction("ArgMax", (1, 21, n, 128), 1)),
    "softmax_one": (32064, lambda n: layer("Softmax", floats(1, n), axis=1)),
    "logsoftmax_one": (32064, lambda n: layer("LogSoftmax", floats(1, n), axis=1)),
    "softmax_rows": (2048, lambda n: layer("Softmax", floats(n, 768), axis=1)),
    "softmax_channel": (256, lambda n: layer("Softmax", floats(1, 21, n, 256), axis=1)),
    "layernorm_rows": (2048, lambda n: normalization("LayerNormalization", (n, 768), 768, 768)),
    "instancenorm": (512, lambda n: normalization("InstanceNormalization", (1, 3, n, 512), 3, 3)),
    "gather_rows": (256, lambda n: gathered((32000, 1024), n, 0)),
    "gather_last": (1024, lambda n: gathered((n, 1024), 1024, 1)),
    "transpose": (1024, lambda n: transpose((n, 1024), [1, 0])),
    "heads": (512, lambda n: transpose((8, n, 12, 64), [0, 2, 1, 3])),
    "to_nhwc": (128, lambda n: transpose((1, 64, n, 128), [0, 2, 3, 1])),
    "to_nchw": (128, lambda n: transpose((1, n, 128, 64), [0, 3, 1, 2])),
    "pixel_shuffle2": (128, lambda n: layer("DepthToSpace", floats(1, 64, n, 128), blocksize=2)),
    "space_to_depth2": (128, lambda n: layer("SpaceToDepth", floats(1, 64, n, 128), blocksize=2)),
    "pad_reflect": (128, lambda n: layer("Pad", floats(1, 64, n, 128), np.int64([0, 0, 3, 3] * 2),
                                         mode="reflect")),
    "c3": (56, lambda n: convolution((1, 64, n, 56), 64, [3, 3])),
    "c3_dilated": (56, lambda n: convolution((1, 64, n, 56), 64, [3, 3], dilation=12)),
    "c3_14": (14, lambda n: convolution((1, 256, n, 14), 256, [3, 3])),
    "g8": (56, lambda n: convolution((1, 64, n, 56), 64, [3, 3], 8)),
    "g4": (56, lambda n: convolution((1, 64, n, 56), 64, [3, 3], 16)),
    "g32": (14, lambda n: convolution((1, 512, n, 14), 512, [3, 3], 32)),
    "dw3": (56, lambda n: convolution((1, 64, n, 56), 64, [3, 3], 64)),
    "dw3_x2": (56, lambda n: convolution((1, 64, n, 56), 128, [3, 3], 64)),
    "dw7": (56, lambda n: convolution((1, 64, n, 56), 64, [7, 7], 64)),
    "dw31": (56, lambda n: convolution((1, 64, n, 56), 64, [31, 31], 64)),
    "c1": (28, lambda n: convolution((1, 256, n, 28), 256, [1, 1])),
    "c7_s2": (224, lambda n: convolution((1, 3, n, 224), 64, [7, 7], strides=[2, 2])),
    "c9_1d": (1000, lambda n: convolution((1, 256, n), 256, [9])),
    "g16_1d": (1000, lambda n: convolution((1, 256, n), 256, [9], 16, strides=[2])),
    "c3_3d": (8, lambda n: convolution((1, 32, n, 56, 56), 32, [3, 3, 3])),
    "g8_3d": (8, lambda n: convolution((1, 32, n, 56, 56), 32, [3, 3, 3], 4)),
    "dw3_3d": (8, lambda n: convolution((1, 32, n, 56, 56), 32, [3, 3, 3], 32)),
    "t4_s2": (32, lambda n: transposed((1, 64, n, 32), 64, [4, 4])),
    "t4_dw": (32, lambda n: transposed((1, 64, n, 32), 64, [4, 4], 64)),
    "t4_3d": (8, lambda n: transposed((1, 16, n, 16, 16), 16, [4, 4, 4])),
    "row1": (1024, lambda n: product(1, 4096, n)),
    "rows4": (1024, lambda n: product(4, 4096, n)),
    "square": (512, lambda n: product(n, 512, 512)),
    "square_computed": (512, lambda n: product(n, 512, 512, computed=True)),
    "head_products": (512, lambda n: batched((12, n, 64), (12, 64, 512))),
    "small": (1024, lambda n: batched((n, 8, 8), (n, 8, 8))),
    "q_static": (256, lambda n: quantized(small_integers(0, 256, np.uint8, n, 768), 120,
                                          small_integers(-127, 128, np.int8, 768, 768), "MatMul")),
    "qconv3": (56, lambda n: quantized_convolution((1, 64, n, 56), 64, 1)),
    "qdw3": (56, lambda n: quantized_convolution((1, 64, n, 56), 64, 64)),
    "nbits_1": (1024, lambda n: narrow(1, 4096, n)),
    "nbits_32": (1024, lambda n: narrow(32, 4096, n)),
    "nbits_128": (1024, lambda n: narrow(128, 4096, n)),
    "nbits_zero": (1024, lambda n: narrow(1, 4096, n, zero=True)),
    "d64_fp32": (512, lambda n: attention(12, 512, n, 64)),
    "pow2": (1 << 20, lambda n: power(n, 2)),
    "pow3": (1 << 20, lambda n: power(n, 3)),
    "pow_half": (1 << 20, lambda n: power(n, 0.5)),
    "pow_1.7": (1 << 20, lambda n: power(n, 1.7)),
    "sin": (1 << 20, lambda n: elementwise("Sin", n)),
    "tan": (1 << 20, lambda n: elementwise("Tan", n)),
    "tanh": (1 << 20, lambda n: elementwise("Tanh", n)),
    "erf": (1 << 20, lambda n: elementwise("Erf", n)),
    "exp": (1 << 20, lambda n: elementwise("Exp", n)),
    "log": (1 << 20, lambda n: layer("Log", floats(n, low=0.25, high=9.0))),
    "sigmoid": (1 << 20, lambda n: elementwise("Sigmoid", n)),
    "softplus": (1 << 20, lambda n: elementwise("Softplus", n)),
    "mish": (1 << 20, lambda n: elementwise("Mish", n)),
}
# What peers may round differently: activations of accuracy level 4, a step of the result's scale.
ERRORS = {"nbits_*": 3e-2, "q*": 1e-2}


def bound_of(name):
    return next((e for glob, e in ERRORS.items() if fnmatch.fnmatchcase(name, glob)), FP32_ERROR)


def bench_layer(model, inputs, arguments, scratch, bound):
    """{peer: µs} and the error, or the reason why there are none; OpenVINO's error is at most `bound`."""
    path = Path(scratch) / "layer.onnx"
    onnx.save(model, path)
    peer = OnnxRuntime(model, inputs, arguments.threads)
    try:
        ours = Tenon(path, model, inputs, peer.results, arguments.threads, arguments.target, scratch)
        ours.run()
    except (BuildError, RuntimeError) as error:
        return None, str(error)
    error = worst_error(ours.results, peer.results)
    peers = [ours, peer, *openvino_peer(model, inputs, arguments.threads, peer.results, bound)]
    times = interleave(peers, arguments.seconds, clock_of(arguments.threads))
    ours.model.close()
    return {name: 1e3 * ms for name, ms in times.items()}, error


def on_cpu(chosen, arguments, scratch):
    """Rows of these cases, and what failed."""
    rows, failures = [], []
    for name in chosen:
        extent, make = CASES[name]
        sizes = []
        for n in (extent, TIMES * extent)[: arguments.sizes]:
            folder = scratch / f"{name}-{n}"
            folder.mkdir()
            times, error = bench_layer(*make(n), arguments, folder, bound_of(name))
            if times is None:
                failures.append(f"{name}, {n}: {error}")
                break
            if not error <= bound_of(name):
                failures.append(f"{name}, {n}: outputs differ by {error:.1e}")
            sizes.append(times)
            rows.append({"case": name, "extent": n, "threads": arguments.threads, "error": error,
                         "openvino": "", **times, "ratio": best_peer(times) / times["tenon"]})  # fmt: skip
        if len(sizes) == 2:
            rows[-1]["growth"] = sizes[1]["tenon"] / sizes[0]["tenon"]
    return rows, failures


def on_gpu(chosen, arguments, scratch):
    import layers_gpu

    first, _, step = arguments.share.partition("/")
    cases = [(name, n, CASES[name][1](n)) for name in chosen[int(first) :: int(step)]
             for n in (CASES[name][0], TIMES * CASES[name][0])[: arguments.sizes]]  # fmt: skip
    rows, failures = layers_gpu.measure(cases, arguments.precision.split(","), arguments.target, scratch,
                                        bound_of, arguments.seconds, arguments.inductor,
                                        arguments.against)  # fmt: skip
    smaller = {}
    for row in rows:
        case = (row["case"], row["precision"])
        if case in smaller:
            row["growth"] = row["tenon"] / smaller[case]
        smaller.setdefault(case, row["tenon"])
    return rows, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="*", help="names or globs, comma-separated")
    parser.add_argument("--sizes", type=int, default=2, choices=(1, 2), help="1: the smaller alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each peer and size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the rows as a JSON list")
    parser.add_argument("--precision", default="fp16,fp32", help="on a GPU")
    parser.add_argument("--inductor", action="store_true", help="on a GPU: torch.compile is a peer, too")
    parser.add_argument("--against", type=Path, metavar="TENON", help="on a GPU: another compiler")
    parser.add_argument("--share", default="0/1", metavar="I/N", help="of the cases, every Nth from the Ith on")
    arguments = parser.parse_args()
    if not os.access(binary(), os.X_OK):
        sys.exit(f"layers.py: {binary()} is missing; build it, or set TENON")
    globs = arguments.cases.split(",")
    chosen = [name for name in CASES if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    if not chosen:
        sys.exit(f"layers.py: no case matches {arguments.cases}: {', '.join(CASES)}")

    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as scratch:
        if arguments.target.startswith("cuda:"):
            rows, failures = on_gpu(chosen, arguments, Path(scratch))
            columns = ["case", "extent", "precision", "tenon", "against", "torch", "inductor", "ratio", "growth", "error"]
        else:
            rows, failures = on_cpu(chosen, arguments, Path(scratch))
            columns = ["case", "extent", "tenon", "onnxruntime", "openvino", "ratio", "growth", "error"]
    table([{"growth": "", "inductor": "", "against": "", **row} for row in rows], columns, sys.stdout)
    print("times in µs, medians of interleaved runs; ratio: fastest peer / tenon; "
          f"growth: of Tenon's time with {TIMES} times the extent")  # fmt: skip
    compared = [row for row in rows if row["ratio"]]
    if compared:
        worst = min(compared, key=lambda row: row["ratio"])
        print(f"geometric mean {geometric_mean([row['ratio'] for row in compared]):.2f}, "
              f"worst {worst['ratio']:.2f} ({worst['case']}, {worst['extent']})")
    grown = [f"{r['case']} {r['growth']:.1f}" for r in rows if r.get("growth", 0) > MOST_GROWTH]
    if grown:
        print(f"growth above {MOST_GROWTH}: {', '.join(grown)}")
    for failure in failures:
        print(f"layers.py: {failure}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
