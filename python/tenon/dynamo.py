"""`torch.compile(module, backend="tenon")`: each graph that torch captures becomes a Tenon module.

A graph is exported to ONNX in memory and compiled for the device of its tensors; parameters are taken as they
are then; after a change of theirs that torch counts the graph is compiled again. On a GPU those are read where they
lie that kernels want in that layout, the others are copied. Where torch breaks the graph, each part is
compiled by itself. What a graph changes in place (a cache, a counter, statistics of a batch) is one more input and
output of the module, and copied back. A graph that Tenon or the exporter refuses, or whose results need gradients,
runs in torch, with a warning that says why, once. A module serves extents that torch leaves open from 1 up to the next
power of two (where torch promises 2, from there), and whole numbers that torch leaves open are inputs; for other numbers there is a module each, up to
`torch._dynamo.config.recompile_limit`.

Options (`torch.compile(..., options={...})`) are those of `tenon.compile`, `target` among them."""

from __future__ import annotations

import copy
import logging
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from .compiler import compile
from .errors import TenonError
from .interface import Port
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

    def forward(self, *values: Any) -> Any:
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


class _Alias:
    """An output that shares memory with an input or with another output, as torch traced both."""

    def __init__(self, of_input: bool, owner: int, of: torch.Tensor, traced: torch.Tensor):
        self.of_input, self.owner, self._of, self._traced = of_input, owner, of, traced
        self.is_open = any(isinstance(n, torch.SymInt) for n in self._form({}, symbolic=True))
        self._known: dict[Any, Any] = {}

    def _form(self, values: Mapping[Any, int], symbolic: bool = False) -> list[Any]:
        """Shape, strides, and elements from where the owner begins: what torch guards says nothing of that place."""
        traced = self._traced
        form = [*traced.shape, *traced.stride(), traced.storage_offset() - self._of.storage_offset()]
        return form if symbolic else [_evaluated(n, values) for n in form]

    def of(self, owner: torch.Tensor, values: Mapping[Any, int]) -> torch.Tensor:
        """The view of that tensor; `values` of the extents that torch left open."""
        key = tuple(values.values()) if self.is_open else None
        if key not in self._known:
            self._known[key] = self._form(values)
        *form, start = self._known[key]
        rank = len(form) // 2
        return owner.as_strided(form[:rank], form[rank:], owner.storage_offset() + start)


def _evaluated(number: Any, values: Mapping[Any, int]) -> int:
    return int(number.node.expr.xreplace(values) if isinstance(number, torch.SymInt) else number)


def _traced_outputs(graph: torch.fx.GraphModule) -> list[Any]:
    """What torch traced of each output."""
    nodes = graph.graph.output_node().args[0]
    return [node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None for node in nodes]


def _aliases(graph: torch.fx.GraphModule) -> dict[int, _Alias]:
    """Which outputs share memory with an input, or with another output that fills its own."""
    owners: dict[int, tuple[bool, int, torch.Tensor]] = {}
    for index, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder"):
        if isinstance(traced := node.meta.get("example_value"), torch.Tensor):
            owners.setdefault(traced.untyped_storage()._cdata, (True, index, traced))
    outputs = [(n, t) for n, t in enumerate(_traced_outputs(graph)) if isinstance(t, torch.Tensor)]
    shared = Counter(traced.untyped_storage()._cdata for _, traced in outputs)
    for number, traced in outputs:
        storage = traced.untyped_storage()
        if shared[storage._cdata] > 1 and traced.is_contiguous() and storage.nbytes() == traced.numel() * traced.element_size():
            owners.setdefault(storage._cdata, (False, number, traced))
    found = {}
    for number, traced in outputs:
        of_input, owner, of = owners.get(traced.untyped_storage()._cdata, (False, number, traced))
        lazy = traced.is_conj() != of.is_conj() or traced.is_neg() != of.is_neg()
        if (of_input or owner != number) and traced.dtype == of.dtype and not lazy:
            found[number] = _Alias(of_input, owner, of, traced)
    return found


