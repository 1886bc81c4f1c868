"""Every header of runtime/ compiles alone, without warnings, as C++17.

Alone means that it includes what it uses: amalgamation relies on that. g++ takes each with nothing
before it, those of CUDA (in a folder cuda/, and *.cuh) against the emulator of the kernel tests, in a
fifth of nvcc's time: a header that another one includes before anything else is at the start of that
one's file, and needs none of its own. clang takes all others in one file, nvcc all of CUDA's.

usage: test_runtime_headers.py [GLOB]    a part of them: 'cpu/*'
"""

import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys

root = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
runtime = root / "runtime"

CXX_FLAGS = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", f"-I{root}",
             f"-I{runtime}", "-x", "c++"]  # fmt: skip
EMULATED_FLAGS = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas",
                  "-DTENON_EMULATED_ARCH=800", "-DTENON_EMULATED_SPECIFIC=0", "-DTENON_SIMD_WIDTH=1",
                  f"-I{root / 'tests/cuda/emulator'}", f"-I{root}", f"-I{runtime}", "-x", "c++"]  # fmt: skip
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


def first_included(header: pathlib.PurePosixPath) -> "pathlib.PurePosixPath | None":
    """What the header includes before it has any other line of code, when it is of runtime/."""
    stand_in = root / "tests/cuda/emulator" / header
    path = stand_in if is_cuda(header) and stand_in.exists() else runtime / header
    for line in path.read_text().splitlines():
        if line.strip() and not re.match(r"//|#(ifndef|define) \w+_(H|CUH)$", line):
            found = re.match(r'#include "(.*)"', line)
            return pathlib.PurePosixPath(found.group(1)) if found else None
    return None


def chains(headers: list[pathlib.PurePosixPath]) -> list[list[pathlib.PurePosixPath]]:
    """The headers, each once or more: the second of a list is what the first includes first, and so on."""
    known = set(headers)
    found = []
    for header in headers:
        chain = [header]
        while (first := first_included(chain[-1])) in known and is_cuda(first) == is_cuda(header):
            chain.append(first)
        found.append(chain)
    inner = {header for chain in found for header in chain[1:]}
    return [chain for chain in found if chain[0] not in inner]


def compile_alone(chain: list[pathlib.PurePosixPath]) -> tuple[str, str, str]:
    """The header at the head of the chain, the compiler, its messages."""
    # A file that includes the headers twice also proves the include guards.
    text = "".join(f'#include "{header}"\n' for header in [chain[0], *chain])
    flags = EMULATED_FLAGS if is_cuda(chain[0]) else CXX_FLAGS
    return str(chain[0]), "g++", messages_of(["g++", *flags], text)


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
    failed = 0
    cuda = [header for header in headers if is_cuda(header)]
    others = [header for header in headers if not is_cuda(header)]
    clang = shutil.which("clang++") or "clang++-14"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        together = []
        if cuda:
            together.append(pool.submit(compile_together, "of CUDA", nvcc(), NVCC_FLAGS, cuda))
        if others:
            together.append(pool.submit(compile_together, "but CUDA's", clang, CXX_FLAGS, others))
        results = list(pool.map(compile_alone, chains(headers))) + [done.result() for done in together]
    passed = len(headers) + len(together)
    for what, name, message in results:
        if message:
            passed, failed = passed - 1, failed + 1
            print(f"FAILED: {what} under {name}\n{message}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
