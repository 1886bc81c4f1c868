"""A compiled model behind HTTP by Ray Serve: replicas, batches along the model's open dimension, health, autoscaling.

    serve run deployment:application model=/models/digits replicas=2

`model` is a folder that `tenon.Module.save` wrote; it has the built library, so a replica loads in milliseconds and
needs no compiler. POST / takes one example as numpy.savez writes it, arrays by the names of the inputs, and answers with
the outputs in the same form; for one input the bytes of numpy.save do, and one output comes so. GET /-/healthz is
Serve's own.

Two deployments: `Model` runs the network, and `Gateway` takes requests. Inference changes nothing, so the gateway
hands a request whose replica died to another one. What cannot be served within the bounds is refused with 503 at
once (`max_queued_requests`), not kept.
"""

from __future__ import annotations

import asyncio
import io
import zipfile

import numpy as np
import tenon
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

ATTEMPTS = 4  # replicas that a request is given to before it fails


Example = dict[str, np.ndarray]


def batch_dimension(module: tenon.Module) -> tenon.Dimension | None:
    """The dimension that requests are joined along: the first of every input and output, where it is open."""
    first = {port.shape[0] if port.shape else None for port in (*module.inputs, *module.outputs)}
    return next((dim for dim in module.run_time_dims if first == {dim.name}), None)


@serve.deployment(health_check_period_s=2, health_check_timeout_s=10, graceful_shutdown_timeout_s=10)
class Model:
    """One replica: the weights once, and a context for each call that is under way.

    Args:
        folder: what `Module.save` wrote.
        wait_ms: how long the first request of a batch waits for others.
    """

    def __init__(self, folder: str, wait_ms: float = 2):
        self.module = tenon.load(folder)
        self.batch = batch_dimension(self.module)
        self.infer.set_max_batch_size(self.batch.high if self.batch else 1)
        self.infer.set_batch_wait_timeout_s(wait_ms / 1000 if self.batch else 0)
        dims = {dim.name: 1 if dim is self.batch else dim.high for dim in self.module.run_time_dims}
        self.shapes = {port.name: tuple(extent.value(dims) for extent in port.extents) for port in self.module.inputs}
        self.probe = {port.name: np.zeros(self.shapes[port.name], port.dtype) for port in self.module.inputs}

    def check_health(self) -> None:
        """Serve calls it every few seconds and replaces the replica when it raises."""
        self.module(self.probe)

    def refusal(self, example: Example) -> str | None:
        """Why an example cannot be run, found before it spoils a batch of others."""
        if set(example) != set(self.shapes):
            return f"expected arrays named {sorted(self.shapes)}, found {sorted(example)}"
        for name, array in example.items():
            kind, shape = self.probe[name].dtype, self.shapes[name]
            if array.dtype != kind or array.shape != shape:
                return f"input '{name}': expected {kind} of shape {shape}, found {array.dtype} of shape {array.shape}"
        return None

    @serve.batch(max_batch_size=1)
    async def infer(self, examples: list[Example]) -> list[Example]:
        joined = {name: np.concatenate([e[name] for e in examples]) if self.batch else examples[0][name] for name in self.shapes}
        # The network runs beside the event loop, which meanwhile gathers the next batch.
        outputs = await asyncio.to_thread(self.module, joined)
        return [{name: y[k : k + 1] if self.batch else y for name, y in outputs.items()} for k in range(len(examples))]

    async def run(self, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer to a request."""
        try:
            read = np.load(io.BytesIO(body), allow_pickle=False)
            alone = isinstance(read, np.ndarray)
            example = {next(iter(self.shapes)): read} if alone else dict(read)
        except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
            return 400, f"the body is nothing that numpy.save or numpy.savez writes: {error}\n".encode()
        if wrong := self.refusal(example):
            return 400, f"{wrong}\n".encode()
        outputs, answer = await self.infer(example), io.BytesIO()
        if alone and len(outputs) == 1:
            np.save(answer, *outputs.values())
        else:
            np.savez(answer, **outputs)
        return 200, answer.getvalue()


@serve.deployment
class Gateway:
    """Reads requests, hands them to replicas, and to another one when the first dies."""

    def __init__(self, model: serve.handle.DeploymentHandle):
        self.model = model

    async def __call__(self, request: Request) -> Response:
        if request.method != "POST":
            return PlainTextResponse("POST the bytes of numpy.save or numpy.savez\n", 405)
        body = await request.body()
        for _ in range(ATTEMPTS):
            try:
                status, answer = await self.model.run.remote(body)
                return Response(answer, status, media_type="text/plain" if status != 200 else "application/octet-stream")
            except RayActorError:
                continue  # nothing was changed: the next replica may have it
            except BackPressureError:
                return PlainTextResponse("all replicas are busy\n", 503, {"Retry-After": "1"})
        return PlainTextResponse(f"{ATTEMPTS} replicas died under this request\n", 502)


def application(arguments: dict[str, str]) -> serve.Application:
    """What `serve run` and `serve deploy` build.

    Args:
        arguments: model (folder), replicas (a number, or LEAST:MOST to scale by load), gpus (a replica's share of a
            card), wait_ms, queue (requests that may wait).
    """
    least, _, most = str(arguments.get("replicas", 1)).partition(":")
    scale = {"num_replicas": int(least)} if not most else {
        "autoscaling_config": {"min_replicas": int(least), "max_replicas": int(most), "target_ongoing_requests": 8}
    }  # fmt: skip
    model = Model.options(
        ray_actor_options={"num_cpus": 1, "num_gpus": float(arguments.get("gpus", 0))},
        max_ongoing_requests=64, max_queued_requests=int(arguments.get("queue", 256)), **scale,
    ).bind(arguments["model"], float(arguments.get("wait_ms", 2)))  # fmt: skip
    return Gateway.options(max_ongoing_requests=256, ray_actor_options={"num_cpus": 0}).bind(model)
