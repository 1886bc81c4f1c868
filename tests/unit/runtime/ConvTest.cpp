// Tests cpu::conv and cpu::conv_dot against a direct sum in double over ragged shapes, layouts and
// schedules.
#include "Support.h"
#include "cpu/conv_dot.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

/// A convolution problem; the schedule and what may vary are members to override.
struct Base : conv_defaults {
  static constexpr fixed<1> batch{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr bool nchw = false, dot = false;
  static constexpr int mr = 5, nr = 2 * W;
  using accumulator = float;
};

/// Weights from [k][c][ky][kx] of each group to the kernel's blocks.
template <class Cfg, class T> std::vector<T> packWeights(const Cfg &cfg, const std::vector<T> &w) {
  const index_t G = cfg.groups, K = cfg.filters, C = cfg.channels, R = cfg.kernel_h,
                S = cfg.kernel_w;
  const index_t blocks = ceil_div(K, Cfg::nr);
  std::vector<T> packed(G * blocks * R * S * C * Cfg::nr);
  for (index_t g = 0; g < G; ++g)
    for (index_t k = 0; k < K; ++k)
      for (index_t c = 0; c < C; ++c)
        for (index_t r = 0; r < R; ++r)
          for (index_t s = 0; s < S; ++s)
            packed[((((g * blocks + k / Cfg::nr) * R + r) * S + s) * C + c) * Cfg::nr +
                   k % Cfg::nr] = w[(((g * K + k) * C + c) * R + r) * S + s];
  return packed;
}

/// Weights from [k][c][ky][kx] to [k][ky][kx][c].
template <class Cfg, class T> std::vector<T> packRuns(const Cfg &cfg, const std::vector<T> &w) {
  const index_t K = cfg.filters, C = cfg.channels, R = cfg.kernel_h, S = cfg.kernel_w;
  std::vector<T> packed(w.size());
  for (index_t k = 0; k < K; ++k)
    for (index_t c = 0; c < C; ++c)
      for (index_t rs = 0; rs < R * S; ++rs)
        packed[(k * R * S + rs) * C + c] = w[(k * C + c) * R * S + rs];
  return packed;
}

struct Scale {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x, f32<L> s, f32<L> t) const {
    return relu<L>(f32<L>(x * s + t));
  }
};
struct BiasResidual {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> bias, f32<L> r) const {
    return a + bias + r;
  }
};

