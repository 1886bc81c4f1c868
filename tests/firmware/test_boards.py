#!/usr/bin/env python3
"""Networks on emulated boards: every output byte is this machine's and the interpreter's, and no figure
grows unnoticed.

    test_boards.py example           the example's image on every board says what the host says
    test_boards.py own [--update]    the project's own quantised networks; figures.json
    test_boards.py real              the networks of TENON_MODELS/mlperf_tiny

figures.json holds what each network took on some boards. A figure that grew by more than a fiftieth
fails; --update writes the file anew.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

from firmware import EXAMPLE, FirmwareError, boards, call, measure
from generated import BuildError
from tenon import binary

FIGURES = Path(__file__).with_name("figures.json")
OWN = ["keyword_dscnn_qdq", "keyword_dscnn_int4", "resnet_qdq", "mobilenet_qdq", "autoencoder_qdq"]
BOARDS = ["m4", "m33", "m55", "rv32"]
RECORDED = ["m4", "m55"]
SIZE = ("m4", "m4 size", ["--optimize=size"])
GROWTH = 1.02


class Suite:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, complaint):
        """A test: it failed when there is a complaint."""
        if complaint:
            self.failed += 1
        else:
            self.passed += 1
        print(f"  {'FAIL' if complaint else 'PASS'}  {name}{': ' + complaint if complaint else ''}")

    def skip(self, name, reason):
        self.skipped += 1
        print(f"  SKIP  {name}: {reason}")

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(1 if self.failed else 0)


def chosen(names, suite):
    """The boards of these names whose tools are installed."""
    known = boards()
    for name in names:
        if known[name].missing:
            suite.skip(name, f"needs {', '.join(known[name].missing)}; run scripts/setup")
        else:
            yield known[name]


def example(suite, scratch):
    heldout = (EXAMPLE.parent / "digits/heldout.bin").read_bytes()
    labels = heldout[64::65]
    said = {}
    for board in chosen(boards(), suite):
        words = ["make", "-s", "-C", EXAMPLE, "run", f"BOARD={board.name}",
                 f"BUILD={scratch / board.name}", f"TENON={binary()}"]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, errors="replace")
        said[board.name] = re.findall(r"[0-9?]{20,}", done.stdout + done.stderr) or [""]
        text = said[board.name][0]
        right = sum(int(c == str(label)) for c, label in zip(text, labels))
        complaint = ""
        if done.returncode != 0 or len(text) != len(labels):
            complaint = f"exit status {done.returncode}: {(done.stderr or done.stdout)[-500:]}"
        elif right < 0.97 * len(labels):
            complaint = f"{right} of {len(labels)} images are recognised"
        suite.check(f"example on {board.name}", complaint)
    suite.check("the boards agree", "" if len({t[0] for t in said.values()}) <= 1 else str(said))


def figures_of(image, execution):
    sizes = image.sizes()
    return {"instructions": execution.instructions[0], "code_bytes": sizes.code,
            "weight_bytes": sizes.weights, "arena_bytes": image.arena_bytes(),
            "stack_bytes": execution.stack}  # fmt: skip


def compare(name, found, recorded):
    """What grew; prints what shrank."""
    grown = []
    for key, value in found.items():
        old = recorded.get(key, 0)
        if value > old * GROWTH:
            grown.append(f"{key} grew from {old} to {value}")
        elif value * GROWTH < old:
            print(f"        {name}: {key} shrank from {old} to {value}; test_boards.py own --update")
    return "; ".join(grown)


def run_models(suite, models, scratch, recorded=None):
    """Compares outputs on every board; returns the figures of those that are recorded."""
    found = {}
    builds = [(board, board.name, []) for board in chosen(BOARDS, suite)]
    builds += [(board, SIZE[1], SIZE[2]) for board in chosen([SIZE[0]], suite)]
    for board, title, words in builds:
        for name, model in models.items():
            label = f"{name} on {title}"
            try:
                image, execution, same = measure(model, board, scratch / title / name, words=words)
            except (BuildError, FirmwareError) as error:
                suite.check(label, str(error))
                continue
            suite.check(label, same.complaint)
            if title in [*RECORDED, SIZE[1]]:
                found.setdefault(name, {})[title] = figures = figures_of(image, execution)
                if recorded is not None:
                    old = recorded.get(name, {}).get(title, {})
                    suite.check(f"{label}: figures", compare(label, figures, old))
    return found


def own(suite, scratch, update):
    subprocess.run([sys.executable, ROOT / "tests/models/make.py", scratch, f"--models={','.join(OWN)}"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    models = {name: scratch / name / "model.onnx" for name in OWN}
    recorded = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    compiler = call("arm-none-eabi-g++", "-dumpfullversion").strip()
    same = recorded.get("compiler") == compiler
    if not same and not update:
        print(f"        figures.json is of compiler {recorded.get('compiler')}, this is {compiler}: "
              "sizes and counts are not compared")  # fmt: skip
    found = run_models(suite, models, scratch / "images", recorded["models"] if same and not update else None)
    if update:
        FIGURES.write_text(json.dumps({"compiler": compiler, "models": found}, indent=1) + "\n")
        print(f"        wrote {FIGURES.relative_to(ROOT)}")


def real(suite, scratch):
    folder = Path(os.environ.get("TENON_MODELS") or ROOT.parent / "shared/models") / "mlperf_tiny"
    models = {path.stem: path for path in sorted(folder.glob("*_qdq.onnx"))}
    if not models:
        suite.skip("real networks", "set TENON_MODELS to run them")
    run_models(suite, models, scratch)


def main():
    suite = Suite()
    with tempfile.TemporaryDirectory(prefix="tenon-boards-") as folder:
        scratch = Path(folder)
        if sys.argv[1] == "example":
            example(suite, scratch)
        elif sys.argv[1] == "own":
            own(suite, scratch, "--update" in sys.argv)
        elif sys.argv[1] == "real":
            real(suite, scratch)
        else:
            sys.exit(__doc__)
    suite.finish()


if __name__ == "__main__":
    main()
