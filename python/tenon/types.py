"""Element types: their names in Tenon, in numpy (with ml_dtypes) and in DLPack."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from .errors import TenonError


@dataclass(frozen=True)
class Element:
    """One element type. `bits`: in a model's memory; below 8 elements share bytes, the first in the
    lowest bits. `dlpack`: code and bits, None where DLPack has no such type."""

    name: str
    numpy: str
    bits: int
    dlpack: tuple[int, int] | None

    @property
    def dtype(self) -> np.dtype:
        """Numpy's type; ml_dtypes' where numpy has none."""
        return _dtype(self.numpy)

    def bytes(self, count: int) -> int:
        """Bytes of `count` elements in a model's memory."""
        return (count * self.bits + 7) // 8


@functools.cache
def _dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        raise TenonError(f"numpy has no type {name}: install ml_dtypes, which has it") from None
    found: np.dtype = np.dtype(getattr(ml_dtypes, name))
    return found


_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

ELEMENTS: dict[str, Element] = {
    element.name: element
    for element in [
        Element("i1", "bool", 8, (_BOOL, 8)),
        *(Element(f"i{n}", f"int{n}", n, (_INT, n) if n >= 8 else None) for n in (2, 4, 8, 16, 32, 64)),
        *(Element(f"u{n}", f"uint{n}", n, (_UINT, n) if n >= 8 else None) for n in (2, 4, 8, 16, 32, 64)),
        *(Element(f"f{n}", f"float{n}", n, (_FLOAT, n)) for n in (16, 32, 64)),
        Element("bf16", "bfloat16", 16, (_BFLOAT, 16)),
        Element("c64", "complex64", 64, (_COMPLEX, 64)),
        Element("c128", "complex128", 128, (_COMPLEX, 128)),
        Element("f4e2m1", "float4_e2m1fn", 4, None),
        Element("f8e4m3", "float8_e4m3fn", 8, (10, 8)),
        Element("f8e4m3fnuz", "float8_e4m3fnuz", 8, (11, 8)),
        Element("f8e5m2", "float8_e5m2", 8, (12, 8)),
        Element("f8e5m2fnuz", "float8_e5m2fnuz", 8, (13, 8)),
        Element("f8e8m0", "float8_e8m0fnu", 8, (14, 8)),
        Element("str", "object", 128, None),
    ]
}  # fmt: skip


def dlpack_name(code: int, bits: int) -> str:
    """How a DLPack type is called in messages."""
    for element in ELEMENTS.values():
        if element.dlpack == (code, bits):
            return element.numpy
    return f"DLPack type {code} of {bits} bits"


def pack(array: np.ndarray, element: Element) -> np.ndarray:
    """The bytes in which a model holds elements of less than 8 bits; numpy has one in each byte."""
    per_byte = 8 // element.bits
    codes = array.reshape(-1).view(np.uint8) & ((1 << element.bits) - 1)
    codes = np.pad(codes, (0, -len(codes) % per_byte)).reshape(-1, per_byte)
    shifts = element.bits * np.arange(per_byte, dtype=np.uint8)
    packed: np.ndarray = np.bitwise_or.reduce(codes << shifts, axis=1)
    return packed.astype(np.uint8)


def unpack(data: np.ndarray, element: Element, shape: tuple[int, ...]) -> np.ndarray:
    """The array of what `pack` gives."""
    count = int(np.prod(shape, dtype=np.int64))
    shifts = element.bits * np.arange(8 // element.bits, dtype=np.uint8)
    codes = (data[:, None] >> shifts).reshape(-1)[:count] & np.uint8((1 << element.bits) - 1)
    if element.name.startswith("i"):  # the sign fills the byte
        sign = np.uint8(1 << (element.bits - 1))
        codes = (codes ^ sign) - sign
    return codes.astype(np.uint8).view(element.dtype).reshape(shape)
