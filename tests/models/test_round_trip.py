#!/usr/bin/env python3
"""The scheduled text of every own model gives what the model gives, byte for byte, and says itself
which target it is for; and compilers say nothing about what is generated.

    test_round_trip.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

from generated import BuildError, build_flags, compile_model
from own import CPU_ONLY, OPERATORS, own_models

TARGETS = ["cpu:native", "cpu:generic", "mcu:generic", "cuda:sm_90a", "cuda:sm_75+sm_87+ptx"]
COMPILERS = {
    "cpu:generic": os.environ.get("CXX", "c++"),
    "cpu:native": os.environ.get("CLANGXX", "/usr/lib/llvm-14/bin/clang++"),
}


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def differences(model, target, scratch):
    """Files that text and model give differently; the text of the model's."""
    suffix = "cu" if target.startswith("cuda") else "cpp"
    folders = [Path(scratch) / kind for kind in ("model", "text")]
    for folder in folders:
        folder.mkdir()
    compile_model(model.file, folders[0] / f"net.{suffix}", f"--target={target}", *model.words)
    text = Path(scratch) / "scheduled.tn"
    compile_model(model.file, text, f"--target={target}", "--emit=tn", *model.words)
    # No options: the text has what they did, and names its target.
    compile_model(text, folders[1] / f"net.{suffix}")
    first, second = map(files, folders)
    return [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]


def warnings(compiler, source):
    """What a compiler has to say about a generated file."""
    command = [compiler, "-std=c++17", "-fsyntax-only", *build_flags(source), "-Wall", "-Wextra",
               f"-I{source.parent}", f"-I{OPERATORS}", source]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "warning:" in line or "error:" in line]
    return said or (["failed"] if done.returncode else [])


def main():
    passed = failed = 0

    def check(what, found):
        nonlocal passed, failed
        passed, failed = passed + (not found), failed + bool(found)
        if found:
            print(f"FAIL {what}: {', '.join(found)[:400]}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tenon-round-trip-") as folder:
        models = own_models(Path(folder) / "models")
        for model in models:
            for target in TARGETS:
                if target.startswith("cuda") and model.name in CPU_ONLY:
                    continue
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    try:
                        different = differences(model, target, scratch)
                    except BuildError as e:
                        different = [str(e)]
                    check(f"{model.name} {target}", different)
                    if target in COMPILERS and not different:
                        source = Path(scratch) / "model/net.cpp"
                        said = warnings(COMPILERS[target], source)
                        check(f"{model.name} {target} {COMPILERS[target]}", said)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
