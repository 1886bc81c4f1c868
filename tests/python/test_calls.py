"""What the header of generated C++ promises its callers: inputs and outputs may lie at any address,
any number of threads gives the same bytes, and a library exports the interface alone and can be unloaded.

One model per kernel that reads the caller's memory or writes it, for cpu:native and cpu:generic. The
expected bytes are those of aligned memory and one thread, which other suites compare with the
interpreter; guards around misaligned outputs have to stay.

usage: test_calls.py
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

import numpy as np
import onnx
from generated import Interface, Model, build_library, compile_model
from onnx import TensorProto, helper, numpy_helper

GUARD, FILL = 64, 0xCD
SHIFTS = (1, 2, 4, 8)  # bytes beyond an address that 64 divides
THREADS = (2, 3, 8, 1)
F32, F16, U8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8


def weights(rng, name, *shape):
    return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)


def models():
    """{name: (nodes, inputs, outputs, initializers)}; inputs and outputs as (name, type, shape)."""
    rng = np.random.default_rng(5)
    node = helper.make_node
    image, matrix = ("x", F32, [1, 16, 19, 23]), ("a", F32, [61, 45])
    scale = [numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.uint8(7), "z"),
             numpy_helper.from_array(rng.integers(-90, 90, (24, 16, 3, 3)).astype(np.int8), "w8"),
             numpy_helper.from_array(np.int8(0), "z8")]  # fmt: skip
    return {
        "conv": ([node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["y"])],
                 [image], [("y", F32, [1, 24, 19, 23])], [weights(rng, "w", 24, 16, 3, 3)]),
        "depthwise": ([node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], group=16)], [image],
                      [("y", F32, [1, 16, 19, 23])], [weights(rng, "w", 16, 1, 3, 3)]),
        "conv_int8": ([node("QLinearConv", ["x", "s", "z", "w8", "s", "z8", "s", "z"], ["y"])],
                      [("x", U8, [1, 16, 19, 23])], [("y", U8, [1, 24, 17, 21])], scale),
        "product": ([node("MatMul", ["a", "b"], ["y"])], [matrix, ("b", F32, [45, 37])],
                    [("y", F32, [61, 37])], []),
        "layer": ([node("Gemm", ["a", "w"], ["y"])], [matrix], [("y", F32, [61, 50])],
                  [weights(rng, "w", 45, 50)]),
        "row": ([node("MatMul", ["v", "w"], ["y"])], [("v", F32, [1, 301])], [("y", F32, [1, 130])],
                [weights(rng, "w", 301, 130)]),
        "attention": ([node("Attention", ["q", "k", "v"], ["y"], is_causal=1)],
                      [("q", F32, [1, 3, 33, 24]), ("k", F32, [1, 3, 33, 24]), ("v", F32, [1, 3, 33, 24])],
                      [("y", F32, [1, 3, 33, 24])], []),
        "softmax": ([node("Softmax", ["a"], ["y"])], [matrix], [("y", F32, [61, 45])], []),
        "columns": ([node("ReduceMean", ["a"], ["y"], keepdims=0)], [matrix], [("y", F32, [])], []),
        "transpose": ([node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])], [image],
                      [("y", F32, [1, 19, 23, 16])], []),
        "pool": ([node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3])], [image],
                 [("y", F32, [1, 16, 17, 21])], []),
        "halves": ([node("Add", ["g", "h"], ["y"])], [("g", F16, [3, 77]), ("h", F16, [77])],
                   [("y", F16, [3, 77])], []),
        "bytes": ([node("DequantizeLinear", ["x", "s", "z"], ["y"])], [("x", U8, [5, 91])],
                  [("y", F32, [5, 91])], scale[:2]),
    }  # fmt: skip


def write(folder, name, nodes, inputs, outputs, initializers):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs],
                              initializers)  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path


def values(rng, port):
    if port.type == "u8":
        return rng.integers(0, 256, port.size).astype(np.uint8)
    return rng.standard_normal(port.size).astype({"f32": np.float32, "f16": np.float16}[port.type])


class Memory:
    """`data`, bytes, `shift` bytes behind an address that 64 divides, between guards."""

    def __init__(self, data, shift):
        self.all = np.full(len(data) + 4 * GUARD, FILL, np.uint8)
        self.start = GUARD + -(self.all.ctypes.data + GUARD) % 64 + shift
        self.end = self.start + len(data)
        self.data = self.all[self.start : self.end]
        self.data[:] = data

    def intact(self):
        return (self.all[: self.start] == FILL).all() and (self.all[self.end :] == FILL).all()


def results(model, inputs, sizes, shift):
    """The bytes of the outputs, None where a guard was overwritten."""
    given = [Memory(data, shift) for data in inputs]
    taken = [Memory(np.zeros(size, np.uint8), shift) for size in sizes]
    model.bind([m.data for m in given], [m.data for m in taken])
    model.run()
    return [m.data.tobytes() for m in taken] if all(m.intact() for m in taken) else None


def exported(library):
    listed = subprocess.run(["nm", "--dynamic", "--defined-only", library], check=True, capture_output=True, text=True)
    return [line.split()[-1] for line in listed.stdout.splitlines()]


def complaints(path, target, folder):
    """What is wrong with one model."""
    source = folder / f"{path.stem}_{target.split(':')[1]}.cpp"
    compile_model(path, source, f"--target={target}", "--weights=inline")
    library = build_library(source, "-O3", ("-DTENON_THREADS", "-pthread"))
    interface = Interface(source.with_suffix(".h"))
    rng = np.random.default_rng(9)
    inputs = [values(rng, port).view(np.uint8) for port in interface.inputs]
    sizes = [port.bytes for port in interface.outputs]
    model = Model(library)
    expected = results(model, inputs, sizes, 0)
    for shift in SHIFTS:
        if results(model, inputs, sizes, shift) != expected:
            yield f"memory {shift} bytes off gives other results"
    for threads in THREADS:
        model.set_threads(threads)
        if results(model, inputs, sizes, 0) != expected:
            yield f"{threads} threads give other results"
    for threads in (0, -1):
        try:
            model.set_threads(threads)
            yield f"{threads} threads are taken for a number of threads"
        except RuntimeError:
            pass
    model.close()
    if str(library.resolve()) in Path("/proc/self/maps").read_text():
        yield "the library cannot be unloaded"
    for name in exported(library):
        if not name.startswith(f"{model.prefix}_") and not re.match("_Z(T[ISV])?NSt", name):
            yield f"the library exports {name}"  # which is neither the interface's nor the standard library's


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="tenon-calls-") as name:
        folder = Path(name)
        for stem, parts in models().items():
            path = write(folder, stem, *parts)
            for target in ("cpu:native", "cpu:generic"):
                wrong = list(complaints(path, target, folder))
                for what in wrong:
                    print(f"{stem}, {target}: {what}")
                passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
