"""Data sets for small.tn: make DIR, spoil DIR (one value of `total`), check DIR OUT."""

import json
import pathlib
import sys

import numpy as np

command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if command == "make":
    rng = np.random.default_rng(7)
    x, b = rng.standard_normal((2, 8), np.float32), rng.standard_normal(8, np.float32)
    y = np.maximum(x * 2 + b, 0).astype(np.float32)
    # Column-major files are read, too.
    np.save(folder / "input_0.npy", np.asfortranarray(x))
    np.save(folder / "input_1.npy", b)
    np.save(folder / "output_0.npy", y)
    np.save(folder / "output_1.npy", y.astype(np.float64).sum(0).astype(np.float32))
elif command == "spoil":
    total = np.load(folder / "output_1.npy")
    total[3] += 1
    np.save(folder / "output_1.npy", total)
else:
    out = pathlib.Path(sys.argv[3])
    files = json.loads((out / "names.json").read_text())
    assert list(files) == ["y", "total"], files
    for name, index in (("y", 0), ("total", 1)):
        saved, expected = np.load(out / files[name]), np.load(folder / f"output_{index}.npy")
        assert saved.dtype == expected.dtype and saved.shape == expected.shape
        assert np.allclose(saved, expected)
