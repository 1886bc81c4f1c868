"""Times the study of few rows: each product alone, and the chain of a decoder's products.

usage: times.py LIBRARY [--csv=FILE] [--seconds=S] [--rows=R,...] [--weights=fp16,int8,int4] [--no-qwen]

Every figure is the time of a captured graph of launches whose weights lie one behind the other in
2.6 GB, so that none are in the second-level cache. First each variant by itself, over at least
300 MB of weights; then, with the fastest variant of each product, all products of Llama-3.2-1B's
step (16 layers and the head), a launch a product and all in one launch, in turn with the kernel
that only reads as many bytes, and with PyTorch's products (fp16: F.linear; int4: _weight_int4pack_mm), all in one process.
"""
import ctypes
import math
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from graph import Graph


class Problem(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_void_p) for n in ("w", "scale", "x", "y")]
                + [(n, ctypes.c_int) for n in ("n", "k", "tokens")])


class Chain(ctypes.Structure):
    _fields_ = [("products", ctypes.c_void_p), ("clear", ctypes.c_void_p), ("clear_bytes", ctypes.c_long),
                ("count", ctypes.c_int), ("tokens", ctypes.c_int)]


KINDS = ("fp16", "int8", "int4")
ROWS, READ = 3, 4  # layouts beyond those of KINDS
SCALE = (0, 3e-4, 4e-3)
LLAMA = {"qkv": (3072, 2048), "o": (2048, 2048), "gate up": (16384, 2048), "down": (2048, 8192)}
HEAD = (128256, 2048)
QWEN = {"qkv": (4096, 1024), "o": (1024, 2048), "gate up": (6144, 1024), "down": (1024, 3072)}
PEAK = 3.35e12
POOL = 2_600_000_000


def weight_bytes(kind, n, k):
    return n * k * (2, 1, 0.5)[kind]


