// Defines references and cases that the tests of all contraction kernels share. `Kernels` names the
// kernels under test: conv, matmul, the weights' element type and packing, and the error bound.
#pragma once

#include "common/scalar.h"
#include "cuda/tile/contraction.cuh"
#include "cuda/tile/split_k.cuh"
#include "cuda/tile/tf32.cuh"
#include "shared/harness.h"

namespace test {

/// acc + bias, relu; plus a residual.
struct bias_relu_add {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias, f32<L> residual) const {
    return relu<L>(acc + bias) + residual;
  }
};
/// Two results: acc and acc * 0.5.
struct two_ways {
  template <class L> TENON_FN results<f32<L>, f32<L>> operator()(L, f32<L> acc) const {
    return pack(acc, acc * 0.5f);
  }
};
/// relu(a * scale + shift), by channel.
struct scale_shift_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> scale, f32<L> shift) const {
    return relu<L>(a * scale + shift);
  }
};

/// Any 2-d convolution in double; `input(n, c, y, x)` is called for elements inside only.
template <class Config, class Input, class Weight>
std::vector<double> convolve(const Config &cfg, Input input, Weight weight) {
  const index_t g = cfg.groups, f = cfg.filters, c = cfg.channels;
  std::vector<double> y;
  for (index_t n = 0; n < cfg.batch; ++n)
    for (index_t oh = 0; oh < cfg.out_h; ++oh)
      for (index_t ow = 0; ow < cfg.out_w; ++ow)
        for (index_t k = 0; k < g * f; ++k) {
          double sum = 0;
          for (index_t ky = 0; ky < cfg.kernel_h; ++ky)
            for (index_t kx = 0; kx < cfg.kernel_w; ++kx) {
              const index_t iy = oh * cfg.stride_h - cfg.pad_top + ky * cfg.dilation_h;
              const index_t ix = ow * cfg.stride_w - cfg.pad_left + kx * cfg.dilation_w;
              if (iy < 0 || iy >= cfg.in_h || ix < 0 || ix >= cfg.in_w)
                continue;
              for (index_t i = 0; i < c; ++i)
                sum += input(n, k / f * c + i, iy, ix) * weight(k, i, ky, kx);
            }
          y.push_back(sum);
        }
  return y;
}

/// What is stored of each weight: itself, what tf32 keeps of it, or its two parts (tf32.cuh), all
/// big ones before all small ones.
enum class stored_as { given, rounded, parts };

