"""Runs scripts/check-house, and shows that it sees what it is for: long functions in each of their
shapes, a schedule's key that is read by string, a family that includes another, one without a row or with a file of
another name, a tactic's id elsewhere, a family whose test or kernel is another's concern, a list that is longer than
what is there."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def load():
    loader = importlib.machinery.SourceFileLoader("house", str(ROOT / "scripts/check-house"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("house", loader))
    loader.exec_module(module)
    return module


LONG = "\n".join(["  int x = 0;"] * 120)
SHAPES = {
    "f": f"int f(int a) {{\n{LONG}\n}}\n",
    "A::g": f"void A::g(const T &a,\n          int b) const {{\n{LONG}\n}}\n",
    "h": f"struct S {{\n  bool h() {{\n{LONG}\n  }}\n}};\n",
}
NONE = {
    "a table": f"constexpr Row kRows[] = {{\n{LONG}\n}};\n",
    "a class": f"class A : public B {{\n{LONG}\n}};\n",
    "a namespace": f"namespace {{\n{LONG}\n}}\n",
}
# What a file includes, and how many of it the table forbids.
INCLUDES = {
    "runtime/cuda/a/kernel.cuh": ('#include "cuda/tile/loader.cuh"\n#include "common/base.h"\n', 0),
    "runtime/cuda/a/other.cuh": ('#include "cuda/a/kernel.cuh"\n#include "cuda/b/kernel.cuh"\n', 1),
    "runtime/cuda/b/kernel.cuh": ('#include "cuda/host/launch.h"\n', 1),
    "runtime/cuda/tile/loader.cuh": ('#include "cuda/a/kernel.cuh"\n', 1),
    "runtime/cuda/host/launch.h": ('#include "common/base.h"\n', 0),
    "runtime/common/base.h": ("", 0),
    "codegen/cuda/a/Tactic.cpp": ('#include "codegen/cuda/shared/Common.h"\n#include "codegen/core/Work.h"\n', 0),
    "codegen/cuda/b/Tactic.cpp": ('#include "codegen/cuda/a/Problem.h"\n#include "codegen/schedule/Schedule.h"\n', 2),
    "codegen/cuda/shared/Common.h": ('#include "codegen/cpu/shared/Tile.h"\n', 1),
    "codegen/core/Work.h": ('#include "codegen/memory/Plan.h"\n', 1),
    "tools/Program.cpp": ('#include "codegen/core/Work.h"\n#include "codegen/cuda/program/Program.h"\n', 1),
}


def check_includes(house, folder):
    """What the rule finds in a tree of INCLUDES, where that is not what it should."""
    house.ROOT, found = folder, {}
    for name, (text, _) in INCLUDES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    house.count_includes(found)
    return [f"{name}: {found.get(('includes', name), 0)} forbidden includes, expected {wrong}"
            for name, (_, wrong) in INCLUDES.items() if found.get(("includes", name), 0) != wrong]  # fmt: skip


TACTIC = 'struct A {\n  static constexpr llvm::StringLiteral id = "a_sm80";\n};\nconst Tactic &kA = kTacticOf<A>;\n'
# Families as they should be, what is put in a file then, and what the rule says of it.
FAMILY = {
    "codegen/cuda/Families.def": "TENON_TACTIC(a, kA)\n",
    "codegen/cuda/a/Tactic.cpp": TACTIC,
    "codegen/cuda/a/Sm90.cpp": "const Tactic &kB = kTacticOf<B>;\n",
    "runtime/cuda/a/kernel.cuh": "",
    "runtime/cuda/c/kernel.cuh": "",
    "tests/cuda/a/test.cu": '#include "cuda/a/kernel.cuh"\n',
    "codegen/cuda/shared/Common.cpp": "",
    "tools/Report.cpp": '// "a_sm80"\n',
}
BROKEN = [
    ("codegen/cuda/Families.def", "TENON_TACTIC(a, kC)\n", ("rows", "codegen/cuda/Families.def")),
    ("codegen/cuda/Families.def", "TENON_TACTIC(a, kA)\nTENON_TACTIC(b, kA)\n", ("rows", "codegen/cuda/Families.def")),
    ("codegen/cuda/b/Tactic.cpp", "", ("rows", "codegen/cuda/Families.def")),
    ("tools/Report.cpp", 'if (id == "a_sm80")\n', ("rows", "tools/Report.cpp")),
    ("codegen/cuda/a/Helpers.cpp", "int f();\n", ("names", "codegen/cuda/a")),
    ("codegen/cuda/a/Tactic.h", "", ("names", "codegen/cuda/a")),
    ("runtime/cuda/a/sizes.h", "", ("names", "runtime/cuda/a")),
    ("runtime/cuda/b/sm90.cuh", "", ("names", "runtime/cuda/b")),
    ("tests/cuda/a/more.cu", "", ("names", "tests/cuda/a")),
    ("tests/cuda/a/test.cu", '#include "cuda/c/kernel.cuh"\n', ("alone", "tests/cuda/a/test.cu")),
    ("codegen/cuda/a/Tactic.cpp", TACTIC + 'out.include("cuda/c/kernel.cuh");\n', ("alone", "codegen/cuda/a/Tactic.cpp")),
    ("codegen/cuda/program/Program.cpp", 'out.include("cuda/a/kernel.cuh");\n', ("alone", "codegen/cuda/program/Program.cpp")),
    ("codegen/cuda/TensorCores.cpp", "&kA\n", ("alone", "codegen/cuda/TensorCores.cpp")),
]
# What codegen/cuda/shared launches is mechanism for all.
WHOLE = [("tools/Report.cpp", FAMILY["tools/Report.cpp"], None),
         ("codegen/cuda/shared/Common.cpp", 'out.include("cuda/c/kernel.cuh");\n', None)]  # fmt: skip


def check_families(house):
    """What the rules about rows and names find where one thing is broken, where that is not what it should be."""
    failures = []
    for name, text, where in [*WHOLE, *BROKEN]:
        with tempfile.TemporaryDirectory(prefix="tenon-house-") as scratch:
            house.ROOT, found = Path(scratch), {}
            for file, content in {**FAMILY, name: text}.items():
                path = house.ROOT / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            house.count_rows(found)
            house.count_names(found)
            house.count_alone(found)
        if found != ({where: 1} if where else {}):
            failures.append(f"{name} with {text!r}: {found}")
    return failures


def main():
    house, failures = load(), []
    with tempfile.TemporaryDirectory(prefix="tenon-house-") as scratch:
        failures += check_includes(house, Path(scratch))
    failures += check_families(house)
    for name, text in SHAPES.items():
        found = [n for n, length in house.functions(text) if length > house.LONGEST]
        if found != [name]:
            failures.append(f"{name}: found {found}")
    for name, text in NONE.items():
        if any(length > house.LONGEST for _, length in house.functions(text)):
            failures.append(f"{name} was taken for a function")
    with tempfile.TemporaryDirectory(prefix="tenon-house-") as scratch:
        house.ROOT, house.LIST = Path(scratch), Path(scratch) / "list.txt"
        (Path(scratch) / "codegen").mkdir()
        source = Path(scratch) / "codegen/A.cpp"
        source.write_text('int64_t f(Schedule s) {\n  return *s.get("tile_m");\n}\n')
        sys.argv = ["check-house"]
        if house.main() != 1:
            failures.append("a key that is read by string passed")
        house.LIST.write_text("keys codegen/A.cpp 1\n")
        if house.main() != 0:
            failures.append("a listed exception failed")
        house.LIST.write_text("keys codegen/A.cpp 2\n")
        if house.main() != 1:
            failures.append("a list that is too long passed")
    done = subprocess.run([ROOT / "scripts/check-house"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        failures.append(done.stdout)
    done = subprocess.run([ROOT / "scripts/check-house", "--family=softmax"], stdout=subprocess.PIPE, text=True)
    if done.returncode or "  codegen/cuda/softmax/Tactic.cpp  " not in done.stdout:
        failures.append(done.stdout)
    print("\n".join(failures))
    total = len(SHAPES) + len(NONE) + len(INCLUDES) + len(WHOLE) + len(BROKEN) + 5
    print(f"{total - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
