#!/usr/bin/env python3
"""Runs the generated models of one shared library on their tests' data.

    run_batch.py LIBRARY MANIFEST

MANIFEST lists prefix, header and test folder of each model. Prints one JSON line a test, in order.
A process of its own: a generated model that crashes ends only this."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from generated import Interface, Model
from onnx_verdict import first_mismatch, load_model, read_values

GUARD = 64  # bytes behind every output that have to stay as they are
FILL = 0xCD


def packed(array):
    """An array's elements as they lie in the model's memory: 4-bit and 2-bit ones share bytes, the
    first in the lowest bits."""
    array = np.ascontiguousarray(array)
    bits = sub_byte_bits(array.dtype)
    if not bits:
        return array.reshape(-1).view(np.uint8)
    values = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    per_byte = 8 // bits
    values = np.pad(values, (0, -len(values) % per_byte)).reshape(-1, per_byte)
    return np.bitwise_or.reduce(values << (bits * np.arange(per_byte, dtype=np.uint8)), axis=1)


def unpacked(data, dtype, count):
    bits = sub_byte_bits(dtype)
    if not bits:
        return data[: count * dtype.itemsize].view(dtype)
    shifts = bits * np.arange(8 // bits, dtype=np.uint8)
    values = ((data[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if np.dtype(dtype).name.startswith("int"):  # ml_dtypes keeps these sign-extended
        values = np.where(values >= 1 << (bits - 1), values - (1 << bits), values).astype(np.uint8)
    return values.view(dtype)


def sub_byte_bits(dtype):
    """Width of a type narrower than a byte (of ml_dtypes), else 0."""
    name = np.dtype(dtype).name
    return 4 if name in ("int4", "uint4", "float4_e2m1fn") else 2 if name in ("int2", "uint2") else 0


# Names in the generated header of numpy's types.
TYPES = {
    "bool": "i1", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
    "complex64": "c64", "complex128": "c128",
    "float4_e2m1fn": "f4e2m1", "float8_e4m3fn": "f8e4m3", "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2", "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0",
    **{f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip


def run_test(library, record):
    """What is wrong, or None."""
    folder = Path(record["folder"])
    proto = load_model(folder)
    named = read_values(folder, "input", proto.graph.input)
    expected = read_values(folder, "output", proto.graph.output)
    interface = Interface(record["header"])

    inputs = []
    for port in interface.inputs:
        array = named[port.name]
        if TYPES.get(array.dtype.name) != port.type:
            return f"input '{port.name}' has type {port.type}, expected {array.dtype}"
        data = packed(array)
        if data.nbytes != port.bytes or array.size != port.size:
            return f"input '{port.name}' has {port.bytes} bytes, expected {data.nbytes}"
        inputs.append(data)
    if [port.name for port in interface.outputs] != list(expected):
        return f"outputs {[port.name for port in interface.outputs]}"
    outputs = [np.full(port.bytes + GUARD, FILL, np.uint8) for port in interface.outputs]

    model = Model(library, record["prefix"])
    model.bind(inputs, outputs)
    model.run()
    found = []
    for index, (port, data, want) in enumerate(zip(interface.outputs, outputs, expected.values())):
        if TYPES.get(want.dtype.name) != port.type:
            return f"type {port.type}, expected {want.dtype}"
        shape = model.output_shape(index)
        if len(shape) != port.rank:
            return f"output_dim knows {len(shape)} axes, expected {port.rank}"
        count = int(np.prod(shape, dtype=np.int64))
        if count > port.size:
            return f"{count} elements, expected at most {port.size}"
        if (data[port.bytes :] != FILL).any():
            return "bytes behind the output were overwritten"
        found.append(unpacked(data[: port.bytes], want.dtype, count).reshape(shape))
    model.close()
    return first_mismatch(found, list(expected.values()), folder)


def main():
    library, manifest = sys.argv[1:]
    for record in json.loads(Path(manifest).read_text()):
        try:
            reason = run_test(library, record)
        except (KeyError, RuntimeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        verdict = "failed" if reason else "passed"
        print(json.dumps({"verdict": verdict, "reason": reason or ""}), flush=True)


if __name__ == "__main__":
    main()
