// Defines how contraction kernels bring tiles of A and B into shared memory by the copy engine: the
// tensor maps of a problem's operands, and the boxes of each step along K.
//
//   A of a convolution   columns of pixels (im2col); the plain matrix where the convolution is one
//   A of a product       a box of a view, K-major or with neighbours along m
//   packed weights       K-major: conv [groups * filters][kernel_h * kernel_w][channels], matmul
//                        [n][k], rows of channels or k rounded up to 16 bytes
//   B as a view          a box, K-major or with neighbours along n
//
// A step is tile_k neighbours along k, of one tap in convolutions; channels beyond the last are
// zero in both operands. What tensor maps cannot say (see tensor_map.h) must not come here.
#ifndef TENON_RUNTIME_CUDA_TENSOR_LOADER_CUH
#define TENON_RUNTIME_CUDA_TENSOR_LOADER_CUH

#include "cuda/contraction.cuh"
#include "cuda/ptx/tensor_copy.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace tenon {
namespace cuda {
namespace detail {

template <class T> TENON_FN constexpr tensor_element tensor_element_of() {
  return is_same<T, f16>    ? tensor_element::f16
         : is_same<T, bf16> ? tensor_element::bf16
                            : tensor_element::f32;
}

template <class D> TENON_FN constexpr bool fixed_equals(index_t value) {
  if constexpr (bare<D>::is_fixed)
    return bare<D>::value == value;
  else
    return false;
}

/// Bytes of a row of packed weights of `depth` elements.
template <class T> TENON_FN constexpr index_t weight_pitch(index_t depth) {
  return ceil_div(depth * index_t(sizeof(T)), index_t(16)) * 16;
}

/// A tile of an operand in shared memory, Rows x Columns of them along k, as ptx::wgmma_tile has
/// it.
template <class T, int Rows, int Columns, bool KMajor> struct operand_tile {
  static constexpr bool k_major = KMajor;
  static constexpr int span = KMajor ? Columns * int(sizeof(T)) : Rows % 64 == 0 ? 128 : 64;
  static constexpr int bytes = Rows * Columns * int(sizeof(T));
  static constexpr int block = span / int(sizeof(T)); // rows, where they are contiguous
  static_assert(KMajor || (sizeof(T) == 2 && Rows % block == 0), "blocks are whole");

  TENON_DEVICE static uint64_t descriptor(const void *tile) {
    return ptx::wgmma_tile<span>::descriptor(tile, KMajor ? 16 : Columns * span);
  }
  /// Bytes from the tile's start to `row` (a multiple of 64, or 0) and k.
  TENON_FN static constexpr int offset(int row, int k) {
    return KMajor ? row * span + k * int(sizeof(T)) : row / block * Columns * span + k * span;
  }
  /// Bytes from the tile's start to 16-byte run `run` of a row, K-major.
  TENON_FN static constexpr int run_at(int row, int run) {
    static_assert(KMajor, "runs lie along k");
    constexpr int runs = span / 16;
    return row * span + (run ^ (row * runs / 8 % runs)) * 16;
  }
};

/// A view over (b0, b1, row, k), or with row and k exchanged, as boxes of Rows x Columns. Batches
/// of stride 0 are shared.
template <class T, class S, int Row, int K, int Rows, int Columns> struct matrix_boxes {
  using element = bare<T>;
  static constexpr bool k_major = is_unit<decltype(S{}.template get<K>())>;
  using tile = operand_tile<element, Rows, Columns, k_major>;

  static status encode(tensor_map &to, const view<T, S> &v, index_t rows, index_t depth,
                       index_t batch1, index_t batch0) {
    const index_t size = index_t(sizeof(element));
    const index_t across =
        k_major ? index_t(v.strides.template get<Row>()) : index_t(v.strides.template get<K>());
    const index_t s0 = index_t(v.strides.template get<0>()),
                  s1 = index_t(v.strides.template get<1>());
    return cuda::encode(
        to, tensor_box{v.data,
                       tensor_element_of<element>(),
                       4,
                       {k_major ? depth : rows, k_major ? rows : depth, s1 == 0 ? 1 : batch1,
                        s0 == 0 ? 1 : batch0, 1},
                       {size, across * size, s1 * size, s0 * size, 0},
                       {k_major ? Columns : tile::block, k_major ? Rows : Columns, 1, 1, 1},
                       tile::span});
  }
  TENON_DEVICE static void load(void *to, const tensor_map &map, ptx::mbarrier &done,
                                const view<T, S> &v, int row, int k, int batch0, int batch1) {
    if (index_t(v.strides.template get<0>()) == 0)
      batch0 = 0;
    if (index_t(v.strides.template get<1>()) == 0)
      batch1 = 0;
    if constexpr (k_major) {
      const int at[4] = {k, row, batch1, batch0};
      ptx::tensor_copy_tiled::load(to, map, done, at);
    } else {
      TENON_UNROLL
      for (int r = 0; r < Rows; r += tile::block) {
        const int at[4] = {row + r, k, batch1, batch0};
        ptx::tensor_copy_tiled::load(static_cast<unsigned char *>(to) + tile::offset(r, 0), map,
                                     done, at);
      }
    }
  }
};

/// A position along K of a convolution: tap and channel, in steps of TileK channels.
template <class Config, int TileK> struct tap_steps {
  int tap, dy, dx, channel;

  TENON_FN static int chunks(const Config &cfg) {
    return int(ceil_div(index_t(cfg.channels), index_t(TileK)));
  }
  TENON_FN static int count(const Config &cfg) {
    return int(cfg.kernel_h * cfg.kernel_w) * chunks(cfg);
  }
  TENON_DEVICE tap_steps(const Config &cfg, int step) {
    tap = step / chunks(cfg);
    channel = (step - tap * chunks(cfg)) * TileK;
    dy = tap / int(index_t(cfg.kernel_w));
    dx = tap - dy * int(index_t(cfg.kernel_w));
  }
  TENON_DEVICE void next(const Config &cfg) {
    channel += TileK;
    if (channel < int(index_t(cfg.channels)))
      return;
    channel = 0;
    ++tap;
    if (++dx < int(index_t(cfg.kernel_w)))
      return;
    dx = 0;
    ++dy;
  }
};

} // namespace detail

/// Loads tiles of A, TileM x TileK. `steps` is the number of steps along K.
template <class Problem, int TileM, int TileK> class tensor_a;

template <class Config, class T, class S, int TileM, int TileK>
class tensor_a<conv_problem<Config, view<T, S>>, TileM, TileK> {
  using problem = conv_problem<Config, view<T, S>>;
  using element = typename problem::element;
  using position = detail::tap_steps<Config, TileK>;
  /// Rows are pixels in order, one stride apart: a plain matrix.
  static constexpr bool is_matrix = detail::fixed_equals<decltype(Config::kernel_h)>(1) &&
                                    detail::fixed_equals<decltype(Config::kernel_w)>(1) &&
                                    detail::fixed_equals<decltype(Config::in_h)>(1) &&
                                    detail::fixed_equals<decltype(Config::stride_w)>(1) &&
                                    detail::fixed_equals<decltype(Config::pad_top)>(0) &&
                                    detail::fixed_equals<decltype(Config::pad_left)>(0) &&
                                    detail::fixed_equals<decltype(Config::batch)>(1);

public:
  using tile = detail::operand_tile<element, TileM, TileK, true>;

