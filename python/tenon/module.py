"""Compiled models that can be called, and contexts: the memory of one run at a time."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import _native, arrays
from .arrays import Buffer, Framework
from .decoding import Decoding
from .errors import CompileError, InputError, TenonError
from .interface import Dimension, Interface, Port
from .report import Layer, Report


class Context(Decoding):
    """The memory of one run at a time, with values carried from run to run where the model has some.

    Calls are those of `Module`; one after another, from whatever thread. On a GPU a context belongs to one
    stream at a time: work on another one may begin when what was issued before is done."""

    _device: int | None = None  # the number of its GPU

    def __init__(self, interface: Interface):
        self._interface = interface
        self._lock = threading.Lock()
        self._dims: dict[str, int] = {}

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self._interface.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self._interface.outputs

    @property
    def dims(self) -> dict[str, int]:
        """Run-time dimensions that `set_dims` or the last call gave values."""
        return dict(self._dims)

    def set_dims(self, **dims: int) -> None:
        """Gives run-time dimensions their values: those that no input's shape says, and the lengths of
        caches, which a smaller value shortens.

        Raises:
            InputError: there is no such dimension, or the value is not within its bounds.
        """
        _check_dims(self._interface, dims)
        with self._lock:
            for name, value in dims.items():
                self._set_dim(name, value)

    def reset(self) -> None:
        """Clears the values carried from run to run."""
        with self._lock:
            self._reset()

    def __call__(self, *args: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """One run; see `Module.__call__`."""
        _check_stream(stream, self._device)
        return self._carry_out(_Call(self._interface, args, named, out, stream))

    def _carry_out(self, call: _Call) -> Any:
        with self._lock:
            return call.answer(self._run(call))

    def _sequence(self) -> Context:
        return self

    def __repr__(self) -> str:
        return f"<tenon.Context: {', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}>"

    def __reduce__(self) -> Any:
        raise TypeError("a tenon.Context cannot be pickled or copied: it is memory of this process; make one there")

    # What the two kinds of contexts have their own ways of.

    def _set_dim(self, name: str, value: int) -> None:
        raise NotImplementedError

    def _reset(self) -> None:
        raise NotImplementedError

    def _run(self, call: _Call) -> list[Any]:
        raise NotImplementedError

    # Of a decoder.

    def _length(self) -> int:
        raise NotImplementedError

    def _set_length(self, length: int) -> None:
        raise NotImplementedError

    def _run_tokens(self, tokens: list[int], inputs: list[Buffer | None], logits: np.ndarray, rows: int) -> None:
        raise NotImplementedError

    def _draw(self, count: int, temperature: float, top_k: int, top_p: float, seed: int, stop: list[int],
              inputs: list[Buffer | None]) -> list[int]:  # fmt: skip
        raise NotImplementedError


class _Call:
    """One call's arguments: the inputs' memory, arrays given for outputs, the framework of the results.

    Attributes:
        stream: of arrays on a GPU, the address of the stream to run on.
        chosen: whether the caller said which.
        waits: whether the call ends when the work has, since nothing orders the results' readers behind it.
    """

    def __init__(self, interface: Interface, args: Sequence[Any], named: Mapping[str, Any], out: Any, stream: Any):
        self._interface = interface
        ordered, self._by_name = _arguments(interface, args, named)
        self.inputs = [arrays.read_input(port, value) for port, value in zip(interface.inputs, ordered)]
        self.given = _given_outputs(interface, out)
        self.framework = arrays.framework_of(self.inputs)
        self.stream = self.framework.stream if stream is None else arrays.stream_handle(stream)
        self.chosen = stream is not None
        self.waits = not self.chosen and self.framework.waits()

    def answer(self, results: list[Any]) -> Any:
        """What the caller gets."""
        if self._by_name:
            return dict(zip((port.name for port in self._interface.outputs), results))
        return results[0] if len(results) == 1 else tuple(results)


class _CompiledContext(Context):
    """A context of generated code."""

    def __init__(self, interface: Interface, program: Any, threads: int, device: int | None):
        super().__init__(interface)
        self._device, self._program, self._threads = device, program, threads if device is None else 1
        self._held = self._made()
        self._plan: tuple[list[tuple[int, ...]], list[tuple[int | None, ...]], list[tuple[int, ...]]] | None = None
        if self._threads != 1:
            _threaded.add(self)
        self._numbers = {dim.name: number for number, dim in enumerate(interface.dims)}

    def _made(self) -> Any:
        native = _native.Context(self._program)
        if self._threads != 1:
            native.set_threads(self._threads)
        return native

    @property
    def _native(self) -> Any:
        """The generated code's context; a new one where a fork has left the old one without its threads."""
        if self._held is None:
            if self._interface.states:
                raise TenonError(f"the context's {self._threads} threads did not come along when this process was forked: make "
                                 "a context here with module.context(), compile with threads=1, or load the module after "
                                 "the fork")  # fmt: skip
            self._held = self._made()
            for name, value in self._dims.items():
                self._held.set_dim(self._numbers[name], value)
        return self._held

    def _leave_behind(self) -> None:
        """In a forked process: what waits for the threads, as its destruction would, waits forever."""
        if self._held is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._held))
        self._held, self._plan, self._lock = None, None, threading.Lock()

    def _set_dim(self, name: str, value: int) -> None:
        if self._dims.get(name) != value:
            self._native.set_dim(self._numbers[name], value)
            self._dims[name] = value
            self._plan = None

    def _reset(self) -> None:
        if not self._interface.states:
            raise TenonError("the model carries no values from run to run")
        self._native.reset()

    def _length(self) -> int:
        return int(self._native.length())

    def _set_length(self, length: int) -> None:
        self._native.set_length(length)
        self._forget_dims()

    def _run_tokens(self, tokens: list[int], inputs: list[Buffer | None], logits: np.ndarray, rows: int) -> None:
        self._native.run_tokens(tokens, _addresses(inputs), arrays.address_of(logits) if rows else 0, rows)
        self._forget_dims()

    def _draw(self, count: int, temperature: float, top_k: int, top_p: float, seed: int, stop: list[int],
              inputs: list[Buffer | None]) -> list[int]:  # fmt: skip
        made: list[int] = self._native.generate(count, temperature, top_k, top_p, seed, stop, _addresses(inputs))
        self._forget_dims()
        return made

    def _forget_dims(self) -> None:
        """The decoder's functions set the dimensions that say how many tokens a run takes and there are."""
        carried = {dim.name for dim in self._interface.dims if dim.carried}
        for name in carried | self._interface.from_shapes:
            self._dims.pop(name, None)
        self._plan = None

    def _run(self, call: _Call) -> list[Any]:
        on_device = self._on_device(call.inputs)
        if call.chosen and not on_device:
            raise InputError("stream: the inputs lie in the processor's memory, where a call copies them and waits: give arrays on "
                             f"GPU {self._device}, or leave stream= out")  # fmt: skip
        shapes, rooms = self._planned([b.shape for b in call.inputs])
        outputs = [call.framework.empty(port, room) if value is None else arrays.read_output(port, value, room)
                   for port, room, value in zip(self.outputs, rooms, call.given)]  # fmt: skip
        for port, buffer in zip(self.outputs, outputs):
            if buffer.device != (self._device if on_device else None):
                raise InputError(f"output '{port.name}': the array has to lie where the inputs do")
        sources, results = [b.address for b in call.inputs], [b.address for b in outputs]
        if on_device:
            self._native.enqueue(sources, results, call.stream)
            if call.waits:
                _native.synchronize(call.stream)
        else:
            self._native.run(sources, results)
        final: list[Any] = [self._native.output_shape(k) if None in shape else shape for k, shape in enumerate(shapes)]
        for dim in self._interface.dims:  # advanced by the run
            if dim.carried and self._dims.pop(dim.name, None) is not None:
                self._plan = None
        return [value if value is not None else call.framework.finish(port, buffer, shape)
                for value, port, buffer, shape in zip(call.given, self.outputs, outputs, final)]  # fmt: skip

    def _planned(self, inputs: list[tuple[int, ...]]) -> tuple[list[tuple[int | None, ...]], list[tuple[int, ...]]]:
        """Of the outputs, for inputs of these shapes: shapes, with None where only the run decides, and what
        there has to be room for. Sets the run-time dimensions in the generated code."""
        if self._plan is None or self._plan[0] != inputs:
            dims = {name: v for name, v in self._dims.items() if name not in self._interface.from_shapes}
            self._interface.solve(inputs, dims)
            changed = [name for name, value in dims.items() if self._dims.get(name) != value]
            for name in changed:
                self._set_dim(name, dims[name])
            if changed and self._device is not None:
                self._native.prepare()
            shapes = [tuple(e.value(dims) for e in port.extents) for port in self.outputs]
            rooms = [tuple(e.most if d is None else d for e, d in zip(port.extents, shape))
                     for port, shape in zip(self.outputs, shapes)]  # fmt: skip
            self._plan = inputs, shapes, rooms
        return self._plan[1:]

    def _on_device(self, inputs: list[Buffer]) -> bool:
        """Whether the arguments lie on the model's GPU; all of them have to, or none."""
        if not any(b.device is not None for b in inputs):
            return False
        for port, buffer in zip(self.inputs, inputs):
            if self._device is None or buffer.device != self._device:
                raise _wrong_place(port, buffer, self._device)
        return True


