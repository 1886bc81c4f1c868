// Defines what kernels over images share: the walk over output points (n, c, oh, ow) in runs along
// channels (NHWC) or columns (NCHW), and a Config's defaults.
#ifndef TENON_RUNTIME_CUDA_BASE_WINDOW_CUH
#define TENON_RUNTIME_CUDA_BASE_WINDOW_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

/// What the Config of a window kernel may leave out. `along` is the dimension that runs of `vector`
/// elements and neighbouring threads go along: 1 (channels) or 3 (columns).
struct window_defaults {
  static constexpr fixed<1> multiplier{};
  static constexpr fixed<1> stride_h{}, stride_w{}, dilation_h{}, dilation_w{};
  static constexpr fixed<0> pad_top{}, pad_left{}, pad_bottom{}, pad_right{};
  static constexpr int along = 1, vector = 4;
  static constexpr int x_zero = 0;
  static constexpr bool whole_runs = false, slides = false;
};

/// Output points of an image kernel: one thread per run of Vector points along dimension Along and
/// Columns columns (more than one only with Along = 1).
template <int Along, int Vector, int Columns> struct window_walk {
  static_assert(Along == 1 || (Along == 3 && Columns == 1), "runs go along channels or columns");
  int channels, out_h, out_w;
  index_t batch;

  TENON_FN int runs() const { return ceil_div(Along == 1 ? channels : out_w, Vector); }
  TENON_FN index_t threads() const {
    return batch * out_h * runs() * (Along == 1 ? ceil_div(out_w, Columns) : channels);
  }
  /// The first point of thread `n`; false beyond the end. `count` is the length of its run.
  TENON_DEVICE bool seek(int n, int (&at)[4], int &count) const {
    const int per_row = runs();
    int rest = n / per_row;
    const int start = (n - rest * per_row) * Vector;
    if constexpr (Along == 1) {
      const int columns = ceil_div(out_w, Columns);
      at[1] = start;
      at[3] = rest % columns * Columns;
      rest /= columns;
      at[2] = rest % out_h;
      at[0] = rest / out_h;
      count = min_of(channels - start, Vector);
    } else {
      at[3] = start;
      at[2] = rest % out_h;
      rest /= out_h;
      at[1] = rest % channels;
      at[0] = rest / channels;
      count = min_of(out_w - start, Vector);
    }
    return at[0] < batch;
  }
};

} // namespace cuda
} // namespace tenon

#endif
