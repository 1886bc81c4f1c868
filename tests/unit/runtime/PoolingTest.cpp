// Tests cpu::pooling and cpu::pooling_rows against direct windows.
#include "Support.h"
#include "cpu/pooling_rows.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

struct Base : pooling_defaults {
  static constexpr fixed<2> batch{};
  static constexpr fixed<W + 3> channels{};
  static constexpr fixed<7> in_h{};
  static constexpr fixed<10> in_w{};
  static constexpr fixed<4> out_h{};
  static constexpr fixed<5> out_w{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<2> stride_h{}, stride_w{};
  static constexpr fixed<1> pad_top{}, pad_left{}, pad_bottom{}, pad_right{};
  using kind = pooling_max;
  using accumulator = float;
};

struct Twice {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x + x; }
};

/// What a line has to have room for, as the compiler says it; of extents at run time enough.
template <class Cfg> constexpr index_t lineOf() {
  if constexpr (decltype(Cfg::in_w)::is_fixed)
    return std::max<index_t>(Cfg::in_w + Cfg::pad_left, (Cfg::out_w - 1) * Cfg::stride_w + 1);
  else
    return 160;
}

/// The same pool for pooling_rows.
template <class Cfg, bool Columns> struct Rows : Cfg {
  static constexpr fixed<1> in_d{}, out_d{}, kernel_d{}, stride_d{}, dilation_d{};
  static constexpr fixed<0> pad_front{}, pad_back{};
  static constexpr bool columns = Columns;
  static constexpr index_t line = lineOf<Cfg>();
};

template <class Cfg, class T = float, bool Nchw = false> void check() {
  Cfg cfg;
  const index_t N = cfg.batch, C = cfg.channels, H = cfg.in_h, IW = cfg.in_w, OH = cfg.out_h,
                OW = cfg.out_w;
  const auto x = randomIntegers<T>(N * H * IW * C, std::is_signed_v<T> ? -60 : 0, 60, 1);
  std::vector<T> y(N * OH * OW * C);
  std::vector<double> want(y.size());
  constexpr bool isMax = std::is_same_v<typename Cfg::kind, pooling_max>;
  for (index_t n = 0; n < N; ++n)
    for (index_t oh = 0; oh < OH; ++oh)
      for (index_t ow = 0; ow < OW; ++ow)
        for (index_t c = 0; c < C; ++c) {
          double value = isMax ? -1e30 : 0;
          int inside = 0, padded = 0;
          for (index_t r = 0; r < cfg.kernel_h; ++r)
            for (index_t s = 0; s < cfg.kernel_w; ++s) {
              const index_t ih = oh * cfg.stride_h - cfg.pad_top + r * cfg.dilation_h;
              const index_t iw = ow * cfg.stride_w - cfg.pad_left + s * cfg.dilation_w;
              padded += ih < H + cfg.pad_bottom && iw < IW + cfg.pad_right;
              if (ih < 0 || ih >= H || iw < 0 || iw >= IW)
                continue;
              ++inside;
              const double v =
                  x[Nchw ? ((n * C + c) * H + ih) * IW + iw : ((n * H + ih) * IW + iw) * C + c];
              value = isMax ? std::max(value, v) : value + v;
            }
          if (!isMax)
            value /= std::is_same_v<typename Cfg::kind, pooling_mean_padded> ? padded : inside;
          want[((n * OH + oh) * OW + ow) * C + c] = 2 * value;
        }
  pool workers(3);
  const auto outs = pack(make_view(
      y.data(), dims<dyn, fixed<1>, dyn, dyn>(dyn(OH * OW * C), {}, dyn(OW * C), dyn(C))));
  const auto columnsInnermost =
      make_view(x.data(), dims<dyn, dyn, dyn, fixed<1>>(dyn(C * H * IW), dyn(H * IW), dyn(IW), {}));
  const auto channelsInnermost =
      make_view(x.data(), dims<dyn, fixed<1>, dyn, dyn>(dyn(H * IW * C), {}, dyn(IW * C), dyn(C)));
  if constexpr (Nchw)
    pooling(cfg, columnsInnermost, outs, pack(), Twice{}, workers);
  else
    pooling(cfg, channelsInnermost, outs, pack(), Twice{}, workers);
  expectClose(y, want);
  std::fill(y.begin(), y.end(), T(0));
  if constexpr (Nchw)
    pooling_rows(Rows<Cfg, true>{}, columnsInnermost, outs, pack(), Twice{}, workers);
  else
    pooling_rows(Rows<Cfg, false>{}, channelsInnermost, outs, pack(), Twice{}, workers);
  expectClose(y, want);
}

