#!/usr/bin/env python3
"""Times one step of a decoder against torch on this machine's GPU: one process, one table.

    bench/llm.py [--precisions=fp16,int4] [--files=fixed,decoder,prefill] [--layers=16] [--rows=4,16]
                 [--against TENON] [--no-torch] [--rounds=N] [--vocabulary=N] [--models DIR] [--json FILE]

The models are those of bench/compile_time.py: Llama-3.2-1B as onnxruntime-genai's builder writes it, random
weights, one token behind a past of 1,024, all extents fixed. torch runs the same weights (int4: dequantised to
fp16, for its results alone) with a static cache, its layers compiled, the step captured into a CUDA graph.
--against adds another compiler's program. All logits are compared with torch's in fp32 over the same numbers
before anything is timed; the error is relative to the largest. Then the peers run in turns, each between two
events; `ms` is the median over the rounds, `limit` what its weights and caches take at 3.35 TB/s.

`decoder` is the same model with open extents, compiled with --decoder: its caches are states, which a prompt of
1,024 tokens fills. Its lines are a step with so many keys taken back each time, a step of 64 that grow from there
(both between events, tokens and logits on the device), a token of 64 that are generated greedily (the clock of the
host), the prompt, and runs of the prompt's last tokens, as many as --rows says. torch's lines are of the same prompt. Tokens that are generated are compared with torch's in
fp32 over the same numbers: `agree` says how many were the same before the first that differs. `prefill` is the same
file with graphs for prompts of up to 128 and 1,024 tokens, and a second copy of weights for them.
"""

import argparse
import ctypes
import json
import os
import shlex
import statistics
import re
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

import compile_time as llama
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from turns import span

DEVICE_TBS = 3.35  # of an H100
EPSILON = 1e-5


STEPS, CAPACITY = 64, 2048  # tokens that a decoder generates, and that it has room for


