#!/usr/bin/env python3
"""The arena of every model against its lower bound, which tools/arena_bound.py computes from the
scheduled text alone: at most 1 % above it; and against limits in bytes.

    test_arena.py own|real [TARGET]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/tools")]
from project_venv import require

require("numpy", "onnx", "onnxruntime")

from arena_bound import bound, read
from own import CPU_ONLY, Model, own_models, words_for
from tenon import model_file, tenon

BESIDE = ROOT.parent / "shared/models"
# Bytes on cpu:generic without scratch, for the shapes of the data sets.
LIMITS = {
    "nanodet_m_320": 3686400,
    "ultraface_rfb_320": 3686400,
    "super_resolution": 25690112,
    "basic_pitch": 4843520,
    "vww_mobilenet_fp32": 221184,
    "resnet8_fp32": 196608,
    "micro_kws_fp32": 156160,
}


def measure(model, target, scratch, *words):
    """(arena, bound from the text, what of it is scratch) in bytes; the arena holds the scratch."""
    text = Path(scratch) / f"{model.name}.tn"
    answer = tenon("compile", model.file, f"--target={target}", "--emit=tn", "-o", text,
                   "--report=memory", "--json", *model.words, *words)  # fmt: skip
    if answer.status != 0:
        raise SystemExit(f"{model.name}: {answer.reason}")
    symbols, (graph,) = read(text)
    (memory,) = answer.document["memory"]
    values, lowest = bound(graph, symbols)
    return memory["arena_bytes"], lowest, lowest - values


def real_models(folder):
    listed = subprocess.run([sys.executable, ROOT / "scripts/models", folder, "--list"],
                            check=True, capture_output=True, text=True).stdout.split()  # fmt: skip
    files = [(name, model_file(folder / name)) for name in listed if (folder / name).is_dir()]
    return [Model(name, file, words_for(name, file)) for name, file in files]


def main():
    kind, target = (*sys.argv[1:], "cpu:generic")[:2]
    passed = failed = 0

    def check(what, good):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAIL {what}")

    with tempfile.TemporaryDirectory(prefix="tenon-arena-") as scratch:
        if kind == "own":
            models = own_models(scratch)
            if target.startswith("cuda"):
                models = [model for model in models if model.name not in CPU_ONLY]
        else:
            folder = Path(os.environ.get("TENON_MODELS") or BESIDE)
            if not folder.is_dir():
                print("TENON_MODELS names no folder: the real models are not tested")
                sys.exit(77)
            models = real_models(folder)
        print(f"{'model':28} {'arena':>10} {'bound':>10} {'scratch':>10} {'limit':>10}")
        for model in models:
            name = model.name
            arena, lowest, kernels = measure(model, target, scratch)
            limit = LIMITS.get(name) if target == "cpu:generic" else None
            print(f"{name:28} {arena:10} {lowest:10} {kernels:10} {limit or '-':>10}", flush=True)
            check(f"{name}: within 1 % of the bound", arena <= 1.01 * lowest)
            check(f"{name}: no plan is below the bound", arena >= lowest)
            if limit:
                check(f"{name}: within {limit} bytes", arena - kernels <= limit)
        for model in models:
            if model.name != "mobilenet_fp32":
                continue
            # At -O0 no result takes over another's memory.
            arena, lowest, _ = measure(model, target, scratch, "-O0")
            apart = (Path(scratch) / f"{model.name}.tn").read_text()
            merged = Path(scratch) / f"{model.name}-merged.tn"
            merged.write_text(apart.replace("apart = true, ", ""))
            symbols, (graph,) = read(merged)
            check(f"{model.name} -O0: within 1 % of the bound", arena <= 1.01 * lowest)
            check(f"{model.name} -O0: nothing is merged in place", lowest > bound(graph, symbols)[1])
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
