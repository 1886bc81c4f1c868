"""Every header of runtime/ compiles alone, without warnings, as C++17 under g++ and clang.

Alone means that it includes what it uses: amalgamation relies on that. Headers in a
folder cuda/, and *.cuh, are compiled by nvcc for the oldest architecture instead.

usage: test_runtime_headers.py [GLOB]    a part of them: 'cpu/*'
"""

import concurrent.futures
import fnmatch
import os
import pathlib
import shutil
import subprocess
import sys

root = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
runtime = root / "runtime"

CXX_FLAGS = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", f"-I{root}",
             f"-I{runtime}", "-x", "c++"]  # fmt: skip
NVCC_FLAGS = ["-std=c++17", "-arch=sm_80", "-Xcompiler=-Wall,-Wextra", "-Werror=all-warnings",
              f"-I{root}", f"-I{runtime}", "-x", "cu", "-cuda", "-o", os.devnull]  # fmt: skip


def compilers(header: pathlib.PurePosixPath) -> list[tuple[str, list[str]]]:
    """Which compilers, with which flags, take this header."""
    if header.suffix == ".cuh" or "cuda" in header.parts:
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.access(nvcc, os.X_OK):
            nvcc = str(root / ".cuda" / "bin" / "nvcc")
        return [("nvcc", [nvcc, *NVCC_FLAGS])]
    clang = shutil.which("clang++") or "clang++-14"
    return [("g++", ["g++", *CXX_FLAGS]), ("clang++", [clang, *CXX_FLAGS])]


def compile_alone(header: pathlib.PurePosixPath) -> list[tuple[str, str]]:
    """The messages of each compiler, with its name; no message where all is well."""
    messages = []
    for name, command in compilers(header):
        # A file that includes the header twice also proves the include guard.
        text = f'#include "{header}"\n#include "{header}"\n'
        done = subprocess.run(
            [*command, "-"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        messages.append((name, done.stdout if done.returncode != 0 else ""))
    return messages


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    headers = sorted(
        pathlib.PurePosixPath(path.relative_to(runtime).as_posix())
        for suffix in ("*.h", "*.cuh")
        for path in runtime.rglob(suffix)
    )
    headers = [header for header in headers if fnmatch.fnmatch(str(header), pattern)]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for header, messages in zip(headers, pool.map(compile_alone, headers)):
            for name, message in messages:
                if message:
                    failed += 1
                    print(f"FAILED: {header} under {name}\n{message}")
                else:
                    passed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
