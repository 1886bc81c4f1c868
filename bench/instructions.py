#!/usr/bin/env python3
"""Counts the instructions of generated C++ and of ONNX Runtime on aarch64, in one emulator.

    bench/instructions.py --library FILE [DIR] [--models=GLOB,...] [--target=cpu:armv8] [--json FILE]

FILE is libonnxruntime.so of ONNX Runtime's wheel for aarch64 (`pip download onnxruntime --no-deps
--platform manylinux_2_28_aarch64 --only-binary=:all:`, onnxruntime/capi in it); it is called through its C
interface. DIR holds models as for bench/cpu.py. The emulated processor is what the target is for:
a Cortex-A72, a Neoverse N1 with +dotprod, all that the emulator has but SVE with more. Both run the first data set twice on one thread under
QEMU's user mode, and a plugin counts what the second run executes, in whatever library. Counts say
nothing of memory or of how many instructions a cycle has, but neither depends on this machine. Outputs
are compared, and the exit status is 1 where they differ. The ratio is Tenon's count over ONNX
Runtime's: below 1, Tenon needs fewer.

Needs Debian's `g++-aarch64-linux-gnu` and `qemu-user`.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
from cpu import OnnxRuntime, bound_of, geometric_mean, with_constant_initializers, worst_error
from firmware import counter
from generated import BuildError, compile_model, symbol_bindings
from tenon import build_flags, model_file, table
from tensors import read_data_set

PREFIX, SYSTEM = "aarch64-linux-gnu-", Path("/usr/aarch64-linux-gnu")
# What each level is compiled for, with what Linux says that it has: NEON without dot products, with them, and
# everything that the emulator knows but vectors longer than those of NEON, of which it would make several.
PROCESSORS = {
    "cpu:armv8": ("cortex-a72", "0xd08", ""),
    "cpu:armv8+dotprod": ("neoverse-n1", "0xd0c", " asimdhp asimddp"),
}
NEWEST = ("max,sve=off,sme=off", "0xd0c", " asimdhp asimddp i8mm bf16")
# ONNX Runtime asks Linux which processor that is, and would be told this machine's.
CPUINFO = """processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm crc32 cpuid{features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: {part}
CPU revision\t: 3
"""


def system(folder, part, features):
    """The emulated machine's root: one processor, and the cross compiler's libraries."""
    root = folder / "system"
    processor = CPUINFO.format(part=part, features=features)
    for name, text in (("proc/cpuinfo", processor), ("sys/devices/system/cpu/possible", "0\n"),
                       ("sys/devices/system/cpu/present", "0\n")):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "lib").symlink_to(SYSTEM / "lib")
    return root


def call(*words, cwd):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout


def ports(values):
    """The rows of instructions.c for arrays by name."""
    return ", ".join(
        f'{{"{name}", {onnx.helper.np_dtype_to_tensor_dtype(a.dtype)}, {a.nbytes}, {a.ndim}, '
        f"{{{', '.join(map(str, a.shape)) or 0}}}}}"
        for name, a in values.items()
    )


def instructions(folder, inputs, outputs, plugin, peer, library, target):
    """Those of the second run of a program in `folder`, with its outputs."""
    head = ["" if peer else '#include "network.h"', f"#define INPUTS {ports(inputs)}",
            f"#define OUTPUTS {ports(outputs)}"]  # fmt: skip
    (folder / "case.h").write_text("\n".join(head) + "\n")
    (folder / "inputs.bin").write_bytes(b"".join(a.tobytes() for a in inputs.values()))
    words = [PREFIX + "gcc", "-O2", "-no-pie", "-I.", ROOT / "bench/instructions.c", "-o", "program"]
    if peer:
        shutil.copy(library, folder / "libonnxruntime.so.1")
        words += ["-DPEER", "-x", "none", "libonnxruntime.so.1", "-Wl,-rpath,.",
                  "-Wl,--allow-shlib-undefined"]  # fmt: skip
    else:
        call(PREFIX + "g++", "-std=c++17", "-O2", *build_flags(folder / "network.cpp"), "-c", "network.cpp",
             cwd=folder)  # fmt: skip
        words += ["network.o", "-static", "-lm"]
    call(*words, cwd=folder)
    at = {name: int(where, 16) for where, name in
          re.findall(r"^([0-9a-f]+) T (run_once|run_done)$", call(PREFIX + "nm", "program", cwd=folder), re.M)}  # fmt: skip
    processor, part, features = PROCESSORS.get(target, NEWEST)
    call("qemu-aarch64", "-cpu", processor, "-L", system(folder, part, features), "-plugin",
         f"{plugin},begin={at['run_once']:#x},end={at['run_done']:#x},out=counts.txt", "./program", cwd=folder)  # fmt: skip
    runs = re.findall(r"^run (\d+)", (folder / "counts.txt").read_text(), re.M)
    data, results, offset = (folder / "outputs.bin").read_bytes(), [], 0
    for a in outputs.values():
        results.append(np.frombuffer(data, a.dtype, a.size, offset).reshape(a.shape))
        offset += a.nbytes
    return int(runs[-1]), results


def measure(source, arguments, folder):
    """(Tenon's count, ONNX Runtime's, the error) of one model."""
    model = with_constant_initializers(onnx.load(model_file(source)))
    inputs, _ = read_data_set(source / "test_data_set_0", model)
    inputs = {name: np.ascontiguousarray(a) for name, a in inputs.items()}
    expected = dict(zip([o.name for o in model.graph.output], OnnxRuntime(model, inputs, 1).results))
    plugin = counter(folder)
    folders = [folder / "tenon", folder / "peer"]
    for each in folders:
        each.mkdir()
    bindings = symbol_bindings(model, inputs)
    words = ["--bind=" + ",".join(f"{k}={v}" for k, v in bindings.items())] if bindings else []
    compile_model(model_file(source), folders[0] / "network.cpp", f"--target={arguments.target}", "-q",
                  "--weights=incbin", *words)  # fmt: skip
    onnx.save(model, folders[1] / "model.onnx")
    counts, results = zip(*(instructions(each, inputs, expected, plugin, peer, arguments.peer,
                                         arguments.target)
                            for peer, each in enumerate(folders)))  # fmt: skip
    return (*counts, worst_error(*results))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("TENON_MODELS") or ROOT.parent / "shared/models"
    parser.add_argument("folder", type=Path, nargs="?", default=Path(default), metavar="DIR")
    parser.add_argument("--library", dest="peer", type=Path, required=True, metavar="FILE")
    parser.add_argument("--models", default="*", help="names or globs, comma-separated")
    parser.add_argument("--target", default="cpu:armv8")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the rows as a JSON list")
    arguments = parser.parse_args()
    arguments.peer = arguments.peer.resolve()
    rows, failures = [], []
    for source in sorted(p for p in arguments.folder.iterdir() if p.is_dir() and model_file(p)):
        if not any(fnmatch.fnmatchcase(source.name, glob) for glob in arguments.models.split(",")):
            continue
        with tempfile.TemporaryDirectory(prefix="tenon-count-") as scratch:
            try:
                ours, theirs, error = measure(source, arguments, Path(scratch))
            except (RuntimeError, OSError, BuildError) as reason:
                failures.append(f"{source.name}: {reason}")
                continue
        if not error <= bound_of(source.name):
            failures.append(f"{source.name}: outputs differ by {error:.1e}")
        rows.append({"model": source.name, "tenon": ours, "onnxruntime": theirs, "ratio": ours / theirs,
                     "error": error})  # fmt: skip
        print(f"{source.name}: {ours / theirs:.3f}", file=sys.stderr)
    table(rows, ["model", "tenon", "onnxruntime", "ratio", "error"], sys.stdout)
    if rows:
        print(f"geometric mean {geometric_mean([row['ratio'] for row in rows]):.3f}")
    for failure in failures:
        print(f"instructions.py: {failure}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if failures or not rows else 0)


if __name__ == "__main__":
    main()
