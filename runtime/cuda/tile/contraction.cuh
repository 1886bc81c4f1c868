// Defines what contraction kernels multiply: convolutions and matrix products as one shape, M x K
// times K x N per slice, without ever forming the matrices.
//
//              slice          M                       K                                N
//   conv       group          batch x out_h x out_w   kernel_h x kernel_w x channels   filters
//   3-d conv   group          the same x out_d        the same x kernel_d              filters
//   matmul     batch matrix   m                       k                                n
//
// A problem says where an element of A lies (or that it is padding), where B lies, and which point
// of the output views a (slice, m, n) is. B is either packed weights,
// [slices][ceil(N/tile_n)][K][tile_n] with zeros in missing columns and 16-byte aligned, or K-major
// weights, [slices][N][K] (groups whose filters fill no tiles), or a view (matmul of two
// activations).
#ifndef TENON_RUNTIME_CUDA_TILE_CONTRACTION_CUH
#define TENON_RUNTIME_CUDA_TILE_CONTRACTION_CUH

#include "cuda/base/multiple.h"
#include "cuda/base/operands.cuh"
#include "cuda/tile/conv_window.cuh"

namespace tenon {
namespace cuda {

/// B as the compiler packed it; T is its storage type.
template <class T> struct packed_weights {
  using element = T;
  const T *data;
};
template <class T> TENON_FN packed_weights<T> make_packed_weights(const T *data) { return {data}; }

/// The same in two parts (tf32.cuh): all big ones, then all small ones.
template <class T> struct packed_parts {
  using element = T;
  const T *data;
};
template <class T> TENON_FN packed_parts<T> make_packed_parts(const T *data) { return {data}; }

/// Those of two products of the same rows, whose sums the body gets together.
template <class T> struct packed_pair {
  using element = T;
  const T *data[2];
};
template <class T> TENON_FN packed_pair<T> make_packed_pair(const T *first, const T *second) {
  return {{first, second}};
}

/// B as rows along K.
template <class T> struct k_major_weights {
  using element = T;
  const T *data;
};
template <class T> TENON_FN k_major_weights<T> make_k_major_weights(const T *data) {
  return {data};
}

/// What a convolution's Config may leave out.
struct conv_defaults {
  static constexpr fixed<1> groups{};
  static constexpr fixed<1> stride_h{}, stride_w{}, dilation_h{}, dilation_w{};
  static constexpr fixed<0> pad_top{}, pad_left{};
  static constexpr fixed<1> stride_d{}, dilation_d{}; // of volumes
  static constexpr fixed<0> pad_front{};
};

/// What a matrix product's Config may leave out. b_stride0 and b_stride1 are the elements of packed
/// B from one batch to the next, 0 when shared.
struct matmul_defaults {
  static constexpr fixed<1> batch0{}, batch1{};
  static constexpr fixed<0> b_stride0{}, b_stride1{};
};

namespace detail {

/// As known_multiples_of, by the strides' values.
template <int Along, int N, int I = 0> TENON_FN bool multiples_of(dims<>) { return true; }
template <int Along, int N, int I = 0, class D, class... Rest>
TENON_FN bool multiples_of(const dims<D, Rest...> &strides) {
  return (I == Along || is_multiple_of<D, N> || index_t(strides.head) % N == 0) &&
         multiples_of<Along, N, I + 1>(strides.tail);
}

/// Whether x starts at a multiple of 16 bytes: known when Config says `aligned` (x is in the
/// arena), else looked at.
template <class Config, class = void> struct promises_alignment {
  static constexpr bool value = false;
};
template <class Config> struct promises_alignment<Config, decltype(void(Config::aligned))> {
  static constexpr bool value = Config::aligned;
};
template <class Config> TENON_DEVICE bool starts_aligned(const void *p) {
  if constexpr (promises_alignment<Config>::value)
    return true;
  else
    return is_aligned<16>(p);
}

/// Whether Config says `aligned_results`: what the epilogue reads and writes starts at multiples of
/// 16 bytes, as `aligned` says of x.
template <class Config, class = void> struct promises_results {
  static constexpr bool value = false;
};
template <class Config> struct promises_results<Config, decltype(void(Config::aligned_results))> {
  static constexpr bool value = Config::aligned_results;
};

/// Whether Config says `on_fragments`: every element of A is one of x, so that a prologue may be
/// applied wherever A is on its way (fragment_prologue.cuh).
template <class Config, class = void> struct promises_fragments {
  static constexpr bool value = false;
};
template <class Config> struct promises_fragments<Config, decltype(void(Config::on_fragments))> {
  static constexpr bool value = Config::on_fragments;
};

/// Config's `x_zero`, else 0: what stands for zero in x, and what is read beyond its border.
template <class Config, class = void> struct zero_point_of_x { static constexpr int value = 0; };
template <class Config> struct zero_point_of_x<Config, decltype(void(Config::x_zero))> {
  static constexpr int value = Config::x_zero;
};

/// Applies a K-indexed prologue to one element.
template <class T, class Prologue, class Ins>
TENON_DEVICE T apply_prologue(const Prologue &prologue, const Ins &ins, T x, int channel) {
  operand_runs<1, Ins> operands;
  const int at[1] = {channel};
  operands.template load<0>(ins, at, 1);
  return operands.call(prologue, 0, x);
}

} // namespace detail

/// The part of a contraction that a block computes at a time.
struct block_part {
  int m0, n0, slice, split;
  int first, end; // tiles along K
  int tile;       // number of the output tile, for split-K
};

/// B as packed weights: rows of tile_n elements, all there and aligned. `is_vector<N>` says whether
/// N neighbours are one aligned vector: along K where B is k_major, else along N; must_be_vector<N>
/// whether that is known when the file is compiled. distance(k, n): of the addresses of two
/// elements that lie so far apart.
template <class Problem, int TileN, class W> struct b_source;
template <class Problem, int TileN, class T> struct b_source<Problem, TileN, packed_weights<T>> {
  using element = T;
  static constexpr bool is_weights = true, k_major = false;
  const T *tile;
  int depth;

  TENON_DEVICE b_source(const Problem &p, const packed_weights<T> &w, int slice, int n0) {
    depth = p.depth();
    tile = w.data + p.weight_offset(slice, TileN) + index_t(n0) * depth;
  }
  template <int> TENON_FN static constexpr bool must_be_vector() { return true; }
  template <int N> TENON_DEVICE constexpr bool is_vector() const { return true; }
  TENON_DEVICE bool holds(int k, int) const { return k < depth; }
  /// Whether holds() everywhere in whole tiles of Tile along K.
  template <int Tile> TENON_FN static constexpr bool is_full() {
    return Problem::template is_full<Tile>();
  }
  TENON_DEVICE const T *address(int k, int n) const { return tile + k * TileN + n; }
  TENON_DEVICE index_t distance(int k, int n) const { return index_t(k) * TileN + n; }
  TENON_DEVICE const T *any() const { return tile; }
};

/// B as rows along K.
template <class Problem, int TileN, class T> struct b_source<Problem, TileN, k_major_weights<T>> {
  using element = T;
  static constexpr bool is_weights = true, k_major = true;
  const T *first;
  int depth, columns;

  TENON_DEVICE b_source(const Problem &p, const k_major_weights<T> &w, int slice, int n0)
      : first(w.data + p.weight_offset(slice, 1) + index_t(n0) * p.depth()), depth(p.depth()),
        columns(p.columns() - n0) {}
  template <int N> TENON_FN static constexpr bool must_be_vector() {
    return Problem::template is_full<N>();
  }
  template <int N> TENON_DEVICE bool is_vector() const { return depth % N == 0; }
  TENON_DEVICE bool holds(int k, int n) const { return k < depth && n < columns; }
  template <int> TENON_FN static constexpr bool is_full() { return false; }
  TENON_DEVICE const T *address(int k, int n) const { return first + n * depth + k; }
  TENON_DEVICE index_t distance(int k, int n) const { return index_t(n) * depth + k; }
  TENON_DEVICE const T *any() const { return first; }
};

/// B as a view over (b0, b1, k, n).
template <class Problem, int TileN, class T, class S> struct b_source<Problem, TileN, view<T, S>> {
  using element = detail::bare<T>;
  static constexpr bool is_weights = false, k_major = false;
  static constexpr int rank = S::rank;
  view<T, S> b;
  const T *origin;
  int depth, columns;

  TENON_DEVICE b_source(const Problem &p, const view<T, S> &v, int slice, int n0) : b(v) {
    depth = p.depth();
    columns = p.columns() - n0;
    int at[rank] = {};
    p.slice_point(slice, at);
    at[rank - 1] = n0;
    origin = v.data + index_t(offset(v.strides, at));
  }
  template <int> TENON_FN static constexpr bool must_be_vector() { return false; }
  template <int N> TENON_DEVICE bool is_vector() const {
    if constexpr (detail::is_unit<decltype(S{}.template get<rank - 1>())>)
      return detail::is_aligned<16>(origin) && columns % N == 0 &&
             detail::multiples_of<rank - 1, N>(b.strides);
    else
      return false;
  }
  TENON_DEVICE bool holds(int k, int n) const { return k < depth && n < columns; }
  template <int> TENON_FN static constexpr bool is_full() { return false; }
  TENON_DEVICE const T *address(int k, int n) const { return origin + distance(k, n); }
  TENON_DEVICE index_t distance(int k, int n) const {
    return index_t(k * int(index_t(b.strides.template get<rank - 2>()))) +
           n * index_t(b.strides.template get<rank - 1>());
  }
  TENON_DEVICE const T *any() const { return b.data; }
};

/// A convolution with activations x over (n, c, h, w), or (n, c, d, h, w): a volume's Config has
/// in_d, out_d, kernel_d, stride_d, dilation_d and pad_front, too.
template <class Config, class X> struct conv_problem;
template <class Config, class T, class S> struct conv_problem<Config, view<T, S>> {
  using element = detail::bare<T>;
  static constexpr int rank = S::rank, along = 1;
  static constexpr bool is_volume = rank == 5;
  static constexpr int zero = detail::zero_point_of_x<Config>::value;
  static_assert(rank == 4 || is_volume, "two or three spatial dimensions");
  Config cfg;
  view<T, S> x;

  using window = conv_window<Config, is_volume>;
  TENON_FN int plane() const { return window::plane(cfg); }
  /// Outputs of an image.
  TENON_FN int pixels() const { return window::pixels(cfg); }
  TENON_FN int taps() const { return window::taps(cfg); }
  TENON_FN int rows() const { return int(index_t(cfg.batch)) * pixels(); }
  TENON_FN bool has_row(int m) const { return m < rows(); }
  TENON_FN int columns() const { return int(index_t(cfg.filters)); }
  TENON_FN int depth() const { return taps() * int(index_t(cfg.channels)); }
  TENON_FN int slices() const { return int(index_t(cfg.groups)); }
  static constexpr bool on_fragments = detail::promises_fragments<Config>::value;
  /// Whether runs of N columns are whole in the epilogue (Whole of operand_runs).
  template <int N> TENON_FN static constexpr bool has_whole_runs() {
    return detail::promises_results<Config>::value &&
           detail::is_multiple_of<decltype(Config::filters), N>;
  }
  /// Where the packed weights of a slice begin; tile_n is 1 for rows along K.
  TENON_DEVICE index_t weight_offset(int slice, int tile_n) const {
    return index_t(slice) * ceil_div(columns(), tile_n) * tile_n * depth();
  }

  /// The window of one row of A.
  struct row {
    const T *first; // of its group, at the first tap: not in x where that is padding
    typename window::cover cover;
  };
  TENON_DEVICE row make_row(int m, int slice) const {
    if (m >= rows())
      return {x.data, {}};
    const pixel p = window::corner(cfg, m);
    return {x.data + p.image * index_t(x.strides.template get<0>()) +
                slice * cfg.channels * x.strides.template get<1>() + distance(p),
            {cfg, p}};
  }
  /// Whether N neighbours along K are one aligned vector.
  template <int N> TENON_FN static constexpr bool may_be_vector() {
    return detail::is_unit<decltype(S{}.template get<1>())> &&
           detail::is_multiple_of<decltype(Config::channels), N>;
  }
  /// The same of every run: known when the file is compiled.
  template <int N> TENON_FN static constexpr bool must_be_vector() {
    return may_be_vector<N>() && detail::promises_alignment<Config>::value &&
           detail::known_multiples_of<1, N>(S{});
  }
  template <int N> TENON_DEVICE bool is_vector() const {
    return detail::starts_aligned<Config>(x.data) && detail::multiples_of<1, N>(x.strides);
  }
  /// Whether K is known to be whole tiles of Tile.
  template <int Tile> TENON_FN static constexpr bool is_full() { return may_be_vector<Tile>(); }
  /// A position along K: the tap and the channel, and how far from a window's first element.
  struct column {
    int tap, channel, at;
    pixel by;
    bool inside;
  };
  TENON_DEVICE column make_column(int k) const {
    const int channels = int(index_t(cfg.channels)), tap = k / channels,
              channel = k - tap * channels;
    const pixel by = window::offset(cfg, tap);
    return {tap, channel, distance(by) + channel * int(index_t(x.strides.template get<1>())), by,
            k < depth()};
  }
  TENON_DEVICE bool holds(const row &r, const column &c) const {
    return c.inside && r.cover.covers(cfg, c.tap, c.by);
  }
  /// Not to be read but where holds().
  TENON_DEVICE const T *address(const row &r, const column &c) const { return r.first + c.at; }
  TENON_DEVICE int channel(const column &c, int slice) const {
    return slice * int(index_t(cfg.channels)) + c.channel;
  }
  /// How many elements an operand of a prologue has.
  TENON_FN int prologue_channels() const { return int(cfg.groups * cfg.channels); }
  /// The output point (n, k, [od,] oh, ow) of row m and column n.
  TENON_DEVICE void point(int slice, int m, int n, int (&at)[rank]) const {
    const pixel p = window::output(cfg, m);
    at[0] = p.image;
    at[1] = slice * columns() + n;
    if constexpr (is_volume)
      at[2] = p.z;
    at[rank - 2] = p.y;
    at[rank - 1] = p.x;
  }

private:
  /// Elements between two pixels of an image.
  TENON_DEVICE int distance(const pixel &by) const {
    int at = by.y * int(index_t(x.strides.template get<rank - 2>())) +
             by.x * int(index_t(x.strides.template get<rank - 1>()));
    if constexpr (is_volume)
      at += by.z * int(index_t(x.strides.template get<2>()));
    return at;
  }
};

/// Matrix products with A a view over (b0, b1, m, k).
template <class Config, class X> struct matmul_problem;
template <class Config, class T, class S> struct matmul_problem<Config, view<T, S>> {
  using element = detail::bare<T>;
  static constexpr int rank = 4, along = 3;
  static constexpr int zero = detail::zero_point_of_x<Config>::value;
  Config cfg;
  view<T, S> x;

  TENON_FN int rows() const { return int(index_t(cfg.m)); }
  TENON_FN bool has_row(int m) const { return m < rows(); }
  TENON_FN int columns() const { return int(index_t(cfg.n)); }
  TENON_FN int depth() const { return int(index_t(cfg.k)); }
  TENON_FN int slices() const { return int(cfg.batch0 * cfg.batch1); }
  static constexpr bool on_fragments = detail::promises_fragments<Config>::value;
  template <int N> TENON_FN static constexpr bool has_whole_runs() {
    return detail::promises_results<Config>::value &&
           detail::is_multiple_of<decltype(Config::n), N>;
  }
  TENON_DEVICE index_t weight_offset(int slice, int) const {
    int at[rank];
    slice_point(slice, at);
    return at[0] * index_t(cfg.b_stride0) + at[1] * index_t(cfg.b_stride1);
  }
  TENON_DEVICE void slice_point(int slice, int (&at)[rank]) const {
    const int inner = int(index_t(cfg.batch1));
    at[0] = slice / inner;
    at[1] = slice % inner;
    at[2] = at[3] = 0;
  }

  struct row {
    const T *origin;
    bool inside;
  };
  TENON_DEVICE row make_row(int m, int slice) const {
    if (m >= rows())
      return {x.data, false};
    int at[rank];
    slice_point(slice, at);
    at[2] = m;
    return {x.data + offset(x.strides, at), true};
  }
  template <int N> TENON_FN static constexpr bool may_be_vector() {
    return detail::is_unit<decltype(S{}.template get<3>())> &&
           detail::is_multiple_of<decltype(Config::k), N>;
  }
  /// The same of every run: known when the file is compiled.
  template <int N> TENON_FN static constexpr bool must_be_vector() {
    return may_be_vector<N>() && detail::promises_alignment<Config>::value &&
           detail::known_multiples_of<3, N>(S{});
  }
  template <int N> TENON_DEVICE bool is_vector() const {
    return detail::starts_aligned<Config>(x.data) && detail::multiples_of<3, N>(x.strides);
  }
  /// Whether K is known to be whole tiles of Tile.
  template <int Tile> TENON_FN static constexpr bool is_full() { return may_be_vector<Tile>(); }
  struct column {
    int k;
    bool inside;
  };
  TENON_DEVICE column make_column(int k) const { return {k, k < depth()}; }
  TENON_DEVICE bool holds(const row &r, const column &c) const { return r.inside && c.inside; }
  TENON_DEVICE const T *address(const row &r, const column &c) const {
    return r.origin + c.k * index_t(x.strides.template get<3>());
  }
  TENON_DEVICE int channel(const column &c, int) const { return c.k; }
  TENON_FN int prologue_channels() const { return depth(); }
  TENON_DEVICE void point(int slice, int m, int n, int (&at)[rank]) const {
    slice_point(slice, at);
    at[2] = m;
    at[3] = n;
  }
};

} // namespace cuda
} // namespace tenon

#endif