def build(tenon, model, folder, words):
    """The program of one compiler, as a shared library."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "decoder.cu"
    subprocess.run([str(tenon), "compile", str(model), "--target=cuda:sm_90a", "-o", str(source), "-q", *words], check=True)
    with open(source) as text:
        command = shlex.split(text.readline().lstrip("/ "))
    command[command.index("-c") :] = ["-shared", "-Xcompiler=-fPIC", source.name, "-o", "decoder.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "decoder.so"


def open_extents(model, path):
    """The model with the extents that --decoder expects; its weights stay where they are."""
    proto = onnx.load(model, load_external_data=False)
    graph = proto.graph
    for value in [*graph.input, *graph.output]:
        dims, name = value.type.tensor_type.shape.dim, value.name
        dims[0].dim_param = "batch_size"
        if name == "attention_mask":
            dims[1].dim_param = "total_sequence_length"
        elif name in ("input_ids", "logits"):
            dims[1].dim_param = "sequence_length"
        else:
            dims[2].dim_param = ("past" if name.startswith("past") else "total") + "_sequence_length"
    kept = [t for t in graph.initializer if t.name != "length"]
    del graph.initializer[:]
    graph.initializer.extend([*kept, helper.make_tensor("axis", TensorProto.INT64, [], [1])])
    nodes = [helper.make_node("Shape", ["attention_mask"], ["mask.shape"]),
             helper.make_node("Gather", ["mask.shape", "axis"], ["mask.total"], axis=0),
             helper.make_node("Cast", ["mask.total"], ["length"], to=TensorProto.INT32), *graph.node]  # fmt: skip
    del graph.node[:]
    graph.node.extend(nodes)
    path.write_bytes(proto.SerializeToString())
    return path


def kernels_of_step(text):
    """Launches of a run: of the graph for one token where a file has several."""
    lists = dict(re.findall(r"constexpr cuda::step (steps_\w+)\[\] = \{\n(.*?)\n  \};", text, re.S))
    steps = next((list_ for name, list_ in lists.items() if name.endswith("_rows1")), "".join(lists.values()))
    bodies = dict(re.findall(r"template <class V> status (step\w+)\(const frame &f, issue &\w+\) \{\n(.*?)\n\}", text, re.S))
    return sum(bodies[name].count("to.launch") for name in re.findall(r", (step\w+)<", steps))


class Program:
    """A library with its weights, its operands on the device."""

    def __init__(self, name, library, inputs, outputs):
        self.name, self.shared = name, ctypes.CDLL(str(library))
        self.shared.decoder_error_message.restype = ctypes.c_char_p
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        weights = str(library.with_suffix(".weights")).encode()
        self.check(self.shared.decoder_model_create(ctypes.byref(self.model), ctypes.c_char_p(weights), ctypes.c_int(0)))
        self.check(self.shared.decoder_context_create(self.model, ctypes.byref(self.context)))
        self.kept = inputs, outputs
        self.inputs, self.outputs = ((ctypes.c_void_p * len(list_))(*(t.data_ptr() for t in list_))
                                     for list_ in self.kept)  # fmt: skip
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.kernels = kernels_of_step(library.with_name("decoder.cu").read_text())

    def check(self, code):
        if code:
            raise RuntimeError(self.shared.decoder_error_message(ctypes.c_int(code)).decode(errors="replace"))

    def run(self):
        self.check(self.shared.decoder_enqueue(self.context, self.inputs, self.outputs, self.stream))

    @property
    def logits(self):
        return self.kept[1][0]

    def close(self):
        self.shared.decoder_context_destroy(self.context)
        self.shared.decoder_model_destroy(self.model)
        self.kept = None


class Sampling(ctypes.Structure):
    _fields_ = [("temperature", ctypes.c_float), ("top_k", ctypes.c_int), ("top_p", ctypes.c_float),
                ("seed", ctypes.c_ulong), ("stop", ctypes.POINTER(ctypes.c_int)), ("stop_count", ctypes.c_int)]  # fmt: skip


class States(Program):
    """A program that keeps its caches, with a prompt in them."""

    def __init__(self, name, library, prompt, logits):
        token = torch.tensor([[prompt[-1]]], device="cuda")
        super().__init__(name, library, [token], [logits])
        header = library.with_name("decoder.h").read_text()
        self.count = int(re.search(r"DECODER_DIM_SEQUENCE_LENGTH (\d+)", header)[1])
        self.prompt = (ctypes.c_int * len(prompt))(*prompt)
        self.take_prompt()

    def take_prompt(self):
        """Leaves the caches with all tokens but the last; milliseconds."""
        self.check(self.shared.decoder_set_length(self.context, ctypes.c_long(0)))
        begun = time.perf_counter()
        self.check(self.shared.decoder_run_tokens(self.context, self.prompt, len(self.prompt) - 1, None, None, 0))
        taken = 1e3 * (time.perf_counter() - begun)
        self.check(self.shared.decoder_set_dim(self.context, self.count, ctypes.c_long(1)))
        self.check(self.shared.decoder_prepare(self.context))
        return taken

    def run(self):
        """The last token of the prompt, and back."""
        super().run()
        self.check(self.shared.decoder_set_length(self.context, ctypes.c_long(len(self.prompt) - 1)))

    def grow(self):
        """Milliseconds of a step that appends."""
        self.run()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(STEPS):
            super().run()
        last.record()
        last.synchronize()
        self.check(self.shared.decoder_set_length(self.context, ctypes.c_long(len(self.prompt) - 1)))
        return first.elapsed_time(last) / STEPS

    def several(self, rows, rounds):
        """Milliseconds of a run of the prompt's last tokens, by rounds, and the logits."""
        tokens = torch.tensor([self.prompt[-rows:]], device="cuda")
        logits = torch.full_like(self.logits, float("nan"))  # of the last token
        operands = [(ctypes.c_void_p * 1)(t.data_ptr()) for t in (tokens, logits)]
        before = ctypes.c_long(len(self.prompt) - rows)

        class Runs:
            @staticmethod
            def run():
                self.check(self.shared.decoder_enqueue(self.context, *operands, self.stream))
                self.check(self.shared.decoder_set_length(self.context, before))

        self.check(self.shared.decoder_set_length(self.context, before))
        self.check(self.shared.decoder_set_dim(self.context, self.count, ctypes.c_long(rows)))
        self.check(self.shared.decoder_prepare(self.context))
        Runs.run()
        times = [span(Runs, 20) for _ in range(rounds)]
        torch.cuda.synchronize()
        self.take_prompt()
        return times, logits

    def generate(self):
        """Milliseconds a token, and the tokens."""
        self.check(self.shared.decoder_run_tokens(self.context, ctypes.byref(self.prompt, 4 * (len(self.prompt) - 1)), 1,
                                                  None, None, 0))  # fmt: skip
        how, tokens, made = Sampling(0.0, 0, 1.0, 1, None, 0), (ctypes.c_int * STEPS)(), ctypes.c_int()
        begun = time.perf_counter()
        self.check(self.shared.decoder_run_generate(self.context, ctypes.byref(how), STEPS, None, tokens, ctypes.byref(made)))
        taken = 1e3 * (time.perf_counter() - begun) / STEPS
        self.check(self.shared.decoder_set_length(self.context, ctypes.c_long(len(self.prompt) - 1)))
        self.check(self.shared.decoder_set_dim(self.context, self.count, ctypes.c_long(1)))
        self.check(self.shared.decoder_prepare(self.context))
        return taken, list(tokens)[: made.value]


