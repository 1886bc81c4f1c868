"""Graph: launches of a kernel study, captured once and timed by replaying them."""

import torch


class Graph:
    """What `launches` calls of `call(stream)` launch, captured."""

    def __init__(self, call, stream, launches=1):
        self.stream, self.launches = stream, launches
        with torch.cuda.stream(stream):
            call(stream)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            self.graph.capture_begin()
            for _ in range(launches):
                self.kept = None  # each call's result takes the memory of the one before
                self.kept = call(stream)
            self.graph.capture_end()
            self.graph.replay()

    def time(self):
        """Microseconds of a call."""
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(self.stream):
            a.record()
            self.graph.replay()
            b.record()
        b.synchronize()
        return a.elapsed_time(b) * 1e3 / self.launches