_threaded: weakref.WeakSet[_CompiledContext] = weakref.WeakSet()


def _after_fork() -> None:
    for context in list(_threaded):
        context._leave_behind()


os.register_at_fork(after_in_child=_after_fork)


class _InterpretedContext(Context):
    """A context on Tenon's interpreter, which has one state."""

    def __init__(self, interface: Interface, model: Any):
        super().__init__(interface)
        self._native = model

    def _set_dim(self, name: str, value: int) -> None:
        self._dims[name] = value

    def _reset(self) -> None:
        if not self._interface.states:
            raise TenonError("the model carries no values from run to run")
        self._native.reset()

    def _run(self, call: _Call) -> list[Any]:
        self._interface.solve([b.shape for b in call.inputs], dict(self._dims))
        for port, buffer in zip(self.inputs, call.inputs):
            if buffer.device is not None:
                raise _wrong_place(port, buffer, None)
        outputs, messages = self._native.run([_to_native(p, b) for p, b in zip(self.inputs, call.inputs)])
        if outputs is None:
            raise CompileError(messages)
        return [_from_native(port, array, value, call.framework)
                for port, array, value in zip(self.outputs, outputs, call.given)]  # fmt: skip


def _addresses(buffers: list[Buffer | None]) -> list[int]:
    return [0 if b is None else b.address for b in buffers]


