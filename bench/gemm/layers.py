#!/usr/bin/env python3
"""The tables that bench/gemm.cu reads: what the networks of bench/networks.py multiply, how long the
vendor's library takes for it, and what the compiler would choose.

    bench/gemm/layers.py shapes                  writes bench/gemm/layers.csv
    bench/gemm/layers.py library [--batch=1,8] [--precision=fp16] [--missing] [--seconds=S]
                                                 measures cuDNN here (a GPU), through torch: rows for
                                                 bench/gemm/library_h200.csv, on standard output
    bench/gemm/layers.py choices [--batch=1,8] [--precision=fp16] [--target=cuda:sm_90a]
                                 [--words="TENON OPTIONS"]
                                                 compiles every layer: the schedule of each, on standard
                                                 output, for `gemm --choices`; needs no GPU

A row of layers.csv is one shape: a convolution (1-d ones have height 1) or `linear`, whose height is the
number of its rows at batch 1; how often it occurs, and where. A transposed convolution stands there as the ordinary ones
that decompose-conv-transpose makes of it.
"""

import argparse
import re
import shlex
import statistics
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
from project_venv import require

TABLE = ROOT / "bench/gemm/layers.csv"
RECORDED = ROOT / "bench/gemm/library_h200.csv"
FIELDS = ("kind channels height width filters kernel_h kernel_w stride_h stride_w pad_h pad_w"
          " dilation_h dilation_w groups")  # fmt: skip
Layer = namedtuple("Layer", FIELDS)
LAUNCHES, CACHE_BYTES = 20, 200 << 20  # as in bench/gemm.cu


def read_layers():
    rows = [r.split(";") for r in TABLE.read_text().splitlines() if r and r[0] != "#"][1:]
    return [Layer(r[0], *map(int, r[1:14])) for r in rows]


def key(layer):
    """The layer's name in all tables."""
    return ";".join(map(str, layer))


def is_depthwise(layer):
    return layer.groups > 1 and layer.groups == layer.channels


def is_product(layer):
    c = layer
    return (c.kernel_h * c.kernel_w * c.stride_h * c.stride_w * c.groups == 1
            and c.pad_h + c.pad_w == 0)  # fmt: skip


def out_extents(layer):
    def extent(size, kernel, stride, pad, dilation):
        return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1

    c = layer
    return (extent(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dilation_h),
            extent(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dilation_w))  # fmt: skip


# ===--- shapes ---===


def phases(size, kernel, stride, pad):
    """(taps, padding) of the one window that all phases of a transposed convolution share."""
    shifts = [(phase + pad - tap) // stride
              for phase in range(stride) for tap in range(kernel)
              if (phase + pad - tap) % stride == 0]  # fmt: skip
    return max(shifts) - min(shifts) + 1, -min(shifts)


def layers_of(module, x, y):
    """The contractions of a torch module, as (layer, how often)."""
    from torch import nn

    if isinstance(module, nn.Linear):
        rows = x.numel() // x.shape[-1]
        return [(Layer("linear", module.in_features, rows, 1, module.out_features,
                       1, 1, 1, 1, 0, 0, 1, 1, 1), 1)]  # fmt: skip
    if not isinstance(module, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)):
        return []
    flat = x.dim() == 3
    height, width = (1, x.shape[2]) if flat else x.shape[2:]

    def pair(values, otherwise):
        return (otherwise, values[0]) if flat else tuple(values)

    kernel, stride = pair(module.kernel_size, 1), pair(module.stride, 1)
    pad, dilation = pair(module.padding, 0), pair(module.dilation, 1)
    filters, times = module.out_channels, 1
    if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d)):
        windows = [phases(s, k, t, p) for s, k, t, p in zip((height, width), kernel, stride, pad)]
        filters, times = filters * stride[1], stride[0]
        kernel, pad = zip(*windows)
        stride = (1, 1)
    return [(Layer("conv", x.shape[1], height, width, filters, *kernel, *stride, *pad, *dilation,
                   module.groups), times)]  # fmt: skip


def write_shapes(_):
    require("torch", "torchvision")
    import networks
    import torch

    found = {}  # layer -> {network: count}
    for name, network in networks.NETWORKS.items():
        module = network.make().eval()

        def note(part, inputs, output, name=name):
            for layer, times in layers_of(part, inputs[0], output):
                counts = found.setdefault(layer, {})
                counts[name] = counts.get(name, 0) + times

        for part in module.modules():
            part.register_forward_hook(note)
        with torch.no_grad():
            module(network.example(1))
    lines = [
        "# Contractions of the networks of bench/networks.py at batch 1, written by bench/gemm/layers.py.",
        FIELDS.replace(" ", ";") + ";networks",
    ]
    for layer in sorted(found):
        where = " ".join(f"{name}:{count}" for name, count in found[layer].items())
        lines.append(f"{key(layer)};{where}")
    TABLE.write_text("\n".join(lines) + "\n")


# ===--- library ---===


