"""Data sets for text.tn: make DIR; check OUT, what `tenon run --save` wrote."""

import json
import sys
from pathlib import Path

import numpy as np

X = np.array([["a c"], ["b"], ["Éé ÿ z"]])
Y = np.array(["", " b"])
JOINED = np.char.add(X, Y)
EXPECTED = {
    "joined": JOINED,
    "shouted": np.array([["A C", "A C B"], ["B", "B B"], ["Éé ÿ Z", "Éé ÿ Z B"]]),
    "same": np.zeros((3, 2), bool),
    "mail": np.array([[True], [True], [False]]),
    "label": np.array([["??/"], ["été"], ["unknown\0!"]]),
    "pieces": np.array([[["a", "c", "", ""], ["a", "c", "b", ""]], [["b", "", "", ""], ["b", "b", "", ""]],
                        [["Éé", "ÿ", "z", ""], ["Éé", "ÿ", "z", "b"]]]),
    "first": JOINED[:, 1:],
    "fixed": np.array(["été", "??/", "never", "nothing", "unknown\0!"]),
}  # fmt: skip

command, folder = sys.argv[1], Path(sys.argv[2])
if command == "make":
    np.save(folder / "input_0.npy", X)
    np.save(folder / "input_1.npy", Y)
    for index, array in enumerate(EXPECTED.values()):
        np.save(folder / f"output_{index}.npy", array)
else:
    files = json.loads((folder / "names.json").read_text())
    assert list(files) == list(EXPECTED), files
    for name, expected in EXPECTED.items():
        saved = np.load(folder / files[name])
        assert saved.shape == expected.shape and (saved == expected).all(), (name, saved)
