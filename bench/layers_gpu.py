"""Single layers on this machine's GPU: generated CUDA beside PyTorch, both captured into CUDA graphs.

`measure` is what bench/layers.py does for a target `cuda:...`. PyTorch computes a case by `Reference`, which
evaluates its ONNX graph node by node with torch's functions, as it is (`torch`) and compiled (`inductor`). In
fp16 the model's tensors are halves from end to end, for Tenon and for torch. Each peer is captured LAUNCHES
times into one graph, so that the host's part of a launch counts for nobody, and replayed in turns.
"""

import os
import shlex
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from gpu import Tenon, relative_error
from onnx import TensorProto, numpy_helper
from tenon import tenon

LAUNCHES = 20
ROUNDS = 7
ERRORS = {"fp32": 1e-3, "fp16": 2e-2}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
# PyTorch has no such layer: its result counts, its time does not.
NO_PEER = {"DequantizeLinear", "MatMulNBits", "GRU0"}


def in_halves(model, inputs):
    """The model with tensors of halves; factors of Resize and steps of quantisation stay."""
    stays = {name for node in model.graph.node if node.op_type in ("Resize", "DequantizeLinear", "QuantizeLinear")
             for name in node.input[1:]}  # fmt: skip
    half = onnx.ModelProto()
    half.CopyFrom(model)
    for tensor in half.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in stays:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for info in [*half.graph.input, *half.graph.output, *half.graph.value_info]:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.FLOAT16
    return half, {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in inputs.items()}


