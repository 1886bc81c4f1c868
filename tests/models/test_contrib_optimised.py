#!/usr/bin/env python3
"""Operators that ONNX Runtime's optimisers and quantisers write into saved models, against ONNX Runtime
where its CPU build has them, otherwise against NumPy.

    test_contrib_optimised.py [NAME...]     as unittest names its tests, such as Optimised.test_fused_conv
"""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import math

import numpy as np
import onnx
from contrib import DOMAIN, FLOAT, ML, ContribCase
from onnx import helper, numpy_helper

HALF = np.float16
NHWC = "com.ms.internal.nhwc"


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def first(x):
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


class Optimised(ContribCase):
    def signed(self, *shape, bits=7):
        # Without VNNI, ONNX Runtime adds pairs of products in 16 bits that saturate: weights of 7 bits.
        return self.rng.integers(-(1 << bits - 1), 1 << bits - 1, shape).astype(np.int8)

    def scales(self, *shape):
        return (0.005 + 0.01 * self.rng.random(shape)).astype(FLOAT)

    def weights(self, kind, *shape):
        return self.bytes(*shape) if kind == np.uint8 else self.signed(*shape)

    # Floating-point fusions

    def test_fused_conv(self):
        w, b = self.normal(4, 3, 3, 3), self.normal(4)
        x, z = {"x": self.normal(2, 3, 7, 6)}, {"z": self.normal(2, 4, 7, 6)}
        names = ["x", "w", "b"]
        for activation in ("Relu", "Sigmoid", "Tanh", "HardSwish"):
            self.check("FusedConv", names, x, {"w": w, "b": b}, activation=activation, pads=[1, 1, 1, 1])
        for activation, params in (("LeakyRelu", [0.3]), ("Clip", [-0.4, 0.9]), ("HardSigmoid", [0.3, 0.4])):
            self.check("FusedConv", names, x, {"w": w, "b": b}, activation=activation,
                       activation_params=params, strides=[2, 1], dilations=[1, 2])  # fmt: skip
        self.check("FusedConv", ["x", "w"], x, {"w": w}, activation="Relu", auto_pad="SAME_UPPER")
        self.check("FusedConv", ["x", "w", "b", "z"], {**x, **z}, {"w": w, "b": b}, activation="Relu",
                   pads=[1, 1, 1, 1])  # fmt: skip
        self.check("FusedConv", ["x", "w", "", "z"], {**x, **z}, {"w": w}, pads=[1, 1, 1, 1])
        grouped = {"x": self.normal(1, 4, 5, 5)}
        self.check("FusedConv", ["x", "w"], grouped, {"w": self.normal(4, 2, 1, 1)}, activation="Tanh", group=2)
        plain = self.reference("Conv", ["x", "w"], x, {"w": w}, domain="")["y"]
        self.check("FusedConv", ["x", "w"], x, {"w": w}, expected={"y": plain * sigmoid(plain)},
                   activation="Silu")  # fmt: skip

    def test_fused_gemm(self):
        a, b, c = self.normal(4, 6), {"b": self.normal(6, 5)}, {"c": self.normal(5)}
        for activation in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"):
            self.check("FusedGemm", ["a", "b", "c"], {"a": a}, b | c, activation=activation)
        for activation, params in (
            ("Elu", {"alpha": 0.7}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("LeakyRelu", {"alpha": 0.2}),
            ("ScaledTanh", {"alpha": 0.7, "beta": 1.3}), ("Selu", {"alpha": 1.5, "gamma": 0.8}),
            ("ThresholdedRelu", {"alpha": 0.4}),
        ):  # fmt: skip
            extra = {f"activation_{name}": value for name, value in params.items()}
            self.check("FusedGemm", ["a", "b", "c"], {"a": a}, b | c, activation=activation, **extra)
        self.check("FusedGemm", ["a", "b", "c"], {"a": a.T.copy()}, {"b": b["b"].T.copy()} | c, transA=1, transB=1,
                   alpha=0.5, beta=2.0, activation="Relu")  # fmt: skip
        self.check("FusedGemm", ["a", "b"], {"a": a}, b, activation="Relu")

    def test_fused_products(self):
        a, b = self.normal(2, 4, 5), self.normal(2, 6, 5)
        expected = np.maximum(0.5 * a @ b.swapaxes(1, 2), 0)
        self.check("FusedMatMulActivation", ["a", "b"], {"a": a, "b": b}, {}, expected={"y": expected},
                   transB=1, alpha=0.5, activation="Relu")  # fmt: skip
        leaky = a @ b.swapaxes(1, 2)
        self.check("FusedMatMulActivation", ["a", "b"], {"a": a, "b": b}, {},
                   expected={"y": np.where(leaky < 0, FLOAT(0.2) * leaky, leaky)}, transB=1,
                   activation="LeakyRelu", activation_alpha=0.2)  # fmt: skip
        self.check("TransposeMatMul", ["a", "b"], {"a": a, "b": b}, {}, transB=1, alpha=0.5)
        x, w, bias = self.normal(2, 3, 6), self.normal(6, 4), self.normal(4)
        for names in (["x", "w"], ["x", "w", "bias"]):
            product = (x @ w + (bias if "bias" in names else 0)).astype(np.float64)
            cubic = product + 0.044715 * product**3
            y = 0.5 * product * (1 + np.tanh(math.sqrt(2 / math.pi) * cubic))
            self.check("GemmFastGelu", names, {"x": x}, {"w": w, "bias": bias} if len(names) > 2 else {"w": w},
                       expected={"y": y.astype(FLOAT)})  # fmt: skip

    def test_biases(self):
        x, skip, bias = self.normal(2, 3, 8), self.normal(2, 3, 8), self.normal(8)
        self.check("BiasAdd", ["x", "b", "s"], {"x": x, "s": skip}, {"b": bias}, expected={"y": x + bias + skip})
        left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
        self.check("BiasSplitGelu", ["x", "b"], {"x": x}, {"b": bias},
                   expected={"y": (left * gelu(right)).astype(FLOAT)})  # fmt: skip
        self.check("QuickGelu", ["x"], {"x": x}, {})
        self.check("QuickGelu", ["x"], {"x": x}, {}, alpha=1.0)
        mask = np.ones(x.shape, bool)
        self.check("BiasDropout", ["x", "b", "s"], {"x": x, "s": skip}, {"b": bias}, ("y", "m"),
                   expected={"y": x + bias + skip, "m": mask})  # fmt: skip
        off = {"b": bias, "r": np.array(0.5, FLOAT), "t": np.array(False)}
        self.check("BiasDropout", ["x", "b", "", "r", "t"], {"x": x}, off, expected={"y": x + bias})

    def test_causal_convolution(self):
        """The form of ONNX Runtime, in files of onnxruntime-genai (LFM2); with the state before, and without."""
        x, past = self.normal(2, 3, 5), self.normal(2, 3, 3)
        weights = {"w": self.normal(3, 1, 4), "b": self.normal(3)}
        for activation in ("none", "silu"):
            self.check("CausalConvWithState", ["x", "w", "b", "p"], {"x": x, "p": past}, weights, ("y", "q"), ndim=1,
                       activation=activation, state_window=0)  # fmt: skip
        self.check("CausalConvWithState", ["x", "w"], {"x": x}, {"w": weights["w"]}, ("y", "q"), ndim=1)

    def test_matrices(self):
        self.tolerance = 1e-4
        a, b = self.normal(7, 5), self.normal(4, 5)
        for metric in ("euclidean", "sqeuclidean"):
            self.check("CDist", ["a", "b"], {"a": a}, {"b": b}, metric=metric)
        for axis in (0, 2, -1):
            self.check("ExpandDims", ["a", "axis"], {"a": a}, {"axis": np.array(axis, np.int32)})
        # The first pivot is 0, so that rows have to change places.
        turned = self.normal(2, 3, 4, 4)
        turned[:, :, 0, 0] = 0
        for x in (turned, self.normal(1, 1), self.normal(9, 9)):
            self.check("Inverse", ["x"], {"x": x}, {}, expected={"y": np.linalg.inv(x.astype(np.float64)).astype(FLOAT)})

    def test_operators_that_became_onnxs_own(self):
        x, pads = self.normal(2, 3, 4, 5), np.array([0, 0, 1, -1, 0, 0, 0, 2], np.int64)
        self.check("Pad", ["x", "pads", "value"], {"x": x}, {"pads": pads, "value": np.array(3, FLOAT)})
        self.check("Pad", ["x", "pads"], {"x": x}, {"pads": np.abs(pads)}, mode="reflect")
        self.check("GatherND", ["x", "at"], {"x": x}, {"at": np.array([[0, 2], [1, 1]], np.int64)})
        for mode, align in (("bilinear", 0), ("nearest", 1), ("bicubic", 1)):
            self.check("GridSample", ["x", "grid"], {"x": x, "grid": self.normal(2, 3, 3, 2)}, {}, mode=mode,
                       padding_mode="border", align_corners=align)  # fmt: skip

    # The packing mode of encoders: sequences without their padding

    def packing(self, x, lengths):
        """What RemovePadding gives for x [batch, length, width]."""
        batch, length, width = x.shape
        kept = (np.arange(length) < lengths[:, None]).reshape(-1)
        offsets = np.concatenate([np.flatnonzero(kept), np.flatnonzero(~kept)]).astype(np.int32)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return {"y": x.reshape(-1, width)[kept], "offsets": offsets.reshape(batch, length), "ends": ends,
                "most": np.array([lengths.max()], np.int32)}  # fmt: skip

    def attended(self, q, k, v, lengths, heads, added=0):
        """Attention of each sequence of [batch, length, width] over its own tokens."""
        batch, length, _ = q.shape
        q, k, v = (t.astype(np.float64).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3]) + added
        scores = np.where(np.arange(length) < lengths[:, None, None, None], scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(batch, length, -1)

    def test_packing(self):
        x, lengths = self.normal(3, 5, 8), np.array([2, 5, 3], np.int32)
        packed = self.packing(x, lengths)
        self.check("RemovePadding", ["x", "lengths"], {"x": x, "lengths": lengths}, {},
                   ("y", "offsets", "ends", "most"), expected=packed)  # fmt: skip
        restored = np.where((np.arange(5) < lengths[:, None])[:, :, None], x, 0)
        self.check("RestorePadding", ["x", "offsets"], {"x": packed["y"], "offsets": packed["offsets"]}, {},
                   expected={"y": restored})  # fmt: skip
        w, bias, added = self.normal(8, 24), self.normal(24), self.normal(1, 2, 5, 5)
        q, k, v = np.split(restored @ w + bias, 3, axis=2)
        names = ["x", "w", "b", "offsets", "ends"]
        given = {"x": packed["y"], "offsets": packed["offsets"], "ends": packed["ends"]}
        y = self.packing(self.attended(q, k, v, lengths, 2).astype(FLOAT), lengths)["y"]
        self.check("PackedAttention", names, given, {"w": w, "b": bias}, expected={"y": y}, num_heads=2)
        with_added = self.packing(self.attended(q, k, v, lengths, 2, added).astype(FLOAT), lengths)["y"]
        self.check("PackedAttention", [*names, "added"], given | {"added": added}, {"w": w, "b": bias},
                   expected={"y": with_added}, num_heads=2)  # fmt: skip
        q, k, v = (self.normal(3, 5, 8) for _ in range(3))
        rows = {name: self.packing(t, lengths)["y"] for name, t in (("q", q), ("k", k), ("v", v))}
        y = self.packing(self.attended(q, k, v, lengths, 2).astype(FLOAT), lengths)["y"]
        places = {"offsets": packed["offsets"], "ends": packed["ends"]}
        self.check("PackedMultiHeadAttention", ["q", "k", "v", "", "offsets", "ends"], rows | places, {},
                   expected={"y": y}, num_heads=2)  # fmt: skip
        stacked = np.stack([rows[name].reshape(10, 2, 4) for name in "qkv"], axis=2)
        self.check("PackedMultiHeadAttention", ["q", "", "", "", "offsets", "ends"], {"q": stacked} | places, {},
                   expected={"y": y}, num_heads=2)  # fmt: skip

    def test_packed_encoder(self):
        """From padding to padding, the number of tokens known from data alone."""
        x, lengths = self.normal(3, 5, 8), np.array([4, 1, 5], np.int32)
        w, bias = self.normal(8, 24), self.normal(24)
        nodes = [helper.make_node("RemovePadding", ["x", "lengths"], ["rows", "offsets", "ends", "most"], domain=DOMAIN),
                 helper.make_node("PackedAttention", ["rows", "w", "b", "offsets", "ends"], ["z"], domain=DOMAIN, num_heads=2),
                 helper.make_node("Relu", ["z"], ["r"]),
                 helper.make_node("RestorePadding", ["r", "offsets"], ["y"], domain=DOMAIN)]  # fmt: skip
        info = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape),
                helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, lengths.shape)]  # fmt: skip
        graph = helper.make_graph(nodes, "packed", info, [onnx.ValueInfoProto(name="y")],
                                  [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")])  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1), helper.make_opsetid(ML, 3)]
        kept = (np.arange(5) < lengths[:, None])[:, :, None]
        q, k, v = np.split(np.where(kept, x, 0) @ w + bias, 3, axis=2)
        y = np.where(kept, np.maximum(self.attended(q, k, v, lengths, 2), 0), 0).astype(FLOAT)
        self.compare("packed", helper.make_model(graph, opset_imports=opsets, ir_version=9),
                     {"x": x, "lengths": lengths}, {"y": y})  # fmt: skip

    # Decoders, one token at a time

    def test_decoder_attention(self):
        q, k, v = ({name: self.normal(2, 1, 12)} for name in "qkv")
        token, bias = q | k | v, {"bias": self.normal(36)}
        caches = {"pk": self.normal(2, 3, 6, 4), "pv": self.normal(2, 3, 6, 4), "at": np.array([3], np.int32)}
        op, results = "DecoderMaskedMultiHeadAttention", ("y", "a", "b")
        shared = {"num_heads": 3, "past_present_share_buffer": 1}
        self.check(op, ["q", "k", "v"], token, {}, num_heads=3)
        kept = ["q", "k", "v", "", "", "pk", "pv", "at"]
        self.check(op, [*kept, "", "", "bias"], token | caches, bias, results, scale=0.3, **shared)
        self.check(op, kept, token | caches | {"at": np.array([0], np.int32)}, {}, results, **shared)
        seen = {"m": np.array([[1, 0, 1, 1], [1, 1, 0, 1]], np.int32), "add": self.normal(2, 3, 1, 4)}
        self.check(op, ["q", "k", "v", "m", "add", *kept[5:]], token | caches | seen, {}, results, **shared)
        beams = {"n": np.array([2], np.int32), "of": np.array([[[0, 1, 1, 9, 9, 9], [1, 0, 0, 9, 9, 9]]], np.int32)}
        self.check(op, [*kept, "n", "of"], token | caches | beams, {}, results, **shared)
        other = {"x": self.normal(2, 3, 7, 4), "z": self.normal(2, 3, 7, 4)}  # an encoder's
        mask = {"m": np.array([[1, 1, 0, 1, 1, 1, 0]] * 2, np.int32)}
        self.check(op, ["q", "x", "z", "m"], q | other | mask, {}, num_heads=3)
        self.check(op, ["q", "x", "z", "", "", "", "", "", "", "", "bias"], q | other, bias, num_heads=3)
        # Scores as a result, of a type that ONNX Runtime does not infer.
        plain = self.reference(op, ["q", "x", "z"], q | other, {}, num_heads=3)["y"]
        scores = np.einsum("bhd,bhkd->bhk", q["q"].reshape(2, 3, 4), other["x"])[:, :, None] / 2
        for name, result in ((op, {"output_qk": 1}), ("MultiHeadAttention", {})):
            self.check(name, ["q", "x", "z"], q | other, {}, ("y", "", "", "qk"),
                       expected={"y": plain, "qk": scores}, num_heads=3, **result)  # fmt: skip

    def test_decoder_self_attention(self):
        """As Attention, which takes the caches apart, and as the same with caches that are shared."""
        op, x, weights = "DecoderMaskedSelfAttention", {"x": self.normal(2, 1, 12)}, {"w": self.normal(12, 36), "b": self.normal(36)}
        past = {"p": self.normal(2, 2, 3, 4, 4)}
        expected = self.reference("Attention", ["x", "w", "b", "", "p"], x | past, weights, ("y", "c"), num_heads=3)
        self.check(op, ["x", "w", "b", "", "p"], x | past, weights, ("y", "c"), expected=expected, num_heads=3)
        rest = self.normal(2, 2, 3, 2, 4)
        cache = {"p": np.concatenate([past["p"], rest], 3), "at": np.array([4], np.int32)}
        present = np.concatenate([expected["c"], rest[:, :, :, 1:]], 3)
        self.check(op, ["x", "w", "b", "", "p", "", "at"], x | cache, weights, ("y", "c"),
                   expected={"y": expected["y"], "c": present}, num_heads=3,
                   past_present_share_buffer=1)  # fmt: skip

    # Distances of tokens

    @staticmethod
    def bucket(distance, buckets, most, both_ways):
        """Of key minus query, as T5 counts."""
        base = 0
        if both_ways:
            buckets //= 2
            base = buckets if distance > 0 else 0
        far = abs(distance) if both_ways else max(-distance, 0)
        exact = buckets // 2
        if far < exact:
            return base + far
        steps = np.log(FLOAT(far) / FLOAT(exact)) / np.log(FLOAT(most) / FLOAT(exact))
        return base + min(exact + int(steps * FLOAT(buckets - exact)), buckets - 1)

    def test_relative_position_bias(self):
        length = np.array([41])
        for both_ways, buckets, most in ((1, 16, 20), (0, 16, 20), (1, 8, 128), (0, 32, 128)):
            table = self.normal(buckets, 3)
            y = np.array([[table[self.bucket(key - query, buckets, most, both_ways)] for key in range(41)]
                          for query in range(41)])  # fmt: skip
            by_heads = np.ascontiguousarray(table.T).reshape(buckets, 3)
            self.check("RelativePositionBias", ["t", "q", "q"], {}, {"t": by_heads, "q": length},
                       expected={"y": y.transpose(2, 0, 1)[None]}, max_distance=most,
                       is_bidirectional=both_ways)  # fmt: skip

    def test_gated_relative_position_bias(self):
        x, distances = self.normal(2, 5, 12), self.normal(1, 3, 5, 5)
        weights = {"xb": self.normal(12), "w": self.normal(4, 8), "b": self.normal(8), "a": self.normal(1, 3, 1, 1)}

        def biases(x):
            parts = (x + weights["xb"]).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3) @ weights["w"] + weights["b"]
            gates = sigmoid(parts.astype(np.float64).reshape(2, 3, 5, 2, 4).sum(-1))
            return ((gates[..., :1] * (gates[..., 1:] * weights["a"] - 1) + 2) * distances).astype(FLOAT)

        names = ["x", "xb", "d", "w", "b", "a"]
        self.check("GatedRelativePositionBias", names, {"x": x, "d": distances}, weights,
                   expected={"y": biases(x)}, num_heads=3)  # fmt: skip
        tokens = np.array([[0, 1, 2, 5, 6], [7, 3, 4, 8, 9]], np.int32)  # 3 and 3 of 5
        rows = x.reshape(10, 12)[tokens.ravel()[:6]]
        padded = np.zeros((10, 12), FLOAT)
        padded[tokens.ravel()[:6]] = rows + weights["xb"]
        expected = biases(padded.reshape(2, 5, 12) - weights["xb"])
        self.check("GatedRelativePositionBias", [*names, "o"], {"x": rows, "d": distances, "o": tokens}, weights,
                   expected={"y": expected}, num_heads=3)  # fmt: skip

    def test_unfold(self):
        x = self.normal(2, 9, 4)
        self.check("UnfoldTensor", ["x"], {"x": x}, {}, size=2)
        for axis, size, step in ((1, 4, 2), (-2, 9, 1), (2, 3, 1), (0, 2, 3), (1, 2, 7)):
            self.check("UnfoldTensor", ["x"], {"x": x}, {}, dim=axis, size=size, step=step)

    def test_ranges_and_classes(self):
        for e in (np.int32, np.int64, FLOAT, np.float64):
            given = {"a": np.array(2, e), "b": np.array([9], e), "c": np.array(2, e)}
            self.check("Range", ["a", "b"], {}, given)
            self.check("Range", ["a", "b", "c"], {}, given)
        x = np.array([2, 1, 1, 3, 4, 3, 2.5], FLOAT)
        self.check("Unique", ["x"], {"x": x}, {}, ("y", "i", "n"))

    def test_bias_softmax(self):
        scores = self.normal(2, 3, 4, 5)

        def softmax(x, axes):
            e = np.exp(x - x.max(axes, keepdims=True))
            return e / e.sum(axes, keepdims=True)

        for bias, inner in ((self.normal(2, 1, 1, 5), 1), (self.normal(4, 5), 0), (self.normal(3, 4, 5), 0)):
            for axis, axes in ((3, (3,)), (2, (2, 3))):
                self.check("BiasSoftmax", ["x", "b"], {"x": scores, "b": bias}, {},
                           expected={"y": softmax(scores + bias, axes)}, axis=axis,
                           is_inner_broadcast=inner)  # fmt: skip

    def test_halves(self):
        """16-bit floats: what is computed is rounded where the operators end."""
        self.tolerance = 2e-3
        x, bias = self.normal(2, 3, 8).astype(HALF), self.normal(8).astype(HALF)
        wide, b = x.astype(np.float64), bias.astype(np.float64)
        self.check("QuickGelu", ["x"], {"x": x}, {}, expected={"y": (wide * sigmoid(1.702 * wide)).astype(HALF)})
        self.check("BiasAdd", ["x", "b", "x"], {"x": x}, {"b": bias}, expected={"y": (2 * wide + b).astype(HALF)})
        left, right = np.split(wide + b, 2, axis=-1)
        self.check("BiasSplitGelu", ["x", "b"], {"x": x}, {"b": bias},
                   expected={"y": (left * gelu(right)).astype(HALF)})  # fmt: skip
        image = self.normal(2, 4, 4, 6).astype(HALF)
        for kind in (HALF, FLOAT):
            per_channel = {"g": self.normal(6).astype(kind), "b": self.normal(6).astype(kind)}
            y = self.group_norm(image, per_channel["g"], per_channel["b"], 3, True)
            self.check("GroupNorm", ["x", "g", "b"], {"x": image}, per_channel, expected={"y": y}, groups=3,
                       activation=1)  # fmt: skip
        a, w = self.bytes(3, 16), self.signed(16, 5)
        scales = {"s": np.array(0.5, HALF), "t": self.scales(5).astype(HALF)}
        exact = a.astype(np.int64) @ w.astype(np.int64) * (scales["s"].astype(FLOAT) * scales["t"])
        self.check("MatMulIntegerToFloat", ["a", "w", "s", "t"], {"a": a}, {"w": w, **scales},
                   expected={"y": exact.astype(HALF)})  # fmt: skip

    # Images

    def group_norm(self, x, gamma, beta, groups, activate, epsilon=1e-5):
        """Of images whose channels stand last."""
        n, c = x.shape[0], x.shape[-1]
        parts = x.astype(np.float64).reshape(n, -1, groups, c // groups)
        centred = parts - parts.mean((1, 3), keepdims=True)
        y = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + epsilon)
        y = y.reshape(x.shape) * gamma + beta
        return (y * sigmoid(y) if activate else y).astype(x.dtype)

    def test_group_norm(self):
        x = self.normal(2, 5, 4, 6)
        weights = {"g": self.normal(6), "b": self.normal(6)}
        for activate in (0, 1):
            y = self.group_norm(x, weights["g"], weights["b"], 3, activate, 1e-3)
            common = {"groups": 3, "activation": activate, "epsilon": 1e-3}
            self.check("GroupNorm", ["x", "g", "b"], {"x": x}, weights, expected={"y": y}, **common)
            self.check("GroupNorm", ["x", "g", "b"], {"x": first(x)}, weights, expected={"y": first(y)},
                       channels_last=0, **common)  # fmt: skip

    def test_skip_group_norm(self):
        x, bias = self.normal(2, 5, 4, 6), self.normal(6)
        weights = {"g": self.normal(6), "b": self.normal(6)}
        skips = self.normal(2, 5, 4, 6), self.normal(2, 1, 1, 6), self.normal(2, 6)
        for skip in skips:
            for more in ({}, {"bias": bias}):
                spread = skip.reshape(2, 1, 1, 6) if skip.size < x.size else skip
                total = x + spread + more.get("bias", 0)
                y = self.group_norm(total, weights["g"], weights["b"], 2, True)
                names = ["x", "g", "b", "s", *more]
                self.check("SkipGroupNorm", names, {"x": x, "s": skip}, weights | more, ("y", "sum"),
                           expected={"y": y, "sum": total}, groups=2, activation=1)  # fmt: skip
                apart = skip if skip.ndim == 2 else first(skip)
                self.check("SkipGroupNorm", names, {"x": first(x), "s": apart}, weights | more,
                           expected={"y": first(y)}, groups=2, activation=1, channels_last=0)  # fmt: skip

    def test_channels_last(self):
        x, w, b = self.normal(2, 3, 7, 6), self.normal(4, 3, 3, 3), self.normal(4)
        window = {"pads": [1, 0, 1, 2], "strides": [2, 1]}
        y = self.reference("Conv", ["x", "w", "b"], {"x": x}, {"w": w, "b": b}, domain="", **window)["y"]
        self.check("NhwcConv", ["x", "w", "b"], {"x": last(x)}, {"w": w, "b": b}, expected={"y": last(y)}, **window)
        z = self.normal(*y.shape)
        self.check("NhwcFusedConv", ["x", "w", "b", "z"], {"x": last(x), "z": last(z)}, {"w": w, "b": b},
                   expected={"y": last(np.maximum(y + z, 0))}, activation="Relu", **window)  # fmt: skip
        for kind in (np.uint8, np.int8):
            image = self.rng.integers(0, 120, (2, 7, 6, 3)).astype(kind)
            self.check("NhwcMaxPool", ["x"], {"x": image}, {}, kernel_shape=[3, 2], strides=[2, 2],
                       pads=[1, 0, 1, 0], dilations=[1, 2])  # fmt: skip
        self.check("NhwcMaxPool", ["x"], {"x": image}, {}, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)

    def internal(self, op, x, weights, version=17, **attributes):
        """An operator of ONNX on images whose channels stand last."""
        names = ["x", *weights]
        y = self.reference(op, names, {"x": x}, weights, domain="", **attributes)["y"]
        model = self.model(op, names, {"x": last(x)}, weights, ["y"], NHWC, attributes)
        model.opset_import.append(helper.make_opsetid(NHWC, version))
        self.compare(op, model, {"x": last(x)}, {"y": last(y)})

    def test_internal_domain(self):
        x, channel = self.normal(2, 4, 6, 5), {"s": self.normal(4), "b": self.normal(4)}
        self.internal("Conv", x, {"w": self.normal(3, 4, 3, 3), "b": self.normal(3)}, pads=[1, 1, 1, 1])
        self.internal("ConvTranspose", x, {"w": self.normal(4, 3, 2, 2)}, strides=[2, 2])
        self.internal("MaxPool", x, {}, kernel_shape=[2, 2], ceil_mode=1)
        self.internal("AveragePool", x, {}, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
        self.internal("GlobalAveragePool", x, {})
        self.internal("GlobalMaxPool", x, {})
        self.internal("InstanceNormalization", x, channel)
        self.internal("BatchNormalization", x, channel | {"m": self.normal(4), "v": np.abs(self.normal(4))})
        self.internal("LRN", x, {}, size=3)
        self.internal("SpaceToDepth", x[..., :4], {}, blocksize=2)
        self.internal("DepthToSpace", x, {}, blocksize=2, mode="CRD")

    # Integers

    def test_quantised_images(self):
        for kind in (np.uint8, np.int8):
            x = {"x": self.rng.integers(0, 127, (1, 7, 6, 4)).astype(kind)}
            scalars = {"xs": np.array(0.03, FLOAT), "xz": np.array(20, kind)}
            weights = {"w": self.signed(5, 4, 3, 3), "ws": self.scales(5), "wz": np.zeros(5, np.int8),
                       "ys": np.array(0.05, FLOAT), "yz": np.array(60, kind),
                       "b": self.rng.integers(-999, 999, 5).astype(np.int32)}  # fmt: skip
            order = ["x", "xs", "xz", *weights]
            common = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
            self.check("QLinearConv", order, x, scalars | weights, channels_last=1, **common)
            apart = {"x": first(x["x"])}
            self.check("QLinearConv", order, apart, scalars | weights, channels_last=0, **common)
            ends = {"ys": np.array(0.04, FLOAT), "yz": np.array(10, kind)}
            self.check("QLinearAveragePool", ["x", "xs", "xz", "ys", "yz"], x, scalars | ends, channels_last=1,
                       kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])  # fmt: skip
            self.check("QLinearGlobalAveragePool", ["x", "xs", "xz", "ys", "yz"], x, scalars | ends,
                       channels_last=1)  # fmt: skip

    def test_qlinear_where(self):
        for kind in (np.uint8, np.int8):
            inputs = {"c": self.rng.integers(0, 2, (3, 1)).astype(bool),
                      "x": self.rng.integers(0, 127, (2, 3, 4)).astype(kind),
                      "u": self.rng.integers(0, 127, 4).astype(kind)}  # fmt: skip
            numbers = {"xs": 0.03, "xz": 20, "us": 0.05, "uz": 7, "zs": 0.02, "zz": 50}
            numbers = {k: np.array(v, kind if k[1] == "z" else FLOAT) for k, v in numbers.items()}
            self.check("QLinearWhere", ["c", "x", "xs", "xz", "u", "us", "uz", "zs", "zz"], inputs, numbers)

    def test_qlinear_reduce_mean(self):
        x = self.bytes(2, 3, 4)
        numbers = {"xs": np.array(0.05, FLOAT), "xz": np.array(120, np.uint8), "ys": np.array(0.04, FLOAT),
                   "yz": np.array(90, np.uint8)}  # fmt: skip
        for axes, keep in (([1], 1), ([-1, 0], 0), ([0, 1, 2], 1)):
            real = (x.astype(FLOAT) - 120) * FLOAT(0.05)
            mean = real.mean(tuple(axes), keepdims=bool(keep))
            y = np.clip(np.rint(mean / FLOAT(0.04)) + 90, 0, 255).astype(np.uint8)
            self.check("QLinearReduceMean", ["x", "xs", "xz", "ys", "yz"], {"x": x}, numbers,
                       expected={"y": y}, axes=axes, keepdims=keep)  # fmt: skip

    def test_dynamic_product(self):
        a = self.normal(3, 4, 16)
        for kind in (np.uint8, np.int8):
            for shape in ((16, 6), (3, 16, 6)):
                per_column = (6,) if len(shape) == 2 else (3, 1, 6)
                for scale, zero in (((), ()), (per_column, per_column), ((1,), None)):
                    weights = {"w": self.weights(kind, *shape), "s": self.scales(*scale)}
                    if zero is not None:
                        if zero and len(shape) == 3:
                            continue  # zero points per column of several matrices are refused
                        weights["z"] = (self.bytes if kind == np.uint8 else self.signed)(*zero)
                    names = ["a", *weights]
                    self.check("DynamicQuantizeMatMul", names, {"a": a}, weights)
                    weights["b"] = self.normal(6)
                    names = ["a", "w", "s", "z" if "z" in weights else "", "b"]
                    self.check("DynamicQuantizeMatMul", names, {"a": a}, weights)
        several = {"w": self.signed(3, 16, 6), "s": self.scales(3, 1, 6)}
        self.check("DynamicQuantizeMatMul", ["a", "w", "s"], {"a": a}, several)
        # Ranges: zeros alone, one sign alone, and a column of halves.
        plain = {"w": self.signed(4, 5), "s": np.array(0.1, FLOAT)}
        for rows in (np.zeros((2, 4)), np.abs(self.normal(2, 4)), -np.abs(self.normal(2, 4)), np.full((2, 4), 0.5)):
            self.check("DynamicQuantizeMatMul", ["a", "w", "s"], {"a": rows.astype(FLOAT)}, plain)

    def test_product_to_float(self):
        for a_kind, w_kind in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
            a = self.rng.integers(0, 127, (2, 3, 16)).astype(a_kind)
            for per_column in ((), (6,)):
                weights = {"w": self.weights(w_kind, 16, 6), "as": np.array([0.02], FLOAT),
                           "ws": self.scales(*per_column)}  # fmt: skip
                self.check("MatMulIntegerToFloat", ["a", *weights], {"a": a}, weights)
                weights |= {"az": np.array(30, a_kind), "wz": self.weights(w_kind, *per_column)}
                self.check("MatMulIntegerToFloat", ["a", *weights], {"a": a}, weights)
                weights |= {"b": self.normal(6)}
                self.check("MatMulIntegerToFloat", ["a", *weights], {"a": a}, weights)
                no_zeros = {k: v for k, v in weights.items() if k[1:] != "z"}
                self.check("MatMulIntegerToFloat", ["a", "w", "as", "ws", "", "", "b"], {"a": a}, no_zeros)

    def test_dynamic_quantisation_of_zeros(self):
        for x in (np.zeros((2, 3)), np.zeros((1,)), np.full((2, 2), -3.0)):
            self.check("DynamicQuantizeLinear", ["x"], {"x": x.astype(FLOAT)}, {}, ("y", "s", "z"), domain="")

    def test_quantised_attention(self):
        batch, length, width, heads = 2, 3, 8, 2
        x = {"x": self.bytes(batch, length, width)}
        order = ["x", "w", "b", "xs", "ws", "m", "xz", "wz", "past"]

        def check(per_column, kind, more=None, outputs=("y",), zeros=True, **attributes):
            weights = {"w": self.weights(kind, width, 3 * width), "b": self.normal(3 * width),
                       "xs": np.array(0.02, FLOAT), "ws": self.scales(*per_column)}  # fmt: skip
            if zeros:
                weights |= {"xz": np.array(120, np.uint8), "wz": self.weights(kind, *per_column)}
            inputs = x | (more or {})
            names = [name if name in inputs or name in weights else "" for name in order]
            while not names[-1]:
                names.pop()
            self.check("QAttention", names, inputs, weights, outputs, num_heads=heads, **attributes)

        for per_column in ((), (3 * width,)):
            for kind in (np.uint8, np.int8):
                check(per_column, kind)
        check((), np.int8, zeros=False, scale=0.3)
        check((), np.int8, {"m": np.array([2, 3], np.int32)})
        check((), np.uint8, {"m": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}, mask_filter_value=-50.0)
        past = self.normal(2, batch, heads, 2, width // heads)
        check((3 * width,), np.int8, {"past": past}, ("y", "present"), unidirectional=1)

    def test_quantised_embedding(self):
        tables = {"w": self.bytes(9, 8), "p": self.bytes(6, 8), "seg": self.bytes(2, 8), "gamma": self.bytes(8),
                  "beta": self.bytes(8)}  # fmt: skip
        ids = {"ids": self.rng.integers(0, 9, (2, 4)).astype(np.int32),
               "s": self.rng.integers(0, 2, (2, 4)).astype(np.int32),
               "m": np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)}  # fmt: skip
        scales = {f"{k}_s": np.array(0.01 + 0.01 * i, FLOAT) for i, k in enumerate(tables)}
        zeros = {f"{k}_z": np.array(100 + 9 * i, np.uint8) for i, k in enumerate(tables)}
        weights = tables | scales | zeros
        names = ["ids", "s", *tables, "m", *scales, *zeros]
        self.check("QEmbedLayerNormalization", names, ids, weights, ("y", "count"), epsilon=1e-6)
        without = {k: v for k, v in weights.items() if not k.startswith("seg")}
        names = [name if name in ids | without and name != "s" else "" for name in names]
        del ids["s"]
        self.check("QEmbedLayerNormalization", names, ids, without, ("y", "count"))

    def lstm(self, kind, directions, more=(), zeros=True, per_column=True, lengths=None, outputs="yhc", **attributes):
        length, batch, width, hidden = 4, 2, 5, 6
        shape = (directions, 4 * hidden) if per_column else (directions,)
        weights = {"w": self.weights(kind, directions, width, 4 * hidden),
                   "r": self.weights(kind, directions, hidden, 4 * hidden)}  # fmt: skip
        weights |= {"b": self.normal(directions, 8 * hidden), "p": self.normal(directions, 3 * hidden)}
        # ONNX Runtime wants the same zero point for all columns, 0 where the weights have signs.
        zero = np.full(shape, 131 if kind == np.uint8 and zeros else 0, kind)
        weights |= {"ws": self.scales(*shape), "wz": zero, "rs": self.scales(*shape), "rz": zero}
        inputs = {"x": self.normal(length, batch, width)}
        inputs |= {name: self.normal(directions, batch, hidden) for name in ("h0", "c0") if name in more}
        if lengths:
            inputs["n"] = np.array(lengths, np.int32)
        given = {k: v for k, v in weights.items() if k not in ("b", "p") or k in more}
        order = ["x", "w", "r", "b", "n", "h0", "c0", "p", "ws", "wz", "rs", "rz"]
        names = [name if name in inputs or name in given else "" for name in order]
        results = [name if name in outputs else "" for name in "yhc"]
        direction = {1: "forward", 2: "bidirectional"}[directions]
        self.check("DynamicQuantizeLSTM", names, inputs, given, results, hidden_size=hidden,
                   **({"direction": direction} | attributes))  # fmt: skip

    def test_dynamic_lstm(self):
        # A hidden state that its own last bit moves to the next of 255 steps moves the result by as much.
        self.tolerance = 1e-4
        for kind in (np.uint8, np.int8):
            for directions in (1, 2):
                self.lstm(kind, directions, ("b", "h0", "c0"))
        self.lstm(np.int8, 1, per_column=False)
        self.lstm(np.uint8, 1, ("b",), zeros=False, direction="reverse")
        self.lstm(np.uint8, 1, ("b", "p"), per_column=False, clip=0.5)
        self.lstm(np.int8, 1, ("b",), outputs="h")
        self.lstm(np.int8, 1, ("b",), input_forget=1)
        self.lstm(np.int8, 1, ("b",), activations=["HardSigmoid", "Relu", "Softsign"], activation_alpha=[0.25],
                  activation_beta=[0.4])  # fmt: skip
        self.lstm(np.uint8, 1, ("b", "h0", "c0"), lengths=[2, 4])
        self.lstm(np.uint8, 1, ("b", "h0", "c0"), lengths=[3, 2])
        self.lstm(np.int8, 1, ("b",), lengths=[3, 3], direction="reverse")

    # Weights of a few bits

    def test_four_bit_floats(self):
        """Both tables, blocks across rows, a last block that is not full, an odd number of codes."""
        for kind in (0, 1):
            for n, k, block in ((6, 32, 16), (5, 24, 16), (3, 15, 32)):
                codes = self.bytes((n * k + 1) // 2)
                weights = {"b": codes, "s": self.scales(-(-n * k // block))}
                sizes = {"N": n, "K": k, "block_size": block, "quant_type": kind}
                self.check("MatMulBnb4", ["a", *weights], {"a": self.normal(2, 3, k)}, weights, **sizes)
        dense = self.reference("MatMulBnb4", ["a", *weights], {"a": np.eye(k, dtype=FLOAT)}, weights, **sizes)["y"].T
        a = self.normal(4, n)
        self.check("MatMulBnb4", ["a", *weights], {"a": a}, weights, expected={"y": a @ dense}, transB=0, **sizes)

    def gather(self, data, indices, scales, zeros=None, kind=None, shape=None, **attributes):
        """Data and zero points as arrays, or as bytes of type `kind` in the given shapes."""
        operands = {"d": data, "s": scales} | ({} if zeros is None else {"z": zeros})
        names = ["d", "i", "s"] + (["z"] if zeros is not None else [])
        inputs = {"i": indices}
        model = self.model("GatherBlockQuantized", names, inputs, operands, ["y"], DOMAIN, attributes)
        model.opset_import[0].version = 21
        for tensor in model.graph.initializer:
            if kind and tensor.name != "s":
                tensor.data_type, dims = kind, shape if tensor.name == "d" else scales.shape
                del tensor.dims[:]
                tensor.dims.extend(dims)
        model.ir_version = 10
        self.compare("GatherBlockQuantized", model, inputs, self.outputs(model, inputs))

    def test_gather_of_blocks(self):
        indices = np.array([[3, -1], [0, 6]], np.int64)
        for dtype in (FLOAT, HALF):
            scales = lambda *shape: (self.scales(*shape) * 9).astype(dtype)  # noqa: E731
            for bits in (2, 4, 8):
                packed = self.bytes(7, 48 * bits // 8)
                for zeros in (None, self.bytes(7, -(-3 * bits // 8))):
                    self.gather(packed, indices, scales(7, 3), zeros, bits=bits, block_size=16)
            self.gather(self.bytes(7, 40), indices, scales(7, 3), bits=8, block_size=16)  # a block of 8
            self.gather(self.bytes(7, 20), indices.astype(np.int32), scales(7, 3), block_size=16)
            for kind in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4):
                four = {"kind": kind, "block_size": 16}
                self.gather(self.bytes(7 * 20), indices, scales(7, 3), shape=(7, 40), **four)
                self.gather(self.bytes(7 * 20), indices, scales(7, 3), self.bytes(11), shape=(7, 40), **four)
                # Other axes: blocks along rows, rows within blocks, three dimensions.
                self.gather(self.bytes(20 * 4), indices, scales(2, 8), shape=(20, 8), quantize_axis=0,
                            gather_axis=1, **four)  # fmt: skip
                self.gather(self.bytes(20 * 4), indices, scales(2, 8), shape=(20, 8), quantize_axis=0, **four)
                self.gather(self.bytes(2 * 7 * 8), indices[0], scales(2, 7, 1), shape=(2, 7, 16), gather_axis=-2,
                            quantize_axis=-1, **four)  # fmt: skip
        beyond = np.array([2, 7, -8, 1], np.int64)  # zeros
        self.gather(self.bytes(7, 16), beyond, self.scales(7, 2), block_size=16)


if __name__ == "__main__":
    unittest.main()
