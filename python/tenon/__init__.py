"""Tenon: ONNX models compiled ahead of time to one C++ or CUDA file, from Python.

    import tenon
    model = tenon.compile("model.onnx", target="cpu:native", ranges={"batch": (1, 8)})
    y = model(x)

`compile` gives a `Module`, which is called with numpy, torch, CuPy or JAX arrays; `generate` gives the files
that `tenon compile` writes. `tenon.backend` is ONNX's backend interface, and `torch.compile(module,
backend="tenon")` uses `tenon.dynamo`. `python -m tenon.demo` shows it at work.
"""

from .compiler import compile, generate, load, targets, version
from .errors import BuildError, CompileError, InputError, RunError, TenonError, ToolMissing
from .interface import Decoder, Dimension, Extent, Interface, Port
from .module import Context, Module
from .report import Fusion, Layer, Report

__version__ = version()
__all__ = [
    "BuildError",
    "CompileError",
    "Context",
    "Decoder",
    "Dimension",
    "Extent",
    "Fusion",
    "InputError",
    "Interface",
    "Layer",
    "Module",
    "Port",
    "Report",
    "RunError",
    "TenonError",
    "ToolMissing",
    "compile",
    "generate",
    "load",
    "targets",
    "version",
]
