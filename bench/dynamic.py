#!/usr/bin/env python3
"""Times generated C++ for open heights and widths against the same network compiled for one size.

    bench/dynamic.py [NAME...] [--width=4] [--threads=1] [--seconds=S] [--target=cpu:native] [--gate]

The networks are those of tests/models/dynamic_networks.py with `width` times their channels: detectors,
optical character recognition, segmentation. Each is compiled once with a range and once for a size
within; both run that size in turns, as in bench/cpu.py, after their outputs have been compared.

The ratio is the time of the open file over that of the fixed one. --gate makes the exit status 1 beyond
1.15 for any network.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "tests/models"), str(ROOT / "bench")]
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
from cpu import interleave, worst_error
from dynamic_networks import networks
from generated import BuildError, Interface, Model, build_library, compile_model
from tenon import table

BOUND, ERROR = 1.15, 1e-4


class Peer:
    """One compilation; `size`: for that alone."""

    def __init__(self, case, path, folder, target, threads, size=None):
        self.name = "fixed" if size else "open"
        source = folder / f"{self.name}.cpp"
        words = case.words
        if size:
            words = [f"--shape={case.model.graph.input[0].name}=" + ",".join(map(str, (1, 3, *size)))]
        compile_model(path, source, f"--target={target}", *words)
        extra = ["-DTENON_THREADS", "-pthread"] if threads > 1 else []
        self.model = Model(build_library(source, "-O2", extra))
        self.model.set_threads(threads)
        self.interface = Interface(source.with_suffix(".h"))

    def bind(self, case, size):
        for dim, extent in case.extents(size).items() if self.name == "open" else ():
            self.model.set_dim(self.interface.dims[dim], extent)
        shapes = [self.model.output_shape(i) for i in range(len(self.interface.outputs))]
        self.results = [np.zeros(shape, np.float32) for shape in shapes]
        self.model.bind([case.image(size)], self.results)

    def run(self):
        self.model.run()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each peer and size")
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--gate", action="store_true", help="exit status 1 beyond the bound")
    arguments = parser.parse_args()
    clock = time.thread_time if arguments.threads == 1 else time.perf_counter
    rows, failures = [], []
    for case in networks(arguments.width):
        if arguments.names and case.name not in arguments.names:
            continue
        size = max(case.sizes, key=lambda s: s[0] * s[1])
        with tempfile.TemporaryDirectory(prefix="tenon-bench-") as scratch:
            path = Path(scratch) / f"{case.name}.onnx"
            onnx.save(case.model, path)
            try:
                peers = [Peer(case, path, Path(scratch), arguments.target, arguments.threads, fixed)
                         for fixed in (None, size)]  # fmt: skip
                for peer in peers:
                    peer.bind(case, size)
                    peer.run()
            except (BuildError, RuntimeError) as error:
                failures.append(f"{case.name}: {error}")
                continue
            error = worst_error(peers[0].results, peers[1].results)
            if not error <= ERROR:
                failures.append(f"{case.name}: outputs differ by {error:.1e}")
            times = interleave(peers, arguments.seconds, clock)
            rows.append({"network": case.name, "size": f"{size[0]}x{size[1]}", **times,
                         "ratio": times["open"] / times["fixed"], "error": error})  # fmt: skip
            for peer in peers:
                peer.model.close()
    table(rows, ["network", "size", "open", "fixed", "ratio", "error"], sys.stdout)
    print("times in ms, medians of interleaved runs; ratio: open / fixed")
    failures += [f"{row['network']}: {row['ratio']:.2f} times the fixed file's time" for row in rows
                 if arguments.gate and row["ratio"] > BOUND]  # fmt: skip
    for failure in failures:
        print(f"dynamic.py: {failure}", file=sys.stderr)
    sys.exit(1 if failures or not rows else 0)


if __name__ == "__main__":
    main()
