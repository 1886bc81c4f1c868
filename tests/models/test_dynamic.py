#!/usr/bin/env python3
"""Networks with open heights and widths (dynamic_networks.py): each compiled once with a range, then run at
eight sizes, whose results are held against ONNX Runtime's.

    test_dynamic.py [NAME...] [--target=cpu:native] [-O0]

The target interpreter compiles nothing; cuda:sm_80 runs in emulation, the quick networks at four sizes.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
import onnxruntime
from dynamic_networks import networks, pieces
from generated import BuildError, Interface, Model, build_library, compile_model
from onnx import numpy_helper
from tenon import tenon

BOUND = 1e-4  # of the largest value


def reference(case, images):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])  # fmt: skip
    name = session.get_inputs()[0].name
    return [session.run(None, {name: image}) for image in images]


def error_of(found, expected):
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    error = np.max(np.abs(found - expected)) / max(1e-30, np.max(np.abs(expected)))
    return "" if error <= BOUND else f"error {error:.2g}"  # a NaN is an error, too


def compiled(case, path, images, expected, target, words):
    """One library for every size."""
    source = Path(path).with_name(f"{case.name}.cpp")
    compile_model(path, source, f"--target={target}", *case.words, *words)
    model, numbers = Model(build_library(source, "-O1")), Interface(source.with_suffix(".h")).dims
    for size, image, wanted in zip(case.sizes, images, expected):
        outputs = [np.full_like(w, np.nan) for w in wanted]
        for dim, extent in case.extents(size).items():
            model.set_dim(numbers[dim], extent)
        model.bind([image], outputs)
        model.run()
        shapes = [tuple(model.output_shape(i)) for i in range(len(wanted))]
        for found, shape, w in zip(outputs, shapes, wanted):
            yield size, f"shape {shape}, expected {w.shape}" if shape != w.shape else error_of(found, w)
    model.close()


def run(case, path, images, expected, target, words):
    """`tenon run` for each size: on the interpreter, or in emulation."""
    environment = {"NVCC": str(ROOT / "tests/tools/emulated-nvcc")} if target.startswith("cuda") else {}
    for size, image, wanted in zip(case.sizes, images, expected):
        folder = Path(path).parent / f"{case.name}_{size[0]}x{size[1]}"
        folder.mkdir()
        for stem, arrays in (("input", [image]), ("output", wanted)):
            for k, array in enumerate(arrays):
                (folder / f"{stem}_{k}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
        answer = tenon("run", path, f"--data={folder}", f"--target={target}", "--runtime=include", *case.words, *words,
                       environment=environment)  # fmt: skip
        yield size, "" if answer.status == 0 else answer.reason


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("-O", dest="level", default="2")
    options = parser.parse_args()
    emulated = options.target.startswith("cuda")
    passed = failed = 0
    os.environ.setdefault("CXX", str(ROOT / "tests/tools/cached-c++"))
    with tempfile.TemporaryDirectory(prefix="tenon-dynamic-") as scratch:
        for case in [*networks(), pieces()]:
            if (options.names and case.name not in options.names) or (emulated and not case.small):
                continue
            if emulated:
                case.sizes = case.sizes[:4]
            path = Path(scratch) / f"{case.name}.onnx"
            onnx.save(case.model, path)
            images = [case.image(size) for size in case.sizes]
            expected = reference(case, images)
            how = compiled if options.target.startswith("cpu") else run
            try:
                results = list(how(case, path, images, expected, options.target, [f"-O{options.level}"]))
            except (BuildError, RuntimeError) as error:
                results = [("all sizes", str(error))]
            for size, why in results:
                if why:
                    print(f"{case.name} at {size}: {why}")
            bad = {str(size) for size, why in results if why}
            failed += len(bad)
            passed += len({str(size) for size, _ in results}) - len(bad)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
