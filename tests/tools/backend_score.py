#!/usr/bin/env python3
"""Scores the Python package by ONNX's own backend test runner.

    backend_score.py TARGET PART PARTS TEST...

Runs every PARTS-th of the named tests (all for none) through tenon.backend and prints one JSON row a test:
set, test, verdict, the inputs that were bound, reason. Needs onnx and the tenon package, and is a process of
its own: beside this file lies a tenon.py that is not the package."""

import json
import os
import sys
import unittest
import warnings
from pathlib import Path

sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

import onnx
import onnx.backend.test
from onnx.backend.base import Backend

import tenon
import tenon.backend

KINDS = {"OnnxBackendNodeModelTest": "node", "OnnxBackendSimpleModelTest": "simple",
         "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
         "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator", "OnnxBackendRealModelTest": "light"}  # fmt: skip
DEVICE = "_cpu"


class Refused(Exception):
    """What the backend says it is not supposed to implement: ONNX's runner would count that as passed."""


tenon.backend.BackendIsNotSupposedToImplementIt = Refused


class Watched(Backend):
    """The backend, with the last model at hand: how its inputs were bound."""

    target, last = "cpu:native", None

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        cls.last = None
        cls.last = tenon.backend.prepare(model, device, target=cls.target, **kwargs)
        return cls.last


def row_of(kind, name, verdict, reason):
    test_set = "node_expanded" if kind == "node" and "_expanded" in name else kind
    bound = Watched.last.bound if Watched.last is not None else []
    return {"set": test_set, "test": name, "verdict": verdict, "bind": bound if verdict == "passed" else [],
            "reason": reason}  # fmt: skip


def run(kind, name, case):
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.run(result)
    if result.skipped:
        return row_of(kind, name, "unsupported", result.skipped[0][1].splitlines()[0])
    wrong = result.failures + result.errors
    if wrong:
        lines = [line for line in wrong[0][1].splitlines() if line.strip()]
        refused = [line for line in lines if line.startswith("Refused: ")]
        if refused:
            return row_of(kind, name, "unsupported", refused[0].partition(": ")[2])
        return row_of(kind, name, "failed", next((l for l in lines if "rror" in l and "File" not in l), lines[-1]))
    return row_of(kind, name, "passed", "")


def main():
    Watched.target, part, parts, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), set(sys.argv[4:])
    suite = onnx.backend.test.BackendTest(Watched, __name__)
    jobs = []
    light = Path(onnx.__file__).parent / "backend/test/data/light"
    carried = {path.stem.removeprefix("light_") for path in light.glob("*.onnx")}
    for class_name, tests in sorted(suite.test_cases.items()):
        kind = KINDS.get(class_name)
        for method in sorted(dir(tests)) if kind else ():
            name = method.removesuffix(DEVICE)
            if not method.startswith("test_") or name == method:
                continue
            if kind == "light":
                if name.removeprefix("test_") not in carried:
                    continue  # would be downloaded
                name = name.replace("test_", "light_", 1)
            if wanted and name not in wanted:
                continue
            jobs.append((kind, name, tests(method)))
    for kind, name, case in jobs[part::parts]:
        print(json.dumps(run(kind, name, case)), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("ONNX_HOME", os.path.join(os.environ.get("TMPDIR", "/tmp"), "tenon-onnx-home"))
    main()
