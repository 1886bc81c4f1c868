"""Times the attention study's variants against PyTorch's scaled_dot_product_attention.

usage: times.py LIBRARY [--csv=FILE] [--only=TEXT] [--variant=TEXT] [--seconds=S]

For each problem, every variant that takes it is checked once on fresh random operands against fp64
(a poisoned result, the norm of the difference over that of the reference). Then each is timed by
replays of a graph of launches on one set of operands: in a network the projections have just
written them, so that they lie in the second-level cache. The fastest peer (cuDNN, Flash) and the
fastest three of ours, two of them also by programmatic dependent launch (`early`), are timed again
in turn, a b c ... c b a, and the median counts.
"""
import ctypes
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from graph import Graph


class Problem(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_void_p) for n in "qkvy"]
                + [(n, ctypes.c_int) for n in ("batch", "heads", "group", "m", "n", "d")]
                + [(n + "_stride", ctypes.c_long * 3) for n in "qkvy"]
                + [("scale", ctypes.c_float)]
                + [(n, ctypes.c_int) for n in ("causal", "bf16", "masked")]
                + [("bias", ctypes.c_void_p)])


MASKS = ["", " mask of keys", " bias of scores"]
# (batch, heads, heads of keys, queries, keys, columns, causal, bf16, place in MASKS)
PROBLEMS = [p + (0,) * (9 - len(p)) for p in [
    (1, 12, 12, 128, 128, 64, 0, 0), (1, 12, 12, 197, 197, 64, 0, 0),
    (1, 12, 12, 384, 384, 64, 0, 0), (8, 12, 12, 128, 128, 64, 0, 0),
    (8, 12, 12, 384, 384, 64, 0, 0), (1, 16, 16, 512, 512, 64, 0, 0),
    (1, 16, 16, 1024, 1024, 64, 0, 0), (8, 16, 16, 1024, 1024, 64, 0, 0),
    (1, 16, 16, 2048, 2048, 64, 0, 0), (1, 8, 8, 4096, 4096, 64, 0, 0),
    (1, 16, 16, 4096, 4096, 64, 0, 0), (1, 8, 8, 4096, 4096, 40, 0, 0),
    (1, 12, 12, 1024, 1024, 64, 1, 0), (1, 32, 8, 1024, 1024, 64, 1, 0),
    (1, 32, 8, 2048, 2048, 64, 1, 0), (1, 16, 16, 4096, 4096, 64, 1, 0),
    (1, 8, 8, 4096, 77, 40, 0, 0),
    (1, 16, 16, 128, 128, 128, 0, 0), (1, 16, 16, 512, 512, 128, 0, 0),
    (1, 16, 16, 1024, 1024, 128, 0, 0), (1, 16, 16, 2048, 2048, 128, 0, 0),
    (1, 16, 16, 4096, 4096, 128, 0, 0), (4, 16, 16, 4096, 4096, 128, 0, 0),
    (1, 8, 8, 1024, 1024, 80, 0, 0),
    (1, 16, 16, 1024, 1024, 128, 1, 0), (1, 32, 8, 1024, 1024, 128, 1, 0),
    (1, 16, 16, 2048, 2048, 128, 1, 0), (1, 16, 16, 4096, 4096, 128, 1, 0),
    (1, 16, 16, 4096, 4096, 64, 0, 1), (1, 16, 16, 4096, 4096, 128, 1, 1),
    (8, 12, 12, 197, 197, 64, 0, 0), (1, 12, 12, 577, 577, 64, 0, 0), (8, 12, 12, 577, 577, 64, 0, 0),
    (8, 16, 16, 1024, 1024, 64, 1, 0), (8, 8, 8, 1024, 1024, 40, 0, 0), (1, 8, 8, 384, 384, 40, 0, 0),
    (1, 16, 16, 256, 256, 72, 0, 0), (8, 8, 8, 1024, 1024, 80, 0, 0), (8, 8, 8, 256, 256, 80, 0, 0),
    (8, 16, 16, 384, 384, 128, 0, 0), (8, 16, 16, 1024, 1024, 128, 0, 0), (8, 16, 16, 1024, 1024, 128, 1, 0),
    (1, 12, 12, 384, 384, 64, 0, 0, 1), (8, 12, 12, 384, 384, 64, 0, 0, 1),
    (1, 12, 12, 1024, 1024, 64, 0, 0, 1), (1, 12, 12, 384, 384, 64, 0, 0, 2),
    (8, 12, 12, 384, 384, 64, 0, 0, 2), (1, 12, 12, 1024, 1024, 64, 0, 0, 2),
    (1, 12, 12, 4096, 4096, 64, 0, 0, 2),
]]


