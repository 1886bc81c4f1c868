// Defines what the tests of 8-bit integer kernels share: cases of convolutions, operands, weights
// of less than 8 bits, and sums by the definition.
#pragma once

#include "cpu/conv.h"

#include <random>
#include <vector>

namespace tenon {

/// The sum with a bias of its filter, so that bodies with operands are covered.
struct plus_bias {
  template <class L> i32<L> operator()(L, i32<L> acc, i32<L> bias) const { return acc + bias; }
};

template <class T> std::vector<T> randomBytes(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> v(n);
  for (T &x : v)
    x = T(random());
  return v;
}

/// Weights of all values that `Bits` bits have.
template <int Bits> std::vector<int8_t> randomWeights(index_t n, unsigned seed) {
  std::vector<int8_t> v = randomBytes<int8_t>(size_t(n), seed);
  for (int8_t &w : v)
    w = int8_t(w >> (8 - Bits));
  return v;
}

/// Weights of `rows` rows as kernels read them: common/weight_fields.h.
template <int Bits, int Lanes>
std::vector<int8_t> storeWeights(const std::vector<int8_t> &weights, index_t rows) {
  if (Bits == 8)
    return weights;
  const index_t count = index_t(weights.size()) / rows, run = Lanes * 8 / Bits;
  std::vector<int8_t> stored;
  for (index_t r = 0; r < rows; ++r)
    for (index_t first = 0; first < count; first += run)
      for (index_t lane = 0; lane < Lanes; ++lane) {
        unsigned byte = 0;
        for (index_t i = first + lane; i < first + run; i += Lanes) // the first one highest
          byte = byte << Bits |
                 (i < count ? unsigned(weights[size_t(r * count + i)]) : 0) % (1u << Bits);
        stored.push_back(int8_t(byte));
      }
  return stored;
}

/// Weights of `filters` filters, none of them -128, as kernels read joined ones:
/// common/joined_weights.h.
inline std::vector<int8_t> joinWeights(const std::vector<int8_t> &weights, index_t filters,
                                       index_t pairs) {
  const index_t count = index_t(weights.size()) / filters;
  const auto at = [&](index_t filter, index_t i) {
    return filter < filters && i < count ? int(weights[size_t(filter * count + i)]) : 0;
  };
  std::vector<int8_t> stored;
  for (index_t first = 0; first < filters; first += 2 * pairs)
    for (index_t group = 0; group < count; group += 4)
      for (index_t filter = first; filter < first + 2 * pairs; filter += 2)
        for (const index_t i : {0, 2, 1, 3}) {
          const int both = 256 * at(filter, group + i) + at(filter + 1, group + i);
          stored.push_back(int8_t(both & 255));
          stored.push_back(int8_t(both >> 8));
        }
  return stored;
}

/// A case with weights of `Bits` bits.
template <int Bits, class Case> struct narrow : Case { static constexpr int weight_bits = Bits; };

/// A case with `Pairs` pairs of filters in a row of weights.
template <int Pairs, class Case> struct with_pairs : Case {
  static constexpr int joined = Pairs, nr = 2 * Pairs;
};

template <index_t Batch, index_t InH, index_t InW, index_t Channels, index_t Filters,
          index_t KernelH, index_t KernelW, index_t Stride, index_t Dilation, index_t Pad, int Mr,
          int Nr>
struct conv_case : cpu::conv_defaults {
  static constexpr fixed<Batch> batch{};
  static constexpr fixed<InH> in_h{};
  static constexpr fixed<InW> in_w{};
  static constexpr fixed<(InH + 2 * Pad - (KernelH - 1) * Dilation - 1) / Stride + 1> out_h{};
  static constexpr fixed<(InW + 2 * Pad - (KernelW - 1) * Dilation - 1) / Stride + 1> out_w{};
  static constexpr fixed<Filters> filters{};
  static constexpr fixed<Channels> channels{};
  static constexpr fixed<KernelH> kernel_h{};
  static constexpr fixed<KernelW> kernel_w{};
  static constexpr fixed<Stride> stride_h{}, stride_w{};
  static constexpr fixed<Dilation> dilation_h{}, dilation_w{};
  static constexpr fixed<Pad> pad_top{}, pad_left{};
  static constexpr int mr = Mr, nr = Nr;
  static constexpr bool row_runs = Channels == 1;
};

/// One sum by the definition. x, at: index of (n, c, h, w). Depthwise: `channel` is the only one.
template <class T, class Cfg, class Read, class Weight>
int32_t expected(const Cfg &cfg, const Read &x, const Weight *w, int32_t zero, index_t n,
                 index_t oh, index_t ow, index_t channels, index_t channel) {
  int64_t sum = 0;
  for (index_t ky = 0; ky < cfg.kernel_h; ++ky)
    for (index_t kx = 0; kx < cfg.kernel_w; ++kx)
      for (index_t c = 0; c < channels; ++c) {
        const index_t h = oh * cfg.stride_h - cfg.pad_top + ky * cfg.dilation_h;
        const index_t v = ow * cfg.stride_w - cfg.pad_left + kx * cfg.dilation_w;
        if (h >= 0 && h < cfg.in_h && v >= 0 && v < cfg.in_w)
          sum += (x(n, channel + c, h, v) - zero) * w[(ky * cfg.kernel_w + kx) * channels + c];
      }
  return int32_t(sum);
}

} // namespace tenon
