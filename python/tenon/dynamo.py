"""`torch.compile(module, backend="tenon")`: each graph that torch captures becomes a Tenon module.

A graph is exported to ONNX in memory and compiled for the device of its tensors; parameters are taken as they
are then; after a change of theirs that torch counts the graph is compiled again. On a GPU those are read where they
lie that kernels want in that layout, the others are copied. Where torch breaks the graph, each part is
compiled by itself. What a graph changes in place (a cache, a counter, statistics of a batch) is one more input and
output of the module, and copied back. A graph that Tenon or the exporter refuses, or whose results need gradients,
runs in torch, with a warning that says why. A module serves extents that torch leaves open from 1 up to the next
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
from .pytorch import ChangesInPlace, export

log = logging.getLogger("tenon.dynamo")

_VERSION = torch.Tensor._version.__get__


def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
            mode: str | None = None) -> Callable[..., Any]:  # fmt: skip
    """What torch calls with each captured graph; see the module's text."""
    return _CompiledGraph(graph, example_inputs, dict(options or {}))


def _numbers(graph: torch.fx.GraphModule) -> list[int]:
    """Which inputs are numbers that torch wraps into tensors: all that is done with them is .item()."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return [index for index, node in enumerate(inputs) if node.users and all(map(_is_item, node.users))]


def _is_item(node: torch.fx.Node) -> bool:
    return bool(node.op == "call_method" and node.target == "item")


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

    `changed` are those of them that the graph changes in place: their new values follow its outputs. `left_out` are
    outputs that it does not give, by number; `sizes` says of a number which tensor's extent it is."""

    exported_as = "the graph"  # in messages

    def __init__(self, graph: torch.fx.GraphModule, arguments: Sequence[Any], free: Sequence[int],
                 sizes: Mapping[int, tuple[int, int]], changed: Sequence[int], left_out: Iterable[int]):  # fmt: skip
        super().__init__()
        self.graph_module, self.free, self.sizes = graph, list(free), dict(sizes)
        self.changed, self.left_out = list(changed), set(left_out)
        self.plain: list[Any] = []
        for index, value in enumerate(arguments):
            is_fixed = isinstance(value, torch.Tensor) and index not in self.free
            if is_fixed:
                self.register_buffer(f"fixed{index}", value.detach())
            self.plain.append(None if is_fixed or index in self.free else value)

    def forward(self, *values: torch.Tensor) -> Any:
        given = dict(zip(self.free, values))
        for index in self.changed:
            given[index] = given[index].clone()
        arguments = []
        for index, plain in enumerate(self.plain):
            if index in self.sizes:
                tensor, axis = self.sizes[index]
                arguments.append(given[tensor].shape[axis])
            elif index in given:
                arguments.append(given[index])
            else:
                arguments.append(getattr(self, f"fixed{index}", plain))
        outputs = self.graph_module(*arguments)
        kept = [output for number, output in enumerate(outputs) if number not in self.left_out]
        return tuple(kept + [given[index] for index in self.changed])


def _views(graph: torch.fx.GraphModule) -> dict[int, tuple[int, torch.Tensor]]:
    """Which outputs are views of inputs: by number, the input's and what torch traced of it."""
    owners: dict[int, int] = {}
    for index, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder"):
        if isinstance(traced := node.meta.get("example_value"), torch.Tensor):
            owners.setdefault(traced.untyped_storage()._cdata, index)
    views = {}
    for number, node in enumerate(graph.graph.output_node().args[0]):
        traced = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
        if isinstance(traced, torch.Tensor) and (owner := owners.get(traced.untyped_storage()._cdata)) is not None:
            views[number] = owner, traced
    return views