def _to_native(port: Port, buffer: Buffer) -> Any:
    """An input as the interpreter takes it."""
    if port.type == "str":
        return _native.Array("str", list(buffer.shape), b"", arrays.texts_of(port, buffer.value))
    size = port.element.bytes(math.prod(buffer.shape))
    return _native.Array(port.type, list(buffer.shape), ctypes.string_at(buffer.address, size), [])


def _from_native(port: Port, array: Any, given: Any, framework: Framework) -> Any:
    """An output of the interpreter's in the caller's array, or in one of its framework."""
    shape = tuple(array.shape)
    if array.type == "str":
        result = np.empty(len(array.texts), object)
        result[:] = [text.decode(errors="replace") for text in array.texts]
        return result.reshape(shape)
    buffer = framework.empty(port, shape) if given is None else arrays.read_output(port, given, shape)
    ctypes.memmove(buffer.address, array.bytes, len(array.bytes))
    return framework.finish(port, buffer, shape) if given is None else given


def _wrong_place(port: Port, buffer: Buffer, device: int | None) -> InputError:
    found = "the processor" if buffer.device is None else f"GPU {buffer.device}"
    if device is None:
        return InputError(f"input '{port.name}': it lies on {found}, the model runs on the processor: move it there, "
                          "or compile with target='cuda:native'")  # fmt: skip
    return InputError(f"input '{port.name}': it lies on {found}, the model and other inputs on GPU {device}: move it "
                      "there")  # fmt: skip


