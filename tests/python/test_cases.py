"""What tests/cases says of cases that are right, wrong, rightly refused and not refused."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]


def make_case(folder, factor, operator="Neg", kind=np.float32, **files):
    """A case of one operator; what it expects is `factor` times the input, in numbers of `kind`."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    x = np.arange(-2, 4, dtype=np.float32)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [6]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], name="n")], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              folder / "model.onnx")  # fmt: skip
    for name, array in (("input_0", x), ("output_0", (factor * x).astype(kind))):
        (data / f"{name}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    for name, text in files.items():
        (folder / name).write_text(text)


def main():
    failures = []
    with tempfile.TemporaryDirectory(prefix="tenon-cases-") as scratch:
        cases = Path(scratch) / "cases"
        make_case(cases / "right", -1)
        make_case(cases / "options", -1, options="--bind missing=3\n")
        make_case(cases / "wrong", -1.5)
        # numpy computes in f64: beside a model of f32 the values count, beside integers the type does.
        make_case(cases / "right_in_f64", -1, kind=np.float64)
        make_case(cases / "wrong_in_f64", -1.001, kind=np.float64)
        make_case(cases / "integers", -1, kind=np.int32)
        make_case(cases / "refused", -1, operator="NoSuchOperator", refused="NoSuchOperator\n")
        make_case(cases / "refused_otherwise", -1, operator="NoSuchOperator", refused="no such text\n")
        make_case(cases / "not_refused", -1, refused="Neg\n")
        rows = Path(scratch) / "rows.json"
        done = subprocess.run([ROOT / "tests/cases", cases, "--target=interpreter,cpu:generic", f"--json={rows}"],
                              capture_output=True, text=True)  # fmt: skip
        found = {}
        for row in json.loads(rows.read_text()):
            found.setdefault(row["case"], set()).add((row["expected"], row["result"]))
        wanted = {"right": ("pass", "pass"), "options": ("pass", "FAIL"), "wrong": ("pass", "FAIL"),
                  "right_in_f64": ("pass", "pass"), "wrong_in_f64": ("pass", "FAIL"), "integers": ("pass", "FAIL"),
                  "refused": ("refused", "refused"), "refused_otherwise": ("refused", "FAIL"),
                  "not_refused": ("refused", "FAIL")}  # fmt: skip
        for name, verdict in wanted.items():
            if found.get(name) != {verdict}:
                failures.append(f"{name}: {found.get(name)}, expected {verdict}")
        if done.returncode != 1 or not done.stdout.endswith("12 passed, 24 failed, 0 skipped\n"):
            failures.append(f"exit status {done.returncode}, output {done.stdout[-200:]!r}")
        empty = Path(scratch) / "empty"
        empty.mkdir()
        if subprocess.run([ROOT / "tests/cases", empty], capture_output=True).returncode != 1:
            failures.append("a folder without cases passed")
    print("\n".join(failures))
    print(f"{len(wanted) + 2 - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