def time_library(layer, batch, dtype):
    """Microseconds of cuDNN's convolution: the median of graphs of 20 launches over rotated sets."""
    import torch

    c = layer
    shape_x = (batch, c.channels, c.height, c.width)
    shape_w = (c.filters, c.channels // c.groups, c.kernel_h, c.kernel_w)
    out = out_extents(c)
    elements = torch.Size(shape_x).numel() + torch.Size(shape_w).numel() + batch * c.filters * out[0] * out[1]
    sets = min(LAUNCHES, max(2, CACHE_BYTES // (elements * dtype.itemsize) + 1))

    def tensors(shape):
        return [torch.randn(shape, device="cuda").to(dtype, memory_format=torch.channels_last)
                for _ in range(sets)]  # fmt: skip

    xs, ws = tensors(shape_x), tensors(shape_w)

    def launch(i):
        return torch.nn.functional.conv2d(
            xs[i % sets], ws[i % sets], None, (c.stride_h, c.stride_w), (c.pad_h, c.pad_w),
            (c.dilation_h, c.dilation_w), c.groups)  # fmt: skip

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):  # chooses the algorithm
            launch(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kept = [launch(i) for i in range(LAUNCHES)]
    times = []
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for i in range(13):
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= 2:
            times.append(start.elapsed_time(end) * 1000 / LAUNCHES)
    del kept
    return statistics.median(times)


def measure_library(options):
    require("torch")
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # every algorithm
    torch.backends.cudnn.allow_tf32 = False
    types = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__},"
          f" cuDNN {torch.backends.cudnn.version()}, CUDA {torch.version.cuda}")  # fmt: skip
    print("precision;batch;" + FIELDS.replace(" ", ";") + ";us")
    deadline = time.monotonic() + options.seconds
    # cuBLAS is measured by bench/gemm.cu itself.
    layers = [c for c in read_layers() if not is_product(c) and not is_depthwise(c)]
    recorded = RECORDED.read_text() if options.missing else ""
    torch.inference_mode().__enter__()
    for precision in options.precision.split(","):
        for batch in map(int, options.batch.split(",")):
            for layer in layers:
                if time.monotonic() > deadline:
                    return
                if f"{precision};{batch};{key(layer)};" in recorded:
                    continue
                us = time_library(layer, batch, types[precision])
                print(f"{precision};{batch};{key(layer)};{us:.2f}", flush=True)


# ===--- choices ---===


def model_of(layers, batch, path):
    """Each layer as a node with an input, an output and weights of its own."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, inputs, outputs, weights = [], [], [], []
    for i, c in enumerate(layers):
        if c.kind == "linear":
            x, y, w = (batch * c.height, c.channels), (batch * c.height, c.filters), (c.channels, c.filters)
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"], name=f"layer{i}"))
        else:
            x = (batch, c.channels, c.height, c.width)
            y = (batch, c.filters, *out_extents(c))
            w = (c.filters, c.channels // c.groups, c.kernel_h, c.kernel_w)
            nodes.append(helper.make_node(
                "Conv", [f"x{i}", f"w{i}"], [f"y{i}"], name=f"layer{i}",
                kernel_shape=[c.kernel_h, c.kernel_w], strides=[c.stride_h, c.stride_w],
                pads=[c.pad_h, c.pad_w] * 2, dilations=[c.dilation_h, c.dilation_w], group=c.groups))  # fmt: skip
        weights.append(numpy_helper.from_array(numpy.full(w, 0.5 + i / 1024, numpy.float32), f"w{i}"))
        # Between two pointwise layers a contraction sees tensors of the arena, in its own layout.
        nodes[-1].input[0], nodes[-1].output[0] = f"a{i}", f"b{i}"
        nodes.insert(-1, helper.make_node("Sin", [f"x{i}"], [f"a{i}"], name=f"before{i}"))
        nodes.append(helper.make_node("Sin", [f"b{i}"], [f"y{i}"], name=f"after{i}"))
        inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, x))
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, y))
    graph = helper.make_graph(nodes, "layers", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, str(path))


def print_choices(options):
    require("onnx", "numpy")
    from tenon import tenon

    layers = read_layers()
    print("precision;batch;" + FIELDS.replace(" ", ";") + ";schedule")
    for batch in map(int, options.batch.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            for at in range(0, len(layers), 32):
                part = layers[at : at + 32]
                model = Path(folder) / "layers.onnx"
                model_of(part, batch, model)
                answer = tenon("compile", model, "-o", Path(folder) / "layers.tn", "--emit=tn", "-q",
                               f"--target={options.target}", f"--precision={options.precision}",
                               "--disable=fuse", *shlex.split(options.words))  # fmt: skip
                if answer.status != 0:
                    sys.exit(f"layers.py: {answer.reason}")
                chosen = {}
                text = (Path(folder) / "layers.tn").read_text()
                for match in re.finditer(r"schedule = (\w+<[^>]*>)[^\n]*\n(.*?)\n *yield", text, re.S):
                    node = re.search(r'"layer(\d+)"', match[2])
                    if node and re.search(r"= (conv|matmul) ", match[2]):
                        chosen[int(node[1])] = match[1]
                for i, layer in enumerate(part):
                    print(f"{options.precision};{batch};{key(layer)};{chosen.get(i, '')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["shapes", "library", "choices"])
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--missing", action="store_true", help="only what is not recorded yet")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--words", default="")
    options = parser.parse_args()
    {"shapes": write_shapes, "library": measure_library, "choices": print_choices}[options.what](options)


if __name__ == "__main__":
    main()
