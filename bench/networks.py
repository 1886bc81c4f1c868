#!/usr/bin/env python3
"""The networks of the benchmarks as torch modules with seeded random weights.

    bench/networks.py DIR [NAME...]

writes each as DIR/NAME/model.onnx with inputs and outputs beside it, in fp32 at batch 1, for bench/cpu.py.

Weights alone are not enough for a fair comparison: with torch's initial values deep networks fade or
blow up and every implementation is compared on zeros. So the batch statistics of each normalisation are
taken from seeded noise, layer by layer, which keeps the activations at unit scale, and the layer scales
that start near zero (ConvNeXt's) are set to values that matter. Sums of a residual block take a fifth
of their branch, as in trained networks: with branches as large as what they are added to, each
block multiplies the rounding errors of those before it, and outputs in fp16 say little about kernels.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import audio
import diffusion
import from_transformers
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


def conv_unit(inputs, outputs, kernel=1, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.SiLU(),
    )


class SplitStage(nn.Module):
    """A stage of a one-stage detector: half of the channels goes through residual blocks, everything that
    they make is concatenated."""

    def __init__(self, inputs, outputs, blocks, residual=True):
        super().__init__()
        half, self.residual = outputs // 2, residual
        self.enter = conv_unit(inputs, outputs)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv_unit(half, half, 3), conv_unit(half, half, 3)) for _ in range(blocks)
        )
        self.leave = conv_unit(half * (2 + blocks), outputs)

    def forward(self, x):
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.leave(torch.cat(parts, 1))


class PyramidPool(nn.Module):
    """Three pools one behind the other, all of them concatenated."""

    def __init__(self, channels):
        super().__init__()
        self.enter, self.leave = conv_unit(channels, channels // 2), conv_unit(channels * 2, channels)

    def forward(self, x):
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class Detector(nn.Module):
    """A one-stage detector without anchors (the family of YOLOv8, at its smallest width): a pyramid up and
    down, distances to the sides of a box as distributions over 16 bins, sigmoids of 80 classes. The output
    has a row of four corners and the classes for every place: [batch, places, 84]."""

    def __init__(self, width=16, classes=80, bins=16):
        super().__init__()
        w = [width << i for i in range(5)]
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(
            conv_unit(3, w[0], 3, 2), conv_unit(w[0], w[1], 3, 2), SplitStage(w[1], w[1], 1)
        )
        self.down = nn.ModuleList(
            nn.Sequential(conv_unit(i, o, 3, 2), SplitStage(o, o, blocks))
            for i, o, blocks in zip(w[1:], w[2:], (2, 2, 1))
        )
        self.pool = PyramidPool(w[4])
        self.up = nn.ModuleList(
            SplitStage(i + o, o, 1, residual=False) for i, o in ((w[4], w[3]), (w[3], w[2]))
        )
        self.again = nn.ModuleList(conv_unit(c, c, 3, 2) for c in w[2:4])
        self.merge = nn.ModuleList(
            SplitStage(c + d, d, 1, residual=False) for c, d in ((w[2], w[3]), (w[3], w[4]))
        )
        self.boxes = nn.ModuleList(self.head(c, 64, 4 * bins) for c in w[2:])
        self.scores = nn.ModuleList(self.head(c, classes, classes) for c in w[2:])

    @staticmethod
    def head(channels, inner, outputs):
        return nn.Sequential(
            conv_unit(channels, inner, 3), conv_unit(inner, inner, 3), nn.Conv2d(inner, outputs, 1)
        )

    def forward(self, x):
        x = self.stem(x)
        levels = []
        for stage in self.down:
            x = stage(x)
            levels.append(x)
        levels[2] = x = self.pool(x)
        for at, stage in zip((1, 0), self.up):
            x = stage(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), levels[at]], 1))
            levels[at] = x
        for at, (shrink, stage) in enumerate(zip(self.again, self.merge)):
            levels[at + 1] = stage(torch.cat([shrink(levels[at]), levels[at + 1]], 1))
        boxes = torch.cat([head(l).flatten(2) for head, l in zip(self.boxes, levels)], 2)
        scores = torch.cat([head(l).flatten(2) for head, l in zip(self.scores, levels)], 2)
        batch, _, places = boxes.shape
        bins = torch.arange(self.bins, device=x.device, dtype=x.dtype)
        share = boxes.view(batch, 4, self.bins, places).softmax(2)
        distances = (share * bins.view(1, 1, -1, 1)).sum(2) / self.bins
        return torch.cat([distances, scores.sigmoid()], 1).transpose(1, 2)


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
    """`shape`: of the one input, without the batch. `tokens`: the input holds numbers below it, as int64."""

    make: Callable[[], nn.Module]
    shape: tuple
    tokens: int = 0

    def example(self, batch, dtype=torch.float32, device="cpu"):
        """A seeded input."""
        if self.tokens:
            return torch.randint(self.tokens, (batch, *self.shape), device=device)
        return torch.randn(batch, *self.shape, device=device).to(dtype)


def cast(x, dtype):
    """An input in another type; numbers of tokens stay what they are."""
    return x.to(dtype) if x.is_floating_point() else x


def vision(name, **options):
    """A network of torchvision's; `options` are its own."""

    def make():
        options_of_all = {"weights": None, **options}
        return getattr(torchvision.models, name)(**options_of_all)

    return make


