"""The project's own models as files, with what it takes to compile each."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import make
import onnx
from generated import symbol_bindings
from tensors import read_data_set

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = ROOT / "tests/models/operators"
# What only C++ targets have so far: control flow, data-dependent sizes, caches that grow, operators
# of users.
CPU_ONLY = ["probe_control_flow", "probe_nonzero", "probe_detections", "probe_data_extents",
            "probe_growing_cache", "probe_heads_cache", "probe_shared_heads_cache",
            "probe_user_operator"]  # fmt: skip
# Operators, ranges and states of the probes; other symbols take the values of the data.
OPTIONS = {
    "probe_user_operator": [f"--op={OPERATORS / 'squared_relu.tn'}"],
    "probe_control_flow": ["--range=steps=0..9"],
    "probe_data_extents": ["--range=at=0..7"],
    "probe_growing_cache": ["--range=T=0..9", "--state=keys=keys_out:append@1"],
    "probe_heads_cache": ["--range=T=0..12", "--state=keys=keys_out:append@2,values=values_out:append@2"],
    "probe_shared_heads_cache": ["--range=T=0..12", "--state=keys=keys_out:append@2,values=values_out:append@2"],
    "probe_streaming": ["--state=cache=cache_out"],
    "upscaler": ["--range=batch_size=1..4"],
}  # fmt: skip


@dataclass
class Model:
    name: str
    file: Path
    words: list  # for the command line


def words_for(name, file):
    """Options that bind every symbolic dimension of a model."""
    words = OPTIONS.get(name, [])
    proto = onnx.load(file)
    inputs, _ = read_data_set(file.parent / "test_data_set_0", proto)
    named = " ".join(words)
    bindings = symbol_bindings(proto, inputs).items()
    return [*words, *(f"--bind={k}={v}" for k, v in bindings if f"={k}=" not in named)]


def own_models(folder):
    """Every model of make.py, written below `folder`, and the digits."""
    folder = Path(folder)
    with contextlib.redirect_stdout(None):
        for name, function in make.MODELS.items():
            make.write_model(name, function, folder)
    files = [(name, folder / name / "model.onnx") for name in make.MODELS]
    files.append(("digits", ROOT / "examples/digits/digits.onnx"))
    return [Model(name, file, words_for(name, file)) for name, file in files]
