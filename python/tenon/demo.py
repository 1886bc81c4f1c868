"""Compiles a small network and shows what became of it: `python -m tenon.demo`."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np

import tenon

# Darkness goes from 0 (' ') over 8 ('+') to 16 ('#').
_THREE = ["  +##+  ", "  ++##  ", "    ##  ", "   ##+  ", "   +##  ", "     ## ", "  + +#+ ", "  ###+  "]


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    model = Path(__file__).parent / "data" / "digits.onnx"
    began, start = time.time(), time.perf_counter()
    digits = tenon.compile(model, fallback="interpreter")
    is_cached = digits.folder is not None and digits.folder.stat().st_mtime < began - 1
    done = "loaded from the cache" if is_cached else "compiled, built and loaded" if digits.folder else "read"
    print(f"{done} in {time.perf_counter() - start:.2f} s\n")
    print(digits, "\n")

    image = np.array([[{" ": 0, "+": 8, "#": 16}[c] for c in row] for row in _THREE], np.float32)
    print("\n".join(_THREE))
    batch = image.reshape((1, 1, 8, 8))
    probabilities = digits(batch)
    best = int(probabilities.argmax())
    print(f"\nthis is a {best} ({probabilities.reshape(-1)[best]:.1%})")

    count = 2000 if digits.folder else 20
    start = time.perf_counter()
    for _ in range(count):
        digits(batch)
    print(f"{(time.perf_counter() - start) / count * 1e6:.1f} us a call from Python\n")
    print(digits.report)
    if digits.folder:
        print(f"\nthe generated file, which needs nothing but a compiler: {next(digits.folder.glob('*.cpp'))}")


if __name__ == "__main__":
    main()
