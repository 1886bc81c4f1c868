"""How programs on a GPU are timed: between two events around enough runs."""

import torch


def span(peer, runs):
    """Milliseconds per run between two events around `runs` of them."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(runs):
        peer.run()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / runs
