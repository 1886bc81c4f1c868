#!/usr/bin/env python3
"""Times generated C++ against ONNX Runtime and OpenVINO on the CPU.

    bench/cpu.py [DIR] [--threads=1,2] [--models=GLOB,...] [--int8] [--precision=bf16] [--seconds=S] [--json FILE] [--gate]

DIR holds the real models (default: TENON_MODELS, else ../shared/models), or those that bench/networks.py wrote. The fp32 models are timed;
--int8 takes the quantised ones instead, and with them a ResNet-50 of random weights (resnet50_qdq,
bench/quantized.py), unless DIR has one; others that bench/quantized.py made there join by --models. Tenon runs as its users run it: `tenon compile`, the system
compiler with the flags that the generated file names, one shared library, one C call. ONNX Runtime
runs with every optimisation on and with its inputs and outputs bound, so that a run copies nothing and
allocates nothing for its caller. Old exports list initialisers as graph inputs, too, which keeps ONNX
Runtime from folding and packing them; it gets a copy of the model without such inputs. Subnormals
count as zero in both, as Tenon's contractions have it anyway.

OpenVINO joins where it is installed (bench/requirements.txt) and takes the model. With --precision=bf16 Tenon and
OpenVINO multiply bf16; ONNX Runtime, which has no such kernels on x86-64, stays in fp32.

All are created first and then timed in turns, a few runs of each, so that a slow spell of the machine
meets all; the figure is the median. With one thread the clock is the process's processor time, which
leaves out what other processes take; else it is the wall's. Every output is compared with ONNX Runtime's
before anything is timed; where a quantised network's differ by more than 5e-2 of the largest, ONNX Runtime without
its optimisations says how much of that is rounding.

The ratio is Tenon's time over that of the fastest peer: below 1, Tenon is faster. --gate makes the exit status
1 when the single-thread geometric mean exceeds 1.5 or any model exceeds 2.5.
"""

import argparse
import fnmatch
import importlib.util
import json
import math
import os
import statistics
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
import onnxruntime
from generated import BuildError, Model, build_library, compile_model, empty_like, symbol_bindings
from quantized import make_resnet50_qdq
from tenon import binary, model_file, table
from tensors import read_data_set

FP32_MODELS = [
    "nanodet_m_320",
    "ultraface_rfb_320",
    "super_resolution",
    "basic_pitch",
    "vww_mobilenet_fp32",
    "resnet8_fp32",
    "micro_kws_fp32",
]
MADE_MODEL = "resnet50_qdq"
INT8_MODELS = [
    MADE_MODEL,
    "vww_mobilenet_qdq",
    "resnet8_qdq",
    "kws_dscnn_qdq",
    "ad_autoencoder_qdq",
]
MEAN_BOUND, MODEL_BOUND = 1.5, 2.5
FP32_ERROR, INT8_ERROR = 1e-3, 5e-2  # beyond it the two computed different things
# A deep quantised network multiplies what one rounding the other way does: it may differ by more where ONNX Runtime
# with and without its optimisations does, by so many times as much.
INT8_SPREAD = 1.5
TURN_SECONDS = 0.02  # how long one peer runs before the other does


def with_constant_initializers(model):
    """The model without those graph inputs that only say that an initialiser may be overridden."""
    constant = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in constant]
    if len(kept) == len(model.graph.input):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, 4)  # before 4 every initialiser had to be an input
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, model, inputs, threads, optimized=True):
        levels = onnxruntime.GraphOptimizationLevel
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        # Its threads must not spin into the other peer's turn.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = onnxruntime.InferenceSession(
            with_constant_initializers(model).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
        )
        self.results = self.session.run(None, inputs)
        self.binding = self.session.io_binding()
        # The binding only points to the arrays.
        self.inputs = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        for name, array in self.inputs.items():
            self.binding.bind_cpu_input(name, array)
        self.outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in self.results]
        for output, value in zip(self.session.get_outputs(), self.outputs):
            self.binding.bind_ortvalue_output(output.name, value)

    def run(self):
        self.session.run_with_iobinding(self.binding)


