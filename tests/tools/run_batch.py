#!/usr/bin/env python3
"""Runs the generated models of one shared library on their tests' data.

    run_batch.py LIBRARY MANIFEST TENSORS

MANIFEST lists the tests (batches.py): prefix, and the tensors that go in and are expected by name,
type as in the generated header, shape, and place in the file TENSORS; types that numpy lacks bring
what their codes are worth. Beside LIBRARY lie the models' headers. Prints one JSON line a test, in order; "last" after one behind which the process cannot go on. A
process of its own: a generated model that crashes ends only this. Needs numpy."""

import ctypes
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from generated import Interface, Model

GUARD = 64  # bytes behind every output that have to stay as they are
FILL = 0xCD
# Numpy's types by the names in generated headers; bf16 is the upper half of an f32.
TYPES = {
    "i1": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
    **{f"i{n}": np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)},
    **{f"u{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
}  # fmt: skip


def values(data, row, count):
    """The numbers that `count` elements of a tensor stand for, in f64 (c128 for complex ones)."""
    kind = row["type"]
    if kind == "bf16":
        wide = data[: 2 * count].view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    if "codes" in row:
        codes = row["codes"]
        per_byte = 1 if len(codes) == 256 else 2 if len(codes) == 16 else 4
        shifts = 8 // per_byte * np.arange(per_byte, dtype=np.uint8)
        indices = (data[:, None] >> shifts) & (len(codes) - 1)
        return np.array(codes)[indices.reshape(-1)[:count]]
    dtype = np.dtype(TYPES[kind])
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return data[: count * dtype.itemsize].view(dtype).astype(wide)


def texts(data, count):
    """The bytes of `count` elements of text in the file of tensors."""
    lengths = data[: 8 * count].view(np.int64)
    ends = 8 * count + np.cumsum(lengths)
    return [data[end - length : end].tobytes() for end, length in zip(ends, lengths)]


def text_mismatch(elements, expected):
    """What is wrong with an output of text, or None."""
    found = [ctypes.string_at(int(at), int(size)) if size else b"" for at, size in elements]
    for index, pair in enumerate(zip(found, expected)):
        if pair[0] != pair[1]:
            return f"at {index} {pair[0]}, expected {pair[1]}"
    return None


def mismatch(found, expected, dtype, tolerance):
    """What is wrong with an output's values, or None; bfloat16 as in onnx_verdict.py."""
    rtol, atol = tolerance
    if dtype == "bf16":
        rtol = max(rtol, 2**-6)
    close = np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    first = tuple(int(i) for i in np.argwhere(~close)[0])
    count = f"{(~close).sum()} of {close.size} values differ"
    return f"{count}; at {list(first)} {found[first]}, expected {expected[first]}"


def run_test(library, case, tensors):
    """What is wrong, or None."""
    interface = Interface(library.with_name(f"{case['prefix']}.h"))

    def read(row):
        return np.frombuffer(tensors[row["at"] : row["at"] + row["bytes"]], np.uint8)

    given = {row["name"]: row for row in case["tensors"]["inputs"]}
    expected = {row["name"]: row for row in case["tensors"]["outputs"]}
    inputs, kept = [], []
    for port in interface.inputs:
        row = given[port.name]
        if row["type"] != port.type:
            return f"input '{port.name}' has type {port.type}, expected {row['type']}"
        if port.type == "str":
            kept += [ctypes.create_string_buffer(text, len(text)) for text in texts(read(row), port.size)]
            elements = [(ctypes.addressof(buffer), len(buffer)) for buffer in kept[len(kept) - port.size :]]
            inputs.append(np.array(elements or [(0, 0)], np.uint64).reshape(-1))
            continue
        if row["bytes"] != port.bytes or np.prod(row["shape"], dtype=np.int64) != port.size:
            return f"input '{port.name}' has {port.bytes} bytes, expected {row['bytes']}"
        # An address also where nothing is read.
        inputs.append(read(row).copy() if row["bytes"] else np.zeros(1, np.uint8))
    if [port.name for port in interface.outputs] != list(expected):
        return f"outputs {[port.name for port in interface.outputs]}"
    outputs = [np.full(port.bytes + GUARD, FILL, np.uint8) for port in interface.outputs]

    device = 0 if case["source"].endswith(".cu") else None
    model = Model(library, case["prefix"], device)
    model.bind(inputs, outputs)
    model.run()
    shapes = [model.output_shape(index) for index in range(len(outputs))]
    model.close()
    for port, data, shape, row in zip(interface.outputs, outputs, shapes, expected.values()):
        if row["type"] != port.type:
            return f"type {port.type}, expected {row['type']}"
        if shape != row["shape"]:
            return f"shape {shape}, expected {row['shape']}"
        count = int(np.prod(shape, dtype=np.int64))
        if count > port.size:
            return f"{count} elements, expected at most {port.size}"
        if (data[port.bytes :] != FILL).any():
            return "bytes behind the output were overwritten"
        if port.type == "str":
            elements = data[: 16 * count].view(np.uint64).reshape(-1, 2)
            if reason := text_mismatch(elements, texts(read(row), count)):
                return reason
            continue
        found = values(data[: port.bytes], row, count).reshape(shape)
        wanted = values(read(row), row, count).reshape(shape)
        if reason := mismatch(found, wanted, row["type"], case["tensors"]["tolerance"]):
            return reason
    return None


def main():
    library, manifest, tensors = map(Path, sys.argv[1:])
    data = np.memmap(tensors, mode="r") if tensors.stat().st_size else b""
    for case in json.loads(manifest.read_text()):
        broken = False
        try:
            reason = run_test(library, case, data)
        except (KeyError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        except RuntimeError as error:
            # An error of a CUDA kernel stays with the process.
            reason, broken = str(error), case["source"].endswith(".cu")
        verdict = "failed" if reason else "passed"
        print(json.dumps({"verdict": verdict, "reason": reason or "", "last": broken}), flush=True)
        if broken:
            break


if __name__ == "__main__":
    main()