/// Weights in tiles of columns:
/// [groups][ceil(filters/tile_n)][kernel_h][kernel_w][channels][tile_n] and
/// [ceil(n/tile_n)][k][tile_n]. `at` is the place of element (k, c, ky, kx), or (k, n).
struct tiled_weights {
  template <class Config>
  static index_t at(const Config &cfg, index_t k, index_t c, index_t ky, index_t kx) {
    const index_t tile_n = Config::tile_n, f = cfg.filters, tiles = (f + tile_n - 1) / tile_n,
                  g = k / f, n = k % f;
    return ((((g * tiles + n / tile_n) * cfg.kernel_h + ky) * cfg.kernel_w + kx) * cfg.channels +
            c) *
               tile_n +
           n % tile_n;
  }
  template <class Config> static index_t size(const Config &cfg) {
    return cfg.groups * columns(cfg, cfg.filters) * cfg.kernel_h * cfg.kernel_w * cfg.channels;
  }
  template <class Config> static index_t matrix_at(const Config &cfg, index_t k, index_t n) {
    const index_t tile_n = Config::tile_n;
    return (n / tile_n * cfg.k + k) * tile_n + n % tile_n;
  }
  /// n, rounded up to whole tiles.
  template <class Config> static index_t columns(const Config &, index_t n) {
    const index_t tile_n = Config::tile_n;
    return (n + tile_n - 1) / tile_n * tile_n;
  }
  /// What the innermost extent of K is rounded up to.
  static index_t pitch(index_t depth) { return depth; }
  static constexpr stored_as form = stored_as::given;
  template <class T> static auto view(const T *data) { return cuda::make_packed_weights(data); }
};
/// Rows along K, not rounded up: [groups * filters][kernel_h][kernel_w][channels] and [n][k].
struct row_weights {
  template <class Config>
  static index_t at(const Config &cfg, index_t k, index_t c, index_t ky, index_t kx) {
    return ((k * cfg.kernel_h + ky) * cfg.kernel_w + kx) * cfg.channels + c;
  }
  template <class Config> static index_t size(const Config &cfg) {
    return cfg.groups * cfg.filters * cfg.kernel_h * cfg.kernel_w * cfg.channels;
  }
  template <class Config> static index_t matrix_at(const Config &cfg, index_t k, index_t n) {
    return n * cfg.k + k;
  }
  template <class Config> static index_t columns(const Config &, index_t n) { return n; }
  static index_t pitch(index_t depth) { return depth; }
  static constexpr stored_as form = stored_as::given;
  template <class T> static auto view(const T *data) { return cuda::make_k_major_weights(data); }
};
/// K-major weights: [groups * filters][kernel_h][kernel_w][channels] and [n][k], rows rounded up to
/// 16 bytes, which are Run elements.
template <index_t Run, stored_as Form = stored_as::given> struct rounded_rows {
  template <class Config>
  static index_t at(const Config &cfg, index_t k, index_t c, index_t ky, index_t kx) {
    return ((k * cfg.kernel_h + ky) * cfg.kernel_w + kx) * pitch(cfg.channels) + c;
  }
  template <class Config> static index_t size(const Config &cfg) {
    return cfg.groups * cfg.filters * cfg.kernel_h * cfg.kernel_w * pitch(cfg.channels);
  }
  template <class Config> static index_t matrix_at(const Config &cfg, index_t k, index_t n) {
    return n * pitch(cfg.k) + k;
  }
  template <class Config> static index_t columns(const Config &, index_t n) { return n; }
  static index_t pitch(index_t depth) { return (depth + Run - 1) / Run * Run; }
  static constexpr stored_as form = Form;
  template <class T> static auto view(const T *data) {
    if constexpr (Form == stored_as::parts)
      return cuda::make_packed_parts(data);
    else
      return cuda::make_packed_weights(data);
  }
};

/// Weights as a kernel reads them; `given` are on the device.
template <class Packing, class T> class stored_weights {
public:
  explicit stored_weights(buffer<T> &given) : given_(given) {
    if constexpr (Packing::form != stored_as::given) {
      const index_t count = given.size();
      for (index_t i = 0; i < count; ++i) {
        const unsigned bits = tenon::detail::bitcast<unsigned>(given.get(i));
        const cuda::tf32_pair p(bits);
        made_.set(i, tenon::detail::bitcast<float>(p.big));
        if constexpr (Packing::form == stored_as::parts)
          made_.set(count + i, tenon::detail::bitcast<float>(p.small));
      }
      made_.upload();
    }
  }
  auto view() {
    if constexpr (Packing::form == stored_as::given)
      return Packing::template view<T>(given_.device());
    else
      return Packing::template view<T>(made_.device());
  }

private:
  buffer<T> &given_;
  buffer<T> made_{Packing::form == stored_as::given ? 1 : 2 * given_.size()};
};

/// The extents of a convolution; a schedule is mixed in.
template <class Schedule, index_t Channels, index_t Filters, index_t Kernel, index_t Groups = 1>
struct conv_case : cuda::conv_defaults, Schedule {
  dyn batch, in_h, in_w, out_h, out_w;
  static constexpr fixed<Groups> groups{};
  static constexpr fixed<Channels> channels{};
  static constexpr fixed<Filters> filters{};
  static constexpr fixed<Kernel> kernel_h{}, kernel_w{};
  dyn stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;

  conv_case(index_t n, index_t h, index_t w, index_t stride, index_t dilation, index_t pad) {
    batch = n, in_h = h, in_w = w;
    stride_h = stride, stride_w = stride, dilation_h = dilation, dilation_w = dilation;
    pad_top = pad, pad_left = pad;
    const index_t span = dilation * (Kernel - 1) + 1;
    out_h = (h + 2 * pad - span) / stride + 1;
    out_w = (w + 2 * pad - span) / stride + 1;
  }
};

