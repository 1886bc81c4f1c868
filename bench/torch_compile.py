#!/usr/bin/env python3
"""Runs the networks of bench/networks.py through torch.compile(module, backend="tenon"), as its users do, beside
torch itself.

    bench/torch_compile.py [--models=NAME,...] [--batch=N] [--precision=fp16] [--device=cuda|cpu]
                           [--peer=eager,inductor] [--seconds=S] [--json FILE] [--jobs=N] [--deadline=S]

Needs the package `tenon` (scripts/wheel), torch, torchvision, onnx, onnxscript; models as in bench/gpu.py.

Every peer is called with the same tensor, and its answer is compared with torch's in fp64 (of the values that the
halves were given); the error is relative to the largest value. `ms` is a call's time on the host's clock, waiting
included, the median over calls in turns. On a GPU `graph_ms` is that of a torch graph which captured one call,
replayed. `first_s` is the first call: exporting, tenon and the compiler, or what inductor does. `graphs` counts
the modules that Tenon made, `in_torch` the warnings of parts that it left to torch, `shared_mib` the weights that are
read where the module's parameters lie.

Each network has a process of its own. With --jobs=N so many at a time make their first calls; once all have (and
wait in memory), one after the other measures. --deadline ends those that have not made theirs S seconds after the start.
"""

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
from project_venv import require

require("torch", "torchvision", "numpy", "onnx")

import importlib.util

import networks
import torch

# tests/tools has a tenon.py of its own.
sys.path.remove(str(ROOT / "tests/tools"))
if importlib.util.find_spec("tenon") is None:
    sys.exit("torch_compile.py: the package tenon is not here: scripts/wheel, then pip install build/wheels/*.whl")
import tenon.dynamo

torch._dynamo.config.allow_rnn = True  # or recurrent layers are captured by no backend

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class Peer:
    """torch as it is (`eager`), or a backend of torch.compile; after its first call."""

    def __init__(self, name, module, example):
        self.name, self.example, self.modules = name, example, []
        self.function = module if name == "eager" else torch.compile(module, backend=name)
        compile_one = tenon.dynamo.compile
        tenon.dynamo.compile = lambda *a, **k: self.modules.append(compile_one(*a, **k)) or self.modules[-1]
        start = time.monotonic()
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.output = self.call()
        finally:
            tenon.dynamo.compile = compile_one
        self.first_s = time.monotonic() - start
        self.refused = [str(w.message) for w in told if str(w.message).startswith("tenon:")]
        self.times = []

    def call(self):
        output = self.function(self.example)
        if self.example.is_cuda:
            torch.cuda.synchronize()
        return output

    def captured(self, reference):
        """(milliseconds of a replayed call, its error)."""
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.function(self.example)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side):
            output = self.function(self.example)
        output.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        error = relative_error(output, reference)
        times = []
        for _ in range(5):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(20):
                graph.replay()
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last) / 20)
        return statistics.median(times), error


def relative_error(output, reference):
    error = (output.double() - reference.double()).abs().max() / reference.double().abs().max()
    return float(error) if torch.isfinite(error) else float("inf")


def begin(options, name):
    """The peers that could make a first call, each with its row; all rows; and the reference."""
    dtype, device = DTYPES[options.precision], options.device
    module = networks.build(name).to(device)
    torch.manual_seed(7)
    example = networks.cast(networks.network(name).example(options.batch, device=device), dtype)
    with torch.inference_mode():
        reference = module.to(dtype).double()(networks.cast(example, torch.double))
    module = module.to(dtype)
    if example.dim() == 4:
        module = module.to(memory_format=torch.channels_last)
    rows, peers = [], []
    for peer_name in options.peers:
        row = {"model": name, "batch": options.batch, "precision": options.precision, "peer": peer_name}
        rows.append(row)
        try:
            peer = Peer(peer_name, module, example)
        except Exception as failure:  # a peer that fails is a row, too
            row["note"] = f"{type(failure).__name__}: {failure}".splitlines()[0][:300]
            continue
        row |= {"first_s": peer.first_s, "max_error": relative_error(peer.output, reference)}
        if peer_name == "tenon":
            shared = sum(made.shared_bytes for made in peer.modules) / 2**20
            row |= {"graphs": len(peer.modules), "in_torch": len(peer.refused), "shared_mib": shared}
            if peer.refused:
                row["note"] = peer.refused[0][:300]
        peers.append((peer, row))
    return peers, rows, reference