class OpenVino:
    """Raises RuntimeError where it does not take the model."""

    name = "openvino"

    def __init__(self, model, inputs, threads, precision):
        import openvino  # optional: bench/requirements.txt

        # What the others compute, not what it would choose.
        properties = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": {"fp32": "f32"}.get(precision, precision),
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        core = openvino.Core()
        network = core.read_model(with_constant_initializers(model).SerializeToString())
        # A size that the file leaves open is known to the others, too.
        network.reshape({name: list(array.shape) for name, array in inputs.items()})
        compiled = core.compile_model(network, "CPU", properties)
        self.request = compiled.create_infer_request()
        # Tensors that share memory ask for arrays that may be written.
        self.inputs = {name: np.array(array, order="C") for name, array in inputs.items()}
        for name, array in self.inputs.items():
            self.request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
        self.run()
        self.results = [self.request.get_output_tensor(k).data
                        for k in range(len(compiled.outputs))]  # fmt: skip

    def run(self):
        self.request.infer()


def openvino_peer(model, inputs, threads, outputs, bound, precision="fp32"):
    """OpenVINO as a list of one peer; of none where it is not installed, refuses the model, or computes something
    else than `outputs`: with an error beyond `bound`."""
    if importlib.util.find_spec("openvino") is None:
        return []
    try:
        peer = OpenVino(model, inputs, threads, precision)
    except RuntimeError:
        return []
    error = worst_error(peer.results, outputs)
    if error <= bound:
        return [peer]
    print(f"OpenVINO is left out: its outputs differ by {error:.1e}", file=sys.stderr)
    return []


def bound_of(name, precision="fp32"):
    narrow = precision != "fp32" or any(word in name for word in ("qdq", "qoperator", "dynamic"))
    return INT8_ERROR if narrow else FP32_ERROR


def clock_of(threads):
    """Reads seconds: of the process's processor time, or the wall's for several threads."""
    return time.process_time if threads == 1 else time.perf_counter


def best_peer(times):
    """The time of the fastest of those that are not Tenon."""
    return min(ms for name, ms in times.items() if name != Tenon.name)


class Tenon:
    name = "tenon"

    def __init__(self, path, model, inputs, outputs, threads, target, folder, precision="fp32"):
        source = Path(folder) / f"model{threads}.cpp"
        words = [f"--target={target}", f"--precision={precision}", "-q"]
        symbols = symbol_bindings(model, inputs)
        if symbols:
            words.append("--bind=" + ",".join(f"{k}={v}" for k, v in symbols.items()))
        compile_model(path, source, *words)
        extra = ["-DTENON_THREADS", "-pthread"] if threads > 1 else []
        self.model = Model(build_library(source, "-O2", extra))
        self.model.set_threads(threads)
        self.results = empty_like(outputs)
        self.model.bind([np.ascontiguousarray(v) for v in inputs.values()], self.results)

    def run(self):
        self.model.run()


def worst_error(ours, theirs):
    """The largest difference of any output, relative to its largest value."""
    errors = [0.0]
    for a, b in zip(ours, theirs):
        scale = float(np.abs(b).max(initial=0)) or 1.0
        errors.append(float(np.abs(a.astype(np.float64) - b).max(initial=0)) / scale)
    return max(errors)


def interleave(peers, seconds, clock):
    """Median milliseconds of every peer, timed in turns for about so long each."""
    counts = {}
    for peer in peers:
        for _ in range(3):
            peer.run()
        start = clock()
        peer.run()
        counts[peer.name] = max(1, int(TURN_SECONDS / max(clock() - start, 1e-6)))
    samples = {peer.name: [] for peer in peers}
    end = time.monotonic() + seconds * len(peers)
    turn = 0
    while turn < 5 or time.monotonic() < end:
        for peer in peers if turn % 2 == 0 else reversed(peers):
            peer.run()  # caches and threads come back to this peer, untimed
            for _ in range(counts[peer.name]):
                start = clock()
                peer.run()
                samples[peer.name].append(clock() - start)
        turn += 1
    return {name: 1e3 * statistics.median(times) for name, times in samples.items()}


