"""Slightly damaged copies of a model: one filter of a layer x1.01, or one bias set to zero.

Damage is done where it shows: in the output channel that is largest after the layer's activation.
ONNX Runtime (optimisations off) says how far each mutation changes the first tensors that a kernel
must hand on: nothing at all is a dead mutation, a change below the bound of the comparison is one
that no comparison can be asked to notice.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper
from tensors import all_values_session, read_data_set

FACTOR = 1.01
FLOAT_BOUND = 2e-4  # twice the comparison's own, of the tensor's largest value
STEP_SHARE = 1e-4  # of an integer tensor's elements may differ by one step
CANDIDATES = 8  # channels tried before a layer counts as dead

# What a layer's kernel may compute on its way out; the tensor behind them is handed on.
CHAIN = {
    "Add", "BatchNormalization", "Clip", "DequantizeLinear", "Div", "Elu", "HardSigmoid",
    "HardSwish", "Identity", "LeakyRelu", "Mul", "Neg", "PRelu", "QuantizeLinear", "Relu",
    "Reshape", "Sigmoid", "Sqrt", "Squeeze", "Sub", "Tanh", "Unsqueeze",
}  # fmt: skip


@dataclass
class Constant:
    """A constant of the model: its tensor in the protobuf and its value."""

    tensor: onnx.TensorProto
    value: np.ndarray


@dataclass
class Site:
    """One thing to damage: `constant` along `axis`, seen in `output` along `channel_axis`."""

    layer: str
    kind: str
    name: str  # of the constant that is changed
    axis: int
    size: int
    output: str
    channel_axis: int


@dataclass
class Mutation:
    layer: str
    kind: str
    live: bool
    effect: float
    reason: str
    source: onnx.ModelProto
    name: str
    value: np.ndarray

    def model(self):
        """The damaged model, serialised."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.source)
        constants(copy)[self.name].tensor.CopyFrom(numpy_helper.from_array(self.value, self.name))
        return copy.SerializeToString()


