// Defines how contraction kernels bring tiles of A and B into shared memory by the copy engine: the
// tensor maps of a problem's operands, and the boxes of each step along K.
//
//   A of a convolution   columns of pixels (im2col); the plain matrix where the convolution is one
//   A of a product       a box of a view, K-major or with neighbours along m
//   packed weights       K-major: conv [groups * filters][kernel_h * kernel_w][channels], matmul
//                        [n][k], rows of channels or k rounded up to 16 bytes
//   in two parts         the same twice; a step's tile of the second lies behind that of the first
//   of two products      packed weights twice (packed_pair, matmul only): the first product's
//   columns
//                        are half of a tile, the second's the other
//   B as a view          a box, K-major or with neighbours along n
//
// A step is tile_k neighbours along k, of one tap in convolutions; channels beyond the last are
// zero in both operands. What tensor maps cannot say (see tensor_map.h) must not come here.
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_TENSOR_LOADER_CUH
#define TENON_RUNTIME_CUDA_WARPGROUP_TENSOR_LOADER_CUH

#include "cuda/ptx/tensor_copy.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/contraction.cuh"

namespace tenon {
namespace cuda {
namespace detail {

template <class T> TENON_FN constexpr tensor_element tensor_element_of() {
  return sizeof(T) == 1     ? tensor_element::u8 // signed ones, too
         : is_same<T, f16>  ? tensor_element::f16
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
template <class Problem, int TileK> struct tap_steps {
  int tap, dz, dy, dx, channel; // dz: of volumes

  TENON_FN static int chunks(const Problem &p) {
    return int(ceil_div(index_t(p.cfg.channels), index_t(TileK)));
  }
  TENON_FN static int count(const Problem &p) { return p.taps() * chunks(p); }
  TENON_DEVICE tap_steps(const Problem &p, int step) {
    tap = step / chunks(p);
    channel = (step - tap * chunks(p)) * TileK;
    const int kernel_w = int(index_t(p.cfg.kernel_w));
    dz = 0;
    dy = tap / kernel_w;
    dx = tap - dy * kernel_w;
    if constexpr (Problem::is_volume) {
      const int kernel_h = int(index_t(p.cfg.kernel_h));
      dz = dy / kernel_h;
      dy -= dz * kernel_h;
    }
  }
  TENON_DEVICE void next(const Problem &p) {
    channel += TileK;
    if (channel < int(index_t(p.cfg.channels)))
      return;
    channel = 0;
    ++tap;
    if (++dx < int(index_t(p.cfg.kernel_w)))
      return;
    dx = 0;
    ++dy;
    if constexpr (Problem::is_volume) {
      if (dy < int(index_t(p.cfg.kernel_h)))
        return;
      dy = 0;
      ++dz;
    }
  }
};

} // namespace detail

/// Loads tiles of A, TileM x TileK. `steps` is the number of steps along K.
template <class Problem, int TileM, int TileK> class tensor_a;

template <class Config, class T, class S, int TileM, int TileK>
class tensor_a<conv_problem<Config, view<T, S>>, TileM, TileK> {
  using problem = conv_problem<Config, view<T, S>>;
  using element = typename problem::element;
  using position = detail::tap_steps<problem, TileK>;
  static constexpr int rank = problem::rank;
  static constexpr bool is_volume = problem::is_volume;
  /// Rows are pixels in order, one stride apart: a plain matrix.
  static constexpr bool is_matrix = !is_volume &&
                                    detail::fixed_equals<decltype(Config::kernel_h)>(1) &&
                                    detail::fixed_equals<decltype(Config::kernel_w)>(1) &&
                                    detail::fixed_equals<decltype(Config::in_h)>(1) &&
                                    detail::fixed_equals<decltype(Config::stride_w)>(1) &&
                                    detail::fixed_equals<decltype(Config::pad_top)>(0) &&
                                    detail::fixed_equals<decltype(Config::pad_left)>(0) &&
                                    detail::fixed_equals<decltype(Config::batch)>(1);

public:
  using tile = detail::operand_tile<element, TileM, TileK, true>;

  TENON_FN static int steps(const problem &p) { return position::count(p); }

