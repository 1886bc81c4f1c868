"""Generated CUDA built with -DTENON_NVTX puts a range around each run, and in it one around each step, in
order; without, none. Built against the emulator of the kernel tests, with a header in NVTX's place that
writes ranges down.

usage: test_nvtx.py
"""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))

from tenon import tenon

DIGITS = ROOT / "examples/digits/digits.onnx"
HEADER = """
#include <cstdio>
#include <cstdlib>
inline void note(const char *what, const char *name) {
  if (FILE *f = fopen(getenv("RANGES"), "a")) {
    fprintf(f, "%s %s\\n", what, name);
    fclose(f);
  }
}
inline int nvtxRangePushA(const char *name) { return note("push", name), 0; }
inline int nvtxRangePop() { return note("pop", ""), 0; }
"""


def ranges(folder, flags):
    """What one run writes down."""
    written = folder / "ranges"
    written.write_text("")
    answer = tenon("run", DIGITS, "--target=cuda:sm_80", "--runtime=include", "--against=interpreter",
                   environment={"NVCC": str(ROOT / "tests/tools/emulated-nvcc"), "RANGES": str(written),
                                "TENON_EMULATOR_FLAGS": f"{flags} -I{folder}"})  # fmt: skip
    assert answer.status == 0, answer.errors
    return written.read_text().splitlines()


def main():
    with tempfile.TemporaryDirectory(prefix="tenon-nvtx-") as name:
        folder = Path(name)
        (folder / "nvtx3").mkdir()
        (folder / "nvtx3/nvToolsExt.h").write_text(HEADER)
        assert ranges(folder, "") == [], "ranges without TENON_NVTX"
        lines = ranges(folder, "-DTENON_NVTX")
        depth, runs = 0, []
        for line in lines:
            if line.startswith("push"):
                if depth == 0:
                    assert line == "push run", line
                    runs.append([])
                else:
                    runs[-1].append(line.split()[1])
                depth += 1
            else:
                depth -= 1
            assert 0 <= depth <= 2, lines
        assert depth == 0 and runs, lines
        for steps in runs:
            assert [int(s.split("_")[0].removeprefix("step")) for s in steps] == list(range(len(steps))), steps
            assert len(steps) >= 8 and "stem_conv" in steps[0] and "softmax" in steps[-1], steps
    print("2 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    os.environ.pop("RANGES", None)
    main()
