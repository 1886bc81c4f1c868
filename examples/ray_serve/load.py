#!/usr/bin/env python3
"""Sends requests at a bounded rate and says how many were answered, how late, and whether any was lost.

    load.py URL EXAMPLE.npy [--rate=200] [--seconds=10] [--answer=EXPECTED.npy]

Requests are sent when their time comes, whether those before were answered or not (an open loop), so that a server
that stalls is not spared. Latency counts from the time at which a request was due. Refused: answered with 503, as
the server does when its queue is full. Lost: any other answer, none, or one that differs from EXPECTED.
"""

import argparse
import asyncio
import io
import pathlib
import sys
import time

import aiohttp
import numpy as np


async def one(session, url, body, expected, due, results):
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
    elif expected is not None and not np.allclose(np.load(io.BytesIO(content)), expected, rtol=1e-4, atol=1e-5):
        results.append(("lost", "the answer is another than expected"))
    else:
        results.append(("done", late))


async def load(url, body, rate, seconds, expected=None):
    """[("done" or "refused", seconds of latency) or ("lost", why)], one for each of rate * seconds requests."""
    results = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0),
                                     timeout=aiohttp.ClientTimeout(total=60)) as session:  # fmt: skip
        start = time.perf_counter() + 0.1
        due = [start + k / rate for k in range(int(rate * seconds))]
        await asyncio.gather(*(one(session, url, body, expected, at, results) for at in due))
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
    options = parser.parse_args()
    expected = np.load(options.answer) if options.answer else None
    results = asyncio.run(load(options.url, options.example.read_bytes(), options.rate, options.seconds, expected))
    print(summary(results, options.seconds))
    lost = [why for kind, why in results if kind == "lost"]
    for why in sorted(set(lost))[:5]:
        print(f"lost: {why}", file=sys.stderr)
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
