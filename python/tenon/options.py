"""Options of `compile` as the compiler takes them, and as words of the command line, in both directions."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from . import _native
from .errors import TenonError

_Settings = _native.Settings

# How values in Python's own types become those of the compiler's settings.
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "constants": lambda v: {name: os.fspath(path) for name, path in v.items()},
    "shapes": lambda v: {name: list(shape) for name, shape in v.items()},
    "ranges": lambda v: {name: _Settings.Range(*pair) for name, pair in v.items()},
    "input_ranges": lambda v: {name: _Settings.Interval(*pair) for name, pair in v.items()},
    "states": lambda v: {name: _Settings.State(*([o] if isinstance(o, str) else o)) for name, o in v.items()},
    "pools": lambda v: [_Settings.Pool(name, size) for name, size in v.items()],
    "decoder": str,
    "operators": lambda v: [_native.Source.file(os.fspath(path)) for path in v],
    "tuning": lambda v: [_native.Source.file(os.fspath(path)) for path in v],
    "search": lambda v: _enumerator("search", _Settings.Search, v),
    "optimize": lambda v: _enumerator("optimize", _Settings.Optimize, v),
    "weights": lambda v: _enumerator("weights", _Settings.Weights, v),
    "runtime": lambda v: _enumerator("runtime", _Settings.Runtime, v),
}  # fmt: skip

# Set by the package itself, or of no use to it.
_RESERVED = {"name", "prefix", "hooks", "debug_counters", "verify_each"}
NAMES = tuple(sorted(name for name in dir(_Settings) if name[0].islower() and name not in _RESERVED))


def _enumerator(option: str, kind: Any, value: str) -> Any:
    words = [name for name in dir(kind) if name.islower() and name[0] != "_"]
    if value not in words:
        raise TenonError(f"{option}: expected one of {', '.join(sorted(words))}, found {value!r}")
    return getattr(kind, value)


def settings(options: Mapping[str, Any]) -> Any:
    """The compiler's settings.

    Raises:
        TenonError: an option does not exist, or has no such value.
    """
    made = _Settings()
    for name, value in options.items():
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1)
            raise TenonError(f"there is no option '{name}'"
                             + (f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(NAMES)}"))  # fmt: skip
        try:
            setattr(made, name, _CONVERSIONS[name](value) if name in _CONVERSIONS else value)
        except (TypeError, AttributeError, ValueError) as error:
            raise TenonError(f"option '{name}' cannot be {value!r}: {_EXAMPLES.get(name, error)}") from error
    return made


_EXAMPLES = {
    "bind": 'expected values by name, as in bind={"N": 1, "width": "w*32"}',
    "shapes": 'expected shapes by input, as in shapes={"image": (1, 3, 224, 224)}',
    "ranges": 'expected bounds by dimension, as in ranges={"N": (1, 8)}',
    "states": 'expected outputs by input, as in states={"h": "h_next"} or {"k": ("k_next", 2)}',
    "decoder": 'expected tokens, as in decoder=4096 or decoder="4096,prefill=128,logits=all"',
    "constants": 'expected files by input, as in constants={"axes": "axes.npy"}',
    "io": 'expected forms by port, as in io={"image": "f16,nhwc"}',
    "level": "expected a number from 0 to 3",
    "precision": 'expected a text such as "fp16" or "fp16,/head/*=fp32"',
    "disable": 'expected a list of ids, as in disable=["fuse.*"]',
    "only": 'expected a list of ids, as in only=["fold"]',
}


def words(options: Mapping[str, Any]) -> list[str]:
    """The same as options of the command line."""
    out = []
    for name, value in options.items():
        flag = "--" + _FLAGS.get(name, name.replace("_", "-"))
        if name == "level":
            out.append(f"-O{value}")
        elif name == "quantized_io":
            out += [] if value is None else ["--io=quantized" if value else "--io=float"]
        elif isinstance(value, Mapping):
            out += [f"{flag}={key}={_text(name, one)}" for key, one in value.items()]
        elif isinstance(value, (list, tuple)):
            out += [f"{flag}={os.fspath(one)}" for one in value]
        elif value is not None:
            out.append(f"{flag}={value}")
    return out


_FLAGS = {"constants": "bind", "shapes": "shape", "ranges": "range", "states": "state", "operators": "op",
          "input_ranges": "input-range", "pools": "pool"}  # fmt: skip


def _text(option: str, value: Any) -> str:
    if option in ("ranges", "input_ranges"):
        return f"{value[0]}..{value[1]}"
    if option == "states" and not isinstance(value, str):
        return f"{value[0]}:append@{value[1]}"
    if option == "constants":
        return f"@{os.fspath(value)}"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


_NAMES_OF_FLAGS = {**{_FLAGS.get(name, name.replace("_", "-")): name for name in NAMES}, "bind": "bind", "target": "target",
                   "threads": "threads"}  # fmt: skip
_CODE = re.compile(r"(`[^`]*`)")
_WORD = r"[^\s;'`]*[^\s;:'`,.)]"  # without what ends a sentence or a part of it
_PAIRS = rf"[^\s=,;:'`]+={_WORD}"
_FLAG = re.compile(rf"(?<![\w-])(?:--([a-z][a-z-]*[a-z])|-O)(?:[ =]({_PAIRS})|=({_WORD}))?(?![\w-])")


def in_python(message: str) -> str:
    """What the compiler says, with options as `compile` takes them: `--range N=1..8` is `ranges={"N": (1, 8)}`. Commands
    between backticks stay what they are."""
    parts = _CODE.split(message)
    parts[::2] = [_FLAG.sub(_spelled, part) for part in parts[::2]]
    return "".join(parts)


def _spelled(match: re.Match[str]) -> str:
    flag, pairs, word = match.groups()
    name = _NAMES_OF_FLAGS.get(flag) if flag else "level"
    if name is None:
        return match[0]
    if pairs:
        values = [(key, value) for key, _, value in (pair.partition("=") for pair in re.split(r",(?=[^,=]+=)", pairs))]
        if name == "bind" and all(value.startswith("@") for _, value in values):
            name, values = "constants", [(key, value[1:]) for key, value in values]
        return f"{name}={{{', '.join(f'{chr(34)}{key}{chr(34)}: {_value(name, value)}' for key, value in values)}}}"
    if not word:
        return name
    if name in ("disable", "only", "operators", "tuning"):
        return f"{name}=[{', '.join(_literal(one) for one in word.split(','))}]"
    return f"{name}={_literal(word)}"


def _value(name: str, text: str) -> str:
    """The value behind one key, as an expression of Python's."""
    if name in ("ranges", "input_ranges") and ".." in text:
        return f"({', '.join(_literal(bound) for bound in text.split('..'))})"
    if name == "shapes":
        extents = [_literal(extent) for extent in text.split(",")]
        return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
    if name == "states" and ":append@" in text:
        output, _, axis = text.rpartition(":append@")
        return f"({_literal(output)}, {_literal(axis)})"
    return _literal(text)


def _literal(text: str) -> str:
    return text if re.fullmatch(r"-?\d+(\.\d+)?|…", text) else f'"{text}"'
