#!/usr/bin/env python3
"""Times decoders with int4 weights on this machine's processor, beside ONNX Runtime and OpenVINO.

    bench/decoders_cpu.py [--models=NAME,...] [--cases=step,prompt] [--threads=1,2] [--folder DIR] [--layers=N]

A model of bench/decoders.py with random weights in blocks of 32, activations in fp32 and accuracy level 4. A `step` is one
token behind 128 others, a `prompt` 128 tokens behind none; all outputs, caches included, are computed anew in each run.
Peers run in turns, as in bench/cpu.py, whose outputs are compared before anything is timed. `GB/s` are the bytes of weights
of a step over its time, `copy` what copying an array far larger than the caches reads and writes in a second, as many
threads at once."""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import cpu
import decoders
import numpy as np
import onnx
from tenon import table

PAST, PROMPT = 128, 128
CASES = {"step": (1, PAST), "prompt": (PROMPT, 0)}
COPIED = 1 << 30  # bytes


class Int4File(decoders.DecoderFile):
    """Weights of 4 bits whose activations are floats of 32, and may be rounded to 8."""

    def __init__(self, path, config):
        super().__init__(path, config, "int4")
        self.type, self.element = np.float32, onnx.TensorProto.FLOAT

    def node(self, op, inputs, output, domain="", **attributes):
        if op == "MatMulNBits":
            attributes["accuracy_level"] = 4
        return super().node(op, inputs, output, domain, **attributes)


def weight_bytes(config):
    products = config.layers * sum(k * n for k, n in config.products().values())
    return (products + config.hidden * config.vocabulary) * (0.5 + 4 / decoders.BLOCK)


def inputs_of(config, rows, past):
    rng = np.random.default_rng(3)
    caches = {f"past_key_values.{i}.{kind}": rng.standard_normal((1, config.key_heads, past, config.head), np.float32)
              for i in range(config.layers) for kind in ("key", "value")}  # fmt: skip
    return {"input_ids": rng.integers(0, config.vocabulary, (1, rows)),
            "attention_mask": np.ones((1, past + rows), np.int64), **caches}  # fmt: skip


def copy_rate(threads):
    pairs = [(np.ones(COPIED // 8), np.zeros(COPIED // 8)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        best = 0
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), pairs))
            best = max(best, 2 * COPIED * threads / (time.perf_counter() - start))
    return best / 1e9


def measure(path, model, config, rows, past, threads, arguments, scratch):
    inputs = inputs_of(config, rows, past)
    onnxruntime = cpu.OnnxRuntime(model, inputs, threads)
    ours = cpu.Tenon(path, model, inputs, onnxruntime.results, threads, arguments.target, scratch)
    ours.run()
    error = cpu.worst_error(ours.results, onnxruntime.results)
    peers = [ours, onnxruntime,
             *cpu.openvino_peer(model, inputs, threads, onnxruntime.results, cpu.INT8_ERROR)]  # fmt: skip
    times = cpu.interleave(peers, arguments.seconds, cpu.clock_of(threads))
    ours.model.close()
    return times, error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="smollm2-135m,qwen2.5-0.5b")
    parser.add_argument("--cases", default="step,prompt")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each peer and row")
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--folder", type=Path, help="keeps the models there")
    arguments = parser.parse_args()
    rows_shown, failures = [], []
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as scratch:
        for name in arguments.models.split(","):
            config = replace(decoders.MODELS[name], positions=4096)
            if arguments.layers:
                config = replace(config, layers=arguments.layers)
            folder = (arguments.folder or Path(scratch)) / f"{name}_int4_{config.layers}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "model.onnx"
            if not path.exists():
                file = Int4File(path, config)
                file.write(file.build)
            model = onnx.load(path)
            for threads in map(int, arguments.threads.split(",")):
                copy = copy_rate(threads)
                for case in arguments.cases.split(","):
                    rows, past = CASES[case]
                    times, error = measure(path, model, config, rows, past, threads, arguments, scratch)
                    if not error <= cpu.INT8_ERROR:
                        failures.append(f"{name}, {case}: outputs differ by {error:.1e}")
                    row = {"model": name, "case": case, "threads": threads, **times,
                           "ratio": times["tenon"] / cpu.best_peer(times), "error": error}  # fmt: skip
                    if case == "step":
                        row |= {"GB/s": weight_bytes(config) / times["tenon"] / 1e6, "copy": copy}
                    rows_shown.append(row)
    columns = ["model", "case", "threads", "tenon", "onnxruntime", "openvino", "ratio", "error", "GB/s", "copy"]
    table([{**dict.fromkeys(columns, ""), **row} for row in rows_shown], columns, sys.stdout)
    print("times in ms, medians of interleaved runs; ratio: tenon / the fastest peer")
    for failure in failures:
        print(f"decoders_cpu.py: {failure}", file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
