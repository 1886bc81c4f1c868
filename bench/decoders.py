"""Decoders of the sizes that people run, written as onnxruntime-genai's builder writes them, with random weights.

A configuration says sizes and what sets a family apart; `write` makes its file in a precision: queries, keys and values
in one product where no norm stands between them and the attention, GroupQueryAttention with the rotary embedding inside
(and, of Qwen3, the norms of queries and keys), norms with the residual sum, tied heads that are the embedding, too.
Weights are external data: [K, N] of MatMul, blocks of 32 of MatMulNBits, rows with one scale of
MatMulBlockQuantizedFp8Weight. They are seeded and uniform. Extents are open, or those of one token behind `past` others.
"""

import functools
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

MICROSOFT = "com.microsoft"
BLOCK = 32
ELEMENTS = {"fp32": np.float32, "fp16": np.float16, "int4": np.float16, "fp8": np.float16}
TABLE = 15_485_863  # a prime: rows of a weight begin at other places of the table
SPREAD = np.float32(0.0693)  # of uniform numbers whose standard deviation is 0.02


@functools.cache
def uniform(dtype):
    """Random numbers, fewer than a large weight has: files of gigabytes are written at the disk's speed."""
    return ((np.random.default_rng(7).random(TABLE, np.float32) - 0.5) * SPREAD).astype(dtype)


@functools.cache
def octets(table):
    """Random bytes: of nibbles, or bits of float8 numbers between 2^-6 and 2 on either side of 0."""
    rng = np.random.default_rng(7)
    if table == "nibbles":
        return rng.integers(0, 256, TABLE, np.uint8)
    return rng.integers(0x08, 0x40, TABLE, np.uint8) | rng.integers(0, 2, TABLE, np.uint8) << 7


@dataclass(frozen=True)
class Config:
    hidden: int
    layers: int
    heads: int
    key_heads: int
    head: int
    inner: int
    vocabulary: int
    theta: float = 1e4
    epsilon: float = 1e-5
    tied: bool = True
    head_norms: bool = False  # of queries and keys
    is_gemma: bool = False  # norms behind attention and MLP, too, all in fp32; GELU; a scaled embedding
    window: int = -1  # keys that layers see, but each sixth, which has `theta`; the others have 1e4
    positions: int = 32768

    def window_of(self, layer):
        return -1 if self.window < 0 or layer % 6 == 5 else self.window

    def theta_of(self, layer):
        return self.theta if self.window_of(layer) < 0 else 1e4

    @property
    def widths(self):
        """Columns of queries, keys and values."""
        return [self.heads * self.head, self.key_heads * self.head, self.key_heads * self.head]

    def products(self):
        """K and N of a layer's products, by name, as they stand in the file."""
        q, k, v = self.widths
        first = {"q_proj": q, "k_proj": k, "v_proj": v} if self.is_gemma else {"qkv_proj": q + k + v}
        return {**{name: (self.hidden, n) for name, n in first.items()}, "o_proj": (q, self.hidden),
                "gate_proj": (self.hidden, self.inner), "up_proj": (self.hidden, self.inner),
                "down_proj": (self.inner, self.hidden)}  # fmt: skip

    def bytes_of_step(self, precision, past):
        """What a step reads: products, head and caches, as far as layers see them."""
        body = self.layers * sum(k * n for k, n in self.products().values())
        head, half = self.hidden * self.vocabulary, {"fp16": 2, "fp32": 4}.get(precision, 2)
        each = {"int4": 0.5 + 2 / BLOCK, "fp8": 1}.get(precision, half)
        seen = sum(min(past, w) if (w := self.window_of(i)) > 0 else past for i in range(self.layers))
        return body * each + head * (half if precision == "fp8" else each) + 2 * seen * self.key_heads * self.head * half


MODELS = {
    "smollm2-135m": Config(576, 30, 9, 3, 64, 1536, 49152, theta=1e5),
    "qwen2.5-0.5b": Config(896, 24, 14, 2, 64, 4864, 151936, theta=1e6, epsilon=1e-6),
    "qwen3-0.6b": Config(1024, 28, 16, 8, 128, 3072, 151936, theta=1e6, epsilon=1e-6, head_norms=True),
    "llama-3.2-1b": Config(2048, 16, 32, 8, 64, 8192, 128256, theta=5e5),
    "llama-3.1-8b-8-layers": Config(4096, 8, 32, 8, 128, 14336, 128256, theta=5e5, tied=False),
    "gemma-3-1b": Config(1152, 26, 4, 1, 256, 6912, 262144, theta=1e6, epsilon=1e-6, is_gemma=True, window=512),
}


