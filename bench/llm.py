#!/usr/bin/env python3
"""Times one step of a decoder against torch on this machine's GPU: one process, one table.

    bench/llm.py [--precisions=fp16,int4] [--layers=16] [--against TENON] [--no-torch] [--rounds=N]
                 [--vocabulary=N] [--models DIR] [--json FILE]

The models are those of bench/compile_time.py: Llama-3.2-1B as onnxruntime-genai's builder writes it, random
weights, one token behind a past of 1,024, all extents fixed. torch runs the same weights (int4: dequantised to
fp16, for its results alone) with a static cache, its layers compiled, the step captured into a CUDA graph.
--against adds another compiler's program. All logits are compared with torch's in fp32 over the same numbers
before anything is timed; the error is relative to the largest. Then the peers run in turns, each between two
events; `ms` is the median over the rounds, `limit` what its weights and caches take at 3.35 TB/s.
"""

import argparse
import ctypes
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
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
from onnx import numpy_helper
from turns import span

DEVICE_TBS = 3.35  # of an H100
EPSILON = 1e-5


def build(tenon, model, folder):
    """The program of one compiler, as a shared library."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "decoder.cu"
    subprocess.run([str(tenon), "compile", str(model), "--target=cuda:sm_90a", "-o", str(source), "-q"], check=True)
    with open(source) as text:
        command = shlex.split(text.readline().lstrip("/ "))
    command[command.index("-c") :] = ["-shared", "-Xcompiler=-fPIC", source.name, "-o", "decoder.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "decoder.so"


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
        self.kernels = library.with_name("decoder.cu").read_text().count("to.launch<")

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

    def forward(self, x, cos, sin, at):
        q, k, v = F.linear(norm(x, self.input_layernorm), self.qkv_proj).split(
            [llama.HEADS * llama.HEAD, llama.KEY_HEADS * llama.HEAD, llama.KEY_HEADS * llama.HEAD], -1)  # fmt: skip
        heads = lambda t: t.view(1, 1, -1, llama.HEAD).transpose(1, 2)  # noqa: E731

        def rotated(t):
            a, b = heads(t).chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        self.keys.index_copy_(2, at, rotated(k))
        self.values.index_copy_(2, at, heads(v))
        y = F.scaled_dot_product_attention(rotated(q), self.keys, self.values, enable_gqa=True)
        x = x + F.linear(y.transpose(1, 2).reshape(1, 1, -1), self.o_proj)
        y = norm(x, self.post_attention_layernorm)
        return x + F.linear(F.silu(F.linear(y, self.gate_proj)) * F.linear(y, self.up_proj), self.down_proj)


class Decoder:
    """torch's step, in the type of its weights."""

    def __init__(self, weights, caches, layers, token, dtype):
        weights = {name: tensor.to(dtype) for name, tensor in weights.items() if tensor.is_floating_point()}
        grown = [F.pad(c.to(dtype), (0, 0, 0, 1)) for c in caches]
        self.layers = [Layer(weights, f"layers.{i}.", *grown[2 * i : 2 * i + 2]) for i in range(layers)]
        self.embedding, self.last, self.head = weights["embed_tokens"], weights["norm"], weights["lm_head"]
        self.cos, self.sin = (weights[t][llama.PAST][None] for t in ("cos_cache", "sin_cache"))
        self.token, self.at = token, torch.tensor([llama.PAST], device="cuda")
        self.forwards = self.layers

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
    products = layers * (llama.HIDDEN * (llama.HEADS + 2 * llama.KEY_HEADS) * llama.HEAD
                         + llama.HEADS * llama.HEAD * llama.HIDDEN + 3 * llama.HIDDEN * llama.INNER)  # fmt: skip
    read = (products + options.vocabulary * llama.HIDDEN) * (2 if precision == "fp16" else 0.5 + 2 / llama.BLOCK)
    read += sum(c.nbytes for c in caches)
    rows = [{"model": model.stem, "precision": precision, "peer": peer.name, "ms": statistics.median(list_),
             "limit": read / DEVICE_TBS / 1e9, "max_error": error, "kernels": peer.kernels}
            for peer, list_, error in zip(peers, times, errors)]  # fmt: skip
    for peer in peers:
        peer.close()
    torch.cuda.empty_cache()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", default="fp16,int4")
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

        def library(model, name):
            return build(compilers[name].resolve(), model, folder / f"{model.stem}-{name}")

        def model_of(precision):
            model = folder / f"llama_1b_{precision}_{options.layers}_{options.vocabulary}.onnx"
            if not model.exists():
                llama.Decoder(model, options.layers, precision, options.vocabulary).write()
            return model, {name: pool.submit(library, model, name) for name in compilers}

        made = [(precision, pool.submit(model_of, precision)) for precision in options.precisions.split(",")]
        for precision, future in made:
            model, libraries = future.result()
            rows += case(options, precision, model, {name: built.result() for name, built in libraries.items()})
            for r in rows[-len(compilers) - 1 :]:
                if r["precision"] == precision:
                    print(f"{r['precision']:5} {r['peer']:26} {r['ms']:8.3f} ms   limit {r['limit']:.3f}   "
                          f"error {r['max_error']:.1e}   {r['kernels'] or ''}", flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
