#!/usr/bin/env python3
"""Times generated CUDA against torch on this machine's GPU: one process, one table.

    bench/gpu.py [--models=NAME,...] [--batch=1,8,64] [--precision=fp16,fp32] [--peer=NAME,...]
                 [--autotune] [--rounds=N] [--words="TENON OPTIONS"] [--json FILE] [--keep DIR] [--prepare]
                 [--against=TENON]

Models are those of bench/networks.py, or `timm:NAME` where that package is installed.

Peers: `eager` (torch as it is, host time included), `eager+graph` (captured into a CUDA graph),
`inductor+graph` (torch.compile, captured by hand over static buffers, so that it pays no input copy;
max-autotune with --autotune); `ort` and `tensorrt`, where installed (bench/engines.py). Rows of peers
that are not measured here come from bench/peers_h100.json or peers_h200.json and are marked `recorded`,
with the device where it is another one.

All implementations take the same weights (exported from torch to ONNX here), the same input tensor in
the same type and layout, and hand out the same type. Every output is compared with torch's in fp64
before anything is timed; the error is relative to the largest value. Tensors of tf32 and tf32x3 are
fp32; the peers multiply in tf32 where that is asked for, and in fp32 beside tf32x3. Then the peers run in turns, each
between two CUDA events over enough runs to fill a few milliseconds; `ms` is the median over the rounds.
`first_ms` is the first run after creation on the host's clock, from the call to the end of waiting for
it, `thousandth_ms` the same around the thousandth run (the median of the hundred before it; fewer runs
where they would take more than two seconds), `create_ms` what comes before the first (loading weights,
capturing), `memory_mib` what creation took from the device, `compile_s` what came before the program could
be started (tenon and nvcc, or torch.compile).

--keep DIR keeps models and libraries and takes those that the same compiler built from the same options
before. --prepare stops once they are there and torch.compile's own cache is filled: several such
processes can share a machine's cores before one process has the GPU to itself.

--against=TENON compares with another build of the compiler, as a peer `against`, in the same turns; `gain`
is its time over this one's. Where both write the same text they are one program with a gain of 1. Geometric
means come last.
"""

import argparse
import ctypes
import gc
import hashlib
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
from project_venv import require

require("torch", "torchvision", "numpy", "onnx")

import audio
import diffusion
import from_transformers
import networks
import torch
from engines import ENGINES
from generated import BuildError, Options
from tenon import binary, table, tenon
from turns import span

RECORDED = [ROOT / "bench/peers_h200.json", ROOT / "bench/peers_h100.json"]  # the first, where none fits
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "tf32x3": torch.float32,
          "fp16": torch.float16, "bf16": torch.bfloat16}  # fmt: skip
NETWORK_MODULES = [audio, diffusion, from_transformers, networks]
SAME = "the same program"  # as that of the other compiler
FILL_MS = 3.0  # how long one peer runs before the next does


