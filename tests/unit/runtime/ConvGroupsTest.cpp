// Tests cpu::conv_groups and cpu::conv_winograd_f4 over planes and volumes, and cpu::conv and
// cpu::depthwise over volumes, against a direct sum in double.
#include "Support.h"
#include "cpu/conv_groups.h"
#include "cpu/conv_winograd_f4.h"
#include "cpu/depthwise.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

struct Base : conv_defaults {
  static constexpr fixed<2> batch{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<1> pad_top{}, pad_left{};
  static constexpr bool volume = false;
  static constexpr int mr = 5;
  static constexpr fixed<1> multiplier{}; // of a depthwise convolution
  using accumulator = float;
};

#define EXTENTS(IH, IW, OH, OW, G, C, K)                                                           \
  static constexpr fixed<IH> in_h{};                                                               \
  static constexpr fixed<IW> in_w{};                                                               \
  static constexpr fixed<OH> out_h{};                                                              \
  static constexpr fixed<OW> out_w{};                                                              \
  static constexpr fixed<G> groups{};                                                              \
  static constexpr fixed<C> channels{};                                                            \
  static constexpr fixed<K> filters{};

/// What a kernel takes of a problem, and its weights in the order [block][tap][channel][lane],
/// blocks of neighbouring filters within `span` filters each.
std::vector<float> packed(const std::vector<float> &w, index_t filters, index_t channels,
                          index_t taps, index_t block, index_t span) {
  const index_t blocks = (span + block - 1) / block;
  std::vector<float> to(size_t(filters / span * blocks * taps * channels * block));
  for (index_t k = 0; k < filters; ++k)
    for (index_t c = 0; c < channels; ++c)
      for (index_t t = 0; t < taps; ++t) {
        const index_t b = k / span * blocks + k % span / block;
        to[size_t(((b * taps + t) * channels + c) * block + k % span % block)] =
            w[size_t((k * channels + c) * taps + t)];
      }
  return to;
}

/// Filters of 3 x 3 taps as conv_winograd_f4 takes them, [k][c][6][6]: G g G^T, where a row of G
/// for a point p is 1, p, p^2 over the product of its differences from the others.
std::vector<float> transformed(const std::vector<float> &w) {
  const double points[] = {0, 0.625, -0.625, 1.5, -1.5};
  double g[6][3] = {};
  g[5][2] = 1;
  for (int i = 0; i < 5; ++i) {
    double differences = 1;
    for (int k = 0; k < 5; ++k)
      differences *= k == i ? 1 : points[i] - points[k];
    for (int j = 0; j < 3; ++j)
      g[i][j] = std::pow(points[i], j) / differences;
  }
  std::vector<float> to(w.size() * 4);
  for (size_t f = 0; f < w.size() / 9; ++f)
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 6; ++x) {
        double sum = 0;
        for (int t = 0; t < 9; ++t)
          sum += g[y][t / 3] * g[x][t % 3] * double(w[f * 9 + size_t(t)]);
        to[f * 36 + size_t(6 * y + x)] = float(sum);
      }
  return to;
}

/// Filters of 3 x 3 taps [k][c][d][3][3] as [k][d][c][3][3].
std::vector<float> planesFirst(const std::vector<float> &w, index_t channels, index_t planes) {
  std::vector<float> to(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    const auto at = index_t(i), t = at % 9, d = at / 9 % planes, c = at / 9 / planes % channels,
               k = at / 9 / planes / channels;
    to[size_t(((k * planes + d) * channels + c) * 9 + t)] = w[i];
  }
  return to;
}

enum class Kernel { Groups, Conv, Winograd, Depthwise };