class _Made:
    """A module made for a graph (None: torch runs it), with the versions and addresses of the parameters in it."""

    def __init__(self, module: Module | None, fixed: Sequence[torch.Tensor]):
        self.module, self.content = module, _content(fixed)
        self._fixed: list[Any] = []

    def ends_with(self, fixed: Sequence[torch.Tensor], end: Callable[[], Any]) -> None:
        """Calls `end` when a parameter is no more: another may get its identity and its place."""
        self._fixed = [weakref.ref(tensor, lambda _: end()) for tensor in fixed]


def _content(fixed: Sequence[torch.Tensor]) -> Any:
    """What tells a change of parameters. A network has hundreds, which every call looks at. Of tensors made in inference
    mode torch counts no changes."""
    try:
        versions = tuple(map(_VERSION, fixed))
    except RuntimeError:
        versions = tuple(0 if tensor.is_inference() else tensor._version for tensor in fixed)
    return versions, tuple(map(torch.Tensor.data_ptr, fixed))


class _CompiledGraph:
    """A captured graph: the modules made of it by what they were made for."""

    def __init__(self, graph: torch.fx.GraphModule, examples: Sequence[Any], options: dict[str, Any]):
        self._graph = graph
        self._target = options.pop("target", None)
        self._options = options
        self._modules: dict[Any, _Made] = {}
        self._told: set[str] = set()
        self._changed: list[int] = []  # inputs that the graph changes in place, as its first export finds
        self._outputs, self._aliases = _traced_outputs(graph), _aliases(graph)
        self._counts = {n: traced for n, traced in enumerate(self._outputs) if isinstance(traced, torch.SymInt)}
        self._left_out = {*self._aliases, *self._counts}  # outputs that no module computes
        # Which extents torch leaves open: by tensor and axis; which numbers are such an extent; and which are another
        # whole number that it leaves open.
        self._open: dict[int, list[int]] = {}
        self._least: dict[tuple[int, int], int] = {}  # of those, what torch promises
        owner: dict[str, tuple[int, int]] = {}
        inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        traced = [node.meta.get("example_value", value) for node, value in zip(inputs, examples)]
        self._numbers = _numbers(graph)
        for index, (value, shaped) in enumerate(zip(examples, traced)):
            if isinstance(value, torch.Tensor) and not _is_parameter(value) and index not in self._numbers:
                axes = [axis for axis, size in enumerate(shaped.shape) if isinstance(size, torch.SymInt)]
                self._open[index] = axes
                for axis in axes:
                    owner.setdefault(str(shaped.shape[axis]), (index, axis))
                    open_size = shaped.shape[axis].node
                    self._least[index, axis] = max(1, int(open_size.shape_env.bound_sympy(open_size.expr).lower))
        symbols = {index: value.node.expr for index, value in enumerate(traced) if isinstance(value, torch.SymInt)}
        self._symbols = {shaped.shape[axis].node.expr: (index, axis) for index, shaped in enumerate(traced)
                         for axis in self._open.get(index, ())}  # fmt: skip
        self._symbols |= {symbol: (index, None) for index, symbol in symbols.items()}
        self._sizes = {index: owner[str(value)] for index, value in symbols.items() if str(value) in owner}
        self._whole = [index for index in symbols if index not in self._sizes]
        self._are_tensors = [isinstance(value, torch.Tensor) for value in examples]
        self._order()

    def _order(self) -> None:
        """The arguments that are fixed: tensors, and others."""
        apart = {*self._open, *self._sizes, *self._numbers, *self._whole}
        fixed = [index for index in range(len(self._are_tensors)) if index not in apart]
        self._fixed = [index for index in fixed if self._are_tensors[index]]
        self._plain = [index for index in fixed if not self._are_tensors[index]]

    def __call__(self, *arguments: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments):
            self._tell("its results need gradients; call it under torch.no_grad()")
            return self._graph(*arguments)
        fixed = [arguments[index] for index in self._fixed]
        made = self._modules.get(self._key(arguments))
        if made is None or made.content != _content(fixed):
            made = self._make(arguments)
        if made.module is None or (self._changed and self._overlap(arguments)):
            return self._graph(*arguments)
        given = [arguments[index].detach() for index in self._open]
        given += [torch.tensor(arguments[index]) for index in self._whole]
        results = made.module(*given)
        rest = iter(results if isinstance(results, tuple) else (results,))
        outputs = [None if n in self._left_out else _tensor(next(rest), t) for n, t in enumerate(self._outputs)]
        for index, value in zip(self._changed, rest):
            arguments[index].copy_(value)
        values = self._extents(arguments) if self._counts or any(a.is_open for a in self._aliases.values()) else {}
        for number, traced in self._counts.items():
            outputs[number] = _evaluated(traced, values)
        for number, alias in self._aliases.items():
            owner = arguments[alias.owner] if alias.of_input else outputs[alias.owner]
            outputs[number] = alias.of(owner, values)
        return outputs

    def _extents(self, arguments: Sequence[Any]) -> dict[Any, int]:
        """The values of what torch left open, by its symbols."""
        return {symbol: arguments[index] if axis is None else arguments[index].shape[axis]
                for symbol, (index, axis) in self._symbols.items()}  # fmt: skip

    def _key(self, arguments: Sequence[Any]) -> Any:
        """What a module is made for, but for the content of parameters; numbers are last."""
        free = tuple(self._form(arguments[index], axes) for index, axes in self._open.items())
        fixed = tuple(id(arguments[index]) for index in self._fixed)
        numbers = tuple(arguments[index].item() for index in self._numbers)
        plain = tuple(arguments[index] for index in self._plain)
        return free, fixed, numbers + plain

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

    def _make(self, arguments: Sequence[Any]) -> _Made:
        """Makes a module for arguments like these and keeps it, or what says that torch runs them."""
        most = torch._dynamo.config.recompile_limit
        *others, numbers = self._key(arguments)
        if sum(list(others) == list(key[:-1]) and numbers != key[-1] for key in self._modules) >= most:
            self._tell(f"its numbers are others from call to call, and {most} modules have been made for some of them; hand "
                       "them over in tensors")  # fmt: skip
            return _Made(None, ())
        module = self._module(arguments)
        key = self._key(arguments)  # others are free now, where some are changed, or fixed
        fixed = [arguments[index] for index in self._fixed]
        made = self._modules[key] = _Made(module, fixed)
        made.ends_with(fixed, lambda: self._modules.pop(key, None))
        return made

    def _module(self, arguments: Sequence[Any]) -> Module | None:
        """A module for arguments like these; with extents and numbers left open where they can be."""
        while True:
            try:
                try:
                    return self._compiled(arguments)
                except ChangesInPlace as changes:
                    self._free(changes.inputs, changes.buffers)
                    return self._compiled(arguments)
            except TenonError as error:
                if not self._close():
                    self._tell(error)
                    return None
                log.info("numbers and extents are not left open: %s", error)

    def _close(self) -> bool:
        """Fixes the numbers that are open, or else the extents; False where there is none."""
        if self._whole:
            self._whole = []
        elif any(self._open.values()):
            self._open, self._sizes = {index: [] for index in self._open}, {}
        else:
            return False
        self._order()
        return True

    def _free(self, inputs: Sequence[int], buffers: Sequence[str]) -> None:
        """Makes inputs of what the graph was found to change: free tensors by their place, others by name."""
        free = list(self._open)
        changed = [free[place] for place in inputs]
        changed += [int(name.removeprefix("fixed")) for name in buffers]
        for index in changed:
            self._open.setdefault(index, [])
        self._changed = changed
        self._order()

    def _compiled(self, arguments: Sequence[Any]) -> Module:
        free = list(self._open)
        is_open = bool(self._whole or any(self._open.values()))
        graph = _with_numbers(self._graph, {index: arguments[index].item() for index in self._numbers})
        closed = _Closed(graph, arguments, free + self._whole, self._sizes, self._changed, self._left_out).eval()
        tensors = [arguments[index].detach() for index in free]
        auto, dynamic = torch.export.Dim.AUTO, torch.export.Dim.DYNAMIC
        shapes = [{axis: auto for axis in self._open[index]} for index in free] + [dynamic] * len(self._whole)
        model = export(closed, tensors + [arguments[index] for index in self._whole], (tuple(shapes),) if is_open else None)
        options = dict(self._options)
        if any(self._open.values()):
            bounds = self._keep_open(model, arguments)
            options["ranges"] = {**bounds, **options.get("ranges", {})}
        # A graph can make its tensors itself, or of parameters alone.
        places = [a.device for a in (*arguments, *self._outputs) if isinstance(a, torch.Tensor)]
        on_gpu = any(place.type == "cuda" for place in places)
        target = self._target or ("cuda:native" if on_gpu else "cpu:native")
        if on_gpu:
            options["device"] = device = next(place.index for place in places if place.type == "cuda")
            fixed = [value for index, value in enumerate(arguments) if index not in self._open]
            options["shared"] = list(_in_memory_order(fixed, device))
        elif target != "interpreter":
            options.setdefault("threads", torch.get_num_threads())
        module = compile(model, target, **options)
        _check_ports("takes", module.inputs, tensors + [torch.tensor(arguments[index]) for index in self._whole])
        given = [traced for number, traced in enumerate(self._outputs) if number not in self._left_out]
        _check_ports("gives", module.outputs, given + [arguments[index] for index in self._changed])
        return module

    def _keep_open(self, model: bytes, arguments: Sequence[Any]) -> dict[str, tuple[int, int]]:
        """Bounds of the dimensions that an exported model leaves open; those of torch's that it does not are fixed."""
        import onnx

        bounds = {}
        for index, info in zip(self._open, onnx.load_from_string(model).graph.input):
            names = [dim.dim_param for dim in info.type.tensor_type.shape.dim]
            self._open[index] = [axis for axis in self._open[index] if names[axis] and not names[axis].isdecimal()]
            for axis in self._open[index]:
                most = _room(arguments[index].shape[axis])
                bounds[names[axis]] = (min(self._least[index, axis], most), most)
        return bounds

    def _tell(self, why: Any) -> None:
        if str(why) in self._told:
            return
        self._told.add(str(why))
        nodes = [node.name for node in self._graph.graph.nodes if node.op.startswith("call")]
        part = (f"{nodes[0]} … {nodes[-1]} ({len(nodes)} operations)" if len(nodes) > 1 else
                f"{nodes[0]} (1 operation)" if nodes else "of no operation")  # fmt: skip
        warnings.warn(f"tenon: torch runs the subgraph {part}: {why}", stacklevel=3)


