"""The networks of image diffusion as torch modules: Stable Diffusion 1.5's UNet and the decoder of its
autoencoder, and the transformer blocks of DiT."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class ResidualStep(nn.Module):
    """A residual block: group norms with SiLU around convolutions, and what the time step, where there is one, adds
    to its channels."""

    def __init__(self, inputs, outputs, time=None):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(32, c) for c in (inputs, outputs))
        self.convolutions = nn.ModuleList(nn.Conv2d(c, outputs, 3, padding=1) for c in (inputs, outputs))
        self.time = nn.Linear(time, outputs) if time else None
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time=None):
        y = self.convolutions[0](F.silu(self.norms[0](x)))
        if self.time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.convolutions[1](F.silu(self.norms[1](y)))


class CrossAttention(nn.Module):
    def __init__(self, width, seen, heads, bias=False):
        super().__init__()
        self.heads = heads
        self.query, self.merge = nn.Linear(width, width, bias=bias), nn.Linear(width, width)
        self.key, self.value = (nn.Linear(seen, width, bias=bias) for _ in range(2))

    def forward(self, x, seen):
        q, k, v = (
            y.view(*y.shape[:2], self.heads, y.shape[2] // self.heads).transpose(1, 2)
            for y in (self.query(x), self.key(seen), self.value(seen))
        )
        return self.merge(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class SpatialTransformer(nn.Module):
    """One transformer block over the pixels of an image: attention among them, to a text, and a gated
    product (GEGLU)."""

    def __init__(self, width, text, heads):
        super().__init__()
        self.norm = nn.GroupNorm(32, width, eps=1e-6)
        self.enter, self.leave = (nn.Conv2d(width, width, 1) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.itself, self.text = CrossAttention(width, width, heads), CrossAttention(width, text, heads)
        self.widen, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, image, text):
        x = self.enter(self.norm(image)).flatten(2).transpose(1, 2)
        y = self.norms[0](x)
        x = x + self.itself(y, y)
        x = x + self.text(self.norms[1](x), text)
        value, gate = self.widen(self.norms[2](x)).chunk(2, dim=-1)
        x = x + self.narrow(value * F.gelu(gate))
        return image + self.leave(x.transpose(1, 2).reshape(image.shape))


class Level(nn.Module):
    """A residual block of a UNet, and the transformer block behind it where the level has them."""

    def __init__(self, inputs, width, text, time, heads):
        super().__init__()
        self.residual = ResidualStep(inputs, width, time)
        self.attention = SpatialTransformer(width, text, heads) if heads else None

    def forward(self, x, time, text):
        x = self.residual(x, time)
        return x if self.attention is None else self.attention(x, text)


class StableDiffusionUNet(nn.Module):
    """Stable Diffusion 1.5's UNet: two blocks a level on the way down, three on the way up, each of which takes what
    the way down left; the innermost level has no attention. With four levels it has 860 million parameters.

    Latents, text and the embedded time step come in one row, since inputs of these networks are one tensor."""

    LATENT, TEXT, TIME = (4, 64, 64), (77, 768), (1280,)
    SIZES = [4 * 64 * 64, 77 * 768, 1280]

    def __init__(self, widths=(320, 640, 1280, 1280), heads=8):
        super().__init__()
        text, time = self.TEXT[1], self.TIME[0]
        attending = [heads] * (len(widths) - 1) + [0]
        self.enter = nn.Conv2d(4, widths[0], 3, padding=1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        kept, inputs = [widths[0]], widths[0]
        for i, width in enumerate(widths):
            self.down.append(nn.ModuleList(Level(inputs if k == 0 else width, width, text, time, attending[i]) for k in range(2)))
            kept += [width, width]
            inputs = width
            if i + 1 < len(widths):
                self.shrink.append(nn.Conv2d(width, width, 3, 2, 1))
                kept.append(width)
        self.middle = Level(inputs, inputs, text, time, heads)
        self.last = ResidualStep(inputs, inputs, time)
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        for i, width in reversed(list(enumerate(widths))):
            level = nn.ModuleList()
            for _ in range(3):
                level.append(Level(inputs + kept.pop(), width, text, time, attending[i]))
                inputs = width
            self.up.append(level)
            if i > 0:
                self.grow.append(nn.Conv2d(width, width, 3, padding=1))
        self.norm, self.leave = nn.GroupNorm(32, widths[0]), nn.Conv2d(widths[0], 4, 3, padding=1)

    def forward(self, x):
        latent, text, time = x.split(self.SIZES, dim=1)
        text = text.reshape(-1, *self.TEXT)
        x = self.enter(latent.reshape(-1, *self.LATENT).contiguous(memory_format=torch.channels_last))
        kept = [x]
        for i, level in enumerate(self.down):
            for block in level:
                x = block(x, time, text)
                kept.append(x)
            if i < len(self.shrink):
                x = self.shrink[i](x)
                kept.append(x)
        x = self.last(self.middle(x, time, text), time)
        for i, level in enumerate(self.up):
            for block in level:
                x = block(torch.cat([x, kept.pop()], 1), time, text)
            if i < len(self.grow):
                x = self.grow[i](F.interpolate(x, scale_factor=2.0))
        return self.leave(F.silu(self.norm(x)))


class TwoLevelUNet(nn.Module):
    """The two outer levels of Stable Diffusion 1.5's UNet (320 and 640 channels, 8 heads), with two
    blocks a level each way. Its input is as the whole UNet's."""

    LATENT, TEXT, TIME = (4, 64, 64), (77, 768), (1280,)
    SIZES = [4 * 64 * 64, 77 * 768, 1280]

    def __init__(self, widths=(320, 640), blocks=2, heads=8):
        super().__init__()
        text, time = self.TEXT[1], self.TIME[0]
        self.enter = nn.Conv2d(4, widths[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        inputs = widths[0]
        for i, width in enumerate(widths):
            for _ in range(blocks):
                self.down.append(self.block(inputs, width, text, time, heads))
                inputs = width
            if i + 1 < len(widths):
                self.shrink = nn.Conv2d(width, width, 3, 2, 1)
        self.middle = self.block(inputs, inputs, text, time, heads)
        self.last = ResidualStep(inputs, inputs, time)
        for width in widths[::-1]:
            for _ in range(blocks):
                self.up.append(self.block(inputs + width, width, text, time, heads))
                inputs = width
            if width != widths[0]:
                self.grow = nn.Conv2d(width, width, 3, padding=1)
        self.norm, self.leave = nn.GroupNorm(32, widths[0]), nn.Conv2d(widths[0], 4, 3, padding=1)
        self.blocks = blocks

    @staticmethod
    def block(inputs, width, text, time, heads):
        return nn.ModuleList([ResidualStep(inputs, width, time), SpatialTransformer(width, text, heads)])

    def forward(self, x):
        latent, text, time = x.split(self.SIZES, dim=1)
        image = latent.reshape(-1, *self.LATENT)
        x = self.enter(image.contiguous(memory_format=torch.channels_last))
        text = text.reshape(-1, *self.TEXT)
        kept = []
        for i, (residual, attention) in enumerate(self.down):
            if i == self.blocks:
                x = self.shrink(x)
            x = attention(residual(x, time), text)
            kept.append(x)
        residual, attention = self.middle
        x = self.last(attention(residual(x, time), text), time)
        for i, (residual, attention) in enumerate(self.up):
            if i == self.blocks:
                x = self.grow(F.interpolate(x, scale_factor=2.0))
            x = attention(residual(torch.cat([x, kept.pop()], 1), time), text)
        return self.leave(F.silu(self.norm(x)))


class PixelAttention(nn.Module):
    """Attention of one head among the pixels of an image, as the middle of an autoencoder has it."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(32, width, eps=1e-6), CrossAttention(width, width, 1, bias=True)

    def forward(self, image):
        x = self.norm(image).flatten(2).transpose(1, 2)
        return image + self.attention(x, x).transpose(1, 2).reshape(image.shape)


class ImageDecoder(nn.Module):
    """The decoder of Stable Diffusion's autoencoder: latents of 64 x 64 to pixels of 512 x 512."""

    def __init__(self, widths=(512, 512, 256, 128), blocks=3):
        super().__init__()
        width = widths[0]
        layers = [nn.Conv2d(4, 4, 1), nn.Conv2d(4, width, 3, padding=1)]
        layers += [ResidualStep(width, width), PixelAttention(width), ResidualStep(width, width)]
        for i, outputs in enumerate(widths):
            for _ in range(blocks):
                layers.append(ResidualStep(width, outputs))
                width = outputs
            if i + 1 < len(widths):
                layers += [nn.Upsample(scale_factor=2.0), nn.Conv2d(width, width, 3, padding=1)]
        self.layers = nn.Sequential(*layers, nn.GroupNorm(32, width, eps=1e-6), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x):
        return self.layers(x)


class ConditionedBlock(nn.Module):
    """A transformer block whose norms are scaled and shifted, and whose branches are gated, by a condition."""

    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-6, elementwise_affine=False) for _ in range(2))
        self.heads = heads
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.condition = nn.Linear(width, 6 * width)

    def attend(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.merge(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))

    def forward(self, x, condition):
        shift, scale, gate, shift2, scale2, gate2 = self.condition(F.silu(condition))[:, None].chunk(6, dim=-1)
        x = x + gate * self.attend(self.norms[0](x) * (1 + scale) + shift)
        return x + gate2 * self.feed(self.norms[1](x) * (1 + scale2) + shift2)


class DiffusionTransformer(nn.Module):
    """DiT-XL/2's blocks on latents of 32 x 32, in patches of 2 x 2: 256 tokens of 1,152 channels. Latents and the
    embedded condition come in one row."""

    LATENT = (4, 32, 32)

    def __init__(self, layers=28, width=1152, heads=16):
        super().__init__()
        self.sizes = [math.prod(self.LATENT), width]
        self.patches = nn.Conv2d(4, width, 2, 2)
        self.layers = nn.ModuleList(ConditionedBlock(width, heads) for _ in range(layers))
        self.norm, self.condition = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False), nn.Linear(width, 2 * width)
        self.leave = nn.Linear(width, 2 * 2 * 8)

    def forward(self, x):
        latent, condition = x.split(self.sizes, dim=1)
        x = self.patches(latent.reshape(-1, *self.LATENT))
        side = x.shape[-1]
        x = x.flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, condition)
        shift, scale = self.condition(F.silu(condition))[:, None].chunk(2, dim=-1)
        x = self.leave(self.norm(x) * (1 + scale) + shift)
        x = x.view(-1, side, side, 2, 2, 8).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(-1, 8, 2 * side, 2 * side)
