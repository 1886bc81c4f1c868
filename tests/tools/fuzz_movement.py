"""Makers of nodes that move elements, as those of fuzz_pointwise."""

import numpy as np
from fuzz_pieces import EXTENTS


def reshape(g):
    v = g.pick(lambda v: v.size > 0)
    factors, rest = [], v.size
    while rest > 1 and len(factors) < 3:
        f = g.one([k for k in range(1, min(rest, 32) + 1) if rest % k == 0])
        factors.append(f)
        rest //= f
    shape = [*factors, rest] if rest > 1 or not factors else factors
    g.add("Reshape", [v, g.constant(np.asarray(shape, np.int64))], v.dtype, shape, v.bound, v.exact)


def transpose(g):
    v = g.pick(lambda v: v.rank > 1)
    perm = [int(i) for i in g.rng.permutation(v.rank)]
    g.add("Transpose", [v], v.dtype, [v.shape[p] for p in perm], v.bound, v.exact, perm=perm)


def unsqueeze(g):
    v = g.pick(lambda v: v.rank < 4)
    axis = g.below(v.rank + 1)
    shape = [*v.shape[:axis], 1, *v.shape[axis:]]
    g.add("Unsqueeze", [v, g.constant(np.asarray([axis]))], v.dtype, shape, v.bound, v.exact)


def squeeze(g):
    v = g.pick(lambda v: 1 in v.shape)
    axis = g.one([i for i, d in enumerate(v.shape) if d == 1])
    shape = [*v.shape[:axis], *v.shape[axis + 1 :]]
    g.add("Squeeze", [v, g.constant(np.asarray([axis]))], v.dtype, shape, v.bound, v.exact)


def slice_(g):
    v = g.pick(lambda v: v.rank > 0)
    axis, step = g.below(v.rank), g.one((1, 1, 2, -1, -2))
    start, end = g.below(v.shape[axis] + 1), g.below(v.shape[axis] + 1)
    if step > 0:
        start, end = min(start, end), max(start, end)
    picked = len(range(v.shape[axis])[start:end:step])
    shape = [picked if i == axis else d for i, d in enumerate(v.shape)]
    words = [g.constant(np.asarray([n])) for n in (start, end, axis, step)]
    g.add("Slice", [v, *words], v.dtype, shape, v.bound, v.exact)


def concat(g):
    v = g.pick(lambda v: v.rank > 0)
    axis = g.below(v.rank)
    parts = [v]
    for _ in range(1 + g.below(2)):
        like = [w for w in g.values if w.dtype == v.dtype and w.rank == v.rank and all(
            a == b for i, (a, b) in enumerate(zip(w.shape, v.shape)) if i != axis)]  # fmt: skip
        shape = [g.one(EXTENTS) if i == axis else d for i, d in enumerate(v.shape)]
        parts.append(g.one(like) if like and g.chance(0.6) else g.tensor(v.dtype, shape))
    if g.chance(0.5):
        parts.reverse()
    shape = [sum(p.shape[axis] for p in parts) if i == axis else d for i, d in enumerate(v.shape)]
    g.add("Concat", parts, v.dtype, shape, max(p.bound for p in parts), all(p.exact for p in parts),
          axis=axis)  # fmt: skip


def split(g):
    v = g.pick(lambda v: v.rank > 0 and max(v.shape) > 1)
    axis = g.one([i for i, d in enumerate(v.shape) if d > 1])
    first = 1 + g.below(v.shape[axis] - 1)
    sizes = [first, v.shape[axis] - first]
    results = [(v.dtype, [n if i == axis else d for i, d in enumerate(v.shape)], v.bound, v.exact)
               for n in sizes]  # fmt: skip
    g.add_many("Split", [v, g.constant(np.asarray(sizes))], results, axis=axis)


def gather(g):
    v = g.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    axis = g.below(v.rank)
    shape = g.one(((), (1,), (3,), (2, 2)))
    indices = g.constant(g.rng.integers(-v.shape[axis], v.shape[axis], shape))
    g.add("Gather", [v, indices], v.dtype, [*v.shape[:axis], *shape, *v.shape[axis + 1 :]], v.bound,
          v.exact, axis=axis)  # fmt: skip


def gather_elements(g):
    v = g.pick(lambda v: v.rank > 0 and min(v.shape) > 0)
    axis = g.below(v.rank)
    shape = [1 + g.below(d) for d in v.shape]
    indices = g.constant(g.rng.integers(-v.shape[axis], v.shape[axis], shape))
    g.add("GatherElements", [v, indices], v.dtype, shape, v.bound, v.exact, axis=axis)


def scatter(g):
    v = g.pick(lambda v: v.rank > 0 and min(v.shape) > 0 and v.is_float)
    rows = g.rng.permutation(v.shape[0])[: 1 + g.below(v.shape[0])].reshape(-1, 1)
    updates = g.tensor(v.dtype, [len(rows), *v.shape[1:]])
    g.add("ScatterND", [v, g.constant(rows), updates], v.dtype, v.shape, max(v.bound, 4), v.exact)


def pad(g):
    v = g.pick(lambda v: v.rank > 0 and v.is_float and min(v.shape) > 0)
    mode = g.one(("constant", "constant", "edge", "reflect"))
    most = [min(3, d) if mode == "reflect" else 3 for d in v.shape]
    ends = [g.below(m) for m in most], [g.below(m) for m in most]
    shape = [d + a + b for d, a, b in zip(v.shape, *ends)]
    g.add("Pad", [v, g.constant(np.asarray(sum(ends, [])))], v.dtype, shape, v.bound, v.exact,
          mode=mode)  # fmt: skip


def tile(g):
    v = g.pick(lambda v: v.rank > 0 and v.dtype != "int8")
    repeats = [g.one((1, 1, 2, 3)) for _ in v.shape]
    g.add("Tile", [v, g.constant(np.asarray(repeats))], v.dtype, [d * r for d, r in zip(v.shape, repeats)],
          v.bound, v.exact)  # fmt: skip


def expand(g):
    v = g.pick()
    shape = [g.one((1, 2, 3)) if d == 1 else d for d in v.shape]
    shape = [2, *shape] if len(shape) < 4 and g.chance(0.4) else shape
    g.add("Expand", [v, g.constant(np.asarray(shape, np.int64))], v.dtype, shape, v.bound, v.exact)
