"""Seeded mutations of models or of IR text through a fuzz target that is built without libFuzzer; the
target ends with a signal, or with a sanitizer's report, where it finds something.

usage: test_bytes.py importer|parser [MUTATIONS [SEED]]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

from fuzz_bytes import write_seeds

MUTATIONS = {"importer": 3000, "parser": 20000}
target = sys.argv[1]
mutations, seed = (sys.argv[2:] + [MUTATIONS[target], 1][len(sys.argv) - 2 :])[:2]
build = Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build"))
with tempfile.TemporaryDirectory(prefix="tenon-fuzz-") as folder:
    write_seeds(target, Path(folder) / "seeds", graphs=24)
    done = subprocess.run([build / f"tests/fuzz/fuzz_{target}", f"--mutations={mutations}", f"--seed={seed}",
                           Path(folder) / "seeds"], stderr=subprocess.PIPE, text=True)  # fmt: skip
if done.returncode:
    print(done.stderr[-4000:], file=sys.stderr)
    print(f"exit status {done.returncode}\n0 passed, 1 failed, 0 skipped")
sys.exit(1 if done.returncode else 0)
