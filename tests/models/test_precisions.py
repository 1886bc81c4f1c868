"""Every network of the suites is compiled for CUDA in every precision and for every level, and what is
written is C++ (tests/tools/cuda_syntax.py). Quantised networks keep their integers: the same kernels of
bytes with every --precision as without. Small ones run in the emulator against the interpreter.

usage: test_precisions.py [--all] [--models=GLOB,...] [--more=DIR]

--all: every network by every precision and level (minutes). Without it each network has one of them,
its neighbours others, and quantised networks have several, at levels that differ. --more: networks in
folders of DIR (model.onnx, test_data_set_0), too.
"""

import argparse
import fnmatch
import logging
import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import onnx
import own
from cuda_syntax import cuda_fault
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from tenon import tenon
from tensors import read_data_set

logging.getLogger().setLevel(logging.ERROR)  # the quantiser recommends a preparation

PRECISIONS = ["fp32", "tf32", "tf32x3", "fp16", "bf16"]
LEVELS = ["sm_75", "sm_80", "sm_87", "sm_89", "sm_90a", "sm_100", "sm_120"]
PAIRS = [(p, lv) for lv in LEVELS for p in PRECISIONS if lv != "sm_75" or p in ("fp32", "fp16")]
# What CUDA does not run, with what it says (docs/onnx.md).
REFUSED = {"probe_user_operator": "functions of users are not supported on cuda targets"}
# Run in the emulator, too: precision and level.
RUN = {
    "autoencoder_qdq": ("fp16", "sm_80"), "attention_qdq": ("fp16", "sm_90a"), "gated_qdq": ("bf16", "sm_80"),
    "keyword_dscnn_qdq": ("fp16", "sm_75"), "probe_qdq_conv": ("tf32", "sm_80"),
}  # fmt: skip
# Relative to the largest number: a step of the last tensor, behind products of two tensors, which are
# floats; a rounding to fp16, of a softmax.
TOLERANCE = {"attention_qdq": 0.06, "keyword_dscnn_qdq": 0.001}
OF_BYTES = re.compile(r"schedule = (\w+)<[^\n]*\n(?:(?!schedule)[^\n]*\n)*?[^\n]*= (?:conv|matmul) [^\n]*i32")


# Own networks that ONNX Runtime's tool quantises here: all that it can, in u8; or convolutions alone, in i8,
# between floats.
TWINS = ["detector", "ssd", "audio", "upscaler", "mobilenet_fp32", "resnet_fp32"]


class Given(CalibrationDataReader):
    """The first data set of a network, once."""

    def __init__(self, file):
        self.left = [read_data_set(file.parent / "test_data_set_0", onnx.load(file))[0]]

    def get_next(self):
        return self.left.pop() if self.left else None


def twins(model):
    """A network quantised in two ways, written beside it; before opset 13 with one scale for all channels."""
    opset = next(o.version for o in onnx.load(model.file).opset_import if not o.domain)
    for name, kinds, activations in (("all_qdq", None, QuantType.QUInt8), ("conv_qdq", ["Conv"], QuantType.QInt8)):
        file = model.file.parent / f"{name}.onnx"
        quantize_static(model.file, file, Given(model.file), quant_format=QuantFormat.QDQ, per_channel=opset >= 13,
                        op_types_to_quantize=kinds, activation_type=activations, weight_type=QuantType.QInt8)  # fmt: skip
        yield own.Model(f"{model.name}_{name}", file, model.words)


def of_bytes(text):
    """How many groups of a scheduled module multiply integers, by kernel."""
    return Counter(OF_BYTES.findall(text))


def chosen(number, name, everything):
    """The precisions and levels of a network."""
    if everything:
        return PAIRS
    if name.endswith(("all_qdq", "conv_qdq")):
        return [PAIRS[(number + 11 * k) % len(PAIRS)] for k in range(2)]
    if "qdq" in name or "int4" in name:
        return [PAIRS[(number + 7 * k) % len(PAIRS)] for k in range(len(PRECISIONS))]
    return [PAIRS[7 * number % len(PAIRS)]]


def check(model, precision, level, folder):
    """None, or what is wrong with a network in one precision on one level."""
    file = Path(folder) / f"{model.name}-{precision}-{level}.cu"
    words = [model.file, f"--target=cuda:{level}", *model.words]
    asked = f"--precision={precision}"
    answer = tenon("compile", *words, asked, "--runtime=include", "--weights=file", "-q", "-o", file)
    if model.name in REFUSED:
        return None if answer.status == 1 and REFUSED[model.name] in answer.errors else "not refused: " + answer.reason
    if answer.status:
        return answer.reason
    if "qdq" in model.name:
        texts = [tenon("compile", *words, word, "--emit=tn", "-o", "-").output for word in (asked, "--precision=fp32")]
        mine, plain = map(of_bytes, texts)
        if not mine or mine != plain:
            return f"kernels of bytes: {dict(mine)}, in fp32 {dict(plain)}"
    return cuda_fault(file, level)


def run(model, precision, level):
    """None, or how a network in the emulator differs from the interpreter."""
    tolerance = [f"--tolerance={TOLERANCE[model.name]}"] if model.name in TOLERANCE else []
    answer = tenon("run", model.file, f"--target=cuda:{level}", f"--precision={precision}", "--runtime=include",
                   "--against=interpreter", *tolerance, *model.words,
                   environment={"NVCC": str(ROOT / "tests/tools/emulated-nvcc"), "CXX": str(ROOT / "tests/tools/cached-c++")})  # fmt: skip
    return answer.reason + answer.output[-300:] if answer.status else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--models", default="*")
    parser.add_argument("--more", type=Path)
    arguments = parser.parse_args()
    globs = arguments.models.split(",")
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="tenon-precisions-") as folder, ThreadPoolExecutor(2) as pool:
        models = own.own_models(folder)
        for file in sorted(arguments.more.glob("*/model.onnx")) if arguments.more else []:
            models.append(own.Model(file.parent.name, file, own.words_for(file.parent.name, file)))
        models += [twin for model in models if model.name in TWINS for twin in twins(model)]
        jobs = []
        for number, model in enumerate(models):
            if not any(fnmatch.fnmatchcase(model.name, glob) for glob in globs):
                continue
            for precision, level in chosen(number, model.name, arguments.all):
                jobs.append((model.name, precision, level, pool.submit(check, model, precision, level, folder)))
            if model.name in RUN:
                jobs.append((model.name, *RUN[model.name], pool.submit(run, model, *RUN[model.name])))
        for name, precision, level, job in jobs:
            reason = job.result()
            failed += reason is not None
            passed += reason is None
            if reason is not None:
                print(f"FAIL {name} {precision} {level}: {reason}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