/// Runs Cfg with bias and residual, with or without the K-indexed prologue, and compares.
template <class Cfg, bool Prologue = false> void check() {
  Cfg cfg;
  const index_t N = cfg.batch, G = cfg.groups, K = cfg.filters, C = cfg.channels, H = cfg.in_h,
                IW = cfg.in_w;
  const index_t R = cfg.kernel_h, S = cfg.kernel_w, OH = cfg.out_h, OW = cfg.out_w;
  const index_t GC = G * C, GK = G * K;
  auto x = randomFloats(N * H * IW * GC, 1), w = randomFloats(GK * C * R * S, 2),
       bias = randomFloats(GK, 3), y = randomFloats(N * OH * OW * GK, 4), s = randomFloats(GC, 5),
       t = randomFloats(GC, 6);
  std::vector<double> want(y.size());
  for (index_t n = 0; n < N; ++n)
    for (index_t k = 0; k < GK; ++k)
      for (index_t oh = 0; oh < OH; ++oh)
        for (index_t ow = 0; ow < OW; ++ow) {
          double sum = 0;
          for (index_t c = 0; c < C; ++c)
            for (index_t r = 0; r < R; ++r)
              for (index_t q = 0; q < S; ++q) {
                const index_t ih = oh * cfg.stride_h - cfg.pad_top + r * cfg.dilation_h;
                const index_t iw = ow * cfg.stride_w - cfg.pad_left + q * cfg.dilation_w;
                if (ih < 0 || ih >= H || iw < 0 || iw >= IW)
                  continue;
                const index_t gc = k / K * C + c;
                double v = x[Cfg::nchw ? ((n * GC + gc) * H + ih) * IW + iw
                                       : ((n * H + ih) * IW + iw) * GC + gc];
                if (Prologue)
                  v = std::max(0.0, v * s[gc] + t[gc]);
                sum += v * w[((k * C + c) * R + r) * S + q];
              }
          const index_t at = ((n * OH + oh) * OW + ow) * GK + k;
          want[at] = sum + bias[k] + y[at]; // the residual lies where the result goes
        }
  const auto packed = [&] {
    if constexpr (Cfg::dot)
      return packRuns(cfg, w);
    else
      return packWeights(cfg, w);
  }();
  const dims<dyn, fixed<1>, dyn, dyn> outStrides(dyn(OH * OW * GK), {}, dyn(OW * GK), dyn(GK));
  const auto outs = pack(make_view(y.data(), outStrides));
  const auto ins = pack(make_view((const float *)bias.data(), extents<0, 1, 0, 0>()),
                        make_view((const float *)y.data(), outStrides));
  const auto sides = pack(make_view((const float *)s.data(), extents<1>()),
                          make_view((const float *)t.data(), extents<1>()));
  pool workers(3);
  const auto call = [&](const auto &view) {
    if constexpr (Cfg::dot && Prologue)
      conv_dot(cfg, view, packed.data(), outs, ins, BiasResidual{}, workers, Scale{}, sides);
    else if constexpr (Cfg::dot)
      conv_dot(cfg, view, packed.data(), outs, ins, BiasResidual{}, workers);
    else if constexpr (Prologue)
      conv(cfg, view, packed.data(), outs, ins, BiasResidual{}, workers, Scale{}, sides);
    else
      conv(cfg, view, packed.data(), outs, ins, BiasResidual{}, workers);
  };
  constexpr index_t fixedChannels = decltype(cfg.groups)::value * decltype(cfg.channels)::value;
  if constexpr (Cfg::nchw)
    call(make_view((const float *)x.data(),
                   dims<dyn, dyn, dyn, fixed<1>>(dyn(GC * H * IW), dyn(H * IW), dyn(IW), {})));
  else
    call(make_view((const float *)x.data(), dims<dyn, fixed<1>, dyn, fixed<fixedChannels>>(
                                                dyn(H * IW * GC), {}, dyn(IW * GC), {})));
  expectClose(y, want);
}

#define EXTENTS(IH, IW, OH, OW, C, K)                                                              \
  static constexpr fixed<IH> in_h{};                                                               \
  static constexpr fixed<IW> in_w{};                                                               \
  static constexpr fixed<OH> out_h{};                                                              \
  static constexpr fixed<OW> out_w{};                                                              \
  static constexpr fixed<C> channels{};                                                            \
  static constexpr fixed<K> filters{};

struct Same3x3 : Base {
  EXTENTS(7, 13, 7, 13, 19, 2 * W + 3)
  static constexpr fixed<1> pad_top{}, pad_left{};
};
TEST(Conv, Same3x3) { check<Same3x3>(); }
TEST(Conv, Prologue) { check<Same3x3, true>(); }

struct PixelsOuter : Same3x3 {
  static constexpr bool filters_outer = false, pack_input = true;
};
TEST(Conv, PixelsOuterPacked) { check<PixelsOuter>(); }
TEST(Conv, PixelsOuterPrologue) { check<PixelsOuter, true>(); }

struct OneRow : Same3x3 {
  static constexpr int mr = 1, nr = W;
};
TEST(Conv, NoPatch) { check<OneRow>(); }
TEST(Conv, NoPatchPrologue) { check<OneRow, true>(); }

struct Nchw : Same3x3 {
  static constexpr bool nchw = true;
};
TEST(Conv, Nchw) { check<Nchw>(); }
struct NchwOneRow : OneRow {
  static constexpr bool nchw = true;
};
TEST(Conv, NchwNoPatch) { check<NchwOneRow>(); }

struct FirstLayer : Base {
  EXTENTS(17, 31, 9, 16, 3, 24)
  static constexpr fixed<2> batch{}, stride_h{}, stride_w{};
  static constexpr fixed<1> pad_top{}, pad_left{};
  static constexpr int mr = 14;
};
TEST(Conv, StridedFirstLayer) { check<FirstLayer>(); }

