#!/usr/bin/env python3
"""Writes a decoder with caches (and its encoder) as optimum exports it, or in one of the forms in which transformers.js takes it.

    optimum_file.py FOLDER OUT FORM CONFIGURATION MODULE VALUES

FOLDER has the weights (model.safetensors), CONFIGURATION and MODULE are names of transformers, VALUES is what the
configuration has, as JSON: configurations that another version of transformers saved may be read as something else.
FORM: fp32 is optimum's file; fp16 its conversion with inputs and outputs in fp32; q4 weights of products in 4 bits
and blocks of 32, q4f16 both; int8 and uint8 dynamic quantisation with weights of that type. Runs under a python3
that has what scripts/requirements-optimum.txt names.
"""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import onnx
import transformers
from onnxruntime.quantization import QuantizationMode, QuantType
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer
from onnxruntime.quantization.registry import IntegerOpsRegistry
from onnxruntime.transformers import float16
from optimum.exporters.onnx import onnx_export_from_model
from safetensors.torch import load_file


def module_of(folder, configuration, module, values):
    config = getattr(transformers, configuration)(**values)
    config.architectures = [module]
    made = getattr(transformers, module)._from_config(config, attn_implementation="eager").float().eval()
    lacking, unknown = made.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    tied = {name for name in lacking if name in ("lm_head.weight", "proj_out.weight") or
            name.endswith((".bias", ".masked_bias", "embed_tokens.weight", "_logits_bias"))}
    computed = {name for name, parameter in made.named_parameters() if not parameter.requires_grad}
    unknown = sorted(unknown) + sorted(set(lacking) - tied - computed)
    if unknown:
        raise RuntimeError(f"weights have other names in transformers {transformers.__version__}: {unknown[0]}")
    made.tie_weights()
    return made


def in_four_bits(model):
    quantizer = MatMulNBitsQuantizer(model, bits=4, block_size=32, is_symmetric=True)
    quantizer.process()
    return quantizer.model.model


def in_halves(model):
    # Cast is left in fp32, as transformers.js has it: its operand and its result are converted.
    return float16.convert_float_to_float16(model, keep_io_types=True,
                                            op_block_list={*float16.DEFAULT_OP_BLOCK_LIST, "Cast"})  # fmt: skip


def in_bytes(model, weights):
    quantizer = ONNXQuantizer(
        model, per_channel=None, reduce_range=None, mode=QuantizationMode.IntegerOps, static=False, weight_qType=weights,
        activation_qType=QuantType.QUInt8, tensors_range=None, nodes_to_quantize=[], nodes_to_exclude=[],
        op_types_to_quantize=list(IntegerOpsRegistry), extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
    )  # fmt: skip
    quantizer.quantize_model()
    return quantizer.model.model


FORMS = {
    "fp16": in_halves,
    "q4": in_four_bits,
    "q4f16": lambda model: in_halves(in_four_bits(model)),
    "int8": lambda model: in_bytes(model, QuantType.QInt8),
    "uint8": lambda model: in_bytes(model, QuantType.QUInt8),
}


def main():
    folder, out, form, configuration, module, values = sys.argv[1:]
    made = module_of(Path(folder), configuration, module, json.loads(values))
    if made.config.is_encoder_decoder:
        # The merged decoder; encoder_model.onnx and decoder_model.onnx beside it give what it is given.
        speech = {"nb_max_frames": 2 * made.config.max_source_positions} if hasattr(made.config, "num_mel_bins") else {}
        task = ("automatic-speech-recognition" if speech else "text2text-generation") + "-with-past"
        onnx_export_from_model(made, out, task=task, do_validation=False, **speech)
        (Path(out) / "decoder_model_merged.onnx").rename(Path(out) / "model.onnx")
    else:
        onnx_export_from_model(made, out, task="text-generation-with-past", do_validation=False)
    if form != "fp32":
        model = Path(out) / "model.onnx"
        onnx.save(FORMS[form](onnx.load(model)), model)


if __name__ == "__main__":
    main()
