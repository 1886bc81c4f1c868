"""Random convolution networks as torch modules: what whole networks have between their layers, in
combinations that nobody wrote down. `RandomNetwork(seed)` is the same module for the same seed.

Every block takes an image and gives one, whose shape it says itself, so that any block may stand behind any
other: splits and concatenations, gates, pyramids, shuffles of channels and pixels, attention over the
pixels, large, dilated, grouped and one-dimensional windows, transposed convolutions, pools.
"""

import random

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = (nn.ReLU, nn.SiLU, nn.GELU, nn.Hardswish, nn.LeakyReLU, nn.ELU, nn.Mish, nn.ReLU6, nn.Softplus)


class LastNorm(nn.Module):
    """Layer normalisation over the channels of an image."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def norm(r, channels):
    kind = r.random()
    if kind < 0.7:
        return nn.BatchNorm2d(channels)
    if kind < 0.85 and channels % 8 == 0:
        return nn.GroupNorm(8, channels)
    return LastNorm(channels)


def unit(r, inputs, outputs, kernel=None, stride=1, groups=1, dilation=1):
    """Convolution, normalisation, activation."""
    k = kernel or r.choice((1, 3, 3, 5))
    kernel = k if isinstance(k, tuple) else (k, k)
    padding = tuple(dilation * (size // 2) for size in kernel)
    bias = r.random() < 0.3
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias)
    return nn.Sequential(conv, norm(r, outputs), r.choice(ACTIVATIONS)())


class Split(nn.Module):
    """Parts of the channels, equal or not, each on its own way, and together again."""

    def __init__(self, r, channels):
        super().__init__()
        first = channels // 2 if r.random() < 0.5 else channels // 4 + r.choice((0, 3))
        self.sizes = [first, channels - first]
        self.ways = nn.ModuleList([unit(r, self.sizes[0], self.sizes[0]), unit(r, self.sizes[1], channels)])
        self.keep, self.outputs = r.random() < 0.5, self.sizes[0] + channels
        if self.keep:
            self.outputs += channels

    def forward(self, x):
        parts = [way(part) for way, part in zip(self.ways, x.split(self.sizes, 1))]
        return torch.cat(parts + ([x] if self.keep else []), 1)


class Gate(nn.Module):
    """A factor for each channel (squeeze and excitation), for each pixel, or half of the channels."""

    def __init__(self, r, channels):
        super().__init__()
        self.kind, self.outputs = r.choice(("channels", "pixels", "halves")), channels
        hidden = max(4, channels // r.choice((2, 4, 8)))
        self.down, self.up = nn.Conv2d(channels, hidden, 1), nn.Conv2d(hidden, channels, 1)
        self.pixel, self.wide = nn.Conv2d(channels, 1, 3, padding=1), nn.Conv2d(channels, 2 * channels, 1)
        self.hard = r.random() < 0.5

    def forward(self, x):
        factor = F.hardsigmoid if self.hard else torch.sigmoid
        if self.kind == "channels":
            return x * factor(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))
        if self.kind == "pixels":
            return x * factor(self.pixel(x))
        return F.glu(self.wide(x), 1)


class Pyramid(nn.Module):
    """Down by strides and up again, summed with what was on the way."""

    def __init__(self, r, channels):
        super().__init__()
        self.outputs = channels
        self.down = nn.ModuleList(unit(r, channels, channels, 3, 2) for _ in range(2))
        self.side = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(2))
        self.mode = r.choice(("nearest", "bilinear"))

    def forward(self, x):
        levels = [x]
        for down in self.down:
            levels.append(down(levels[-1]))
        y = levels.pop()
        for side in self.side:
            level = levels.pop()
            y = 0.5 * F.interpolate(y, size=level.shape[2:], mode=self.mode) + side(level)
        return y


class Shuffle(nn.Module):
    """Grouped 1x1 convolutions with the channels shuffled between them, a depthwise one behind."""

    def __init__(self, r, channels):
        super().__init__()
        self.groups = next(g for g in (r.choice((2, 4, 3)), 2, 1) if channels % g == 0)
        self.enter = unit(r, channels, channels, 1, groups=self.groups)
        self.middle = unit(r, channels, channels, r.choice((3, 5)), groups=channels)
        self.leave = nn.Conv2d(channels, channels, 1, groups=self.groups)
        self.outputs = channels

    def forward(self, x):
        y = self.enter(x)
        n, c, h, w = y.shape
        y = y.view(n, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(n, c, h, w)
        return x + 0.5 * self.leave(self.middle(y))


class Pixels(nn.Module):
    """Channels become pixels and pixels channels."""

    def __init__(self, r, channels):
        super().__init__()
        self.widen = nn.Conv2d(channels, 4 * (channels // 2), 1)
        self.fold = unit(r, 4 * (channels // 2), channels, 1)
        self.outputs = channels

    def forward(self, x):
        y = F.pixel_shuffle(self.widen(x), 2)
        return self.fold(F.pixel_unshuffle(F.relu(y), 2))


class Attention(nn.Module):
    """A transformer layer over the pixels."""

    def __init__(self, r, channels):
        super().__init__()
        self.heads, self.size, self.outputs = r.choice((1, 2, 4)), r.choice((16, 32, 40, 64)), channels
        inner = self.heads * self.size
        self.before, self.behind = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.project, self.merge = nn.Linear(channels, 3 * inner), nn.Linear(inner, channels)
        self.widen, self.narrow = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)

    def forward(self, x):
        n, c, h, w = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        q, k, v = (
            part.view(n, h * w, self.heads, self.size).transpose(1, 2)
            for part in self.project(self.before(tokens)).chunk(3, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, -1)
        tokens = tokens + 0.5 * self.merge(y)
        tokens = tokens + 0.5 * self.narrow(F.gelu(self.widen(self.behind(tokens))))
        return tokens.transpose(1, 2).reshape(n, c, h, w)


class Large(nn.Module):
    """A large or dilated depthwise window, normalised over the channels, two products behind."""

    def __init__(self, r, channels):
        super().__init__()
        kernel, dilation = r.choice(((7, 1), (9, 1), (13, 1), (5, 2), (3, 6)))
        self.window = nn.Conv2d(channels, channels, kernel, 1, dilation * (kernel // 2), dilation, channels)
        self.norm, self.outputs = LastNorm(channels), channels
        self.widen, self.narrow = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(3 * channels, channels, 1)

    def forward(self, x):
        return x + 0.5 * self.narrow(F.gelu(self.widen(self.norm(self.window(x)))))


class Dilated(nn.Module):
    """Windows of several dilations and the mean of the image side by side."""

    def __init__(self, r, channels):
        super().__init__()
        each = max(8, channels // 2)
        self.ways = nn.ModuleList(unit(r, channels, each, 3, dilation=d) for d in r.sample((1, 2, 4, 6, 12), 3))
        self.mean, self.leave = nn.Conv2d(channels, each, 1), unit(r, 4 * each, channels, 1)
        self.outputs = channels

    def forward(self, x):
        mean = F.relu(self.mean(F.adaptive_avg_pool2d(x, 1))).expand(-1, -1, *x.shape[2:])
        return self.leave(torch.cat([way(x) for way in self.ways] + [mean], 1))


class Residual(nn.Module):
    """Two or three convolutions added to what they read; windows square, flat or grouped."""

    def __init__(self, r, channels):
        super().__init__()
        groups = r.choice([g for g in (1, 1, 2, 4, 8) if channels % g == 0])
        flat = r.random() < 0.3
        self.branch = nn.Sequential(
            unit(r, channels, channels, (1, 7) if flat else 3, groups=groups),
            unit(r, channels, channels, (7, 1) if flat else r.choice((1, 3)), groups=groups),
            nn.Conv2d(channels, channels, 1),
        )
        self.outputs = channels

    def forward(self, x):
        return F.relu(x + 0.5 * self.branch(x))


class Resample(nn.Module):
    """Half the size by a stride or a pool, or twice the size by a transposed convolution, other channels."""

    def __init__(self, r, channels, small):
        super().__init__()
        self.outputs = max(16, min(192, int(channels * r.choice((1, 1.5, 2))) // 8 * 8))
        self.kind = "up" if small else r.choice(("stride", "max", "mean"))
        if self.kind == "up":
            self.layer = nn.ConvTranspose2d(channels, self.outputs, *r.choice(((2, 2, 0), (4, 2, 1), (3, 2, 1))))
        else:
            self.layer = unit(r, channels, self.outputs, r.choice((1, 3)), 2 if self.kind == "stride" else 1)
        self.ceil = r.random() < 0.3

    def forward(self, x):
        y = self.layer(x)
        if self.kind == "max":
            return F.max_pool2d(y, 3, 2, 1, ceil_mode=self.ceil)
        return F.avg_pool2d(y, 2, 2) if self.kind == "mean" else y


BLOCKS = (Split, Gate, Pyramid, Shuffle, Pixels, Attention, Large, Dilated, Residual)


class RandomNetwork(nn.Module):
    """A stem, four to seven blocks with changes of size between them, and a head that gives classes or
    an image. `shape` is that of one input, without the batch."""

    def __init__(self, seed):
        super().__init__()
        r = random.Random(seed)
        side, channels = r.choice((24, 33, 40, 48, 64)), r.choice((16, 24, 32, 48, 64, 96))
        self.shape = (3, side, side + r.choice((0, 0, 7)))
        layers = [unit(r, 3, channels, r.choice((3, 5, 7)), r.choice((1, 2)))]
        side = side // 2 if layers[0][0].stride[0] == 2 else side
        for _ in range(r.randint(4, 7)):
            if r.random() < 0.4:
                layers.append(Resample(r, channels, side < 16))
                side = side * 2 if side < 16 else (side + 1) // 2
                channels = layers[-1].outputs
            # Attention over more pixels would be most of the network.
            kinds = [kind for kind in BLOCKS if kind is not Attention or side <= 32]
            layers.append(r.choice(kinds)(r, channels))
            channels = layers[-1].outputs
        self.layers = nn.Sequential(*layers)
        self.classes = r.random() < 0.5
        self.head = nn.Linear(channels, 50) if self.classes else nn.Conv2d(channels, 5, 1)

    def forward(self, x):
        x = self.layers(x)
        return self.head(x.mean((2, 3))) if self.classes else self.head(x)