struct Pointwise : Base {
  EXTENTS(1, 37, 1, 37, 29, 3 * W)
  static constexpr fixed<1> kernel_h{}, kernel_w{};
  static constexpr int mr = 7, nr = 3 * W;
};
TEST(Conv, Pointwise) { check<Pointwise>(); }

struct Dilated : Base {
  EXTENTS(11, 12, 11, 12, 8, 5)
  static constexpr fixed<3> dilation_h{}, dilation_w{};
  static constexpr fixed<3> pad_top{}, pad_left{};
  static constexpr int mr = 4, nr = W;
};
TEST(Conv, Dilated) { check<Dilated>(); }
struct DilatedOneRow : Dilated {
  static constexpr int mr = 1;
};
TEST(Conv, DilatedNoPatch) { check<DilatedOneRow>(); }

struct Grouped : Base {
  EXTENTS(6, 9, 3, 3, 4, 6)
  static constexpr fixed<3> groups{};
  static constexpr fixed<2> stride_h{}, kernel_h{};
  static constexpr fixed<3> stride_w{};
  static constexpr fixed<1> pad_left{};
  static constexpr int mr = 3, nr = 2 * W;
};
TEST(Conv, Grouped) { check<Grouped>(); }

/// Groups whose filters fill half a vector, all of them for each tile of pixels.
struct HalfVectors : Grouped {
  static constexpr int nr = W > 1 ? W / 2 : 1;
  EXTENTS(6, 17, 3, 6, 5, nr)
#if TENON_SIMD_WIDTH > 1
  using lanes = simd<nr>;
#endif
  static constexpr bool filters_outer = false;
};
TEST(Conv, GroupsOfHalfVectors) { check<HalfVectors>(); }
TEST(Conv, GroupsOfHalfVectorsPrologue) { check<HalfVectors, true>(); }

struct LongFilter : Base {
  EXTENTS(1, 150, 1, 20, 1, 7)
  static constexpr fixed<1> kernel_h{};
  static constexpr fixed<50> kernel_w{};
  static constexpr fixed<5> stride_w{};
  static constexpr int mr = 6, nr = W;
};
TEST(Conv, LongFilter) { check<LongFilter>(); }

/// The kernel is larger than the image: some taps are outside for every pixel.
struct WiderThanImage : Base {
  EXTENTS(2, 3, 2, 3, 5, 4)
  static constexpr fixed<7> kernel_h{}, kernel_w{};
  static constexpr fixed<3> pad_top{}, pad_left{};
  static constexpr int mr = 3, nr = W;
};
TEST(Conv, WiderThanImage) { check<WiderThanImage>(); }
struct WiderOneRow : WiderThanImage {
  static constexpr int mr = 1;
};
TEST(Conv, WiderThanImageNoPatch) { check<WiderOneRow>(); }

