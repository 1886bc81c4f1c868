"""Makes batches (batches.py) of ONNX tests: every test is compiled by `tenon compile` as a user would,
except that the runtime's headers are included, so that one translation unit parses them once for all
its models; inputs and expected outputs go to one file."""

import threading

import ml_dtypes
import numpy as np
from generated import symbol_bindings
from onnx_verdict import list_binds, read_values, tolerance
from tenon import ROOT, tenon

RUNTIME = ROOT / "runtime"

# Names in the generated header of numpy's types.
TYPES = {
    "bool": "i1", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
    "complex64": "c64", "complex128": "c128", "object": "str",
    "float4_e2m1fn": "f4e2m1", "float8_e4m3fn": "f8e4m3", "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2", "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0",
    **{f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip
PACKED = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def packed(array):
    """An array's elements as they lie in the model's memory: 4-bit and 2-bit ones share bytes, the
    first in the lowest bits. Of text the lengths in bytes, then the bytes."""
    array = np.ascontiguousarray(array)
    if array.dtype == object:
        texts = [str(text).encode() for text in array.reshape(-1)]
        return np.array([len(text) for text in texts], np.int64).tobytes() + b"".join(texts)
    bits = PACKED.get(array.dtype.name)
    if not bits:
        return array.tobytes()
    values = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    per_byte = 8 // bits
    values = np.pad(values, (0, -len(values) % per_byte)).reshape(-1, per_byte)
    return np.bitwise_or.reduce(values << (bits * np.arange(per_byte, dtype=np.uint8)), axis=1).tobytes()


def code_values(name):
    """What the codes of one of ml_dtypes' types of a byte and less are worth, in order."""
    codes = np.arange(1 << PACKED.get(name, 8), dtype=np.uint8)
    return [float(value) for value in codes.view(getattr(ml_dtypes, name)).astype(np.float64)]


class TensorFile:
    """The file that the tensors of many tests go to; several threads may add to it."""

    def __init__(self, path):
        self.path, self.file, self.lock = path, open(path, "wb"), threading.Lock()

    def add(self, name, array):
        """Writes a tensor; returns the row that run_batch.py reads it by."""
        array = np.asarray(array)
        if array.dtype.kind == "U":
            array = array.astype(object)
        data = packed(array)
        with self.lock:
            at = self.file.tell()
            self.file.write(data)
            self.file.flush()
        kind = array.dtype.name
        row = {"name": name, "type": TYPES.get(kind, kind), "shape": list(array.shape), "at": at,
               "bytes": len(data)}  # fmt: skip
        if kind in PACKED or kind.startswith("float8"):
            row["codes"] = code_values(kind)
        return row


def compile_case(case, folder, model, target, words, scratch, tensors, timeout):
    """The answer of `tenon compile`; the symbols that declared inputs have get the test's extents."""
    case.source = case.prefix + (".cu" if target.startswith("cuda:") else ".cpp")
    arrays = read_values(folder, "input", model.graph.input)
    binds = [f"--bind={name}={extent}" for name, extent in symbol_bindings(model, arrays).items()]
    binds += list_binds(folder, model.graph.input)
    answer = tenon("compile", folder / "model.onnx", "-o", scratch / case.source,
                   f"--prefix={case.prefix}", f"--target={target}", "--runtime=include",
                   "--weights=inline", *binds, *words, timeout=timeout)  # fmt: skip
    if answer.status == 0:
        expected = read_values(folder, "output", model.graph.output)
        case.tensors = {
            "inputs": [tensors.add(*item) for item in arrays.items()],
            "outputs": [tensors.add(*item) for item in expected.items()],
            "tolerance": tolerance(folder),
        }
    return answer
