"""Options of `compile` as the compiler takes them, and as words of the command line."""

from __future__ import annotations

import difflib
import os
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
