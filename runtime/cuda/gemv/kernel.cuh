// Defines `gemv`: products of a few rows with constant weights (fully connected layers at batch 1),
// bound by reading the weights once.
//
// Algorithm: `lanes` threads share `columns` outputs of every row; each reads 16-byte runs of the
// weights along k and keeps rows x columns sums, which are combined across the threads in a fixed
// order. The lines of the weights are hinted into the cache before the dependency wait.
//
// Config: m (fixed, 8 at most), n, k. Schedule: lanes (32 ... 256, a power of two), columns (1 ...
// 4). x over (m, k); outs and ins over (m, n). Weights: [n][pitch] of fp32, fp16 or int8, pitch = k
// rounded up to 16 bytes, zero padded. Bytes, x a view of int8_t or uint8_t, have exact 32-bit sums
// of (x - x_zero) * w, four products an instruction; Config may have x_zero, static.
#ifndef TENON_RUNTIME_CUDA_GEMV_KERNEL_CUH
#define TENON_RUNTIME_CUDA_GEMV_KERNEL_CUH

#include "cuda/ptx/dp4a.cuh"
#include "cuda/ptx/prefetch.cuh"
#include "cuda/tile/contraction.cuh"
#include "cuda/tile/lane_sums.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class W, class Outs, class Ins, class Body> struct gemv_kernel {
  Config cfg;
  X x;
  const W *w;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int rows = int(decltype(Config::m)::value);
  static constexpr int lanes = Config::lanes, columns = Config::columns;
  static constexpr int threads = 256, blocks_per_sm = 1;
  static constexpr int groups = threads / lanes, warps = lanes / 32;
  static constexpr int run_length = 16 / int(sizeof(W));
  static constexpr bool bytes = detail::is_same<W, int8_t>;
  static constexpr int zero = detail::zero_point_of_x<Config>::value;
  using value = typename detail::choose_type<bytes, int, float>::type;
  static_assert(rows <= 8 && detail::is_power_of_two(lanes) && lanes >= 32 && lanes <= threads,
                "few rows, whole warps");

  int shared_bytes() const {
    return warps > 1 ? threads / 32 * rows * columns * int(sizeof(value)) : 0;
  }
  grid blocks() const { return {ceil_div(index_t(cfg.n), index_t(groups * columns)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {
    const int lane_step = ptx::prefetch_l2::line / int(sizeof(W));
    for (int c = 0; c < columns; ++c)
      if (first_column() + c < int(index_t(cfg.n)))
        for (int k = my_lane() * lane_step; k < pitch(); k += lanes * lane_step)
          ptx::prefetch_l2::hint(row_of_weights(c) + k);
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    value sum[rows][columns] = {};
    const int depth = int(index_t(cfg.k));
    if constexpr (bytes)
      add_bytes(sum, depth);
    else
      add_floats(sum, depth);
    apply_lane_sums<lanes>(sum, shared, body, outs, ins, first_column(), int(index_t(cfg.n)));
  }

private:
  /// This lane's part of the sums.
  TENON_DEVICE void add_floats(float (&sum)[rows][columns], int depth) const {
    for (int k = my_lane() * run_length; k < depth; k += lanes * run_length) {
      float weights[columns][run_length];
      TENON_UNROLL
      for (int c = 0; c < columns; ++c)
        load_run(weights[c], row_of_weights(c) + k, fixed<1>{}, run_length);
      TENON_UNROLL
      for (int m = 0; m < rows; ++m) {
        float values[run_length];
        const int at[2] = {m, k};
        load_operand<1>(values, x, at, min_of(depth - k, run_length));
        TENON_UNROLL
        for (int c = 0; c < columns; ++c) {
          TENON_UNROLL
          for (int i = 0; i < run_length; ++i)
            sum[m][c] = mul_add(values[i], weights[c][i], sum[m][c]);
        }
      }
    }
  }
  /// The same of bytes, words of four at a time. Weights beyond K are zero.
  TENON_DEVICE void add_bytes(int (&sum)[rows][columns], int depth) const {
    using T = detail::bare<typename X::element>;
    constexpr int words = run_length / 4;
    int of_weights[columns] = {};
    for (int k = my_lane() * run_length; k < depth; k += lanes * run_length) {
      unsigned weights[columns][words];
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        detail::load_words(weights[c], reinterpret_cast<const unsigned *>(row_of_weights(c) + k));
        if constexpr (zero != 0) {
          TENON_UNROLL
          for (unsigned word : weights[c])
            of_weights[c] = ptx::dp4a<int8_t>::multiply(0x01010101u, word, of_weights[c]);
        }
      }
      TENON_UNROLL
      for (int m = 0; m < rows; ++m) {
        T run[run_length];
        const int at[2] = {m, k};
        fetch_run(run, x.data + offset(x.strides, at), x.strides.template get<1>(),
                  min_of(depth - k, run_length));
        unsigned values[words];
        memcpy(values, run, sizeof(values));
        TENON_UNROLL
        for (int c = 0; c < columns; ++c) {
          TENON_UNROLL
          for (int i = 0; i < words; ++i)
            sum[m][c] = ptx::dp4a<T>::multiply(values[i], weights[c][i], sum[m][c]);
        }
      }
    }
    TENON_UNROLL
    for (int m = 0; m < rows; ++m) {
      TENON_UNROLL
      for (int c = 0; c < columns; ++c)
        sum[m][c] -= zero * of_weights[c];
    }
  }
  TENON_DEVICE static int my_lane() { return thread() % lanes; }
  TENON_DEVICE static int first_column() {
    return (block_x() * groups + thread() / lanes) * columns;
  }
  TENON_DEVICE int pitch() const { return ceil_div(int(index_t(cfg.k)), run_length) * run_length; }
  /// Weights of one of this thread's columns; beyond the last one, those of the last.
  TENON_DEVICE const W *row_of_weights(int c) const {
    return w + index_t(min_of(first_column() + c, int(index_t(cfg.n)) - 1)) * pitch();
  }
};

template <class Config, class X, class W, class Outs, class Ins, class Body>
gemv_kernel<Config, X, W, Outs, Ins, Body> gemv(Config cfg, X x, const W *w, Outs outs, Ins ins,
                                                Body body) {
  return {cfg, x, w, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