def read_weights(path):
    """What the file's products, norms, tables and embedding are, dequantised, by name."""
    proto = onnx.load(path, load_external_data=True)
    raw = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    found = {}
    for name, array in raw.items():
        if name.endswith(".qweight"):
            stem = name.removesuffix(".qweight")
            q = torch.from_numpy(np.array(array)).cuda()
            nibbles = torch.stack([q & 15, q >> 4], -1).reshape(*q.shape[:2], -1).half() - 8
            scales = torch.from_numpy(np.array(raw[stem + ".scales"])).cuda()
            found[stem] = (nibbles * scales.reshape(*nibbles.shape[:2], 1)).reshape(q.shape[0], -1)
        elif name.endswith(".scales"):
            continue
        else:
            tensor = torch.from_numpy(np.array(array)).cuda()
            found[name.removesuffix(".weight")] = tensor.T.contiguous() if is_product(name) else tensor
    return found


def is_product(name):
    return any(part in name for part in ("_proj.", "lm_head."))


def norm(x, weight):
    f = x.float()
    return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + EPSILON)).to(x.dtype) * weight


class Layer(torch.nn.Module):
    def __init__(self, weights, prefix, keys, values):
        super().__init__()
        for name in ("input_layernorm", "qkv_proj", "o_proj", "post_attention_layernorm", "gate_proj", "up_proj",
                     "down_proj"):  # fmt: skip
            self.register_buffer(name, weights[prefix + name])
        self.register_buffer("keys", keys)
        self.register_buffer("values", values)

    def forward(self, x, cos, sin, at, mask=None):
        rows = x.shape[1]
        q, k, v = F.linear(norm(x, self.input_layernorm), self.qkv_proj).split(
            [llama.HEADS * llama.HEAD, llama.KEY_HEADS * llama.HEAD, llama.KEY_HEADS * llama.HEAD], -1)  # fmt: skip
        heads = lambda t: t.view(1, rows, -1, llama.HEAD).transpose(1, 2)  # noqa: E731

        def rotated(t):
            a, b = heads(t).chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        self.keys.index_copy_(2, at, rotated(k))
        self.values.index_copy_(2, at, heads(v))
        y = F.scaled_dot_product_attention(rotated(q), self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + F.linear(y.transpose(1, 2).reshape(1, rows, -1), self.o_proj)
        y = norm(x, self.post_attention_layernorm)
        return x + F.linear(F.silu(F.linear(y, self.gate_proj)) * F.linear(y, self.up_proj), self.down_proj)


class Decoder:
    """torch's step, in the type of its weights."""

    def __init__(self, weights, caches, layers, token, dtype, room=1):
        weights = {name: tensor.to(dtype) for name, tensor in weights.items() if tensor.is_floating_point()}
        grown = [F.pad(c.to(dtype), (0, 0, 0, room)) for c in caches]
        self.layers = [Layer(weights, f"layers.{i}.", *grown[2 * i : 2 * i + 2]) for i in range(layers)]
        self.embedding, self.last, self.head = weights["embed_tokens"], weights["norm"], weights["lm_head"]
        self.tables = [weights[t] for t in ("cos_cache", "sin_cache")]
        self.cos, self.sin = (t[llama.PAST][None] for t in self.tables)
        self.token, self.at = token, torch.tensor([llama.PAST], device="cuda")
        self.forwards = self.layers

    def take(self, tokens, at):
        """Logits of the last of some tokens, of which the first stands at `at`, behind what the caches hold."""
        places = torch.arange(at, at + len(tokens), device="cuda")
        x = self.embedding[torch.tensor([tokens], device="cuda")]
        seen = torch.arange(self.layers[0].keys.shape[2], device="cuda")[None] <= places[:, None]
        for layer in self.layers:
            x = layer(x, self.tables[0][places], self.tables[1][places], places, seen)
        return F.linear(norm(x[:, -1:], self.last), self.head)

    def compile(self):
        self.forwards = [torch.compile(layer) for layer in self.layers]

    def step(self):
        x = self.embedding[self.token]
        for layer in self.forwards:
            x = layer(x, self.cos, self.sin, self.at)
        return F.linear(norm(x, self.last), self.head)


class Captured:
    """The step as a CUDA graph."""

    name = "torch compiled, captured"
    kernels = 0

    def __init__(self, decoder):
        self.decoder = decoder  # whose tensors the graph reads
        decoder.compile()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                decoder.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = decoder.step()

    def run(self):
        self.graph.replay()

    def close(self):
        self.graph = self.logits = self.decoder = None


def case(options, precision, model, libraries):
    """The rows of one model."""
    torch.manual_seed(7)
    layers, dtype = options.layers, torch.float16
    token = torch.tensor([[17]], device="cuda")
    caches = [torch.randn(1, llama.KEY_HEADS, llama.PAST, llama.HEAD, device="cuda", dtype=dtype)
              for _ in range(2 * layers)]  # fmt: skip
    weights = read_weights(model)
    with torch.no_grad():
        exact = Decoder(weights, caches, layers, token, torch.float32).step().reshape(-1)
        torch.cuda.empty_cache()
        peers = []
        mask = torch.ones(1, llama.PAST + 1, dtype=torch.int64, device="cuda")
        for name, library in libraries.items():
            outputs = [torch.full((1, 1, options.vocabulary), float("nan"), dtype=dtype, device="cuda")]
            outputs += [torch.empty(1, llama.KEY_HEADS, llama.PAST + 1, llama.HEAD, dtype=dtype, device="cuda")
                        for _ in caches]  # fmt: skip
            peers.append(Program(name, library, [token, mask, *caches], outputs))
        if options.torch and precision == "fp16":
            peers.append(Captured(Decoder(weights, caches, layers, token, dtype)))
        del weights
        for peer in peers:
            peer.run()
        torch.cuda.synchronize()
        errors = [float((p.logits.reshape(-1).float() - exact).abs().max() / exact.abs().max()) for p in peers]
        times = [[] for _ in peers]
        for _ in range(options.rounds):
            for peer, list_ in zip(peers, times):
                list_.append(span(peer, 20))
    rows = [{"model": model.stem, "precision": precision, "peer": peer.name, "ms": statistics.median(list_),
             "limit": limit_of(precision, options), "max_error": error, "kernels": peer.kernels}
            for peer, list_, error in zip(peers, times, errors)]  # fmt: skip
    for peer in peers:
        peer.close()
    torch.cuda.empty_cache()
    return rows


def decoder_case(options, precision, model, libraries):
    """The rows of one model whose caches are states."""
    prompt = [int(t) for t in np.random.default_rng(5).integers(0, options.vocabulary, llama.PAST + 1)]
    layers, dtype = options.layers, torch.float16
    none = [torch.empty(1, llama.KEY_HEADS, 0, llama.HEAD, device="cuda", dtype=dtype) for _ in range(2 * layers)]
    weights, rows = read_weights(model), []
    with torch.no_grad():
        reference = Decoder(weights, none, layers, None, torch.float32, llama.PAST + STEPS + 1)
        reference.take(prompt[:-1], 0)
        exact = reference.take(prompt[-1:], llama.PAST).reshape(-1)
        expected, logits = [], exact
        for i in range(STEPS):
            expected.append(int(logits.argmax()))
            logits = reference.take(expected[-1:], llama.PAST + 1 + i)
        del reference, weights
        torch.cuda.empty_cache()
        for name, library in libraries.items():
            logits = torch.full((1, 1, options.vocabulary), float("nan"), dtype=dtype, device="cuda")
            program = States(name, library, prompt, logits)
            program.run()
            torch.cuda.synchronize()
            error = float((logits.reshape(-1).float() - exact).abs().max() / exact.abs().max())
            same = [a == b for a, b in zip(program.generate()[1], expected)]
            agree = same.index(False) if False in same else len(same)
            figures = {"step": [], "growing step": [], "generated token": [], "prompt": []}
            for _ in range(options.rounds):
                figures["step"].append(span(program, 20))
                figures["growing step"].append(program.grow())
                figures["generated token"].append(program.generate()[0])
                figures["prompt"].append(program.take_prompt())
            for count in (int(r) for r in options.rows.split(",") if r):
                figures[f"{count} rows"], several = program.several(count, options.rounds)
                error = max(error, float((several[0, -1].float() - exact).abs().max() / exact.abs().max()))
            rows += [{"model": model.stem, "precision": precision, "peer": f"{name}: {what}", "ms": statistics.median(list_),
                      "limit": limit_of(precision, options), "max_error": error, "kernels": program.kernels,
                      "agree": agree} for what, list_ in figures.items()]  # fmt: skip
            program.close()
            torch.cuda.empty_cache()
    return rows


def limit_of(precision, options):
    """Milliseconds that reading the weights and caches takes."""
    products = options.layers * (llama.HIDDEN * (llama.HEADS + 2 * llama.KEY_HEADS) * llama.HEAD
                                 + llama.HEADS * llama.HEAD * llama.HIDDEN + 3 * llama.HIDDEN * llama.INNER)  # fmt: skip
    read = (products + options.vocabulary * llama.HIDDEN) * (2 if precision == "fp16" else 0.5 + 2 / llama.BLOCK)
    return (read + 2 * options.layers * llama.KEY_HEADS * llama.PAST * llama.HEAD * 2) / DEVICE_TBS / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", default="fp16,int4")
    parser.add_argument("--files", default="fixed,decoder,prefill")
    parser.add_argument("--rows", default="4,16")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--tenon", type=Path, default=ROOT / "build/tenon")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    compilers = {"tenon": options.tenon} | ({"against": options.against} if options.against else {})
    rows = []
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)

        def library(model, name, words=()):
            return build(compilers[name].resolve(), model, folder / f"{model.stem}-{name}", words)

        def model_of(precision):
            model = folder / f"llama_1b_{precision}_{options.layers}_{options.vocabulary}.onnx"
            if not model.exists():
                llama.Decoder(model, options.layers, precision, options.vocabulary).write()
            libraries = {}
            if "fixed" in options.files:
                libraries["fixed"] = {name: pool.submit(library, model, name) for name in compilers}
            for kind, words in (("decoder", ""), ("prefill", ",prefill=128:1024")):
                if kind in options.files:
                    opened = open_extents(model, model.with_name(f"{model.stem}_{kind}.onnx"))
                    libraries[kind] = {name: pool.submit(library, opened, name, [f"--decoder={CAPACITY}{words}"])
                                       for name in compilers}  # fmt: skip
            return model, libraries

        made = [(precision, pool.submit(model_of, precision)) for precision in options.precisions.split(",")]
        for precision, future in made:
            model, libraries = future.result()
            for kind, measure in (("fixed", case), ("decoder", decoder_case), ("prefill", decoder_case)):
                if kind not in libraries:
                    continue
                peers = {}
                for name, built in libraries[kind].items():
                    try:
                        peers[name] = built.result()
                    except subprocess.CalledProcessError:
                        print(f"{precision:5} {kind:8} {name}: not compiled", flush=True)
                found = measure(options, precision, model, peers)
                rows += found
                for r in found:
                    print(f"{r['precision']:5} {kind:8} {r['peer']:26} {r['ms']:8.3f} ms   limit {r['limit']:.3f}   "
                          f"error {r['max_error']:.1e}   {r['kernels'] or '':>4} "
                          f"{'agree %d' % r['agree'] if 'agree' in r else ''}", flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
