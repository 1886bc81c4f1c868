#!/usr/bin/env python3
"""Times single layers of generated C++ against ONNX Runtime on the CPU, each in two sizes.

    bench/layers.py [--cases=GLOB,...] [--threads=1] [--target=cpu:native] [--seconds=S] [--json FILE]

A case is a model of one layer whose size has one extent left open; it is timed with that extent as
the table of cases says, and with four times as much. Reported are the times of both, the ratio
(ONNX Runtime's time over Tenon's: above 1, Tenon is faster) and the growth of Tenon's time from the
one to the other: an algorithm whose cost is that of its elements stays near 4, and one above 5 grows
faster than they do (caches aside). Inputs are seeded. Peers are made and timed in turns in one
process as in bench/cpu.py, and every output is compared first; the exit status is 1 where one differs
or a layer does not compile.
"""

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
from cpu import FP32_ERROR, OnnxRuntime, Tenon, geometric_mean, interleave, worst_error
from generated import BuildError
from onnx import helper, numpy_helper
from tenon import binary, table

TIMES = 4  # how much larger the second size is
MOST_GROWTH = 5
OPSET = 18


def floats(*shape, low=-1.0, high=1.0):
    """A seeded array, different for each shape."""
    return np.random.default_rng(list(shape)).uniform(low, high, shape).astype(np.float32)


def layer(op, x, *constants, **attributes):
    """A model of one operator on input `x` (an array) and constants, with the input's values. None
    stands for an operand that is left out."""
    names = ["x"] + [f"c{i}" if c is not None else "" for i, c in enumerate(constants)]
    initializers = [numpy_helper.from_array(np.asarray(c), f"c{i}")
                    for i, c in enumerate(constants) if c is not None]  # fmt: skip
    node = helper.make_node(op, names, ["y"], **attributes)
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], op, [given], [result], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model), {"x": x}


def cumulative(shape, axis=-1, **attributes):
    return layer("CumSum", floats(*shape), np.int64(axis), **attributes)


def power(n, exponent):
    return layer("Pow", floats(n, low=0.25, high=2.0), np.float32(exponent))


def pool(op, shape, kernel, **attributes):
    return layer(op, floats(*shape), kernel_shape=kernel, **attributes)


def convolution(shape, filters, kernel, group=1, **attributes):
    weights = floats(filters, shape[1] // group, *kernel)
    pads = [k // 2 for k in kernel] * 2
    return layer("Conv", floats(*shape), weights, pads=pads, group=group, **attributes)


def recurrent(op, gates, steps, inputs, hidden):
    x = floats(steps, 1, inputs)
    w, r = floats(1, gates * hidden, inputs), floats(1, gates * hidden, hidden)
    scale = np.float32(1 / np.sqrt(hidden))
    return layer(op, x, w * scale, r * scale, hidden_size=hidden)


# Name: the smaller extent, and the layer for an extent.
CASES = {
    "cumsum_row": (4096, lambda n: cumulative((64, n))),
    "cumsum_back": (4096, lambda n: cumulative((64, n), exclusive=1, reverse=1)),
    "cumsum_col": (4096, lambda n: cumulative((n, 64), axis=0)),
    "cumsum_one": (65536, lambda n: cumulative((n,))),
    "cumsum_mask": (2048, lambda n: layer("CumSum", np.ones((1, n), np.int64), np.int64(1))),
    "pow2": (1 << 20, lambda n: power(n, 2)),
    "pow3": (1 << 20, lambda n: power(n, 3)),
    "pow_half": (1 << 20, lambda n: power(n, 0.5)),
    "max2_s2": (56, lambda n: pool("MaxPool", (1, 64, n, 56), [2, 2], strides=[2, 2])),
    "max13": (20, lambda n: pool("MaxPool", (1, 256, n, 20), [13, 13], pads=[6] * 4)),
    "avg_1x127": (4096, lambda n: pool("AveragePool", (1, 64, 1, n), [1, 127], pads=[0, 63, 0, 63])),
    "max3_1d": (4096, lambda n: pool("MaxPool", (1, 256, n), [3], pads=[1, 1])),
    "max3_3d": (16, lambda n: pool("MaxPool", (1, 32, n, 56, 56), [3, 3, 3], pads=[1] * 6)),
    "c3": (56, lambda n: convolution((1, 64, n, 56), 64, [3, 3])),
    "c3_3d": (8, lambda n: convolution((1, 32, n, 56, 56), 32, [3, 3, 3])),
    "lstm": (100, lambda n: recurrent("LSTM", 4, n, 512, 512)),
    "gru": (100, lambda n: recurrent("GRU", 3, n, 512, 512)),
}


def bench_layer(model, inputs, arguments, scratch):
    """{peer: µs} and the error, or the reason why there are none."""
    path = Path(scratch) / "layer.onnx"
    onnx.save(model, path)
    peer = OnnxRuntime(model, inputs, arguments.threads)
    try:
        ours = Tenon(path, model, inputs, peer.results, arguments.threads, arguments.target, scratch)
        ours.run()
    except (BuildError, RuntimeError) as error:
        return None, str(error)
    error = worst_error(ours.results, peer.results)
    clock = time.thread_time if arguments.threads == 1 else time.perf_counter
    times = interleave([ours, peer], arguments.seconds, clock)
    ours.model.close()
    return {name: 1e3 * ms for name, ms in times.items()}, error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="*", help="names or globs, comma-separated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each peer and size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the rows as a JSON list")
    arguments = parser.parse_args()
    if not os.access(binary(), os.X_OK):
        sys.exit(f"layers.py: {binary()} is missing; build it, or set TENON")
    globs = arguments.cases.split(",")
    chosen = [name for name in CASES if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    if not chosen:
        sys.exit(f"layers.py: no case matches {arguments.cases}: {', '.join(CASES)}")

    rows, failures = [], []
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as scratch:
        for name in chosen:
            extent, make = CASES[name]
            sizes = []
            for n in (extent, TIMES * extent):
                folder = Path(scratch) / f"{name}-{n}"
                folder.mkdir()
                times, error = bench_layer(*make(n), arguments, folder)
                if times is None:
                    failures.append(f"{name}, {n}: {error}")
                    break
                if not error <= FP32_ERROR:
                    failures.append(f"{name}, {n}: outputs differ by {error:.1e}")
                sizes.append(times)
                rows.append({"case": name, "extent": n, "threads": arguments.threads, "error": error,
                             **times, "ratio": times["onnxruntime"] / times["tenon"]})  # fmt: skip
            if len(sizes) == 2:
                rows[-1]["growth"] = sizes[1]["tenon"] / sizes[0]["tenon"]

    columns = ["case", "extent", "tenon", "onnxruntime", "ratio", "growth", "error"]
    table([{"growth": "", **row} for row in rows], columns, sys.stdout)
    print("times in µs, medians of interleaved runs; ratio: onnxruntime / tenon; "
          f"growth: of Tenon's time with {TIMES} times the extent")  # fmt: skip
    if rows:
        worst = min(rows, key=lambda row: row["ratio"])
        print(f"geometric mean {geometric_mean([row['ratio'] for row in rows]):.2f}, "
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
