"""What a compiled model takes and gives: ports, their extents, and dimensions known at run time."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .errors import InputError
from .types import ELEMENTS, Element

_OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "*": operator.mul, "//": operator.floordiv, "min": min, "max": max}


@dataclass(frozen=True)
class Extent:
    """One extent of a shape: a number, or an expression over run-time dimensions.

    Attributes:
        most: its largest value.
        formula: the expression in postfix order: numbers, names of dimensions, + * // min max.
    """

    most: int
    formula: tuple[str, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the run-time dimensions in it."""
        return tuple(dict.fromkeys(word for word in self.formula if not _is_number(word)
                                   and word not in _OPERATIONS))  # fmt: skip

    def value(self, dims: Mapping[str, int]) -> int | None:
        """Its value; None where a dimension in it has none."""
        stack: list[int] = []
        for word in self.formula:
            if word in _OPERATIONS:
                right = stack.pop()
                stack.append(_OPERATIONS[word](stack.pop(), right))
            elif _is_number(word):
                stack.append(int(word))
            elif word in dims:
                stack.append(dims[word])
            else:
                return None
        return stack[0]

    def __str__(self) -> str:
        stack: list[str] = []
        for word in self.formula:
            if word in ("+", "*", "//"):
                right = stack.pop()
                stack.append(f"({stack.pop()} {word} {right})")
            elif word in _OPERATIONS:
                right = stack.pop()
                stack.append(f"{word}({stack.pop()}, {right})")
            else:
                stack.append(word)
        return stack[0]


def _is_number(word: str) -> bool:
    return word.lstrip("-").isdecimal()


@dataclass(frozen=True, repr=False)
class Port:
    """An input or output.

    Attributes:
        name: as in the model.
        type: of its elements, as Tenon calls it: "f32", "i64", "bf16", "str".
        extents: its shape; run-time dimensions stand in it by name.
    """

    name: str
    type: str
    extents: tuple[Extent, ...]

    @functools.cached_property
    def element(self) -> Element:
        return ELEMENTS[self.type]

    @functools.cached_property
    def dtype(self) -> np.dtype:
        """Numpy's element type (of text: object)."""
        return self.element.dtype

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Extents as numbers, or as text where they depend on run-time dimensions."""
        return tuple(int(str(e)) if _is_number(str(e)) else str(e) for e in self.extents)

    def __str__(self) -> str:
        element = "str" if self.type == "str" else self.element.numpy
        return f"{self.name}: {element}[{', '.join(map(str, self.extents))}]"

    def __repr__(self) -> str:
        return f"<tenon.Port {self}>"


@dataclass(frozen=True)
class Dimension:
    """A dimension known at run time: low <= value <= high. `carried`: the length of a cache, which
    every run advances."""

    name: str
    low: int
    high: int
    carried: bool = False


@dataclass(frozen=True)
class Decoder:
    """A language model that keeps its tokens' caches.

    Attributes:
        tokens: the place of the input that takes tokens.
        capacity: tokens that the caches hold.
        vocabulary: logits of a token; tokens are 0 to vocabulary - 1.
        logits: type of their elements, as Tenon calls it.
        last_logits: one pass has those of its last token alone.
        shortens: the last tokens can be taken back one by one; else only all of them.
    """

    tokens: int
    capacity: int
    vocabulary: int
    logits: str
    last_logits: bool
    shortens: bool


@dataclass(frozen=True)
class Interface:
    """Ports and run-time dimensions of a model. `states`: it carries values from run to run; `decoder`:
    it takes tokens."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    dims: tuple[Dimension, ...]
    states: bool
    decoder: Decoder | None = None

    @functools.cached_property
    def from_shapes(self) -> frozenset[str]:
        """Names of the run-time dimensions that the inputs' shapes say."""
        return frozenset(name for port in self.inputs for e in port.extents for name in e.symbols)

    @staticmethod
    def of(native: Any) -> Interface:
        def port(p: Any) -> Port:
            return Port(p.name, p.type, tuple(Extent(e.most, tuple(e.formula)) for e in p.shape))

        return Interface(tuple(map(port, native.inputs)), tuple(map(port, native.outputs)),
                         tuple(Dimension(s.name, s.low, s.high, s.carried) for s in native.symbols),
                         native.states, _decoder(native.decoder))  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        def port(p: Port) -> dict[str, Any]:
            extents = [{"most": e.most, "formula": list(e.formula)} for e in p.extents]
            return {"name": p.name, "type": p.type, "extents": extents}

        return {"inputs": [port(p) for p in self.inputs], "outputs": [port(p) for p in self.outputs],
                "dims": [vars(d) for d in self.dims], "states": self.states,
                "decoder": self.decoder and vars(self.decoder)}  # fmt: skip

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Interface:
        def port(p: Mapping[str, Any]) -> Port:
            return Port(p["name"], p["type"],
                        tuple(Extent(e["most"], tuple(e["formula"])) for e in p["extents"]))  # fmt: skip

        return Interface(tuple(map(port, document["inputs"])), tuple(map(port, document["outputs"])),
                         tuple(Dimension(**d) for d in document["dims"]), document["states"],
                         Decoder(**document["decoder"]) if document.get("decoder") else None)  # fmt: skip

    def solve(self, shapes: Sequence[tuple[int, ...]], dims: MutableMapping[str, int]) -> None:
        """Adds to `dims` the run-time dimensions that the inputs' shapes say.

        Raises:
            InputError: a shape is none that the input can have.
        """
        known = {d.name: d for d in self.dims}
        for port, shape in zip(self.inputs, shapes):
            if len(shape) != len(port.extents):
                raise _wrong_shape(port, shape, f"expected {len(port.extents)} dimensions, found {len(shape)}")
        # What stands alone first: expressions may need it.
        pairs = [(port, shape, axis, extent) for port, shape in zip(self.inputs, shapes)
                 for axis, extent in enumerate(port.extents)]  # fmt: skip
        for port, shape, axis, extent in sorted(pairs, key=lambda pair: len(pair[3].formula)):
            found = shape[axis]
            unknown = [name for name in extent.symbols if name not in dims]
            if any(known[name].carried for name in unknown):
                continue  # the context knows how long its caches are
            if len(unknown) == 1:
                dims[unknown[0]] = _solved(port, shape, extent, found, known[unknown[0]], dims)
            elif not unknown and (expected := extent.value(dims)) != found:
                why = f"{extent} is {expected}, found {found}" if extent.symbols else _opening(port, axis, found)
                raise _wrong_shape(port, shape, why)


