#!/usr/bin/env python3
"""Times decoders against torch on this machine's GPU: one process, one table.

    bench/llm.py [--filter=GLOB,...] [--list] [--against TENON] [--no-torch] [--rounds=N] [--layers=N]
                 [--vocabulary=N] [--models DIR] [--json FILE]

A case is MODEL/PRECISION/PAST: a model of bench/decoders.py, written as onnxruntime-genai's builder writes it with
random weights, and how many tokens a prompt leaves in its caches. Tenon's program is what `tenon compile
--decoder=MAX` makes of it; torch's (bench/decoder_peers.py) has the same weights, a static cache, its layers compiled
and its steps captured into CUDA graphs. Tokens and logits are on the device. Lines of a case:

    step        one token behind PAST others, which are taken back each time
    growing     64 tokens, one after the other, from there
    generated   a token of 64 that are drawn greedily, by the clock of the host
    N rows      a run of the prompt's last N tokens (cases that name rows)
    prompt      PAST tokens from the host's memory, by its clock, to the first token's logits; cases with `all` copy
                logits of each of them to the host's memory, and with `N rows` leave them on the device

`ms` is the median over the rounds, in which the peers run in turns. `limit` is what reading weights and caches (of
prompts: multiplying) takes at the bandwidth and the fp16 rate of this GPU, `share` how much of it Tenon reaches,
`ratio` torch's time over Tenon's. Cases run in the order of --filter. The logits of a step are compared with the same model in fp32 by torch before anything
is timed; `error` is relative to the largest, and `agree` says how many tokens drawn greedily were the same before the first
that differs. --against adds another compiler's program, --layers and --vocabulary make the models smaller.
"""

import argparse
import ctypes
import dataclasses
import fnmatch
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
from project_venv import require

require("torch", "numpy", "onnx")

import decoders
import numpy as np
import torch
from decoder_peers import STEPS, Captured, Decoder
from turns import span

ROOM = 1024  # tokens that caches hold beyond a case's past
# TB/s of memory and TFLOP/s of dense fp16, by what a GPU's name contains; the first that fits.
DEVICES = {"GH200": (4.0, 989), "H200": (4.8, 989), "H100 PCIe": (2.0, 756), "H100 NVL": (3.9, 835), "H100": (3.35, 989),
           "B200": (8.0, 2250), "A100-SXM4-80GB": (2.04, 312), "A100-PCIE-40GB": (1.56, 312),
           "A100": (1.94, 312), "L40S": (0.864, 362), "L4": (0.3, 121), "RTX 5090": (1.79, 210), "RTX 4090": (1.01, 165),
           "Orin": (0.205, 43), "Thor": (0.273, 500)}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    precision: str
    past: int
    rows: tuple = ()
    all: bool = False  # logits of each token of the prompt

    @property
    def name(self):
        return f"{self.model}/{self.precision}/{self.past}" + ("/all" if self.all else "")


CASES = [
    Case("smollm2-135m", "fp16", 512),
    Case("qwen3-0.6b", "fp16", 1024),
    Case("llama-3.2-1b", "fp16", 1024, rows=(4, 16)),
    Case("llama-3.2-1b", "int4", 1024, rows=(4, 16)),
    Case("llama-3.2-1b", "fp16", 16384),
    Case("llama-3.1-8b-8-layers", "int4", 1024),
    Case("llama-3.1-8b-8-layers", "fp8", 1024),
    Case("gemma-3-1b", "fp16", 4096),
    Case("llama-3.2-1b", "fp16", 1024, rows=(1024,), all=True),
]


def config_of(case, options):
    """The case's model, smaller where that is asked for."""
    config = decoders.MODELS[case.model]
    return dataclasses.replace(config, layers=options.layers or config.layers, positions=case.past + ROOM,
                               vocabulary=options.vocabulary or config.vocabulary)  # fmt: skip


