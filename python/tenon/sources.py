"""What `compile` takes for a model: a file, bytes, an ONNX model, Tenon's text, a PyTorch module."""

from __future__ import annotations

import builtins
import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _native
from .errors import TenonError


@dataclass(frozen=True)
class Model:
    """A model before it is compiled: a file, or bytes with a name that says of what kind."""

    name: str
    path: Path | None = None
    bytes: builtins.bytes | None = None

    def source(self) -> Any:
        """As the compiler takes it."""
        if self.path is not None:
            return _native.Source.file(str(self.path))
        return _native.Source.memory(self.bytes or b"", self.name)

    def digest(self) -> builtins.bytes:
        """The hash of its content, of files beside a file's own included where Tenon's text has one."""
        if self.path is None:
            return hashlib.sha256(self.bytes or b"").digest()
        digest = file_digest(self.path)
        literals = self.path.with_name(self.path.name + ".data")
        if self.path.suffix == ".tn" and literals.exists():
            digest += file_digest(literals)
        # External data lies in the model's folder; which files they are the compiler says.
        return digest + os.fsencode(self.path.parent.resolve())


def file_digest(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest() if sys.version_info >= (3, 11) \
                else hashlib.sha256(file.read()).digest()  # fmt: skip
    except OSError as error:
        raise TenonError(f"cannot read '{path}': {error.strerror}") from error


def read(model: Any, example_inputs: Sequence[Any] | None = None) -> Model:
    """The model that an argument of `compile` is.

    Raises:
        TenonError: it is none.
    """
    if isinstance(model, Model):
        return model
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .pytorch import export

        return Model("model.onnx", bytes=export(model, example_inputs))
    if example_inputs is not None:
        raise TenonError("example_inputs are for a torch.nn.Module, which is exported with them: expected none, since "
                         f"the model is a {type(model).__qualname__}")  # fmt: skip
    if isinstance(model, os.PathLike):
        return _file(Path(model))
    if isinstance(model, str):
        if not model:
            raise TenonError("expected the path of a model or Tenon's text, found ''")
        is_text = "\n" in model or model.lstrip().startswith(("module", "graph", "//"))
        return Model("model.tn", bytes=model.encode()) if is_text else _file(Path(model))
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Model("model.onnx", bytes=bytes(model))
    if hasattr(model, "SerializeToString"):  # onnx.ModelProto
        return Model("model.onnx", bytes=model.SerializeToString())
    raise TenonError(f"expected a path, bytes, an onnx.ModelProto, Tenon's text or a torch.nn.Module, found "
                     f"{type(model).__module__}.{type(model).__qualname__}")  # fmt: skip


def _file(path: Path) -> Model:
    if path.is_dir():
        raise TenonError(f"'{path}' is a folder: expected an ONNX or .tn file")
    if not path.is_file():
        raise TenonError(f"there is no file '{path}'")
    return Model(path.name, path=path.absolute())
