"""ones FILE: an input for overflow.tn. check OUT y|z inf|finite: what an output holds."""

import json
import pathlib
import sys

import numpy as np

if sys.argv[1] == "ones":
    np.save(sys.argv[2], np.ones((1, 8), np.float32))
else:
    out = pathlib.Path(sys.argv[2])
    value = np.load(out / json.loads((out / "names.json").read_text())[sys.argv[3]])
    assert np.isfinite(value).all() == (sys.argv[4] == "finite"), value
