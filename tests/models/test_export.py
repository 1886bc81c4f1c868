#!/usr/bin/env python3
"""What `tenon export` writes is a model that ONNX's checker accepts and ONNX Runtime runs, with the outputs
of the module, and the same bytes each time.

    test_export.py own         every own model, as imported and as optimised: ONNX Runtime's outputs are
                               those of the model that was read; what is exported is imported again
    test_export.py calibrated  networks that calibration quantised: ONNX Runtime's outputs are the
                               interpreter's
    test_export.py operators   ONNX's node tests, each a model of its own
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import make
import networks
import numpy as np
import onnx
import onnxruntime
from generated import symbol_bindings
from onnx.backend.test.loader import load_model_tests
from own import own_models
from tenon import tenon
from tensors import fed_inputs, plain_session, read_data_set

# Largest difference over 1 + |expected|: sums in another order, steps of floats of 16 bits. Other types
# have no fraction, but for the 8-bit steps of a quantised sum that lies between two.
TOLERANCE = {np.dtype(np.float16): 2e-2, np.dtype(np.float32): 2e-4, np.dtype(np.float64): 1e-7}
# Float networks of make.py, and one of transformer blocks.
CALIBRATED = {"resnet": networks.resnet, "mobilenet": networks.mobilenet, "attention": networks.attention}
# Of the outputs' range: sums of floats in another order.
MOST_OFF = 1e-5
# Likewise with the runtime's fusions on: it rounds to 8 bits in other places, layer by layer.
MOST_OFF_FUSED = 0.1
# Of ONNX's node tests: as many have to be exported and right; no more may have no form.
LEAST_EQUAL, MOST_REFUSED = 1155, 45


def difference(found, expected):
    """Why two outputs differ; None when they do not."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "iu":
        steps = int(np.abs(found.astype(np.int64) - expected.astype(np.int64)).max(initial=0))
        return None if steps <= (expected.dtype.itemsize == 1) else f"{steps} steps"
    if expected.dtype not in TOLERANCE:
        return None if np.array_equal(found, expected) else "other values"
    f, e = found.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.where(np.isfinite(f), 0, f), np.where(np.isfinite(e), 0, e), equal_nan=True):
        return "other infinities or NaN"
    finite = np.isfinite(e)
    error = (np.abs(f[finite] - e[finite]) / (1 + np.abs(e[finite]))).max(initial=0)
    return None if error <= TOLERANCE[expected.dtype] else f"error {error:.3g}"


def compare(found, expected):
    """Of outputs by name: the first that differs, and how; None when all are equal."""
    return next((f"{name}: {why}" for name, value in expected.items() if (why := difference(found[name], value))), None)


def run(model, feeds):
    """Outputs of ONNX Runtime by name, its own fusions off: those round where the model does not say so."""
    runner = plain_session(model)
    given = {i.name: feeds[i.name] for i in runner.get_inputs()}
    return dict(zip((o.name for o in runner.get_outputs()), runner.run(None, given)))


def run_fused(model, feeds):
    """The same with its fusions on, as users run it: in integers."""
    runner = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {i.name: feeds[i.name] for i in runner.get_inputs()}
    return dict(zip((o.name for o in runner.get_outputs()), runner.run(None, given)))


def exported(source, target, *words):
    """The model; AssertionError with what is wrong with it."""
    answer = tenon("export", source, "-o", target, "-q", *words)
    assert answer.status == 0, answer.reason
    first = target.read_bytes()
    assert tenon("export", source, "-o", target, "-q", *words).status == 0
    assert target.read_bytes() == first, "the second export has other bytes"
    onnx.checker.check_model(str(target), full_check=True)
    return onnx.load(target)


def own(folder):
    for model in own_models(folder / "models"):
        feeds, expected = read_data_set(model.file.parent / "test_data_set_0", onnx.load(model.file))
        for stage in ("imported", "optimized"):
            target = folder / f"{model.name}.onnx"
            try:
                why = compare(run(exported(model.file, target, f"--stage={stage}", *model.words), feeds), expected)
                answer = tenon("export", target, "-o", folder / "again.onnx", "-q", *(w for w in model.words if w.startswith("--range")))
                yield f"{model.name} {stage}", why or (answer.status and f"not imported again: {answer.reason}")
            except AssertionError as error:
                yield f"{model.name} {stage}", str(error)