class Reference:
    """A model as a torch function of its inputs; constants are on the device from the start."""

    attend = None

    def __init__(self, model, device="cuda"):
        self.graph = model.graph
        self.constants = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()).to(device)
                          for t in model.graph.initializer}  # fmt: skip
        self.host = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.steps = []
        if [node.op_type for node in model.graph.node] == ["MatMul", "Mul", "Softmax", "MatMul"]:
            scale = float(self.host["scale"])
            self.attend = lambda q, k, v: (F.scaled_dot_product_attention(q, k.mT, v, scale=scale),)
        for node in model.graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
            self.steps.append((node, getattr(self, node.op_type.lower())(node, attributes)))

    def __call__(self, *inputs):
        if self.attend:
            return self.attend(*inputs)
        values = {**self.constants, **dict(zip((i.name for i in self.graph.input), inputs)), "": None}
        for node, step in self.steps:
            results = step(*(values[name] for name in node.input))
            results = results if isinstance(results, tuple) else (results,)
            values.update(zip(node.output, results))
        return tuple(values[o.name] for o in self.graph.output)

    def constant(self, node, i):
        return self.host.get(node.input[i]) if i < len(node.input) and node.input[i] else None

    # Each answers a function of the node's operands.

    def cumsum(self, node, a):
        axis = int(self.constant(node, 1))

        def step(x, _):
            x = x.flip(axis) if a.get("reverse") else x
            y = torch.cumsum(x, axis)
            y = (y - x) if a.get("exclusive") else y
            return y.flip(axis) if a.get("reverse") else y

        return step

    def recurrent(self, node, a, kind, order):
        """cuDNN's cell, with weights in its order of gates."""
        w, r = (torch.from_numpy(self.constant(node, i).copy()) for i in (1, 2))
        hidden, both = a["hidden_size"], a.get("direction") == "bidirectional"
        cell = kind(w.shape[2], hidden, bidirectional=both, bias=True).to(w.dtype)
        with torch.no_grad():
            for p in cell.parameters():
                p.zero_()
            for d in range(2 if both else 1):
                for name, source in (("weight_ih", w), ("weight_hh", r)):
                    gates = source[d].reshape(len(order), hidden, -1)[list(order)].reshape(len(order) * hidden, -1)
                    getattr(cell, f"{name}_l0{'_reverse' if d else ''}").copy_(gates)
        cell = cell.cuda() if next(iter(self.constants.values())).is_cuda else cell
        cell.flatten_parameters()

        def step(x, *_):
            y, _ = cell(x)
            steps, batch, _ = y.shape
            return y.reshape(steps, batch, -1, hidden).transpose(1, 2)

        return step

    def lstm(self, node, a):
        return self.recurrent(node, a, torch.nn.LSTM, (0, 2, 3, 1))

    def gru(self, node, a):
        if a.get("linear_before_reset"):
            return self.recurrent(node, a, torch.nn.GRU, (1, 0, 2))
        # cuDNN has no cell that resets the state before its product.
        hidden = a["hidden_size"]

        def step(x, w, r, *_):
            w, r = w[0], r[0]
            state, states = x.new_zeros(x.shape[1], hidden), []
            for given in x @ w.T:
                update, reset = torch.sigmoid(given[:, : 2 * hidden] + state @ r[: 2 * hidden].T).chunk(2, -1)
                new = torch.tanh(given[:, 2 * hidden :] + (reset * state) @ r[2 * hidden :].T)
                state = update * state + (1 - update) * new
                states.append(state)
            return torch.stack(states)[:, None]

        return step

    def rnn(self, node, a):
        return self.recurrent(node, a, torch.nn.RNN, (0,))

    def topk(self, node, a):
        k = int(self.constant(node, 1)[0])
        return lambda x, _: tuple(torch.topk(x, k, dim=a.get("axis", -1), largest=bool(a.get("largest", 1))))

    def pool(self, a, functions):
        rank = len(a["kernel_shape"])
        pads, stride = a.get("pads", [0] * 2 * rank)[:rank], a.get("strides", [1] * rank)
        return functions[rank - 1], {"kernel_size": a["kernel_shape"], "stride": stride, "padding": pads}

    def maxpool(self, node, a):
        function, words = self.pool(a, (F.max_pool1d, F.max_pool2d, F.max_pool3d))
        words["dilation"] = a.get("dilations", [1] * len(a["kernel_shape"]))
        pads = words["padding"]
        if any(2 * p > k for p, k in zip(pads, a["kernel_shape"])):  # max_pool takes no such pads
            words["padding"] = 0
            around = [p for pad in reversed(pads) for p in (pad, pad)]
            return lambda x: function(F.pad(x, around, value=float("-inf")), **words)
        return lambda x: function(x, **words)

    def averagepool(self, node, a):
        function, words = self.pool(a, (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d))
        return lambda x: function(x, **words, count_include_pad=bool(a.get("count_include_pad")))

    def lrn(self, node, a):
        return lambda x: F.local_response_norm(x, a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0))

    def resize(self, node, a):
        scales = [float(s) for s in self.constant(node, 2)[2:]]
        mode = {"linear": ("linear", "bilinear", "trilinear")[len(scales) - 1], "cubic": "bicubic"}.get(
            a["mode"], "nearest")  # fmt: skip
        words = {} if mode == "nearest" else {"align_corners": False}
        return lambda x, *_: F.interpolate(x, scale_factor=scales, mode=mode, **words)

    def gridsample(self, node, a):
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(a["mode"], a["mode"])
        return lambda x, grid: F.grid_sample(x, grid, mode=mode, align_corners=False)

    def reduction(self, node, a, function):
        axes = self.constant(node, 1)
        keep = bool(a.get("keepdims", 1))

        def step(x, *_):
            return function(x, list(range(x.dim())) if axes is None else axes.tolist(), keep)

        return step

    def reducesum(self, node, a):
        return self.reduction(node, a, lambda x, d, k: torch.sum(x, d, k))

    def reducemean(self, node, a):
        return self.reduction(node, a, lambda x, d, k: torch.mean(x, d, k))

    def reducemax(self, node, a):
        return self.reduction(node, a, lambda x, d, k: torch.amax(x, d, k))

    def argmax(self, node, a):
        return lambda x: torch.argmax(x, a["axis"], keepdim=bool(a.get("keepdims", 1)))

    def softmax(self, node, a):
        return lambda x: torch.softmax(x, a.get("axis", -1))

    def logsoftmax(self, node, a):
        return lambda x: torch.log_softmax(x, a.get("axis", -1))

    def layernormalization(self, node, a):
        return lambda x, s, b=None: F.layer_norm(x, s.shape, s, b, a.get("epsilon", 1e-5))

    def instancenormalization(self, node, a):
        return lambda x, s, b: F.instance_norm(x, weight=s, bias=b, eps=a.get("epsilon", 1e-5))

    def gather(self, node, a):
        axis = a.get("axis", 0)
        return lambda x, i: torch.index_select(x, axis, i.flatten()).reshape(
            *x.shape[:axis], *i.shape, *x.shape[axis + 1 :])  # fmt: skip

    def gatherelements(self, node, a):
        return lambda x, i: torch.gather(x, a.get("axis", 0), i)

    def transpose(self, node, a):
        return lambda x: x.permute(a["perm"]).contiguous()

    def depthtospace(self, node, a):
        b = a["blocksize"]

        def step(x):
            n, c, h, w = x.shape
            return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)

        return step

    def spacetodepth(self, node, a):
        b = a["blocksize"]

        def step(x):
            n, c, h, w = x.shape
            return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)

        return step

    def pad(self, node, a):
        pads = self.constant(node, 1).tolist()
        rank = len(pads) // 2
        spatial = [p for d in reversed(range(2, rank)) for p in (pads[d], pads[d + rank])]
        mode = {"edge": "replicate"}.get(a.get("mode", "constant"), a.get("mode", "constant"))
        return lambda x, *_: F.pad(x, spatial, mode=mode)

    def conv(self, node, a):
        rank = len(a["pads"]) // 2
        function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        words = {"stride": a.get("strides", 1), "padding": a["pads"][:rank], "dilation": a.get("dilations", 1),
                 "groups": a.get("group", 1)}  # fmt: skip
        return lambda x, w, b=None: function(x, w, b, **words)

    def convtranspose(self, node, a):
        rank = len(a["pads"]) // 2
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
        words = {"stride": a["strides"], "padding": a["pads"][:rank], "groups": a.get("group", 1)}
        return lambda x, w, b=None: function(x, w, b, **words)

    def matmul(self, node, a):
        return lambda x, y: torch.matmul(x, y)

    def matmulnbits(self, node, a):
        """Against weights that were unpacked before."""
        packed, scales, zeros = (self.constant(node, i) for i in (1, 2, 3))
        n, blocks, _ = packed.shape
        low = np.stack([packed & 15, packed >> 4], -1).reshape(n, blocks, 32).astype(np.float32)
        zero = np.full((n, blocks), 8.0, np.float32)
        if zeros is not None:
            rows = zeros.reshape(n, -1)
            zero = np.stack([rows & 15, rows >> 4], -1).reshape(n, -1)[:, :blocks].astype(np.float32)
        dense = (low - zero[..., None]) * scales.reshape(n, blocks, 1).astype(np.float32)
        device = next(iter(self.constants.values())).device
        dense = torch.from_numpy(dense.reshape(n, -1)).to(device, torch.from_numpy(scales.copy()).dtype)
        return lambda x, *_: F.linear(x, dense)

    def dequantizelinear(self, node, a):
        return lambda x, s, z: (x.float() - z.float()) * s

    def quantizelinear(self, node, a):
        return lambda x, s, z: torch.clamp(torch.round(x / s) + z.float(), 0, 255).to(z.dtype)

    def mul(self, node, a):
        return lambda x, y: x * y

    def pow(self, node, a):
        exponent = float(self.constant(node, 1))
        return lambda x, _: torch.pow(x, exponent)

    def mish(self, node, a):
        return F.mish

    def softplus(self, node, a):
        return F.softplus

    def __getattr__(self, name):
        """Functions of one tensor that torch calls the same."""
        function = getattr(torch, name)
        return lambda node, attributes: lambda x: function(x)