def identity(words, compiler):
    """What decides a library beside the network: the compiler's bytes, the options, the exporting scripts."""
    scripts = [Path(module.__file__).read_bytes() for module in NETWORK_MODULES]
    parts = [Path(compiler).read_bytes(), *scripts, repr(words).encode()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def kept(source, words, compiler):
    """What `build` answered for `source` before, if the same compiler and options did."""
    note = source.with_suffix(".built.json")
    if not note.exists():
        return None
    answer = json.loads(note.read_text())
    if answer["identity"] != identity(words, compiler):
        return None
    return source.with_suffix(".so"), answer["compile_s"], answer["nvcc_s"]


def build(model, source, words, compiler, like=None):
    """tenon and nvcc: the shared library beside `source`, and the seconds that both took. Where the answer of
    `like` is of the same text, that."""
    source.parent.mkdir(exist_ok=True)
    answer = tenon("compile", model, "-o", source, "-q", *words, timeout=600, compiler=compiler)
    if answer.status != 0:
        raise BuildError(answer.reason)
    if like and same_program(source, like.result()[0]):
        return like.result()
    with open(source) as text:
        command = shlex.split(text.readline().lstrip("/ "))
    command[command.index("-c") :] = ["-shared", "-Xcompiler=-fPIC", source.name, "-o", source.stem + ".so"]
    start = time.monotonic()
    done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError("nvcc: " + (done.stderr.strip().splitlines() or ["failed"])[0])
    library, nvcc_s = source.with_suffix(".so"), time.monotonic() - start
    note = {"identity": identity(words, compiler), "compile_s": answer.seconds, "nvcc_s": nvcc_s}
    source.with_suffix(".built.json").write_text(json.dumps(note))
    return library, answer.seconds, nvcc_s


def same_program(source, library):
    """Whether the text beside another library, and its weights, are those of `source`."""
    return all(
        a.exists() == b.exists() and (not a.exists() or a.read_bytes() == b.read_bytes())
        for a, b in ((source.with_suffix(end), library.with_suffix(end)) for end in (".cu", ".weights"))
    )


class Tenon:
    def __init__(self, name, library, inputs, like):
        self.name = name
        self.prefix = library.stem
        self.shared = ctypes.CDLL(str(library))
        self.entry("error_message").restype = ctypes.c_char_p
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        weights = library.with_suffix(".weights")
        path = str(weights).encode() if weights.exists() else None
        options = Options(size=ctypes.sizeof(Options), weights_path=path)
        self.call("model_open", ctypes.byref(options), ctypes.byref(self.model))
        self.call("context_create", self.model, ctypes.byref(self.context))
        self.output = torch.full(like.shape, float("nan"), dtype=like.dtype, device=like.device)
        self.inputs = (ctypes.c_void_p * 1)(inputs.data_ptr())
        self.outputs = (ctypes.c_void_p * 1)(self.output.data_ptr())
        self.enqueue = self.entry("enqueue")
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        # ctypes' own first call is nobody's first run: without a context this answers an error.
        self.enqueue(ctypes.c_void_p(), self.inputs, self.outputs, self.stream)

    def entry(self, function):
        return getattr(self.shared, f"{self.prefix}_{function}")

    def call(self, function, *arguments):
        code = self.entry(function)(*arguments)
        if code != 0:
            message = self.entry("error_message")(ctypes.c_int(code))
            raise RuntimeError(f"{function}: {message.decode(errors='replace')}")

    def run(self):
        if code := self.enqueue(self.context, self.inputs, self.outputs, self.stream):
            raise RuntimeError(f"enqueue answered {code}")

    def close(self):
        self.entry("context_destroy")(self.context)
        self.entry("model_close")(self.model)


class Idle:
    """Runs nothing: what measuring itself costs the first time."""

    def run(self):
        pass


class Torch:
    """torch in one of three ways: `eager`, `eager+graph`, `inductor+graph`."""

    def __init__(self, name, module, inputs, autotune=False):
        self.name, self.inputs = name, inputs
        self.function = module
        self.compile_s = 0.0
        if name.startswith("inductor"):
            torch._dynamo.reset()
            start = time.monotonic()
            mode = "max-autotune-no-cudagraphs" if autotune else None
            self.function = torch.compile(module, mode=mode)
            self.function(inputs)
            torch.cuda.synchronize()
            self.compile_s = time.monotonic() - start
        self.graph = None
        if name.endswith("+graph"):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.function(inputs)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = self.function(inputs)

    def run(self):
        if self.graph:
            self.graph.replay()
        else:
            self.output = self.function(self.inputs)

    def close(self):
        self.graph = self.output = self.function = None


def free_mib():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0] / 2**20


def measured(make):
    """A peer with the time and memory of its creation and the time of its first run."""
    gc.collect()
    torch.cuda.empty_cache()
    before, start = free_mib(), time.monotonic()
    peer = make()
    torch.cuda.synchronize()
    peer.create_ms = (time.monotonic() - start - getattr(peer, "compile_s", 0.0)) * 1e3
    waited_ms(Idle())
    peer.first_ms = waited_ms(peer)
    peer.memory_mib = before - free_mib()
    return peer


def waited_ms(peer):
    """One run on the host's clock."""
    start = time.perf_counter()
    peer.run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def thousandth_ms(peer):
    times, deadline = [], time.monotonic() + 2
    while len(times) < 1000 and (len(times) < 3 or time.monotonic() < deadline):
        times.append(waited_ms(peer))
    return statistics.median(times[-100:])


def time_in_turns(peers, rounds):
    for peer in peers:
        estimate = min(span(peer, 5) for _ in range(3))
        peer.runs = max(3, min(200, int(FILL_MS / max(estimate, 1e-3))))
        peer.times = []
    for _ in range(rounds):
        for peer in peers:
            peer.times.append(span(peer, peer.runs))


def relative_error(output, reference):
    error = (output.double() - reference.double()).abs().max() / reference.double().abs().max()
    return float(error) if torch.isfinite(error) else float("inf")


