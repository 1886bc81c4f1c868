"""Weights that a module for a GPU reads where an array has them already, in place of a copy of its own."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _native, arrays
from .errors import InputError

_HEADER = 32  # bytes of a weights file before the weights
_LEAST = 4096  # smaller pieces are not worth a place of their own
_ALIGNMENT = 256  # of addresses that kernels may read


@dataclass(frozen=True)
class Weight:
    """A constant's bytes among the weights."""

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Shared:
    """Pieces of the weights (offset, bytes, address), and the arrays that hold them."""

    pieces: tuple[tuple[int, int, int], ...] = ()
    holds: tuple[Any, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self.pieces)


def find(file: Path, weights: Sequence[Weight], given: Iterable[Any], device: int) -> Shared:
    """Which of the weights lie byte for byte in one of the arrays on GPU `device`.

    Args:
        file: the weights file.
        given: dense row-major arrays with DLPack.

    Raises:
        InputError: something given is no such array, or lies elsewhere.
    """
    sizes = {weight.bytes for weight in weights if weight.bytes >= _LEAST}
    known: dict[bytes, Any] = {}
    for place, array in enumerate(given):
        view = _view(place, array, device)
        if view.bytes in sizes and view.address % _ALIGNMENT == 0:
            known.setdefault(hashlib.sha256(_native.read_memory(view.address, view.bytes, device)).digest(), view)
    candidates = [w for w in weights if w.bytes in {view.bytes for view in known.values()}]
    pieces, holds = [], []
    if candidates:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content, \
             memoryview(content) as whole:  # fmt: skip
            for weight in candidates:
                begin = _HEADER + weight.offset
                with whole[begin : begin + weight.bytes] as part:
                    view = known.get(hashlib.sha256(part).digest())
                if view is not None:
                    pieces.append((weight.offset, weight.bytes, view.address))
                    holds.append(view)
    return Shared(tuple(pieces), tuple(holds))


def _view(place: int, array: Any, device: int) -> Any:
    if getattr(array, "requires_grad", False):
        array = array.detach()
    try:
        view = arrays.view_of(array)
    except TypeError as error:
        raise InputError(f"shared: number {place} is no array with DLPack: {error}") from error
    kind, number = view.device
    if kind not in (arrays.CUDA, arrays.CUDA_MANAGED) or number != device:
        raise InputError(f"shared: array {place} does not lie on GPU {device}, where the model is: move it there, or leave it "
                         "out")  # fmt: skip
    if not view.is_dense:
        raise InputError(f"shared: array {place} is not dense in row-major order; give it as it lies in memory, or leave it out")
    return view