def constants(model):
    found = {t.name: Constant(t, numpy_helper.to_array(t)) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensor = node.attribute[0].t
            found[node.output[0]] = Constant(tensor, numpy_helper.to_array(tensor))
    return found


def attribute(node, name, default):
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


class Sites:
    """Finds what can be damaged, each constant once."""

    def __init__(self, model):
        self.known = constants(model)
        self.producer = {o: n for n in model.graph.node for o in n.output}
        self.sites, self.seen = [], set()
        for index, node in enumerate(model.graph.node):
            self.layer = node.name or f"{node.op_type}_{index}"
            self.visit(node)

    def visit(self, node):
        inputs = list(node.input)
        y = node.output[0]
        if node.op_type == "Conv":
            self.add("filter", inputs[1], 0, y, 1)
            self.add("bias", inputs[2] if len(inputs) > 2 else "", 0, y, 1)
        elif node.op_type == "ConvTranspose" and attribute(node, "group", 1) == 1:
            self.add("filter", inputs[1], 1, y, 1)
            self.add("bias", inputs[2] if len(inputs) > 2 else "", 0, y, 1)
        elif node.op_type == "Gemm":
            self.add("filter", inputs[1], 0 if attribute(node, "transB", 0) else 1, y, -1)
            self.add("bias", inputs[2] if len(inputs) > 2 else "", -1, y, -1)
        elif node.op_type == "MatMul":
            self.add("filter", inputs[1], -1, y, -1)
        elif node.op_type == "BatchNormalization":
            self.add("filter", inputs[1], 0, y, 1)
            self.add("bias", inputs[2], 0, y, 1)
        elif node.op_type == "Add":
            for x, other in (inputs, inputs[::-1]):
                if x in self.producer and self.producer[x].op_type == "MatMul":
                    self.add("bias", other, -1, y, -1)

    def add(self, kind, name, axis, output, channel_axis):
        behind = self.producer.get(name)
        if behind is not None and behind.op_type == "DequantizeLinear":
            weight, scale = behind.input[0], behind.input[1]
            name = weight
            if kind == "filter" and scale in self.known and self.known[scale].value.ndim == 1:
                name, axis = scale, 0
        if name not in self.known or (name, kind) in self.seen:
            return
        value = self.known[name].value
        if value.ndim == 0 or kind == "bias" and value.ndim > 1 and value.shape[axis] != value.size:
            return
        self.seen.add((name, kind))
        site = Site(self.layer, kind, name, axis, value.shape[axis], output, channel_axis)
        self.sites.append(site)


def handed_on(model, output):
    """The first values at or behind `output` that leave the kernel: (value as the graph uses it,
    value that is compared), different where the former is dequantised from the latter."""
    consumers = {}
    dequantised = {
        node.output[0]: node.input[0] for node in model.graph.node
        if node.op_type == "DequantizeLinear"
    }  # fmt: skip
    for node in model.graph.node:
        for name in node.input:
            consumers.setdefault(name, []).append(node)
    outputs = {o.name for o in model.graph.output}
    result, todo, seen = [], [output], set()
    while todo:
        name = todo.pop(0)
        if name in seen:
            continue
        seen.add(name)
        users = consumers.get(name, [])
        if name in outputs or any(user.op_type not in CHAIN for user in users):
            result.append((name, dequantised.get(name, name)))
        else:
            todo += [user.output[0] for user in users]
    return result


def channel_sizes(value, axis, count):
    """The largest magnitude in every channel; None when the value has no such channels."""
    if not -value.ndim <= axis < value.ndim or value.shape[axis] != count:
        return None
    moved = np.moveaxis(np.abs(value.astype(np.float64)), axis, 0)
    return moved.reshape(count, -1).max(1)


def effect(before, after):
    """(relative change, whether a comparison has to notice it)."""
    if np.issubdtype(before.dtype, np.integer):
        steps = np.abs(before.astype(np.int64) - after.astype(np.int64))
        noticed = steps.max(initial=0) > 1 or (steps != 0).sum() > STEP_SHARE * steps.size
        return float((steps != 0).mean()), bool(noticed)
    largest = np.abs(before).max(initial=0)
    change = float(np.abs(after - before).max(initial=0) / (largest or 1))
    return change, change > FLOAT_BOUND


def damaged(site, known, channel):
    value = known[site.name].value.copy()
    index = [slice(None)] * value.ndim
    index[site.axis] = channel
    if site.kind == "bias":
        value[tuple(index)] = 0
    elif np.issubdtype(value.dtype, np.integer):
        limits = np.iinfo(value.dtype)
        scaled = np.rint(value[tuple(index)] * FACTOR)
        value[tuple(index)] = np.clip(scaled, limits.min, limits.max).astype(value.dtype)
    else:
        value[tuple(index)] *= np.asarray(FACTOR, value.dtype)
    return value


def mutations(path, data, sample=None, progress=lambda text: None):
    """Every mutation of the model (or a seeded sample of so many), dead ones included."""
    model = onnx.load(path)
    sites = Sites(model).sites
    if sample is not None and sample < len(sites):
        chosen = np.random.default_rng(1).choice(len(sites), sample, replace=False)
        sites = [sites[i] for i in sorted(chosen)]
    known = constants(model)
    inputs, _ = read_data_set(data, model)
    session, names = all_values_session(model, free={site.name for site in sites})
    free = {site.name: known[site.name].value for site in sites}
    before = dict(zip(names, session.run(names, {**inputs, **free})))

    result = []
    for number, site in enumerate(sites):
        progress(f"mutation {number + 1} of {len(sites)}")
        pairs = [pair for pair in handed_on(model, site.output) if pair[1] in before]
        targets = [compared for _, compared in pairs]
        score = np.zeros(site.size)
        for name in [*(used for used, _ in pairs), site.output]:
            sizes = channel_sizes(before[name], site.channel_axis, site.size)
            if sizes is not None and sizes.max() > 0:
                score = sizes / sizes.max()
                break
        if site.kind == "bias":
            magnitude = np.abs(known[site.name].value.reshape(-1).astype(np.float64))
            score = magnitude * np.maximum(score, 1e-3)
        elif np.issubdtype(known[site.name].value.dtype, np.integer):
            # Below 50, a quantised weight x1.01 rounds to itself.
            largest = channel_sizes(known[site.name].value, site.axis, site.size)
            score = (score + 1e-3) * (largest >= 50)
        best = None
        for channel in np.argsort(-score, kind="stable")[:CANDIDATES]:
            value = damaged(site, known, int(channel))
            after = session.run(targets, {**inputs, **free, site.name: value})
            effects = [effect(before[name], new) for name, new in zip(targets, after)]
            change = max((e for e, _ in effects), default=0.0)
            live = any(noticed for _, noticed in effects)
            if best is None or (live, change) > (best.live, best.effect):
                reason = (
                    "" if live
                    else "changes nothing" if change == 0
                    else f"changes what follows by {change:.1e} only, below the comparison's bound"
                )  # fmt: skip
                damage = "x1.01" if site.kind == "filter" else "zeroed"
                label = f"{site.kind} {int(channel)} {damage}"
                best = Mutation(site.layer, label, live, change, reason, model, site.name, value)
            if live:
                break
        result.append(best)
    return result
