"""Whether a generated CUDA file is C++: read by the host's compiler with the emulator's headers
(tests/cuda/emulator), templates instantiated, nothing written. A second where building the file
for the emulator takes twenty."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cuda_fault(file, level):
    """None, or the first error in `file`, written with --runtime=include for `level` (sm_90a)."""
    machine = re.fullmatch(r"sm_(\d+)(a?)", level)
    command = [
        os.environ.get("CXX", "c++"), "-std=c++17", "-fsyntax-only", "-w", "-fmax-errors=1",
        f"-I{ROOT / 'tests/cuda/emulator'}", f"-I{ROOT / 'runtime'}", f"-I{Path(file).parent}",
        "-DTENON_SIMD_WIDTH=1", f"-DTENON_EMULATED_ARCH={machine[1]}0",
        f"-DTENON_EMULATED_SPECIFIC={len(machine[2])}", "-x", "c++", str(file),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return (errors or [done.stderr.strip()])[0].replace(f"{ROOT}/", "")
