"""`torch.compile(module, backend="tenon")`: each graph that torch captures becomes a Tenon module.

A graph is exported to ONNX in memory and compiled for the device of its tensors; parameters are taken as they
are then; after a change of theirs that torch counts the graph is compiled again. On a GPU those are read where they
lie that kernels want in that layout, the others are copied. Where torch breaks the graph, each part is
compiled by itself. A graph that Tenon or the exporter refuses, or whose results need gradients, runs in
torch, with a warning that says why. A module serves extents that torch leaves open from 1 up to the next
power of two.

Options (`torch.compile(..., options={...})`) are those of `tenon.compile`, `target` among them."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from .compiler import compile
from .errors import TenonError
from .module import Module
from .pytorch import export

log = logging.getLogger("tenon.dynamo")


def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
            mode: str | None = None) -> Callable[..., Any]:  # fmt: skip
    """What torch calls with each captured graph; see the module's text."""
    return _CompiledGraph(graph, example_inputs, dict(options or {}))


def _numbers(graph: torch.fx.GraphModule) -> list[int]:
    """Which inputs are numbers that torch wraps into tensors: all that is done with them is .item()."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return [index for index, node in enumerate(inputs) if node.users and all(map(_is_item, node.users))]


def _is_item(node: torch.fx.Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def _with_numbers(graph: torch.fx.GraphModule, numbers: Mapping[int, Any]) -> torch.fx.GraphModule:
    """A copy in which those inputs' .item() is the number."""
    changed = copy.deepcopy(graph.graph)
    inputs = [node for node in changed.nodes if node.op == "placeholder"]
    for index, number in numbers.items():
        for item in list(inputs[index].users):
            for user in list(item.users):
                user.args, user.kwargs = torch.fx.map_arg(
                    (user.args, user.kwargs), lambda n, item=item, number=number: number if n is item else n)  # fmt: skip
            changed.erase_node(item)
    return torch.fx.GraphModule(graph, changed)


def _is_parameter(value: Any) -> bool:
    """Whether a graph's input is a parameter or buffer of the module, which stays where it is."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


class _Closed(torch.nn.Module):
    """A captured graph with its parameters, buffers and numbers inside: it takes the other tensors in order.

    `sizes` says of a number which tensor's extent it is."""

    def __init__(self, graph: torch.fx.GraphModule, arguments: Sequence[Any], free: Sequence[int],
                 sizes: Mapping[int, tuple[int, int]]):  # fmt: skip
        super().__init__()
        self.graph_module, self.free, self.sizes = graph, list(free), dict(sizes)
        self.plain: list[Any] = []
        for index, value in enumerate(arguments):
            is_fixed = isinstance(value, torch.Tensor) and index not in self.free
            if is_fixed:
                self.register_buffer(f"fixed{index}", value.detach())
            self.plain.append(None if is_fixed or index in self.free else value)

    def forward(self, *values: torch.Tensor) -> Any:
        given = dict(zip(self.free, values))
        arguments = []
        for index, plain in enumerate(self.plain):
            if index in self.sizes:
                tensor, axis = self.sizes[index]
                arguments.append(given[tensor].shape[axis])
            elif index in given:
                arguments.append(given[index])
            else:
                arguments.append(getattr(self, f"fixed{index}", plain))
        return self.graph_module(*arguments)