class Captured:
    """`call()` LAUNCHES times in one graph; `output` is what the last call gave."""

    def __init__(self, name, call, output=None):
        self.name = name
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(LAUNCHES):
                self.output = None  # each call's result takes the memory of the one before
                self.output = call()
        if output is not None:
            self.output = output
        self.times = []

    def time(self):
        """Microseconds of a call."""
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        self.graph.replay()
        b.record()
        b.synchronize()
        return a.elapsed_time(b) * 1e3 / LAUNCHES


class Program(Tenon):
    """A generated library with any number of inputs and outputs."""

    def __init__(self, name, library, inputs, outputs):
        super().__init__(name, library, inputs[0], outputs[0].float())
        self.results = [torch.full_like(y, float("nan") if y.is_floating_point() else 77) for y in outputs]
        self.kept = [x.contiguous() for x in inputs]
        self.inputs = (type(self.inputs)._type_ * len(inputs))(*(x.data_ptr() for x in self.kept))
        self.outputs = (type(self.outputs)._type_ * len(outputs))(*(y.data_ptr() for y in self.results))

    def run(self):
        self.stream.value = torch.cuda.current_stream().cuda_stream
        super().run()


def build(folder, model, target, precision, compiler=None):
    """The library, or the reason why there is none. `compiler`: another one than this tree's."""
    path, source = folder / "layer.onnx", folder / "layer.cu"
    folder.mkdir()
    onnx.save(model, path)
    words = ["compile", path, "-o", source, "-q", f"--target={target}", f"--precision={precision}"]
    if compiler:
        answer = subprocess.run([compiler, *words], capture_output=True, text=True)
        if answer.returncode != 0:
            return (answer.stderr.strip().splitlines() or ["failed"])[0]
    else:
        answer = tenon(*words)
        if answer.status != 0:
            return answer.reason
    with open(source) as text:
        command = shlex.split(text.readline().lstrip("/ "))
    if "-split-compile" in command:  # many are built side by side
        at = command.index("-split-compile")
        del command[at : at + 2]
    command[command.index("-c") :] = ["-shared", "-Xcompiler=-fPIC", source.name, "-o", "layer.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        return "nvcc: " + (done.stderr.strip().splitlines() or ["failed"])[0]
    return source.with_suffix(".so")


def has_peer(model):
    kinds = {node.op_type for node in model.graph.node}
    kinds |= {"GRU0" for node in model.graph.node if node.op_type == "GRU" and
              not any(a.name == "linear_before_reset" and a.i for a in node.attribute)}  # fmt: skip
    return not kinds & NO_PEER


def bench(library, old, model, inputs, precision, seconds, compiled):
    """({peer: µs}, error); the error is that of Tenon to torch in fp32, NaN where torch has another layer.
    `old`: another compiler's library, or None."""
    tensors = [torch.from_numpy(np.ascontiguousarray(v)).cuda() for v in inputs.values()]
    with torch.no_grad():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        reference = Reference(model)
        outputs = reference(*tensors)
        count = len(model.graph.output)
        programs = [Program(name, made, tensors, outputs[:count])
                    for name, made in (("tenon", library), ("against", old)) if made]  # fmt: skip
        ours = programs[0]
        captured = [Captured(program.name, program.run, program.results) for program in programs]
        if has_peer(model):
            captured.append(Captured("torch", lambda: reference(*tensors)))
            if compiled:
                torch._dynamo.reset()
                function = torch.compile(lambda *x: reference(*x), dynamic=False)
                try:
                    function(*tensors)
                    captured.append(Captured("inductor", lambda: function(*tensors)))
                except Exception:  # what torch does not compile has one peer less
                    pass
        torch.cuda.synchronize()
        errors = [relative_error(a, b) for a, b in zip(ours.results, outputs)][:1]
        end, rounds = time.monotonic() + seconds, 0
        for peer in captured:
            peer.graph.replay()
        while rounds < ROUNDS or time.monotonic() < end:
            for peer in captured if rounds % 2 == 0 else reversed(captured):
                peer.times.append(peer.time())
            rounds += 1
        times = {peer.name: statistics.median(peer.times) for peer in captured}
        for program in programs:
            program.close()
        return times, max(errors)


def measure(cases, precisions, target, scratch, bound_of, seconds, compiled, against):
    """Rows of `cases`, [(name, extent, (model, inputs))], in each precision, and what failed. `against`:
    another compiler whose programs run in the same turns, or None."""
    work = []
    for name, extent, (model, inputs) in cases:
        for precision in precisions:
            made = (model, inputs) if precision == "fp32" else in_halves(model, inputs)
            folder = scratch / f"{name}-{extent}-{precision}"
            work.append((name, extent, precision, folder, *made))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(lambda w: build(w[3], w[4], target, w[2]), work))
        olds = [None] * len(work)
        if against:
            olds = list(pool.map(lambda w: build(w[3].with_name(w[3].name + "-against"), w[4], target, w[2], against), work))
    rows, failures = [], []
    for (name, extent, precision, folder, model, inputs), library, old in zip(work, built, olds):
        row = {"case": name, "extent": extent, "precision": precision}
        if isinstance(library, str):
            failures.append(f"{name}, {extent}, {precision}: {library}")
            continue
        try:
            bound = max(bound_of(name), ERRORS[precision])
            old = None if isinstance(old, str) else old
            times, error = bench(library, old, model, inputs, precision, seconds, compiled)
        except Exception as failure:  # a case that fails is named, the others go on
            failures.append(f"{name}, {extent}, {precision}: {str(failure).splitlines()[0][:160]}")
            continue
        peers = [t for peer, t in times.items() if peer not in ("tenon", "against")]
        row.update(times, error=error, ratio=min(peers) / times["tenon"] if peers else None)
        if not error <= bound and peers:
            failures.append(f"{name}, {extent}, {precision}: outputs differ by {error:.1e}")
        rows.append(row)
    return rows, failures