def operands(name, batch, precision):
    """The network and its input as the peers take them, and what torch computes of both in fp64. The
    halves' own reference computes on the values that the halves were given."""
    torch.manual_seed(7)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    dtype = DTYPES[precision]
    module = networks.build(name).cuda()
    inputs = networks.cast(networks.network(name).example(batch, device="cuda"), dtype)
    with torch.no_grad():
        reference = module.to(dtype).double()(networks.cast(inputs, torch.double))
    module = module.to(dtype)
    if inputs.dim() == 4:
        module = module.to(memory_format=torch.channels_last)
    return module, inputs, reference


def prepare(options, name, batch, precision, built):
    """Waits for the library and fills torch.compile's cache."""
    for job in built.values():
        try:
            job.result()
        except BuildError as failure:
            print(f"{name} b{batch} {precision}: {failure}", flush=True)
    module, inputs, _ = operands(name, batch, precision)
    with torch.no_grad():
        for peer in options.peers:
            if peer.startswith("inductor"):
                Torch(peer.removesuffix("+graph"), module, inputs, options.autotune).close()


def make_peer(name, options, module, model, inputs, like, precision):
    if engine := ENGINES.get(name):
        return engine(model, inputs, like, precision == "tf32")
    return Torch(name, module, inputs, options.autotune)


def case(options, name, batch, precision, model, built):
    """The rows of one network, batch and precision; `model` is it as ONNX. `built`: the programs, by the name
    of their rows."""
    dtype = DTYPES[precision]
    module, inputs, reference = operands(name, batch, precision)
    with torch.no_grad():
        row = {"model": name, "batch": batch, "precision": precision}
        rows, peers = [], []
        like = torch.empty_like(reference, dtype=dtype)
        libraries = {}
        for program, job in built.items():
            try:
                library, compile_s, nvcc_s = job.result()
                if library in libraries:
                    rows.append({**row, "peer": program, "note": SAME})
                    continue
                libraries[library] = program
                peers.append(measured(lambda: Tenon(program, library, inputs, like)))
                peers[-1].compile_s = compile_s + nvcc_s
            except (BuildError, RuntimeError, OSError) as failure:
                rows.append({**row, "peer": program, "note": str(failure)[:160]})
        for peer in options.peers:
            try:
                peers.append(measured(lambda: make_peer(peer, options, module, model, inputs, like, precision)))
            except Exception as failure:  # a peer that fails is a row, too
                rows.append({**row, "peer": peer, "note": str(failure).splitlines()[0][:160]})
        for peer in peers:
            peer.run()
        torch.cuda.synchronize()
        errors = [relative_error(peer.output, reference) for peer in peers]
        for peer in peers:
            peer.thousandth_ms = thousandth_ms(peer)
        time_in_turns(peers, options.rounds)
        for peer, error in zip(peers, errors):
            rows.append({**row, "peer": peer.name, "ms": statistics.median(peer.times),
                         "first_ms": peer.first_ms, "thousandth_ms": peer.thousandth_ms,
                         "create_ms": peer.create_ms, "memory_mib": peer.memory_mib, "compile_s": peer.compile_s,
                         "max_error": error})  # fmt: skip
            peer.close()
    return rows


def recorded(rows, device):
    """Rows of peers that are missing among `rows`, as they were measured before; those beside tf32x3
    multiply in fp32."""
    files = [json.loads(path.read_text()) for path in RECORDED]
    file = next((file for file in files if file["device"] == device), files[0])
    note = "recorded" if file["device"] == device else f"recorded on {file['device']}"
    measured_here = {(r["model"], r["batch"], r["precision"], r["peer"]) for r in rows if "ms" in r}
    kept = []
    for case in sorted({key[:3] for key in measured_here}):
        like = (*case[:2], case[2].replace("tf32x3", "fp32"))
        for row in file["rows"]:
            if (row["model"], row["batch"], row["precision"]) == like and (*case, row["peer"]) not in measured_here:
                kept.append({**row, "precision": case[2], "note": note})
    return kept


def gains_of(rows):
    """[(gain, row)]: of every case that both compilers run how many times as long `against` takes, noted in the
    row of `tenon`."""
    cases = {}
    for row in rows:
        cases.setdefault((row["model"], row["batch"], row["precision"]), {})[row["peer"]] = row
    gains = []
    for peers in cases.values():
        mine, other = peers.get("tenon", {}), peers.get("against", {})
        if "ms" in mine and ("ms" in other or other.get("note") == SAME):
            mine["gain"] = other["ms"] / mine["ms"] if "ms" in other else 1.0
            gains.append((mine["gain"], mine))
    return gains