/// Partial sums and counters of split-K; expect() says that all counters are zero again.
class split_buffers {
public:
  split_buffers(index_t tiles, int splits, int tile_m, int tile_n)
      : partials_(cuda::split_partial_bytes(tiles, splits, tile_m, tile_n) / 4 + 4),
        counters_(cuda::split_counter_bytes(2 * tiles, splits) / 4 +
                  1) { // two teams a tile at most
    counters_.fill(0);
  }
  cuda::split_scratch scratch() { return {partials_.device(), counters_.device()}; }
  void expect_zero() { test::expect_zero(counters_); }

private:
  buffer<float> partials_;
  buffer<int> counters_;
};

/// A convolution without padding that says so.
template <class Case> struct unpadded_case : Case {
  using Case::Case;
  static constexpr bool on_fragments = true;
};

/// A Schedule whose convolutions know, in their types, what else is looked at when they run: that
/// tensors start aligned, and what their strides are multiples of.
template <class Schedule> struct known_runs : Schedule {
  static constexpr bool aligned = true, aligned_results = true;
};

template <class T> double rounded(double x) {
  T stored;
  store_element(&stored, tenon::compute_t<T>(x));
  return double(load_element(&stored));
}

/// Convolution with bias, relu and residual, NHWC; T is what activations are stored as. With
/// Prologue x is relu(x * scale + shift), rounded to what is multiplied.
template <class Kernels, class T, class Schedule, index_t C, index_t F, index_t K, index_t G = 1,
          bool Prologue = false>
void conv(index_t n, index_t h, index_t w, index_t stride, index_t dilation, index_t pad,
          index_t skew = 0) {
  using plain_case = conv_case<Schedule, C, F, K, G>;
  const std::conditional_t<Prologue && K == 1, unpadded_case<plain_case>, plain_case> cfg(
      n, h, w, stride, dilation, pad);
  constexpr index_t xc = C * G, yc = F * G;
  constexpr bool known = cuda::detail::promises_alignment<Schedule>::value;
  const index_t oh = cfg.out_h, ow = cfg.out_w;
  name_case("%s conv n%ld %ldx%ld c%ld f%ld k%ld g%ld s%ld d%ld p%ld skew %ld splits %d%s%s",
            Kernels::name, long(n), long(h), long(w), long(C), long(F), long(K), long(G),
            long(stride), long(dilation), long(pad), long(skew), Schedule::splits,
            Prologue ? " prologue" : "", known ? " known" : "");
  buffer<T> x(n * h * w * xc, skew);
  buffer<typename Kernels::weight> weights(Kernels::packing::size(cfg));
  buffer<float> bias(yc, skew), scale(xc), shift(xc);
  buffer<T> residual(n * oh * ow * yc), y(n * oh * ow * yc, skew);
  x.fill_random();
  scale.fill_random();
  shift.fill_random();
  bias.fill_random();
  residual.fill_random();
  weights.fill(0);
  for (index_t k = 0; k < yc; ++k)
    for (index_t c = 0; c < C; ++c)
      for (index_t ky = 0; ky < K; ++ky)
        for (index_t kx = 0; kx < K; ++kx)
          weights.set(Kernels::packing::at(cfg, k, c, ky, kx), random_float());
  weights.upload();
  auto want = convolve(
      cfg,
      [&](index_t b, index_t c, index_t iy, index_t ix) {
        const double given = double(x.get(((b * h + iy) * w + ix) * xc + c));
        if (!Prologue)
          return given;
        const double s = given * double(scale.get(c)) + double(shift.get(c));
        return rounded<typename Kernels::weight>(s > 0 ? s : 0);
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return double(weights.get(Kernels::packing::at(cfg, k, c, ky, kx)));
      });
  for (index_t i = 0; i < y.size(); ++i) {
    const double s = want[i] + double(bias.get(i % yc));
    want[i] = (s > 0 ? s : 0) + double(residual.get(i));
  }
  using pitch = std::conditional_t<known, cuda::multiple<xc>, dyn>;
  using y_pitch = std::conditional_t<known, cuda::multiple<yc>, dyn>;
  using four = dims<pitch, fixed<1>, pitch, fixed<xc>>;
  using out = dims<y_pitch, fixed<1>, y_pitch, fixed<yc>>;
  const auto y_strides = out(oh * ow * yc, {}, ow * yc, {});
  const index_t tiles = G * ((n * oh * ow + Schedule::tile_m - 1) / Schedule::tile_m) *
                        ((F + Schedule::tile_n - 1) / Schedule::tile_n);
  split_buffers splits(tiles, Schedule::splits, Schedule::tile_m, Schedule::tile_n);
  stored_weights<typename Kernels::packing, typename Kernels::weight> stored(weights);
  const auto make = [&](auto... prologue) {
    return Kernels::conv(cfg, make_view<const T>(x.device(), four(h * w * xc, {}, w * xc, {})),
                         stored.view(), pack(make_view(y.device(), y_strides)),
                         pack(make_view<const float>(bias.device(), extents<0, 1, 0, 0>{}),
                              make_view<const T>(residual.device(), y_strides)),
                         bias_relu_add{}, splits.scratch(), prologue...);
  };
  const auto kernel = [&] {
    if constexpr (Prologue)
      return make(scale_shift_relu{}, pack(make_view<const float>(scale.device(), extents<1>{}),
                                           make_view<const float>(shift.device(), extents<1>{})));
    else
      return make();
  }();
  launch(kernel);
  expect_close(y, want, Kernels::template tolerance<T>());
  if (Schedule::splits > 1) {
    launch(kernel); // counters are ready for the next run
    expect_close(y, want, Kernels::template tolerance<T>());
    splits.expect_zero();
  }
}

