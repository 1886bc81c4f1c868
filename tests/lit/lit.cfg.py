"""lit configuration: how the tests below run the compiler and what they may require.

Run by hand, from the root of the tree:
    python3 /usr/lib/llvm-14/build/utils/lit/lit.py -sv tests/lit/passes
    ... -Dbuild=build-dev    for another build folder

Substitutions: %tenon, %FileCheck, %not, %python (with the packages of
scripts/requirements.txt), %cxx, %cc, %clang, %nvcc, %source_root, and lit's own
%s, %S, %t, %T. FileCheck, not and count may also be written plainly.

Features, for REQUIRES lines: nvcc, cuobjdump, gpu, clang, gxx-11, cuda-headers-12.2,
cuda-headers-12.6, asan, avx2.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import lit.formats

# `config` and `lit_config` are put in scope by lit.
here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent
build = (root / lit_config.params.get("build", "build")).resolve()
llvm = pathlib.Path(lit_config.params.get("llvm", "/usr/lib/llvm-14"))

config.name = "tenon"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tn", ".test", ".py", ".c", ".cpp", ".cu"]
config.excludes = ["Inputs", "lit.cfg.py", "CMakeLists.txt"]
config.test_source_root = str(here)
config.test_exec_root = str(build / "tests" / "lit")

# A test sees the same environment whoever runs it.
path = [str(llvm / "bin"), os.environ["PATH"]]
nvcc = None
for candidate in (
    shutil.which("nvcc"),
    "/usr/local/cuda/bin/nvcc",
    str(root / ".cuda" / "bin" / "nvcc"),
):
    if candidate and os.access(candidate, os.X_OK):
        nvcc = candidate
        path.insert(0, os.path.dirname(candidate))
        break
cuobjdump = None
for candidate in (
    shutil.which("cuobjdump"),
    "/usr/local/cuda/bin/cuobjdump",
    str(root / ".cuobjdump" / "bin" / "cuobjdump"),
):
    if candidate and os.access(candidate, os.X_OK):
        cuobjdump = candidate
        path.append(os.path.dirname(candidate))
        break
config.environment["PATH"] = os.pathsep.join(path)
config.environment["LC_ALL"] = "C.UTF-8"
config.environment["PYTHONDONTWRITEBYTECODE"] = "1"
for name in ("HOME", "CXX", "TENON_CXX", "CCACHE_DIR", "ASAN_OPTIONS", "UBSAN_OPTIONS",
             "CUDA_VISIBLE_DEVICES"):  # fmt: skip
    if name in os.environ:
        config.environment[name] = os.environ[name]

tenon = build / "tenon"
if not os.access(tenon, os.X_OK):
    lit_config.fatal(f"{tenon} is missing: build it first, or name another folder by -Dbuild=DIR")

venv_python = root / ".venv" / "bin" / "python3"
python = str(venv_python) if venv_python.exists() else sys.executable
clang = shutil.which("clang++") or shutil.which("clang++-14") or str(llvm / "bin" / "clang++")

# Longer names first: lit replaces text, and %t is a prefix of %tenon.
config.substitutions += [
    (r"%tenon\b", str(tenon)),
    (r"%FileCheck\b", str(llvm / "bin" / "FileCheck")),
    (r"%not\b", str(llvm / "bin" / "not")),
    (r"%python\b", python),
    (r"%source_root\b", str(root)),
    (r"%cxx\b", shutil.which("g++") or "g++"),
    (r"%cc\b", shutil.which("gcc") or "gcc"),
    (r"%clang\b", clang),
    (r"%nvcc\b", nvcc or "nvcc"),
]


def has_gpu() -> bool:
    smi = shutil.which("nvidia-smi")
    return bool(smi) and subprocess.run([smi, "-L"], capture_output=True).returncode == 0


def cpu_has(flag: str) -> bool:
    try:
        return flag in pathlib.Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False


features = {
    "nvcc": nvcc is not None,
    "cuobjdump": cuobjdump is not None,
    "gpu": nvcc is not None and has_gpu(),
    "clang": os.access(clang, os.X_OK),
    "gxx-11": shutil.which("g++-11") is not None,
    "cuda-headers-12.2": (root / ".deps" / "cuda-12.2" / "include").is_dir(),
    "cuda-headers-12.6": (root / ".deps" / "cuda-12.6" / "include").is_dir(),
    "asan": "TENON_SANITIZE:BOOL=ON" in (build / "CMakeCache.txt").read_text()
    if (build / "CMakeCache.txt").exists()
    else False,
    "avx2": cpu_has("avx2"),
}
config.available_features.update(name for name, present in features.items() if present)
