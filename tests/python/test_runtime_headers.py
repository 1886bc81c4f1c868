"""Every header of runtime/ compiles alone, without warnings, as C++17 under g++ and clang.

Alone means that it includes what it uses: amalgamation relies on that. Headers of CUDA (in a folder
cuda/, and *.cuh) are compiled alone by g++ against the emulator of the kernel tests, in a fifth of
nvcc's time; nvcc itself takes all of them in one file.

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
EMULATED_FLAGS = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas",
                  "-DTENON_EMULATED_ARCH=800", "-DTENON_EMULATED_SPECIFIC=0", "-DTENON_SIMD_WIDTH=1",
                  f"-I{root / 'tests/unit/cuda/emulator'}", f"-I{root}", f"-I{runtime}", "-x", "c++"]  # fmt: skip
NVCC_FLAGS = ["-std=c++17", "-arch=sm_80", "-Xcompiler=-Wall,-Wextra", "-Werror=all-warnings",
              f"-I{root}", f"-I{runtime}", "-x", "cu", "-cuda", "-o", os.devnull]  # fmt: skip


def is_cuda(header: pathlib.PurePosixPath) -> bool:
    return header.suffix == ".cuh" or "cuda" in header.parts


def nvcc() -> str:
    found = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    return found if os.access(found, os.X_OK) else str(root / ".cuda" / "bin" / "nvcc")


def compilers(header: pathlib.PurePosixPath) -> list[tuple[str, list[str]]]:
    """Which compilers, with which flags, take this header alone."""
    if is_cuda(header):
        return [("g++", ["g++", *EMULATED_FLAGS])]
    clang = shutil.which("clang++") or "clang++-14"
    return [("g++", ["g++", *CXX_FLAGS]), ("clang++", [clang, *CXX_FLAGS])]


def messages_of(command: list[str], text: str) -> str:
    """What the compiler says against `text`; nothing where it takes it."""
    done = subprocess.run(
        [*command, "-"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout or "no message" if done.returncode != 0 else ""


def compile_alone(header: pathlib.PurePosixPath) -> list[tuple[str, str, str]]:
    """(header, compiler, its messages) of each compiler."""
    # A file that includes the header twice also proves the include guard.
    text = f'#include "{header}"\n#include "{header}"\n'
    return [(str(header), name, messages_of(command, text)) for name, command in compilers(header)]


def compile_together(headers: list[pathlib.PurePosixPath]) -> list[tuple[str, str, str]]:
    text = "".join(f'#include "{header}"\n' for header in headers)
    return [("all headers of CUDA", "nvcc", messages_of([nvcc(), *NVCC_FLAGS], text))]


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    headers = sorted(
        pathlib.PurePosixPath(path.relative_to(runtime).as_posix())
        for suffix in ("*.h", "*.cuh")
        for path in runtime.rglob(suffix)
    )
    headers = [header for header in headers if fnmatch.fnmatch(str(header), pattern)]
    passed = failed = 0
    cuda = [header for header in headers if is_cuda(header)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        together = pool.submit(compile_together, cuda) if cuda else None
        results = [result for found in pool.map(compile_alone, headers) for result in found]
        results += together.result() if together else []
    for what, name, message in results:
        passed, failed = passed + (not message), failed + bool(message)
        if message:
            print(f"FAILED: {what} under {name}\n{message}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