  TENON_FN static int steps(const problem &p) { return position::count(p.cfg); }

  static status encode(tensor_map &to, const problem &p) {
    const auto &cfg = p.cfg;
    const auto &strides = p.x.strides;
    const index_t size = index_t(sizeof(element)), channels = cfg.groups * cfg.channels;
    tensor_box t = {p.x.data,
                    detail::tensor_element_of<element>(),
                    4,
                    {channels, index_t(cfg.in_w), index_t(cfg.in_h), index_t(cfg.batch), 1},
                    {size, strides.template get<3>() * size, strides.template get<2>() * size,
                     strides.template get<0>() * size, 0},
                    {TileK, 1, 1, 1, 1},
                    tile::span};
    if (is_matrix) {
      t.rank = 2;
      t.box[1] = TileM;
      return cuda::encode(to, t);
    }
    // The upper corner follows from the number of outputs: uneven padding needs no more.
    const auto upper = [](index_t out, index_t stride, index_t in, index_t pad) {
      return int((out - 1) * stride + 1 - in - pad);
    };
    return cuda::encode(to,
                        tensor_columns{t,
                                       {-int(index_t(cfg.pad_left)), -int(index_t(cfg.pad_top)), 0},
                                       {upper(cfg.out_w, cfg.stride_w, cfg.in_w, cfg.pad_left),
                                        upper(cfg.out_h, cfg.stride_h, cfg.in_h, cfg.pad_top), 0},
                                       {int(index_t(cfg.stride_w)), int(index_t(cfg.stride_h)), 1},
                                       TileM});
  }

  TENON_DEVICE tensor_a(const problem &p, int m0, int slice, int step)
      : problem_(p), at_(p.cfg, step), channels_(slice * int(index_t(p.cfg.channels))) {
    const int w = int(index_t(p.cfg.out_w)), h = int(index_t(p.cfg.out_h));
    image_ = m0 / (w * h);
    const int rest = m0 - image_ * (w * h), y = rest / w;
    x_ = is_matrix ? m0
                   : (rest - y * w) * int(index_t(p.cfg.stride_w)) - int(index_t(p.cfg.pad_left));
    y_ = y * int(index_t(p.cfg.stride_h)) - int(index_t(p.cfg.pad_top));
  }
  /// Loads the tile of this step and goes on to the next.
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    if constexpr (is_matrix) {
      const int at[2] = {channels_ + at_.channel, x_};
      ptx::tensor_copy_tiled::load(to, map, done, at);
    } else {
      const int at[4] = {channels_ + at_.channel, x_, y_, image_};
      const unsigned short tap[2] = {
          (unsigned short)(at_.dx * int(index_t(problem_.cfg.dilation_w))),
          (unsigned short)(at_.dy * int(index_t(problem_.cfg.dilation_h)))};
      ptx::tensor_copy_im2col::load(to, map, done, at, tap);
    }
    at_.next(problem_.cfg);
  }

private:
  const problem &problem_;
  position at_;
  int channels_, image_, x_, y_;
};