def _check_ports(does: str, ports: Sequence[Port], tensors: Sequence[Any]) -> None:
    """Whether a module takes or gives what the captured graph does: the exporter has pairs of numbers for complex ones.

    Raises:
        TenonError: it does not.
    """
    expected = [(str(t.dtype).removeprefix("torch."), t.dim()) for t in tensors if isinstance(t, torch.Tensor)]
    found = [(port.element.numpy, len(port.extents)) for port in ports]
    if found != expected:
        one, other = next(((f, e) for f, e in zip(found, expected) if f != e), (len(found), len(expected)))
        words = [f"{n[0]} of rank {n[1]}" if isinstance(n, tuple) else f"{n} tensors" for n in (one, other)]
        raise TenonError(f"the exported graph {does} {words[0]}, the captured one {words[1]}")


def _tensor(value: Any, traced: Any) -> Any:
    """A result as the tensor that torch expects: of a module without inputs it is numpy's."""
    if isinstance(value, torch.Tensor):
        return value
    bits = {1: "int8", 2: "int16"}.get(value.itemsize) if isinstance(traced, torch.Tensor) and value.dtype.kind == "V" else None
    tensor = torch.from_numpy(value.view(bits)).view(traced.dtype) if bits else torch.from_numpy(value)
    return tensor.to(traced.device) if isinstance(traced, torch.Tensor) else tensor


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
