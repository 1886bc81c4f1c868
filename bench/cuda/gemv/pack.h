// Defines random weights, packed as strip.cuh says, and what they mean.
#pragma once

#include "variants.h"
#include <cmath>
#include <cstring>
#include <cuda_fp16.h>
#include <random>

namespace study {

inline unsigned short bits_of(float x) {
  const __half h = __float2half(x);
  unsigned short bits;
  memcpy(&bits, &h, 2);
  return bits;
}
inline float value_of(unsigned short bits) {
  __half h;
  memcpy(&h, &bits, 2);
  return __half2float(h);
}

/// Weights [n][k]: those packed, their scales, and what they mean.
struct packed {
  std::vector<unsigned char> w;
  std::vector<unsigned short> scale;
  std::vector<double> value;
};

/// `by`: how large.
inline packed pack(int layout, int n, int k, std::mt19937 &random, float by = 1) {
  std::normal_distribution<float> normal(0, 1);
  packed p;
  p.value.resize(size_t(n) * k);
  if (layout == layout_rows) {
    const int stride = (k + 7) / 8 * 8;
    p.w.resize(size_t(n) * stride * 2);
    auto *to = reinterpret_cast<unsigned short *>(p.w.data());
    for (int o = 0; o < n; ++o)
      for (int i = 0; i < k; ++i)
        p.value[size_t(o) * k + i] = value_of(to[size_t(o) * stride + i] = bits_of(normal(random)));
    return p;
  }
  const int depth = layout == layout_fp16 ? 16 : layout == layout_int8 ? 32 : 64;
  const int blocks = layout == layout_fp16 ? 0 : depth / 32;
  const int tiles = (k + 2 * depth - 1) / (2 * depth) * 2, strips = (n + 15) / 16;
  // What fills up: q = 0 with scale 0.
  p.w.assign(size_t(strips) * tiles * 512, layout == layout_int8   ? 128
                                           : layout == layout_int4 ? 0x88
                                                                   : 0);
  p.scale.assign(size_t(strips) * tiles * 16 * size_t(blocks), 0);
  for (int o = 0; o < n; ++o)
    for (int i = 0; i < k; ++i) {
      const int row = o % 16, at = i % depth, in = i % 32;
      const int t = in / 8, s = in % 8 / 4, h = in % 2, r = row / 8 + 2 * (in % 4 / 2), g = row % 8;
      const size_t tile = size_t(o / 16) * tiles + (depth == 16 ? i / 32 * 2 + s : i / depth);
      unsigned char *lane = &p.w[tile * 512 + size_t(4 * g + t) * 16];
      double &value = p.value[size_t(o) * k + i];
      if (layout == layout_fp16) {
        const unsigned short bits = bits_of(by * normal(random));
        memcpy(lane + 4 * r + 2 * h, &bits, 2);
        value = value_of(bits);
        continue;
      }
      unsigned short &scale = p.scale[((tile * 8 + size_t(g)) * blocks + at / 32) * 2 + row / 8];
      if (i % 32 == 0)
        scale = bits_of(by * (0.02f + 0.1f * fabsf(normal(random))));
      int q;
      if (layout == layout_int8) {
        q = int(random() % 256) - 128;
        lane[8 * s + 2 * r + h] = (unsigned char)(q + 128);
      } else {
        q = int(random() % 16) - 8;
        const int bit = 4 * (4 * h + r);
        unsigned word;
        memcpy(&word, lane + 4 * (2 * (at / 32) + s), 4);
        word = (word & ~(15u << bit)) | unsigned(q + 8) << bit;
        memcpy(lane + 4 * (2 * (at / 32) + s), &word, 4);
      }
      value = q * double(value_of(scale));
    }
  return p;
}

} // namespace study
