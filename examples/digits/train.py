#!/usr/bin/env python3
"""Trains the digits network and writes everything that this folder holds besides text.

    examples/digits/train.py              digits.onnx, test_data_set_0, held-out images
    examples/digits/train.py --validate   accuracy on a fifth of the training part; writes nothing

Nobody needs to run it: its results are committed. It needs numpy and onnx (and onnxruntime for
the expected output of the test data set). scikit-learn serves only as the carrier of the images
and goes into a temporary virtual environment. All randomness is seeded; the same machine and
library versions give the same bytes, another BLAS may differ in the last digits of the weights.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
VENV_PYTHON = FOLDER.parent.parent / ".venv/bin/python"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one order of summation

try:
    import numpy as np
    import onnx
except ImportError:
    if Path(sys.prefix) == VENV_PYTHON.parent.parent or not VENV_PYTHON.exists():
        sys.exit("train.py: needs numpy and onnx; run scripts/setup first")
    os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])

from onnx import TensorProto, helper, numpy_helper

from layers import (
    Adam,
    BatchNorm,
    Conv,
    Dense,
    DepthwiseConv,
    MaxPool,
    Relu,
    Residual,
    Scale,
    softmax,
)

SCIKIT_LEARN = "scikit-learn==1.9.1"
DATA_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
SEED = 20240
HELD_OUT = 450
EPOCHS = 24
BATCH = 64
RATE = 4e-3
DECAY = 1e-2


def load_digits():
    """The 1,797 UCI digits: uint8 images [n, 8, 8] with values 0..16, uint8 labels [n]."""
    script = (
        "import sys, numpy; from sklearn.datasets import load_digits; d = load_digits();"
        "numpy.savez(sys.argv[1], images=d.images.astype('u1'), labels=d.target.astype('u1'))"
    )
    with tempfile.TemporaryDirectory() as folder:
        print(f"fetching the images: {SCIKIT_LEARN} in a temporary environment", flush=True)
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
        python = f"{folder}/venv/bin/python"
        subprocess.run([python, "-m", "pip", "install", "-q", SCIKIT_LEARN], check=True)
        subprocess.run([python, "-c", script, f"{folder}/digits.npz"], check=True)
        with np.load(f"{folder}/digits.npz") as data:
            images, labels = data["images"], data["labels"]
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    if digest != DATA_SHA256:
        sys.exit(f"train.py: the images have SHA-256 {digest}, expected {DATA_SHA256}")
    return images, labels


def stratified_split(labels, held_out, rng):
    """Indices (kept, held out): every class gives its share, rounded by largest remainder."""
    classes = np.unique(labels)
    shares = np.array([(labels == c).sum() * held_out / len(labels) for c in classes])
    counts = np.floor(shares).astype(int)
    order = np.argsort(-(shares - counts), kind="stable")
    counts[order[: held_out - counts.sum()]] += 1
    chosen = np.zeros(len(labels), bool)
    for c, count in zip(classes, counts):
        chosen[rng.permutation(np.flatnonzero(labels == c))[:count]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def build(rng):
    """The network, layer by layer, under the names that the ONNX nodes get."""
    return {
        "scale": Scale(1 / 16),
        "stem/conv": Conv(rng, 1, 16, 3),
        "stem/norm": BatchNorm(16),
        "stem/relu": Relu(),
        "block1": Residual(
            DepthwiseConv(rng, 16), BatchNorm(16), Relu(), Conv(rng, 16, 16, 1), BatchNorm(16)
        ),
        "block1/relu": Relu(),
        "pool1": MaxPool(),
        "widen/conv": Conv(rng, 16, 32, 3),
        "widen/norm": BatchNorm(32),
        "widen/relu": Relu(),
        "block2": Residual(Conv(rng, 32, 32, 3), BatchNorm(32)),
        "block2/relu": Relu(),
        "pool2": MaxPool(),
        "classifier": Dense(rng, 2 * 2 * 32, 10),
    }


def forward(network, images, training=False):
    x = images.astype(np.float32)[..., None]
    for layer in network.values():
        x = layer.forward(x, training)
    return x


def shifted(images, rng):
    """Each image moved by -1, 0 or 1 pixel in both directions."""
    moves = rng.integers(0, 3, (len(images), 2))
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    return np.stack([p[y : y + 8, x : x + 8] for p, (y, x) in zip(padded, moves)])


def train(images, labels):
    """A network trained with Adam on cross-entropy under a cosine learning rate."""
    rng = np.random.default_rng(SEED)
    network = build(rng)
    optimiser = Adam([p for layer in network.values() for p in layer.parameters], DECAY)
    batches = len(images) // BATCH
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        for step in range(batches):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            logits = forward(network, shifted(images[chosen], rng), training=True)
            gradient = softmax(logits)
            gradient[np.arange(BATCH), labels[chosen]] -= 1
            gradient /= BATCH
            for layer in reversed(network.values()):
                gradient = layer.backward(gradient)
            progress = (epoch * batches + step) / (EPOCHS * batches)
            optimiser.step(RATE * 0.5 * (1 + np.cos(np.pi * progress)))
    return network


def accuracy(network, images, labels):
    return 100 * float((forward(network, images).argmax(1) == labels).mean())


class Exporter:
    """Writes the trained layers as ONNX nodes, in order, named after their layer."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def constant(self, name, value):
        array = np.ascontiguousarray(value, np.float32)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, name, inputs, output=None, **attributes):
        output = output or f"{name}/output"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def layer(self, name, layer, x):
        if isinstance(layer, Scale):
            return self.node("Mul", name, [x, self.constant(f"{name}.factor", layer.factor)])
        if isinstance(layer, Conv):
            size = layer.weight.value.shape[0]
            weight = layer.weight.value.transpose(3, 2, 0, 1)
            return self.conv(name, x, weight, size, group=1)
        if isinstance(layer, DepthwiseConv):
            weight = layer.weight.value.transpose(2, 0, 1)[:, None]
            return self.conv(name, x, weight, 3, group=len(weight))
        if isinstance(layer, BatchNorm):
            values = {
                "weight": layer.scale.value,
                "bias": layer.bias.value,
                "running_mean": layer.running_mean,
                "running_var": layer.running_variance,
            }
            operands = [self.constant(f"{name}.{key}", value) for key, value in values.items()]
            return self.node(
                "BatchNormalization", name, [x, *operands], epsilon=BatchNorm.epsilon
            )
        if isinstance(layer, Relu):
            return self.node("Relu", name, [x])
        if isinstance(layer, MaxPool):
            return self.node("MaxPool", name, [x], kernel_shape=[2, 2], strides=[2, 2])
        if isinstance(layer, Residual):
            kinds = {Conv: "conv", DepthwiseConv: "depthwise", BatchNorm: "norm", Relu: "relu"}
            y = x
            for index, inner in enumerate(layer.layers):
                y = self.layer(f"{name}/{index}_{kinds[type(inner)]}", inner, y)
            return self.node("Add", f"{name}/add", [x, y])
        if isinstance(layer, Dense):
            flat = self.node("Flatten", f"{name}/flatten", [x], axis=1)
            weight = self.constant(f"{name}.weight", layer.weight.value.T)
            bias = self.constant(f"{name}.bias", layer.bias.value)
            return self.node("Gemm", name, [flat, weight, bias], transB=1)
        raise TypeError(type(layer))

    def conv(self, name, x, weight, size, group):
        pads = [size // 2] * 4
        operand = self.constant(f"{name}.weight", weight)
        return self.node(
            "Conv", name, [x, operand], kernel_shape=[size, size], pads=pads, group=group
        )


def export(network):
    exporter = Exporter()
    x = "image"
    for name, layer in network.items():
        x = exporter.layer(name, layer, x)
    exporter.node("Softmax", "softmax", [x], output="probabilities", axis=1)
    graph = helper.make_graph(
        exporter.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        exporter.initializers,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="examples/digits/train.py",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def write_tensor(path, array, name):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def write_results(model, network, images, labels):
    """The model, one test data set computed by ONNX Runtime, the held-out images."""
    import onnxruntime as ort

    data = model.SerializeToString()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    answers = []
    for image in images:
        x = image.astype(np.float32)[None, None]
        answers.append(session.run(None, {"image": x})[0])
    difference = np.abs(np.concatenate(answers) - softmax(forward(network, images))).max()
    if difference > 1e-5:
        sys.exit(f"train.py: the exported model differs from the network by {difference}")

    (FOLDER / "digits.onnx").write_bytes(data)
    folder = FOLDER / "test_data_set_0"
    # Not the most certain image: a saturated softmax would hide a wrong kernel.
    index = int(np.argmin([abs(a.max() - 0.7) for a in answers]))
    write_tensor(folder / "input_0.pb", images[index].astype(np.float32)[None, None], "image")
    write_tensor(folder / "output_0.pb", answers[index], "probabilities")
    # One record per image: 64 pixels row by row, values 0..16, then the label.
    records = np.concatenate([images.reshape(-1, 64), labels[:, None]], axis=1)
    (FOLDER / "heldout.bin").write_bytes(records.astype(np.uint8).tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--validate", action="store_true", help="never look at the held-out part")
    parser.add_argument("--data", type=Path, help="an .npz with images and labels, for offline use")
    arguments = parser.parse_args()

    if arguments.data:
        with np.load(arguments.data) as data:
            images, labels = data["images"], data["labels"]
    else:
        images, labels = load_digits()
    kept, held_out = stratified_split(labels, HELD_OUT, np.random.default_rng(SEED))

    if arguments.validate:
        part = stratified_split(labels[kept], len(kept) // 5, np.random.default_rng(SEED + 1))
        fit, check = kept[part[0]], kept[part[1]]
        network = train(images[fit], labels[fit])
        print(f"validation accuracy {accuracy(network, images[check], labels[check]):.1f} %")
        return

    start = time.monotonic()
    network = train(images[kept], labels[kept])
    print(f"trained in {time.monotonic() - start:.1f} s")
    print(f"training accuracy {accuracy(network, images[kept], labels[kept]):.1f} %")
    print(f"held-out accuracy {accuracy(network, images[held_out], labels[held_out]):.1f} %")
    write_results(export(network), network, images[held_out], labels[held_out])

    half = len(images) // 2
    first = train(images[:half], labels[:half])
    second = accuracy(first, images[half:], labels[half:])
    print(f"first-half/second-half accuracy {second:.1f} % (a network of its own)")


if __name__ == "__main__":
    main()
