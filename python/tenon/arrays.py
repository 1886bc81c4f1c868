"""Arrays in and out: where they lie, whether they fit, and new ones of the caller's framework.

Nothing is copied that lies densely in row-major order, as the generated code reads it. Of a type below 8
bits numpy has an element in each byte: those are packed, and text is written out as addresses."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any

import numpy as np

from . import _native
from .errors import InputError
from .interface import Port
from .types import dlpack_name, pack, unpack

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


class Buffer:
    """An argument's memory. `device`: the number of a GPU, None for the processor's. `holds`: what has to
    live while it is used."""

    __slots__ = ("address", "device", "holds", "shape", "value")

    def __init__(self, address: int, shape: tuple[int, ...], device: int | None, value: Any, holds: Any):
        self.address, self.shape, self.device = address, shape, device
        self.value, self.holds = value, holds


def address_of(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def texts_of(port: Port, array: np.ndarray) -> list[bytes]:
    """The bytes of an array of text.

    Raises:
        InputError: an element is something else.
    """
    texts = array.reshape(-1)
    for place, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise InputError(f"input '{port.name}': expected text (str or bytes), found {type(text).__qualname__} as element "
                             f"{place}; pass it as x.astype(str)")  # fmt: skip
    return [text if isinstance(text, bytes) else text.encode() for text in texts]


def _text_elements(texts: list[bytes]) -> tuple[np.ndarray, Any]:
    """Addresses and lengths of text, and the bytes they point at."""
    data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    lengths = np.array([len(t) for t in texts], np.uint64)
    starts = np.cumsum(lengths, dtype=np.uint64) - lengths + np.uint64(address_of(data))
    return np.ascontiguousarray(np.stack([starts, lengths], axis=-1)), data


def read_input(port: Port, value: Any) -> Buffer:
    """The memory of an argument for an input.

    Raises:
        InputError: its element type is not the input's, or it is no array.
    """
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            return _foreign(port, value, "input")
        value = _made_array(port, value)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"input '{port.name}': expected a value for every element, found a masked array; fill it with x.filled(0)")
    if port.type == "str":
        elements, data = _text_elements(texts_of(port, value))
        return Buffer(address_of(elements), value.shape, None, value, (elements, data))
    if value.dtype != port.dtype:
        swapped = "" if value.dtype.isnative else " of the other byte order"
        raise _wrong_type(port, value.dtype.name + swapped, f".astype('{port.element.numpy}')")
    if port.element.bits < 8:
        packed = pack(np.ascontiguousarray(value), port.element)
        packed = packed if packed.size else np.zeros(1, np.uint8)
        return Buffer(address_of(packed), value.shape, None, value, packed)
    dense = value if value.flags.c_contiguous else np.ascontiguousarray(value).reshape(value.shape)
    return Buffer(address_of(dense), value.shape, None, value, dense)


def _made_array(port: Port, value: Any) -> np.ndarray:
    """An array of Python's numbers and lists; their values have to be of the input's kind."""
    try:
        array = np.asarray(value, dtype=object if port.type == "str" else None)
    except ValueError as error:
        raise InputError(f"input '{port.name}': expected numbers in rows of one length, found others: {error}") from error
    if port.type != "str" and array.dtype.kind not in "biufcV":
        raise InputError(f"input '{port.name}': expected an array of {port.element.numpy}, found "
                         f"{type(value).__module__}.{type(value).__qualname__}")  # fmt: skip
    if port.type == "str" or array.dtype == port.dtype:
        return array
    if isinstance(value, np.generic) or not np.can_cast(array.dtype, port.dtype, "same_kind"):
        raise _wrong_type(port, array.dtype.name, "")
    return array.astype(port.dtype)


def _wrong_type(port: Port, found: str, remedy: str) -> InputError:
    pass_it = f"; pass it as x{remedy}" if remedy else ""
    return InputError(f"input '{port.name}': expected elements of {port.element.numpy}, found {found}{pass_it}")


def view_of(array: Any) -> Any:
    """Where an array with DLPack lies.

    The work that makes the array of a library with streams is ordered by the stream that the call runs on, so no other one
    has to wait for it (-1); a captured stream must not be waited for."""
    if type(array).__module__.partition(".")[0] in ("torch", "cupy"):
        return _native.View(array.__dlpack__(stream=-1))
    return _native.View(array)


def _foreign(port: Port, value: Any, kind: str) -> Buffer:
    """An array of another framework, by DLPack."""
    if getattr(value, "requires_grad", False):
        value = value.detach()
    is_torch = type(value).__module__.partition(".")[0] == "torch"
    if is_torch and value.is_neg():  # a view with its sign to come, of which DLPack says nothing
        if kind == "output":
            raise InputError(f"output '{port.name}': the array is a negated view")
        value = value.resolve_neg()
    try:
        view = view_of(value)
    except (TypeError, BufferError) as error:
        raise InputError(f"{kind} '{port.name}': {type(value).__qualname__} gives no DLPack array: {error}") from error
    if view.type != port.element.dlpack:
        raise _wrong_type(port, dlpack_name(*view.type), f".to(torch.{port.element.numpy})" if is_torch else "")
    where, number = view.device
    if where not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise InputError(f"{kind} '{port.name}': it lies on a device (DLPack's kind {where}) that is neither the "
                         "processor nor an NVIDIA GPU")  # fmt: skip
    if not view.is_dense:
        if kind == "output":
            raise InputError(f"output '{port.name}': the array is not dense in row-major order")
        contiguous = getattr(value, "contiguous", None) or getattr(value, "copy", None)
        if contiguous is None:
            raise InputError(f"input '{port.name}': the array is not dense in row-major order; copy it")
        return _foreign(port, contiguous(), kind)
    return Buffer(view.address, view.shape, number if where in (CUDA, CUDA_MANAGED) else None, value, view)


def read_output(port: Port, value: Any, shape: tuple[int, ...]) -> Buffer:
    """The memory of an array that the caller gives for an output; nothing is copied.

    Raises:
        InputError: the output cannot be written there.
    """
    if isinstance(value, np.ndarray):
        if value.dtype != port.dtype or port.element.bits < 8 or port.type == "str":
            raise InputError(f"output '{port.name}': an array of {value.dtype} cannot hold {port.element.numpy} as "
                             "the model writes it; leave it to the call to make one")  # fmt: skip
        if not (value.flags.c_contiguous and value.flags.writeable):
            raise InputError(f"output '{port.name}': the array is not dense in row-major order, or read-only")
        buffer = Buffer(address_of(value), value.shape, None, value, value)
    else:
        buffer = _foreign(port, value, "output")
    if tuple(buffer.shape) != shape:
        raise InputError(f"output '{port.name}': expected an array of shape {list(shape)}, found {list(buffer.shape)}")
    return buffer


class Framework:
    """The array framework of a call's arguments, which its results are made with: numpy on the processor.
    Of frameworks that are not known here results on a GPU are objects with `__dlpack__`."""

    stream = 0

    def __init__(self, device: int | None):
        self.device = device

    def empty(self, port: Port, shape: tuple[int, ...]) -> Buffer:
        """Memory for an output of `shape`."""
        if self.device is not None:
            code, bits = port.element.dlpack or (1, 8)
            array: Any = _native.device_array(list(shape), code, bits, self.device)
            return Buffer(_native.View(array).address, shape, self.device, array, array)
        count = math.prod(shape)
        memory: np.ndarray
        if port.type == "str":
            memory = np.zeros((max(count, 1), 2), np.uint64)
        elif port.element.bits < 8:
            memory = np.empty(max(port.element.bytes(count), 1), np.uint8)
        else:
            memory = np.empty(shape, port.dtype)
        return Buffer(address_of(memory), shape, None, memory, memory)

    def finish(self, port: Port, buffer: Buffer, shape: tuple[int, ...]) -> Any:
        """The result: what of the memory has been filled, in its own shape."""
        if self.device is not None:
            return buffer.value if shape == buffer.shape else _native.resized(buffer.value, list(shape))
        memory, count = buffer.value, math.prod(shape)
        if port.type == "str":
            texts = [ctypes.string_at(int(at), int(size)).decode(errors="replace") if size else ""
                     for at, size in memory[:count]]  # fmt: skip
            result = np.empty(count, object)
            result[:] = texts
            return result.reshape(shape)
        if port.element.bits < 8:
            return unpack(memory, port.element, shape)
        return memory if memory.shape == shape else memory.reshape(-1)[:count].reshape(shape)

    def waits(self) -> bool:
        """Whether a call on a GPU has to wait, since nothing orders the result's readers behind it."""
        return True


