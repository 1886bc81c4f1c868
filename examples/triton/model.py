"""A compiled model in Triton Inference Server's Python backend: `repository.py` puts this file beside the model.

Triton gives the requests that wait to `execute` together. Those along the model's open batch dimension are joined, up
to its upper bound, and their results split again; a request that is wrong gets its own error and spoils no other.
"""

import json
import os
import sys
from pathlib import Path

# The interpreter inside PyTriton's server leaves the variable out.
sys.path += [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p not in sys.path]

import numpy as np
import tenon
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        on_gpu = args["model_instance_kind"] == "GPU"
        where = {"device": int(args["model_instance_device_id"])} if on_gpu else {}
        self.module = tenon.load(Path(args["model_repository"]) / args["model_version"] / "module", **where)
        self.most = json.loads(args["model_config"])["max_batch_size"]  # 0: requests are not joined

    def execute(self, requests):
        answers = [None] * len(requests)
        batches, rows = [[]], 0  # of (number of the request, its inputs)
        for k, request in enumerate(requests):
            try:
                given = {port.name: self.array(request, port) for port in self.module.inputs}
            except ValueError as error:
                answers[k] = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
                continue
            size = len(next(iter(given.values()))) if self.most else 1
            if batches[-1] and (not self.most or rows + size > self.most or not same_shapes(batches[-1][0][1], given)):
                batches.append([])
                rows = 0
            batches[-1].append((k, given))
            rows += size
        for batch in filter(None, batches):
            self.run(batch, answers)
        return answers

    def array(self, request, port):
        tensor = pb_utils.get_input_tensor_by_name(request, port.name)
        if tensor is None:
            raise ValueError(f"input '{port.name}' is missing")
        return tensor.as_numpy()

    def run(self, batch, answers):
        try:
            if len(batch) == 1:
                given = batch[0][1]
            else:
                given = {name: np.concatenate([inputs[name] for _, inputs in batch]) for name in batch[0][1]}
            results = self.module(given)
        except (tenon.TenonError, ValueError) as error:
            for k, _ in batch:
                answers[k] = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
            return
        at = 0
        for k, inputs in batch:
            size = len(next(iter(inputs.values()))) if self.most else None
            parts = {name: y[at : at + size] if len(batch) > 1 else y for name, y in results.items()}
            answers[k] = pb_utils.InferenceResponse([pb_utils.Tensor(name, np.ascontiguousarray(y)) for name, y in parts.items()])
            at += size or 0


def same_shapes(a, b):
    """Whether the arrays of two requests differ in their first extent at most."""
    return all(a[name].shape[1:] == b[name].shape[1:] for name in a)