def build(tenon, model, folder, words):
    """The program of one compiler, as a shared library."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "decoder.cu"
    major, minor = torch.cuda.get_device_capability()
    target = f"--target=cuda:sm_{major}{minor}{'a' if major >= 9 else ''}"
    subprocess.run([str(tenon), "compile", str(model), target, "-o", str(source), "-q", *words], check=True)
    with open(source) as text:
        command = shlex.split(text.readline().lstrip("/ "))
    command[command.index("-c") :] = ["-shared", "-Xcompiler=-fPIC", source.name, "-o", "decoder.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "decoder.so"


def kernels_of_step(text):
    """Launches of a run: of the graph for one token where a file has several."""
    lists = dict(re.findall(r"constexpr cuda::step (steps_\w+)\[\] = \{\n(.*?)\n  \};", text, re.S))
    steps = next((list_ for name, list_ in lists.items() if name.endswith("_rows1")), "".join(lists.values()))
    bodies = dict(re.findall(r"template <class V> status (step\w+)\(const frame &f, issue &\w+\) \{\n(.*?)\n\}", text, re.S))
    return sum(bodies[name].count("to.launch") for name in re.findall(r", (step\w+)<", steps))


class Sampling(ctypes.Structure):
    _fields_ = [("temperature", ctypes.c_float), ("top_k", ctypes.c_int), ("top_p", ctypes.c_float),
                ("seed", ctypes.c_ulong), ("stop", ctypes.POINTER(ctypes.c_int)), ("stop_count", ctypes.c_int)]  # fmt: skip


class Program:
    """A library with its weights, and a prompt in its caches; tokens and logits are on the device."""

    def __init__(self, name, library, prompt, all_logits, vocabulary):
        self.name, self.shared = name, ctypes.CDLL(str(library))
        self.shared.decoder_error_message.restype = ctypes.c_char_p
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        weights = str(library.with_suffix(".weights")).encode()
        self.check(self.shared.decoder_model_create(ctypes.byref(self.model), ctypes.c_char_p(weights), ctypes.c_int(0)))
        self.check(self.shared.decoder_context_create(self.model, ctypes.byref(self.context)))
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.kernels = kernels_of_step(library.with_name("decoder.cu").read_text())
        self.count = int(re.search(r"DECODER_DIM_SEQUENCE_LENGTH (\d+)", library.with_name("decoder.h").read_text())[1])
        self.prompt, self.past = (ctypes.c_int * len(prompt))(*prompt), len(prompt) - 1
        self.all, self.vocabulary = all_logits, vocabulary
        self.take_prompt()
        self.token, self.logits = self.operands(1)

    def check(self, code):
        if code:
            raise RuntimeError(self.shared.decoder_error_message(ctypes.c_int(code)).decode(errors="replace"))

    def operands(self, rows):
        """The prompt's last tokens, and room for their logits."""
        tokens = torch.tensor([self.prompt[len(self.prompt) - rows :]], device="cuda")
        shape = [1, rows if self.all else 1, self.vocabulary]
        return tokens, torch.full(shape, float("nan"), dtype=torch.float16, device="cuda")

    def set_length(self, length):
        self.check(self.shared.decoder_set_length(self.context, ctypes.c_long(length)))

    def set_rows(self, rows):
        self.check(self.shared.decoder_set_dim(self.context, self.count, ctypes.c_long(rows)))
        self.check(self.shared.decoder_prepare(self.context))

    def enqueue(self, tokens, logits):
        pointers = [(ctypes.c_void_p * 1)(t.data_ptr()) for t in (tokens, logits)]
        self.check(self.shared.decoder_enqueue(self.context, *pointers, self.stream))

    def take_prompt(self):
        """Leaves the caches with all tokens but the last; milliseconds."""
        self.set_length(0)
        begun = time.perf_counter()
        self.check(self.shared.decoder_run_tokens(self.context, self.prompt, self.past, None, None, 0))
        taken = 1e3 * (time.perf_counter() - begun)
        self.set_rows(1)
        return taken

    def run(self):
        """The last token of the prompt, and back."""
        self.enqueue(self.token, self.logits)
        self.set_length(self.past)

    def grow(self):
        """Milliseconds of a step that appends."""
        self.run()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(STEPS):
            self.enqueue(self.token, self.logits)
        last.record()
        last.synchronize()
        self.set_length(self.past)
        return first.elapsed_time(last) / STEPS

    def several(self, rows, rounds):
        """Milliseconds of a run of the prompt's last tokens, by rounds, and the logits of the last."""
        operands, before = self.operands(rows), len(self.prompt) - rows

        class Runs:
            @staticmethod
            def run():
                self.enqueue(*operands)
                self.set_length(before)

        self.set_length(before)
        self.set_rows(rows)
        Runs.run()
        times = [span(Runs, 20) for _ in range(rounds)]
        torch.cuda.synchronize()
        self.take_prompt()
        return times, operands[1][0, -1]

    def generate(self):
        """Milliseconds a token, and the tokens."""
        last = ctypes.byref(self.prompt, 4 * self.past)
        self.check(self.shared.decoder_run_tokens(self.context, last, 1, None, None, 0))
        how, tokens, made = Sampling(0.0, 0, 1.0, 1, None, 0), (ctypes.c_int * STEPS)(), ctypes.c_int()
        begun = time.perf_counter()
        self.check(self.shared.decoder_run_generate(self.context, ctypes.byref(how), STEPS, None, tokens, ctypes.byref(made)))
        taken = 1e3 * (time.perf_counter() - begun) / STEPS
        self.set_length(self.past)
        self.set_rows(1)
        return taken, list(tokens)[: made.value]

    def close(self):
        self.shared.decoder_context_destroy(self.context)
        self.shared.decoder_model_destroy(self.model)


