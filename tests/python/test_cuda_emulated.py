"""Small modules through `tenon run --target=cuda:…` against the interpreter, group by group, on the
CPU: tests/tools/emulated-nvcc builds what is generated against the emulator of the kernel tests.

What it proves beside the kernels' own tests: that tactics call them rightly, the plan of memory
and branches, the context's graph, run-time dimensions.

usage: test_cuda_emulated.py [GLOB]    cases by name
"""

import fnmatch
import os
import random
import re
import struct
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))

from tenon import tenon

os.environ["NVCC"] = str(ROOT / "tests/tools/emulated-nvcc")
CASES = Path(__file__).resolve().parents[1] / "cuda"


def with_literals(text, generator):
    """Replaces random<…x…xf32> by literals of the side file; its bytes. Floats are at most 1,
    bytes anything, other integers those of biases."""
    data = bytearray()

    def literal(match):
        *extents, element = match.group(1).split("x")
        count = 1
        for extent in extents:
            count *= int(extent)
        data.extend(b"\0" * (-len(data) % 64))
        at = len(data)
        if element == "i4":  # two in a byte
            data.extend(generator.randbytes((count + 1) // 2))
            return f"data<{match.group(1)}: {at}>"
        for _ in range(count):
            if element in ("i8", "i32"):
                data.extend(struct.pack("<b", generator.randint(-128, 127)) if element == "i8"
                            else struct.pack("<i", generator.randint(-30000, 30000)))  # fmt: skip
                continue
            value = generator.uniform(-1, 1)
            if element == "f8e4m3":  # finite numbers: all ones is NaN
                data.append(generator.choice((0, 128)) + generator.randint(0, 72))
                continue
            if element == "bf16":  # the upper half of an f32
                data.extend(struct.pack("<f", value)[2:])
            else:
                data.extend(struct.pack({"f32": "<f", "f16": "<e"}[element], value))
        return f"data<{match.group(1)}: {at}>"

    return re.sub(r"random<([^>]*)>", literal, text), bytes(data)


def cases(glob):
    """(name, text, target, words, expected words of the scheduled text): one for each RUN line. An
    EXPECT line holds for a target, for the RUN line of a number (from 0), or for all (`*`); behind !
    stands what must not be there."""
    for path in sorted(CASES.glob("*/*.tn")):
        text = path.read_text()
        for number, line in enumerate(re.findall(r"^// RUN: (.*)$", text, re.MULTILINE)):
            target, *words = line.split()
            expected = re.findall(r"^// EXPECT: (.*)$", text, re.MULTILINE)
            name = f"{path.stem}.{number}"
            if fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(path.stem, glob):
                yield name, text, target, words, expected


def run(case):
    """None, or why the case failed."""
    name, text, target, words, expected = case
    text, data = with_literals(text, random.Random(name))
    with tempfile.TemporaryDirectory(prefix="tenon-emulated-") as folder:
        path = Path(folder) / "case.tn"
        path.write_text(text)
        Path(f"{path}.data").write_bytes(data)
        compiling = [w for w in words if not w.startswith(("--tolerance", "--group-tolerance"))]
        answer = tenon("compile", path, f"--target={target}", "--emit=tn", "-o", "-", *compiling)
        if answer.status:
            return answer.errors.strip()
        for line in expected:
            where, word = line.split(maxsplit=1)
            found = word.lstrip("!") in answer.output
            if where in (target, "*", name.split(".")[-1]) and found == word.startswith("!"):
                return f"the scheduled module: {word} expected"
        answer = tenon("run", path, f"--target={target}", "--runtime=include",
                       "--against=interpreter", "--check=groups", "--seeds=2", *words)
        return answer.errors or answer.output if answer.status else None


def main():
    glob = sys.argv[1] if len(sys.argv) > 1 else "*"
    chosen = list(cases(glob))
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for case, reason in zip(chosen, pool.map(run, chosen)):
            if reason:
                failed += 1
                print(f"FAIL {case[0]} {case[2]}: {reason.strip()}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