struct Bias {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

/// NHWC or NDHWC with a bias of each filter. The kernel takes Kernels where that says groups and
/// channels otherwise.
template <class Cfg, Kernel Which, class Kernels = Cfg> void check() {
  const Cfg cfg;
  const Kernels kernel;
  const index_t N = cfg.batch, G = cfg.groups, K = cfg.filters, C = cfg.channels, D = cfg.in_d,
                H = cfg.in_h, IW = cfg.in_w, R = cfg.kernel_d, S = cfg.kernel_h, T = cfg.kernel_w,
                OD = cfg.out_d, OH = cfg.out_h, OW = cfg.out_w, GC = G * C, GK = G * K,
                taps = R * S * T;
  const auto x = randomFloats(size_t(N * D * H * IW * GC), 1),
             w = randomFloats(size_t(GK * C * taps), 2), bias = randomFloats(size_t(GK), 3);
  std::vector<float> y(size_t(N * OD * OH * OW * GK));
  std::vector<double> want;
  for (index_t n = 0; n < N; ++n)
    for (index_t od = 0; od < OD; ++od)
      for (index_t oh = 0; oh < OH; ++oh)
        for (index_t ow = 0; ow < OW; ++ow)
          for (index_t k = 0; k < GK; ++k) {
            double sum = bias[size_t(k)];
            for (index_t t = 0; t < taps; ++t) {
              const index_t d = od * cfg.stride_d - cfg.pad_front + t / (S * T) * cfg.dilation_d,
                            h = oh * cfg.stride_h - cfg.pad_top + t / T % S * cfg.dilation_h,
                            v = ow * cfg.stride_w - cfg.pad_left + t % T * cfg.dilation_w;
              if (d < 0 || d >= D || h < 0 || h >= H || v < 0 || v >= IW)
                continue;
              for (index_t c = 0; c < C; ++c)
                sum += double(x[size_t((((n * D + d) * H + h) * IW + v) * GC + k / K * C + c)]) *
                       w[size_t((k * C + c) * taps + t)];
            }
            want.push_back(sum);
          }
  pool workers(3);
  const auto call = [&](const auto &from, const auto &to, const auto &along) {
    const auto outs = pack(to);
    const auto ins = pack(along);
    if constexpr (Which == Kernel::Groups)
      conv_groups(kernel, from, packed(w, GK, C, taps, W, GK).data(), outs, ins, Bias{}, workers);
    else if constexpr (Which == Kernel::Conv)
      conv(kernel, from, packed(w, GK, C, taps, Kernels::nr, K).data(), outs, ins, Bias{}, workers);
    else if constexpr (Which == Kernel::Winograd) // planes are more channels, and after them
      conv_winograd_f4(
          kernel, from,
          packed(transformed(planesFirst(w, C, R)), K, R * C, 36, Kernels::nr, K).data(), outs, ins,
          Bias{}, workers);
    else
      depthwise(kernel, from, packed(w, GK, 1, taps, W, GK).data(), outs, ins, Bias{}, workers);
  };
  constexpr index_t pixel = decltype(cfg.groups)::value * decltype(cfg.channels)::value;
  if constexpr (Cfg::volume)
    call(make_view(x.data(), dims<dyn, fixed<1>, dyn, dyn, fixed<pixel>>(
                                 dyn(D * H * IW * GC), {}, dyn(H * IW * GC), dyn(IW * GC), {})),
         make_view(y.data(),
                   dims<dyn, fixed<1>, dyn, dyn, dyn>(dyn(OD * OH * OW * GK), {}, dyn(OH * OW * GK),
                                                      dyn(OW * GK), dyn(GK))),
         make_view(bias.data(), extents<0, 1, 0, 0, 0>()));
  else
    call(make_view(x.data(),
                   dims<dyn, fixed<1>, dyn, fixed<pixel>>(dyn(H * IW * GC), {}, dyn(IW * GC), {})),
         make_view(y.data(),
                   dims<dyn, fixed<1>, dyn, dyn>(dyn(OH * OW * GK), {}, dyn(OW * GK), dyn(GK))),
         make_view(bias.data(), extents<0, 1, 0, 0>()));
  expectClose(y, want);
}

struct EightChannels : Base {
  EXTENTS(19, 13, 19, 13, 5, 8, 8)
};
TEST(ConvGroups, PartOfTheLastBlock) { check<EightChannels, Kernel::Groups>(); }

struct FewerFilters : Base { // runs of two lanes, groups that lie in two blocks
  EXTENTS(7, 9, 4, 5, 7, 5, 6)
  static constexpr fixed<2> stride_h{}, stride_w{};
  static constexpr int mr = 3;
};
TEST(ConvGroups, GroupsAcrossBlocks) { check<FewerFilters, Kernel::Groups>(); }

struct MoreFilters : Base { // a group takes more than a block
  EXTENTS(6, 6, 6, 6, 3, 2, W + W / 2 + 1)
  static constexpr int mr = 6;
};
TEST(ConvGroups, GroupsOfSeveralBlocks) { check<MoreFilters, Kernel::Groups>(); }

struct Holes : Base { // no rows are kept
  EXTENTS(11, 12, 11, 12, 4, 4, 4)
  static constexpr fixed<3> dilation_h{}, dilation_w{}, pad_top{}, pad_left{};
};
TEST(ConvGroups, Dilated) { check<Holes, Kernel::Groups>(); }

struct OneRow : Base {
  EXTENTS(1, 41, 1, 14, 3, 16, 4)
  static constexpr fixed<1> kernel_h{};
  static constexpr fixed<0> pad_top{};
  static constexpr fixed<5> kernel_w{};
  static constexpr fixed<3> stride_w{};
};
TEST(ConvGroups, OneDimension) { check<OneRow, Kernel::Groups>(); }

struct WiderThanImage : Base {
  EXTENTS(2, 3, 2, 3, 3, 4, 4)
  static constexpr fixed<7> kernel_h{}, kernel_w{};
  static constexpr fixed<3> pad_top{}, pad_left{};
};
TEST(ConvGroups, WiderThanImage) { check<WiderThanImage, Kernel::Groups>(); }

struct Volume : Base {
  static constexpr bool volume = true;
  static constexpr fixed<5> in_d{};
  static constexpr fixed<3> out_d{}, kernel_d{};
  static constexpr fixed<2> stride_d{};
  static constexpr fixed<1> pad_front{};
};
struct GroupedVolume : Volume {
  EXTENTS(6, 7, 6, 7, 6, 4, 4)
};
TEST(ConvGroups, Volume) { check<GroupedVolume, Kernel::Groups>(); }

struct DenseVolume : Volume {
  EXTENTS(6, 11, 3, 11, 2, 7, 2 * W + 3)
  static constexpr fixed<2> stride_h{};
  static constexpr int nr = 2 * W;
};
TEST(ConvVolume, Groups) { check<DenseVolume, Kernel::Conv>(); }
struct PackedVolume : DenseVolume {
  static constexpr bool filters_outer = false, pack_input = true;
};
TEST(ConvVolume, Packed) { check<PackedVolume, Kernel::Conv>(); }
struct ColumnsOfVolume : DenseVolume {
  static constexpr int mr = 1;
};
TEST(ConvVolume, NoPatch) { check<ColumnsOfVolume, Kernel::Conv>(); }
struct DilatedVolume : DenseVolume {
  static constexpr fixed<2> dilation_d{}, pad_front{};
};
TEST(ConvVolume, DilatedDepth) { check<DilatedVolume, Kernel::Conv>(); }

struct Tiled : Base { // 15 tiles in units of six, the last of a column and row alone
  EXTENTS(17, 9, 17, 9, 1, W + 3, 2 * W + 5)
  static constexpr int mr = 3, nr = 2 * W, tile_rows = 2;
};
TEST(ConvWinograd, EdgesOfTilesAndFilters) { check<Tiled, Kernel::Winograd>(); }
struct Shifted : Base { // padding on one side, none on the other
  EXTENTS(6, 8, 5, 8, 1, W, W)
  static constexpr fixed<0> pad_top{};
  static constexpr fixed<2> pad_left{};
  static constexpr int mr = 4, nr = W, tile_rows = 1;
};
TEST(ConvWinograd, UnevenPadding) { check<Shifted, Kernel::Winograd>(); }
struct TiledVolume : Volume {
  EXTENTS(6, 11, 6, 11, 1, 5, W)
  static constexpr int mr = 4, nr = W, tile_rows = 3;
};
TEST(ConvWinograd, Volume) { check<TiledVolume, Kernel::Winograd>(); }

struct ChannelsAlone : Volume {
  EXTENTS(6, 11, 3, 11, W + 3, 1, 1)
  static constexpr fixed<2> stride_h{};
};
struct DepthwiseVolume : ChannelsAlone { // says how many channels x has
  static constexpr fixed<W + 3> channels{};
};
TEST(DepthwiseVolume, Strided) { check<ChannelsAlone, Kernel::Depthwise, DepthwiseVolume>(); }

} // namespace