def bench_model(name, folder, threads, arguments, scratch):
    """{peer: ms}, the error and what it may be, or None and the reason why there are no times."""
    path = model_file(folder)
    model = onnx.load(path)
    inputs, _ = read_data_set(folder / "test_data_set_0", model)
    peer = OnnxRuntime(model, inputs, threads)
    try:
        ours = Tenon(path, model, inputs, peer.results, threads, arguments.target, scratch, arguments.precision)
        ours.run()
    except (BuildError, RuntimeError) as error:
        return None, str(error), 0
    error = worst_error(ours.results, peer.results)
    bound = bound_of(name, arguments.precision)
    if bound == INT8_ERROR and error > bound:
        other = OnnxRuntime(model, inputs, threads, optimized=False)
        bound = max(bound, INT8_SPREAD * worst_error(other.results, peer.results))
    peers = [ours, peer, *openvino_peer(model, inputs, threads, peer.results, bound, arguments.precision)]
    times = interleave(peers, arguments.seconds, clock_of(threads))
    ours.model.close()
    return times, error, bound


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("TENON_MODELS") or ROOT.parent / "shared/models"
    parser.add_argument("folder", type=Path, nargs="?", default=Path(default), metavar="DIR")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--models", default="", help="names or globs, comma-separated")
    parser.add_argument("--int8", action="store_true", help="the quantised models")
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each peer and row")
    parser.add_argument("--gate", action="store_true", help="exit status 1 beyond the bounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the rows as a JSON list")
    arguments = parser.parse_args()
    if not os.access(binary(), os.X_OK):
        sys.exit(f"cpu.py: {binary()} is missing; build it, or set TENON")
    if not arguments.folder.is_dir():
        sys.exit(f"cpu.py: {arguments.folder} is no folder; name the real models or set TENON_MODELS")

    known = INT8_MODELS if arguments.int8 else FP32_MODELS
    globs = [glob for glob in arguments.models.split(",") if glob]
    if globs:
        folders = sorted(p.name for p in arguments.folder.iterdir() if p.is_dir() and model_file(p))
        known = known + [name for name in folders if name not in known]
        known = [n for n in known if any(fnmatch.fnmatchcase(n, glob) for glob in globs)]
    found = {n for n in known if (arguments.folder / n).is_dir() and model_file(arguments.folder / n)}
    chosen = [n for n in known if n in found or n == MADE_MODEL]
    if not chosen:
        sys.exit(f"cpu.py: no model in {arguments.folder} matches")

    rows, shown, failures, ratios = [], [], [], {}
    thread_counts = [int(count) for count in arguments.threads.split(",")]
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as scratch:
        for name in chosen:
            for threads in thread_counts:
                folder = Path(scratch) / name
                folder.mkdir(exist_ok=True)
                source = arguments.folder / name
                if name not in found:
                    source = Path(scratch) / "made" / name
                    if not source.is_dir():
                        make_resnet50_qdq(source)
                times, error, bound = bench_model(name, source, threads, arguments, folder)
                if times is None:
                    failures.append(f"{name}, {threads} threads: {error}")
                    continue
                if not error <= bound:
                    failures.append(
                        f"{name}, {threads} threads: outputs differ by {error:.1e}, more than {bound:.1e}"
                    )
                ratio = times["tenon"] / best_peer(times)
                ratios.setdefault(threads, {})[name] = ratio
                rows += [{"model": name, "threads": threads, "peer": peer, "ms": ms}
                         for peer, ms in times.items()]  # fmt: skip
                shown.append({"model": name, "threads": threads, **times, "ratio": ratio,
                              "error": error})  # fmt: skip
                if sys.stderr.isatty():
                    print(f"\r\033[K{name} {threads}: {ratio:.2f}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)

    columns = ["model", "threads", "tenon", "onnxruntime", "openvino", "ratio", "error"]
    table([{"openvino": "", **row} for row in shown], columns, sys.stdout)
    print("times in ms, medians of interleaved runs; ratio: tenon / the fastest peer")
    for threads, by_model in ratios.items():
        mean, worst = geometric_mean(by_model.values()), max(by_model, key=by_model.get)
        print(f"{threads} thread{'s' if threads > 1 else ''}: geometric mean {mean:.2f}, "
              f"worst {by_model[worst]:.2f} ({worst})")
    for failure in failures:
        print(f"cpu.py: {failure}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    single = list(ratios.get(1, {}).values())
    beyond = single and (geometric_mean(single) > MEAN_BOUND or max(single) > MODEL_BOUND)
    sys.exit(1 if failures or arguments.gate and (beyond or not single) else 0)


if __name__ == "__main__":
    main()
