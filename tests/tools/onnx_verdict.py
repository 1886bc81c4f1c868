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


def holds(info):
    """What a declared input or output is: "tensor", "list" (sequences and optionals, whose tensors
    Tenon takes and gives one by one), or None for anything else."""
    kind = info.type.WhichOneof("value")
    if kind == "tensor_type":
        return "tensor"
    inner = info.type.optional_type.elem_type if kind == "optional_type" else info.type
    if inner.WhichOneof("value") == "sequence_type":
        inner = inner.sequence_type.elem_type
    return "list" if inner.WhichOneof("value") == "tensor_type" else None


def list_values(message):
    """The tensors of a SequenceProto or OptionalProto, in order."""
    if isinstance(message, onnx.SequenceProto):
        return list(message.tensor_values)
    if message.elem_type == onnx.OptionalProto.TENSOR:
        return [message.tensor_value]
    if message.elem_type == onnx.OptionalProto.SEQUENCE:
        return list(message.sequence_value.tensor_values)
    return []


def read_lists(folder, kind, infos):
    """Per declared input or output (`kind`): {name: array}; of a sequence or an optional by element,
    NAME[0] and so on; empty where the test leaves an input to its initialiser."""

    def read(index, info):
        file = folder / f"test_data_set_0/{kind}_{index}.pb"
        if not file.exists() or not holds(info):
            return {}
        data = file.read_bytes()
        if holds(info) == "tensor":
            return {info.name: numpy_helper.to_array(onnx.TensorProto.FromString(data))}
        optional = info.type.WhichOneof("value") == "optional_type"
        message = (onnx.OptionalProto if optional else onnx.SequenceProto).FromString(data)
        return {f"{info.name}[{i}]": numpy_helper.to_array(t)
                for i, t in enumerate(list_values(message))}  # fmt: skip

    return [read(index, info) for index, info in enumerate(infos)]


def read_values(folder, kind, infos):
    """{name: array} of all inputs or outputs (`kind`), in order."""
    return {name: array for values in read_lists(folder, kind, infos) for name, array in values.items()}


def list_binds(folder, infos):
    """Options that say how many elements the sequences and optionals among the inputs have, and of
    what shapes."""
    options = []
    for info, values in zip(infos, read_lists(folder, "input", infos)):
        if holds(info) == "list":
            options.append(f"--bind={info.name}={len(values)}")
            options += [f"--shape={name}={','.join(map(str, value.shape))}"
                        for name, value in values.items() if value.shape]  # fmt: skip
    return options


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
    """What is wrong with an output, or None. ONNX's runner allows bfloat16 two units in the last place."""
    if expected.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)
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
