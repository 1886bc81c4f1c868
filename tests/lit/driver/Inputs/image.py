"""Data for image.tn in the model's own types and order: make DIR; check DIR OUT TYPE, as --io gave it."""

import json
import pathlib
import sys

import numpy as np

command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if command == "make":
    x = np.random.default_rng(3).integers(0, 256, (1, 3, 2, 4)).astype(np.float32)
    index = np.array([3, 1], np.int64)
    for name, value in (("input_0", x), ("input_1", index), ("output_0", x / 2),
                        ("output_1", x[..., index] / 2), ("output_2", index + 1)):  # fmt: skip
        np.save(folder / f"{name}.npy", value)
else:
    out = pathlib.Path(sys.argv[3])
    y = np.load(out / json.loads((out / "names.json").read_text())["y"])
    assert y.dtype == np.dtype(sys.argv[4]) and y.shape == (1, 2, 4, 3), (y.dtype, y.shape)
    assert np.array_equal(y.transpose(0, 3, 1, 2), np.load(folder / "output_0.npy"))
