"""PyTorch modules as ONNX models in memory, by torch's exporter."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .errors import TenonError


class ChangesInPlace(TenonError):
    """A module that changes inputs (by their places) or buffers (by name) in place."""

    def __init__(self, inputs: Sequence[int], buffers: Sequence[str]):
        super().__init__("it changes its inputs or buffers in place, which a compiled model does not")
        self.inputs, self.buffers = list(inputs), list(buffers)


def export(module: torch.nn.Module, example_inputs: Sequence[Any] | None, dynamic_shapes: Any = None) -> bytes:
    """The ONNX model of a module, its parameters inside.

    Args:
        example_inputs: the tensors of one call, in order; or one tensor.
        dynamic_shapes: as `torch.export.export` takes it.

    Raises:
        ChangesInPlace: the module does so.
        TenonError: there are no example inputs, or torch cannot export the module (its own error is the cause).
    """
    if example_inputs is None:
        raise TenonError("a torch.nn.Module needs example_inputs=(x, …), the tensors that it is exported with")
    inputs = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    training = module.training
    module.eval()
    try:
        with torch.no_grad(), _quiet():
            # The table is short: what is decomposed here, Tenon would not see as a whole.
            exported = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
            exported = exported.run_decompositions(_DECOMPOSED)
            signature = exported.graph_signature
            if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
                places = {name: place for place, name in enumerate(signature.user_inputs)}
                raise ChangesInPlace([places[name] for name in signature.user_inputs_to_mutate.values()],
                                     list(signature.buffers_to_mutate.values()))  # fmt: skip
            # Its optimiser folds batch norms into halves, which rounds them once more, and of bfloat16 makes float32.
            model = torch.onnx.export(exported, dynamo=True, verbose=False, optimize=False).model_proto
        _give_types(model, exported)
        return bytes(model.SerializeToString())
    except ChangesInPlace:
        raise
    except Exception as error:
        name = getattr(module, "exported_as", type(module).__name__)
        root = _root_of(error)
        missing = root.name if isinstance(root, ModuleNotFoundError) else None
        remedy = f"; its exporter needs more packages: pip install {missing}" if missing else ""
        lines = str(root).strip().splitlines()
        raise TenonError(f"torch cannot export {name} to ONNX: {lines[0] if lines else type(root).__name__}{remedy}") from error
    finally:
        module.train(training)


def _give_types(model: Any, exported: torch.export.ExportedProgram) -> None:
    """Casts outputs to the types that they have in torch: the exporter leaves some reductions of halves in fp32."""
    import onnx

    values = [node.meta.get("val") for node in exported.graph.output_node().args[0] if isinstance(node, torch.fx.Node)]
    if len(values) != len(model.graph.output):
        return
    for value, output in zip(values, model.graph.output):
        halves = {torch.float16: onnx.TensorProto.FLOAT16, torch.bfloat16: onnx.TensorProto.BFLOAT16}
        wanted = halves.get(getattr(value, "dtype", None))
        kind = output.type.tensor_type
        if wanted and kind.elem_type == onnx.TensorProto.FLOAT:
            wide = f"{output.name}/fp32"
            for node in model.graph.node:
                node.output[:] = [wide if name == output.name else name for name in node.output]
                node.input[:] = [wide if name == output.name else name for name in node.input]
            model.graph.node.append(onnx.helper.make_node("Cast", [wide], [output.name], f"{output.name}/cast", to=wanted))
            kind.elem_type = wanted


def _root_of(error: BaseException) -> BaseException:
    """The first of a chain of errors: the exporter's last one says little."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the exporter's progress and advice away."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _encoder_layer(x: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, out_weight: Any, out_bias: Any, gelu: bool,
                   norm_first: bool, eps: float, gamma1: Any, beta1: Any, gamma2: Any, beta2: Any, weight1: Any, bias1: Any,
                   weight2: Any, bias2: Any, mask: Any = None, mask_type: Any = None) -> Any:  # fmt: skip
    """torch.nn.TransformerEncoderLayer in inference, which torch keeps as one operator that ONNX does not have."""
    nn = torch.nn.functional
    if mask is not None:
        # 0: [tokens, tokens], 1: [batch, tokens], of what is not attended to.
        mask = {0: lambda m: m, 1: lambda m: m[:, None, None, :]}.get(mask_type, lambda m: m)(mask)
        mask = ~mask if mask.dtype == torch.bool else mask

    def attended(x: Any) -> Any:
        batch, tokens, _ = x.shape
        q, k, v = (part.view(batch, tokens, heads, width // heads).transpose(1, 2)
                   for part in nn.linear(x, qkv_weight, qkv_bias).chunk(3, -1))  # fmt: skip
        y = nn.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return nn.linear(y.transpose(1, 2).reshape(batch, tokens, width), out_weight, out_bias)

    def expanded(x: Any) -> Any:
        return nn.linear((nn.gelu if gelu else nn.relu)(nn.linear(x, weight1, bias1)), weight2, bias2)

    def norm1(x: Any) -> Any:
        return nn.layer_norm(x, (width,), gamma1, beta1, eps)

    def norm2(x: Any) -> Any:
        return nn.layer_norm(x, (width,), gamma2, beta2, eps)

    if norm_first:
        x = x + attended(norm1(x))
        return x + expanded(norm2(x))
    x = norm1(x + attended(x))
    return norm2(x + expanded(x))


def _attention(q: Any, k: Any, v: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, out_weight: Any, out_bias: Any,
               mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
               mask_type: Any = None) -> Any:  # fmt: skip
    """torch.nn.MultiheadAttention in inference, likewise."""
    nn = torch.nn.functional
    parts = []
    for x, weight, bias in zip((q, k, v), qkv_weight.chunk(3), qkv_bias.chunk(3)):
        parts.append(nn.linear(x, weight, bias).view(*x.shape[:2], heads, width // heads).transpose(1, 2))
    scores = parts[0] @ parts[1].transpose(-1, -2) * (width // heads) ** -0.5
    if mask is not None:
        mask = mask[:, None, None, :] if mask_type == 1 else mask
        scores = scores.masked_fill(mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    share = scores.softmax(-1)
    y = (share @ parts[2]).transpose(1, 2).reshape(*q.shape[:2], width)
    given = share.mean(1) if average_attn_weights else share
    return nn.linear(y, out_weight, out_bias), given if need_weights else q.new_empty(0)


def _conv3d(x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
            groups: int = 1) -> Any:  # fmt: skip
    """torch's 3-d convolution as its general one: onnxscript 0.7 gives the former, without a bias, one of two dimensions."""
    triples = [[n] * 3 if isinstance(n, int) else list(n) * (3 // len(n)) for n in (stride, padding, dilation)]
    return torch.ops.aten.convolution(x, weight, bias, *triples, False, [0, 0, 0], groups)


def _in_float(reduction: Any) -> Callable[..., Any]:
    """A sum of halves as one of fp32 that is rounded once: the exporter widens what goes in, and leaves the result so."""

    def widened(x: Any, *rest: Any, **named: Any) -> Any:
        if x.dtype not in (torch.float16, torch.bfloat16) or named.get("dtype"):
            return NotImplemented
        return reduction(x.float(), *rest, **named).to(x.dtype)

    return widened


def _of_all(reduction: Any) -> Callable[..., Any]:
    """One of all dimensions with these by number, which onnxscript 0.7 wants."""

    def numbered(x: Any, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
        return reduction(x, list(range(x.dim())), keepdim) if not dim and x.dim() else NotImplemented

    return numbered


_STATISTICS = torch.ops.aten._native_batch_norm_legit_functional.default

_DECOMPOSED = {
    # ONNX's own takes another variance to the running one: of all elements, not of all but one.
    _STATISTICS: torch._decomp.decomposition_table[_STATISTICS],
    **{op: _in_float(op) for op in (torch.ops.aten.sum.default, torch.ops.aten.sum.dim_IntList, torch.ops.aten.cumsum.default)},
    **{op: _of_all(op) for op in (torch.ops.aten.amax.default, torch.ops.aten.amin.default)},
    torch.ops.aten.conv3d.default: _conv3d,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    torch.ops.aten._native_multi_head_attention.default: _attention,
}
