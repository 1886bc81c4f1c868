"""What can go wrong, as exceptions. All are `TenonError`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

__all__ = ["BuildError", "CompileError", "InputError", "RunError", "TenonError", "ToolMissing"]


class TenonError(Exception):
    """Base of the package's exceptions."""


class CompileError(TenonError):
    """The compiler refused the model or a setting.

    Attributes:
        messages: what it said (`Message`: severity, text, nodes, op, notes), errors and warnings. Options have the names of
            the command line there; the exception's text has Python's.
    """

    def __init__(self, messages: Sequence[Any]):
        from .options import in_python  # which raises errors itself

        self.messages = tuple(messages)
        text = "\n".join(str(message) for message in self.messages)
        super().__init__(in_python(text) or "refused without a word")

    def __reduce__(self) -> Any:  # on the way to another process messages are their text
        return type(self), ([str(message) for message in self.messages],)


class ToolMissing(TenonError):
    """There is no C++ compiler, no nvcc, or no GPU to run what it makes; the message says what to do."""


class BuildError(TenonError):
    """The system's compiler failed on the generated file.

    Attributes:
        command: the words of the command.
        log: what it printed.
    """

    def __init__(self, command: Sequence[str], log: str):
        self.command, self.log = tuple(command), log
        said = log.splitlines()
        # Linkers do not call what is wrong an error; the compiler that started one does, and says no more.
        lines = [line for line in said if "error" in line and not line.startswith("collect2")] or said or ["it said nothing"]
        super().__init__("building the generated code failed: "
                         + "\n".join([shlex.join(command), *lines[:20]]))  # fmt: skip

    def __reduce__(self) -> Any:
        return type(self), (self.command, self.log)


class InputError(TenonError, ValueError):
    """An argument of a call does not fit the model's interface."""


class RunError(TenonError, RuntimeError):
    """The generated code refused or failed; the message is its own (of a GPU: CUDA's)."""
