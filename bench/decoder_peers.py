"""Decoders of bench/decoders.py in torch: what their logits are in fp32, and a step as fast as torch has it.

`Decoder` reads a file's weights. With `fast` it multiplies them as they are stored: int4 by torch's packed product,
fp8 by its scaled one (each of bf16, as these want), else by F.linear. `Captured` compiles its layers, whose caches have
room for what follows, and captures a step, and STEPS that grow from there, each with the keys that it sees and no more.
"""

import mmap

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper

torch._dynamo.config.recompile_limit = 64  # one forward is compiled for many sizes
STEPS = 64
PIECE = 1024  # tokens of a prompt at a time


class Weights:
    """The initialisers of a file, on the device, by name."""

    def __init__(self, path):
        proto = onnx.load(path, load_external_data=False)
        self.places = {t.name: t for t in proto.graph.initializer}
        self.file = open(path.with_name(path.name + ".data"), "rb")
        self.bytes = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)

    def __contains__(self, name):
        return name in self.places

    def __getitem__(self, name):
        t = self.places[name]
        place = {e.key: e.value for e in t.external_data}
        is_fp8 = t.data_type == TensorProto.FLOAT8E4M3FN
        dtype = np.uint8 if is_fp8 else helper.tensor_dtype_to_np_dtype(t.data_type)
        array = np.frombuffer(self.bytes, dtype, int(np.prod(t.dims)), int(place["offset"])).reshape(t.dims)
        tensor = torch.from_numpy(array.copy()).cuda()
        return tensor.view(torch.float8_e4m3fn) if is_fp8 else tensor

    def rows(self, name):
        """A product's weights [N, K] in fp32."""
        if name + ".weight" in self:
            return self[name + ".weight"].T.float()
        if name + ".fp8_weight" in self:
            return self[name + ".fp8_weight"].float() * self[name + ".fp8_weight_scale"]
        q, scales = self[name + ".qweight"], self[name + ".scales"]
        units = torch.stack([q & 15, q >> 4], -1).reshape(*q.shape[:2], -1).float() - 8
        return (units * scales.float()[..., None]).reshape(q.shape[0], -1)


class Dense(torch.nn.Module):
    def __init__(self, weights, name, dtype):
        super().__init__()
        self.register_buffer("weight", weights.rows(name).to(dtype).contiguous())

    def forward(self, x):
        return F.linear(x, self.weight)


class Packed(torch.nn.Module):
    """Blocks of 4 bits, in the order of tinygemm."""

    def __init__(self, weights, name, dtype):
        super().__init__()
        q, scales = weights[name + ".qweight"], weights[name + ".scales"]
        self.block = 2 * q.shape[2]
        q = q.reshape(q.shape[0], -1)
        self.register_buffer("weight", torch.ops.aten._convert_weight_to_int4pack(q << 4 | q >> 4, 8))
        parameters = torch.stack([scales.T.to(dtype), torch.zeros_like(scales.T, dtype=dtype)], -1)
        self.register_buffer("parameters_", parameters.contiguous())

    def forward(self, x):
        y = torch.ops.aten._weight_int4pack_mm(x.reshape(-1, x.shape[-1]), self.weight, self.block, self.parameters_)
        return y.view(*x.shape[:-1], -1)


class Scaled(torch.nn.Module):
    """Rows of float8 with a scale each; tokens are rounded to float8 by rows, which that product wants."""

    def __init__(self, weights, name, dtype):
        super().__init__()
        self.dtype = dtype
        self.register_buffer("weight", weights[name + ".fp8_weight"])
        self.register_buffer("scale", weights[name + ".fp8_weight_scale"].T.contiguous())

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1]).float()
        scale = rows.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448
        y = torch._scaled_mm((rows / scale).to(torch.float8_e4m3fn), self.weight.T, scale_a=scale, scale_b=self.scale,
                             out_dtype=self.dtype, use_fast_accum=True)  # fmt: skip
        return y.view(*x.shape[:-1], -1)


FASTEST = {"fp16": (Dense, torch.float16), "int4": (Packed, torch.bfloat16), "fp8": (Scaled, torch.bfloat16)}


class Norm(torch.nn.Module):
    def __init__(self, weights, name, epsilon):
        super().__init__()
        self.epsilon = epsilon
        self.register_buffer("weight", weights[name + ".weight"].float())

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + self.epsilon) * self.weight).to(x.dtype)


