"""Recurrent networks of speech as torch modules: they take many frames at once, as an offline program does."""

import torch
from torch import nn


class NoiseSuppressor(nn.Module):
    """One half of a network like DTLN: a mask for the magnitudes of frames, from two LSTMs of 128."""

    def __init__(self, bins=257, width=128):
        super().__init__()
        self.norm = nn.LayerNorm(bins)
        self.first, self.second = nn.LSTM(bins, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.mask = nn.Linear(width, bins)

    def forward(self, x):
        y, _ = self.first(self.norm(x))
        y, _ = self.second(y)
        return x * torch.sigmoid(self.mask(y))


class VoiceDetector(nn.Module):
    """A network like Silero's: magnitudes of short frames by a strided convolution, four convolutions over them, an
    LSTM, and the chance of speech in each chunk of 512 samples."""

    def __init__(self, bins=129, width=128):
        super().__init__()
        self.bins = bins
        self.transform = nn.Conv1d(1, 2 * bins, 256, 128, padding=64, bias=False)
        sizes = [(bins, width, 1), (width, 64, 2), (64, 64, 2), (64, width, 1)]
        self.encoder = nn.Sequential(
            *(layer for i, o, stride in sizes for layer in (nn.Conv1d(i, o, 3, stride, 1), nn.ReLU()))
        )
        self.memory, self.leave = nn.LSTM(width, width, batch_first=True), nn.Conv1d(width, 1, 1)

    def forward(self, x):
        real, imaginary = self.transform(x[:, None]).split(self.bins, dim=1)
        y = self.encoder(torch.sqrt(real * real + imaginary * imaginary + 1e-6))
        y, _ = self.memory(y.transpose(1, 2))
        return torch.sigmoid(self.leave(torch.relu(y.transpose(1, 2))))
