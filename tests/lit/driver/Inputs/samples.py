"""Writes data sets into a folder: samples.py FOLDER. `both` has all inputs of its model, `half` lacks
one in its second set, the sets of `sizes` differ in size, `files` are tensors without sets."""

import pathlib
import sys

import numpy as np

FOLDER = pathlib.Path(sys.argv[1])
RANDOM = np.random.default_rng(0)


def save(path, *shape):
    path = FOLDER / path
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, RANDOM.normal(size=shape).astype(np.float32))


for k in range(2):
    save(f"both/set_{k}/input_0.npy", 2, 2)
    save(f"both/set_{k}/input_1.npy", 2, 2)
    save(f"half/set_{k}/input_0.npy", 2, 2)
    save(f"sizes/set_{k}/input_0.npy", k + 1, 2)
    save(f"files/{k}.npy", 2, 2)
save("half/set_0/input_1.npy", 2, 2)