def _check_stream(stream: Any, device: int | None) -> None:
    if stream is not None and device is None:
        raise InputError("stream: the model runs on the processor, which has no streams: leave stream= out, or compile with "
                         "target='cuda:native'")  # fmt: skip


def _check_dims(interface: Interface, dims: Mapping[str, int]) -> None:
    known = {dim.name: dim for dim in interface.dims}
    for name, value in dims.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise InputError(f"there is no run-time dimension '{name}' (there are: {names}); compile with "
                             f"ranges={{'{name}': (low, high)}}")  # fmt: skip
        if not known[name].low <= value <= known[name].high:
            raise InputError(f"dimension '{name}': expected {known[name].low} to {known[name].high}, found {value}")


def _arguments(interface: Interface, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], bool]:
    """The inputs' values in order, and whether they came by name in a dictionary."""
    by_name = len(args) == 1 and isinstance(args[0], Mapping)
    if by_name:
        named, args = {**args[0], **named}, ()
    names = [port.name for port in interface.inputs]
    if len(args) > len(names):
        count = "1 input" if len(names) == 1 else f"{len(names)} inputs"
        raise InputError(f"expected {count} ({', '.join(names)}), found {len(args)}")
    values = dict(zip(names, args))
    for name, value in named.items():
        if name not in names:
            raise InputError(f"there is no input '{name}'; there are {', '.join(map(str, interface.inputs)) or 'none'}")
        if name in values:
            raise InputError(f"input '{name}' is given twice")
        values[name] = value
    if missing := [str(port) for port in interface.inputs if port.name not in values]:
        raise InputError(f"no value for {'input' if len(missing) == 1 else 'inputs'} {', '.join(missing)}")
    return [values[name] for name in names], by_name


def _given_outputs(interface: Interface, out: Any) -> list[Any]:
    """Arrays for the outputs, in order; None where the call makes one."""
    if out is None:
        return [None] * len(interface.outputs)
    names = [port.name for port in interface.outputs]
    if isinstance(out, Mapping):
        if unknown := [name for name in out if name not in names]:
            raise InputError(f"out: there is no output '{unknown[0]}'; there are {', '.join(names)}")
        return [out.get(name) for name in names]
    listed = list(out) if isinstance(out, (list, tuple)) else [out]
    if len(listed) != len(names):
        count = "1 array" if len(names) == 1 else f"{len(names)} arrays"
        raise InputError(f"out: expected {count} ({', '.join(names)}), found {len(listed)}")
    return listed