TEST(Pooling, Max) { check<Base>(); }
TEST(Pooling, MaxNchw) { check<Base, float, true>(); }
struct MaxInt8 : Base {
  using accumulator = int8_t;
};
TEST(Pooling, MaxInt8) { check<MaxInt8, int8_t>(); }
struct MaxUint8 : Base {
  using accumulator = uint8_t;
};
TEST(Pooling, MaxUint8) { check<MaxUint8, uint8_t>(); }
struct Mean : Base {
  using kind = pooling_mean;
};
TEST(Pooling, Mean) { check<Mean>(); }
struct MeanPadded : Base {
  using kind = pooling_mean_padded;
};
TEST(Pooling, MeanPadded) { check<MeanPadded>(); }
/// Ceil mode: the last window reaches beyond the padding, which no tap counts.
struct Ceil : MeanPadded {
  static constexpr fixed<0> pad_bottom{}, pad_right{};
  static constexpr fixed<6> out_w{};
  static constexpr fixed<4> kernel_w{};
};
TEST(Pooling, CeilMode) { check<Ceil>(); }
struct Dilated : Base {
  static constexpr fixed<2> dilation_h{}, dilation_w{};
  static constexpr fixed<1> stride_h{}, stride_w{};
  static constexpr fixed<5> out_h{};
  static constexpr fixed<8> out_w{};
};
TEST(Pooling, Dilated) { check<Dilated>(); }
struct Global : Base {
  static constexpr fixed<7> kernel_h{};
  static constexpr fixed<10> kernel_w{};
  static constexpr fixed<1> out_h{}, out_w{};
  static constexpr fixed<0> pad_top{}, pad_left{};
  using kind = pooling_mean;
};
TEST(Pooling, Global) { check<Global>(); }
/// Windows whose columns double, with and without lanes along them.
struct Long : Base {
  static constexpr fixed<150> in_w{}, out_w{};
  static constexpr fixed<4> out_h{};
  static constexpr fixed<13> kernel_w{};
  static constexpr fixed<1> stride_w{};
  static constexpr fixed<6> pad_left{}, pad_right{};
};
TEST(Pooling, LongMax) { check<Long>(); }
TEST(Pooling, LongMaxNchw) { check<Long, float, true>(); }
struct LongMean : Long {
  static constexpr fixed<2> dilation_w{};
  static constexpr fixed<12> pad_left{}, pad_right{};
  using kind = pooling_mean;
};
TEST(Pooling, LongMean) { check<LongMean>(); }
TEST(Pooling, LongMeanNchw) { check<LongMean, float, true>(); }
struct LongStrided : LongMean {
  static constexpr fixed<75> out_w{};
  static constexpr fixed<2> stride_w{};
};
TEST(Pooling, LongStrided) { check<LongStrided>(); }
TEST(Pooling, LongStridedNchw) { check<LongStrided, float, true>(); }
struct ThreeParts : MeanPadded {
  static constexpr fixed<77> in_w{};
  static constexpr fixed<26> out_w{};
  static constexpr fixed<3> stride_w{};
};
TEST(Pooling, ThreePartsNchw) { check<ThreeParts, float, true>(); }
struct ManyParts : MeanPadded {
  static constexpr fixed<2000> in_w{};
  static constexpr fixed<42> out_w{};
  static constexpr fixed<48> kernel_w{}, stride_w{};
};
TEST(Pooling, ManyPartsNchw) { check<ManyParts, float, true>(); }
/// Two columns at a stride of two: several vectors, with and without padding in front.
struct Pairs : Base {
  static constexpr fixed<77> in_w{};
  static constexpr fixed<39> out_w{};
  static constexpr fixed<2> kernel_w{};
};
TEST(Pooling, PairsMaxNchw) { check<Pairs, float, true>(); }
struct PairsMean : Pairs {
  static constexpr fixed<38> out_w{};
  static constexpr fixed<0> pad_left{}, pad_right{};
  using kind = pooling_mean;
};
TEST(Pooling, PairsMeanNchw) { check<PairsMean, float, true>(); }
struct PairsPadded : Pairs {
  using kind = pooling_mean_padded;
};
TEST(Pooling, PairsMeanPaddedNchw) { check<PairsPadded, float, true>(); }
struct PairsInt8 : Pairs {
  using accumulator = int8_t;
};
TEST(Pooling, PairsInt8Nchw) { check<PairsInt8, int8_t, true>(); }
TEST(Pooling, MeanNchw) { check<Mean, float, true>(); }
TEST(Pooling, MaxInt8Nchw) { check<MaxInt8, int8_t, true>(); }
struct RunTime : pooling_defaults {
  dyn batch = 1, channels = 2 * W + 1, in_h = 4, in_w = 6, out_h = 2, out_w = 3;
  static constexpr fixed<2> kernel_h{}, kernel_w{}, stride_h{}, stride_w{};
  using kind = pooling_mean;
  using accumulator = float;
};
TEST(Pooling, RunTimeExtents) { check<RunTime>(); }

} // namespace
