"""What an ONNX test expects, and whether what came out is that: type, shape, and values within the
test's tolerance."""

import json

import numpy as np
import onnx
from onnx import numpy_helper


def load_model(folder):
    return onnx.load(folder / "model.onnx")


def tolerance(folder):
    """(relative, absolute)."""
    return json.loads((folder / "tolerance.json").read_text())


def read_values(folder, kind, infos):
    """Per declared input or output (`kind`): its array, or None where it is no tensor or the test
    leaves an input to its initialiser."""

    def read(index, info):
        file = folder / f"test_data_set_0/{kind}_{index}.pb"
        if info.type.WhichOneof("value") != "tensor_type" or not file.exists():
            return None
        return numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes()))

    return [read(index, info) for index, info in enumerate(infos)]


def same_bits_type(value, dtype):
    """A saved array under the type that numpy's own files cannot name (bfloat16, 8-bit and 4-bit
    types are saved as integers of their width, 4-bit ones one to a byte; text with a length)."""
    if value.dtype.kind == "U" and dtype.kind == "O":  # text of any length
        return value.astype(object)
    if value.dtype == dtype or dtype.type.__module__ == "numpy":
        return value
    if value.dtype.itemsize == dtype.itemsize and value.dtype.kind in "uiV":
        return value.view(dtype)
    return value


def mismatch(value, expected, rtol, atol):
    """What is wrong with an output, or None."""
    value = same_bits_type(value, expected.dtype)
    if value.dtype != expected.dtype:
        return f"type {value.dtype}, expected {expected.dtype}"
    if value.shape != expected.shape:
        return f"shape {list(value.shape)}, expected {list(expected.shape)}"
    if expected.dtype.kind in "OSU":
        return None if np.array_equal(value, expected) else "strings differ"
    exact = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = value.astype(exact), expected.astype(exact)
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    first = tuple(int(i) for i in np.argwhere(~close)[0])
    count = f"{(~close).sum()} of {close.size} values differ"
    return f"{count}; at {list(first)} {a[first]}, expected {b[first]}"


def first_mismatch(values, expected, folder):
    """What is wrong with the outputs, or None."""
    rtol, atol = tolerance(folder)
    problems = (mismatch(v, e, rtol, atol) for v, e in zip(values, expected))
    return next((p for p in problems if p), None)
