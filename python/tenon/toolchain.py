"""The system's compilers: which there are, and how a generated file becomes a shared library."""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from .errors import BuildError, ToolMissing


def compiler_for(cuda: bool) -> str:
    """The path of nvcc or of the C++ compiler: NVCC or CXX, else what PATH has.

    Raises:
        ToolMissing: there is none.
    """
    variable = "NVCC" if cuda else "CXX"
    names = ["nvcc", "/usr/local/cuda/bin/nvcc"] if cuda else ["c++", "g++", "clang++"]
    named = os.environ.get(variable)
    found = next((path for name in ([named] if named else names) if (path := shutil.which(name))), None)
    if found:
        return found
    if named:
        raise ToolMissing(f"{variable} names '{named}', which is no program")
    if cuda:
        raise ToolMissing("no nvcc was found in PATH or /usr/local/cuda/bin: install the CUDA toolkit, or "
                          "name it in NVCC")  # fmt: skip
    raise ToolMissing("no C++ compiler was found: install one (apt install g++, dnf install gcc-c++), or name "
                      "it in CXX; target='interpreter' runs the model without one, slowly")  # fmt: skip


@functools.cache
def _version(path: str, changed: int) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace")
    return done.stdout + done.stderr


def compiler_version(path: str) -> str:
    """What it says of itself; asked once for each compiler that is installed."""
    return _version(path, os.stat(path).st_mtime_ns)


def no_gpu() -> str:
    """Why no GPU runs here what nvcc makes; empty where one does, or where NVCC names a compiler whose programs
    need none (it answers "emulated" to --tenon-devices)."""
    named = shutil.which(os.environ.get("NVCC") or "")
    if named:
        asked = subprocess.run([named, "--tenon-devices"], capture_output=True, text=True, errors="replace")
        if asked.stdout.strip() == "emulated":
            return ""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no CUDA driver (libcuda.so.1)"
    count = ctypes.c_int(0)
    if code := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return f"the CUDA driver refuses (its error {code})"
    return "" if count.value else "the CUDA driver finds none"


def check_gpu(target: str) -> None:
    """
    Raises:
        ToolMissing: no GPU is here to run what is built for a cuda target.
    """
    if reason := no_gpu():
        raise ToolMissing(f"target '{target}': no GPU is here to run it: {reason}; compile where the GPU is, name another "
                          "target such as 'cpu:native', or write the files with generate(), which needs none")  # fmt: skip


@functools.cache
def gpus() -> str:
    """The GPUs of this machine as nvidia-smi lists them; empty where it does not."""
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def build_command(compiler: str, source: Path, library: Path) -> list[str]:
    """The command that makes a shared library of a generated file, to be run in its folder: the words of its
    first line, with the pool of threads, and with nothing visible but the C interface. The files are named
    without that folder: nvcc hands words on to the linker through a shell, in which a space would part them."""
    with open(source, encoding="utf-8", errors="replace") as file:
        words = shlex.split(file.readline().removeprefix("//"))
    flags = words[1 : words.index("-c")]
    script = source.with_suffix(".map")
    prefix = source.stem
    script.write_text(f"{{ global: {prefix}_*; local: *; }};\n")
    command = [compiler, *flags]
    if source.suffix == ".cu":
        command += ["-shared", "-Xcompiler", "-fPIC", "-Xlinker", f"--version-script={script.name}"]
    else:
        command += ["-DTENON_THREADS", "-pthread", "-shared", "-fPIC", f"-Wl,--version-script={script.name}"]
    return [*command, "-I.", source.name, "-o", os.path.relpath(library, source.parent)]


def build_library(source: Path, library: Path, cuda: bool) -> None:
    """Makes the shared library `library` of the generated file `source`.

    Raises:
        ToolMissing: there is no compiler.
        BuildError: it failed.
    """
    command = build_command(compiler_for(cuda), source, library)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=source.parent,
                          stdin=subprocess.DEVNULL)  # fmt: skip
    if done.returncode != 0:
        raise BuildError(command, done.stderr + done.stdout)