def error_of(logits, exact):
    return float((logits.reshape(-1).float() - exact).abs().max() / exact.abs().max())


def expectation(case, config, model, prompt):
    """Logits behind the prompt, and STEPS tokens drawn greedily, in fp32."""
    reference = Decoder(config, model, case.past + STEPS + 1, case.precision)
    reference.take(prompt[:-1], 0)
    exact = logits = reference.take(prompt[-1:], case.past)
    drawn = []
    for i in range(STEPS):
        drawn.append(int(logits.argmax()))
        logits = reference.take(drawn[-1:], case.past + 1 + i)
    return exact, drawn


def limits(case, config):
    """Milliseconds of a step and of a prompt; None where nobody said what this GPU can do."""
    name = torch.cuda.get_device_name()
    known = next((rates for part, rates in DEVICES.items() if part in name), None)
    if not known:
        return None, None
    body = config.layers * sum(k * n for k, n in config.products().values())
    head = config.hidden * config.vocabulary
    # Causal scores and sums of values: half of the pairs, as far as windows reach.
    seen = [min(w, case.past) if (w := config.window_of(i)) > 0 else case.past / 2 for i in range(config.layers)]
    attention = 2 * sum(seen) * config.heads * config.head
    operations = 2 * (case.past * (body + attention + head * case.all) + head)
    return config.bytes_of_step(case.precision, case.past) / known[0] / 1e9, operations / known[1] / 1e9


def measure(case, config, model, libraries, options):
    """The case's lines."""
    prompt = [int(t) for t in np.random.default_rng(5).integers(0, config.vocabulary, case.past + 1)]
    errors, agrees, figures, kernels = {}, {}, {}, {}
    with torch.no_grad():
        exact, drawn = expectation(case, config, model, prompt)
        torch.cuda.empty_cache()
        peers = []
        if options.torch and not case.all:
            try:
                fast = Decoder(config, model, case.past + STEPS + 1, case.precision, fast=True)
                fast.take(prompt[:-1], 0)
                peers.append(Captured(fast, prompt[-1], case.past))
            except Exception as problem:  # whatever this version of torch says
                print(f"{case.name:32} torch: {str(problem).strip().splitlines()[0][:160]}", flush=True)
        peers += [Program(name, library, prompt, case.all, config.vocabulary) for name, library in libraries.items()]
        for peer in peers:
            peer.run()
            torch.cuda.synchronize()
            errors[peer.name], kernels[peer.name] = error_of(peer.logits, exact), peer.kernels
            if isinstance(peer, Program):
                same = [a == b for a, b in zip(peer.generate()[1], drawn)]
                agrees[peer.name] = same.index(False) if False in same else len(same)
        for _ in range(options.rounds):
            for peer in peers:
                found = {"step": span(peer, 20), "growing": peer.grow()}
                if isinstance(peer, Program):
                    found |= {"generated": peer.generate()[0], "prompt": peer.take_prompt()}
                for phase, ms in found.items():
                    figures.setdefault((phase, peer.name), []).append(ms)
        for rows in case.rows:
            for peer in peers:
                if isinstance(peer, Program):
                    figures[f"{rows} rows", peer.name], logits = peer.several(rows, options.rounds)
                    errors[peer.name] = max(errors[peer.name], error_of(logits, exact))
        for peer in peers:
            peer.close()
        torch.cuda.empty_cache()
    step, prompts = limits(case, config)
    return [{"case": case.name, "phase": phase, "peer": peer, "ms": statistics.median(times),
             "limit": prompts if phase in ("prompt", f"{case.past} rows") else step, "max_error": errors[peer],
             "kernels": kernels[peer], "agree": agrees.get(peer)} for (phase, peer), times in figures.items()]  # fmt: skip


