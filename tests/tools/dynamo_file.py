#!/usr/bin/env python3
"""Writes a decoder with caches as torch's own exporter (torch.onnx.export with dynamo) does.

    dynamo_file.py FOLDER OUT MODULE OPSET ATTENTION

FOLDER is what transformers saved, MODULE the name of a class there; ATTENTION is sdpa, which from opset 23 on is the
operator Attention, or eager, products and a softmax. The exported function takes tokens, a mask of ones and a list of
keys and values, one pair a layer. Runs under a python3 that has what scripts/requirements-llm.txt names.
"""

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers


class Step(torch.nn.Module):
    """Caches as tensors on both sides."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, attention_mask, past):
        cache = transformers.DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        made = self.module(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return made.logits, [(layer.keys, layer.values) for layer in made.past_key_values.layers]


def main():
    folder, out, name, opset, attention = sys.argv[1:]
    module = getattr(transformers, name).from_pretrained(folder, attn_implementation=attention).float().eval()
    with torch.no_grad():
        layers = module(torch.tensor([[1, 2, 3]]), use_cache=True).past_key_values.layers
    count, past = 3, 6

    def cache(like):
        return torch.randn(*like.shape[:2], past, *like.shape[3:])

    example = (torch.ones(1, count, dtype=torch.int64), torch.ones(1, past + count, dtype=torch.int64),
               [(cache(layer.keys), cache(layer.values)) for layer in layers])  # fmt: skip
    length = {2: torch.export.Dim("past_sequence_length")}
    open_dimensions = ({1: torch.export.Dim("sequence_length")}, {1: torch.export.Dim.DYNAMIC}, [(length, length) for _ in layers])
    caches = [f"{layer}.{kind}" for layer in range(len(layers)) for kind in ("key", "value")]
    program = torch.onnx.export(
        Step(module), example, dynamo=True, opset_version=int(opset), dynamic_shapes=open_dimensions, verbose=False,
        input_names=["input_ids", "attention_mask", *(f"past_key_values.{name}" for name in caches)],
        output_names=["logits", *(f"present.{name}" for name in caches)],
    )  # fmt: skip
    Path(out).mkdir(parents=True, exist_ok=True)
    program.save(str(Path(out) / "model.onnx"))


if __name__ == "__main__":
    main()
