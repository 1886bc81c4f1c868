"""Times the study of decoding attention beside PyTorch's scaled_dot_product_attention.

usage: times.py LIBRARY [--csv=FILE] [--seconds=S]

Each figure is the time of a captured graph of launches over different caches, at least 200 MB of
them, so that none are in the second-level cache; the peers in turn with the fastest of ours.
"""
import ctypes
import math
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
    _fields_ = ([(n, ctypes.c_void_p) for n in ("q", "k", "v", "y", "length")]
                + [(n, ctypes.c_int) for n in ("heads", "group", "capacity", "d")]
                + [("scale", ctypes.c_float)])


# (heads, heads of keys, columns)
FORMS = [(32, 8, 64), (32, 8, 128), (16, 8, 128), (32, 4, 128)]
LENGTHS = [1024, 4096, 16384, 2048, 8192]
PEAK = 3.35e12


def main():
    options = dict(a[2:].partition("=")[::2] for a in sys.argv[2:])
    lib, stream, start = ctypes.CDLL(sys.argv[1]), torch.cuda.Stream(), time.time()
    lib.decode_name.restype = ctypes.c_char_p
    lib.decode_launch.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    csv = open(options["csv"], "w") if "csv" in options else None
    if csv:
        print("heads;heads_of_keys;columns;keys;name;us;share_of_peak;error", file=csv)
    print("heads columns keys | peers us | best us, share of peak: variant | peer / ours | the next")
    for length in LENGTHS:
        for heads, shared, d in FORMS:
            if time.time() - start > float(options.get("seconds", 1e9)):
                print("out of time")
                return
            size = 2 * shared * length * d * 2
            count = min(96, max(8, math.ceil(2e8 / size)))
            q = torch.randn(1, heads, 1, d, device="cuda").half()
            k, v = (torch.randn(count, shared, length, d, device="cuda", dtype=torch.float16) for _ in range(2))
            y = torch.empty_like(q)
            filled = torch.tensor([length], dtype=torch.int32, device="cuda")
            problems = []
            for i in range(count):
                p = Problem()
                p.q, p.k, p.v, p.y, p.length = (
                    t.data_ptr() for t in (q, k[i], v[i], y, filled))
                p.heads, p.group, p.capacity, p.d, p.scale = heads, heads // shared, length, d, d ** -0.5
                problems.append(p)
            wide_k, wide_v = (t[0].double().repeat_interleave(heads // shared, 0) for t in (k, v))
            want = torch.softmax(q[0].double() @ wide_k.mT * d ** -0.5, -1) @ wide_v
            del wide_k, wide_v

            def launch(s, i, early, which):
                for p in which:
                    e = lib.decode_launch(i, ctypes.addressof(p), s.cuda_stream, early)
                    if e:
                        raise RuntimeError(f"error {e}")
            graphs, errors = {}, {}
            for i in range(lib.decode_count()):
                y.fill_(float("nan"))
                torch.cuda.synchronize()
                launch(stream, i, 0, problems[:1])
                torch.cuda.synchronize()
                error = float((y[0].double() - want).norm() / want.norm())
                for early in (0, 1):
                    name = lib.decode_name(i).decode() + (" early" if early else "")
                    errors[name] = error
                    if not error < 1e-3:
                        print(f"{name}: WRONG {error:.2e}")
                        continue
                    graphs[name] = Graph(lambda s, i=i, early=early: launch(s, i, early, problems), stream)
            ours = list(graphs)
            for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
                def call(_, backend=backend):
                    with sdpa_kernel(backend):
                        return [F.scaled_dot_product_attention(q, k[i:i + 1], v[i:i + 1], enable_gqa=True)
                                for i in range(count)]
                try:
                    errors[name] = float((call(None)[0][0].double() - want).norm() / want.norm())
                    graphs[name] = Graph(call, stream)
                except RuntimeError as e:
                    print(f"{name}: {str(e).splitlines()[0][:100]}")
                    torch.cuda.synchronize()
            times = {n: statistics.median(g.time() for _ in range(5)) / count for n, g in graphs.items()}
            ranks = sorted(ours, key=times.get)
            final = ranks[:2] + [n for n in graphs if n not in ours]
            samples = {n: [] for n in final}
            for _ in range(5):
                for n in final + final[::-1]:
                    samples[n].append(graphs[n].time() / count)
            times.update({n: statistics.median(s) for n, s in samples.items()})
            for n, us in times.items():
                if csv:
                    print(f"{heads};{shared};{d};{length};{n};{us:.2f};{size / us * 1e6 / PEAK:.3f};{errors[n]:.2e}",
                          file=csv, flush=True)
            peers = {n: times[n] for n in final if n not in ours}
            best = min(ranks, key=times.get)
            print(f"{heads}/{shared} d{d} {length:5d} | " + " ".join(f"{n} {t:.1f}" for n, t in peers.items())
                  + f" | {times[best]:.2f} {size / times[best] * 1e6 / PEAK:.2f}: {best} | "
                  + (f"{min(peers.values()) / times[best]:.2f}" if peers else "-") + " | "
                  + ", ".join(f"{n} {times[n]:.2f}" for n in ranks[1:4]), flush=True)
            del graphs, problems, k, v


main()
