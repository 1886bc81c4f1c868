#!/usr/bin/env python3
"""Writes a decoder with random weights as ONNX, in the form of onnxruntime-genai's model builder: to try
everything that a language model goes through without one. It knows no language: tokens go in, tokens come out.

    random_decoder.py FILE.onnx [CONFIG.json]

CONFIG.json is a Hugging Face configuration of the Llama family (num_hidden_layers, num_attention_heads,
num_key_value_heads, hidden_size, intermediate_size, vocab_size, max_position_embeddings, rope_theta,
rms_norm_eps); what it does not say is that of `Config`. Needs numpy and onnx.
"""

import dataclasses
import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass
class Config:
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    hidden_size: int = 64
    intermediate_size: int = 128
    vocab_size: int = 256
    max_position_embeddings: int = 128
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    seed: int = 11

    @property
    def head_size(self):
        return self.hidden_size // self.num_attention_heads

    @staticmethod
    def read(path):
        known = {field.name for field in dataclasses.fields(Config)}
        with open(path, encoding="utf-8") as file:
            return Config(**{name: value for name, value in json.load(file).items() if name in known})


def build(path, config, element=TensorProto.FLOAT):
    """Writes the file: the mask's sum says where the last key is, queries, keys and values come side by side, the
    head is the embedding turned around. The weights are numbers of fp16, whatever the elements."""
    kind = helper.tensor_dtype_to_np_dtype(element)
    random = np.random.default_rng(config.seed)
    heads, key_heads, hidden = config.num_attention_heads, config.num_key_value_heads, config.hidden_size
    width = config.head_size
    nodes, weights, values = [], {}, []

    def weight(name, *shape):
        weights[name] = (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float16).astype(kind)
        return name

    def node(op, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, domain=domain, name=outputs[0], **attributes))
        return outputs[0]

    def norm(x, name):
        weights[name] = random.uniform(0.5, 1.5, hidden).astype(np.float16).astype(kind)
        return node("SimplifiedLayerNormalization", [x, name], [f"{name}.y"], axis=-1, epsilon=config.rms_norm_eps)

    angles = np.arange(config.max_position_embeddings)[:, None] / config.rope_theta ** (np.arange(width // 2) / (width // 2))
    weights |= {"cos": np.cos(angles).astype(np.float16).astype(kind), "one": np.array([1]), "axis": np.array(1),
                "sin": np.sin(angles).astype(np.float16).astype(kind)}  # fmt: skip
    node("ReduceSum", ["attention_mask", "one"], ["mask.sum"])
    node("Cast", [node("Sub", ["mask.sum", "one"], ["mask.last"])], ["seqlens_k"], to=TensorProto.INT32)
    node("Gather", [node("Shape", ["attention_mask"], ["mask.shape"]), "axis"], ["mask.total"], axis=0)
    node("Cast", ["mask.total"], ["total_length"], to=TensorProto.INT32)
    x = node("Gather", [weight("embedding", config.vocab_size, hidden), "input_ids"], ["x"], axis=0)
    for i in range(config.num_hidden_layers):
        packed = (heads + 2 * key_heads) * width
        qkv = node("MatMul", [norm(x, f"norm{i}"), weight(f"qkv{i}.w", hidden, packed)], [f"qkv{i}"])
        values.append(helper.make_tensor_value_info(qkv, element, ["batch_size", "sequence_length", packed]))
        caches = [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
        node("GroupQueryAttention", [qkv, "", "", *caches, "seqlens_k", "total_length", "cos", "sin"],
             [f"attention{i}", f"present.{i}.key", f"present.{i}.value"], "com.microsoft",
             num_heads=heads, kv_num_heads=key_heads, do_rotary=1)  # fmt: skip
        out = node("MatMul", [f"attention{i}", weight(f"out{i}.w", hidden, hidden)], [f"out{i}"])
        x = node("Add", [x, out], [f"mid{i}"])
        y = norm(x, f"post{i}")
        gate = node("MatMul", [y, weight(f"gate{i}.w", hidden, config.intermediate_size)], [f"gate{i}"])
        gate = node("Mul", [gate, node("Sigmoid", [gate], [f"sigmoid{i}"])], [f"silu{i}"])
        up = node("MatMul", [y, weight(f"up{i}.w", hidden, config.intermediate_size)], [f"up{i}"])
        down = weight(f"down{i}.w", config.intermediate_size, hidden)
        x = node("Add", [x, node("MatMul", [node("Mul", [gate, up], [f"mlp{i}"]), down], [f"down{i}"])], [f"x{i}"])
    head = node("Transpose", ["embedding"], ["head"], perm=[1, 0])
    node("MatMul", [norm(x, "norm"), head], ["logits"])

    def info(name, *shape, kind=element):
        return helper.make_tensor_value_info(name, kind, list(shape))

    def caches(stem, length):
        return [info(f"{stem}.{i}.{k}", "batch_size", key_heads, length, "kv_cache_dim")
                for i in range(config.num_hidden_layers) for k in ("key", "value")]  # fmt: skip

    graph = helper.make_graph(
        nodes, "decoder",
        [info("input_ids", "batch_size", "sequence_length", kind=TensorProto.INT64),
         info("attention_mask", "batch_size", "total_sequence_length", kind=TensorProto.INT64),
         *caches("past_key_values", "past_sequence_length")],
        [info("logits", "batch_size", "sequence_length", config.vocab_size), *caches("present", "total_sequence_length")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()], value_info=values)  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), path)
    return path


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build(sys.argv[1], Config.read(sys.argv[2]) if len(sys.argv) == 3 else Config())