struct RunTimeExtents : conv_defaults {
  dyn batch = 2, in_h = 6, in_w = 11, out_h = 6, out_w = 11, filters = W + 2;
  static constexpr fixed<9> channels{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<1> pad_top{}, pad_left{};
  static constexpr bool nchw = false, dot = false;
  static constexpr int mr = 4, nr = 2 * W;
  using accumulator = float;
};
TEST(Conv, RunTimeExtents) { check<RunTimeExtents>(); }

struct Dot : Base {
  EXTENTS(6, 21, 6, 21, 9, 2)
  static constexpr fixed<2> batch{};
  static constexpr fixed<5> kernel_w{};
  static constexpr fixed<1> pad_top{};
  static constexpr fixed<2> pad_left{};
  static constexpr bool dot = true;
  static constexpr int mr = 4, nr = 2;
};
TEST(ConvDot, FewFilters) { check<Dot>(); }
TEST(ConvDot, Prologue) { check<Dot, true>(); }
struct DotOneChannel : Dot {
  EXTENTS(1, 90, 1, 30, 1, 3)
  static constexpr fixed<1> kernel_h{};
  static constexpr fixed<33> kernel_w{};
  static constexpr fixed<2> stride_w{};
  static constexpr fixed<0> pad_top{}, pad_left{};
  static constexpr int mr = 8, nr = 1;
};
TEST(ConvDot, LongFilterOfOneChannel) { check<DotOneChannel>(); }
struct DotPacked : Dot {
  static constexpr bool nchw = true, pack_input = true;
};
TEST(ConvDot, Nchw) { check<DotPacked>(); }
struct DotPointwise : Dot {
  EXTENTS(1, 13, 1, 13, 2 * W, 4)
  static constexpr fixed<1> kernel_h{}, kernel_w{};
  static constexpr fixed<0> pad_top{}, pad_left{};
  static constexpr int mr = 3, nr = 4;
};
TEST(ConvDot, Pointwise) { check<DotPointwise>(); }
TEST(ConvDot, Rule) {
  EXPECT_TRUE(conv_dot_is_better(1, 256, 1, 1, 16));
  EXPECT_TRUE(conv_dot_is_better(7, 3, 32, 1, 16));
  EXPECT_FALSE(conv_dot_is_better(3, 3, 32, 9, 16));
  EXPECT_FALSE(conv_dot_is_better(1, 1, 8, 1, 16));
}

/// int8 x int8 with a zero point: exact in int32, and padding adds nothing.
struct Integer : Same3x3 {
  using accumulator = int32_t;
};
struct Shift {
  template <class L> TENON_FN i32<L> operator()(L, i32<L> v, i32<L> z) const { return v - z; }
};
template <class Cfg> void checkInteger() {
  Cfg cfg;
  const index_t K = cfg.filters, C = cfg.channels, H = cfg.in_h, IW = cfg.in_w;
  auto x = randomIntegers<uint8_t>(H * IW * C, 0, 255, 1);
  auto w = randomIntegers<int8_t>(K * C * 9, -128, 127, 2);
  std::vector<int32_t> y(H * IW * K);
  const uint8_t zero = 113;
  const auto packed = packWeights(cfg, w);
  const int32_t zeros[1] = {zero};
  pool workers(3);
  conv(cfg,
       make_view((const uint8_t *)x.data(),
                 dims<fixed<0>, fixed<1>, dyn, fixed<decltype(cfg.channels)::value>>(
                     {}, {}, dyn(IW * C), {})),
       packed.data(),
       pack(make_view(y.data(), dims<fixed<0>, fixed<1>, dyn, dyn>({}, {}, dyn(IW * K), dyn(K)))),
       pack(), identity_body{}, workers, Shift{},
       pack(make_view((const int32_t *)zeros, extents<0>())));
  for (index_t oh = 0; oh < H; ++oh)
    for (index_t ow = 0; ow < IW; ++ow)
      for (index_t k = 0; k < K; ++k) {
        int32_t sum = 0;
        for (index_t r = 0; r < 3; ++r)
          for (index_t s = 0; s < 3; ++s)
            for (index_t c = 0; c < C; ++c) {
              const index_t ih = oh - 1 + r, iw = ow - 1 + s;
              if (ih >= 0 && ih < H && iw >= 0 && iw < IW)
                sum += (int(x[(ih * IW + iw) * C + c]) - zero) * w[((k * C + c) * 3 + r) * 3 + s];
            }
        ASSERT_EQ(y[(oh * IW + ow) * K + k], sum);
      }
}
TEST(Conv, Integer) { checkInteger<Integer>(); }
struct IntegerOneRow : OneRow {
  using accumulator = int32_t;
};
TEST(Conv, IntegerNoPatch) { checkInteger<IntegerOneRow>(); }

TEST(Conv, TileRule) {
  // The tiles measured best with AVX-512 (32 registers of 16) and what AVX2 (16 of 8) allows.
  EXPECT_EQ(choose_conv_tile(224, 64, 16, 32).mr, 14);
  EXPECT_EQ(choose_conv_tile(224, 64, 16, 32).nr, 32);
  EXPECT_EQ(choose_conv_tile(10, 232, 16, 32).mr, 10);
  EXPECT_EQ(choose_conv_tile(1600, 48, 16, 32).nr, 48);
  EXPECT_EQ(choose_conv_tile(224, 64, 8, 16).nr, 16);
  EXPECT_EQ(choose_conv_tile(1, 64, 16, 32).mr, 1);
}

} // namespace
