#!/usr/bin/env python3
"""Operators of com.microsoft and ai.onnx.ml against ONNX Runtime, which defines the first, and forms of
others that ONNX's own tests leave out: one node each, on the interpreter and as generated code. The
nodes of a test stand in one model, side by side, which is compiled once.

    test_contrib.py [NAME...]     as unittest names its tests, such as Contrib.test_qgemm
"""

import itertools
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx", "onnxruntime")

import ml_dtypes  # noqa: F401, names numpy's types of 8 bits
import numpy as np
import onnx
from contrib import FLOAT, ML, ContribCase
from onnx import helper, numpy_helper

class Contrib(ContribCase):
    def quantisation(self, y_scale=0.0371, y_zero=100):
        return {"xs": np.array(0.05, FLOAT), "xz": np.array(120, np.uint8),
                "ys": np.array(y_scale, FLOAT), "yz": np.array(y_zero, np.uint8)}  # fmt: skip

    def between(self, op, shape, parameters=None, **attributes):
        self.check(op, ["x", "xs", "xz", "ys", "yz"], {"x": self.bytes(*shape)},
                   parameters or self.quantisation(), **attributes)  # fmt: skip

    def learned(self, op, x, outputs=("y",), **attributes):
        self.check(op, ["x"], {"x": x}, {}, outputs, domain=ML, **attributes)

    def machines(self, counts, kernel, post="NONE", fitted=False, **labels):
        """SVMClassifier with `counts` support vectors of each class, probabilities `fitted` to its scores or not."""
        classes, total = len(counts), sum(counts)
        pairs = classes * (classes - 1) // 2
        if fitted:
            labels |= {"prob_a": (-1 - self.rng.random(pairs)).tolist(), "prob_b": self.normal(pairs).tolist()}
        self.learned("SVMClassifier", self.normal(6, 4), ("y", "scores"), kernel_type=kernel,
                     kernel_params=[0.3, 0.1, 3.0], post_transform=post, vectors_per_class=counts,
                     support_vectors=self.normal(total * 4).tolist(),
                     coefficients=self.normal((classes - 1) * total).tolist(),
                     rho=self.normal(pairs).tolist(), **labels)  # fmt: skip

    def test_support_vector_classifiers(self):
        self.machines([3, 2], "RBF", classlabels_ints=[7, -7])
        self.machines([1, 2], "LINEAR", "LOGISTIC", classlabels_strings=["ash", "birch"])
        self.machines([2, 3, 1], "POLY", "SOFTMAX", classlabels_strings=["a", "b", "c"])
        self.machines([2, 2, 0, 3], "SIGMOID", classlabels_ints=[4, 3, 2, 1])

    def test_probabilities_of_support_vector_classifiers(self):
        self.machines([3, 2], "RBF", fitted=True, classlabels_ints=[7, -7])
        self.machines([1, 2, 2], "LINEAR", fitted=True, classlabels_strings=["ash", "birch", "yew"])
        self.machines([2, 3, 1, 1, 2], "SIGMOID", "SOFTMAX", fitted=True, classlabels_ints=[4, 3, 2, 1, 0])

    def test_features(self):
        x = self.normal(4, 3)
        self.learned("Scaler", x, offset=[0.5, -1.0, 2.0], scale=[2.0, 0.5, -1.0])
        self.learned("Scaler", x.astype(np.int64), offset=[0.5], scale=[2.0])
        for norm in ("MAX", "L1", "L2"):
            rows = np.abs(x)
            rows[1] = 0
            self.learned("Normalizer", rows, norm=norm)
        x[0, 1] = x[2, 2] = np.nan
        self.learned("Imputer", x, imputed_value_floats=[1.0, 2.0, 3.0],
                     replaced_value_float=float("nan"))  # fmt: skip
        self.learned("Imputer", np.float32([[1, 2, 1], [3, 1, 0]]), imputed_value_floats=[9.0],
                     replaced_value_float=1.0)  # fmt: skip

    def test_linear_models(self):
        x, weights = self.normal(5, 4), [float(v) for v in self.normal(12)]
        for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
            self.learned("LinearRegressor", x, coefficients=weights, intercepts=[0.5, -0.5, 1.0],
                         targets=3, post_transform=transform)  # fmt: skip
            self.learned("LinearClassifier", x, ("label", "scores"), coefficients=weights,
                         intercepts=[0.5, -0.5, 1.0], classlabels_ints=[7, -2, 40],
                         post_transform=transform)  # fmt: skip

    def test_probit(self):
        weights = [float(v) / 50 for v in self.normal(12)]
        self.learned("LinearRegressor", self.normal(5, 4), coefficients=weights, intercepts=[0.2, 0.5, 0.75],
                     targets=3, post_transform="PROBIT")  # fmt: skip

    def test_functions_of_quantised_tensors(self):
        unit = self.quantisation(1 / 256, 0)
        self.between("QLinearSigmoid", (2, 50), unit)
        self.between("QLinearLeakyRelu", (2, 50), alpha=0.1)
        self.between("QLinearSoftmax", (2, 5, 7), unit, axis=1, opset=13)
        self.between("QLinearSoftmax", (2, 5, 7), unit, axis=1, opset=12)
        self.between("QLinearGlobalAveragePool", (2, 3, 8, 8))
        self.between("QLinearAveragePool", (2, 3, 8, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1],
                     strides=[2, 2])  # fmt: skip

    def test_qlinear_concat(self):
        self.check("QLinearConcat", ["ys", "yz", "x", "xs", "xz", "w", "ys", "yz"],
                   {"x": self.bytes(2, 5), "w": self.bytes(2, 3)}, self.quantisation(), axis=1)  # fmt: skip

    def test_qgemm(self):
        # Without VNNI, ONNX Runtime adds pairs of products in 16 bits that saturate: weights of 7 bits.
        weights = {
            "as": np.array(0.05, FLOAT), "az": np.array(120, np.uint8),
            "b": self.rng.integers(-63, 64, (16, 6)).astype(np.int8),
            "bs": np.abs(self.normal(6)) * FLOAT(0.01), "bz": np.zeros(6, np.int8),
            "c": self.rng.integers(-1000, 1000, 6).astype(np.int32),
        }  # fmt: skip
        names = ["a", *weights]
        self.check("QGemm", names, {"a": self.bytes(4, 16)}, weights, alpha=0.5)
        weights |= {"ys": np.array(0.2, FLOAT), "yz": np.array(128, np.uint8)}
        self.check("QGemm", ["a", *weights], {"a": self.bytes(4, 16)}, weights)

    def test_floats_of_eight_bits(self):
        """What is too large, and what just rounds into the range; as f32, which NumPy has."""
        values = [[most * by for by in (1, 1.03, -1.04, 1.06, 1.07, -1.2, 3, np.inf, 0.3)]
                  for most in (448, 240, 57344)]  # fmt: skip
        x = np.array([*sum(values, []), np.nan], FLOAT) / 2
        info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
        for kind in ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"):
            for saturate in (0, 1):
                zero = helper.make_tensor("zero", getattr(onnx.TensorProto, kind), [], b"\0", raw=True)
                nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], saturate=saturate),
                         helper.make_node("Cast", ["q"], ["y"], to=onnx.TensorProto.FLOAT)]  # fmt: skip
                scale = numpy_helper.from_array(np.array(0.5, FLOAT), "scale")
                graph = helper.make_graph(nodes, "narrow", [info], [onnx.ValueInfoProto(name="y")], [scale, zero])
                opsets = [helper.make_opsetid("", 19)]
                model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
                self.compare(f"{kind}, saturate={saturate}", model, {"x": x}, self.outputs(model, {"x": x}))

    def test_matmul_of_few_bits(self):
        n, block = 5, 32
        for k in (64, 80):
            blocks = -(-k // block)
            weights = {"b": self.bytes(n, blocks, block // 2), "s": self.normal(n * blocks)}
            sizes = {"K": k, "N": n, "bits": 4, "block_size": block}
            self.check("MatMulNBits", ["a", *weights], {"a": self.normal(3, k)}, weights, **sizes)
            weights["z"] = self.bytes(n * -(-blocks // 2))
            self.check("MatMulNBits", ["a", *weights], {"a": self.normal(3, k)}, weights, **sizes)

    def test_matmul_of_rounded_rows(self):
        """Level 4 lets activations be rounded to 8 bits, which not all of these do."""
        self.tolerance = 1e-2
        n, block = 5, 32
        weights = {"b": self.bytes(n, 2, block // 2), "s": self.normal(n * 2)}
        sizes = {"K": 2 * block, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4}
        self.check("MatMulNBits", ["a", *weights], {"a": self.normal(3, 2 * block)}, weights, **sizes)
        weights["z"] = self.bytes(n)
        self.check("MatMulNBits", ["a", *weights], {"a": self.normal(3, 2 * block)}, weights, **sizes)

    def test_matmul_of_float8_weights(self):
        """ONNX Runtime has no such product on a CPU: its documentation is computed here."""
        self.tolerance = 2e-3  # of results in fp16
        float8, n = np.dtype("float8_e4m3fn"), 5
        for k, block, scale in ((64, 64, None), (80, 32, None), (64, 16, 0.02)):
            blocks = -(-k // block)
            weights = {"b": self.normal(n, k).astype(float8), "s": np.abs(self.normal(n, blocks)) + 0.1}
            rows = weights["b"].astype(FLOAT) * np.repeat(weights["s"], block, 1)[:, :k]
            a, bias = self.normal(3, k).astype(np.float16), self.normal(n).astype(np.float16)
            seen = a.astype(FLOAT)
            if scale:
                weights["as"] = np.array([scale], FLOAT)
                seen = (seen / scale).astype(float8).astype(FLOAT) * scale
            expected = {"y": (seen @ rows.T + bias).astype(np.float16)}
            operands = ["a", "b", "s", "as" if scale else "", "bias"]
            self.check("MatMulBlockQuantizedFp8Weight", operands, {"a": a}, {**weights, "bias": bias}, expected=expected,
                       block_size=block)  # fmt: skip

    def test_multi_head_attention(self):
        batch, queries, keys, width = 2, 3, 5, 8
        q, k = self.normal(batch, queries, width), self.normal(batch, keys, width)
        v = self.normal(batch, keys, width)
        self.check("MultiHeadAttention", ["q", "k", "v"], {"q": q, "k": k, "v": v}, {}, num_heads=2)
        more = {"m": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
                "added": self.normal(1, 2, queries, keys)}  # fmt: skip
        self.check("MultiHeadAttention", ["q", "k", "v", "b", "m", "added"],
                   {"q": q, "k": k, "v": v, **more}, {"b": self.normal(3 * width)}, num_heads=2)  # fmt: skip
        own = {name: self.normal(batch, queries, width) for name in "qkv"}
        past = {name: self.normal(batch, 2, 4, width // 2) for name in ("pk", "pv")}
        self.check("MultiHeadAttention", ["q", "k", "v", "", "", "", "pk", "pv"], {**own, **past}, {},
                   outputs=("y", "k2", "v2"), num_heads=2, unidirectional=1)  # fmt: skip

    def test_packed_multi_head_attention(self):
        """ONNX Runtime reads packed operands on GPUs alone: it gets them apart here."""
        batch, length, heads, size = 2, 4, 2, 8
        parts = {name: self.normal(batch, length, heads, size) for name in "qkv"}
        apart = {name: part.reshape(batch, length, heads * size) for name, part in parts.items()}
        weights = {"b": self.normal(3 * heads * size)}
        mask = {"m": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)}
        expected = self.reference("MultiHeadAttention", ["q", "k", "v", "b", "m"], {**apart, **mask}, weights,
                                  num_heads=heads)  # fmt: skip
        both = {"q": apart["q"], "kv": np.stack([parts["k"], parts["v"]], axis=3), **mask}
        self.check("MultiHeadAttention", ["q", "kv", "", "b", "m"], both, weights, expected=expected,
                   num_heads=heads)  # fmt: skip
        all_three = {"qkv": np.stack(list(parts.values()), axis=3), **mask}
        self.check("MultiHeadAttention", ["qkv", "", "", "b", "m"], all_three, weights, expected=expected,
                   num_heads=heads)  # fmt: skip

    def test_rotary_embedding(self):
        batch, heads, length, size = 2, 3, 4, 8

        def check(x, positions, turned, **attributes):
            angles = self.normal(12, turned // 2)
            inputs = {"x": x, "p": np.array(positions, np.int64)}
            self.check("RotaryEmbedding", ["x", "p", "cos", "sin"], inputs,
                       {"cos": np.cos(angles), "sin": np.sin(angles)}, **attributes)  # fmt: skip

        flat, apart = self.normal(batch, length, heads * size), self.normal(batch, heads, length, size)
        each = self.rng.integers(0, 12, (batch, length))
        for interleaved in (0, 1):
            for positions in ([5], each):
                check(flat, positions, size, interleaved=interleaved)
                check(apart, positions, size, interleaved=interleaved)
            check(flat, each, 4, interleaved=interleaved, rotary_embedding_dim=4, num_heads=heads)
            check(apart, [3], 4, interleaved=interleaved, rotary_embedding_dim=4, num_heads=heads)
        check(flat, each, size, num_heads=heads, scale=2.0)

    def test_skipped_normalisation(self):
        x, weights = self.normal(2, 3, 16), {name: self.normal(16) for name in ("gamma", "beta", "bias")}
        for op, operands in (("SkipLayerNormalization", ["gamma", "beta", "bias"]),
                             ("SkipSimplifiedLayerNormalization", ["gamma", "bias"])):  # fmt: skip
            for skip in (self.normal(2, 3, 16), self.normal(3, 16)):
                given = {"x": x, "skip": skip}
                for count in (1, len(operands)):
                    used = {name: weights[name] for name in operands[:count]}
                    self.check(op, ["x", "skip", *used], given, used, ("y", "", "", "sum"), epsilon=1e-3)
            used = {name: weights[name] for name in operands}
            # ONNX Runtime leaves the mean unwritten where it normalises without one.
            names = ["x", "skip", *used]
            expected = self.reference(op, names, given, used, ("y", "", "inverse", "sum"), epsilon=1e-3)
            expected["mean"] = expected["sum"].mean(-1, keepdims=True)
            self.check(op, names, given, used, ("y", "mean", "inverse", "sum"), expected=expected,
                       epsilon=1e-3)  # fmt: skip

    def test_simplified_normalisation(self):
        """ONNX Runtime's own, which its optimiser writes into the domain of ONNX."""
        x = {"x": self.normal(2, 3, 16)}
        for shape, axis in ((16,), -1), ((3, 16), 1):
            self.check("SimplifiedLayerNormalization", ["x", "s"], x, {"s": self.normal(*shape)}, ("y", "inverse"),
                       domain="", axis=axis, epsilon=1e-3)  # fmt: skip

    def test_fused_product(self):
        a, b = self.normal(2, 3, 4, 5), self.normal(2, 3, 5, 6)
        for swapped, batch_last in itertools.product((0, 1), repeat=2):
            # Each of the two ways for one operand, the other way round for the other.
            flags = {"transA": swapped, "transBatchA": batch_last, "transB": batch_last, "transBatchB": swapped}

            def stored(x, side, flags=flags):
                x = x.swapaxes(-1, -2) if flags["trans" + side] else x
                return np.ascontiguousarray(np.moveaxis(x, -2, 0) if flags["transBatch" + side] else x)

            inputs = {"a": stored(a, "A"), "b": stored(b, "B")}
            self.check("FusedMatMul", ["a", "b"], inputs, {}, alpha=0.5, **flags)

    def grouped(self, queries, past, lengths, total, packed=False, operands=(), **attributes):
        """GroupQueryAttention of 4 heads over 2 of keys, sizes of 16; checks the cache, too."""
        batch, size = len(lengths), 16
        inputs = {"q": self.normal(batch, queries, (8 if packed else 4) * size)}
        if not packed:
            inputs |= {name: self.normal(batch, queries, 2 * size) for name in "kv"}
        inputs |= {name: self.normal(batch, 2, past, size) for name in ("pk", "pv")}
        inputs |= {name: array for name, array in operands if name not in ("cos", "sin")}
        weights = {"n": np.array(lengths, np.int32) - 1, "t": np.array(total, np.int32)}
        weights |= {name: array for name, array in operands if name in ("cos", "sin")}
        self.group_query(inputs, weights, **attributes)

    def group_query(self, inputs, weights, outputs=("y", "k2", "v2"), expected=None, **attributes):
        given = {**inputs, **weights}
        order = ("q", "k", "v", "pk", "pv", "n", "t", "cos", "sin", "positions", "bias", "sinks", "ks", "vs", "qn", "kn")
        names = [name if name in given else "" for name in order]
        while not names[-1]:
            names.pop()
        self.check("GroupQueryAttention", names, inputs, weights, outputs, expected=expected, num_heads=4,
                   kv_num_heads=2, **attributes)  # fmt: skip

    def test_group_query_attention(self):
        self.grouped(5, 0, [5, 5], 5)
        self.grouped(1, 6, [7], 7)
        self.grouped(1, 6, [7], 7, packed=True, scale=0.3)
        self.grouped(1, 6, [7, 5], 7)  # the second is shorter
        self.grouped(6, 0, [6], 6, local_window_size=3)
        self.grouped(1, 6, [7], 7, local_window_size=3)
        self.grouped(3, 0, [3], 3, softcap=2.0)
        angles = self.normal(16, 8)
        caches = (("cos", np.cos(angles)), ("sin", np.sin(angles)))
        self.grouped(4, 0, [4, 4], 4, operands=caches, do_rotary=1)
        self.grouped(1, 6, [7, 4], 7, operands=caches, do_rotary=1, rotary_interleaved=1)
        self.grouped(1, 6, [7], 7, packed=True, operands=caches, do_rotary=1)
        self.grouped(2, 0, [2], 2, operands=[("bias", self.normal(1, 4, 2, 2))])

    def test_group_query_sinks(self):
        """One more score in each sum: given for each head, or zero; all keys seen where not causal."""
        sinks = [("sinks", self.normal(4))]
        self.grouped(5, 0, [5, 5], 5, operands=sinks)
        self.grouped(1, 6, [7, 4], 7, operands=sinks, local_window_size=3)
        self.grouped(1, 6, [7], 7, smooth_softmax=1)
        self.grouped(4, 0, [4], 4, causal=0)

    def test_group_query_quantised_cache(self):
        """Caches of 8 and of 4 bits, with one scale or one per channel; past rows, and none."""
        for bits, kind, past in itertools.product((8, 4), ("PER_TENSOR", "PER_CHANNEL"), (6, 0)):
            kinds = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
            rows = (1, 2, past, 16 if bits == 8 else 8)
            low, high = (-128, 128) if bits == 8 else (0, 256)
            inputs = {name: self.rng.integers(low, high, rows).astype(np.int8 if bits == 8 else np.uint8)
                      for name in ("pk", "pv")}  # fmt: skip
            new = 1 if past else 3
            inputs |= {"q": self.normal(1, new, 64), "k": self.normal(1, new, 32), "v": self.normal(1, new, 32)}
            scale = 0.02 if bits == 8 else 0.4
            shape = (1,) if kind == "PER_TENSOR" else (1, 2, 1, 16)
            weights = {"n": np.array([past + new - 1], np.int32), "t": np.array(past + new, np.int32)}
            weights |= {name: (scale * (1 + self.rng.random(shape))).astype(FLOAT) for name in ("ks", "vs")}
            self.group_query(inputs, weights, **kinds)

    def test_group_query_window_cache(self):
        """A cache of a window's rows, and of some more: filling, full, with several new rows."""
        for capacity, before, new in itertools.product((4, 6), (2, 4, 5, 9), (1, 3)):
            inputs = {"q": self.normal(1, new, 64), "k": self.normal(1, new, 32), "v": self.normal(1, new, 32)}
            inputs |= {name: self.normal(1, 2, capacity, 16) for name in ("pk", "pv")}
            weights = {"n": np.array([before + new - 1], np.int32), "t": np.array(before + new, np.int32)}
            names = ["q", "k", "v", "pk", "pv", "n", "t"]
            expected = self.reference("GroupQueryAttention", names, inputs, weights, ("y", "k2", "v2"), num_heads=4,
                                      kv_num_heads=2, local_window_size=4, sliding_window_cache=1)  # fmt: skip
            # Rows of the cache that hold nothing may be anything.
            is_full = (before + new - capacity) % (capacity - 3) == 0 and before + new >= capacity
            outputs = ("y", "k2", "v2") if is_full else ("y", "", "")
            self.group_query(inputs, weights, outputs, expected, local_window_size=4, sliding_window_cache=1)

    def test_group_query_norms(self):
        """Norms of queries and keys, of CUDA alone in ONNX Runtime, against operands normalised here."""
        def normalised(x, weight):
            heads = x.reshape(*x.shape[:2], -1, 16).astype(np.float64)
            return (heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-3) * weight).astype(FLOAT).reshape(x.shape)

        inputs = {"q": self.normal(1, 3, 64), "k": self.normal(1, 3, 32), "v": self.normal(1, 3, 32)}
        weights = {"n": np.array([2], np.int32), "t": np.array(3, np.int32)}
        norms = {"qn": self.normal(16), "kn": self.normal(16)}
        twin = {"q": normalised(inputs["q"], norms["qn"]), "k": normalised(inputs["k"], norms["kn"]), "v": inputs["v"]}
        expected = self.reference("GroupQueryAttention", ["q", "k", "v", "", "", "n", "t"], twin, weights,
                                  ("y", "k2", "v2"), num_heads=4, kv_num_heads=2)  # fmt: skip
        self.group_query(inputs, weights | norms, expected=expected, qk_norm_epsilon=1e-3)

    def experts(self, tokens, count, k, activation, gates=1, bias=True, **attributes):
        """MoE of `count` experts from 8 through 6 to 8 numbers; gates: 2 where the first product has both."""
        inputs = {"x": self.normal(*tokens, 8), "router": self.normal(int(np.prod(tokens)), count)}
        weights = {"w1": self.normal(count, 6 * gates, 8), "w2": self.normal(count, 8, 6)}
        if bias:
            weights |= {"b1": self.normal(count, 6 * gates), "b2": self.normal(count, 8)}
        names = ["x", "router", *(name if name in weights else "" for name in ("w1", "b1", "w2", "b2"))]
        while not names[-1]:
            names.pop()
        self.check("MoE", names, inputs, weights, k=k, activation_type=activation, **attributes)

    def test_mixture_of_experts(self):
        """Many tokens, so that all experts compute, and few, so that the chosen ones do."""
        for tokens, count, k in (((2, 3), 4, 2), ((1, 1), 8, 2), ((5,), 4, 1)):
            self.experts(tokens, count, k, "relu")
            self.experts(tokens, count, k, "gelu", bias=False, normalize_routing_weights=1)
            self.experts(tokens, count, k, "silu")
            self.experts(tokens, count, k, "identity")
            self.experts(tokens, count, k, "swiglu", gates=2, swiglu_fusion=1, activation_alpha=1.7, activation_beta=1.0,
                         swiglu_limit=1.5, normalize_routing_weights=1)  # fmt: skip

    def test_gates_of_experts(self):
        """The first product's halves one behind the other, or two products: of CUDA alone in ONNX Runtime,
        against the same weights interleaved."""
        inputs = {"x": self.normal(3, 8), "router": self.normal(3, 4)}
        w1, w2 = self.normal(4, 12, 8), self.normal(4, 8, 6)
        kind = {"k": 2, "activation_type": "swiglu", "swiglu_limit": 1.5, "normalize_routing_weights": 1}
        expected = self.reference("MoE", ["x", "router", "w1", "", "w2"], inputs, {"w1": w1, "w2": w2},
                                  swiglu_fusion=1, **kind)  # fmt: skip
        halves = {"w1": np.concatenate([w1[:, 0::2], w1[:, 1::2]], 1), "w2": w2}
        self.check("MoE", ["x", "router", "w1", "", "w2"], inputs, halves, expected=expected, swiglu_fusion=2, **kind)
        apart = {"w1": w1[:, 0::2].copy(), "w2": w2, "w3": w1[:, 1::2].copy()}
        self.check("MoE", ["x", "router", "w1", "", "w2", "", "w3"], inputs, apart, expected=expected, **kind)

    def test_quantised_experts(self):
        """QMoE: weights of 4 and 8 bits, a scale for a row or for a block, zero points."""
        for tokens, bits, block, zeros in itertools.product((1, 6), (4, 8), (0, 16), (False, True)):
            if bits == 8 and block:
                continue  # ONNX Runtime rounds what these multiply to 8 bits
            count, width, inner = 4, 32, 32
            inputs = {"x": self.normal(tokens, width), "router": self.normal(tokens, count)}
            weights, names = {}, ["x", "router"]
            for i, (rows, columns) in enumerate(((inner, width), (width, inner)), 1):
                blocks = columns // block if block else 1
                shape = (count, rows, blocks) if block else (count, rows)
                weights[f"w{i}"] = self.rng.integers(0, 256, (count, rows, columns * bits // 8)).astype(np.uint8)
                weights[f"s{i}"] = (0.02 * (1 + self.rng.random(shape))).astype(FLOAT)
                names += [f"w{i}", f"s{i}", ""]
                if zeros:
                    packed = (count, rows, -(-blocks * bits // 8)) if block else (count, rows * bits // 8)
                    weights[f"z{i}"] = self.rng.integers(0, 256, packed).astype(np.uint8)
            if zeros:
                names += ["", "", "", "z1", "z2"]
            while not names[-1]:
                names.pop()
            blocked = {"block_size": block} if block else {}
            self.check("QMoE", names, inputs, weights, k=2, activation_type="silu", expert_weight_bits=bits,
                       normalize_routing_weights=1, **blocked)  # fmt: skip

    def test_routers_of_quantised_experts(self):
        """Weights of the chosen experts: of the scores, or of an operand of their own, adding up to 1 or not."""
        scores = {"x": self.normal(3, 16), "router": self.normal(3, 4)}
        weights = {}
        for i in (1, 2):
            weights[f"w{i}"] = self.rng.integers(0, 256, (4, 16, 8)).astype(np.uint8)
            weights[f"s{i}"] = (0.02 * (1 + self.rng.random((4, 16)))).astype(FLOAT)
        names = ["x", "router", "w1", "s1", "", "w2", "s2"]
        for normalised in (0, 1):
            kind = {"k": 2, "activation_type": "silu", "normalize_routing_weights": normalised}
            self.check("QMoE", names, scores, weights, **kind)
            own = scores | {"weights": np.abs(self.normal(3, 4))}
            self.check("QMoE", names + [""] * 7 + ["weights"], own, weights, **kind)

    def forest(self, classes, ids, post_transform, names=None, base=(), scale=1.0):
        """Stumps over 3 features whose leaves vote for the classes `ids` names."""
        trees, split = 4, [float(v) for v in self.normal(4)]
        node = {"nodes_treeids": [], "nodes_nodeids": [], "nodes_featureids": [], "nodes_modes": [],
                "nodes_values": [], "nodes_truenodeids": [], "nodes_falsenodeids": [],
                "class_treeids": [], "class_nodeids": [], "class_ids": [], "class_weights": []}  # fmt: skip
        for tree in range(trees):
            for index in range(3):
                row = (tree, index, tree % 3, "LEAF" if index else "BRANCH_LEQ",
                       0.0 if index else split[tree], 0 if index else 1, 0 if index else 2)  # fmt: skip
                for key, value in zip(list(node)[:7], row):
                    node[key].append(value)
            for leaf in (1, 2):
                for c in ids:
                    for key, value in zip(list(node)[7:], (tree, leaf, c, None)):
                        node[key].append(value)
                    weight = float(self.rng.normal()) if scale < 0 else float(self.rng.random())
                    node["class_weights"][-1] = weight * abs(scale)
        labels = {"classlabels_strings": names} if names else {"classlabels_int64s": classes}
        if base:
            node["base_values"] = list(base)
        self.learned("TreeEnsembleClassifier", self.normal(40, 3), ("label", "scores"),
                     post_transform=post_transform, **labels, **node)  # fmt: skip

    def test_forests(self):
        for transform in ("NONE", "SOFTMAX", "LOGISTIC"):
            self.forest([5, 9, -3], (0, 1, 2), transform)
            self.forest([5, 9, -3], (0, 2), transform, base=[0.1, 1.4, -0.2])
            self.forest([0, 1], (1,), transform, scale=0.25)
            self.forest([0, 1], (1,), transform, scale=-1.0)
            self.forest([0, 1], (0,), transform, base=[0.3], scale=0.25)
            self.forest([0, 1], (0,), transform, scale=-1.0)

    def test_encoders(self):
        x = np.array([[3], [8], [5]], np.int64)
        self.learned("OneHotEncoder", x, cats_int64s=[5, 3, 9])
        self.check("FeatureVectorizer", ["x", "z"], {"x": self.normal(4, 2), "z": self.normal(4, 3)}, {},
                   domain=ML, inputdimensions=[2, 3])  # fmt: skip

    def test_support_vectors(self):
        x = self.normal(6, 3)
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
            self.learned("SVMRegressor", x, kernel_type=kernel, kernel_params=[0.5, 0.25, 3.0],
                         support_vectors=[float(v) for v in self.normal(12)], n_supports=4,
                         coefficients=[float(v) for v in self.normal(4)], rho=[0.75])  # fmt: skip

    def test_attention_masks(self):
        """Every form of mask_index; the last, of CUDA alone in ONNX Runtime, against its 3-D twin."""
        batch, length, past, width = 2, 3, 2, 8
        weights = {"w": self.normal(width, 3 * width), "b": self.normal(3 * width)}
        forms = lambda keys: [
            np.array([keys, keys - 2], np.int32),
            np.array([keys, keys - 1, 1, 0], np.int32),  # ends, then starts
            np.array([keys - 1, keys, 0, length, 2 * length, 0, keys, 2 * keys], np.int32),
            self.rng.integers(0, 2, (batch, keys)).astype(np.int32),
            self.rng.integers(-1, 2, (batch, length, keys)).astype(np.int32),
        ]
        names = ["x", "w", "b", "m", "past", "added"]
        for keys in (length, past + length):
            for mask in forms(keys):
                for causal in (0, 1):
                    inputs = {"x": self.normal(batch, length, width), "m": mask}
                    if keys > length:
                        inputs["past"] = self.normal(2, batch, 2, past, width // 2)
                    else:
                        inputs["added"] = self.normal(1, 2, length, keys)
                    given = [name if name in {**inputs, **weights} else "" for name in names]
                    outputs = ("y", "present") if keys > length else ("y",)
                    self.check("Attention", given, inputs, weights, outputs, num_heads=2,
                               unidirectional=causal, mask_filter_value=-50.0)  # fmt: skip
        most, keys = 7, past + length
        square = self.rng.integers(0, 2, (batch, 1, most, most)).astype(np.int32)
        twin = {"x": self.normal(batch, length, width), "past": self.normal(2, batch, 2, past, width // 2)}
        expected = self.reference("Attention", names[:5], {**twin, "m": square[:, 0, past:keys, :keys]},
                                  weights, ("y", "present"), num_heads=2, unidirectional=1)  # fmt: skip
        self.check("Attention", names[:5], {**twin, "m": square}, weights, ("y", "present"),
                   expected=expected, num_heads=2, unidirectional=1)  # fmt: skip

    def test_attention(self):
        batch, length, width = 2, 3, 8
        weights = {"w": self.normal(width, 3 * width), "b": self.normal(3 * width)}
        counts = {"x": self.normal(batch, length, width), "m": np.array([2, 3], np.int32)}
        self.check("Attention", ["x", "w", "b", "m"], counts, weights, num_heads=2)
        shown = {"x": self.normal(batch, length, width),
                 "m": np.array([[0, 1, 1, 1, 1], [1] * 5], np.int32),
                 "past": self.normal(2, batch, 2, 2, width // 2)}  # fmt: skip
        self.check("Attention", ["x", "w", "b", "m", "past"], shown, weights,
                   outputs=("y", "present"), num_heads=2, unidirectional=1)  # fmt: skip

    def test_embedding(self):
        weights = {"w": self.normal(9, 8), "p": self.normal(6, 8), "segments": self.normal(2, 8),
                   "gamma": self.normal(8), "beta": self.normal(8)}  # fmt: skip
        inputs = {"ids": self.rng.integers(0, 9, (2, 4)).astype(np.int32),
                  "s": self.rng.integers(0, 2, (2, 4)).astype(np.int32),
                  "m": np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)}  # fmt: skip
        self.check("EmbedLayerNormalization", ["ids", "s", *weights, "m"], inputs, weights,
                   outputs=("y", "count"))  # fmt: skip

    def test_roi_align_by_size(self):
        """As many samples of a cell as its region is pixels long: none, one or several."""
        rois = np.array([[0, 0, 9, 7], [1.5, 2.25, 4, 3], [-3, -2, 30, 20], [4, 4, 4, 4], [6, 5, 2, 3],
                         [0.5, 0.5, 8.5, 6.5]], FLOAT)  # fmt: skip
        inputs = {"x": self.normal(2, 3, 8, 10), "rois": rois, "batch": np.array([0, 1, 1, 0, 1, 0])}
        for mode in ("avg", "max"):
            for coordinates in ("half_pixel", "output_half_pixel"):
                self.check("RoiAlign", list(inputs), inputs, {}, domain="", mode=mode, output_height=2,
                           output_width=3, spatial_scale=0.75,
                           coordinate_transformation_mode=coordinates)  # fmt: skip

    def test_max_roi_pool(self):
        """Regions inside, across and outside of the image, turned over, and of halves."""
        rois = np.array([[0, 0, 0, 9, 7], [1, 1.5, 2.5, 4, 3], [1, -3, -2, 30, 20], [0, 4, 4, 4, 4],
                         [1, 6, 5, 2, 3], [0, 20, 20, 30, 30], [0, -0.5, -1.5, 2.5, 3.5]], FLOAT)  # fmt: skip
        inputs = {"x": self.normal(2, 3, 8, 10), "rois": rois}
        self.check("MaxRoiPool", ["x", "rois"], inputs, {}, domain="", pooled_shape=[2, 3])
        self.check("MaxRoiPool", ["x", "rois"], inputs, {}, domain="", pooled_shape=[3, 1], spatial_scale=0.5)

    def test_scan_of_lengths(self):
        """Scan of opset 8: the states stay, and zeros are stacked, where a sequence has ended."""
        kind = onnx.TensorProto.FLOAT
        inner = [helper.make_tensor_value_info(name, kind, [2]) for name in ("state", "x", "next", "out")]
        nodes = [helper.make_node("Add", ["state", "x"], ["next"]), helper.make_node("Exp", ["next"], ["out"])]
        body = helper.make_graph(nodes, "body", inner[:2], inner[2:])
        inputs = {"lens": np.array([3, 1, 4]), "s": self.normal(3, 2), "x": self.normal(3, 4, 2)}
        info = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for k, v in inputs.items()]  # fmt: skip
        results = [helper.make_tensor_value_info("last", kind, [3, 2]),
                   helper.make_tensor_value_info("all", kind, [3, 4, 2])]  # fmt: skip
        for direction in (0, 1):
            node = helper.make_node("Scan", list(inputs), ["last", "all"], num_scan_inputs=1, body=body,
                                    directions=[direction])  # fmt: skip
            graph = helper.make_graph([node], "scan", info, results)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)
            self.compare("Scan", model, inputs, self.outputs(model, inputs))

    def test_category_mapper(self):
        cats = {"cats_strings": ["ash", "", "birch"], "cats_int64s": [7, -2, 0]}
        trees = np.array([["birch", "oak", "ash"], ["", "ash", "Ash"]], object)
        self.learned("CategoryMapper", trees, **cats)
        self.learned("CategoryMapper", trees, default_int64=99, **cats)
        self.learned("CategoryMapper", np.array([0, 7, 5, -2]), default_string="none", **cats)


if __name__ == "__main__":
    unittest.main()