def calibrated(folder):
    for name, network in CALIBRATED.items():
        make.write_model(name, make.fp32(network), folder)
        source, text = folder / name / "model.onnx", folder / f"{name}.tn"
        data = folder / name / "test_data_set_0"
        answer = tenon("calibrate", source, "--data", folder / name, "-o", text)
        if answer.status:
            yield name, answer.reason
            continue
        try:
            model = exported(text, folder / f"{name}.onnx")
        except AssertionError as error:
            yield name, str(error)
            continue
        kinds = Counter(n.op_type for n in model.graph.node)
        bytes8 = sum(t.data_type == onnx.TensorProto.INT8 and len(t.dims) > 1 for t in model.graph.initializer)
        if not bytes8 or kinds["DequantizeLinear"] <= kinds["QuantizeLinear"]:
            yield name, f"no weights of 8 bits behind DequantizeLinear: {dict(kinds)}"
            continue
        answer = tenon("run", text, "--target=interpreter", "--data", data, "--save", folder / f"{name}.out")
        feeds, _ = read_data_set(data, onnx.load(source))
        worst = 0
        for output, value in run(model, feeds).items():
            reference = np.load(next((folder / f"{name}.out").glob(f"*{output}*.npy")))
            worst = max(worst, float(np.abs(value - reference).max() / np.ptp(reference)))
        for output, value in run_fused(model, feeds).items():
            reference = np.load(next((folder / f"{name}.out").glob(f"*{output}*.npy")))
            steps = float(np.abs(value - reference).max() / np.ptp(reference))
            yield f"{name} by the runtime's integers", steps > MOST_OFF_FUSED and f"off by {steps:.3g} of the range"
        print(f"{name}: {kinds['QuantizeLinear']} QuantizeLinear, {kinds['DequantizeLinear']} DequantizeLinear, off by {worst:.2g} of the range")
        yield name, worst > MOST_OFF and f"off by {worst:.3g} of the range"


def saturates():
    """Whether the runtime's products of bytes do on this processor, as they may without VNNI: 4 x 255 x 127 is 129,540."""
    node = onnx.helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    ports = [onnx.helper.make_tensor_value_info(n, t, s) for n, t, s in
             (("x", onnx.TensorProto.UINT8, [1, 4]), ("w", onnx.TensorProto.INT8, [4, 1]), ("y", onnx.TensorProto.INT32, [1, 1]))]  # fmt: skip
    graph = onnx.helper.make_graph([node], "products", ports[:2], ports[2:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    found = run(model, {"x": np.full((1, 4), 255, np.uint8), "w": np.full((4, 1), 127, np.int8)})
    return found["y"].item() != 129540


def operators(folder):
    """What this compiler does not import is no export's to handle, and bfloat16 no kernel of the runtime's."""
    counts, reasons = Counter(), Counter()
    source, target = folder / "node.onnx", folder / "exported.onnx"
    for case in load_model_tests(kind="node"):
        inputs, outputs = case.data_sets[0] if case.model and case.data_sets else ([None], [])
        if any(not isinstance(value, np.ndarray) for value in [*inputs, *outputs]) or "bfloat16" in case.name or "bf16" in case.name:
            continue  # sequences and optionals
        onnx.save(case.model, source)
        feeds = dict(zip((i.name for i in fed_inputs(case.model)), inputs))
        words = [f"--bind={k}={v}" for k, v in symbol_bindings(case.model, feeds).items()]
        answer = tenon("export", source, "-o", target, "-q", *words)
        if answer.status == 1:
            kind = "refused" if "has no form in ONNX" in answer.errors else "not imported"
            counts[kind] += 1
            if kind == "refused":
                reasons[answer.reason] += 1
            continue
        if answer.status:
            yield case.name, answer.reason
            continue
        try:
            onnx.checker.check_model(str(target), full_check=True)
            why = compare(run(onnx.load(target), feeds), dict(zip((o.name for o in case.model.graph.output), outputs)))
        except Exception as error:  # the runtime's own kinds have no common base
            why = str(error).replace("\n", " ")[:300]
        if why and "MatMulInteger" in {n.op_type for n in onnx.load(target).graph.node} and saturates():
            counts["saturated by the runtime"] += 1
            continue
        counts["different" if why else "equal"] += 1
        if why:
            yield case.name, why
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason}")
    yield f"counts {dict(counts)}", counts["equal"] < LEAST_EQUAL and f"expected {LEAST_EQUAL} equal"
    yield "refusals", counts["refused"] > MOST_REFUSED and f"expected at most {MOST_REFUSED}, found {counts['refused']}"


def main():
    suites = {"own": own, "calibrated": calibrated, "operators": operators}
    if len(sys.argv) != 2 or sys.argv[1] not in suites:
        sys.exit(__doc__)
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="tenon-export-") as scratch:
        for what, why in suites[sys.argv[1]](Path(scratch)):
            passed, failed = passed + (not why), failed + bool(why)
            if why or what.startswith("counts"):
                print(f"{'FAIL ' if why else ''}{what}{f': {why}' if why else ''}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
