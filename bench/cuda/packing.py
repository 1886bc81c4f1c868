"""Packs weights for the studies on the device, as gemv/strip.cuh says: [n][k], n a multiple of 16, k of 128."""

import torch


def pack_fp16(w):
    """Of halves."""
    n, k = w.shape  # strip, row / 8, g | 32 k, t, step, r / 2, h
    return w.view(n // 16, 2, 8, k // 32, 4, 2, 2, 2).permute(0, 3, 5, 2, 4, 6, 1, 7).contiguous()


def pack_int4(q, scale):
    """Of -8 to 7 (int8) and scales [n][k / 32]: words, and the plane of scales."""
    n, k = q.shape  # strip, row / 8, g | tile, block, t, step, r / 2, h
    v = (q + 8).view(n // 16, 2, 8, k // 64, 2, 4, 2, 2, 2)
    words = torch.zeros(n // 16, k // 64, 8, 4, 2, 2, dtype=torch.int32, device=q.device)
    for high in (0, 1):
        for r in (0, 1):
            for h in (0, 1):
                words |= v[:, high, :, :, :, :, :, r, h].permute(0, 2, 1, 4, 3, 5).int() << 4 * (4 * h + 2 * r + high)
    return words, scale.view(n // 16, 2, 8, k // 64, 2).permute(0, 3, 2, 4, 1).contiguous()
