#!/usr/bin/env python3
"""What only moves elements, on every element type that ONNX allows: as inputs, as constants and mixed; on
the interpreter with and without optimisation and through IR text; text as generated C++, too.

    test_movement.py [TYPE...] [--case=NAME]
"""

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
from movement import CASES, EXTRA, IR, OPSET, SHAPES, info, numbers, opset, values_of
from onnx import TensorProto, helper, numpy_helper
from tenon import tenon

TYPES = ["STRING", "COMPLEX64", "COMPLEX128", "BOOL", "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "INT16",
         "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ",
         "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"]  # fmt: skip
ONNX_NAMES = {"FLOAT": "float", "DOUBLE": "double"}
EVERY_WAY = {"STRING", "COMPLEX64", "INT4", "FLOAT"}
COMPILED = {"STRING"}
VARIANTS = {  # which operands are inputs
    "inputs": {*SHAPES, *EXTRA, "flag", "mask"},
    "constants": set(),
    "mixed": {"x", "part", "pair"},
}


def allowed(operator, type_name):
    schema = onnx.defs.get_schema(operator, OPSET)
    word = f"tensor({ONNX_NAMES.get(type_name, type_name.lower())})"
    data = max((c.allowed_type_strs for c in schema.type_constraints), key=len)
    return word in data


def model_of(cases, dtype, given, variant, plain=False):
    """A model of the cases, whose values are named after them, and its inputs; `plain`: of numbers as they
    are."""
    nodes, weights, inputs, results = [], {}, {}, []
    for case in cases:
        made = case.make(dtype)
        used = {name for n in made for name in n.input} | {"x", "y"} & set(
            name for n in made for a in n.attribute for m in a.g.node for name in m.input)
        for name, array in [*given.items(), *case.constants.items()]:
            if name in used:
                key = name if name in given else f"{case.name}_{name}"
                (inputs if name in VARIANTS[variant] else weights)[key] = array
        local = {name for n in made for name in n.output} | set(case.constants)
        for n in made:
            rename = lambda names: [f"{case.name}_{name}" if name in local else name for name in names]
            copy = onnx.NodeProto()
            copy.CopyFrom(n)
            copy.input[:], copy.output[:] = rename(n.input), rename(n.output)
            nodes.append(copy)
        results += [f"{case.name}_{name}" for name in case.results]

    def typed(name, array):
        return tensor_of(name, array, dtype) if name in given and not plain else numpy_helper.from_array(array, name)

    graph = helper.make_graph(
        nodes, "movement",
        [info(k, dtype if k in given else helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
         for k, v in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in results], [typed(k, v) for k, v in weights.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[opset("", OPSET)], ir_version=IR), inputs


def tensor_of(name, array, dtype):
    """The tensor whose elements stand for the numbers of `array`."""
    values = np.take(values_of(dtype), np.asarray(array).astype(int))
    if dtype == TensorProto.STRING:
        return helper.make_tensor(name, dtype, array.shape, [w.encode() for w in np.asarray(values, object).ravel()])
    return numpy_helper.from_array(np.asarray(values), name)


def check(cases, type_name, variant):
    """What fails, as lines."""
    dtype = getattr(TensorProto, type_name)
    given = numbers()
    plain, inputs = model_of(cases, TensorProto.FLOAT, given, variant, True)
    names = [result.name for result in plain.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(plain.SerializeToString(), options)
    expected = {k: np.asarray(v).astype(int) for k, v in zip(names, session.run(None, inputs))}
    model, _ = model_of(cases, dtype, given, variant)
    with tempfile.TemporaryDirectory(prefix="tenon-movement-") as scratch:
        folder = Path(scratch)
        path = folder / "model.onnx"
        onnx.save(model, path)
        for index, (name, array) in enumerate(inputs.items()):
            message = tensor_of(name, array, dtype) if name in given else numpy_helper.from_array(array, name)
            (folder / f"input_{index}.pb").write_bytes(message.SerializeToString())
        for index, (name, array) in enumerate(expected.items()):
            (folder / f"output_{index}.pb").write_bytes(tensor_of(name, array, dtype).SerializeToString())
        failures = []
        for stage in ("imported", "optimized"):
            text = folder / f"{stage}.tn"
            made = tenon("compile", path, "--emit=tn", f"--stage={stage}", "--target=cpu:generic", "-q", "-o", text)
            again = made if made.status else tenon("run", text, "--target=interpreter", f"--data={folder}")
            if again.status:
                failures.append(f"{stage}: {again.reason}")
        ways = [["interpreter", "-O0"], ["interpreter"]]
        if type_name in COMPILED and variant == "inputs":
            ways += [["cpu:generic", "-O0"], ["cpu:generic"]]
        for words in ways:
            answer = tenon("run", path, f"--target={words[0]}", *words[1:], f"--data={folder}")
            if answer.status:
                bad = [line.strip() for line in answer.output.splitlines() if "differ" in line or "FAIL" in line]
                failures.append(f"{' '.join(words)}: {answer.reason if answer.errors else bad[:1]}")
    return failures


def main():
    only = [word[7:] for word in sys.argv[1:] if word.startswith("--case=")]
    types = [word for word in sys.argv[1:] if not word.startswith("--")] or TYPES
    passed = failed = 0
    for type_name in types:
        # Types of a kind go the same ways.
        for variant in VARIANTS if type_name in EVERY_WAY else ("mixed",):
            cases = [c for c in CASES if allowed(c.operator, type_name) and (not only or c.name in only)]
            found = check(cases, type_name, variant)
            if found and len(cases) > 1:  # which of them
                found = [f"{c.name}, {line}" for c in cases for line in check([c], type_name, variant)] or found
            passed, failed = passed + (not found), failed + bool(found)
            for line in found:
                print(f"FAIL {type_name} {variant} {line}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