def load(path):
    lib = ctypes.CDLL(path)
    lib.attention_name.restype = ctypes.c_char_p
    lib.attention_suits.argtypes = [ctypes.c_int] * 5
    lib.attention_launch.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return lib


def describe(q, k, v, y, causal, bf16, bias, masked):
    p = Problem()
    p.q, p.k, p.v, p.y = (t.data_ptr() for t in (q, k, v, y))
    p.batch, p.heads, p.m, p.d = q.shape
    p.group, p.n = p.heads // k.shape[1], k.shape[2]
    for name, t in zip("qkvy", (q, k, v, y)):
        setattr(p, name + "_stride", (ctypes.c_long * 3)(*t.stride()[:3]))
    p.scale, p.causal, p.bf16, p.masked = q.shape[-1] ** -0.5, causal, bf16, masked
    p.bias = bias.data_ptr() if masked else None
    return p


def bias_of(q, k, masked):
    """[batch, 1, 1, n] in fp32, which hides keys behind some, or [1, heads, m, n] of the type of q; else None."""
    b, h, m, n = *q.shape[:3], k.shape[2]
    if masked == 1:
        seen = n - torch.randint(0, n // 4, (b, 1, 1, 1), device="cuda")
        return torch.where(torch.arange(n, device="cuda") < seen, 0.0, -torch.inf)
    return torch.randn(1, h, m, n, device="cuda").to(q.dtype) if masked else None


def reference(q, k, v, causal, bias):
    """[batch, heads, m, d] in fp64, one head at a time."""
    group = q.shape[1] // k.shape[1]
    y = torch.empty(q.shape, dtype=torch.float64, device="cuda")
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = q[b, h].double() @ k[b, h // group].double().T * q.shape[-1] ** -0.5
            if bias is not None:
                s += bias[b % bias.shape[0], h % bias.shape[1]]
            if causal:
                m, n = s.shape
                s.masked_fill_(torch.ones(m, n, device="cuda").triu(1).bool(), -torch.inf)
            y[b, h] = s.softmax(-1) @ v[b, h // group].double()
    return y


PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
         "efficient": SDPBackend.EFFICIENT_ATTENTION}  # fmt: skip


def peers(q, k, v, causal, bias):
    """Those that run, by name, the third only where something is added to scores; where they do not take shared
    heads, with heads repeated. They take a bias of the operands' type."""
    group, found = q.shape[1] // k.shape[1], {}
    bias = None if bias is None else bias.to(q.dtype).expand(*q.shape[:3], k.shape[2])
    for name, backend in PEERS.items():
        if (name == "efficient") != (bias is not None) and name != "cudnn":
            continue
        for repeat in (1, group):
            def call(_, backend=backend, repeat=repeat, k=k.repeat_interleave(repeat, 1),
                     v=v.repeat_interleave(repeat, 1)):
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, bias, is_causal=bool(causal),
                                                          enable_gqa=repeat != group)
            try:
                call(None)
            except RuntimeError as e:
                print(f"{name}, heads repeated {repeat} times: {str(e).splitlines()[0][:100]}")
            else:
                found[name] = call
                break
    return found


def main():
    path, options = sys.argv[1], dict(a[2:].partition("=")[::2] for a in sys.argv[2:])
    lib, stream = load(path), torch.cuda.Stream()
    seconds, start = float(options.get("seconds", 1e9)), time.time()
    csv = open(options["csv"], "w") if "csv" in options else None
    if csv:
        print("problem;name;us;tflops;error", file=csv)
    torch.manual_seed(time.time_ns() % 2**31)
    print(torch.cuda.get_device_name(), torch.__version__, "cudnn", torch.backends.cudnn.version())
    print("problem | peer us | ours us, TFLOP/s: variant | peer / ours | other variants")
    for b, h, g, m, n, d, causal, bf16, masked in PROBLEMS:
        name = f"{b}x{h}" + (f"/{g}" if g != h else "") + f" {m}x{n} d{d}" \
            + (" causal" if causal else "") + (" bf16" if bf16 else "") + MASKS[masked]
        if options.get("only", "") not in name:
            continue
        if time.time() - start > seconds:
            print("out of time before", name)
            break
        dtype = torch.bfloat16 if bf16 else torch.float16
        q = torch.randn(b, h, m, d, device="cuda").to(dtype)
        k, v = (torch.randn(b, g, n, d, device="cuda").to(dtype) for _ in range(2))
        y = torch.empty_like(q)
        bias = bias_of(q, k, masked)
        p = describe(q, k, v, y, causal, bf16, bias, masked)
        want = reference(q, k, v, causal, bias)
        flops = 4 * b * h * m * n * d * ((n - m / 2) / n if causal else 1)
        launches = max(4, min(40, int(2e-3 / (flops / 4e14 + 3e-6))))
        graphs, errors = {}, {}
        for peer, call in peers(q, k, v, causal, bias).items():
            errors[peer] = float((call(stream).double() - want).norm() / want.norm())
            graphs[peer] = Graph(call, stream, launches)
        calls = {}
        for i in range(lib.attention_count()):
            variant = lib.attention_name(i).decode()
            if not lib.attention_suits(i, d, causal, bf16, masked) or options.get("variant", "") not in variant:
                continue
            def call(s, early=0, i=i):
                e = lib.attention_launch(i, ctypes.addressof(p), s.cuda_stream, early)
                if e:
                    raise RuntimeError(f"error {e}")
            y.fill_(float("nan"))
            torch.cuda.synchronize()
            call(stream)
            torch.cuda.synchronize()
            error = float((y.double() - want).norm() / want.norm())
            errors[variant] = error
            if not error < (8e-3 if bf16 else 1e-3):
                print(f"{name}: {variant}: WRONG, {error:.2e}")
                continue
            graphs[variant], calls[variant] = Graph(call, stream, launches), call
        del want
        times = {v: statistics.median(g.time() for _ in range(5)) for v, g in graphs.items()}
        ranks = sorted((v for v in times if v not in PEERS), key=times.get)
        for v in ranks[:2]:
            early, errors[v + " early"] = v + " early", errors[v]
            graphs[early] = Graph(lambda s, call=calls[v]: call(s, 1), stream, launches)
            times[early] = graphs[early].time()
        ranks[2:2] = [v + " early" for v in ranks[:2]]
        final = [v for v in PEERS if v in times] + ranks[:5]
        samples = {v: [] for v in final}
        for _ in range(8):
            for v in final + final[::-1]:
                samples[v].append(graphs[v].time())
        times.update({v: statistics.median(s) for v, s in samples.items()})
        ranks.sort(key=times.get)
        if csv:
            for v, t in times.items():
                print(f"{name};{v};{t:.2f};{flops / t * 1e-6:.1f};{errors[v]:.2e}", file=csv, flush=True)
        others = {v: times[v] for v in PEERS if v in times}
        peer = min(others, key=others.get) if others else None
        best = ranks[0] if ranks else None
        ratio = times[peer] / times[best] if peer and best else 0
        print(f"{name:30s} | " + " ".join(f"{v} {t:.1f}" for v, t in others.items())
              + (f" | {times[best]:.1f}, {flops / times[best] * 1e-6:.0f}: {best} | {ratio:.2f} | " if best else "")
              + ", ".join(f"{v} {times[v]:.1f}" for v in ranks[1:5]), flush=True)
        del graphs


main()