class _CompiledGraph:
    """A captured graph: the modules made of it by what they were made for; None where torch runs it."""

    def __init__(self, graph: torch.fx.GraphModule, examples: Sequence[Any], options: dict[str, Any]):
        self._graph = graph
        self._target = options.pop("target", None)
        self._options = options
        self._modules: dict[Any, Module | None] = {}
        self._numbers = _numbers(graph)
        # Which extents torch leaves open: by tensor and axis; and which numbers are such an extent.
        self._open: dict[int, list[int]] = {}
        owner: dict[str, tuple[int, int]] = {}
        inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        traced = [node.meta.get("example_value", value) for node, value in zip(inputs, examples)]
        for index, (value, shaped) in enumerate(zip(examples, traced)):
            if isinstance(value, torch.Tensor) and not _is_parameter(value) and index not in self._numbers:
                axes = [axis for axis, size in enumerate(shaped.shape) if isinstance(size, torch.SymInt)]
                self._open[index] = axes
                for axis in axes:
                    owner.setdefault(str(shaped.shape[axis]), (index, axis))
        self._sizes = {index: owner[str(value)] for index, value in enumerate(traced)
                       if isinstance(value, torch.SymInt) and str(value) in owner}  # fmt: skip

    def __call__(self, *arguments: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments):
            self._tell("its results need gradients; call it under torch.no_grad()")
            return self._graph(*arguments)
        key = tuple(self._key(index, value) for index, value in enumerate(arguments))
        if key not in self._modules:
            self._modules[key] = self._module(arguments)
        module = self._modules[key]
        if module is None:
            return self._graph(*arguments)
        results = module(*(arguments[index].detach() for index in self._open))
        return list(results) if isinstance(results, tuple) else [results]

    def _key(self, index: int, value: Any) -> Any:
        """What of an argument a module is made for."""
        if index in self._sizes:
            return None
        if index in self._numbers:
            return value.item()
        if index in self._open:
            shape = tuple(_room(size) if axis in self._open[index] else size for axis, size in enumerate(value.shape))
            return shape, value.dtype, value.device
        # Training changes parameters in place.
        return (id(value), value._version, value.data_ptr()) if isinstance(value, torch.Tensor) else value

    def _module(self, arguments: Sequence[Any]) -> Module | None:
        """A module for arguments like these; with extents left open where they can be."""
        refused = None
        for is_open in (True, False) if any(self._open.values()) else (False,):
            try:
                return self._compiled(arguments, is_open)
            except TenonError as error:
                refused = error
                if is_open:
                    log.info("extents are not left open: %s", error)
        self._tell(refused)
        return None

    def _compiled(self, arguments: Sequence[Any], is_open: bool) -> Module:
        free = list(self._open)
        graph = _with_numbers(self._graph, {index: arguments[index].item() for index in self._numbers})
        closed = _Closed(graph, arguments, free, self._sizes if is_open else {}).eval()
        tensors = [arguments[index].detach() for index in free]
        auto = torch.export.Dim.AUTO
        dynamic = ({index: {axis: auto for axis in self._open[index]} for index in free} if is_open else None)
        model = export(closed, tensors, dynamic and (tuple(dynamic[index] for index in free),))
        options = dict(self._options)
        if is_open:
            options["ranges"] = {**_ranges(model, tensors), **options.get("ranges", {})}
        on_gpu = any(tensor.is_cuda for tensor in tensors)
        target = self._target or ("cuda:native" if on_gpu else "cpu:native")
        if on_gpu:
            options["device"] = device = next(tensor.device.index for tensor in tensors if tensor.is_cuda)
            fixed = [value for index, value in enumerate(arguments) if index not in self._open]
            options["shared"] = list(_in_memory_order(fixed, device))
        module = compile(model, target, **options)
        if len(module.inputs) != len(free):
            raise TenonError("the exported graph takes other inputs than the captured one")
        return module

    def _tell(self, why: Any) -> None:
        nodes = [node.name for node in self._graph.graph.nodes if node.op.startswith("call")]
        part = f"{nodes[0]} … {nodes[-1]} ({len(nodes)} operations)" if nodes else "an empty graph"
        warnings.warn(f"tenon: torch runs the subgraph {part}: {why}", stacklevel=3)


def _in_memory_order(values: Iterable[Any], device: int) -> Iterator[torch.Tensor]:
    """Dense tensors on the GPU `device`, their dimensions in the order in which they lie in memory."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_cuda and value.device.index == device:
            axes = sorted(range(value.dim()), key=lambda axis: -value.stride(axis))
            dense = value.detach().permute(axes)
            if dense.is_contiguous():
                yield dense


def _room(size: int) -> int:
    """The largest extent that the module for `size` serves: the next power of two."""
    return 1 << max(size - 1, 0).bit_length()


def _ranges(model: bytes, tensors: Sequence[torch.Tensor]) -> dict[str, tuple[int, int]]:
    """Bounds of the dimensions that an exported model leaves open."""
    import onnx

    inputs = onnx.load_from_string(model).graph.input
    return {dim.dim_param: (1, _room(size)) for info, tensor in zip(inputs, tensors)
            for dim, size in zip(info.type.tensor_type.shape.dim, tensor.shape)
            if dim.dim_param and not dim.dim_param.isdecimal()}  # fmt: skip