def print_gains(gains):
    differ = [g for g, _ in gains if g != 1]
    print(f"{len(gains)} cases, {len(differ)} of different programs")
    for words, some in (("all", [g for g, _ in gains]), ("that differ", differ)):
        if some:
            print(f"geometric mean of the gains, {words}: {math.exp(statistics.mean(map(math.log, some))):.4f}")
    for gain, row in sorted(gains, key=lambda pair: pair[0])[:5]:
        print(f"  {gain:.3f} {row['model']} b{row['batch']} {row['precision']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default=",".join(networks.NETWORKS))
    parser.add_argument("--batch", default="1,8,64")
    parser.add_argument("--precision", default="fp16,fp32")
    parser.add_argument("--peer", default="eager,eager+graph,inductor+graph")
    parser.add_argument("--autotune", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--words", default="", help="further options of `tenon compile`")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the models and generated files")
    parser.add_argument("--prepare", action="store_true", help="only export and build into the folder of --keep")
    parser.add_argument("--against", type=Path, help="another `tenon` to compare with")
    options = parser.parse_args()
    if options.prepare and not options.keep:
        parser.error("--prepare needs the folder that --keep names")
    options.peers = [peer for peer in options.peer.split(",") if peer]

    torch.backends.cudnn.benchmark = True
    if ENGINES.keys() & set(options.peers):  # they capture what they enqueue, on torch's stream
        torch.cuda.set_stream(torch.cuda.Stream())
    major, minor = torch.cuda.get_device_capability()
    target = f"cuda:sm_{major}{minor}{'a' if (major, minor) == (9, 0) else ''}"
    words = [f"--target={target}", *shlex.split(options.words)]
    cases = [(name, int(batch), precision) for name in options.models.split(",")
             for precision in options.precision.split(",")
             for batch in options.batch.split(",")]  # fmt: skip
    print(f"{torch.cuda.get_device_name()}, {target}, torch {torch.__version__}, {binary()}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        jobs = ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2))
        built = {}
        models = {key: folder / "{}_b{}_{}.onnx".format(*key).replace(":", "_") for key in cases}
        compilers = {"tenon": binary()} | ({"against": options.against.resolve()} if options.against else {})
        for (name, batch, precision), model in models.items():
            chosen = words + ([f"--precision={precision}"] if precision.startswith("tf32") else [])
            sources = {program: (model if program == "tenon" else folder / program / model.name).with_suffix(".cu")
                       for program in compilers}  # fmt: skip
            before = {program: kept(source, chosen, compilers[program]) for program, source in sources.items()}
            if not all(before.values()):
                dtype = DTYPES[precision]
                module = networks.build(name).to("cuda", dtype)
                with torch.no_grad():
                    networks.export(module, networks.network(name).example(batch, dtype, "cuda"), model)
            own = built[name, batch, precision] = {}
            for program, source in sources.items():
                if before[program]:
                    own[program] = Future()
                    own[program].set_result(before[program])
                else:
                    own[program] = jobs.submit(build, model, source, chosen, compilers[program], own.get("tenon"))
        if options.prepare:
            for key in cases:
                prepare(options, *key, built[key])
            return
        rows = []
        for key in cases:
            rows += case(options, *key, models[key], built[key])
            gc.collect()
            if options.json:  # what stands so far survives an interruption
                options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1))
        jobs.shutdown()
    rows += recorded(rows, torch.cuda.get_device_name())
    best = {}
    for row in rows:
        key = row["model"], row["batch"], row["precision"]
        if row["peer"] not in compilers and "ms" in row:
            best[key] = min(best.get(key, row["ms"]), row["ms"])
    for row in rows:
        key = row["model"], row["batch"], row["precision"]
        if row["peer"] == "tenon" and "ms" in row and key in best:
            row["speedup"] = best[key] / row["ms"]
    gains = gains_of(rows)
    columns = ["model", "batch", "precision", "peer", "ms", "speedup", "gain", "first_ms", "thousandth_ms",
               "create_ms", "memory_mib", "compile_s", "max_error", "note"]  # fmt: skip
    table(rows, columns, sys.stdout)
    if options.against:
        print_gains(gains)


if __name__ == "__main__":
    main()