/// Convolutions of every way of copying, by kernels that know in their types which one it is.
template <class Kernels, class RowKernels, class Small, class Square> void conv_known_runs() {
  conv<Kernels, f16, known_runs<Small>, 8, 32, 3>(1, 9, 7, 1, 1, 1);
  conv<Kernels, f16, known_runs<Square>, 64, 70, 3>(2, 6, 6, 2, 1, 1);
  conv<Kernels, f16, known_runs<Small>, 6, 20, 3>(2, 11, 13, 2, 1, 1);
  conv<Kernels, f16, known_runs<Small>, 3, 8, 3>(1, 9, 7, 1, 1, 1);
  conv<Kernels, float, known_runs<Small>, 8, 16, 3>(1, 8, 8, 1, 1, 1);
  conv<Kernels, f16, known_runs<Square>, 72, 40, 1, 3, true>(1, 11, 13, 2, 1, 0);
  conv<RowKernels, f16, known_runs<Small>, 24, 24, 3, 3>(1, 6, 5, 1, 1, 1);
  conv<RowKernels, f16, known_runs<Small>, 20, 10, 3, 3>(1, 6, 5, 1, 1, 1);
}

/// A prologue must leave padding zero; two results; NCHW activations.
template <class Kernels, class T, class Schedule, index_t C> void conv_prologue() {
  const conv_case<Schedule, C, 10, 3> cfg(2, 7, 9, 1, 1, 1);
  name_case("%s conv of %ld channels with a prologue and two results", Kernels::name, long(C));
  buffer<T> x(2 * C * 63);
  buffer<float> scale(C), shift(C), y0(2 * 10 * 63), y1(2 * 10 * 63);
  buffer<typename Kernels::weight> weights(Kernels::packing::size(cfg));
  x.fill_random();
  scale.fill_random();
  shift.fill_random();
  weights.fill(0);
  for (index_t k = 0; k < 10; ++k)
    for (index_t t = 0; t < 9 * C; ++t)
      weights.set(Kernels::packing::at(cfg, k, t % C, t / C / 3, t / C % 3), random_float());
  weights.upload();
  const auto nhwc = convolve(
      cfg,
      [&](index_t b, index_t c, index_t iy, index_t ix) {
        const double s = double(x.get((b * C + c) * 63 + iy * 9 + ix)) * double(scale.get(c)) +
                         double(shift.get(c));
        return s > 0 ? s : 0;
      },
      [&](index_t k, index_t c, index_t ky, index_t kx) {
        return double(weights.get(Kernels::packing::at(cfg, k, c, ky, kx)));
      });
  std::vector<double> want0(nhwc.size()), want1(nhwc.size());
  for (index_t b = 0; b < 2; ++b)
    for (index_t p = 0; p < 63; ++p)
      for (index_t k = 0; k < 10; ++k) {
        want0[(b * 10 + k) * 63 + p] = nhwc[(b * 63 + p) * 10 + k];
        want1[(b * 63 + p) * 10 + k] = nhwc[(b * 63 + p) * 10 + k] * 0.5;
      }
  launch(Kernels::conv(cfg, make_view<const T>(x.device(), extents<C * 63, 63, 9, 1>{}),
                       Kernels::packing::template view<typename Kernels::weight>(weights.device()),
                       pack(make_view(y0.device(), extents<10 * 63, 63, 9, 1>{}),
                            make_view(y1.device(), extents<630, 1, 90, 10>{})),
                       pack(), two_ways{}, cuda::split_scratch{}, scale_shift_relu{},
                       pack(make_view<const float>(scale.device(), extents<1>{}),
                            make_view<const float>(shift.device(), extents<1>{}))));
  expect_close(y0, want0, Kernels::template tolerance<float>());
  expect_close(y1, want1, Kernels::template tolerance<float>());
}

