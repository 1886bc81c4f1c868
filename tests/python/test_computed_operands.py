"""Every kernel of CUDA takes every operand that its tactic says it takes: for each anchor and each kind of
operand computed on the way in (computed_operands.py), each tactic that matches the group writes it, and
the C++ compiler reads the file with the emulator's headers. What is made here is more than fusion makes.
A few run in the emulator against the interpreter.

usage: test_computed_operands.py [--all] [--tactic=GLOB] [--level=GLOB] [--case=GLOB] [--keep=DIR]

Without --all one case in PART is tried with each tactic, others with other tactics and on other levels.
"""

import argparse
import fnmatch
import json
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))

import computed_operands
from cuda_syntax import cuda_fault
from tenon import tenon
from test_cuda_emulated import with_literals

LEVELS = ["sm_75", "sm_80", "sm_90a"]  # each generation of kernels
PART = 23
TOGETHER = 40  # groups of a file
# They read their operands as they are stored, and take no group in which one is computed.
AS_STORED = {"attention_sm80", "attention_sm90a", "bitcast", "contract_fp8_sm89", "contract_fp8_sm90a",
             "contract_int8_sm75", "contract_int8_sm80", "contract_int8_sm90a", "decode_attention",
             "depthwise_mma_sm80", "gather", "non_max_suppression", "non_max_suppression_sorted",
             "nonzero", "pad_border", "scatter", "scatter_last", "scatter_sorted", "shape_of", "unique"}  # fmt: skip

# Run: level, tactic, cases.
RUN = [
    ("sm_80", "pooling", "pool_max.f32.u8* pool_mean.f16.sum* pool_max.u8.narrowed*"),
    ("sm_80", "resize", "resize_linear.f32.u8* resize_nearest.f16.i8_channels*"),
    ("sm_80", "depthwise", "conv_multiplied.f32.u8.nhwc conv_multiplied.f16.relu.nhwc conv_depthwise.f16.u8_zeros.nhwc"),
    ("sm_75", "contract_mma_sm75", "matmul_rows.f16.u8 conv_3x3.f16.i8_channels.nhwc"),
    ("sm_80", "contract_mma_sm80", "matmul_rows.bf16.u8 conv_3x3.f16.i8_channels.nhwc conv_1x1.f16.i16"),
    ("sm_80", "conv_patch_sm80", "conv_first.f16.u8* conv_grouped.f16.i8.nhwc"),
    ("sm_80", "contract_tf32x3_sm80", "conv_3x3.f32.i16.nhwc matmul_rows.f32.u8"),
]  # fmt: skip


def tactics():
    """Ids of what runs groups of one anchor on CUDA, neither of none (maps) nor of several (chains)."""
    known = json.loads(tenon("passes", "--json").output)
    chains = {c["tactic"] for c in known["chains"]}
    names = [t["id"].removeprefix("tactic.") for t in known["tactics"] if t["family"] == "cuda" and t["id"] not in chains]
    return [n for n in names if not n.startswith("map")]


class Files:
    """Modules in a folder, written and compiled."""

    def __init__(self, folder):
        self.folder, self.count = Path(folder), 0

    def compile(self, cases, tactic, level, name, *words):
        path = self.folder / f"{name}.tn"
        precision = re.search(r"tf32(x3)?", tactic)
        # Tensor maps want addresses that are known to be aligned.
        text = computed_operands.module(cases, precision=precision[0] if precision else "",
                                        copied=tactic.endswith("_sm90a"))  # fmt: skip
        text, data = with_literals(text, random.Random(name))
        path.write_text(text)
        Path(f"{path}.data").write_bytes(data)
        return path, tenon("compile", path, "-O0", f"--target=cuda:{level}",
                           f"--only=tactic.{tactic},tactic.map", *words)  # fmt: skip


def matching(files, cases, tactic, level):
    """The cases that the tactic takes."""
    name = f"{tactic}-{level}"
    _, answer = files.compile(cases, tactic, level, name, "--emit=tn", "-o", files.folder / f"{name}-out.tn")
    refused = set(re.findall(r"error: node '([^']*)' \(group\): no kernel", answer.errors))
    others = [line for line in answer.errors.splitlines() if "error:" in line and "no kernel" not in line]
    if others:
        sys.exit(f"{name}: {others[0]}")
    return [c for c in cases if c.name not in refused]


