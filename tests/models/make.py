#!/usr/bin/env python3
"""Writes the project's own test models: small networks of the kinds that real models are of, design
probes and importer corner cases, all seeded. The same library versions give the same bytes.

    tests/models/make.py OUT [--models=GLOB,...] [--list]

Every model gets a folder OUT/<name> with model.onnx and test_data_set_k (input_i.pb, output_i.pb as
the ONNX backend tests lay them out). Expected outputs come from ONNX Runtime with its optimisations
off. A model whose outputs would hide errors (zero, constant, saturated) is refused.
"""

import argparse
import fnmatch
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import corners
import ml_dtypes
import networks
import numpy as np
import onnx
import probes
from onnx import numpy_helper
from quantize import quantize
from tensors import plain_session

RANGE_INPUTS = 8


def evaluate(model, inputs):
    """All graph outputs by name."""
    runner = plain_session(model)
    names = [output.name for output in runner.get_outputs()]
    return dict(zip(names, runner.run(names, inputs)))


def value_ranges(model, inputs):
    """(minimum, maximum) of every float value over seeded variations of the inputs."""
    probed = onnx.shape_inference.infer_shapes(model)
    present = {output.name for output in probed.graph.output}
    probed.graph.output.extend(v for v in probed.graph.value_info if v.name not in present)
    rng = np.random.default_rng(7)
    runner = plain_session(probed)
    names = [output.name for output in runner.get_outputs()]
    ranges = {}
    for index in range(RANGE_INPUTS):
        noise = {k: v + 0.3 * index * rng.standard_normal(v.shape) for k, v in inputs.items()}
        feeds = {k: v.astype(np.float32) for k, v in noise.items()}
        for name, value in [*feeds.items(), *zip(names, runner.run(names, feeds))]:
            low, high = ranges.get(name, (np.inf, -np.inf))
            ranges[name] = min(low, float(value.min())), max(high, float(value.max()))
    return ranges


def fp32(function):
    def make():
        model, inputs = function()
        return model, [inputs], None

    return make


def upscaler():
    """Batch 1 and 3: one file with --range batch_size=1..4 serves both."""
    model, inputs = networks.upscaler()
    image = inputs["input"]
    return model, [inputs, {"input": np.concatenate([image, -image, 0.5 * image])}], None


def qdq(function, opset, functions=False, weight_type=np.int8):
    def make():
        model, inputs = function()
        ranges = value_ranges(model, inputs)
        return quantize(model, ranges, opset, functions, weight_type), [inputs], None

    return make


def probe(function):
    def make():
        return *function(), None

    return make


def probe_with_reference(function):
    """A probe that ONNX Runtime refuses, beside the equivalent that it runs."""

    def make():
        model, data = function()
        return model, data, function(reference=True)[0]

    return make


# Name -> function returning (model, data sets, model that gives the expected outputs or None).
MODELS = {
    "detector": fp32(networks.detector),
    "ssd": fp32(networks.ssd),
    "upscaler": upscaler,
    "audio": fp32(networks.audio),
    "mobilenet_fp32": fp32(networks.mobilenet),
    "mobilenet_qdq": qdq(networks.mobilenet, 13),
    "resnet_fp32": fp32(networks.resnet),
    "resnet_qdq": qdq(networks.resnet_nhwc, 15),
    "keyword_dscnn_qdq": qdq(networks.keyword_dscnn, 15),
    "keyword_dscnn_int4": qdq(networks.keyword_dscnn, 21, weight_type=ml_dtypes.int4),
    "autoencoder_qdq": qdq(networks.autoencoder, 13),
    "gated_qdq": qdq(networks.gated, 15, functions=True),
    "attention_qdq": qdq(networks.attention, 15, functions=True),
    "keyword_micro_fp32": fp32(networks.keyword_micro),
    "probe_control_flow": probe_with_reference(probes.control_flow),
    "probe_nonzero": probe(probes.nonzero),
    "probe_detections": probe(probes.detections),
    "probe_data_extents": probe(probes.data_extents),
    "probe_streaming": probe(probes.streaming),
    "probe_growing_cache": probe(probes.growing_cache),
    "probe_heads_cache": probe(probes.heads_cache),
    "probe_shared_heads_cache": probe(probes.shared_heads_cache),
    "probe_qdq_conv": probe(probes.qdq_conv),
    "probe_prologue_two_results": probe(probes.prologue_two_results),
    "probe_user_operator": probe_with_reference(probes.user_operator),
    "corner_structure": corners.structure,
    "corner_names": corners.names,
    "corner_storage": corners.storage,
    "corner_functions": corners.functions,
    "corner_windows": corners.windows,
    "corner_resizes": corners.resizes,
    "corner_concats": corners.concats,
    "corner_upsamples": corners.upsamples,
}


def check_outputs(name, outputs):
    """Refuses outputs that a wrong kernel could give by accident."""
    for key, value in outputs.items():
        if value.size == 0 or value.size == 1 and value.ndim == 0:
            continue
        numbers = value.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise SystemExit(f"make.py: {name}: output {key!r} is not finite")
        if numbers.std() < 1e-3 * max(1e-3, np.abs(numbers).max()):
            raise SystemExit(f"make.py: {name}: output {key!r} is all but constant")
        in_unit = numbers.min() >= 0 and numbers.max() <= 1
        if in_unit and ((numbers < 1e-3) | (numbers > 1 - 1e-3)).mean() > 0.5:
            raise SystemExit(f"make.py: {name}: output {key!r} is saturated")


def write_tensors(folder, kind, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    for index, (name, value) in enumerate(tensors):
        data = numpy_helper.from_array(np.asarray(value), name).SerializeToString(deterministic=True)
        (folder / f"{kind}_{index}.pb").write_bytes(data)


def write_model(name, make, out):
    model, data_sets, oracle = make()
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    initialised = {tensor.name for tensor in model.graph.initializer}
    input_names = [i.name for i in model.graph.input if i.name not in initialised]
    outputs = {}
    for index, inputs in enumerate(data_sets):
        inputs = inputs(outputs) if callable(inputs) else inputs
        outputs = evaluate(oracle or model, inputs)
        if index == 0:
            check_outputs(name, outputs)
        target = folder / f"test_data_set_{index}"
        write_tensors(target, "input", [(key, inputs[key]) for key in input_names])
        write_tensors(target, "output", [(o.name, outputs[o.name]) for o in model.graph.output])
    size = (folder / "model.onnx").stat().st_size
    print(f"{name:28} {len(model.graph.node):4} nodes {size:8} bytes, {len(data_sets)} data sets")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT")
    parser.add_argument("--models", default="*", help="names or globs, comma-separated")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    globs = arguments.models.split(",")
    chosen = [n for n in MODELS if any(fnmatch.fnmatchcase(n, glob) for glob in globs)]
    if not chosen:
        parser.error(f"no model matches {arguments.models}")
    if arguments.list:
        print("\n".join(chosen))
        return
    if not arguments.out:
        parser.error("OUT is missing")
    for name in chosen:
        write_model(name, MODELS[name], arguments.out)


if __name__ == "__main__":
    main()
