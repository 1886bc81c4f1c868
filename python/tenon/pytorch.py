"""PyTorch modules as ONNX models in memory, by torch's exporter."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from .errors import TenonError


def export(module: torch.nn.Module, example_inputs: Sequence[Any] | None, dynamic_shapes: Any = None) -> bytes:
    """The ONNX model of a module, its parameters inside.

    Args:
        example_inputs: the tensors of one call, in order; or one tensor.
        dynamic_shapes: as `torch.export.export` takes it.

    Raises:
        TenonError: there are no example inputs, or torch cannot export the module (its own error is the cause).
    """
    if example_inputs is None:
        raise TenonError("a torch.nn.Module needs example_inputs=(x, …), the tensors that it is exported with")
    inputs = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    training = module.training
    module.eval()
    try:
        with torch.no_grad(), _quiet():
            # An empty table decomposes nothing, but shows what is changed in place.
            exported = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes).run_decompositions({})
            signature = exported.graph_signature
            if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
                raise TenonError("it changes its inputs or buffers in place, which a compiled model does not")
            program = torch.onnx.export(exported, dynamo=True, verbose=False)
        return program.model_proto.SerializeToString()
    except Exception as error:
        raise TenonError(f"torch cannot export {type(module).__name__} to ONNX: {error}") from error
    finally:
        module.train(training)


@contextlib.contextmanager
def _quiet():
    """Keeps the exporter's progress and advice away."""
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch.onnx").setLevel(level)