class _CompiledGraph:
    """A captured graph: the modules made of it by what they were made for; None where torch runs it."""

    def __init__(self, graph: torch.fx.GraphModule, examples: Sequence[Any], options: dict[str, Any]):
        self._graph = graph
        self._target = options.pop("target", None)
        self._options = options
        self._modules: dict[Any, Module | None] = {}
        self._numbers = _numbers(graph)
        self._changed: list[int] = []  # inputs that the graph changes in place, as its first export finds
        self._views = _views(graph)
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
        self._are_tensors = [isinstance(value, torch.Tensor) for value in examples]
        self._order()

    def _order(self) -> None:
        """The arguments that are fixed: tensors, and others."""
        apart = {*self._open, *self._sizes, *self._numbers}
        fixed = [index for index in range(len(self._are_tensors)) if index not in apart]
        self._fixed = [index for index in fixed if self._are_tensors[index]]
        self._plain = [index for index in fixed if not self._are_tensors[index]]

    def __call__(self, *arguments: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments):
            self._tell("its results need gradients; call it under torch.no_grad()")
            return self._graph(*arguments)
        key = self._key(arguments)
        if key not in self._modules:
            module = self._module(arguments)
            key = self._key(arguments)  # other arguments are free now, where some are changed
            self._modules[key] = module
        module = self._modules[key]
        if module is None or (self._changed and self._overlap(arguments)):
            return self._graph(*arguments)
        results = module(*(arguments[index].detach() for index in self._open))
        rest = iter(results if isinstance(results, tuple) else (results,))
        count = len(self._graph.graph.output_node().args[0])
        outputs = [None if number in self._views else next(rest) for number in range(count)]
        for index, value in zip(self._changed, rest):
            arguments[index].copy_(value)
        for number, (index, traced) in self._views.items():
            outputs[number] = arguments[index].as_strided(traced.shape, traced.stride(), traced.storage_offset())
        return outputs

    def _key(self, arguments: Sequence[Any]) -> Any:
        """What of the arguments a module is made for."""
        free = tuple(self._form(arguments[index], axes) for index, axes in self._open.items())
        numbers = tuple(arguments[index].item() for index in self._numbers)
        plain = tuple(arguments[index] for index in self._plain)
        # Training changes parameters in place. A network has hundreds, which every call looks at.
        fixed = [arguments[index] for index in self._fixed]
        return (free, numbers, plain, tuple(map(id, fixed)), tuple(map(_VERSION, fixed)),
                tuple(map(torch.Tensor.data_ptr, fixed)))  # fmt: skip

    @staticmethod
    def _form(value: torch.Tensor, axes: Sequence[int]) -> Any:
        shape = value.shape
        if axes:
            shape = tuple(_room(size) if axis in axes else size for axis, size in enumerate(shape))
        return shape, value.dtype, value.device

    def _overlap(self, arguments: Sequence[Any]) -> bool:
        """Whether what the graph changes is part of another argument, too."""
        storages = [a.untyped_storage().data_ptr() for a in arguments if isinstance(a, torch.Tensor) and a.numel()]
        changed = {arguments[index].untyped_storage().data_ptr() for index in self._changed}
        return sum(storage in changed for storage in storages) > len(self._changed)

    def _module(self, arguments: Sequence[Any]) -> Module | None:
        """A module for arguments like these; with extents left open where they can be."""
        if any(isinstance(size, torch.SymInt) for _, traced in self._views.values() for size in traced.shape):
            self._tell("it gives views of its inputs, whose extents are open")
            return None
        refused = None
        for is_open in (True, False) if any(self._open.values()) else (False,):
            try:
                try:
                    return self._compiled(arguments, is_open)
                except ChangesInPlace as changes:
                    self._free(changes.inputs, changes.buffers)
                    return self._compiled(arguments, is_open)
            except TenonError as error:
                refused = error
                if is_open:
                    log.info("extents are not left open: %s", error)
        self._tell(refused)
        return None

    def _free(self, inputs: Sequence[int], buffers: Sequence[str]) -> None:
        """Makes inputs of what the graph was found to change: free tensors by their place, others by name."""
        free = list(self._open)
        changed = [free[place] for place in inputs]
        changed += [int(name.removeprefix("fixed")) for name in buffers]
        for index in changed:
            self._open.setdefault(index, [])
        self._changed = changed
        self._order()

    def _compiled(self, arguments: Sequence[Any], is_open: bool) -> Module:
        free = list(self._open)
        graph = _with_numbers(self._graph, {index: arguments[index].item() for index in self._numbers})
        closed = _Closed(graph, arguments, free, self._sizes if is_open else {}, self._changed, self._views).eval()
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
        elif target != "interpreter":
            options.setdefault("threads", torch.get_num_threads())
        module = compile(model, target, **options)
        if len(module.inputs) != len(free):
            raise TenonError("the exported graph takes other inputs than the captured one")
        return module

    def _tell(self, why: Any) -> None:
        nodes = [node.name for node in self._graph.graph.nodes if node.op.startswith("call")]
        part = (f"{nodes[0]} … {nodes[-1]} ({len(nodes)} operations)" if len(nodes) > 1 else
                f"{nodes[0]} (1 operation)" if nodes else "of no operation")  # fmt: skip
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
