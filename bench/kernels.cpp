// Times the CPU kernels of runtime/cpu on layers of real networks, beside this core's FMA peak. For
// tuning schedules, not a test:
//
//   c++ -std=c++17 -O3 -march=native -I runtime bench/kernels.cpp -o kernels && ./kernels
//
// Time is this process's CPU time, the lower quartile of many runs, so that other load on the
// machine hardly shows. (The least would: some virtual machines credit CPU time that was never
// spent.)
#include "common/scalar.h"
#include "cpu/attention.h"
#include "cpu/conv_dot.h"
#include "cpu/depthwise.h"
#include "cpu/matmul_dynamic.h"
#include "cpu/softmax.h"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vector>

using namespace tenon;
using namespace tenon::cpu;

namespace {

constexpr int kWidth = native_lanes::width;
#if TENON_SIMD_WIDTH == 16 || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

double seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

template <class F> double typicalTime(double flops, F run) {
  const int repeats = int(4e6 / flops) + 1;
  std::vector<double> times;
  for (double total = 0; total < 0.2;) {
    const double start = seconds();
    for (int i = 0; i < repeats; ++i)
      run();
    const double took = seconds() - start;
    total += took;
    times.push_back(took / repeats);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

double peak = 0;

template <class F> void report(const char *name, int mr, int nr, double flops, F run) {
  run();
  const double time = typicalTime(flops, run);
  printf("%-34s %2d x %-3d %9.1f us %7.1f GFLOP/s %4.0f %%\n", name, mr, nr, time * 1e6,
         flops / time * 1e-9, 100 * flops / time * 1e-9 / peak);
}

/// Seeded values on a cache line boundary, as in a generated file's arena.
struct Buffer {
  float *data;
  explicit Buffer(size_t n)
      : data(static_cast<float *>(aligned_alloc(64, (n * 4 + 4095) / 4096 * 4096))) {
    unsigned state = 1;
    for (size_t i = 0; i < n; ++i) {
      state = state * 1664525u + 1013904223u;
      data[i] = float(state >> 8) / float(1 << 24) - 0.5f;
    }
  }
  ~Buffer() { free(data); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
};

struct BiasRelu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const {
    return relu<L>(f32<L>(a + b));
  }
};

/// A convolution with "same" padding, or none when Pad is false.
template <int H, int W, int C, int K, int R, int S, int StrideH, int StrideW, bool Pad>
struct Layer : conv_defaults {
  static constexpr int pad_h = Pad ? (R - 1) / 2 : 0, pad_w = Pad ? (S - 1) / 2 : 0;
  static constexpr fixed<1> batch{};
  static constexpr fixed<H> in_h{};
  static constexpr fixed<W> in_w{};
  static constexpr fixed<(H + (Pad ? R - 1 : 0) - R) / StrideH + 1> out_h{};
  static constexpr fixed<(W + (Pad ? S - 1 : 0) - S) / StrideW + 1> out_w{};
  static constexpr fixed<C> channels{};
  static constexpr fixed<K> filters{};
  static constexpr fixed<R> kernel_h{};
  static constexpr fixed<S> kernel_w{};
  static constexpr fixed<StrideH> stride_h{};
  static constexpr fixed<StrideW> stride_w{};
  static constexpr fixed<pad_h> pad_top{};
  static constexpr fixed<pad_w> pad_left{};
  using accumulator = float;
};
template <class Layer, int MR, int NR, bool FiltersOuter> struct Scheduled : Layer {
  static constexpr int mr = MR, nr = NR;
  static constexpr bool filters_outer = FiltersOuter;
};

template <bool Dot, class Cfg> void timeConv(const char *name, bool nchw) {
  const Cfg cfg;
  constexpr index_t H = cfg.in_h, W = cfg.in_w, C = cfg.channels, K = cfg.filters, OH = cfg.out_h,
                    OW = cfg.out_w;
  constexpr index_t taps = index_t(cfg.kernel_h) * index_t(cfg.kernel_w) * C;
  Buffer x(H * W * C), w((taps + cfg.kernel_h * kWidth) * ceil_div(K, Cfg::nr) * Cfg::nr),
      bias(K + kWidth), y(OH * OW * K);
  pool workers;
  const auto outs = pack(make_view(y.data, extents<0, 1, OW * K, K>()));
  const auto ins = pack(make_view((const float *)bias.data, extents<0, 1, 0, 0>()));
  report(name, Cfg::mr, Cfg::nr, 2.0 * double(OH * OW * K * taps), [&] {
    const float *in = x.data;
    if constexpr (Dot)
      conv_dot(cfg, make_view(in, extents<0, 1, W * C, C>()), w.data, outs, ins, BiasRelu{},
               workers);
    else if (nchw)
      conv(cfg, make_view(in, extents<0, H * W, W, 1>()), w.data, outs, ins, BiasRelu{}, workers);
    else
      conv(cfg, make_view(in, extents<0, 1, W * C, C>()), w.data, outs, ins, BiasRelu{}, workers);
  });
}
template <class L, bool FiltersOuter = true> void conv(const char *name, bool nchw = false) {
  constexpr conv_tile_shape tile = choose_conv_tile(L{}.out_w, L{}.filters, kWidth, kRegisters);
  timeConv<false, Scheduled<L, tile.mr, tile.nr, FiltersOuter>>(name, nchw);
}
template <class L> void dot(const char *name) {
  timeConv<true, Scheduled<L, kRegisters / 4, 1, true>>(name, false);
}

template <int H, int C, int Stride> struct Channelwise : depthwise_defaults {
  static constexpr fixed<1> batch{};
  static constexpr fixed<H> in_h{}, in_w{};
  static constexpr fixed<(H - 1) / Stride + 1> out_h{}, out_w{};
  static constexpr fixed<C> channels{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<Stride> stride_h{}, stride_w{};
  static constexpr fixed<1> pad_top{}, pad_left{};
  static constexpr int most = kRegisters / 4;
  static constexpr int mr = int(ceil_div(out_w, ceil_div(out_w, most)));
  using accumulator = float;
};
template <int H, int C, int Stride> void depthwise(const char *name) {
  using Cfg = Channelwise<H, C, Stride>;
  constexpr index_t O = Cfg::out_h;
  Buffer x(H * H * C), w(ceil_div(C, kWidth) * kWidth * 9), bias(C + kWidth), y(O * O * C);
  pool workers;
  report(name, Cfg::mr, kWidth, 18.0 * double(O * O * C), [&] {
    cpu::depthwise(Cfg{}, make_view((const float *)x.data, extents<0, 1, H * C, C>()), w.data,
                   pack(make_view(y.data, extents<0, 1, O * C, C>())),
                   pack(make_view((const float *)bias.data, extents<0, 1, 0, 0>())), BiasRelu{},
                   workers);
  });
}

template <int M, int N, int K> struct Product : matmul_dynamic_defaults {
  static constexpr fixed<M> m{};
  static constexpr fixed<N> n{};
  static constexpr fixed<K> k{};
  static constexpr int nr = 2 * kWidth, mr = (kRegisters - 4) / 2;
  using accumulator = float;
};
template <int M, int N, int K> void product(const char *name) {
  using Cfg = Product<M, N, K>;
  Buffer a(M * K), b(K * N), y(M * N);
  pool workers;
  report(name, Cfg::mr, Cfg::nr, 2.0 * M * N * K, [&] {
    matmul_dynamic(Cfg{}, make_view((const float *)a.data, extents<0, 0, K, 1>()),
                   make_view((const float *)b.data, extents<0, 0, 1, K>()),
                   pack(make_view(y.data, extents<0, 0, N, 1>())), pack(), identity_body{},
                   workers);
  });
}

template <int Heads, int M, int N, int D, int Vectors, int Rows>
struct Attention : attention_defaults {
  static constexpr fixed<M> m{};
  static constexpr fixed<N> n{};
  static constexpr fixed<D> d{}, e{};
  static constexpr int vectors = Vectors, rows = Rows, tile = (64 + Rows - 1) / Rows * Rows;
};
/// The product of M x K and K x N of every head.
template <int Heads, int M, int N, int K> struct HeadsProduct : matmul_dynamic_defaults {
  static constexpr fixed<Heads> batch1{};
  static constexpr fixed<M> m{};
  static constexpr fixed<N> n{};
  static constexpr fixed<K> k{};
  static constexpr int mr = M == 1 ? 1 : kRegisters == 32 ? 14 : 6, nr = (M == 1 ? 4 : 2) * kWidth;
  using accumulator = float;
};

/// M queries and N keys of D elements: by one kernel from heads that lie side by side, and by two
/// products and a softmax from heads that were split before.
template <int Heads, int M, int N, int D> void attention(const char *name) {
  constexpr double flops = 4.0 * Heads * M * N * D;
  Buffer q(Heads * M * D), k(Heads * N * D), v(Heads * N * D), scores(Heads * M * N),
      y(Heads * M * D);
  pool workers(1);
  const auto heads = [](float *data) {
    return make_view((const float *)data, extents<D, Heads * D, 1>());
  };
  const auto fused = [&](auto cfg) {
    report(name, int(cfg.rows), int(cfg.vectors) * kWidth, flops, [&] {
      cpu::attention(cfg, extents<Heads>{}, 0.125f, heads(q.data), heads(k.data), heads(v.data),
                     pack(), make_view(y.data, extents<D, Heads * D, 1>()), workers);
    });
  };
  if constexpr (kRegisters == 32) {
    fused(Attention<Heads, M, N, D, 4, 6>{});
    fused(Attention<Heads, M, N, D, 2, 12>{});
  } else {
    fused(Attention<Heads, M, N, D, 3, 4>{});
    fused(Attention<Heads, M, N, D, 2, 6>{});
  }
  using First = HeadsProduct<Heads, M, N, D>;
  report("  by products and softmax", First::mr, First::nr, flops, [&] {
    const auto all = pack(make_view(scores.data, extents<0, M * N, N, 1>()));
    matmul_dynamic(First{}, make_view((const float *)q.data, extents<0, M * D, D, 1>()),
                   make_view((const float *)k.data, extents<0, N * D, 1, D>()), all, pack(),
                   identity_body{}, workers);
    const auto rows = make_view(scores.data, extents<N, 1>());
    softmax<false>(extents<Heads * M, N>{}, rows, pack(rows), pack(), identity_body{}, workers);
    matmul_dynamic(HeadsProduct<Heads, M, D, N>{},
                   make_view((const float *)scores.data, extents<0, M * N, N, 1>()),
                   make_view((const float *)v.data, extents<0, N * D, D, 1>()),
                   pack(make_view(y.data, extents<0, M * D, D, 1>())), pack(), identity_body{},
                   workers);
  });
}

/// Nanoseconds per element of a scalar function over 4096 values.
template <class F> void function(const char *name, F f) {
  constexpr int n = 4096;
  Buffer x(n), y(n);
  const double time = typicalTime(n, [&] {
    for (int i = 0; i < n; i += kWidth)
      store<native_lanes, float>(y.data + i, f(load<native_lanes>(x.data + i)));
    x.data[0] = y.data[n - 1]; // each run needs the one before
  });
  printf("%-34s          %9.3f ns per element (%g)\n", name, time / n * 1e9, double(y.data[n / 3]));
}

/// FMAs that wait for nothing.
void measurePeak() {
  using V = f32<native_lanes>;
  V acc[12];
  unroll<12>([&](auto i) TENON_LAMBDA { acc[i] = V{} + float(int(i)); });
  const V a = V{} + 0.999f, b = V{} + 0.001f;
  const double flops = 2.0 * 12 * kWidth * 20000;
  const double time = typicalTime(flops, [&] {
    V local[12];
    unroll<12>([&](auto j) TENON_LAMBDA { local[j] = acc[j]; });
    for (int i = 0; i < 20000; ++i)
      unroll<12>([&](auto j) TENON_LAMBDA { local[j] = mul_add(local[j], a, b); });
    unroll<12>([&](auto j) TENON_LAMBDA { acc[j] = local[j]; });
  });
  float lanes[kWidth], sum = 0;
  for (const V &v : acc) {
    store<native_lanes, float>(lanes, v);
    sum += lanes[0];
  }
  peak = flops / time * 1e-9;
  printf("peak %.1f GFLOP/s, vectors of %d (%g)\n", peak, kWidth, double(sum));
}

} // namespace

int main() {
  measurePeak();
  ::conv<Layer<224, 224, 1, 64, 5, 5, 1, 1, true>, false>("super_resolution 5x5 1-64 224");
  ::conv<Layer<224, 224, 64, 64, 3, 3, 1, 1, true>, false>("super_resolution 3x3 64-64 224");
  ::conv<Layer<224, 224, 64, 32, 3, 3, 1, 1, true>>("super_resolution 3x3 64-32 224");
  ::conv<Layer<224, 224, 32, 9, 3, 3, 1, 1, true>>("super_resolution 3x3 32-9 224");
  ::conv<Layer<320, 320, 3, 24, 3, 3, 2, 2, true>>("nanodet 3x3/2 3-24 320 nchw", true);
  ::conv<Layer<1, 6400, 24, 58, 1, 1, 1, 1, true>>("nanodet 1x1 24-58 80");
  ::conv<Layer<1, 1600, 58, 58, 1, 1, 1, 1, true>>("nanodet 1x1 58-58 40");
  ::conv<Layer<1, 400, 116, 116, 1, 1, 1, 1, true>>("nanodet 1x1 116-116 20");
  ::conv<Layer<1, 100, 232, 232, 1, 1, 1, 1, true>>("nanodet 1x1 232-232 10");
  ::conv<Layer<1, 1600, 96, 96, 1, 1, 1, 1, true>>("nanodet 1x1 96-96 40");
  depthwise<40, 58, 1>("nanodet dw 58 40");
  depthwise<20, 116, 1>("nanodet dw 116 20");
  depthwise<10, 232, 1>("nanodet dw 232 10");
  depthwise<80, 58, 2>("nanodet dw/2 58 80");
  ::conv<Layer<240, 320, 3, 16, 3, 3, 2, 2, true>>("ultraface 3x3/2 3-16 nchw", true);
  ::conv<Layer<1, 19200, 16, 32, 1, 1, 1, 1, true>>("ultraface 1x1 16-32 120x160");
  ::conv<Layer<30, 40, 8, 16, 3, 3, 1, 1, true>>("ultraface 3x3 8-16 30x40");
  ::conv<Layer<1, 1200, 64, 64, 1, 1, 1, 1, true>>("ultraface 1x1 64-64 30x40");
  depthwise<120, 16, 1>("ultraface dw 16 120");
  depthwise<30, 64, 1>("ultraface dw 64 30");
  ::conv<Layer<172, 264, 8, 8, 3, 39, 1, 1, true>>("basic_pitch 3x39 8-8");
  ::conv<Layer<172, 264, 8, 32, 5, 5, 1, 3, true>>("basic_pitch 5x5/3 8-32");
  ::conv<Layer<172, 264, 1, 32, 7, 7, 1, 3, true>>("basic_pitch 7x7/3 1-32");
  ::conv<Layer<1, 44100, 1, 36, 1, 256, 1, 256, false>>("basic_pitch 1x256/256 1-36");
  dot<Layer<1, 44098, 1, 1, 1, 256, 1, 2, false>>("basic_pitch 1x256/2 1-1 (dot)");
  dot<Layer<172, 264, 8, 1, 5, 5, 1, 1, true>>("basic_pitch 5x5 8-1 (dot)");
  dot<Layer<172, 88, 32, 1, 7, 3, 1, 1, true>>("basic_pitch 7x3 32-1 (dot)");
  ::conv<Layer<96, 96, 3, 8, 3, 3, 2, 2, true>>("vww 3x3/2 3-8 96 nchw", true);
  ::conv<Layer<1, 36, 128, 128, 1, 1, 1, 1, true>>("vww 1x1 128-128 6");
  ::conv<Layer<1, 9, 256, 256, 1, 1, 1, 1, true>>("vww 1x1 256-256 3");
  depthwise<6, 128, 1>("vww dw 128 6");
  ::conv<Layer<32, 32, 16, 16, 3, 3, 1, 1, true>>("resnet8 3x3 16-16 32");
  ::conv<Layer<16, 16, 32, 32, 3, 3, 1, 1, true>>("resnet8 3x3 32-32 16");
  ::conv<Layer<8, 8, 64, 64, 3, 3, 1, 1, true>>("resnet8 3x3 64-64 8");
  ::conv<Layer<49, 40, 1, 16, 8, 8, 1, 1, true>>("micro_kws 8x8 1-16 49x40");
  ::conv<Layer<24, 20, 16, 12, 6, 6, 1, 1, true>>("micro_kws 6x6 16-12 24x20");
  ::conv<Layer<14, 14, 256, 256, 3, 3, 1, 1, true>>("resnet50 3x3 256-256 14");
  ::conv<Layer<1, 128, 768, 3072, 1, 1, 1, 1, true>>("bert 128x768x3072");
  product<128, 128, 64>("attention scores 128x128x64");
  ::attention<12, 197, 197, 64>("ViT-B/16 attention, 197 tokens");
  ::attention<12, 128, 128, 64>("BERT attention, 128 tokens");
  ::attention<12, 384, 384, 64>("BERT attention, 384 tokens");
  ::attention<12, 1024, 1024, 64>("GPT-2 attention, 1024 tokens");
  ::attention<12, 1, 512, 64>("GPT-2, one token after 511");
  product<512, 512, 512>("dynamic 512x512x512, b transposed");
  function("exp", [](auto x) { return exp<native_lanes>(x); });
  function("log", [](auto x) { return log<native_lanes>(x); });
  function("tanh", [](auto x) { return tanh<native_lanes>(x); });
  function("sigmoid", [](auto x) { return sigmoid<native_lanes>(x); });
  function("erf", [](auto x) { return erf<native_lanes>(x); });
}