def segmenter(name):
    return lambda: First(getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None), "out")


class First(nn.Module):
    """A module that answers with a dictionary, as one of a single result."""

    def __init__(self, module, key):
        super().__init__()
        self.module, self.key = module, key

    def forward(self, x):
        return self.module(x)[self.key]


def channels_last(make):
    return lambda: make().to(memory_format=torch.channels_last)


LATENTS = sum(diffusion.TwoLevelUNet.SIZES)

NETWORKS = {
    "resnet50": Network(vision("resnet50"), (3, 224, 224)),
    "mobilenet_v2": Network(vision("mobilenet_v2"), (3, 224, 224)),
    "efficientnet_b0": Network(vision("efficientnet_b0"), (3, 256, 256)),
    "convnext_tiny": Network(vision("convnext_tiny"), (3, 256, 256)),
    "densenet121": Network(vision("densenet121"), (3, 224, 224)),
    "regnet_y_400mf": Network(vision("regnet_y_400mf"), (3, 224, 224)),
    "mobilenet_v3_large": Network(vision("mobilenet_v3_large"), (3, 224, 224)),
    "shufflenet_v2_x1_0": Network(vision("shufflenet_v2_x1_0"), (3, 224, 224)),
    "resnext50": Network(vision("resnext50_32x4d"), (3, 224, 224)),
    "inception_v3": Network(vision("inception_v3", init_weights=False, aux_logits=False), (3, 299, 299)),
    "maxvit_t": Network(vision("maxvit_t"), (3, 224, 224)),
    "swin_t": Network(vision("swin_t"), (3, 224, 224)),
    "vit_b16": Network(vision("vit_b_16"), (3, 224, 224)),
    "deeplabv3_resnet50": Network(segmenter("deeplabv3_resnet50"), (3, 224, 224)),
    "video_resnet18": Network(lambda: torchvision.models.video.r3d_18(weights=None), (3, 16, 112, 112)),
    "detector": Network(Detector, (3, 640, 640)),
    "unet": Network(UNet, (3, 256, 256)),
    "tracker": Network(Tracker, (8, 4096)),
    "noise_suppressor": Network(audio.NoiseSuppressor, (100, 257)),
    "voice_detector": Network(audio.VoiceDetector, (16 * 512,)),
    "bert_128": Network(lambda: Transformer(128, causal=False), (128, 768)),
    "bert_384": Network(lambda: Transformer(384, causal=False), (384, 768)),
    "gpt2_1024": Network(lambda: Transformer(1024, causal=True), (1024, 768)),
    "sd_unet": Network(channels_last(diffusion.TwoLevelUNet), (LATENTS,)),
    "sd_unet_whole": Network(channels_last(diffusion.StableDiffusionUNet), (LATENTS,)),
    "sd_decoder": Network(channels_last(diffusion.ImageDecoder), (4, 64, 64)),
    "dit_xl2": Network(diffusion.DiffusionTransformer, (4 * 32 * 32 + 1152,)),
    "minilm": Network(from_transformers.minilm, (128,), tokens=30522),
    "clip_image": Network(from_transformers.clip_image, (3, 224, 224)),
    "clip_text": Network(from_transformers.clip_text, (77,), tokens=49408),
    "dinov2_b": Network(from_transformers.dinov2, (3, 518, 518)),
    "sam_encoder": Network(from_transformers.sam_encoder, (3, 1024, 1024)),
    "depth_anything_s": Network(from_transformers.depth_anything, (3, 518, 518)),
    "rt_detr": Network(from_transformers.rt_detr, (3, 640, 640)),
    "conformer": Network(from_transformers.conformer, (16000,)),
    "wav2vec": Network(from_transformers.wav2vec, (16000,)),
    "whisper_encoder": Network(from_transformers.whisper_encoder, (80, 3000)),
    "t5_encoder": Network(from_transformers.t5_encoder, (128,), tokens=32128),
}