def measure(options, peers, reference):
    end = time.monotonic() + options.seconds * len(peers)
    while time.monotonic() < end or not peers[0][0].times:
        for peer, _ in peers:
            start = time.perf_counter()
            peer.call()
            peer.times.append((time.perf_counter() - start) * 1e3)
    for peer, row in peers:
        row["ms"] = statistics.median(peer.times)
        if options.device == "cuda":
            try:
                row["graph_ms"], row["graph_error"] = peer.captured(reference)
            except Exception as failure:
                row["note"] = f"captured: {type(failure).__name__}: {failure}".splitlines()[0][:300]


def child(options):
    """One network: writes a line once its first calls are made, and its rows when it was told to measure."""
    with torch.no_grad():
        peers, rows, reference = begin(options, options.models)
        print("begun", flush=True)
        if sys.stdin.readline() and peers:
            measure(options, peers, reference)
    print(json.dumps(rows), flush=True)


class Network:
    """A child of this process."""

    def __init__(self, name, words):
        self.name, self.begun = name, False
        self.process = subprocess.Popen([sys.executable, __file__, "--child", f"--models={name}", *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    def begin(self, end):
        late = threading.Timer(max(0, end - time.monotonic()), self.process.kill)
        late.start()
        self.begun = self.process.stdout.readline() == "begun\n"
        late.cancel()

    def measure(self):
        if self.begun:
            answer, _ = self.process.communicate("measure\n")
            if self.process.returncode == 0:
                return json.loads(answer.splitlines()[-1])
        why = f"ended with {self.process.wait()}" + ("" if self.begun else " before its first calls were made")
        return [{"model": self.name, "peer": "tenon", "note": why}]


COLUMNS = ["model", "batch", "precision", "peer", "ms", "graph_ms", "max_error", "graph_error", "first_s", "graphs", "in_torch",
           "shared_mib", "note"]  # fmt: skip


def shown(row):
    return "  ".join(f"{value:.4g}" if isinstance(value := row.get(c, "-"), float) else str(value) for c in COLUMNS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default=",".join(networks.NETWORKS))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=DTYPES, default="fp16" if torch.cuda.is_available() else "fp32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--peer", default="eager,inductor", help="beside tenon: eager, or backends of torch.compile")
    parser.add_argument("--seconds", type=float, default=0.3, help="of timing, for each peer")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=1e6)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.peers = ["tenon", *(peer for peer in options.peer.split(",") if peer)]
    if options.child:
        child(options)
        return 0
    words = [f"--{key}={getattr(options, key)}" for key in ("batch", "precision", "device", "peer", "seconds")]
    limit, end, rows = threading.Semaphore(options.jobs), time.monotonic() + options.deadline, []
    names = options.models.split(",")
    children: dict[str, Network] = {}

    def start(name):
        with limit:
            children[name] = Network(name, words)
            children[name].begin(end)

    threads = [threading.Thread(target=start, args=(name,)) for name in names]
    if options.jobs > 1:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print("  ".join(COLUMNS))
    for name in names:
        if options.jobs == 1:
            start(name)
        found = children[name].measure()
        rows += found
        for row in found:
            print(shown(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any("max_error" not in row or row.get("in_torch") for row in rows if row["peer"] == "tenon"))


if __name__ == "__main__":
    sys.exit(main())