class _Torch(Framework):
    def __init__(self, device: int | None):
        super().__init__(device)
        self.torch = sys.modules["torch"]
        if device is not None:
            self.stream = self.torch.cuda.current_stream(device).cuda_stream

    def empty(self, port: Port, shape: tuple[int, ...]) -> Buffer:
        dtype = getattr(self.torch, port.element.numpy, None)
        if port.element.bits < 8 or dtype is None:
            return super().empty(port, shape)
        where = "cpu" if self.device is None else f"cuda:{self.device}"
        tensor = self.torch.empty(shape, dtype=dtype, device=where)
        return Buffer(tensor.data_ptr(), shape, self.device, tensor, tensor)

    def finish(self, port: Port, buffer: Buffer, shape: tuple[int, ...]) -> Any:
        if not isinstance(buffer.value, self.torch.Tensor):
            return super().finish(port, buffer, shape)
        count = math.prod(shape)
        same = tuple(buffer.value.shape) == shape
        return buffer.value if same else buffer.value.reshape(-1)[:count].reshape(shape)

    def waits(self) -> bool:
        return False


class _Cupy(Framework):
    def __init__(self, device: int | None):
        super().__init__(device)
        self.cupy = sys.modules["cupy"]
        self.stream = self.cupy.cuda.get_current_stream().ptr

    def empty(self, port: Port, shape: tuple[int, ...]) -> Buffer:
        with self.cupy.cuda.Device(self.device):
            array = self.cupy.empty(shape, port.dtype)
        return Buffer(array.data.ptr, shape, self.device, array, array)

    def finish(self, port: Port, buffer: Buffer, shape: tuple[int, ...]) -> Any:
        return buffer.value.reshape(-1)[: math.prod(shape)].reshape(shape)

    def waits(self) -> bool:
        return False


class _Jax(Framework):
    def finish(self, port: Port, buffer: Buffer, shape: tuple[int, ...]) -> Any:
        return sys.modules["jax"].dlpack.from_dlpack(super().finish(port, buffer, shape))


_FRAMEWORKS = {"torch": _Torch, "cupy": _Cupy, "jax": _Jax, "jaxlib": _Jax}


def framework_of(buffers: list[Buffer]) -> Framework:
    """The framework of the first argument that is no numpy array, where there is one."""
    for buffer in buffers:
        name = type(buffer.value).__module__.partition(".")[0]
        if name in _FRAMEWORKS:
            return _FRAMEWORKS[name](buffer.device)
    return Framework(buffers[0].device if buffers else None)


def stream_handle(stream: Any) -> int:
    """The address of a CUDA stream: torch's, CuPy's, or a number."""
    for attribute in ("cuda_stream", "ptr", "handle"):
        if (handle := getattr(stream, attribute, None)) is not None:
            return int(handle)
    return int(stream)