def network(name):
    """One of the table, or `timm:NAME` (the package timm's, for images of its default size)."""
    if not name.startswith("timm:"):
        return NETWORKS[name]
    import timm

    timm_name = name.removeprefix("timm:")
    return Network(lambda: timm.create_model(timm_name), timm.get_pretrained_cfg(timm_name).input_size)


def last_layers(module):
    """The layers that end the branches of residual blocks: normalisations where there are any, else the
    convolution. Blocks are known by what they are made of, since several families share a name."""
    for part in module.modules():
        kind = type(part).__name__
        if kind in ("BasicBlock", "Bottleneck"):
            last = "2" if kind == "BasicBlock" else "3"
            # Those of videos keep the normalisation behind its convolution.
            yield getattr(part, "bn" + last) if hasattr(part, "bn" + last) else getattr(part, "conv" + last)[1]
        elif kind == "InvertedResidual" and getattr(part, "use_res_connect", False):
            # MobileNetV2 has `conv`, MobileNetV3 `block`; ShuffleNet's has no sum.
            yield part.conv[-1] if hasattr(part, "conv") else part.block[-1][1]
        elif kind == "MBConv" and hasattr(part, "layers"):  # MaxViT's always has a sum
            yield part.layers[-1]
        elif kind in ("MBConv", "FusedMBConv") and getattr(part, "use_res_connect", False):
            yield part.block[-1][1]
        elif kind == "ResBottleneckBlock":
            yield part.f.c[1]
        elif kind == "_InvertedResidual" and part.apply_residual:  # MNASNet
            yield part.layers[-1]
        elif kind == "SplitStage" and part.residual:
            yield from (block[-1][1] for block in part.blocks)
        elif kind == "Tracker":
            yield from (block[-1] for block in part.blocks)


def settle(module, example):
    """Gives a module with random weights activations of unit scale for inputs like the example, which has several
    in its batch, as the head of this file says, and puts it in evaluation mode."""
    for parameter_name, parameter in module.named_parameters():
        if parameter_name.endswith("layer_scale"):
            nn.init.uniform_(parameter, 0.2, 0.6)
        elif parameter_name == "heads.head.weight":  # ViT's are zero, and all that is compared
            nn.init.normal_(parameter, std=0.02)
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    for part in module.modules():
        if isinstance(part, norms):
            nn.init.uniform_(part.weight, 0.6, 1.2)
            nn.init.uniform_(part.bias, -0.5, 0.5)
            part.momentum = None  # the plain mean over the batches seen
        elif isinstance(part, nn.GroupNorm):
            nn.init.uniform_(part.weight, 0.6, 1.2)
            nn.init.uniform_(part.bias, -0.5, 0.5)
        elif isinstance(part, nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
    for layer in last_layers(module):
        layer.weight.data.mul_(0.2)
    if any(isinstance(part, norms) for part in module.modules()):
        module.train()
        with torch.no_grad():
            module(example)
    return module.eval()


def build(name, seed=1):
    """The network in evaluation mode, fp32, on the CPU."""
    torch.manual_seed(seed)
    chosen = network(name)
    return settle(chosen.make(), chosen.example(8))


def export(module, example, path):
    """The module as ONNX, in the type of its weights. Batch normalisations stay as they are: the
    exporter would fold them into the weights in half precision and round these once more. The
    operator in which torch hides the attention of nn.MultiheadAttention has no form in ONNX."""
    torch.backends.mha.set_fastpath_enabled(False)
    torch.onnx.export(
        module, (example,), str(path), opset_version=17, dynamo=False,
        input_names=["x"], output_names=["y"],
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
    )  # fmt: skip


def write(name, folder):
    """A model folder with a data set."""
    from onnx import numpy_helper

    module, example = build(name), NETWORKS[name].example(1)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        export(module, example, folder / "model.onnx")
        for kind, tensor, value in (("input", "x", example), ("output", "y", module(example))):
            (data / f"{kind}_0.pb").write_bytes(numpy_helper.from_array(value.numpy(), tensor).SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: bench/networks.py DIR [NAME...]")
    for chosen in sys.argv[2:] or NETWORKS:
        if chosen not in NETWORKS:
            sys.exit(f"networks.py: no network '{chosen}'; there are {', '.join(NETWORKS)}")
        write(chosen, Path(sys.argv[1]) / chosen)
        print(chosen, flush=True)
