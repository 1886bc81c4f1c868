#!/usr/bin/env python3
"""Times `tenon compile` on decoders whose weights are large: seconds by stage and resident memory.

    bench/compile_time.py [--layers=2,4] [--precisions=fp16,int4,fp32] [--vocabulary=N] [--target=T]
                          [--against TENON] [--repeat=N] [--models DIR] [--json FILE]

The models are Llama-3.2-1B with so many of its layers, written as onnxruntime-genai's builder does:
weights as external data, [K, N] for MatMul, blocks of 32 for MatMulNBits, packed queries, keys and values,
GroupQueryAttention with the rotary embedding inside, one token behind a past of 1,024. The tied head
stands in the file a second time, transposed, where it is no integers. Weights are seeded random numbers;
sixteen layers in fp16 make a file of 3.0 GB. --models keeps the models for the next time.

Stages are told apart by what the compiler says on a terminal about its progress, so that their times are
those of a user. --against runs another compiler in turns with this one; figures are medians, and the two
must write the same bytes: the status is 1 where they do not.
"""

import argparse
import hashlib
import json
import os
import pty
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

import numpy as np
from onnx import TensorProto, helper

HIDDEN, HEADS, KEY_HEADS, HEAD, INNER, POSITIONS = 2048, 32, 8, 64, 8192, 4096
STAGE = re.compile(rb"\r\x1b\[K(optimising|scheduling|writing code)")
BLOCK, PAST, THETA = 32, 1024, 5e5
ELEMENTS = {"fp16": (TensorProto.FLOAT16, np.float16), "int4": (TensorProto.FLOAT16, np.float16),
            "fp32": (TensorProto.FLOAT, np.float32)}  # fmt: skip


