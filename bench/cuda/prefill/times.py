"""Times the study of many rows times int4 weights beside PyTorch's fp16 products (cuBLASLt).

usage: times.py LIBRARY [--csv=FILE]

Products of Llama-3.2-1B at several numbers of tokens, each by a captured graph of launches over
different weights (at least 200 MB in fp16). The first result of each is compared with fp64.
"""
import ctypes
import math
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from graph import Graph
from packing import pack_int4


class Problem(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in ("w", "scale", "x", "y")] + [(n, ctypes.c_int) for n in ("n", "k", "tokens")]


PRODUCTS = {"qkv": (3072, 2048), "o": (2048, 2048), "gate up": (16384, 2048), "down": (2048, 8192)}


def main():
    options = dict(a[2:].partition("=")[::2] for a in sys.argv[2:])
    lib, stream = ctypes.CDLL(sys.argv[1]), torch.cuda.Stream()
    lib.narrow_name.restype = ctypes.c_char_p
    lib.narrow_launch.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    csv = open(options["csv"], "w") if "csv" in options else None
    if csv:
        print("product;tokens;name;us;tflops;error", file=csv)
    print("prefill, int4: product tokens | cuBLASLt fp16 us | ours us, TFLOP/s, torch / ours: variant, error | others")
    for product, (n, k) in PRODUCTS.items():
        count = max(2, math.ceil(2e8 / (2 * n * k)))
        q = torch.randint(-8, 8, (n, k), dtype=torch.int8, device="cuda")
        scale = ((torch.rand(n, k // 32, device="cuda") + 0.5) / 4.8 / math.sqrt(k)).half()
        words, scales = pack_int4(q, scale)
        values = q.view(n, -1, 32).double() * scale.double()[:, :, None]
        dense = values.view(n, k).half()
        packed = [(words.clone(), scales.clone()) for _ in range(count)]
        weights = [dense.clone() for _ in range(count)]
        for tokens in (128, 512, 1024, 2048):
            x = torch.randn(tokens, k, device="cuda").half()
            turned = x.view(tokens, k // 32, 4, 2, 2, 2).permute(0, 1, 3, 4, 2, 5).contiguous()  # t s r h to s r t h
            y = torch.full((tokens, n), math.nan, dtype=torch.float16, device="cuda")
            want = x.double() @ values.view(n, k).T
            problems = []
            for w, s in packed:
                p = Problem()
                p.w, p.scale, p.x, p.y, p.n, p.k, p.tokens = (w.data_ptr(), s.data_ptr(), turned.data_ptr(),
                                                              y.data_ptr(), n, k, tokens)
                problems.append(p)
            graphs, errors = {}, {}
            for i in range(lib.narrow_count()):
                name = lib.narrow_name(i).decode()

                def call(st, i=i):
                    for p in problems:
                        e = lib.narrow_launch(i, ctypes.addressof(p), st.cuda_stream)
                        if e:
                            raise RuntimeError(f"{lib.narrow_name(i)}: error {e}")
                y.fill_(math.nan)
                torch.cuda.synchronize()
                graphs[name] = Graph(call, stream)
                torch.cuda.synchronize()
                errors[name] = float((y.double() - want).norm() / want.norm())
                if not errors[name] < 8e-4:
                    print(f"WRONG: {product}, {tokens} tokens, {name}: {errors[name]:.2e}")
            ours = list(graphs)
            graphs["torch"] = Graph(lambda _: [F.linear(x, w) for w in weights], stream)
            errors["torch"] = float((F.linear(x, weights[0]).double() - want).norm() / want.norm())
            samples = {m: [] for m in graphs}
            for _ in range(4):
                for m in list(graphs) + list(graphs)[::-1]:
                    samples[m].append(graphs[m].time() / count)
            us = {m: statistics.median(s) for m, s in samples.items()}
            for m, t in us.items():
                if csv:
                    print(f"{product};{tokens};{m};{t:.2f};{2e-6 * n * k * tokens / t:.1f};{errors[m]:.2e}", file=csv, flush=True)
            best = min(ours, key=us.get)
            print(f"{product:8s} {tokens:5d} | {us['torch']:8.2f} | {us[best]:8.2f} {2e-6 * n * k * tokens / us[best]:6.1f} "
                  f"{us['torch'] / us[best]:.2f}: {best}, {errors[best]:.1e} | "
                  + ", ".join(f"{m} {us[m]:.1f}" for m in ours if m != best), flush=True)
            del graphs


main()