template <class Schedule, index_t Depth> struct matmul_case : cuda::matmul_defaults, Schedule {
  dyn batch0, batch1, m, n;
  static constexpr fixed<Depth> k{};
};

/// (2, heads, m, k) times (heads, k, n) broadcast over the first batch dimension, or packed
/// weights.
template <class Kernels, class T, class Schedule, index_t Depth, bool Transposed>
void matmul(index_t heads, index_t m, index_t n, bool packed) {
  name_case("%s matmul heads %ld m %ld n %ld k %ld %s", Kernels::name, long(heads), long(m),
            long(n), long(Depth),
            packed       ? "packed"
            : Transposed ? "transposed"
                         : "strided");
  matmul_case<Schedule, Depth> cfg;
  cfg.batch0 = 2, cfg.batch1 = heads, cfg.m = m, cfg.n = n;
  const index_t columns = Kernels::packing::columns(cfg, n);
  buffer<T> a(2 * heads * m * Depth),
      b(packed ? columns * Kernels::packing::pitch(Depth) : heads * Depth * n);
  buffer<float> y(2 * heads * m * n);
  a.fill_random();
  b.fill_random();
  std::vector<double> want;
  const auto b_at = [&](index_t h, index_t k, index_t j) {
    return packed       ? Kernels::packing::matrix_at(cfg, k, j)
           : Transposed ? (h * n + j) * Depth + k
                        : (h * Depth + k) * n + j;
  };
  if (packed) {
    for (index_t j = n; j < columns; ++j)
      for (index_t k = 0; k < Depth; ++k)
        b.set(b_at(0, k, j), 0);
    b.upload();
  }
  for (index_t s = 0; s < 2 * heads; ++s)
    for (index_t i = 0; i < m; ++i)
      for (index_t j = 0; j < n; ++j) {
        double sum = 0;
        for (index_t k = 0; k < Depth; ++k)
          sum += double(a.get((s * m + i) * Depth + k)) * double(b.get(b_at(s % heads, k, j)));
        want.push_back(sum);
      }
  const auto av = make_view<const T>(
      a.device(), dims<dyn, dyn, fixed<Depth>, fixed<1>>(heads * m * Depth, m * Depth, {}, {}));
  const auto yv =
      pack(make_view(y.device(), dims<dyn, dyn, dyn, fixed<1>>(heads * m * n, m * n, n, {})));
  if (packed)
    launch(Kernels::matmul(cfg, av, stored_weights<typename Kernels::packing, T>(b).view(), yv,
                           pack(), cuda::identity_body{}));
  else if constexpr (Transposed)
    launch(Kernels::matmul(
        cfg, av,
        make_view<const T>(b.device(),
                           dims<fixed<0>, dyn, fixed<1>, fixed<Depth>>({}, Depth * n, {}, {})),
        yv, pack(), cuda::identity_body{}));
  else
    launch(Kernels::matmul(
        cfg, av,
        make_view<const T>(b.device(), dims<fixed<0>, dyn, dyn, fixed<1>>({}, Depth * n, n, {})),
        yv, pack(), cuda::identity_body{}));
  expect_close(y, want, Kernels::template tolerance<float>());
}

} // namespace test