  static status encode(tensor_map &to, const problem &p) {
    const auto &cfg = p.cfg;
    const auto &strides = p.x.strides;
    const index_t size = index_t(sizeof(element)), channels = cfg.groups * cfg.channels;
    tensor_box t = {p.x.data,
                    detail::tensor_element_of<element>(),
                    rank,
                    {channels, index_t(cfg.in_w), index_t(cfg.in_h), 1, 1},
                    {size, strides.template get<rank - 1>() * size,
                     strides.template get<rank - 2>() * size, 0, 0},
                    {TileK, 1, 1, 1, 1},
                    tile::span};
    if constexpr (is_matrix) {
      t.rank = 2;
      t.box[1] = TileM;
      return cuda::encode(to, t);
    } else {
      t.extent[rank - 1] = index_t(cfg.batch);
      t.stride[rank - 1] = strides.template get<0>() * size;
      tensor_columns columns = {t,
                                {-int(index_t(cfg.pad_left)), -int(index_t(cfg.pad_top)), 0},
                                {upper(cfg.out_w, cfg.stride_w, cfg.in_w, cfg.pad_left),
                                 upper(cfg.out_h, cfg.stride_h, cfg.in_h, cfg.pad_top), 0},
                                {int(index_t(cfg.stride_w)), int(index_t(cfg.stride_h)), 1},
                                TileM};
      if constexpr (is_volume) {
        columns.tensor.extent[3] = index_t(cfg.in_d);
        columns.tensor.stride[3] = strides.template get<2>() * size;
        columns.lower[2] = -int(index_t(cfg.pad_front));
        columns.upper[2] = upper(cfg.out_d, cfg.stride_d, cfg.in_d, cfg.pad_front);
        columns.step[2] = int(index_t(cfg.stride_d));
      }
      return cuda::encode(to, columns);
    }
  }

  TENON_DEVICE tensor_a(const problem &p, int m0, int slice, int step) : problem_(p), at_(p, step) {
    seek(m0, slice, step);
  }
  /// Goes to another tile.
  TENON_DEVICE void seek(int m0, int slice, int step) {
    at_ = position(problem_, step);
    channels_ = slice * int(index_t(problem_.cfg.channels));
    if constexpr (is_matrix) {
      x_ = m0;
    } else {
      const pixel first = problem::window::corner(problem_.cfg, m0);
      image_ = first.image, x_ = first.x, y_ = first.y, z_ = first.z;
    }
  }
  /// Loads the tile of this step and goes on to the next.
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    const int channel = channels_ + at_.channel;
    const auto &cfg = problem_.cfg;
    if constexpr (is_matrix) {
      ptx::tensor_copy_tiled::load(to, map, done, {channel, x_});
    } else {
      const auto dx = (unsigned short)(at_.dx * int(index_t(cfg.dilation_w))),
                 dy = (unsigned short)(at_.dy * int(index_t(cfg.dilation_h)));
      if constexpr (is_volume)
        ptx::tensor_copy_im2col::load(
            to, map, done, {channel, x_, y_, z_, image_},
            {dx, dy, (unsigned short)(at_.dz * int(index_t(cfg.dilation_d)))});
      else
        ptx::tensor_copy_im2col::load(to, map, done, {channel, x_, y_, image_}, {dx, dy});
    }
    at_.next(problem_);
  }
  /// Computes where it is now, not when it loads.
  TENON_DEVICE void settle() {
    ptx::settle(x_);
    if constexpr (!is_matrix) {
      ptx::settle(y_), ptx::settle(image_);
      ptx::settle(at_.dx), ptx::settle(at_.dy);
    }
    ptx::settle(at_.channel);
  }

private:
  /// Of the upper corner: it follows from the number of outputs, so that uneven padding needs no
  /// more.
  static int upper(index_t out, index_t stride, index_t in, index_t pad) {
    return int((out - 1) * stride + 1 - in - pad);
  }
  const problem &problem_;
  position at_;
  int channels_ = 0, image_ = 0, x_ = 0, y_ = 0, z_ = 0;
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
  TENON_DEVICE tensor_a(const problem &p, int m0, int slice, int step) : problem_(p) {
    seek(m0, slice, step);
  }
  TENON_DEVICE void seek(int m0, int slice, int step) {
    m0_ = m0;
    k_ = step * TileK;
    problem_.slice_point(slice, at_);
  }
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    boxes::load(to, map, done, problem_.x, m0_, k_, at_[0], at_[1]);
    k_ += TileK;
  }
  TENON_DEVICE void settle() {
    ptx::settle(m0_), ptx::settle(k_), ptx::settle(at_[0]), ptx::settle(at_[1]);
  }

private:
  const problem &problem_;
  int m0_, k_, at_[4];
};

/// Loads tiles of weights in Parts parts.
template <class Problem, class T, int TileN, int TileK, int Parts> class tensor_weights;

template <class Config, class X, class T, int TileN, int TileK, int Parts>
class tensor_weights<conv_problem<Config, X>, T, TileN, TileK, Parts> {
  using problem = conv_problem<Config, X>;
  using position = detail::tap_steps<problem, TileK>;

public:
  using element = T;
  using tile = detail::operand_tile<T, TileN, TileK, true>;
  static constexpr bool is_weights = true;
  static constexpr int parts = Parts, products = 1;

