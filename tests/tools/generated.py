"""Generated C++ as a shared library: compiled by tenon and by the system compiler, called by ctypes."""

import _ctypes
import ctypes
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tenon import build_flags, tenon


class BuildError(Exception):
    pass


def compile_model(model, source, *words, timeout=600):
    """`tenon compile`; returns its answer."""
    answer = tenon("compile", model, "-o", source, *words, timeout=timeout)
    if answer.status != 0:
        raise BuildError(answer.reason)
    return answer


def build_library(source, optimise="-O3", extra=()):
    """The generated file as a shared library beside it."""
    source = Path(source)
    library = source.with_suffix(".so")
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-std=c++17", optimise, *build_flags(source), *extra, "-shared", "-fPIC",
               f"-I{source.parent}", source.name, "-o", library.name]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True)
    if done.returncode != 0:
        first = next((l for l in done.stderr.splitlines() if "error" in l), done.stderr[-200:])
        raise BuildError(f"{compiler}: {first}")
    return library


@dataclass
class Port:
    """An input or output as the generated header describes it."""

    name: str
    type: str
    shape: tuple
    size: int
    bytes: int


class Interface:
    """The inputs and outputs that a generated header declares, in order."""

    def __init__(self, header):
        macros = dict(re.findall(r"^#define (\w+) (.+)$", Path(header).read_text(), re.MULTILINE))
        stems = [name[: -len("_INDEX")] for name in macros if name.endswith("_INDEX")]
        ports = [self.port(macros, stem) for stem in stems if f"{stem}_BYTES" in macros]
        count = next(int(v) for name, v in macros.items() if name.endswith("_INPUT_COUNT"))
        self.inputs, self.outputs = ports[:count], ports[count:]
        numbered = ((re.fullmatch(r"\w+?_DIM_(\w+)", name), value) for name, value in macros.items())
        self.dims = {found[1]: int(value) for found, value in numbered
                     if found and value.isdigit()}  # fmt: skip

    @staticmethod
    def port(macros, stem):
        def text(word):
            quoted = macros[f"{stem}_{word}"]
            return quoted[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")

        def number(word):
            return int(macros[f"{stem}_{word}"])

        extents = [int(extent) for extent in re.findall(r"\d+", macros[f"{stem}_SHAPE"])]
        shape = tuple(extents[: number("RANK")])  # C has no empty array: a scalar's is {1}
        return Port(text("NAME"), text("TYPE"), shape, number("SIZE"), number("BYTES"))


class Options(ctypes.Structure):
    """<prefix>_options of a generated header."""

    _fields_ = [("size", ctypes.c_size_t), ("weights_path", ctypes.c_char_p), ("weights", ctypes.c_void_p),
                ("weights_bytes", ctypes.c_size_t), ("device", ctypes.c_int), ("threads", ctypes.c_int),
                ("allocate", ctypes.c_void_p), ("release", ctypes.c_void_p), ("user", ctypes.c_void_p)]  # fmt: skip


class Model:
    """One context of a generated model, of a CUDA one on `device`. Inputs and outputs are arrays in
    order of declaration."""

    def __init__(self, library, prefix=None, device=None):
        library = Path(library).resolve()
        self.prefix = prefix or library.stem
        self.shared = ctypes.CDLL(str(library))
        self.function("error_message").restype = ctypes.c_char_p
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        weights = library.with_suffix(".weights")
        options = Options(size=ctypes.sizeof(Options), device=device or 0,
                          weights_path=str(weights).encode() if weights.exists() else None)  # fmt: skip
        self.check(self.function("model_open")(ctypes.byref(options), ctypes.byref(self.model)))
        create = self.function("context_create")
        self.check(create(self.model, ctypes.byref(self.context)))
        self.run_function = self.function("run")

    def function(self, name):
        return getattr(self.shared, f"{self.prefix}_{name}")

    def check(self, code):
        if code != 0:
            message = self.function("error_message")(ctypes.c_int(code)) or b""
            raise RuntimeError(f"{self.prefix}: {message.decode(errors='replace')} (code {code})")

    def set_threads(self, threads):
        """Worker threads of the next runs; the library was built with -DTENON_THREADS."""
        self.check(self.function("context_set_threads")(self.context, ctypes.c_int(threads)))

    def set_dim(self, dim, extent):
        """Sets a run-time dimension, by its number, for the next runs."""
        self.check(self.function("set_dim")(self.context, ctypes.c_int(dim), ctypes.c_long(extent)))

    def bind(self, inputs, outputs):
        """Keeps the arrays for `run`; they must be C-contiguous."""
        assert all(array.flags.c_contiguous for array in [*inputs, *outputs])
        self.arrays = [*inputs, *outputs]

        def pointers(arrays):
            return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))

        self.inputs, self.outputs = pointers(inputs), pointers(outputs)

    def run(self):
        self.check(self.run_function(self.context, self.inputs, self.outputs))

    def output_shape(self, output):
        """Extents of an output; of the last run where they depend on data."""
        query = self.function("output_dim")
        query.restype = ctypes.c_long
        shape = []
        while (extent := query(self.context, output, len(shape))) >= 0:
            shape.append(extent)
        return shape

    def close(self):
        """Ends the context and the model, and unloads the library, which another of its name may replace."""
        self.function("context_destroy")(self.context)
        self.function("model_close")(self.model)
        _ctypes.dlclose(self.shared._handle)


def symbol_bindings(model, inputs):
    """{symbol: extent} of the declared symbolic dimensions, as the arrays have them."""
    found = {}
    for info in model.graph.input:
        if info.name not in inputs:
            continue
        for dim, extent in zip(info.type.tensor_type.shape.dim, inputs[info.name].shape):
            if dim.WhichOneof("value") == "dim_param":
                found[dim.dim_param] = extent
    return found


def empty_like(arrays):
    return [np.zeros(array.shape, array.dtype) for array in arrays]
