// Tests cpu::depthwise against a direct sum in double.
#include "cpu/depthwise.h"
#include "Support.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;

struct Base : depthwise_defaults {
  static constexpr fixed<1> batch{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<1> pad_top{}, pad_left{};
  static constexpr bool nchw = false;
  static constexpr int mr = 4;
  using accumulator = float;
};

struct Bias {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

template <class Cfg> void check() {
  Cfg cfg;
  const index_t N = cfg.batch, C = cfg.channels, M = cfg.multiplier, K = C * M, H = cfg.in_h,
                IW = cfg.in_w;
  const index_t R = cfg.kernel_h, S = cfg.kernel_w, OH = cfg.out_h, OW = cfg.out_w;
  const auto x = randomFloats(N * H * IW * C, 1), w = randomFloats(K * R * S, 2),
             bias = randomFloats(K, 3);
  std::vector<float> y(N * OH * OW * K), packed(ceil_div(K, W) * R * S * W);
  for (index_t k = 0; k < K; ++k)
    for (index_t rs = 0; rs < R * S; ++rs)
      packed[(k / W * R * S + rs) * W + k % W] = w[k * R * S + rs];
  std::vector<double> want(y.size());
  for (index_t n = 0; n < N; ++n)
    for (index_t oh = 0; oh < OH; ++oh)
      for (index_t ow = 0; ow < OW; ++ow)
        for (index_t k = 0; k < K; ++k) {
          double sum = bias[k];
          for (index_t r = 0; r < R; ++r)
            for (index_t s = 0; s < S; ++s) {
              const index_t ih = oh * cfg.stride_h - cfg.pad_top + r * cfg.dilation_h;
              const index_t iw = ow * cfg.stride_w - cfg.pad_left + s * cfg.dilation_w, c = k / M;
              if (ih >= 0 && ih < H && iw >= 0 && iw < IW)
                sum += double(x[Cfg::nchw ? ((n * C + c) * H + ih) * IW + iw
                                          : ((n * H + ih) * IW + iw) * C + c]) *
                       w[(k * R + r) * S + s];
            }
          want[((n * OH + oh) * OW + ow) * K + k] = sum;
        }
  pool workers(3);
  const auto outs = pack(make_view(
      y.data(), dims<dyn, fixed<1>, dyn, dyn>(dyn(OH * OW * K), {}, dyn(OW * K), dyn(K))));
  const auto ins = pack(make_view(bias.data(), extents<0, 1, 0, 0>()));
  if constexpr (Cfg::nchw)
    depthwise(cfg,
              make_view(x.data(),
                        dims<dyn, dyn, dyn, fixed<1>>(dyn(C * H * IW), dyn(H * IW), dyn(IW), {})),
              packed.data(), outs, ins, Bias{}, workers);
  else
    depthwise(cfg,
              make_view(x.data(),
                        dims<dyn, fixed<1>, dyn, dyn>(dyn(H * IW * C), {}, dyn(IW * C), dyn(C))),
              packed.data(), outs, ins, Bias{}, workers);
  expectClose(y, want);
}

#define EXTENTS(IH, IW, OH, OW, C)                                                                 \
  static constexpr fixed<IH> in_h{};                                                               \
  static constexpr fixed<IW> in_w{};                                                               \
  static constexpr fixed<OH> out_h{};                                                              \
  static constexpr fixed<OW> out_w{};                                                              \
  static constexpr fixed<C> channels{};

struct Same : Base {
  EXTENTS(6, 13, 6, 13, 2 * W + 3)
  static constexpr fixed<2> batch{};
};
TEST(Depthwise, Same3x3) { check<Same>(); }
struct Strided : Base {
  EXTENTS(9, 14, 5, 7, W + 1)
  static constexpr fixed<2> stride_h{}, stride_w{};
  static constexpr int mr = 3;
};
TEST(Depthwise, Strided) { check<Strided>(); }
struct Dilated : Base {
  EXTENTS(8, 11, 8, 11, 3)
  static constexpr fixed<2> dilation_h{}, dilation_w{}, pad_top{}, pad_left{};
};
TEST(Depthwise, Dilated) { check<Dilated>(); }
struct Multiplier : Same {
  EXTENTS(6, 13, 6, 13, 7)
  static constexpr fixed<3> multiplier{};
};
TEST(Depthwise, Multiplier) { check<Multiplier>(); }
struct Nchw : Same {
  static constexpr bool nchw = true;
};
TEST(Depthwise, Nchw) { check<Nchw>(); }
struct Tiny : Base {
  EXTENTS(3, 2, 3, 2, W)
  static constexpr int mr = 2;
};
TEST(Depthwise, NarrowerThanKernel) { check<Tiny>(); }
struct OneColumn : Same {
  static constexpr int mr = 1;
};
TEST(Depthwise, OneColumn) { check<OneColumn>(); }
struct Wide : Base {
  EXTENTS(4, 21, 4, 19, 5)
  static constexpr fixed<1> kernel_h{};
  static constexpr fixed<7> kernel_w{};
  static constexpr fixed<0> pad_top{};
  static constexpr fixed<2> pad_left{};
  static constexpr int mr = 8;
};
TEST(Depthwise, WideKernel) { check<Wide>(); }
struct RunTime : depthwise_defaults {
  dyn batch = 2, in_h = 5, in_w = 9, out_h = 5, out_w = 9, channels = W + 5;
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<1> pad_top{}, pad_left{};
  static constexpr bool nchw = false;
  static constexpr int mr = 4;
  using accumulator = float;
};
TEST(Depthwise, RunTimeExtents) { check<RunTime>(); }

} // namespace
