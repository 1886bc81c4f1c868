"""The networks of the GPU benchmark as torch modules with seeded random weights.

Weights alone are not enough for a fair comparison: with torch's initial values deep networks fade or
blow up and every implementation is compared on zeros. So the batch statistics of each normalisation are
taken from seeded noise, layer by layer, which keeps the activations at unit scale, and the layer scales
that start near zero (ConvNeXt's) are set to values that matter. Sums of a residual block take a fifth
of their branch, as in trained networks: with branches as large as what they are added to, each
block multiplies the rounding errors of those before it, and outputs in fp16 say little about kernels.
"""

from dataclasses import dataclass
from typing import Callable

import torch
import torchvision
from torch import nn


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Ronneberger et al., 2015, with padding, batch normalisation and transposed convolutions."""

    def __init__(self, base=64, depth=4, classes=2):
        super().__init__()
        widths = [base << i for i in range(depth + 1)]
        self.down = nn.ModuleList(double_conv(i, o) for i, o in zip([3, *widths], widths))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in zip(widths[:0:-1], widths[-2::-1])
        )
        self.merge = nn.ModuleList(double_conv(2 * o, o) for o in widths[-2::-1])
        self.head = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        kept = []
        for level in self.down[:-1]:
            kept.append(level(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.down[-1](x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


class Tracker(nn.Module):
    """A convolution-only network over eight channels of a signal: 1-d convolutions with stride and
    dilation, residual blocks, and transposed convolutions back to the rate of the input."""

    def __init__(self, width=96):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv1d(8, width // 2, 9, stride=2, padding=4),
            nn.BatchNorm1d(width // 2),
            nn.ReLU(),
            nn.Conv1d(width // 2, width, 5, stride=2, padding=2),
            nn.BatchNorm1d(width),
            nn.ReLU(),
        )
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, width, 3, padding=1 << i, dilation=1 << i),
                nn.BatchNorm1d(width),
                nn.ReLU(),
                nn.Conv1d(width, width, 1),
                nn.BatchNorm1d(width),
            )
            for i in range(4)
        )
        self.decode = nn.Sequential(
            nn.ConvTranspose1d(width, width // 2, 4, stride=2, padding=1),
            nn.BatchNorm1d(width // 2),
            nn.ReLU(),
            nn.ConvTranspose1d(width // 2, 4, 4, stride=2, padding=1),
        )

    def forward(self, x):
        x = self.encode(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.decode(x)


def additive_mask(seen):
    return torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))


class TransformerLayer(nn.Module):
    """Attention and two products, each added to what it reads: normalised before (GPT-2), or after
    (BERT)."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.activation = nn.GELU(approximate="tanh" if causal else "none")
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def attend(self, x, mask):
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.project(x).split(width, dim=2)
        )
        # The exporter adds a causal mask of f32 to scores of f16, which ONNX does not know.
        exported = self.causal and torch.onnx.is_in_onnx_export()
        if exported:
            mask = additive_mask(torch.ones(tokens, tokens, dtype=torch.bool).tril()).to(x)
        y = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal and not exported
        )
        return self.merge(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x, mask):
        for norm, step in zip(self.norms, (self.attend, self.expand)):
            x = x + step(norm(x), mask) if self.causal else norm(x + step(x, mask))
        return x

    def expand(self, x, _):
        return self.narrow(self.activation(self.widen(x)))


class Transformer(nn.Module):
    """The layers of GPT-2 (causal) or of BERT-base, on embedded tokens. BERT's mask hides the last
    eighth of them, as padding."""

    def __init__(self, tokens, causal, layers=12, width=768, heads=12):
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(width, heads, causal) for _ in range(layers))
        seen = torch.arange(tokens) < tokens - tokens // 8
        self.register_buffer("mask", None if causal else additive_mask(seen.view(1, 1, 1, tokens)))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, self.mask)
        return x


@dataclass(frozen=True)
class Network:
    make: Callable[[], nn.Module]
    shape: tuple  # of one input, without the batch


def classifier(name):
    return lambda: getattr(torchvision.models, name)(weights=None)


NETWORKS = {
    "resnet50": Network(classifier("resnet50"), (3, 224, 224)),
    "mobilenet_v2": Network(classifier("mobilenet_v2"), (3, 224, 224)),
    "efficientnet_b0": Network(classifier("efficientnet_b0"), (3, 256, 256)),
    "convnext_tiny": Network(classifier("convnext_tiny"), (3, 256, 256)),
    "densenet121": Network(classifier("densenet121"), (3, 224, 224)),
    "regnet_y_400mf": Network(classifier("regnet_y_400mf"), (3, 224, 224)),
    "unet": Network(UNet, (3, 256, 256)),
    "tracker": Network(Tracker, (8, 4096)),
    "vit_b16": Network(classifier("vit_b_16"), (3, 224, 224)),
    "bert_128": Network(lambda: Transformer(128, causal=False), (128, 768)),
    "bert_384": Network(lambda: Transformer(384, causal=False), (384, 768)),
    "gpt2_1024": Network(lambda: Transformer(1024, causal=True), (1024, 768)),
}


def last_norms(module):
    """The normalisations that end the branches of residual blocks."""
    for part in module.modules():
        kind = type(part).__name__
        if kind == "Bottleneck":
            yield part.bn3
        elif kind == "InvertedResidual" and part.use_res_connect:
            yield part.conv[-1]
        elif kind == "MBConv" and part.use_res_connect:
            yield part.block[-1][1]
        elif kind == "ResBottleneckBlock":
            yield part.f.c[1]
        elif kind == "Tracker":
            yield from (block[-1] for block in part.blocks)


def build(name, seed=1):
    """The network in evaluation mode, fp32, on the CPU."""
    torch.manual_seed(seed)
    network = NETWORKS[name]
    module = network.make()
    for parameter_name, parameter in module.named_parameters():
        if parameter_name.endswith("layer_scale"):
            nn.init.uniform_(parameter, 0.2, 0.6)
        elif parameter_name == "heads.head.weight":  # ViT's are zero, and all that is compared
            nn.init.normal_(parameter, std=0.02)
    norms = (nn.BatchNorm1d, nn.BatchNorm2d)
    for part in module.modules():
        if isinstance(part, norms):
            nn.init.uniform_(part.weight, 0.6, 1.2)
            nn.init.uniform_(part.bias, -0.5, 0.5)
            part.momentum = None  # the plain mean over the batches seen
        elif isinstance(part, nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
    for norm in last_norms(module):
        norm.weight.data.mul_(0.2)
    if any(isinstance(part, norms) for part in module.modules()):
        module.train()
        with torch.no_grad():
            module(torch.randn(8, *network.shape))
    return module.eval()
