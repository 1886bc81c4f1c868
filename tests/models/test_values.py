#!/usr/bin/env python3
"""Values that are easily lost: roundings that the model writes, ties, sums of repeated labels, operands
of low rank and for each row, and masks of integers. One node or a few each, on the interpreter and as
generated code, against what the ONNX operator text says.

    test_values.py [NAME...]     as unittest names its tests, such as Values.test_casts
"""

import string
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import numpy as np
import onnx
from contrib import FLOAT, ContribCase
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator


class Values(ContribCase):
    opset = 19

    def graph(self, name, nodes, inputs, expected, weights=()):
        """Several nodes; `expected` are the graph's outputs."""
        kind = lambda v: helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype)
        infos = [[helper.make_tensor_value_info(k, kind(v), np.shape(v)) for k, v in values.items()]
                 for values in (inputs, expected)]  # fmt: skip
        graph = helper.make_graph(nodes, name, *infos, [numpy_helper.from_array(v, k) for k, v in weights])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        self.compare(name, model, inputs, expected)

    def test_casts(self):
        """A Cast to f16 or bf16 and back is a rounding, whatever stands before and behind it."""
        x = np.concatenate([[70000, 1e-9, 2049, 0.1, -65520, 3e38, np.nan, -np.inf], self.normal(24) * 100])
        x = x.astype(FLOAT)
        for narrow, to in ((np.float16, onnx.TensorProto.FLOAT16), ("bfloat16", onnx.TensorProto.BFLOAT16)):
            def rounded(v):  # through the bits that numpy has no type for
                v = np.asarray(v, FLOAT)
                if narrow == np.float16:
                    with np.errstate(over="ignore"):
                        return v.astype(np.float16).astype(FLOAT)
                bits = v.view(np.uint32).astype(np.uint64)
                kept = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(FLOAT)
                return np.where(np.isnan(v), v, kept)

            cast = lambda a, b, t: helper.make_node("Cast", [a], [b], to=t)
            there = [cast("x", "h", to), cast("h", "r", 1)]
            with np.errstate(invalid="ignore", over="ignore"):
                r = rounded(x)
                self.graph("there", there, {"x": x}, {"r": r})
                self.graph("rest", [*there, helper.make_node("Sub", ["x", "r"], ["y"])], {"x": x}, {"y": x - r})
                self.graph("before", [helper.make_node("Mul", ["x", "x"], ["s"]), cast("s", "h", to),
                                      cast("h", "r", 1), helper.make_node("Sub", ["s", "r"], ["y"])],
                           {"x": x}, {"y": x * x - rounded(x * x)})  # fmt: skip
                # Computed in the narrow type, and then widened: the product is a narrow number.
                self.graph("widened", [cast("x", "h", to), helper.make_node("Mul", ["h", "h"], ["s"]),
                                       cast("s", "y", 1)], {"x": x}, {"y": rounded(r * r)})  # fmt: skip
                finite = x[8:]
                self.graph("integers", [cast("x", "h", to), helper.make_node("Mul", ["h", "h"], ["s"]),
                                        cast("s", "y", 6)], {"x": finite},
                           {"y": rounded(rounded(finite) ** 2).astype(np.int32)})  # fmt: skip
                whole = np.array([2049, 70000, -3, 257, 65519], np.int32)
                self.graph("whole", [cast("x", "h", to), cast("h", "y", 1)], {"x": whole},
                           {"y": rounded(whole)})  # fmt: skip

    def test_resize_integers(self):
        """Ties fall as they do in double, to even."""
        for kind, low, high in ((np.uint8, 0, 256), (np.int8, -128, 128), (np.int32, -1000, 1000)):
            for shape, scales in (([1, 1, 5, 6], [1, 1, 2, 1.5]), ([1, 2, 3, 4, 5], [1, 1, 2, 2, 2]),
                                  ([7], [1.5]), ([4, 6], [0.5, 0.5])):  # fmt: skip
                for mode in ("linear", "cubic"):
                    x = self.rng.integers(low, high, shape).astype(kind)
                    weights = {"scales": np.array(scales, FLOAT)}
                    model = self.model("Resize", ["x", "", "scales"], {"x": x}, weights, ("y",), "",
                                       {"mode": mode})  # fmt: skip
                    (real,) = ReferenceEvaluator(model).run(None, {"x": x.astype(np.float64)})
                    limits = np.iinfo(kind)
                    y = np.clip(np.rint(real), limits.min, limits.max).astype(kind)
                    self.check("Resize", ["x", "", "scales"], {"x": x}, weights, domain="",
                               expected={"y": y}, mode=mode)  # fmt: skip

    def test_resize_half_pixels_of_tensorflow(self):
        x, weights = self.normal(1, 2, 3, 5), {"roi": np.zeros(0, FLOAT)}
        for self.opset, rule, index in ((11, "floor", np.floor), (11, "ceil", np.ceil), (15, "floor", np.floor)):
            for scale in (2.0, 1.5, 0.5):
                rows, columns = (np.clip(index((np.arange(int(n * scale)) + 0.5) / FLOAT(scale)), 0, n - 1)
                                 .astype(int) for n in x.shape[2:])  # fmt: skip
                self.check("Resize", ["x", "roi", "scales"], {"x": x},
                           {**weights, "scales": np.array([1, 1, scale, scale], FLOAT)}, domain="",
                           expected={"y": x[:, :, rows][..., columns]}, mode="nearest", nearest_mode=rule,
                           coordinate_transformation_mode="tf_half_pixel_for_nn")  # fmt: skip

    def test_einsum(self):
        square, cube = self.normal(4, 4), self.normal(3, 3, 3)
        a, b, vector = self.normal(2, 3, 4), self.normal(2, 4, 5), self.normal(4)
        one = np.array(1.5, FLOAT)
        for equation, operands in (
            ("ii", [square]), ("ii->i", [square]), ("iii", [cube]), ("iij", [cube]), ("iji->j", [cube]),
            ("ii,i", [square, vector]), ("ii,ij->j", [square, square]), (" b i j , b j k ", [a, b]),
            ("...ij,...jk", [a, b]), ("i...j->...", [a]), ("...ii", [square]), ("bA,Ca", [a[0], b[0]]),
            ("ba", [a[0]]), ("Ba", [a[0]]), (",ij", [one, square]), (",->", [one, one]), ("->", [one]),
            ("i->", [vector]), ("i,i", [vector, vector]), ("i,j,k->kij", [vector, a[0, :, 0], a[:, 0, 0]]),
            ("...i,...i->...", [a, a[:1]]), ("ij,kj", [a[0], square]),
        ):  # fmt: skip
            names = list(string.ascii_lowercase[: len(operands)])
            inputs = dict(zip(names, operands))
            self.check("Einsum", names, inputs, {}, domain="", equation=equation,
                       expected={"y": np.asarray(np.einsum(equation, *operands), FLOAT)})  # fmt: skip
        narrow = self.rng.integers(-9, 9, (3, 3)).astype(np.int8)
        self.check("Einsum", ["a", "b"], {"a": narrow, "b": narrow}, {}, domain="", equation="ij,jk",
                   expected={"y": np.einsum("ij,jk", narrow, narrow)})  # fmt: skip

    def test_zero_points_by_row(self):
        kinds = (np.uint8, np.int8)
        draw = lambda kind, *shape: self.rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        for a_kind in kinds:
            for b_kind in kinds:
                for shape, other, rows, columns in (
                    ((3, 8), (8, 5), (3,), (5,)), ((3, 8), (8, 5), (3, 1), (1, 5)), ((3, 8), (8, 5), (3,), ()),
                    ((3, 8), (8, 5), (), (5,)), ((2, 3, 8), (2, 8, 5), (2, 3, 1), (2, 1, 5)),
                    ((2, 3, 8), (8, 5), (2, 3, 1), ()), ((2, 3, 8), (2, 8, 5), (), (2, 1, 5)),
                ):  # fmt: skip
                    a, b, az, bz = draw(a_kind, *shape), draw(b_kind, *other), draw(a_kind, *rows), draw(b_kind, *columns)
                    wide = lambda v: v.astype(np.int32)
                    by_row = az[:, None] if az.ndim == 1 else az
                    y = (wide(a) - wide(by_row)) @ (wide(b) - wide(bz))
                    self.check("MatMulInteger", ["a", "b", "az", "bz"], {"a": a}, {"b": b, "az": az, "bz": bz},
                               domain="", expected={"y": y})  # fmt: skip
                    self.check("MatMulInteger", ["a", "b", "az", "bz"], {"a": a, "b": b, "az": az, "bz": bz}, {},
                               domain="", expected={"y": y})  # fmt: skip
                    scales = {name: np.exp2(self.rng.integers(-8, -3, z.shape)).astype(FLOAT)
                              for name, z in (("as", az), ("bs", bz), ("ys", az))}  # fmt: skip
                    out = lambda name: scales[name][:, None] if scales[name].ndim == 1 and name != "bs" else scales[name]
                    q = np.rint(y.astype(FLOAT) * (out("as") * out("bs")) / (out("ys") * 64)) + wide(by_row)
                    scales["ys"] = scales["ys"] * FLOAT(64)
                    limits = np.iinfo(a_kind)
                    self.check("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], {"a": a},
                               {"b": b, "az": az, "bz": bz, "yz": az, **scales}, domain="",
                               expected={"y": np.clip(q, limits.min, limits.max).astype(a_kind)})  # fmt: skip

    def test_low_ranks(self):
        for value in (0.0, 3.0):
            x = np.array(value, FLOAT)
            self.check("NonZero", ["x"], {"x": x}, {}, domain="",
                       expected={"y": np.zeros((0, int(value != 0)), np.int64)})  # fmt: skip
        x = self.normal(10)
        weights = {name: np.array([value], FLOAT) for name, value in zip("sbmv", (2, 0.5, 0.1, 0.9))}
        y = (x - 0.1) / np.sqrt(0.9 + 1e-5) * 2 + 0.5
        self.check("BatchNormalization", ["x", *"sbmv"], {"x": x}, weights, domain="",
                   expected={"y": y.astype(FLOAT)})  # fmt: skip
        y = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * 2 + 0.5
        self.check("BatchNormalization", ["x", *"sbmv"], {"x": x}, weights, domain="", training_mode=1,
                   expected={"y": y.astype(FLOAT)})  # fmt: skip

    def test_masks_of_integers(self):
        """They are added to the scores."""
        self.opset = 23
        q, k, v = (self.normal(2, 3, 4, 8) for _ in range(3))
        for kind in (np.int32, np.int64, np.int8, np.uint8):
            for shape in ((4, 4), (3, 4, 4), (2, 1, 4, 4)):
                mask = self.rng.integers(0 if kind == np.uint8 else -4, 4, shape).astype(kind)
                s = q @ k.swapaxes(2, 3) / np.sqrt(8) + mask
                e = np.exp(s - s.max(-1, keepdims=True))
                y = (e / e.sum(-1, keepdims=True)) @ v
                self.check("Attention", list("qkvm"), {"q": q, "k": k, "v": v, "m": mask}, {}, domain="",
                           expected={"y": y.astype(FLOAT)})  # fmt: skip


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed, 0 skipped")
    sys.exit(bool(failed))
