#!/usr/bin/env python3
"""What `tenon calibrate` makes of float networks, by steps of the calibration.

    bench/calibrate.py FILE.onnx... [--inputs=N] [--held-out=N] [--json FILE]

Inputs have structure: random fields whose amplitudes fall with the frequency, as those of images and
spectra do, with edges in them, over the range that the input of the quantised network beside the file
has (X_qdq.onnx for X_f32.onnx), else over -2 ... 2. Ranges come from N of them; the figures are of others,
which the calibration has not seen, computed by generated C++. Each row is one choice of options:
  decibels   signal over noise at the outputs
  agree      share of inputs whose largest output is the float network's, in %
  floats     layers that stay in floats
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
from generated import Interface, Model, build_library, compile_model
from onnx import numpy_helper
from tenon import table, tenon

CHOICES = {
    "all steps": [],
    "no equalisation": ["--no-equalize"],
    "no bias correction": ["--no-bias-correction"],
    "neither": ["--no-equalize", "--no-bias-correction"],
    "neither, one scale for all weights": ["--no-equalize", "--no-bias-correction", "--weight-scales=tensor"],
    "the two worst layers in floats": ["--keep-worst=2"],
    "accuracy within 0.5 points": ["--accuracy-drop=0.5"],
}  # fmt: skip
COLUMNS = ["model", "steps", "decibels", "agree", "floats", "layers", "equalised"]


def input_range(file):
    """Smallest and largest number that the quantised network beside the file can read."""
    twin = file.with_name(file.name.replace("_f32", "_qdq"))
    if twin == file or not twin.exists():
        return -2.0, 2.0
    graph = onnx.load(twin).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        reads = node.input[0] == graph.input[0].name
        if reads and node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            scale, zero = float(arrays[node.input[1]]), arrays[node.input[2]]
            limits = np.iinfo(zero.dtype)
            return scale * (limits.min - int(zero)), scale * (limits.max - int(zero))
    return -2.0, 2.0


def field(shape, rng):
    """Numbers from 0 to 1: channels of a random field that have most of their edges in common."""
    plane = shape[1:] if len(shape) > 1 else shape
    frequency = sum(np.fft.fftfreq(n)[(...,) + (None,) * (len(plane) - 1 - d)] ** 2 for d, n in enumerate(plane))
    amplitude = 1 / np.maximum(np.sqrt(frequency), 0.5 / max(plane)) ** rng.uniform(0.8, 1.6)
    smooth = lambda: np.fft.ifftn(amplitude * np.fft.fftn(rng.normal(0, 1, plane))).real
    common = smooth()
    for _ in range(rng.integers(0, 4)):
        first = [rng.integers(0, n) for n in plane]
        common[tuple(slice(a, rng.integers(a, n) + 1) for a, n in zip(first, plane))] += rng.normal(0, common.std() + 1e-9)
    channels = shape[0] if len(shape) > 1 else 1
    values = np.stack([common + 0.3 * smooth() for _ in range(channels)]).reshape(shape)
    return (values - values.min()) / max(np.ptp(values), 1e-9)


def structured_inputs(file, count):
    dims = onnx.load(file).graph.input[0].type.tensor_type.shape.dim
    shape = [max(1, dim.dim_value) for dim in dims][1:]
    rng = np.random.default_rng(0)
    low, high = input_range(file)
    fields = []
    for _ in range(count):
        bottom, top = np.sort(rng.uniform(0, 1, 2)) if rng.random() < 0.5 else (0, 1)  # contrast
        fields.append(low + (high - low) * (bottom + (top - bottom) * field(shape, rng)))
    return np.array(fields, np.float32)


class Compiled:
    def __init__(self, model, folder):
        folder.mkdir()
        source = folder / "net.cpp"
        compile_model(model, source, "--target=cpu:native", "-q")
        self.model = Model(build_library(source, "-O2"), "net")
        self.outputs = Interface(source.with_suffix(".h")).outputs

    def __call__(self, inputs):
        found = []
        for x in inputs:
            result = np.zeros(self.outputs[0].size, np.float32)
            self.model.bind([np.ascontiguousarray(x).reshape(-1)], [result])
            self.model.run()
            found.append(result)
        return np.array(found, float)


def judged(wanted, found):
    """Decibels, and the share of equal largest outputs."""
    noise = ((wanted - found) ** 2).sum() or 1e-30
    agree = (wanted.argmax(1) == found.argmax(1)).mean()
    return round(10 * np.log10((wanted**2).sum() / noise), 1), round(100 * agree, 1)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--inputs", type=int, default=32)
    parser.add_argument("--held-out", type=int, default=256)
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    rows, good = [], True
    for file in words.files:
        name = file.parent.name if file.stem == "model" else file.stem
        inputs = structured_inputs(file, words.inputs + words.held_out)
        seen, others = inputs[: words.inputs], inputs[words.inputs :]
        with tempfile.TemporaryDirectory(prefix="tenon-calibrate-") as folder:
            folder = Path(folder)
            (folder / "data").mkdir()
            np.save(folder / "data/inputs.npy", seen)
            wanted = Compiled(file, folder / "floats")(others)
            for number, (steps, options) in enumerate(CHOICES.items()):
                answer = tenon("calibrate", file, f"--data={folder / 'data'}", "-o", folder / "out.tn",
                               "--json", "--sensitivity-samples=4", *options)  # fmt: skip
                if answer.status != 0:
                    good = False
                    print(f"{name}: {answer.errors}", file=sys.stderr)
                    break
                report = json.loads(answer.output)
                decibels, agree = judged(wanted, Compiled(folder / "out.tn", folder / str(number))(others))
                layers = report["layers"]
                rows.append({"model": name, "steps": steps, "decibels": decibels, "agree": agree,
                             "floats": sum(not layer.get("quantized", True) for layer in layers),
                             "layers": len(layers), "equalised": report["equalized"]})  # fmt: skip
    table(rows, COLUMNS, sys.stdout)
    if words.json:
        words.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
