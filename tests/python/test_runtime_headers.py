"""Every header of runtime/ compiles alone, without warnings, as C++17.

Alone means that it includes what it uses: amalgamation relies on that. g++ takes each alone, those of
CUDA (in a folder cuda/, and *.cuh) against the emulator of the kernel tests, in a fifth of nvcc's
time; clang takes all others in one file, nvcc all of CUDA's.

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


def messages_of(command: list[str], text: str) -> str:
    """What the compiler says against `text`; nothing where it takes it."""
    done = subprocess.run(
        [*command, "-"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout or "no message" if done.returncode != 0 else ""


def compile_alone(header: pathlib.PurePosixPath) -> tuple[str, str, str]:
    """The header, the compiler, its messages."""
    # A file that includes the header twice also proves the include guard.
    text = f'#include "{header}"\n#include "{header}"\n'
    flags = EMULATED_FLAGS if is_cuda(header) else CXX_FLAGS
    return str(header), "g++", messages_of(["g++", *flags], text)


def compile_together(what: str, compiler: str, flags: list[str], headers: list[pathlib.PurePosixPath]):
    text = "".join(f'#include "{header}"\n' for header in headers)
    return f"all headers {what}", compiler, messages_of([compiler, *flags], text)


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
    others = [header for header in headers if not is_cuda(header)]
    clang = shutil.which("clang++") or "clang++-14"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        together = []
        if cuda:
            together.append(pool.submit(compile_together, "of CUDA", nvcc(), NVCC_FLAGS, cuda))
        if others:
            together.append(pool.submit(compile_together, "but CUDA's", clang, CXX_FLAGS, others))
        results = list(pool.map(compile_alone, headers)) + [done.result() for done in together]
    for what, name, message in results:
        passed, failed = passed + (not message), failed + bool(message)
        if message:
            print(f"FAILED: {what} under {name}\n{message}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
