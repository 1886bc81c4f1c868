#!/usr/bin/env python3
"""Sends requests at a bounded rate and says how many were answered, how late, and whether any was lost.

    load.py URL EXAMPLE.npy [--rate=200] [--seconds=10] [--answer=EXPECTED.npy] [--v2=MODEL] [--input=NAME]

The body is what numpy.save writes, as this folder's deployment takes it, or with --v2 a request of the Open Inference
Protocol for a model of one input, as Triton and KServe take it at URL.

Requests are sent when their time comes, whether those before were answered or not (an open loop), so that a server
that stalls is not spared. Latency counts from the time at which a request was due. Refused: answered with 503, as
the server does when its queue is full. Lost: any other answer, none, or one that differs from EXPECTED.
"""

import argparse
import asyncio
import io
import json
import pathlib
import sys
import time

import aiohttp
import numpy as np


V2_TYPES = {"float16": "FP16", "float32": "FP32", "float64": "FP64", "bool": "BOOL"}


def read_npy(content):
    return np.load(io.BytesIO(content))


def v2_request(name, array):
    """The body of a request of the Open Inference Protocol."""
    kind = V2_TYPES.get(array.dtype.name, array.dtype.name.upper())
    return json.dumps({"inputs": [{"name": name, "shape": array.shape, "datatype": kind, "data": array.ravel().tolist()}]}).encode()


def v2_answer(content):
    output = json.loads(content)["outputs"][0]
    return np.asarray(output["data"]).reshape(output["shape"])


async def one(session, url, body, expected, due, results, read):
    await asyncio.sleep(due - time.perf_counter())
    try:
        async with session.post(url, data=body) as response:
            content, status = await response.read(), response.status
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        results.append(("lost", repr(error)))
        return
    late = time.perf_counter() - due
    if status == 503:
        results.append(("refused", late))
    elif status != 200:
        results.append(("lost", f"{status}: {content[:200].decode(errors='replace')}"))
    elif expected is not None and not np.allclose(read(content), expected, rtol=1e-4, atol=1e-5):
        results.append(("lost", "the answer is another than expected"))
    else:
        results.append(("done", late))


async def load(url, body, rate, seconds, expected=None, read=read_npy):
    """[("done" or "refused", seconds of latency) or ("lost", why)], one for each of rate * seconds requests."""
    results = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0),
                                     timeout=aiohttp.ClientTimeout(total=60)) as session:  # fmt: skip
        start = time.perf_counter() + 0.1
        due = [start + k / rate for k in range(int(rate * seconds))]
        await asyncio.gather(*(one(session, url, body, expected, at, results, read) for at in due))
    return results


def summary(results, seconds):
    """The figures of a load as one line of text."""
    late = sorted(value for kind, value in results if kind == "done")
    count = {kind: sum(1 for k, _ in results if k == kind) for kind in ("done", "refused", "lost")}
    at = lambda share: f"{1e3 * late[min(len(late) - 1, int(share * len(late)))]:.1f}" if late else "-"
    return (f"{count['done'] / seconds:.0f} answers/s of {len(results) / seconds:.0f} asked, refused {count['refused']}, "
            f"lost {count['lost']}, latency ms p50 {at(0.5)}, p99 {at(0.99)}, max {at(1)}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("example", type=pathlib.Path)
    parser.add_argument("--rate", type=float, default=200, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--answer", type=pathlib.Path, help="what every answer has to be (.npy)")
    parser.add_argument("--v2", metavar="MODEL", help="a model of the Open Inference Protocol's; URL is the server's")
    parser.add_argument("--input", default="input", help="with --v2: the input's name")
    options = parser.parse_args()
    expected = np.load(options.answer) if options.answer else None
    url, body, read = options.url, options.example.read_bytes(), read_npy
    if options.v2:
        url, body, read = f"{url.rstrip('/')}/v2/models/{options.v2}/infer", v2_request(options.input, np.load(options.example)), v2_answer
    results = asyncio.run(load(url, body, options.rate, options.seconds, expected, read))
    print(summary(results, options.seconds))
    lost = [why for kind, why in results if kind == "lost"]
    for why in sorted(set(lost))[:5]:
        print(f"lost: {why}", file=sys.stderr)
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
