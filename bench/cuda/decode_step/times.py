"""Times the study of a decoder's step: Llama-3.2-1B, one token, beside PyTorch's.

usage: times.py LIBRARY [--csv=FILE] [--seconds=S] [--layers=N] [--kinds=fp16,int4] [--no-torch]

Weights are random (seeded), the cache is filled with random keys. First a step of each kind of
weights is compared with fp64 in PyTorch on the same weights: logits, cache rows and tokens of three
steps in a row, from poisoned buffers. Then every variant is timed: 32 replays of the captured step,
the cache growing, between two events. Last, where the time of the fastest goes, by stamps that its
kernels write. PyTorch's step has a static cache and its layers compiled, and is captured, too.
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
from packing import pack_fp16, pack_int4

HIDDEN, HEADS, KV_HEADS, D, INNER, VOCABULARY = 2048, 32, 8, 64, 8192, 128256
QKV = (HEADS + 2 * KV_HEADS) * D
EPSILON = 1e-5
PEAK = 4.8e12 if "H200" in torch.cuda.get_device_name() else 3.35e12  # bytes a second
KINDS = {"fp16": 0, "int4": 2}
PARTS = ("qkv", "attend", "project", "gate_up", "down")
POINTERS = ("qkv", "qkv_scale", "project", "project_scale", "gate_up", "gate_up_scale", "down", "down_scale",
            "attend_gamma", "mlp_gamma", "k", "v")


class Layer(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in POINTERS]


class Model(ctypes.Structure):
    _fields_ = ([("layers", ctypes.POINTER(Layer))]
                + [(n, ctypes.c_void_p) for n in ("head", "head_scale", "gamma", "cos", "sin", "results", "logits", "best", "token", "length", "tokens",
                                                  "times")]
                + [(n, ctypes.c_int) for n in ("count", "hidden", "heads", "kv_heads", "d", "inner_size",
                                               "vocabulary", "capacity")]
                + [("epsilon", ctypes.c_float)])


class Options(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("kind", "variant", "attend", "early", "late")]


class Decoder:
    """Weights of a kind, as they are (for references) and packed."""

    def __init__(self, kind, layers, capacity, length):
        self.kind, self.count, self.capacity, self.first = kind, layers, capacity, length
        self.generator = torch.Generator("cuda").manual_seed(7)
        self.kept, self.plain = [], []
        rows = (Layer * layers)()
        residual = 1 / math.sqrt(2 * layers)
        for i in range(layers):
            plain = {}
            for name, n, k, by in (("qkv", QKV, HIDDEN, 1), ("project", HIDDEN, HEADS * D, residual),
                                   ("gate_up", 2 * INNER, HIDDEN, 1), ("down", HIDDEN, INNER, residual)):
                plain[name], *packed = self.weights(n, k, by)
                self.put(rows[i], name, *packed)
            for name in ("attend_gamma", "mlp_gamma"):
                plain[name] = self.random(HIDDEN, by=0.2).add_(1).half()
                self.put(rows[i], name, plain[name])
            for name in ("k", "v"):
                plain[name] = torch.full((KV_HEADS, capacity, D), math.nan, dtype=torch.float16, device="cuda")
                plain[name][:, :length] = self.random(KV_HEADS, length, D).half()
                self.put(rows[i], name, plain[name])
            self.plain.append(plain)
        m = self.model = Model()
        m.layers, self.rows = rows, rows
        self.head, *packed = self.weights(VOCABULARY, HIDDEN, 1)
        self.put(m, "head", *packed)
        self.gamma = self.random(HIDDEN, by=0.2).add_(1).half()
        angles = (torch.arange(capacity, device="cuda", dtype=torch.float64)[:, None]
                  * 500000.0 ** (-torch.arange(0, D, 2, device="cuda", dtype=torch.float64) / D))
        self.cos, self.sin = angles.cos().float(), angles.sin().float()
        self.buffers = {"logits": torch.empty(VOCABULARY, dtype=torch.float16, device="cuda"),
                        "best": torch.zeros(1, dtype=torch.int64, device="cuda"),
                        "token": torch.zeros(1, dtype=torch.int32, device="cuda"),
                        "length": torch.zeros(1, dtype=torch.int32, device="cuda"),
                        "tokens": torch.zeros(capacity, dtype=torch.int32, device="cuda")}
        for name, t in {**self.buffers, "gamma": self.gamma, "cos": self.cos, "sin": self.sin}.items():
            self.put(m, name, t)
        m.logits = None
        m.count, m.hidden, m.heads, m.kv_heads, m.d, m.inner_size = layers, HIDDEN, HEADS, KV_HEADS, D, INNER
        m.vocabulary, m.capacity, m.epsilon = VOCABULARY, capacity, EPSILON
        count = layers * HIDDEN * (QKV + HEADS * D + 3 * INNER) + VOCABULARY * HIDDEN
        self.bytes = count * 2 if kind == 0 else count // 2 + count // 16
        self.bytes += layers * length * 2 * KV_HEADS * D * 2
        self.rewind()

    def make_results(self, lib):
        self.results = torch.full((lib.step_results(ctypes.addressof(self.model), 5 * self.count + 2),), 255,
                                  dtype=torch.uint8, device="cuda")
        self.model.results = self.results.data_ptr()

    def random(self, *shape, by=1.0):
        return torch.randn(*shape, device="cuda", generator=self.generator).mul_(by)

    def weights(self, n, k, by):
        """As they are (halves, or values and scales), and packed."""
        by /= math.sqrt(k)
        if self.kind == 0:
            w = self.random(n, k, by=by).half()
            return w, pack_fp16(w)
        q = torch.randint(-8, 8, (n, k), dtype=torch.int8, device="cuda", generator=self.generator)
        scale = (torch.rand(n, k // 32, device="cuda", generator=self.generator) + 0.5).mul_(by / 4.8).half()
        return (q, scale), *pack_int4(q, scale)

    def put(self, to, name, t, scale=None):
        setattr(to, name, t.data_ptr())
        self.kept.append((name, t))
        if scale is not None:
            setattr(to, name + "_scale", scale.data_ptr())
            self.kept.append((name, scale))

    def rewind(self, token=11):
        self.buffers["token"].fill_(token)
        self.buffers["length"].fill_(self.first)

    def double(self, w):
        """The meaning of weights."""
        if self.kind == 0:
            return w.double()
        q, scale = w
        return (q.view(len(q), -1, 32).double() * scale.double()[:, :, None]).view(q.shape)

    def reference(self, token, length, caches):
        """fp64 logits; `caches` (k, v of each layer) grow."""
        def norm(x, gamma):
            return x * torch.rsqrt(x.square().mean() + EPSILON) * gamma.double()
        x = (self.head[token].double() if self.kind == 0
             else self.double(tuple(t[token:token + 1] for t in self.head))[0])
        cos, sin = self.cos[length].double(), self.sin[length].double()

        def turn(t):
            a, b = t[..., :D // 2], t[..., D // 2:]
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        for plain, (k, v) in zip(self.plain, caches):
            y = self.double(plain["qkv"]) @ norm(x, plain["attend_gamma"])
            q, new_k, new_v = y.split((HEADS * D, KV_HEADS * D, KV_HEADS * D))
            k[:, length], v[:, length] = turn(new_k.view(KV_HEADS, D)).half(), new_v.view(KV_HEADS, D).half()
            q = turn(q.view(KV_HEADS, HEADS // KV_HEADS, D))
            p = torch.softmax(q @ k[:, :length + 1].double().mT / math.sqrt(D), -1)
            x = x + self.double(plain["project"]) @ (p @ v[:, :length + 1].double()).reshape(-1)
            gate, up = (self.double(plain["gate_up"]) @ norm(x, plain["mlp_gamma"])).view(INNER, 2).unbind(1)
            x = x + self.double(plain["down"]) @ (F.silu(gate) * up)
        x = norm(x, self.gamma)
        if self.kind == 0:
            return torch.cat([w.double() @ x for w in self.head.split(16384)])
        return torch.cat([self.double((q, s)) @ x for q, s in zip(*(t.split(16384) for t in self.head))])


class Study:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        for f in ("step_variant_name", "step_attend_name"):
            getattr(self.lib, f).restype = ctypes.c_char_p
        self.lib.step_results.restype = ctypes.c_long
        self.lib.step_results.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.lib.step_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
        self.stream = torch.cuda.Stream()

    def launch(self, decoder, options):
        e = self.lib.step_launch(ctypes.addressof(decoder.model), ctypes.addressof(options), 0,
                                 5 * decoder.count + 3, self.stream.cuda_stream)
        if e:
            raise RuntimeError(f"error {e}")

    def graph(self, decoder, options, steps=1):
        decoder.rewind()
        decoder.results.fill_(255)
        torch.cuda.synchronize()
        self.launch(decoder, options)  # so that all is loaded
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            for _ in range(steps):
                self.launch(decoder, options)
            graph.capture_end()
        return graph

    def time(self, decoder, graph, replays=32):
        """Microseconds of a replay."""
        with torch.cuda.stream(self.stream):
            decoder.rewind()
            graph.replay()
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            for _ in range(replays):
                graph.replay()
            b.record()
        b.synchronize()
        return a.elapsed_time(b) * 1e3 / replays

    def check(self, decoder, options, name):
        caches = [(p["k"].clone(), p["v"].clone()) for p in decoder.plain]
        decoder.rewind()
        decoder.model.logits = decoder.buffers["logits"].data_ptr()
        worst, tokens = 0.0, []
        for i in range(3):
            token = int(decoder.buffers["token"])
            decoder.results.fill_(255)  # all of it NaN
            decoder.buffers["logits"].fill_(math.nan)
            torch.cuda.synchronize()
            self.launch(decoder, options)
            torch.cuda.synchronize()
            want = decoder.reference(token, decoder.first + i, caches)
            logits = decoder.buffers["logits"].double()
            next_token = int(decoder.buffers["token"])
            error = float((logits - want).norm() / want.norm())
            rows = max(float((p[n][:, decoder.first + i].double() - c[:, decoder.first + i].double()).norm()
                             / c[:, decoder.first + i].double().norm())
                       for p, k_v in zip(decoder.plain, caches) for n, c in zip(("k", "v"), k_v))
            gap = float(want.max() - want[next_token]) / float(want.norm() / math.sqrt(VOCABULARY))
            worst = max(worst, error, rows)
            tokens.append((next_token, int(want.argmax())))
            if not (error < 1e-2 and rows < 1e-2 and gap < 0.05):
                print(f"WRONG: {name}, step {i}: logits {error:.2e}, cache rows {rows:.2e}, token {tokens[-1]}")
        decoder.model.logits = None
        print(f"{name}: three steps against fp64, worst error {worst:.2e}, tokens (ours, fp64) {tokens}", flush=True)


def torch_steps(decoder):
    """Steps in PyTorch over the same weights and cache, captured: their names and calls."""
    length = decoder.first
    k, v = ([torch.nan_to_num(p[n])[None] for p in decoder.plain] for n in ("k", "v"))
    position = torch.tensor([length], device="cuda")
    token = torch.tensor([11], device="cuda")
    cos, sin = (torch.cat((t, t), -1).half() for t in (decoder.cos, decoder.sin))
    kind = torch.float16 if decoder.kind == 0 else torch.bfloat16
    mask = (torch.arange(decoder.capacity, device="cuda") <= length)[None, None, None]
    if decoder.kind == 0:
        linear = F.linear
        weights = [[p["qkv"], p["project"], p["gate_up"].view(INNER, 2, HIDDEN).transpose(0, 1).reshape(2 * INNER, HIDDEN),
                    p["down"]] for p in decoder.plain]
        head, embedding = decoder.head, decoder.head
    else:
        def linear(x, w):
            return torch.ops.aten._weight_int4pack_mm(x, w[0], 32, w[1])

        def random_int4(n, k):  # timing only
            return (torch.randint(0, 1 << 30, (n // 8, k // 128, 32, 4), dtype=torch.int32, device="cuda"),
                    torch.full((k // 32, n, 2), 4e-3, dtype=torch.bfloat16, device="cuda"))
        weights = [[random_int4(*p[n][0].shape) for n in PARTS if n != "attend"] for p in decoder.plain]
        head = random_int4(VOCABULARY, HIDDEN)
        embedding = torch.randn(VOCABULARY, HIDDEN, device="cuda").bfloat16()
        k, v = ([t.bfloat16() for t in c] for c in (k, v))
        cos, sin = cos.bfloat16(), sin.bfloat16()

    def norm(x, gamma):
        f = x.float()
        return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + EPSILON)).to(kind) * gamma

    def turn(t, c, s):
        return t * c + torch.cat((-t[..., D // 2:], t[..., :D // 2]), -1) * s

    def layer(x, w, gammas, k, v, position, mask, c, s):
        q, new_k, new_v = linear(norm(x, gammas[0]), w[0]).split((HEADS * D, KV_HEADS * D, KV_HEADS * D), -1)
        k.index_copy_(2, position, turn(new_k.view(1, KV_HEADS, 1, D), c, s))
        v.index_copy_(2, position, new_v.view(1, KV_HEADS, 1, D))
        q = turn(q.view(1, HEADS, 1, D), c, s)
        if mask is None:
            y = F.scaled_dot_product_attention(q, k[:, :, :length + 1], v[:, :, :length + 1], enable_gqa=True)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + linear(y.view(1, HEADS * D), w[1])
        gate_up = linear(norm(x, gammas[1]), w[2])
        return x + linear(F.silu(gate_up[:, :INNER]) * gate_up[:, INNER:], w[3])

    gammas = [[p["attend_gamma"].to(kind), p["mlp_gamma"].to(kind)] for p in decoder.plain]
    gamma = decoder.gamma.to(kind)

    def last(x, gamma, head, token):
        token.copy_(linear(norm(x, gamma), head).argmax(-1))

    def step(layer, last, mask):
        x = embedding[token]
        c, s = cos[position][None, None], sin[position][None, None]
        for w, g, kk, vv in zip(weights, gammas, k, v):
            x = layer(x, w, g, kk, vv, position, mask, c, s)
        last(x, gamma, head, token)
    torch._dynamo.reset()
    compiled, compiled_last = torch.compile(layer, dynamic=False), torch.compile(last, dynamic=False)
    return {"torch captured": lambda: step(layer, last, mask),
            "torch compiled": lambda: step(compiled, compiled_last, mask),
            "torch compiled, exact length": lambda: step(compiled, compiled_last, None)}


def plain_graph(stream, call):
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        call()
        graph.capture_end()
    return graph


def breakdown(study, decoder, options):
    """Of a replay, medians over 12: for each kind of kernel the microseconds from the last block of
    the kernel before to its own last block (`whole`), of which: until its first wait ends (`seam`),
    from there to its last one (`spread`), and from the first block's end to the last's (`tail`)."""
    kernels = 5 * decoder.count + 3
    times = torch.zeros(kernels, 132, 3, dtype=torch.int64, device="cuda")
    decoder.model.times = times.data_ptr()
    graph = study.graph(decoder, options)
    us = study.time(decoder, graph)
    samples = {}
    decoder.rewind()
    for _ in range(12):
        times.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(study.stream):
            graph.replay()
        torch.cuda.synchronize()
        t = times.cpu()
        before = None
        for i in range(1, kernels - 1):
            rows = t[i][t[i, :, 2] > 0].double() / 1e3
            if before is not None and len(rows):
                name = "head" if i == kernels - 2 else PARTS[(i - 1) % 5]
                begun, waited, ended = rows.unbind(1)
                samples.setdefault(name, []).append(
                    [float(ended.max() - before), float(waited.min() - before), float(waited.max() - waited.min()),
                     float(ended.max() - waited.max()), float(ended.max() - ended.min()),
                     float(before - begun.max())])
            before = float(rows[:, 2].max()) if len(rows) else None
    decoder.model.times = None
    print(f"  with stamps {us:.1f} us a step. Kernel: whole = seam + spread + work; tail of work; the last block began before by (us)")
    result = {}
    for name, rows in samples.items():
        result[name] = [statistics.median(c) for c in zip(*rows)]
        whole, seam, spread, work, tail, ahead = result[name]
        print(f"  {name:8s} {whole:6.2f} = {seam:5.2f} + {spread:5.2f} + {work:6.2f}; {tail:5.2f}; {ahead:5.2f}")
    return result


def main():
    options = dict(a[2:].partition("=")[::2] for a in sys.argv[2:])
    study, start, seconds = Study(sys.argv[1]), time.time(), float(options.get("seconds", 1e9))
    layers = int(options.get("layers", 16))
    csv = open(options["csv"], "w") if "csv" in options else None
    if csv:
        print("weights;keys;what;us;share_of_peak", file=csv)
    print(torch.cuda.get_device_name(), torch.__version__)
    lines = []
    for kind_name in options.get("kinds", "fp16,int4").split(","):
        kind = KINDS[kind_name]
        for length in ((1024, 16384) if kind == 0 else (1024,)):
            decoder = Decoder(kind, layers, length + 64, length)
            decoder.make_results(study.lib)

            def put(what, us):
                if csv:
                    print(f"{kind_name};{length};{what};{us:.2f};{decoder.bytes / us * 1e6 / PEAK:.3f}", file=csv, flush=True)
            limit = decoder.bytes / PEAK * 1e6
            print(f"{kind_name}, {length} keys: {decoder.bytes} bytes, {limit:.0f} us at {PEAK / 1e12} TB/s")
            times = {}

            def measure(variant, attend, early, late):
                o = Options(kind, variant, attend, early, late)
                try:
                    graph = study.graph(decoder, o)
                    us = statistics.median(study.time(decoder, graph) for _ in range(5))
                except RuntimeError as e:
                    print(f"  {study.lib.step_variant_name(kind, variant)}: {e}")
                    torch.cuda.synchronize()
                    return
                name = (f"{study.lib.step_variant_name(kind, variant).decode()}, attend "
                        f"{study.lib.step_attend_name(attend).decode()}, " + ("late" if late else "early" if early else "ordinary"))
                times[(variant, attend, early, late)] = us
                put(name, us)
                print(f"  {us:8.1f} us {decoder.bytes / us * 1e6 / PEAK:.3f} {name}", flush=True)
            for variant in range(study.lib.step_variants(kind)):
                polls = study.lib.step_variant_polls(kind, variant)
                for early, late in ((1, 0),) + (() if polls else ((1, 1),)) + (((0, 0),) if variant == 0 else ()):
                    measure(variant, 1, early, late)
            best = min(times, key=times.get)
            for attend in range(study.lib.step_attends()):
                if attend != best[1]:
                    measure(best[0], attend, *best[2:])
            best = min(times, key=times.get)
            study.check(decoder, Options(kind, *best), f"{kind_name}, {length} keys")
            final = study.graph(decoder, Options(kind, *best))
            for part, row in breakdown(study, decoder, Options(kind, *best)).items():
                if csv:
                    print(f"{kind_name};{length};stamps of {part} (whole, seam, spread, work, tail, ahead);"
                          + " ".join(f"{x:.2f}" for x in row) + ";", file=csv, flush=True)
            peers = {}
            if "no-torch" not in options and time.time() - start < seconds and layers == 16:
                for name, call in torch_steps(decoder).items():
                    try:
                        peers[name] = plain_graph(study.stream, call)
                    except Exception as e:  # a peer that does not run is reported, not fatal
                        print(f"  {name}: {type(e).__name__} {str(e).splitlines()[0][:160]}")
                        torch.cuda.synchronize()
            samples = {n: [] for n in ("ours", *peers)}
            for _ in range(5):
                for n, g in {"ours": final, **peers}.items():
                    samples[n].append(study.time(decoder, g))
            result = {n: statistics.median(s) for n, s in samples.items()}
            for n, us in result.items():
                put(n, us)
            lines.append(f"{kind_name} {length:5d} keys, limit {limit:.0f} us: " + ", ".join(
                f"{n} {us:.1f} ({limit / us:.3f})" for n, us in result.items()))
            print(lines[-1], flush=True)
            del decoder, final, peers
            torch.cuda.empty_cache()
    print("\n".join(["", *lines]))


main()