class Layer(torch.nn.Module):
    def __init__(self, config, index, weights, product, dtype, room):
        super().__init__()
        prefix = f"layers.{index}."
        self.config, self.window = config, config.window_of(index)
        self.scale = 1 / 16 if config.is_gemma else config.head**-0.5
        self.products = torch.nn.ModuleDict({n: product(weights, prefix + n, dtype) for n in config.products()})
        names = ["input_layernorm", "post_attention_layernorm"]
        if config.is_gemma:
            names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        if config.is_gemma or config.head_norms:
            names += ["q_norm", "k_norm"]
        self.norms = torch.nn.ModuleDict({n: Norm(weights, prefix + n, config.epsilon) for n in names})
        for kind in ("keys", "values"):
            self.register_buffer(kind, torch.zeros(1, config.key_heads, room, config.head, dtype=dtype, device="cuda"))

    def forward(self, x, cos, sin, places, begin, end, mask=None):
        """Appends rows of x at `places`, and attends to keys from `begin` to `end`."""
        y = self.norms["input_layernorm"](x)
        if self.config.is_gemma:
            q, k, v = (self.products[n](y) for n in ("q_proj", "k_proj", "v_proj"))
        else:
            q, k, v = self.products["qkv_proj"](y).split(self.config.widths, -1)
        q, k, v = (t.view(1, x.shape[1], -1, self.config.head).transpose(1, 2) for t in (q, k, v))
        if "q_norm" in self.norms:
            q, k = self.norms["q_norm"](q), self.norms["k_norm"](k)

        def turned(t):
            a, b = t.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        self.keys.index_copy_(2, places, turned(k))
        self.values.index_copy_(2, places, v)
        y = F.scaled_dot_product_attention(turned(q), self.keys[:, :, begin:end], self.values[:, :, begin:end],
                                           attn_mask=mask, enable_gqa=True, scale=self.scale)  # fmt: skip
        y = self.products["o_proj"](y.transpose(1, 2).reshape(1, x.shape[1], -1))
        between = self.norms["post_attention_layernorm"]
        if self.config.is_gemma:
            x = x + between(y)
            y = self.norms["pre_feedforward_layernorm"](x)
        else:
            x = x + y
            y = between(x)
        gate, up = self.products["gate_proj"](y), self.products["up_proj"](y)
        gate = F.gelu(gate, approximate="tanh") if self.config.is_gemma else F.silu(gate)
        y = self.products["down_proj"](gate * up)
        return x + (self.norms["post_feedforward_layernorm"](y) if self.config.is_gemma else y)


class Decoder:
    """The model of a file, with room for so many tokens."""

    def __init__(self, config, path, room, precision, fast=False):
        product, self.dtype = FASTEST[precision] if fast else (Dense, torch.float32)
        weights = Weights(path)
        self.config = config
        self.layers = [Layer(config, i, weights, product, self.dtype, room) for i in range(config.layers)]
        self.forwards = self.layers
        head = Dense if precision == "fp8" else product
        self.norm, self.head = Norm(weights, "norm", config.epsilon), head(weights, "lm_head", self.dtype)
        if config.tied:
            table = self.head.weight if head is Dense else weights.rows("lm_head").to(self.dtype)
        else:
            table = weights["embed_tokens.weight"].to(self.dtype)
        self.embedding = table * round(config.hidden**0.5, 2) if config.is_gemma else table
        self.tables = {theta: [weights[f"{f}_cache.{theta:g}"].to(self.dtype) for f in ("cos", "sin")]
                       for theta in {config.theta_of(i) for i in range(config.layers)}}  # fmt: skip

    def logits(self, tokens, at, places):
        """Logits of the last of some tokens [1, n], the first of which stands at `at`."""
        x, count, c = self.embedding[tokens], tokens.shape[1], self.config
        for i, layer in enumerate(self.forwards):
            cos, sin = (t[at : at + count] for t in self.tables[c.theta_of(i)])
            window, end, mask = c.window_of(i), at + count, None
            begin = max(0, at + 1 - window) if window > 0 else 0
            if count > 1:
                behind = places[:, None] - torch.arange(begin, end, device="cuda")[None]
                mask = (behind >= 0) & (behind < window) if window > 0 else behind >= 0
            x = layer(x, cos, sin, places, begin, end, mask)
        return self.head(self.norm(x[:, -1:]))

    def take(self, tokens, at):
        """Logits of the last of a list of tokens behind `at` others, in pieces."""
        for begin in range(0, len(tokens), PIECE):
            piece = torch.tensor([tokens[begin : begin + PIECE]], device="cuda")
            first = at + begin
            found = self.logits(piece, first, torch.arange(first, first + piece.shape[1], device="cuda"))
        return found.reshape(-1)


class Captured:
    """Steps of one token behind a prompt as CUDA graphs: one, and STEPS that follow each other."""

    name, kernels = "torch", 0

    def __init__(self, decoder, token, past):
        self.decoder = decoder  # whose tensors the graphs read
        decoder.forwards = [torch.compile(layer) for layer in decoder.layers]
        self.token = torch.tensor([[token]], device="cuda")
        places = [torch.tensor([past + i], device="cuda") for i in range(STEPS)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for i in (0, 1, 2, 0):
                decoder.logits(self.token, past + i, places[i])
        torch.cuda.current_stream().wait_stream(side)
        self.once, self.often = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.once):
            self.logits = decoder.logits(self.token, past, places[0])
        with torch.cuda.graph(self.often):
            for i in range(STEPS):
                decoder.logits(self.token, past + i, places[i])
        self.places = places

    def run(self):
        self.once.replay()

    def grow(self):
        """Milliseconds of a step that appends."""
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        self.often.replay()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / STEPS

    def close(self):
        self.once = self.often = self.logits = self.decoder = None