def fault(files, cases, tactic, level, name):
    """None, or why the compiler does not read what the tactic writes."""
    path, answer = files.compile(cases, tactic, level, name, "--runtime=include", "--weights=file", "-q",
                                 "--kernels=9999", "-o", files.folder / f"{name}.cu")  # fmt: skip
    return answer.reason if answer.status else cuda_fault(path.with_suffix(".cu"), level)


def difference(files, cases, tactic, level, name):
    """None, or how groups in the emulator differ from the interpreter."""
    path, answer = files.compile(cases, tactic, level, name, "--emit=tn", "-o", files.folder / f"{name}-out.tn")
    if answer.status:
        return answer.reason
    answer = tenon("run", path, "-O0", f"--target=cuda:{level}", f"--only=tactic.{tactic},tactic.map",
                   "--runtime=include", "--against=interpreter", "--check=groups",
                   environment={"NVCC": str(ROOT / "tests/tools/emulated-nvcc"),
                                "CXX": str(ROOT / "tests/tools/cached-c++")})  # fmt: skip
    return answer.errors + answer.output if answer.status else None


def narrowed(files, cases, tactic, level, name):
    """(case, reason) of all that fail among `cases`, which fail together."""
    found = []
    for k, case in enumerate(cases):
        reason = fault(files, [case], tactic, level, f"{name}-{k}")
        if reason:
            found.append((case.name, reason))
    return found or [("together", fault(files, cases, tactic, level, name))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    for word in ("tactic", "level", "case"):
        parser.add_argument(f"--{word}", default="*")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    cases = [c for c in computed_operands.all_cases() if fnmatch.fnmatchcase(c.name, arguments.case)]
    names = [t for t in tactics() if fnmatch.fnmatchcase(t, arguments.tactic)]
    levels = [level for level in LEVELS if fnmatch.fnmatchcase(level, arguments.level)]
    passed = failed = 0
    unused = set(names)
    with tempfile.TemporaryDirectory(prefix="tenon-operands-") as folder, ThreadPoolExecutor(2) as pool:
        files = Files(arguments.keep or folder)
        jobs = []
        for number, (level, tactic) in enumerate((lv, t) for lv in levels for t in names):
            # What all machines run alike is written for one.
            generation = re.search(r"_(sm\d+a?)$", tactic)
            if not generation and level != levels[min(1, len(levels) - 1)]:
                continue
            tried = cases if arguments.all else cases[number % PART :: PART]
            taken = matching(files, tried, tactic, level) if tried else []
            unused -= {tactic} if taken else set()
            if taken and tactic in AS_STORED:
                failed += 1
                print(f"FAIL {taken[0].name} by {tactic}: it says that it takes operands as they are stored")
                continue
            for at in range(0, len(taken), TOGETHER):
                part = taken[at : at + TOGETHER]
                name = f"{tactic}-{level}-{at}".replace("-", "_")
                jobs.append((part, tactic, level, name, pool.submit(fault, files, part, tactic, level, name)))
        for part, tactic, level, name, job in jobs:
            wrong = job.result() and narrowed(files, part, tactic, level, name)
            for case, reason in wrong or []:
                print(f"FAIL {case} by {tactic} on {level}: {reason}", flush=True)
            failed += len(wrong or [])
            passed += len(part) - len(wrong or [])
        runs = []
        for level, tactic, globs in RUN:
            part = [c for c in cases if any(fnmatch.fnmatchcase(c.name, g) for g in globs.split())]
            if part and tactic in names and level in levels:
                runs.append((tactic, level, len(part),
                             pool.submit(difference, files, part, tactic, level, f"run-{tactic}")))  # fmt: skip
        for tactic, level, count, job in runs:
            reason = job.result()
            passed += count if reason is None else 0
            failed += reason is not None
            if reason is not None:
                print(f"FAIL {tactic} on {level}, run: {reason.strip()}", flush=True)
    for tactic in sorted(unused - AS_STORED):
        if arguments.all and arguments.case == "*" and len(levels) == len(LEVELS):
            failed += 1
            print(f"FAIL {tactic}: takes none of the groups")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
