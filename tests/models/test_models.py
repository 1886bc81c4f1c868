#!/usr/bin/env python3
"""Tests with whole models: the project's own, and the real ones where TENON_MODELS names them.

    test_models.py own TARGET      every model of make.py and the digits, against interpreter and data
    test_models.py real TARGET     the real models, the same way
    test_models.py mutate TARGET   a seeded sample of damaged models, which have to fail
    test_models.py ort             the interpreter against ONNX Runtime, tensor by tensor
    test_models.py deterministic   make.py writes the same bytes twice
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ROOT.parent / "shared/models"
REAL = os.environ.get("TENON_MODELS") or (str(BESIDE) if BESIDE.is_dir() else None)
JOBS = os.environ.get("TENON_JOBS", "1")
# Needs a declaration of its operator on the command line; test_probes.py gives it.
SPECIAL = "!probe_user_operator"


def make(folder):
    subprocess.run([sys.executable, ROOT / "tests/models/make.py", folder], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    return done


def finish(passed, failed, skipped=0):
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def table_test(folder, *words):
    """scripts/models; every row is a test."""
    done = run(ROOT / "scripts/models", folder, *words, f"--jobs={JOBS}")
    rows = re.findall(r"  (PASS|FAIL)\b", done.stdout)
    failed = rows.count("FAIL")
    finish(rows.count("PASS"), failed or int(done.returncode != 0))


def mutation_test(folder, *words):
    """scripts/models --mutate; every live mutation is a test."""
    done = run(ROOT / "scripts/models", folder, "--mutate", *words, f"--jobs={JOBS}")
    counts = re.findall(r": (\d+) of (\d+) live mutations caught", done.stdout)
    caught, live = (sum(int(pair[i]) for pair in counts) for i in (0, 1))
    finish(caught, live - caught or int(done.returncode != 0))


def deterministic_test(scratch):
    folders = [Path(scratch) / "first", Path(scratch) / "second"]
    for folder in folders:
        make(folder)
    first, second = (
        {p.relative_to(f): p.read_bytes() for p in sorted(f.rglob("*")) if p.is_file()}
        for f in folders
    )
    different = [str(p) for p in first.keys() | second.keys() if first.get(p) != second.get(p)]
    print("\n".join(f"differs: {path}" for path in sorted(different)))
    finish(len(first) - len(different), len(different))


def main():
    kind, target = (*sys.argv[1:], "interpreter")[:2]
    with tempfile.TemporaryDirectory(prefix="tenon-models-") as scratch:
        if kind == "deterministic":
            deterministic_test(scratch)
        if kind == "real":
            if not REAL:
                print("TENON_MODELS names no folder: the real models are not tested")
                sys.exit(77)
            table_test(REAL, f"--target={target}")
        own = Path(scratch) / "models"
        make(own)
        (own / "digits").symlink_to(ROOT / "examples/digits")
        if kind == "own":
            # A data set more is a compilation more: cpu:native's are cpu:generic's, but for the machine.
            every = [] if target == "cpu:generic" else ["--all-data"]
            table_test(own, f"--target={target}", f"--models={SPECIAL}", *every)
        if kind == "mutate":
            # What is compared is the same everywhere; compiled targets take one of a few models.
            some = ["--models=!probe_*,!corner_*", "--sample=3"]
            if target != "interpreter":
                some = ["--models=*_fp32,*_qdq,audio", "--sample=1"]
            mutation_test(own, f"--target={target}", *some)
        if kind == "ort":
            folders = [p for p in sorted(own.iterdir()) if p.name != SPECIAL[1:]]
            # ONNX Runtime refuses a branch that returns an outer value.
            folders = [p for p in folders if p.name != "probe_control_flow"]
            if REAL:
                from_models = run(ROOT / "scripts/models", REAL, "--list").stdout.splitlines()
                folders += [Path(REAL) / name for name in from_models if (Path(REAL) / name).is_dir()]
            done = run(ROOT / "tests/tools/compare_with_ort.py", *folders)
            verdicts = re.findall(r"^(PASS|FAIL) ", done.stdout, re.M)
            failed = verdicts.count("FAIL")
            finish(verdicts.count("PASS"), failed or int(done.returncode != 0))
    sys.exit(f"test_models.py: no test is called {kind!r}")


if __name__ == "__main__":
    main()
