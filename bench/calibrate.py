#!/usr/bin/env python3
"""What `tenon calibrate` makes of float networks: the error at the outputs when all layers are int8, by
steps of the calibration.

    bench/calibrate.py FILE.onnx... [--inputs=N] [--json FILE]

Inputs are seeded noise of three amplitudes: the table says how well int8 follows floats, nothing of
accuracy on real data. Each row is one choice of options:
  decibels   signal over noise at the outputs, over all inputs
  agree      share of the inputs whose largest output is the float network's, in %
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

import numpy as np
import onnx
from tenon import table, tenon

CHOICES = {
    "all steps": [],
    "no equalisation": ["--no-equalize"],
    "no bias correction": ["--no-bias-correction"],
    "neither": ["--no-equalize", "--no-bias-correction"],
    "neither, one scale for all weights": ["--no-equalize", "--no-bias-correction", "--weight-scales=tensor"],
}  # fmt: skip
COLUMNS = ["model", "steps", "decibels", "agree", "layers", "equalised"]


def seeded_inputs(file, count):
    dims = onnx.load(file).graph.input[0].type.tensor_type.shape.dim
    shape = [max(1, dim.dim_value) for dim in dims][1:]
    rng = np.random.default_rng(0)
    amplitudes = rng.choice([0.5, 1, 2], [count] + [1] * len(shape))
    return (rng.normal(0, 1, [count, *shape]) * amplitudes).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    rows, good = [], True
    for file in words.files:
        name = file.parent.name if file.stem == "model" else file.stem
        with tempfile.TemporaryDirectory(prefix="tenon-calibrate-") as folder:
            data = Path(folder) / "data"
            data.mkdir()
            np.save(data / "inputs.npy", seeded_inputs(file, words.inputs))
            for steps, options in CHOICES.items():
                answer = tenon("calibrate", file, f"--data={data}", "-o", Path(folder) / "out.tn", "--json",
                               "--sensitivity-samples=1", *options)  # fmt: skip
                if answer.status != 0:
                    good = False
                    print(f"{name}: {answer.errors}", file=sys.stderr)
                    break
                report = json.loads(answer.output)
                rows.append({"model": name, "steps": steps, "decibels": round(report["decibels"], 1),
                             "agree": round(100 * report["accuracy"], 1), "layers": len(report["layers"]),
                             "equalised": report["equalized"]})  # fmt: skip
    table(rows, COLUMNS, sys.stdout)
    if words.json:
        words.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