class File:
    """An ONNX model, node by node, with the file of its weights beside it."""

    def __init__(self, path, precision):
        self.path, self.precision, self.type = path, precision, ELEMENTS[precision]
        self.element = helper.np_dtype_to_tensor_dtype(np.dtype(self.type))
        self.rng = np.random.default_rng(7)
        self.nodes, self.weights, self.inputs, self.outputs, self.made = [], [], [], [], {}

    def write(self, build):
        with open(self.path.with_name(self.path.name + ".data"), "wb") as self.data:
            build()
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", 22), helper.make_opsetid(MICROSOFT, 1)]
        self.path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
        return self.path

    def weight(self, name, array, element=None):
        """An initialiser in the file of weights, its place a multiple of 4,096 as ONNX wants."""
        self.data.write(bytes(-self.data.tell() % 4096))
        tensor = TensorProto(name=name, data_type=element or helper.np_dtype_to_tensor_dtype(array.dtype),
                             dims=array.shape, data_location=TensorProto.EXTERNAL)  # fmt: skip
        place = {"location": self.path.name + ".data", "offset": self.data.tell(), "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        array.tofile(self.data)
        self.weights.append(tensor)
        return name

    def constant(self, name, array):
        array = np.asarray(array)
        if all(t.name != name for t in self.weights):
            self.weights.append(helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape,
                                                   array.reshape(-1).tolist()))  # fmt: skip
        return name

    def fill(self, table, shape):
        """An array of what a table has, over and over, from a random place on."""
        out = np.empty(shape, table.dtype)
        flat, place, done = out.reshape(-1), int(self.rng.integers(table.size)), 0
        while done < flat.size:
            part = table[place : place + flat.size - done]
            flat[done : done + part.size] = part
            done, place = done + part.size, 0
        return out

    def random(self, *shape, dtype=None):
        return self.fill(uniform(np.dtype(dtype or self.type)), shape)

    def node(self, op, inputs, output, domain="", **attributes):
        outputs = output if isinstance(output, list) else [output]
        self.nodes.append(helper.make_node(op, inputs, outputs, name="/" + outputs[0], domain=domain, **attributes))
        return outputs[0]

    def value(self, list_, name, element, shape):
        list_.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def weights_of(self, name, k, n, precision):
        """The names of a product's weights, which are made once."""
        if name in self.made:
            return self.made[name]
        if precision == "int4":
            arrays = {".qweight": self.fill(octets("nibbles"), (n, k // BLOCK, BLOCK // 2)),
                      ".scales": np.abs(self.random(n, k // BLOCK)) * self.type(0.1)}  # fmt: skip
        elif precision == "fp8":
            arrays = {".fp8_weight": self.fill(octets("floats"), (n, k)), ".fp8_weight_scale": 0.02 + np.abs(self.random(n, 1, dtype=np.float32))}
        else:
            arrays = {".weight": self.random(k, n)}
        self.made[name] = [self.weight(name + end, array, TensorProto.FLOAT8E4M3FN if end == ".fp8_weight" else None)
                           for end, array in arrays.items()]  # fmt: skip
        return self.made[name]

    def product(self, x, name, k, n, precision=None, output=None):
        precision, output = precision or self.precision, output or name
        operands = [x, *self.weights_of(name, k, n, precision)]
        if precision == "int4":
            return self.node("MatMulNBits", operands, output, MICROSOFT, K=k, N=n, bits=4, block_size=BLOCK)
        if precision == "fp8":
            return self.node("MatMulBlockQuantizedFp8Weight", operands, output, MICROSOFT, block_size=k)
        return self.node("MatMul", operands, output)

    def cast(self, x, element, name):
        return self.node("Cast", [x], name, to=element)


class DecoderFile(File):
    """A decoder; `past`: None, or how many tokens stand before the one that is run."""

    def __init__(self, path, config, precision, past=None):
        super().__init__(path, precision)
        self.config, self.past = config, past
        # Norms of Gemma are in fp32, and so is the sum that they carry from layer to layer.
        self.wide = config.is_gemma and self.element != TensorProto.FLOAT

    def norm(self, x, skip, name, narrow=True):
        """The norm of x, or of x + skip, and that sum."""
        c = self.config
        weight = self.weight(name + ".weight", 1 + self.random(c.hidden, dtype=np.float32 if self.wide else None))
        y = name + ".wide" if self.wide and narrow else name
        if skip is None:
            self.node("SimplifiedLayerNormalization", [x, weight], y, axis=-1, epsilon=c.epsilon, stash_type=1)
        else:
            self.node("SkipSimplifiedLayerNormalization", [x, skip, weight], [y, "", "", name + ".sum"], MICROSOFT,
                      epsilon=c.epsilon)  # fmt: skip
            x = name + ".sum"
        return (self.cast(y, self.element, name) if y != name else y), x

    def behind(self, x, name):
        """Gemma's norm of what attention or MLP gave."""
        if not self.config.is_gemma:
            return x
        if self.wide:
            x = self.cast(x, TensorProto.FLOAT, name + ".widened")
        return self.norm(x, None, name, narrow=False)[0]

    def head_norm(self, x, name, heads):
        """Gemma's norm of each head, between two reshapes."""
        c = self.config
        y = self.node("Reshape", [x, self.constant("by_head", np.array([0, -1, c.head]))], name + ".heads")
        if self.wide:
            y = self.cast(y, TensorProto.FLOAT, name + ".widened")
        weight = self.weight(name + ".weight", 1 + self.random(c.head, dtype=np.float32 if self.wide else None))
        y = self.node("SimplifiedLayerNormalization", [y, weight], name + ".normed", axis=-1, epsilon=c.epsilon,
                      stash_type=1)  # fmt: skip
        if self.wide:
            y = self.cast(y, self.element, name + ".narrowed")
        shape = self.constant(f"by_row.{heads}", np.array([0, -1, heads * c.head]))
        return self.node("Reshape", [y, shape], name)

    def attention(self, x, i, lengths, tables):
        c, prefix, products = self.config, f"layers.{i}.", self.config.products()
        product = lambda name: self.product(x, prefix + name, *products[name])  # noqa: E731
        caches, norms = [1, c.key_heads, self.past, c.head], []
        rows = "total_sequence_length" if self.past is None else self.past + 1
        if self.past is None:
            caches = ["batch_size", c.key_heads, "past_sequence_length", c.head]
        past, now = ([f"{side}.{i}.{kind}" for kind in ("key", "value")] for side in ("past_key_values", "present"))
        for old, new in zip(past, now):
            self.value(self.inputs, old, self.element, caches)
            self.value(self.outputs, new, self.element, [caches[0], c.key_heads, rows, c.head])
        if c.is_gemma:
            q, k, v = (product(name) for name in ("q_proj", "k_proj", "v_proj"))
            given = [self.head_norm(q, prefix + "q_norm", c.heads), self.head_norm(k, prefix + "k_norm", c.key_heads), v]
        elif c.head_norms:
            given = [prefix + part for part in "qkv"]
            self.node("Split", [product("qkv_proj"), self.constant("widths", np.array(c.widths))], given, axis=-1)
            norms = ["", "", "", "", "", *(self.weight(f"{prefix}{part}_norm.weight", 1 + self.random(c.head))
                                           for part in "qk")]  # fmt: skip
        else:
            given = [product("qkv_proj"), "", ""]
        y = self.node("GroupQueryAttention", [*given, *past, *lengths, *tables, *norms], [prefix + "attention", *now],
                      MICROSOFT, num_heads=c.heads, kv_num_heads=c.key_heads, do_rotary=1,
                      scale=1 / 16 if c.is_gemma else c.head**-0.5, local_window_size=c.window_of(i),
                      rotary_interleaved=0, softcap=0.0)  # fmt: skip
        return self.product(y, prefix + "o_proj", *products["o_proj"])

    def mlp(self, x, prefix):
        products = self.config.products()
        gate, up = (self.product(x, prefix + name, *products[name]) for name in ("gate_proj", "up_proj"))
        if self.config.is_gemma:
            gate = self.node("Gelu", [gate], prefix + "gelu", approximate="tanh")
        else:
            gate = self.node("Mul", [gate, self.node("Sigmoid", [gate], prefix + "sigmoid")], prefix + "silu")
        y = self.node("Mul", [gate, up], prefix + "gated")
        return self.product(y, prefix + "down_proj", *products["down_proj"])

    def lengths(self):
        """The position of the last token, and the number of all."""
        mask = self.value(self.inputs, "attention_mask", TensorProto.INT64,
                          ["batch_size", "total_sequence_length"] if self.past is None else [1, self.past + 1])  # fmt: skip
        ones, one = self.constant("[1]", np.array([1])), self.constant("1", np.array(1))
        valid = self.node("ReduceSum", [mask, ones], "valid", keepdims=1)
        last = self.cast(self.node("Sub", [valid, ones], "last"), TensorProto.INT32, "seqlens_k")
        total = self.node("Gather", [self.node("Shape", [mask], "mask.shape"), one], "mask.total", axis=0)
        return [last, self.cast(total, TensorProto.INT32, "total")]

    def table(self, theta):
        c = self.config
        angles = np.outer(np.arange(c.positions), theta ** (-np.arange(0, c.head, 2) / c.head))
        name = f"{theta:g}"
        if all(t.name != "cos_cache." + name for t in self.weights):
            self.weight("cos_cache." + name, np.cos(angles).astype(self.type))
            self.weight("sin_cache." + name, np.sin(angles).astype(self.type))
        return ["cos_cache." + name, "sin_cache." + name]

    @property
    def head(self):
        """Name, extents and precision of the last product."""
        return "lm_head", self.config.hidden, self.config.vocabulary, "fp16" if self.precision == "fp8" else self.precision

    def embedding(self, tokens):
        """Rows of the embedding; where it is tied, those of the head."""
        c = self.config
        if not c.tied:
            x = self.node("Gather", [self.weight("embed_tokens.weight", self.random(c.vocabulary, c.hidden)), tokens],
                          "embedded")  # fmt: skip
        elif self.precision == "int4":
            weights, scales = self.weights_of(*self.head)
            shape = self.constant("rows", np.array([c.vocabulary, c.hidden // 2]))
            rows = self.node("Reshape", [weights, shape], "embed_tokens")
            x = self.node("GatherBlockQuantized", [rows, tokens, scales], "embedded", MICROSOFT, bits=4,
                          block_size=BLOCK, gather_axis=0, quantize_axis=1)  # fmt: skip
        else:
            rows = self.node("Transpose", self.weights_of(*self.head), "embed_tokens", perm=[1, 0])
            x = self.node("Gather", [rows, tokens], "embedded")
        if c.is_gemma:
            scale = np.array(np.round(np.sqrt(c.hidden), 2), self.type)
            x = self.node("Mul", [x, self.constant("embedding_scale", scale)], "scaled")
        return self.cast(x, TensorProto.FLOAT, "widened") if self.wide else x

    def build(self):
        c = self.config
        batch, rows = ("batch_size", "sequence_length") if self.past is None else (1, 1)
        tokens = self.value(self.inputs, "input_ids", TensorProto.INT64, [batch, rows])
        lengths = self.lengths()
        self.value(self.outputs, "logits", self.element, [batch, rows, c.vocabulary])
        x, skip = self.embedding(tokens), None
        for i in range(c.layers):
            prefix = f"layers.{i}."
            y, x = self.norm(x, skip, prefix + "input_layernorm")
            y = self.attention(y, i, lengths, self.table(c.theta_of(i)))
            y, x = self.norm(x, self.behind(y, prefix + "post_attention_layernorm"),
                             prefix + ("pre_feedforward_layernorm" if c.is_gemma else "post_attention_layernorm"))  # fmt: skip
            skip = self.behind(self.mlp(y, prefix), prefix + "post_feedforward_layernorm")
        self.norm(x, skip, "norm")
        self.product("norm", *self.head, output="logits")


def write(path, config, precision, past=None):
    """Writes the model to `path`, its weights to `path` + ".data"; the path."""
    file = DecoderFile(path, config, precision, past)
    return file.write(file.build)