  template <class W> static status encode(tensor_map &to, const problem &p, const W &w) {
    const index_t channels = index_t(p.cfg.channels), taps = p.taps(),
                  pitch = detail::weight_pitch<T>(channels);
    return cuda::encode(to, tensor_box{w.data,
                                       detail::tensor_element_of<T>(),
                                       3,
                                       {channels, taps, Parts * rows(p), 1, 1},
                                       {index_t(sizeof(T)), pitch, taps * pitch, 0, 0},
                                       {TileK, 1, TileN, 1, 1},
                                       tile::span});
  }
  template <class W>
  TENON_DEVICE tensor_weights(const problem &p, const W &, int n0, int slice, int step)
      : problem_(p), at_(p, step), n_(slice * p.columns() + n0) {}
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    TENON_UNROLL
    for (int i = 0; i < Parts; ++i) {
      const int at[3] = {at_.channel, at_.tap, n_ + i * int(rows(problem_))};
      ptx::tensor_copy_tiled::load(static_cast<unsigned char *>(to) + i * tile::bytes, map, done,
                                   at);
    }
    at_.next(problem_);
  }

private:
  TENON_FN static index_t rows(const problem &p) {
    return index_t(p.cfg.groups) * index_t(p.cfg.filters);
  }
  const problem &problem_;
  position at_;
  int n_;
};

template <class Config, class X, class T, int TileN, int TileK, int Parts>
class tensor_weights<matmul_problem<Config, X>, T, TileN, TileK, Parts> {
  using problem = matmul_problem<Config, X>;

public:
  using element = T;
  using tile = detail::operand_tile<T, TileN, TileK, true>;
  static constexpr bool is_weights = true;
  static constexpr int parts = Parts, products = 1;

  template <class W> static status encode(tensor_map &to, const problem &p, const W &w) {
    const index_t pitch = detail::weight_pitch<T>(p.depth());
    return cuda::encode(to, tensor_box{w.data,
                                       detail::tensor_element_of<T>(),
                                       2,
                                       {p.depth(), Parts * p.columns(), 1, 1, 1},
                                       {index_t(sizeof(T)), pitch, 0, 0, 0},
                                       {TileK, TileN, 1, 1, 1},
                                       tile::span});
  }
  template <class W>
  TENON_DEVICE tensor_weights(const problem &p, const W &, int n0, int, int step)
      : problem_(p), n_(n0), k_(step * TileK) {}
  TENON_DEVICE void load(void *to, const tensor_map &map, ptx::mbarrier &done) {
    TENON_UNROLL
    for (int i = 0; i < Parts; ++i) {
      const int at[2] = {k_, n_ + i * int(problem_.columns())};
      ptx::tensor_copy_tiled::load(static_cast<unsigned char *>(to) + i * tile::bytes, map, done,
                                   at);
    }
    k_ += TileK;
  }

private:
  const problem &problem_;
  int n_, k_;
};

/// Loads tiles of B, TileK x TileN, in `parts` parts, one behind the other; of `products` products,
/// TileN / products columns each.
template <class Problem, class B, int TileN, int TileK> class tensor_b;

template <class Problem, class T, int TileN, int TileK>
class tensor_b<Problem, packed_weights<T>, TileN, TileK>
    : public tensor_weights<Problem, T, TileN, TileK, 1> {
  using tensor_weights<Problem, T, TileN, TileK, 1>::tensor_weights;
};
template <class Problem, class T, int TileN, int TileK>
class tensor_b<Problem, packed_parts<T>, TileN, TileK>
    : public tensor_weights<Problem, T, TileN, TileK, 2> {
  using tensor_weights<Problem, T, TileN, TileK, 2>::tensor_weights;
};

/// The maps of two products' weights.
struct tensor_map_pair {
  tensor_map of[2] = {};
};

template <class Config, class X, class T, int TileN, int TileK>
class tensor_b<matmul_problem<Config, X>, packed_pair<T>, TileN, TileK> {
  using problem = matmul_problem<Config, X>;
  using each = tensor_weights<problem, T, TileN / 2, TileK, 1>;

public:
  using element = T;
  using tile = detail::operand_tile<T, TileN, TileK, true>;
  static constexpr bool is_weights = true;
  static constexpr int parts = 1, products = 2;

  static status encode(tensor_map_pair &to, const problem &p, const packed_pair<T> &w) {
    TENON_CHECK(each::encode(to.of[0], p, packed_weights<T>{w.data[0]}));
    return each::encode(to.of[1], p, packed_weights<T>{w.data[1]});
  }
  TENON_DEVICE tensor_b(const problem &, const packed_pair<T> &, int n0, int, int step)
      : n_(n0), k_(step * TileK) {}
  TENON_DEVICE void load(void *to, const tensor_map_pair &maps, ptx::mbarrier &done) {
    const int at[2] = {k_, n_};
    TENON_UNROLL
    for (int i = 0; i < products; ++i)
      ptx::tensor_copy_tiled::load(static_cast<unsigned char *>(to) + i * each::tile::bytes,
                                   maps.of[i], done, at);
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
  static constexpr int parts = 1, products = 1;

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
