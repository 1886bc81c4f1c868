// Defines `gemv_narrow`: products of a few rows with constant weights that stay integers of 2, 4 or
// 8 bits, or floats of 8, a scale and a zero point for each block along k (decoding language
// models), bound by reading the weights once.
//
// Algorithm: as kernel.cuh. A run of 16 bytes of weights lies within one block: the sum of its
// products is multiplied once. Integers become floats by their bits: 2^23 + v has v in its last
// ones.
//
// Config: m (fixed, 8 at most), n, k (static), block (static). Schedule: lanes (32 ... 256, a power
// of two), columns (1, 2), run (bytes: 4, 8, 16; block is a multiple of that). x over (m, k); outs
// and ins over (m, n). Weights: [n][k] of W, rows of whole runs; scale, zero: [n][k / block], zero
// null where all are 0.
#ifndef TENON_RUNTIME_CUDA_GEMV_NARROW_CUH
#define TENON_RUNTIME_CUDA_GEMV_NARROW_CUH

#include "common/packed.h"
#include "cuda/ptx/prefetch.cuh"
#include "cuda/tile/contraction.cuh"
#include "cuda/tile/lane_sums.cuh"

namespace tenon {
namespace cuda {

template <class W, class Config, class X, class Scale, class Outs, class Ins, class Body>
struct gemv_narrow_kernel {
  Config cfg;
  X x;
  const unsigned char *w;
  const Scale *scale, *zero;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int rows = int(decltype(Config::m)::value);
  static constexpr int depth = Config::k, block = Config::block;
  static constexpr int lanes = Config::lanes, columns = Config::columns;
  static constexpr int threads = 256, blocks_per_sm = 1;
  static constexpr int groups = threads / lanes;
  static constexpr int bits = packed_bits<W> > 0 ? packed_bits<W> : 8;
  static constexpr int words = Config::run / 4, per_word = 32 / bits;
  static constexpr int run_length = words * per_word;
  static constexpr int row_bytes = depth / 8 * bits;
  static constexpr bool is_signed = tenon::detail::is_signed<compute_t<W>>;
  static_assert(rows <= 8 && detail::is_power_of_two(lanes) && lanes >= 32 && lanes <= threads,
                "few rows, whole warps");
  static_assert(block % run_length == 0 && depth % block == 0, "whole runs of one scale");

  int shared_bytes() const {
    return lanes > 32 ? threads / 32 * rows * columns * int(sizeof(float)) : 0;
  }
  grid blocks() const { return {ceil_div(index_t(cfg.n), index_t(groups * columns)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {
    for (int c = 0; c < columns; ++c)
      if (first_column() + c < int(index_t(cfg.n)))
        for (int at = my_lane() * ptx::prefetch_l2::line; at < row_bytes;
             at += lanes * ptx::prefetch_l2::line)
          ptx::prefetch_l2::hint(w + index_t(column(c)) * row_bytes + at);
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    float sum[rows][columns] = {};
    for (int k = my_lane() * run_length; k < depth; k += lanes * run_length)
      add_run(sum, k);
    apply_lane_sums<lanes>(sum, shared, body, outs, ins, first_column(), int(index_t(cfg.n)));
  }

private:
  /// Adds the products of one run of every column, which starts at element k.
  TENON_DEVICE void add_run(float (&sum)[rows][columns], int k) const {
    unsigned weights[columns][words];
    float less[columns], part[rows][columns] = {};
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      detail::load_words(weights[c], reinterpret_cast<const unsigned *>(
                                         w + index_t(column(c)) * row_bytes + k / 8 * bits));
      less[c] = zero ? load_element(zero + block_of(c, k)) : 0.0f;
    }
    TENON_UNROLL
    for (int i = 0; i < words; ++i) {
      float values[rows][per_word];
      TENON_UNROLL
      for (int m = 0; m < rows; ++m) {
        const int at[2] = {m, k + i * per_word};
        load_operand<1>(values[m], x, at, per_word);
      }
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        TENON_UNROLL
        for (int e = 0; e < per_word; ++e) {
          const float v = element(weights[c][i], e) - less[c];
          TENON_UNROLL
          for (int m = 0; m < rows; ++m)
            part[m][c] = mul_add(values[m][e], v, part[m][c]);
        }
      }
    }
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      const float by = load_element(scale + block_of(c, k));
      TENON_UNROLL
      for (int m = 0; m < rows; ++m)
        sum[m][c] = mul_add(part[m][c], by, sum[m][c]);
    }
  }
  /// Element e of a word.
  TENON_DEVICE static float element(unsigned word, int e) {
    if constexpr (tenon::detail::is_minifloat<W>) {
      const W value{uint8_t(word >> (e * bits))};
      return load_element(&value);
    }
    constexpr unsigned mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    const unsigned v = (word >> (e * bits) & mask) ^ (is_signed ? sign : 0);
    const unsigned whole = 0x4b000000u | v;
    float f;
    memcpy(&f, &whole, sizeof(f));
    return f - (8388608.0f + (is_signed ? float(sign) : 0.0f));
  }
  TENON_DEVICE static int my_lane() { return thread() % lanes; }
  TENON_DEVICE static int first_column() {
    return (block_x() * groups + thread() / lanes) * columns;
  }
  /// One of this thread's columns; beyond the last one, the last.
  TENON_DEVICE int column(int c) const {
    return min_of(first_column() + c, int(index_t(cfg.n)) - 1);
  }
  TENON_DEVICE index_t block_of(int c, int k) const {
    return index_t(column(c)) * (depth / block) + k / block;
  }
};

template <class W> TENON_FN const unsigned char *bytes_of(const W *w) {
  return reinterpret_cast<const unsigned char *>(w);
}
template <class W> TENON_FN const unsigned char *bytes_of(packed_pointer<W> w) {
  return w.bytes; // constants start with a byte
}

/// `W`: the element of the weights, whose first byte is w.
template <class W, class Config, class X, class Scale, class Outs, class Ins, class Body>
gemv_narrow_kernel<W, Config, X, Scale, Outs, Ins, Body>
gemv_narrow(Config cfg, X x, const unsigned char *w, const Scale *scale, const Scale *zero,
            Outs outs, Ins ins, Body body) {
  return {cfg, x, w, scale, zero, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