def show(rows):
    """A line for each phase, programs beside each other."""
    by = {(r["phase"], r["peer"]): r for r in rows}
    for phase in dict.fromkeys(r["phase"] for r in rows):
        ours, torchs, other = (by.get((phase, peer)) for peer in ("tenon", "torch", "against"))
        if not ours:
            continue
        ms, limit = ours["ms"], ours["limit"]
        fields = [f"{ours['case']:32} {phase:10}", f"{limit:8.3f}" if limit else f"{'unknown':>8}", f"{ms:9.3f}",
                  f"{torchs['ms']:9.3f} {torchs['ms'] / ms:6.2f}" if torchs else f"{'-':>9} {'-':>6}",
                  f"{limit / ms:6.0%}" if limit else f"{'-':>6}",
                  f"{ours['kernels']:7} {ours['max_error']:9.1e} {ours['agree']:6}"]  # fmt: skip
        if torchs:
            fields.append(f"{torchs['max_error']:9.1e}")
        if other:
            fields.append(f"   against {other['ms']:.3f}")
        print(" ".join(fields), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--tenon", type=Path, default=ROOT / "build/tenon")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    matching = [c for pattern in options.filter.split(",") for c in CASES if fnmatch.fnmatch(c.name, pattern)]
    cases = list(dict.fromkeys(matching))
    if options.list or not cases:
        sys.exit("\n".join(c.name for c in CASES) if not options.list else print("\n".join(c.name for c in cases)))
    compilers = {"tenon": options.tenon} | ({"against": options.against} if options.against else {})
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        files = {}

        def model_of(case, config):
            sizes = f"{config.layers}-{config.vocabulary}-{config.positions}"
            path = folder / f"{case.model}-{case.precision}-{sizes}.onnx"
            if path not in files:
                files[path] = pool.submit(lambda: path if path.exists() else decoders.write(path, config, case.precision))
            return files[path]

        def library(case, name, model):
            words = f"--decoder={case.past + ROOM}" + (",logits=all,prefill=1024" if case.all else "")
            return build(compilers[name].resolve(), model.result(), folder / f"{case.name.replace('/', '-')}-{name}", [words])

        jobs = []
        for case in cases:
            config = config_of(case, options)
            model = model_of(case, config)
            jobs.append((case, config, model, {name: pool.submit(library, case, name, model) for name in compilers}))
        print(f"{torch.cuda.get_device_name()}\n{'case':32} {'phase':10} {'limit':>8} {'tenon':>9} {'torch':>9} "
              f"{'ratio':>6} {'share':>6} {'kernels':>7} {'error':>9} {'agree':>6} torch's error", flush=True)  # fmt: skip
        for case, config, model, built in jobs:
            try:
                found = measure(case, config, model.result(), {n: b.result() for n, b in built.items()}, options)
            except (RuntimeError, subprocess.CalledProcessError) as problem:
                failed = True
                print(f"{case.name:32} failed: {str(problem).splitlines()[0][:160]}", flush=True)
                continue
            rows += found
            show(found)
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