template <class Config, class T, class S, int TileM, int TileK>
class tensor_a<matmul_problem<Config, view<T, S>>, TileM, TileK> {
  using problem = matmul_problem<Config, view<T, S>>;
  using boxes = detail::matrix_boxes<T, S, 2, 3, TileM, TileK>;

public:
  using tile = typename boxes::tile;

  TENON_FN static int steps(const problem &p) { return ceil_div(p.depth(), TileK); }
  static status encode(tensor_map &to, const problem &p) {
    return boxes::encode(to, p.x, p.rows(), p.depth(), index_t(p.cfg.batch1),
                         index_t(p.cfg.batch0));
  }
  TENON_DEVICE tensor_a(const problem &p, int m0, int slice, int step)
      : problem_(p), m0_(m0), k_(step * TileK) {
    p.slice_point(slice, at_);
  }
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    boxes::load(to, map, done, problem_.x, m0_, k_, at_[0], at_[1]);
    k_ += TileK;
  }

private:
  const problem &problem_;
  int m0_, k_, at_[4];
};

/// Loads tiles of B, TileK x TileN.
template <class Problem, class B, int TileN, int TileK> class tensor_b;

template <class Config, class X, class T, int TileN, int TileK>
class tensor_b<conv_problem<Config, X>, packed_weights<T>, TileN, TileK> {
  using problem = conv_problem<Config, X>;
  using position = detail::tap_steps<Config, TileK>;

public:
  using element = T;
  using tile = detail::operand_tile<T, TileN, TileK, true>;
  static constexpr bool is_weights = true;

  static status encode(tensor_map &to, const problem &p, const packed_weights<T> &w) {
    const index_t channels = index_t(p.cfg.channels), taps = p.cfg.kernel_h * p.cfg.kernel_w,
                  pitch = detail::weight_pitch<T>(channels);
    return cuda::encode(to, tensor_box{w.data,
                                       detail::tensor_element_of<T>(),
                                       3,
                                       {channels, taps, p.cfg.groups * p.cfg.filters, 1, 1},
                                       {index_t(sizeof(T)), pitch, taps * pitch, 0, 0},
                                       {TileK, 1, TileN, 1, 1},
                                       tile::span});
  }
  TENON_DEVICE tensor_b(const problem &p, const packed_weights<T> &, int n0, int slice, int step)
      : problem_(p), at_(p.cfg, step), n_(slice * p.columns() + n0) {}
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    const int at[3] = {at_.channel, at_.tap, n_};
    ptx::tensor_copy_tiled::load(to, map, done, at);
    at_.next(problem_.cfg);
  }

private:
  const problem &problem_;
  position at_;
  int n_;
};

template <class Config, class X, class T, int TileN, int TileK>
class tensor_b<matmul_problem<Config, X>, packed_weights<T>, TileN, TileK> {
  using problem = matmul_problem<Config, X>;

public:
  using element = T;
  using tile = detail::operand_tile<T, TileN, TileK, true>;
  static constexpr bool is_weights = true;

  static status encode(tensor_map &to, const problem &p, const packed_weights<T> &w) {
    const index_t pitch = detail::weight_pitch<T>(p.depth());
    return cuda::encode(to, tensor_box{w.data,
                                       detail::tensor_element_of<T>(),
                                       2,
                                       {p.depth(), p.columns(), 1, 1, 1},
                                       {index_t(sizeof(T)), pitch, 0, 0, 0},
                                       {TileK, TileN, 1, 1, 1},
                                       tile::span});
  }
  TENON_DEVICE tensor_b(const problem &, const packed_weights<T> &, int n0, int, int step)
      : n_(n0), k_(step * TileK) {}
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    const int at[2] = {k_, n_};
    ptx::tensor_copy_tiled::load(to, map, done, at);
    k_ += TileK;
  }

private:
  int n_, k_;
};

template <class Config, class X, class T, class S, int TileN, int TileK>
class tensor_b<matmul_problem<Config, X>, view<T, S>, TileN, TileK> {
  using problem = matmul_problem<Config, X>;
  using boxes = detail::matrix_boxes<T, S, 3, 2, TileN, TileK>;

public:
  using element = detail::bare<T>;
  using tile = typename boxes::tile;
  static constexpr bool is_weights = false;

  static status encode(tensor_map &to, const problem &p, const view<T, S> &b) {
    return boxes::encode(to, b, p.columns(), p.depth(), index_t(p.cfg.batch1),
                         index_t(p.cfg.batch0));
  }
  TENON_DEVICE tensor_b(const problem &p, const view<T, S> &b, int n0, int slice, int step)
      : view_(b), n0_(n0), k_(step * TileK) {
    p.slice_point(slice, at_);
  }
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    boxes::load(to, map, done, view_, n0_, k_, at_[0], at_[1]);
    k_ += TileK;
  }

private:
  const view<T, S> &view_;
  int n0_, k_, at_[4];
};

} // namespace cuda
} // namespace tenon

#endif
