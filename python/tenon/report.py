"""What the compiler says of a compiled model, as Python objects."""

from __future__ import annotations

import html
import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import options as _options
from .command import binary
from .errors import TenonError
from .sources import Model


def format_bytes(count: int) -> str:
    """An amount of memory as the command writes it: "8064 B", "20.5 KiB", "512 KiB", "97.7 MiB"."""
    if count < 10240:
        return f"{count} B"
    amount, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if amount >= 1023.95:  # a decimal would round up to the larger unit's 1
            amount, unit = amount / 1024, larger
    return f"{amount:.{0 if amount == int(amount) else 1}f} {unit}"


_FORMATS = ("text", "json", "dot", "html")


@dataclass(frozen=True)
class Layer:
    """One step of the program: a kernel and the nodes of the model that it computes.

    Attributes:
        step: its place in the order of running.
        nodes: names of the model's nodes.
        schedule: the kernel and its parameters.
        variant: the machine level that it is for.
        operations: arithmetic operations of one run (2 for a multiply-add).
        traffic_bytes: bytes read and written in one run.
        scratch_bytes: memory of its own.
    """

    step: int
    nodes: tuple[str, ...]
    schedule: str
    variant: str
    operations: float
    traffic_bytes: int
    scratch_bytes: int


@dataclass(frozen=True)
class Fusion:
    """A fusion that was made, or (`accepted` false) why it was not.

    Attributes:
        id: what `disable` takes to switch it off.
        nodes: of both sides, the producer's first.
        reason: why not.
        bytes_saved: of memory traffic, or what would have been.
        variant: the machine level that it was decided for; empty: all.
        together, apart: microseconds of one kernel and of several, where these decided; else 0.
    """

    id: str
    accepted: bool
    nodes: tuple[str, ...]
    reason: str
    bytes_saved: int
    variant: str = ""
    together: float = 0.0
    apart: float = 0.0


@dataclass(frozen=True)
class Report:
    """What became of a model.

    Attributes:
        model: the model's own name.
        target: the target, `native` resolved.
        nodes: nodes that were read.
        weight_bytes, arena_bytes, state_bytes: of the weights, and of each context's memory.
        estimated_microseconds: of one run; 0 where unknown.
        layers, fusions: in order.
        warnings: what the compiler said.
    """

    model: str
    target: str
    nodes: int
    weight_bytes: int
    arena_bytes: int
    state_bytes: int
    estimated_microseconds: float
    layers: tuple[Layer, ...]
    fusions: tuple[Fusion, ...]
    warnings: tuple[str, ...] = ()
    _source: tuple[Model, str, Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(output: Any, messages: Any) -> dict[str, Any]:
        """The JSON document of a result of the compiler."""
        names = ("model", "target", "nodes", "weight_bytes", "arena_bytes", "state_bytes", "estimated_microseconds")
        layers = [{name: getattr(k, name) for name in Layer.__dataclass_fields__} for k in output.kernels]
        fusions = [{name: getattr(f, name) for name in Fusion.__dataclass_fields__} for f in output.fusions]
        return {**{name: getattr(output, name) for name in names}, "layers": layers, "fusions": fusions,
                "warnings": [str(m) for m in messages]}  # fmt: skip

    @staticmethod
    def from_json(document: Mapping[str, Any], source: tuple[Model, str, Mapping[str, Any]] | None) -> Report:
        rest = dict(document)
        layers = tuple(Layer(**{**k, "nodes": tuple(k["nodes"])}) for k in rest.pop("layers"))
        fusions = tuple(Fusion(**{**f, "nodes": tuple(f["nodes"])}) for f in rest.pop("fusions"))
        return Report(**{**rest, "warnings": tuple(rest["warnings"])}, layers=layers, fusions=fusions, _source=source)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        document = asdict(self)
        document.pop("_source")
        return document

    def inspect(self, format: str = "json") -> Any:
        """What `tenon inspect` says: a document for "json", else the text of "text", "dot" or "html".

        Raises:
            TenonError: there is no such form, or the model that this was compiled from is not at hand (`tenon.load`).
        """
        if format not in _FORMATS:
            raise TenonError(f"format: expected one of {', '.join(_FORMATS)}, found {format!r}")
        if self._source is None:
            raise TenonError("the report of a loaded module has no model to inspect; compile it")
        model, target, given = self._source
        with tempfile.TemporaryDirectory() as scratch:
            path = model.path
            if path is None:
                path = Path(scratch) / model.name
                path.write_bytes(model.bytes or b"")
            command = [str(binary()), "inspect", str(path), f"--target={target}", f"--format={format}",
                       *_options.words(given)]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise TenonError(done.stderr.strip())
        return json.loads(done.stdout) if format == "json" else done.stdout

    def html(self) -> str:
        """One self-contained page: graph, time by layer, roofline, memory over time, fusions."""
        return str(self.inspect("html"))

    def __str__(self) -> str:
        if self.target == "interpreter":
            return f"{self.model} for the interpreter, which has no kernels"
        lines = [f"{self.model} for {self.target}: {self.nodes} nodes, {len(self.layers)} kernels, "
                 f"{format_bytes(self.weight_bytes)} of weights, {format_bytes(self.arena_bytes)} of arena"]  # fmt: skip
        for layer in self.layers:
            names = ", ".join(layer.nodes)
            names = names if len(names) <= 60 else f"{names[:29]}…{names[-30:]}"
            lines.append(f"{layer.step:4}  {names:60}  {layer.operations / 1e3:10.1f} kFLOP  "
                         f"{format_bytes(layer.traffic_bytes):>12}  {layer.schedule}")  # fmt: skip
        return "\n".join(lines)

    def _repr_html_(self) -> str:  # notebooks
        return f"<pre>{html.escape(str(self))}</pre>"