def _decoder(native: Any) -> Decoder | None:
    if native is None:
        return None
    return Decoder(*(getattr(native, field.name) for field in fields(Decoder)))


def _solved(port: Port, shape: tuple[int, ...], extent: Extent, found: int, symbol: Dimension,
            dims: Mapping[str, int]) -> int:  # fmt: skip
    """The value of `symbol` for which `extent`, which grows with it, is what was found."""
    low, high = symbol.low, symbol.high
    while low < high:
        middle = (low + high) // 2
        if (extent.value({**dims, symbol.name: middle}) or 0) < found:
            low = middle + 1
        else:
            high = middle
    if extent.value({**dims, symbol.name: low}) != found:
        why = f"it is {symbol.low} to {symbol.high}" if str(extent) == symbol.name else \
            f"for no {symbol.name} from {symbol.low} to {symbol.high} is {extent} {found}"  # fmt: skip
        raise _wrong_shape(port, shape, f"{why}; compile with ranges={{'{symbol.name}': (low, high)}} for others")
    return low


def _opening(port: Port, axis: int, found: int) -> str:
    """That an extent is fixed, and what opens it."""
    names, expected = [repr(e) for e in port.shape], port.extents[axis].most
    names[axis] = "'N'"
    return (f"expected {expected}, found {found}; to leave it open compile with shapes={{'{port.name}': ({', '.join(names)})}}, "
            f"ranges={{'N': ({min(found, 1)}, {max(found, expected)})}}")  # fmt: skip


def _wrong_shape(port: Port, shape: tuple[int, ...], why: str) -> InputError:
    expected = ", ".join(map(str, port.extents))
    return InputError(f"input '{port.name}': expected the shape [{expected}], found {list(shape)}: {why}")