class Module(Decoding):
    """A model that was compiled and loaded.

    Any number of threads may call it: each call takes a context that is free, or makes one. A model that
    carries values from run to run has one context for all calls of the module; `context()` makes more.

    Attributes:
        inputs, outputs: the ports (`Port`: name, type, dtype, shape).
        run_time_dims: dimensions that are known at run time, with their bounds.
        report: what became of the model (`Report`); `layers` are its steps.
        folder: where the generated files are: source, header, library; None on the interpreter.
        shared_bytes: of the weights, those that are read in arrays of `compile(shared=…)`.
    """

    def __init__(self, interface: Interface, report: Report, *, program: Any = None, interpreted: Any = None,
                 threads: int = 1, device: int | None = None, folder: Path | None = None,
                 shared_bytes: int = 0):  # fmt: skip
        self._interface, self.report, self.folder = interface, report, folder
        self.shared_bytes = shared_bytes
        self._program, self._interpreted = program, interpreted
        self._threads, self._device = threads, device
        self._dims: dict[str, int] = {}
        self._lock = threading.Lock()
        self._free: dict[int, list[Context]] = {}
        self._only = self._new_context() if interface.states or interpreted is not None else None

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self._interface.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self._interface.outputs

    @property
    def run_time_dims(self) -> tuple[Dimension, ...]:
        return self._interface.dims

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.report.layers

    @property
    def target(self) -> str:
        """The target, `native` resolved; "interpreter" there."""
        return self.report.target

    def context(self) -> Context:
        """A context of its own: for a thread or a stream, and for values carried from run to run.

        Raises:
            TenonError: the module runs on the interpreter, which has one.
        """
        if self._interpreted is not None:
            raise TenonError("the interpreter has one context: the module itself")
        return self._new_context()

    def set_dims(self, **dims: int) -> None:
        """As `Context.set_dims`, for the next calls of the module."""
        _check_dims(self._interface, dims)
        with self._lock:
            self._dims.update(dims)
        if self._only is not None:
            self._only.set_dims(**dims)

    def reset(self) -> None:
        """Clears the values that calls of the module carry from run to run."""
        if self._only is None or not self._interface.states:
            raise TenonError("the model carries no values from run to run")
        self._only.reset()

    def __call__(self, *args: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs the model once.

        Args:
            args: the inputs in order, or one dictionary of them by name. An input is a numpy array, an array
                of a framework with DLPack (torch, CuPy, JAX), or numbers. Element type and shape have to be the
                input's (`inputs`); nothing is copied that is dense in row-major order.
            named: inputs by name.
            out: arrays for the outputs: one, a sequence in order, or a dictionary by name.
            stream: of arrays on a GPU, the CUDA stream to run on: torch's, CuPy's, or its address; by default
                the current one of the arguments' framework. The call returns when the work is issued.

        Returns:
            The output, a tuple of several, or a dictionary where the inputs came as one; in arrays of the
            arguments' framework, on their device.

        Raises:
            InputError: an argument does not fit; says which, what was expected and found.
            RunError: the generated code failed (of a GPU: its error).
        """
        if self._only is not None:
            return self._only(*args, out=out, stream=stream, **named)
        _check_stream(stream, self._device)
        call = _Call(self._interface, args, named, out, stream)
        # A stream keeps its contexts: what it was issued runs in order.
        with self._borrowed(call.stream) as context:
            return context._carry_out(call)

    def _sequence(self) -> Context:
        if self._interpreted is not None:
            raise TenonError("the interpreter does not generate: compile for a target such as 'cpu:native'")
        assert self._only is not None  # what _decoder() has asked
        return self._only

    def save(self, folder: str | Path) -> None:
        """Copies source, header, library and weights to a folder, from where `tenon.load` takes them.

        Raises:
            TenonError: the module runs on the interpreter, or the folder cannot be written.
        """
        if self.folder is None:
            raise TenonError("the interpreter has no generated files")
        try:
            shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        except OSError as error:
            raise TenonError(f"cannot save to '{folder}': {error.strerror or error}") from error

    def __reduce__(self) -> Any:
        raise TypeError("a tenon.Module cannot be pickled or copied: it is a library that this process has loaded; save(folder) "
                        "here and tenon.load(folder) there")  # fmt: skip

    def __repr__(self) -> str:
        return (f"<tenon.Module for {self.target}: {', '.join(map(str, self.inputs))} -> "
                f"{', '.join(map(str, self.outputs))}>")  # fmt: skip

    def _new_context(self) -> Context:
        if self._interpreted is not None:
            return _InterpretedContext(self._interface, self._interpreted)
        return _CompiledContext(self._interface, self._program, self._threads, self._device)

    @contextmanager
    def _borrowed(self, stream: int) -> Iterator[Context]:
        with self._lock:
            free = self._free.setdefault(stream, [])
            context = free.pop() if free else None
            dims = dict(self._dims)
        context = context or self._new_context()
        if dims:
            context.set_dims(**dims)
        try:
            yield context
        finally:
            with self._lock:
                free.append(context)
