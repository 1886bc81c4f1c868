"""Writes the data of data-folders.test into a folder: archives.py FOLDER. All forms hold the same set of inputs
`a` and `b` and the output `y` of the model `sum`; `several` holds three, `images` three files for `rows`."""

import pathlib
import sys

import numpy as np

FOLDER = pathlib.Path(sys.argv[1])
RANDOM = np.random.default_rng(0)


def values(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


a, b = values(2, 2), values(2, 2)
y = (a + b) @ b
(FOLDER / "set_0").mkdir()
for name, value in {"input_0": a, "input_1": b, "output_0": y}.items():
    np.save(FOLDER / "set_0" / name, value)
np.savez(FOLDER / "stored", a=a, b=b, y=y)
np.savez_compressed(FOLDER / "deflated", y=y, b=b, a=a)
np.savez(FOLDER / "numbered", a, b, output_0=y)
np.savez(FOLDER / "wrong", a=a, b=b, y=y + 1)
np.savez(FOLDER / "unknown", a=a, c=b)

many_a, many_b = values(3, 2, 2), values(3, 2, 2)
many_y = ((many_a + many_b) @ many_b).reshape(6, 2)
np.savez(FOLDER / "several", a=many_a, b=many_b, y=many_y)
np.savez(FOLDER / "uneven", a=many_a, b=many_b[:2])
best = many_y.reshape(3, 4).argmax(axis=1)
np.savez(FOLDER / "labels", a=many_a[:2], b=many_b[:2], labels=[best[0], 3 - best[1] if best[1] * 2 != 3 else 0])

(FOLDER / "images").mkdir()
for name in "cab":
    np.save(FOLDER / "images" / name, values(2, 2))

whole = (FOLDER / "stored.npz").read_bytes()
at = whole.index(b.tobytes())
(FOLDER / "damaged.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
(FOLDER / "short.npz").write_bytes(whole[:-30])
