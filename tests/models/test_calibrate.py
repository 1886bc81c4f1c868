#!/usr/bin/env python3
"""`tenon calibrate` on the digits network of examples/digits, by its 450 held-out images.

For three seeds: ranges from 64 images drawn at random; the quantised network, compiled to C++, loses
at most 0.5 points of accuracy over all 450. Also: every choice of ranges, mixed precision, the forms
that data may have, and that equalisation changes no result.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

import numpy as np
import onnx
from generated import Model, build_library, compile_model
from tenon import tenon

DIGITS = ROOT / "examples/digits"
MOST_LOST = 0.5  # points
# Float networks of make.py, and the least signal over noise at their outputs, in dB.
NETWORKS = {"mobilenet_fp32": 30, "resnet_fp32": 28}
METHODS = ["min-max", "percentile", "entropy", "mse"]


def held_out():
    raw = np.frombuffer((DIGITS / "heldout.bin").read_bytes(), np.uint8).reshape(-1, 65)
    return raw[:, :64].reshape(-1, 1, 8, 8).astype(np.float32), raw[:, 64].astype(np.int64)


IMAGES, LABELS = held_out()


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def calibrate(data, out, *words, model=DIGITS / "digits.onnx"):
    """The report, as JSON."""
    answer = tenon("calibrate", model, f"--data={data}", "-o", out, "--json", *words)
    check(answer.status == 0, f"calibrate {' '.join(words)}: {answer.errors}")
    return json.loads(answer.output)


def write_images(folder, chosen):
    folder.mkdir()
    np.save(folder / "images.npy", IMAGES[chosen])
    np.save(folder / "labels.npy", LABELS[chosen])
    return folder


def compiled(model, folder):
    folder.mkdir()
    source = folder / "net.cpp"
    compile_model(model, source, "--target=cpu:native", "-q")
    return Model(build_library(source, "-O1", ["-fno-tree-vectorize"]), "net")


def probabilities(model):
    image, found = np.zeros(64, np.float32), np.zeros(10, np.float32)
    model.bind([image], [found])
    results = []
    for pixels in IMAGES:
        image[:] = pixels.reshape(-1)
        model.run()
        results.append(found.copy())
    return np.array(results)


def results(net, inputs, size):
    found = []
    for one in inputs:
        out = np.zeros(size, np.float32)
        net.bind([np.ascontiguousarray(one)], [out])
        net.run()
        found.append(out)
    return np.array(found, np.float64)


def accuracy(values):
    return 100 * float((values.argmax(1) == LABELS).mean())


def test_seeds(folder, plain):
    for seed in range(3):
        chosen = np.random.default_rng(seed).permutation(len(IMAGES))[:64]
        data = write_images(folder / f"data{seed}", chosen)
        out = folder / f"seed{seed}.tn"
        report = calibrate(data, out)
        check(report["inputs"] == 64 and report["labels"], "64 images with labels")
        check(all(layer["quantized"] for layer in report["layers"]), "all layers are int8")
        found = accuracy(probabilities(compiled(out, folder / f"seed{seed}")))
        check(found >= accuracy(plain) - MOST_LOST,
              f"seed {seed}: {found:.2f} % from {accuracy(plain):.2f} %")  # fmt: skip


def test_integers(folder, data):
    """No layer computes in floats, and none needs 64-bit sums."""
    out = folder / "integers.tn"
    report = calibrate(data, out)
    answer = tenon("compile", out, "--emit=tn", "--stage=optimized", "-o", folder / "optimized.tn")
    check(answer.status == 0, answer.errors)
    text = (folder / "optimized.tn").read_text()
    contractions = [line for line in text.splitlines() if " = conv " in line or " = matmul " in line]
    check(len(contractions) == 6, f"{len(contractions)} contractions")
    check(all("xi32" in line.split(" loc")[0] for line in contractions), "they sum integers")
    check("i64" not in text.replace("axes", ""), "64-bit integers")
    check(report["equalized"] >= 1, "a pair of layers is equalised")


def test_ranges_file(folder, data):
    """The pass quantize makes of the saved ranges what calibrate made, and what it is told instead."""
    out, saved = folder / "direct.tn", folder / "ranges.json"
    calibrate(data, out, "--no-equalize", f"--save-ranges={saved}")
    lines = tenon("passes").output.splitlines()
    passes = next(line.split(": ")[1] for line in lines if line.startswith("before quantize: "))

    def by_pass(name):
        answer = tenon("opt", DIGITS / "digits.onnx", f"--passes={passes},quantize{{ranges={saved}}}",
                       "-o", folder / name)  # fmt: skip
        check(answer.status == 0, answer.errors)
        return (folder / name).read_text()

    def graph(text):
        return text[text.index("graph ") :]

    check(graph(by_pass("pass.tn")) == graph(out.read_text()), "the pass gives the same graph")
    ranges = json.loads(saved.read_text())
    ranges["layers"][0]["quantize"] = False
    ranges["values"][1]["high"] *= 2
    saved.write_text(json.dumps(ranges))
    check(graph(by_pass("edited.tn")) != graph(out.read_text()), "edits count")
    answer = tenon("calibrate", DIGITS / "digits.onnx", f"--data={data}", "-o", folder / "no.tn",
                   f"--save-ranges={folder / 'no.json'}")  # fmt: skip
    check(answer.status == 2 and "--no-equalize" in answer.errors, answer.errors)
    check(not (folder / "no.tn").exists(), "nothing is written")


def test_methods(folder, data):
    ranges = set()
    for method in METHODS:
        out = folder / f"{method}.tn"
        report = calibrate(data, out, f"--ranges={method}")
        ranges.add(report["decibels"])
        lost = 100 * (report["accuracy_float"] - report["accuracy"])
        check(lost < 1.2, f"{method}: {report}")  # one image of 90
    check(len(ranges) == len(METHODS), "methods choose different ranges")


def test_mixed(folder, data):
    everything = calibrate(data, folder / "all.tn")
    order = [layer["decibels"] for layer in everything["layers"]]
    check(order == sorted(order), "the most sensitive layers come first")
    report = calibrate(data, folder / "mixed.tn", "--keep-worst=6", "--sensitivity-samples=32")
    check([layer["quantized"] for layer in report["layers"]] == [False] * 6 + [True] * 2, str(report))
    check(report["decibels"] > everything["decibels"], "fewer quantised layers, less noise")
    report = calibrate(data, folder / "exact.tn", "--accuracy-drop=0")
    check(report["accuracy"] >= report["accuracy_float"], str(report))


def test_equalised(folder, data, plain):
    """All layers in floats: what is left is equalisation."""
    out = folder / "floats.tn"
    report = calibrate(data, out, "--keep-worst=99")
    check(report["equalized"] >= 1 and report["decibels"] > 100, str(report))
    found = probabilities(compiled(out, folder / "floats"))
    check(np.abs(found - plain).max() < 1e-5, f"{np.abs(found - plain).max()}")


def test_data(folder):
    """The same inputs in other forms give the same network."""
    chosen = np.arange(20)
    forms = {"npy": write_images(folder / "npy", chosen)}
    forms["bin"] = folder / "bin"
    forms["bin"].mkdir()
    (forms["bin"] / "images.bin").write_bytes(IMAGES[chosen].tobytes())
    forms["sets"] = folder / "sets"
    for i in chosen:
        one = forms["sets"] / f"{i:02}"
        one.mkdir(parents=True)
        np.save(one / "input_0.npy", IMAGES[i : i + 1])
        np.save(one / "output_0.npy", np.eye(10, dtype=np.float32)[LABELS[i : i + 1]])
    texts, reports = set(), {}
    for name, data in forms.items():
        reports[name] = calibrate(data, folder / f"{name}.tn")
        texts.add((folder / f"{name}.tn").read_text())
    check(len(texts) == 1, "the same network from all forms")
    check(reports["sets"]["labels"] and reports["npy"]["labels"], "labels are found")
    check(not reports["bin"]["labels"], "no labels are made up")
    check(reports["bin"]["accuracy"] is None and reports["bin"]["agreement"] > 0.9,
          "without labels there is agreement and no accuracy")
    check(reports["sets"]["accuracy"] == reports["npy"]["accuracy"], "labels are the same")

    empty = folder / "empty"
    empty.mkdir()
    (folder / "odd").mkdir()
    np.save(folder / "odd/x.npy", np.zeros(65, np.float32))
    (folder / "short").mkdir()
    np.save(folder / "short/x.npy", IMAGES[:3])
    np.save(folder / "short/labels.npy", LABELS[:2])
    for data, word in ((empty, "holds neither"), (folder / "odd", "65 elements"),
                       (folder / "short", "2 labels"), (folder / "none", "no file or folder")):  # fmt: skip
        answer = tenon("calibrate", DIGITS / "digits.onnx", f"--data={data}", "-o", folder / "no.tn")
        check(answer.status == 1 and word in answer.errors, f"{data}: {answer.errors}")
        check(not (folder / "no.tn").exists(), "nothing is written")


def test_networks(folder):
    """Other topologies: int8 follows the floats on inputs that ranges do not come from."""
    command = [sys.executable, ROOT / "tests/models/make.py", folder, f"--models={','.join(NETWORKS)}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name, least in NETWORKS.items():
        model = folder / name / "model.onnx"
        graph = onnx.load(model).graph
        shape, outputs = ([dim.dim_value for dim in port.type.tensor_type.shape.dim]
                          for port in (graph.input[0], graph.output[0]))  # fmt: skip
        size = int(np.prod(outputs))
        inputs = np.random.default_rng(5).standard_normal([48, *shape[1:]]).astype(np.float32)
        data = folder / f"{name}_data"
        data.mkdir()
        np.save(data / "inputs.npy", inputs[:32])
        found = {}
        for steps, words in (("all", []), ("none", ["--no-equalize", "--no-bias-correction"])):
            out = folder / f"{name}_{steps}.tn"
            report = calibrate(data, out, "--sensitivity-samples=1", *words, model=model)
            check(all(layer["quantized"] for layer in report["layers"]), str(report))
            found[steps] = compiled(out, folder / f"{name}_{steps}")
        floats = results(compiled(model, folder / f"{name}_floats"), inputs[32:], size)
        noise = {steps: results(net, inputs[32:], size) - floats for steps, net in found.items()}
        decibels = {steps: 10 * np.log10((floats**2).sum() / (n**2).sum()) for steps, n in noise.items()}
        print(f"        {name}: {decibels['all']:.1f} dB, {decibels['none']:.1f} dB without its steps")
        check(decibels["all"] > least, f"{name}: {decibels}")


def main():
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tenon-calibrate-") as scratch:
        folder = Path(scratch)
        data = write_images(folder / "all", np.arange(0, len(IMAGES), 5))
        plain = probabilities(compiled(DIGITS / "digits.onnx", folder / "plain"))
        tests = {
            "three seeds": lambda: test_seeds(folder, plain),
            "integers": lambda: test_integers(folder, data),
            "ranges": lambda: test_methods(folder, data),
            "a file of ranges": lambda: test_ranges_file(folder, data),
            "mixed precision": lambda: test_mixed(folder, data),
            "equalisation": lambda: test_equalised(folder, data, plain),
            "data": lambda: test_data(folder),
            "networks": lambda: test_networks(folder),
        }
        for name, test in tests.items():
            try:
                test()
                print(f"  PASS  {name}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"  FAIL  {name}: {error}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
