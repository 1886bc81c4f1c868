#!/usr/bin/env python3
"""Compares the interpreter with ONNX Runtime (optimisations off), tensor by tensor.

    tests/tools/compare_with_ort.py MODEL... [--data=DIR] [--mode=whole|nodes] [-v]

MODEL is an ONNX file or a folder that holds one; DIR defaults to the test_data_set_0 beside it. The
interpreter saves every value that has an ONNX name (`tenon run --save-all`), all of which ONNX
Runtime computes, too:

  whole  both run the whole model; errors add up from node to node
  nodes  ONNX Runtime runs each node alone, on the interpreter's values: for quantised models, where
         one step of a difference early on is many differences later (the default for those)

Floats may differ by 1e-4 of the tensor's largest value (--tolerance), 8-bit integers by one step in
at most 1 of 10,000 elements, everything else must be equal. Exit status 1 when one does not.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tenon import binary, model_file, table, tenon
from tensors import all_values_session, fed_inputs, plain_session, read_data_set

QUANTISED = {"QuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"}
STEP_SHARE = 1e-4


def interpreter_values(model, data, words, timeout):
    """Every named value that the interpreter computed."""
    with tempfile.TemporaryDirectory(prefix="tenon-values-") as folder:
        answer = tenon("run", model, "--target=interpreter", f"--data={data}",
                       f"--save-all={folder}", *words, timeout=timeout)
        index = Path(folder) / "names.json"
        if not index.exists():
            sys.exit(f"compare_with_ort: {model}: {answer.reason}")
        files = json.loads(index.read_text())
        return {name: np.load(Path(folder) / file) for name, file in files.items()}


def whole(model, inputs, _):
    session, names = all_values_session(model)
    return zip(names, session.run(names, inputs))


def nodes(model, inputs, ours):
    """ONNX Runtime's value of every node's outputs, given our values of its inputs."""
    # Constants stay constants: numpy has no elements below a byte that ONNX Runtime would take.
    constants = {t.name: t for t in model.graph.initializer if t.name not in inputs}
    known = {name: numpy_helper.to_array(t) for name, t in constants.items()}
    known |= inputs
    known |= {name: value for name, value in ours.items() if name not in known}
    for node in model.graph.node:
        if node.op_type == "Constant":
            runner = [numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"]
            known.update(zip(node.output, runner))
            continue
        operands = list(dict.fromkeys(name for name in node.input if name))
        has_graph = any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
        if has_graph or any(name not in known for name in operands):
            continue
        values = {name: known[name] for name in operands if name not in constants}
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in values.items()
        ]
        results = [name for name in node.output if name]
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = ""
        graph = helper.make_graph([copy], "node", infos, [onnx.ValueInfoProto(name=n) for n in results],
                                  [constants[n] for n in operands if n in constants])  # fmt: skip
        alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version,
                                  functions=model.functions)
        session = plain_session(alone)
        for name, value in zip(results, session.run(results, values)):
            known.setdefault(name, value)
            yield name, value


def difference(ours, theirs, tolerance):
    """(error, verdict): relative to the largest value for floats, share of differing elements else."""
    if not isinstance(theirs, np.ndarray):
        return None, "no tensor"
    if ours.shape != theirs.shape:
        return None, f"shape {list(ours.shape)}, expected {list(theirs.shape)}"
    if ours.dtype != theirs.dtype:
        return None, f"type {ours.dtype}, expected {theirs.dtype}"
    if theirs.size == 0:
        return 0.0, "same"
    if np.issubdtype(theirs.dtype, np.floating):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return None, "infinities or NaNs differ"
        largest = np.abs(b[finite]).max(initial=0) or 1.0
        error = float(np.abs(a[finite] - b[finite]).max(initial=0) / largest)
        return error, "same" if error <= tolerance else "differs"
    if theirs.dtype in (np.int8, np.uint8):
        steps = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        share = float((steps != 0).mean())
        return share, "same" if steps.max() <= 1 and share <= STEP_SHARE else "differs"
    share = float((ours != theirs).mean())
    return share, "same" if share == 0 else "differs"


def compare(path, data, arguments):
    model = onnx.load(path)
    inputs, _ = read_data_set(data, model)
    missing = [i.name for i in fed_inputs(model) if i.name not in inputs]
    if missing:
        sys.exit(f"compare_with_ort: {data}: no value for input {missing[0]!r}")
    ours = interpreter_values(path, data, arguments.words, arguments.timeout)
    quantised = any(node.op_type in QUANTISED for node in model.graph.node)
    mode = arguments.mode or ("nodes" if quantised else "whole")
    producer = {name: node.op_type for node in model.graph.node for name in node.output}
    rows, absent = [], 0
    for name, theirs in (whole if mode == "whole" else nodes)(model, inputs, ours):
        if name not in ours:
            absent += 1
            continue
        error, verdict = difference(ours[name], theirs, arguments.tolerance)
        rows.append({"tensor": repr(name)[1:-1][-48:], "op": producer.get(name), "error": error,
                     "verdict": verdict})  # fmt: skip
    bad = [row for row in rows if row["verdict"] != "same"]
    shown = rows if arguments.verbose else bad[:20]
    if shown:
        table(shown, ["tensor", "op", "error", "verdict"], sys.stdout)
    worst = max((row["error"] for row in rows if row["error"] is not None), default=None)
    good = bool(rows) and not bad
    label = path.parent.name if path.name == "model.onnx" else path.stem
    figure = "-" if worst is None else f"{worst:.1e}"
    print(f"{'PASS' if good else 'FAIL'} {label}: {len(rows) - len(bad)} of {len(rows)} tensors agree"
          f" ({mode}), largest error {figure}, {absent} not saved by the interpreter", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--data", type=Path, metavar="DIR")
    parser.add_argument("--mode", choices=["whole", "nodes"])
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--words", nargs=argparse.REMAINDER, default=[],
                        help="the rest of the line goes to `tenon run`")
    parser.add_argument("-v", "--verbose", action="store_true", help="a row for every tensor")
    arguments = parser.parse_args()
    if not os.access(binary(), os.X_OK):
        sys.exit(f"compare_with_ort: {binary()} is missing; build it, or set TENON")
    good = True
    for path in arguments.models:
        path = model_file(path) if path.is_dir() else path
        if path is None:
            parser.error("a folder without an ONNX file")
        data = arguments.data or path.parent / "test_data_set_0"
        good &= compare(path, data, arguments)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
