"""Layers of a small convolutional network in numpy: forward, backward, Adam.

Activations are [batch, height, width, channels] in float32, so that a convolution is one
matrix product over gathered 3x3 neighbourhoods. Every layer keeps what its backward pass needs
and exposes its parameters as a list of `Parameter`.
"""

import numpy as np


class Parameter:
    """A trained array, its gradient and its Adam moments."""

    def __init__(self, value):
        self.value = np.asarray(value, np.float32)
        self.gradient = np.zeros_like(self.value)
        self.mean = np.zeros_like(self.value)
        self.variance = np.zeros_like(self.value)


class Layer:
    parameters = ()


class Scale(Layer):
    """x * factor with a constant factor: brings pixels to 0..1."""

    def __init__(self, factor):
        self.factor = np.float32(factor)

    def forward(self, x, training):
        return x * self.factor

    def backward(self, dy):
        return dy * self.factor


def neighbourhoods(x, size):
    """[n, h, w, c] -> [n, h, w, size, size, c], zero-padded so that h and w stay."""
    pad = size // 2
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3)


def scatter_neighbourhoods(columns):
    """The transpose of `neighbourhoods`: adds every window element back to its pixel."""
    n, h, w, size, _, c = columns.shape
    pad = size // 2
    x = np.zeros((n, h + 2 * pad, w + 2 * pad, c), np.float32)
    for i in range(size):
        for j in range(size):
            x[:, i : i + h, j : j + w] += columns[:, :, :, i, j]
    return x[:, pad : pad + h, pad : pad + w]


class Conv(Layer):
    """Stride-1 convolution with zero padding; the weight is [size, size, in, out]."""

    def __init__(self, rng, inputs, outputs, size):
        deviation = np.sqrt(2.0 / (size * size * inputs))
        self.weight = Parameter(rng.standard_normal((size, size, inputs, outputs)) * deviation)
        self.parameters = [self.weight]

    def forward(self, x, training):
        size, _, inputs, outputs = self.weight.value.shape
        self.shape = x.shape[:3]
        self.columns = neighbourhoods(x, size).reshape(-1, size * size * inputs)
        y = self.columns @ self.weight.value.reshape(-1, outputs)
        return y.reshape(*self.shape, outputs)

    def backward(self, dy):
        size, _, inputs, outputs = self.weight.value.shape
        dy = dy.reshape(-1, outputs)
        self.weight.gradient = (self.columns.T @ dy).reshape(self.weight.value.shape)
        dx = dy @ self.weight.value.reshape(-1, outputs).T
        return scatter_neighbourhoods(dx.reshape(*self.shape, size, size, inputs))


class DepthwiseConv(Layer):
    """One 3x3 filter per channel; the weight is [3, 3, channels]."""

    def __init__(self, rng, channels):
        self.weight = Parameter(rng.standard_normal((3, 3, channels)) * np.sqrt(2.0 / 9))
        self.parameters = [self.weight]

    def forward(self, x, training):
        self.columns = neighbourhoods(x, 3)
        return np.einsum("nhwijc,ijc->nhwc", self.columns, self.weight.value)

    def backward(self, dy):
        self.weight.gradient = np.einsum("nhwijc,nhwc->ijc", self.columns, dy)
        return scatter_neighbourhoods(dy[:, :, :, None, None, :] * self.weight.value)


class BatchNorm(Layer):
    """Normalises every channel: by the batch in training, by running statistics afterwards."""

    epsilon = 1e-5
    momentum = 0.9

    def __init__(self, channels):
        self.scale = Parameter(np.ones(channels))
        self.bias = Parameter(np.zeros(channels))
        self.running_mean = np.zeros(channels, np.float32)
        self.running_variance = np.ones(channels, np.float32)
        self.parameters = [self.scale, self.bias]

    def forward(self, x, training):
        if not training:
            deviation = np.sqrt(self.running_variance + np.float32(self.epsilon))
            return (x - self.running_mean) / deviation * self.scale.value + self.bias.value
        mean = x.mean((0, 1, 2))
        variance = x.var((0, 1, 2))
        keep = np.float32(self.momentum)
        self.running_mean = keep * self.running_mean + (1 - keep) * mean
        self.running_variance = keep * self.running_variance + (1 - keep) * variance
        self.deviation = np.sqrt(variance + np.float32(self.epsilon))
        self.normalised = (x - mean) / self.deviation
        return self.normalised * self.scale.value + self.bias.value

    def backward(self, dy):
        self.scale.gradient = (dy * self.normalised).sum((0, 1, 2))
        self.bias.gradient = dy.sum((0, 1, 2))
        count = np.float32(dy.size // dy.shape[-1])
        centred = dy - (self.bias.gradient + self.normalised * self.scale.gradient) / count
        return centred * (self.scale.value / self.deviation)


class Relu(Layer):
    def forward(self, x, training):
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy):
        return dy * self.positive


class MaxPool(Layer):
    """2x2 maximum with stride 2; the gradient goes to the first of equal maxima."""

    def forward(self, x, training):
        n, h, w, c = x.shape
        blocks = x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 5, 2, 4)
        blocks = blocks.reshape(n, h // 2, w // 2, c, 4)
        self.shape = x.shape
        self.chosen = blocks.argmax(-1)
        return blocks.max(-1)

    def backward(self, dy):
        n, h, w, c = self.shape
        blocks = np.eye(4, dtype=np.float32)[self.chosen] * dy[..., None]
        blocks = blocks.reshape(n, h // 2, w // 2, c, 2, 2).transpose(0, 1, 4, 2, 5, 3)
        return blocks.reshape(self.shape)


class Residual(Layer):
    """x + branch(x)."""

    def __init__(self, *layers):
        self.layers = layers
        self.parameters = [p for layer in layers for p in layer.parameters]

    def forward(self, x, training):
        y = x
        for layer in self.layers:
            y = layer.forward(y, training)
        return x + y

    def backward(self, dy):
        dx = dy
        for layer in reversed(self.layers):
            dx = layer.backward(dx)
        return dy + dx


class Dense(Layer):
    """Flattens in [channels, height, width] order, ONNX's own, then x W + b."""

    def __init__(self, rng, inputs, outputs):
        self.weight = Parameter(rng.standard_normal((inputs, outputs)) * np.sqrt(1.0 / inputs))
        self.bias = Parameter(np.zeros(outputs))
        self.parameters = [self.weight, self.bias]

    def forward(self, x, training):
        self.shape = x.shape
        self.flat = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
        return self.flat @ self.weight.value + self.bias.value

    def backward(self, dy):
        n, h, w, c = self.shape
        self.weight.gradient = self.flat.T @ dy
        self.bias.gradient = dy.sum(0)
        return (dy @ self.weight.value.T).reshape(n, c, h, w).transpose(0, 2, 3, 1)


class Adam:
    """Adam with decoupled weight decay on matrices and filters."""

    def __init__(self, parameters, decay):
        self.parameters = parameters
        self.decay = decay
        self.steps = 0

    def step(self, rate):
        self.steps += 1
        mean_bias, variance_bias = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        for p in self.parameters:
            p.mean = np.float32(0.9) * p.mean + np.float32(0.1) * p.gradient
            p.variance = np.float32(0.999) * p.variance + np.float32(0.001) * p.gradient**2
            update = (p.mean / mean_bias) / (np.sqrt(p.variance / variance_bias) + 1e-8)
            if p.value.ndim > 1:
                update = update + self.decay * p.value
            p.value = (p.value - rate * update).astype(np.float32)


def softmax(logits):
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)