def all_bytes(kind, n, k, tokens):
    """Weights and scales: what is read once."""
    return weight_bytes(kind, n, k) + (n * k // 32 * 2 if kind else 0)


class Study:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.gemv_name.restype = ctypes.c_char_p
        self.lib.gemv_launch.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        self.lib.gemv_launch_chain.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self.stream = torch.cuda.Stream()
        self.pool = torch.empty(POOL // 2, dtype=torch.float16, device="cuda")
        for part in self.pool.split(1 << 27):
            part.normal_(0, 0.02)
        self.scales = [torch.full((POOL // 32,), s, dtype=torch.float16, device="cuda") for s in SCALE]
        self.rows = [torch.randn(16 * HEAD[0], device="cuda").half() for _ in range(2)]

    def variants(self, kind, tokens, chains=0):
        return [i for i in range(self.lib.gemv_count()) if self.lib.gemv_suits(i, tokens)
                and self.lib.gemv_is_chain(i) == chains and (self.lib.gemv_layout_of(i) in ((kind, ROWS) if kind == 0 else (kind,)))]

    def readers(self):
        return [i for i in range(self.lib.gemv_count()) if self.lib.gemv_layout_of(i) == READ]

    def name(self, i):
        return self.lib.gemv_name(i).decode()

    def launcher(self, products, early):
        """A call for products (variant, kind, n, k, tokens), their weights one behind the other,
        each reading what the one before wrote. None where one finds no room."""
        problems, at, scales_at = [], 0, 0
        for j, (i, kind, n, k, tokens) in enumerate(products):
            p = Problem()
            read = self.lib.gemv_layout_of(i) == READ
            size = int(all_bytes(kind, n, k, tokens) if read else weight_bytes(kind, n, k))
            if at + size > POOL:
                at = 0
            p.w, at = self.pool.data_ptr() + at, at + (size + 511) // 512 * 512
            if scales_at + n * k // 16 > POOL // 16:
                scales_at = 0
            p.scale, scales_at = self.scales[kind].data_ptr() + scales_at, scales_at + n * k // 16
            p.x, p.y = (self.rows[(j + b) % 2].data_ptr() for b in (0, 1))
            p.n, p.k, p.tokens = (size // 16, 8, 1) if read else (n, k, tokens)
            problems.append((i, p))

        def call(stream):
            for i, p in problems:
                e = self.lib.gemv_launch(i, ctypes.addressof(p), stream.cuda_stream, early)
                if e:
                    raise RuntimeError(f"error {e}")
        return call

    def chain_launcher(self, i, kind, shapes, tokens):
        """Two launches of a variant for chains, each clearing the other's results."""
        sizes = [(n * tokens * 2 + 255) // 256 * 256 for n, _ in shapes]
        results = torch.full((2, sum(sizes)), 255, dtype=torch.uint8, device="cuda")
        first = torch.randn(tokens * shapes[0][1], device="cuda").half()
        calls = []
        for s in (0, 1):
            rows, at, scales_at, to = [], 0, 0, results[s].data_ptr()
            x = first.data_ptr()
            for (n, k), size in zip(shapes, sizes):
                w = int(weight_bytes(kind, n, k))
                if at + w > POOL:
                    at = 0
                if scales_at + n * k // 16 > POOL // 16:
                    scales_at = 0
                rows.append((self.pool.data_ptr() + at, self.scales[kind].data_ptr() + scales_at, x, to, n | k << 32))
                at, scales_at, x, to = at + (w + 511) // 512 * 512, scales_at + n * k // 16, to, to + size
            table = torch.tensor(rows, dtype=torch.int64, device="cuda")
            c = Chain(table.data_ptr(), results[1 - s].data_ptr(), sum(sizes), len(shapes), tokens)
            calls.append((c, table))
        torch.cuda.synchronize()

        def call(stream):
            for c, _ in calls:
                e = self.lib.gemv_launch_chain(i, ctypes.addressof(c), stream.cuda_stream)
                if e:
                    raise RuntimeError(f"error {e}")
            return results, first, calls  # for as long as the graph
        return call

    def fits(self, i, kind, n, k, tokens):
        p = Problem()
        p.w, p.scale, p.x, p.y = (t.data_ptr() for t in (self.pool, self.scales[kind], *self.rows))
        p.n, p.k, p.tokens = n, k, tokens
        e = self.lib.gemv_launch(i, ctypes.addressof(p), self.stream.cuda_stream, 0)
        torch.cuda.synchronize()
        if e not in (0, 1000):
            raise RuntimeError(f"error {e}")
        return e == 0

    def alone(self, i, kind, n, k, tokens, early=1):
        """Microseconds of a launch among others over other weights."""
        count = min(256, max(8, math.ceil(3e8 / all_bytes(kind, n, k, tokens))))
        graph = Graph(self.launcher([(i, kind, n, k, tokens)] * count, early), self.stream)
        return statistics.median(graph.time() for _ in range(5)) / count


def torch_chain(study, kind, products, tokens):
    """PyTorch's products over views of the same memory."""
    at, calls = 0, []
    for n, k in products:
        size = int(weight_bytes(kind, n, k))
        if at + size > POOL:
            at = 0
        w, at = study.pool[at // 2:(at + size) // 2], at + size
        if kind == 0:
            x = torch.randn(tokens, k, device="cuda").half()
            calls.append(lambda x=x, w=w.view(n, k): F.linear(x, w))
        else:
            x = torch.randn(tokens, k, device="cuda").bfloat16()
            packed = w.view(torch.int32).view(n // 8, k // 128, 32, 4)
            scales = torch.full((k // 32, n, 2), 4e-3, device="cuda", dtype=torch.bfloat16)
            calls.append(lambda x=x, w=packed, s=scales: torch.ops.aten._weight_int4pack_mm(x, w, 32, s))
    return lambda _: [c() for c in calls]


class TwoSteps(Graph):
    """Of a call that launches a step twice."""

    def time(self):
        return super().time() / 2


def turns(graphs, rounds=6):
    samples = {n: [] for n in graphs}
    for _ in range(rounds):
        for n in list(graphs) + list(graphs)[::-1]:
            samples[n].append(graphs[n].time())
    return {n: statistics.median(s) for n, s in samples.items()}


def main():
    options = dict(a[2:].partition("=")[::2] for a in sys.argv[2:])
    study, seconds, start = Study(sys.argv[1]), float(options.get("seconds", 1e9)), time.time()
    csv = open(options["csv"], "w") if "csv" in options else None
    if csv:
        print("rows;weights;product;n;k;name;us;share_of_peak", file=csv)

    def put(tokens, kind, product, n, k, name, us, size):
        if csv:
            print(f"{tokens};{kind};{product};{n};{k};{name};{us:.2f};{size / us * 1e6 / PEAK:.3f}",
                  file=csv, flush=True)

    print(torch.cuda.get_device_name(), torch.__version__)
    size = 2_500_000_000
    graphs = {study.name(i): Graph(study.launcher([(i, 0, size // 4096, 2048, 1)], 0), study.stream)
              for i in study.readers()}
    for name, us in turns(graphs).items():
        put(0, "fp16", "all at once", size // 4096, 2048, name, us, size)
        print(f"{name}: {size} bytes by one kernel, {size / us * 1e6 / PEAK:.3f} of 3.35 TB/s")
    del graphs
    print("rows weights product | best us, share of peak, of reading: variant | the next")
    for tokens in map(int, options.get("rows", "1,4,8,16,2").split(",")):
        for kind, kind_name in enumerate(KINDS):
            if kind_name not in options.get("weights", kind_name).split(","):
                continue
            if time.time() - start > seconds:
                print("out of time")
                return
            best, reads = {}, {}
            shapes = {**LLAMA, "head": HEAD}
            if tokens == 1 and "no-qwen" not in options:
                shapes.update({"Qwen " + s: p for s, p in QWEN.items()})
            for product, (n, k) in shapes.items():
                size = all_bytes(kind, n, k, tokens)
                times = {}
                for i in study.variants(kind, tokens):
                    if study.fits(i, kind, n, k, tokens):
                        times[i] = study.alone(i, kind, n, k, tokens)
                        put(tokens, kind_name, product, n, k, study.name(i), times[i], size)
                read = {i: study.alone(i, kind, n, k, tokens) for i in study.readers()}
                for i, us in read.items():
                    put(tokens, kind_name, product, n, k, study.name(i), us, size)
                reads[product] = min(read, key=read.get)
                if not times:
                    print(f"{tokens:2d} {kind_name} {product:8s} | no room for the rows")
                    continue
                ranks = sorted(times, key=times.get)
                best[product] = ranks[0]
                us = times[ranks[0]]
                print(f"{tokens:2d} {kind_name} {product:12s} | {us:7.2f} {size / us * 1e6 / PEAK:.2f} "
                      f"{min(read.values()) / us:.2f}: {study.name(ranks[0])} | "
                      + ", ".join(f"{study.name(i)} {times[i]:.2f}" for i in ranks[1:3]), flush=True)
            names = [p for _ in range(16) for p in LLAMA] + ["head"]
            if any(p not in best for p in names):
                continue
            size = sum(all_bytes(kind, *shapes[p], tokens) for p in names)
            ours = [(best[p], kind, *shapes[p], tokens) for p in names]
            graphs = {"ours early": Graph(study.launcher(ours, 1), study.stream),
                      "ours": Graph(study.launcher(ours, 0), study.stream),
                      **{study.name(i): TwoSteps(study.chain_launcher(i, kind, [shapes[p] for p in names], tokens),
                                                 study.stream) for i in study.variants(kind, tokens, 1)},
                      "read early": Graph(study.launcher(
                          [(reads[p], kind, *shapes[p], tokens) for p in names], 1), study.stream)}
            if kind != 1:
                try:
                    graphs["torch"] = Graph(torch_chain(study, kind, [shapes[p] for p in names], tokens),
                                            study.stream)
                except (RuntimeError, NotImplementedError, AttributeError) as e:
                    print("torch:", str(e).splitlines()[0][:150])
                    torch.cuda.synchronize()
            result = turns(graphs)
            for name, us in result.items():
                put(tokens, kind_name, "Llama-3.2-1B", 0, 0, name, us, size)
            print(f"{tokens:2d} {kind_name} Llama-3.2-1B | " + ", ".join(
                f"{name} {us:.0f} us {size / us * 1e6 / PEAK:.3f}" for name, us in result.items()), flush=True)
            del graphs


main()