class Decoder:
    """One model file with the file of its weights."""

    def __init__(self, path, layers, precision, vocabulary):
        self.path, self.layers, self.precision, self.vocabulary = path, layers, precision, vocabulary
        self.element, self.type = ELEMENTS[precision]
        self.rng = np.random.default_rng(7)
        self.nodes, self.weights = [], []

    def write(self):
        with open(self.path.with_name(self.path.name + ".data"), "wb") as self.data:
            inputs, outputs = self.build()
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        self.path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())

    def weight(self, name, array):
        """An initialiser in the file of weights, its place a multiple of 4,096 as ONNX wants."""
        self.data.write(bytes(-self.data.tell() % 4096))
        tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape,
                             data_location=TensorProto.EXTERNAL)  # fmt: skip
        place = {"location": self.path.name + ".data", "offset": self.data.tell(), "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        array.tofile(self.data)
        self.weights.append(tensor)
        return name

    def random(self, *shape):
        """Uniform numbers whose standard deviation is 0.02."""
        out = np.empty(shape, self.type)
        flat = out.reshape(-1)
        for start in range(0, flat.size, 1 << 24):
            part = flat[start : start + (1 << 24)]
            part[:] = (self.rng.random(part.size, np.float32) - 0.5) * np.float32(0.0693)
        return out

    def node(self, op, inputs, output, domain="", **attributes):
        outputs = output if isinstance(output, list) else [output]
        self.nodes.append(helper.make_node(op, inputs, outputs, name="/" + outputs[0], domain=domain, **attributes))
        return outputs[0]

    def product(self, x, name, k, n, matrix=None):
        if self.precision != "int4":
            weight = self.weight(name + ".weight", self.random(k, n) if matrix is None else matrix)
            return self.node("MatMul", [x, weight], name)
        q = self.weight(name + ".qweight", self.rng.integers(0, 256, (n, k // BLOCK, BLOCK // 2), np.uint8))
        scales = self.weight(name + ".scales", np.abs(self.random(n, k // BLOCK)) * self.type(0.1))
        return self.node("MatMulNBits", [x, q, scales], name, "com.microsoft", K=k, N=n, bits=4, block_size=BLOCK)

    def norm(self, x, skip, name, wants_sum=True):
        weight = self.weight(name + ".weight", 1 + self.random(HIDDEN))
        if skip is None:
            return self.node("SimplifiedLayerNormalization", [x, weight], name, axis=-1, epsilon=1e-5), x
        outputs = [name, "", "", name + ".sum"] if wants_sum else [name]
        y = self.node("SkipSimplifiedLayerNormalization", [x, skip, weight], outputs, "com.microsoft", epsilon=1e-5)
        return y, name + ".sum"

    def build(self):
        value = helper.make_tensor_value_info
        inputs = [value("input_ids", TensorProto.INT64, [1, 1]),
                  value("attention_mask", TensorProto.INT64, [1, PAST + 1])]  # fmt: skip
        outputs = [value("logits", self.element, [1, 1, self.vocabulary])]
        for name, array in {"one": np.array([1], np.int64), "length": np.array(PAST + 1, np.int32)}.items():
            self.weights.append(helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape,
                                                   array.reshape(-1).tolist()))  # fmt: skip
        total = self.node("ReduceSum", ["attention_mask", "one"], "valid", keepdims=1)
        last = self.node("Cast", [self.node("Sub", [total, "one"], "last")], "seqlens_k", to=TensorProto.INT32)
        angles = np.outer(np.arange(POSITIONS), THETA ** (-np.arange(0, HEAD, 2) / HEAD))
        tables = [self.weight("cos_cache", np.cos(angles).astype(self.type)),
                  self.weight("sin_cache", np.sin(angles).astype(self.type))]  # fmt: skip
        embedding = self.random(self.vocabulary, HIDDEN)
        x = self.node("Gather", [self.weight("embed_tokens.weight", embedding), "input_ids"], "embedded")
        skip = None
        width, caches = (HEADS + 2 * KEY_HEADS) * HEAD, [1, KEY_HEADS, PAST, HEAD]
        for i in range(self.layers):
            prefix = f"layers.{i}."
            past = [f"past_key_values.{i}.{kind}" for kind in ("key", "value")]
            now = [f"present.{i}.{kind}" for kind in ("key", "value")]
            inputs += [value(name, self.element, caches) for name in past]
            outputs += [value(name, self.element, [1, KEY_HEADS, PAST + 1, HEAD]) for name in now]
            y, residual = self.norm(x, skip, prefix + "input_layernorm")
            y = self.product(y, prefix + "qkv_proj", HIDDEN, width)
            y = self.node("GroupQueryAttention", [y, "", "", *past, last, "length", *tables],
                          [prefix + "attention", *now], "com.microsoft", num_heads=HEADS, kv_num_heads=KEY_HEADS,
                          do_rotary=1, scale=HEAD**-0.5)  # fmt: skip
            y = self.product(y, prefix + "o_proj", HEADS * HEAD, HIDDEN)
            y, x = self.norm(residual, y, prefix + "post_attention_layernorm")
            gate = self.product(y, prefix + "gate_proj", HIDDEN, INNER)
            up = self.product(y, prefix + "up_proj", HIDDEN, INNER)
            gate = self.node("Mul", [gate, self.node("Sigmoid", [gate], prefix + "sigmoid")], prefix + "silu")
            skip = self.product(self.node("Mul", [gate, up], prefix + "gated"), prefix + "down_proj", INNER, HIDDEN)
        y, _ = self.norm(x, skip, "norm", wants_sum=False)
        head = None if self.precision == "int4" else np.ascontiguousarray(embedding.T)
        self.product(y, "lm_head", HIDDEN, self.vocabulary, head)
        self.node("Identity", ["lm_head"], "logits")
        return inputs, outputs


def run(tenon, model, target, folder):
    """Seconds by stage, and MiB resident at most, of one compilation."""
    command = [str(tenon), "compile", str(model), f"--target={target}", "-o", str(folder / "decoder.cu")]
    begun = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(command[0], command)
    said, text = [], b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # what Linux says once the other end is closed
            break
        if not part:
            break
        text += part
        for stage in STAGE.findall(text)[len(said) :]:
            said.append((time.monotonic(), stage.decode()))
    os.close(terminal)
    _, status, usage = os.wait4(child, 0)
    ended = time.monotonic()
    if status != 0:
        sys.exit(f"{' '.join(command)} fails:\n{text.decode(errors='replace')}")
    stages, at = {}, begun
    for (when, _), stage in zip(said + [(ended, "")], ["reading"] + [stage for _, stage in said]):
        stages[stage] = stages.get(stage, 0) + when - at
        at = when
    # ru_maxrss counts what this process held when it forked, too: models are made in another one.
    return {"seconds": ended - begun, "processor_seconds": usage.ru_utime + usage.ru_stime,
            "stages": stages, "resident_mib": usage.ru_maxrss / 1024}  # fmt: skip


def digest(folder):
    return {path.name: hashlib.file_digest(path.open("rb"), "sha256").hexdigest() for path in sorted(folder.iterdir())}


def median(runs):
    names = {name: None for r in runs for name in r["stages"]}
    of = lambda key: statistics.median(r[key] for r in runs)  # noqa: E731
    return {"seconds": of("seconds"), "processor_seconds": of("processor_seconds"), "resident_mib": of("resident_mib"),
            "stages": {name: statistics.median(r["stages"].get(name, 0) for r in runs) for name in names}}  # fmt: skip


def make(*arguments):
    """In a process of its own, whose memory goes with it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            Decoder(*arguments).write()
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"{arguments[0]}: cannot be written")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="2,4")
    parser.add_argument("--precisions", default="fp16,int4,fp32")
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--tenon", type=Path, default=ROOT / "build/tenon")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    compilers = [options.tenon] + ([options.against] if options.against else [])
    rows, same = [], True
    with tempfile.TemporaryDirectory() as temporary:
        models = options.models or Path(temporary)
        models.mkdir(parents=True, exist_ok=True)
        for precision in options.precisions.split(","):
            for layers in map(int, options.layers.split(",")):
                model = models / f"llama_1b_{precision}_{layers}_{options.vocabulary}.onnx"
                if not model.exists():
                    make(model, layers, precision, options.vocabulary)
                size = model.with_name(model.name + ".data").stat().st_size
                runs, digests = [[] for _ in compilers], []
                for _ in range(options.repeat):
                    for tenon, list_ in zip(compilers, runs):
                        with tempfile.TemporaryDirectory(dir=temporary) as folder:
                            list_.append(run(tenon.resolve(), model, options.target, Path(folder)))
                            digests.append(digest(Path(folder)))
                for tenon, list_ in zip(compilers, runs):
                    row = {"model": model.stem, "weights_mib": size / 2**20, "tenon": str(tenon), **median(list_)}
                    rows.append(row)
                    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["stages"].items())
                    print(f"{row['model']:26} {size / 2**20:7.0f} MiB {row['seconds']:8.2f} s "
                          f"{row['resident_mib']:7.0f} MiB resident   {stages}   {tenon}", flush=True)  # fmt: skip
                if any(d != digests[0] for d in digests):
                    same = False
                    print(f"{model.stem}: the files differ")
                if not options.models:
                    model.unlink()
                    model.with_name(model.name + ".data").unlink()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
