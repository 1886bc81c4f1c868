"""ONNX's backend interface (`onnx.backend.base`), so that ONNX's own test runner and other tools can use Tenon.

    import tenon.backend as backend
    outputs = backend.prepare(model, device="CPU").run([x])

Needs the onnx package. Keywords are options of `tenon.compile`, `target` among them; the environment variable
TENON_BACKEND_TARGET names another target than the device's ("CPU": cpu:native, "CUDA": cuda:native)."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

from . import toolchain
from .compiler import compile
from .errors import CompileError, ToolMissing
from .module import Module

__all__ = ["TenonBackend", "TenonBackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]

# What a refusal says where a value is needed to compile, and where the model is beyond what Tenon does.
_NEEDS_VALUE, _BEYOND = re.compile(r"\bbind\b|\bconstants=\{"), "not supported"
_FEW = 64  # elements of an input that may say a shape, axes or a count


class TenonBackendRep(BackendRep):
    """A model to run. Inputs on whose values shapes depend are made constants of a module that is compiled at
    the first run with these values; lists take as many inputs as they have elements.

    Attributes:
        bound: names of the inputs that were constants of the last run's module.
    """

    def __init__(self, model: onnx.ModelProto, target: str, options: dict[str, Any]):
        self._model, self._target, self._options = model, target, options
        initial = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [info for info in model.graph.input if info.name not in initial]
        self._modules: dict[Any, tuple[Module, list[str]]] = {}
        self.bound: list[str] = []
        if all(map(_has_shape, self._inputs)):
            try:
                self._modules[()] = (compile(model, target, **options), [])
            except CompileError as error:
                if not _NEEDS_VALUE.search(str(error)):
                    raise _refusal(error) from error

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in order, for inputs in order (or a dictionary by name)."""
        if isinstance(inputs, dict):
            values = dict(inputs)
        else:
            given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            values = dict(zip((info.name for info in self._inputs), given))
        lists = {info.name: _elements(values[info.name]) for info in self._inputs
                 if info.type.WhichOneof("value") != "tensor_type"}  # fmt: skip
        counts = {name: len(elements) for name, elements in lists.items()}
        tensors = {name: np.asarray(v) for name, v in values.items() if name not in lists}
        tensors |= {f"{name}[{k}]": np.asarray(v) for name, elements in lists.items() for k, v in enumerate(elements)}
        module, self.bound = self._module(counts, tensors)
        results = module({port.name: tensors[port.name] for port in module.inputs})
        return tuple(self._gathered(info, results) for info in self._model.graph.output)

    @staticmethod
    def _gathered(info: onnx.ValueInfoProto, results: dict[str, Any]) -> Any:
        """An output's value; a list of what a sequence's elements are."""
        if info.name in results:
            return results[info.name]
        elements: list[Any] = []
        while (name := f"{info.name}[{len(elements)}]") in results:
            elements.append(results[name])
        return elements

    def _module(self, counts: dict[str, int], tensors: dict[str, np.ndarray]) -> tuple[Module, list[str]]:
        """The module for lists of these lengths and, where it needs them, these values."""
        if () in self._modules and not counts:
            return self._modules[()]
        options = dict(self._options)
        # What the model does not say: how many elements lists have, and shapes.
        declared = {info.name for info in self._inputs if _has_shape(info)}
        shapes = {name: v.shape for name, v in tensors.items() if name not in declared and v.shape}
        if counts:
            options["bind"] = {**options.get("bind", {}), **counts}
        if shapes:
            options["shapes"] = {**options.get("shapes", {}), **shapes}
        whole = {name: v for name, v in tensors.items() if v.dtype.kind in "iub" and v.size <= _FEW}
        more = {**whole, **{name: v for name, v in tensors.items() if v.dtype.kind == "f" and v.size <= _FEW}}
        error: CompileError | None = None
        for bound in ({}, whole, more):
            key = (tuple(counts.items()), tuple(shapes.items()), tuple((name, v.shape, v.tobytes()) for name, v in bound.items()))
            if key in self._modules:
                return self._modules[key]
            try:
                self._modules[key] = self._compiled(options, bound), list(bound)
                return self._modules[key]
            except CompileError as refused:
                error = refused
                if not _NEEDS_VALUE.search(str(refused)):
                    break
        raise _refusal(error) from error

    def _compiled(self, options: dict[str, Any], bound: dict[str, np.ndarray]) -> Module:
        scratch = Path(tempfile.mkdtemp(prefix="tenon-"))
        try:
            files = {}
            for number, (name, value) in enumerate(bound.items()):
                files[name] = scratch / f"{number}.npy"
                np.save(files[name], value)
            constants = {**options.get("constants", {}), **files}
            return compile(self._model, self._target, **{**options, "constants": constants} if files else options)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _has_shape(info: onnx.ValueInfoProto) -> bool:
    """Whether an input is a tensor whose extents the model says."""
    tensor = info.type.tensor_type
    return (info.type.WhichOneof("value") == "tensor_type" and tensor.HasField("shape")
            and all(dim.HasField("dim_value") for dim in tensor.shape.dim))  # fmt: skip


def _elements(value: Any) -> list[Any]:
    """The elements of a sequence; of an optional what it holds, or nothing."""
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _refusal(error: CompileError | None) -> Exception:
    """What ONNX's runner skips where Tenon says that it has no such operator, else the error."""
    assert error is not None
    if _BEYOND in str(error) or _NEEDS_VALUE.search(str(error)):
        beyond: Exception = BackendIsNotSupposedToImplementIt(str(error))
        return beyond
    return error


def _target(device: str) -> str:
    named = os.environ.get("TENON_BACKEND_TARGET")
    return named or ("cuda:native" if device.upper().startswith("CUDA") else "cpu:native")


class TenonBackend(Backend):
    """Tenon as a backend; the functions of this module are its methods."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is what compiles for "CPU" or "CUDA", and a GPU for the latter."""
        kind = device.split(":")[0].upper()
        if kind not in ("CPU", "CUDA"):
            return False
        if os.environ.get("TENON_BACKEND_TARGET") == "interpreter":
            return kind == "CPU"
        try:
            toolchain.compiler_for(kind == "CUDA")
        except ToolMissing:
            return False
        return kind == "CPU" or not toolchain.no_gpu()

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the compiler takes the model."""
        try:
            cls.prepare(model, device, **kwargs)
        except (BackendIsNotSupposedToImplementIt, CompileError):
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> TenonBackendRep:
        """The model compiled.

        Raises:
            BackendIsNotSupposedToImplementIt: it has operators that Tenon does not know.
            CompileError: it is refused for another reason.
        """
        options = {name: value for name, value in kwargs.items() if name not in ("rtol", "atol", "target")}
        return TenonBackendRep(model, kwargs.get("target") or _target(device), options)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[Any, ...]:  # fmt: skip
        """Runs one node on inputs in the order of its own (missing ones left out)."""
        names = [name for name in node.input if name]
        arrays = [np.asarray(value) for value in inputs]
        declared = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                    for name, array in zip(names, arrays)]  # fmt: skip
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        model = helper.make_model(helper.make_graph([node], "node", declared, results),
                                  opset_imports=[helper.make_opsetid(node.domain, version)])  # fmt: skip
        return cls.prepare(model, device, **kwargs).run(arrays)


supports_device = TenonBackend.supports_device
is_compatible = TenonBackend.is_compatible
prepare = TenonBackend.prepare
run_model = TenonBackend.run_model
run_node = TenonBackend.run_node
