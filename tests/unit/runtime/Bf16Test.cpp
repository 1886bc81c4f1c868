// Tests of conv_bf16 and matmul_bf16 against the definition in double, over ragged shapes, strides,
// paddings, layouts and prologues, with every kind of products that this machine has.
#include "cpu/conv_bf16.h"
#include "cpu/matmul_bf16.h"

#include "IntegerCases.h"
#include "Support.h"

#include <cmath>
#include <limits>

namespace {
using namespace tenon;

constexpr int W = native_lanes::width;

/// Runs along rows.
template <class Case> struct by_rows : Case { static constexpr bool row_runs = true; };

bf16 rounded(float v) {
  bf16 b;
  store_element(&b, v);
  return b;
}
std::vector<bf16> rounded(const std::vector<float> &v) {
  std::vector<bf16> out;
  for (float x : v)
    out.push_back(rounded(x));
  return out;
}
float value(bf16 b) { return load_element(&b); }

struct plus_one {
  template <class L> f32<L> operator()(L, f32<L> acc, f32<L> bias) const { return acc + bias; }
};
/// A prologue with an operand for each channel.
struct times_scale {
  template <class L> f32<L> operator()(L, f32<L> x, f32<L> scale) const { return x * scale; }
};

/// Weights [filters][kernel_h][kernel_w][channels] as the kernel reads them.
template <class Cfg> std::vector<bf16> packed(const Cfg &cfg, const std::vector<bf16> &w) {
  using R = cpu::detail::byte_runs<cpu::detail::of_bf16<Cfg>>;
  const index_t filters = cfg.filters, depth = index_t(w.size()) / filters,
                perRun = ceil_div(R::bytes, 4);
  std::vector<bf16> to(size_t(ceil_div(filters, W) * R::words * W * 2), rounded(0.f));
  for (index_t k = 0; k < filters; ++k)
    for (index_t i = 0; i < depth; ++i) {
      const index_t tap = i / R::channels, c = i % R::channels;
      const index_t run = R::along_row ? c * R::kernel_h + tap / R::kernel_w : tap,
                    at = R::along_row ? tap % R::kernel_w : c;
      to[size_t(((k / W * R::words + run * perRun + at / 2) * W + k % W) * 2 + at % 2)] =
          w[size_t(k * depth + i)];
    }
  return to;
}

/// call(kernel) for every kind of products: kernel(cfg, x, w, outs, ins, body, workers,
/// prologue...).
template <class Call> void withAllProducts(const Call &call) {
  const auto by = [&](auto how) {
    call([&](const auto &cfg, const auto &x, const bf16 *w, const auto &outs, const auto &ins,
             const auto &body, cpu::pool &workers, const auto &prologue, const auto &prologueIns) {
      const cpu::detail::of_bf16<cpu::detail::bare<decltype(cfg)>> pairs(cfg);
      cpu::detail::conv_bytes_by<decltype(how)>(
          pairs, cpu::detail::bf16_input(x, prologue, prologueIns),
          reinterpret_cast<const int8_t *>(w), nullptr, 0, outs, ins, body, workers);
    });
  };
  by(widened_pairs{});
#if TENON_DOT_PAIRS
  if (has_dot_pairs)
    by(dot_pairs{});
#endif
  call([](const auto &cfg, const auto &x, const bf16 *w, const auto &outs, const auto &ins,
          const auto &body, cpu::pool &workers, const auto &prologue, const auto &prologueIns) {
    cpu::conv_bf16(cfg, x, w, outs, ins, body, workers, prologue, prologueIns);
  });
}

/// Of T: bf16, or f32 that a prologue scales and the kernel rounds. `last`: channels last.
template <class T, class Cfg> void test(bool last = true) {
  constexpr bool scales = !cpu::detail::is_same<T, bf16>;
  const Cfg cfg{};
  constexpr index_t C = decltype(cfg.channels)::value, H = decltype(cfg.in_h)::value,
                    V = decltype(cfg.in_w)::value, K = decltype(cfg.filters)::value,
                    N = decltype(cfg.batch)::value, kh = decltype(cfg.kernel_h)::value,
                    kw = decltype(cfg.kernel_w)::value;
  const index_t oh = cfg.out_h, ow = cfg.out_w, depth = C * kh * kw;
  const std::vector<float> values = test::randomFloats(size_t(N * C * H * V), 1);
  std::vector<T> x(values.size());
  for (size_t i = 0; i < x.size(); ++i)
    store_element(&x[i], values[i]);
  const auto w = rounded(test::randomFloats(size_t(K * depth), 2));
  const auto scale = test::randomFloats(size_t(C), 3);
  const std::vector<float> bias(size_t(K), 1.f);
  const auto at = [&](index_t n, index_t c, index_t h, index_t v) -> double {
    if (h < 0 || h >= H || v < 0 || v >= V)
      return 0;
    const float stored = load_element(
        &x[size_t(last ? ((n * H + h) * V + v) * C + c : ((n * C + c) * H + h) * V + v)]);
    return scales ? value(rounded(stored * scale[size_t(c)])) : stored;
  };
  std::vector<double> want;
  for (index_t n = 0; n < N; ++n)
    for (index_t h = 0; h < oh; ++h)
      for (index_t v = 0; v < ow; ++v)
        for (index_t k = 0; k < K; ++k) {
          double sum = 1;
          for (index_t ky = 0; ky < kh; ++ky)
            for (index_t kx = 0; kx < kw; ++kx)
              for (index_t c = 0; c < C; ++c)
                sum += at(n, c,
                          h * index_t(cfg.stride_h) - index_t(cfg.pad_top) +
                              ky * index_t(cfg.dilation_h),
                          v * index_t(cfg.stride_w) - index_t(cfg.pad_left) +
                              kx * index_t(cfg.dilation_w)) *
                       value(w[size_t(k * depth + (ky * kw + kx) * C + c)]);
          want.push_back(sum);
        }
  const std::vector<bf16> weights = packed(cfg, w);
  cpu::pool workers(2);
  withAllProducts([&](const auto &kernel) {
    std::vector<float> y(want.size() + 1, -1);
    const auto outs = pack(make_view(
        y.data(), dims<dyn, fixed<1>, dyn, fixed<K>>{dyn(oh * ow * K), {}, dyn(ow * K), {}}));
    const auto ins = pack(make_view(bias.data(), extents<0, 1, 0, 0>{}));
    const auto run = [&](const auto &view) {
      if constexpr (scales)
        kernel(cfg, view, weights.data(), outs, ins, plus_one{}, workers, times_scale{},
               pack(make_view(scale.data(), extents<1>{})));
      else
        kernel(cfg, view, weights.data(), outs, ins, plus_one{}, workers, cpu::no_prologue{},
               arguments<>{});
    };
    if (last)
      run(make_view(x.data(), extents<C * H * V, 1, V * C, C>{}));
    else
      run(make_view(x.data(), extents<C * H * V, H * V, V, 1>{}));
    EXPECT_EQ(y.back(), -1);
    y.pop_back();
    test::expectClose(y, want, 1e-5);
  });
}

TEST(ConvBf16, Pointwise) {
  test<bf16, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, W>>();
  test<bf16, conv_case<2, 3, 3, 21, 3 * W + 1, 1, 1, 1, 1, 0, 2, 2 * W>>();
  test<bf16, conv_case<1, 4, 3, 6, 4 * W, 1, 1, 2, 1, 0, 3, 2 * W>>();
  test<bf16, conv_case<1, 1, 1, 131, 5 * W - 1, 1, 1, 1, 1, 0, 1, 4 * W>>();
  test<bf16, conv_case<1, 1, 90, 640, W, 1, 1, 1, 1, 0, 6, W>>(); // several chunks
  test<bf16, conv_case<1, 1, 5, 2048, W, 1, 1, 1, 1, 0, 5, W>>(); // rows of 4 KiB
}
TEST(ConvBf16, Windows) {
  test<bf16, conv_case<1, 7, 6, 16, 5, 3, 3, 1, 1, 1, 4, W>>();
  test<bf16, conv_case<1, 7, 6, 15, W + 3, 3, 3, 2, 1, 1, 4, 2 * W>>();
  test<bf16, conv_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2, 3, W>>();
  test<bf16, conv_case<1, 9, 9, 8, 2 * W, 3, 3, 1, 2, 2, 5, W>>();
}
TEST(ConvBf16, FewChannelsAndOtherLayouts) {
  test<bf16, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>();
  test<bf16, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>(false);
  test<bf16, by_rows<conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>>(false);
  test<bf16, by_rows<conv_case<1, 11, 10, 1, 2 * W, 7, 7, 2, 1, 3, 4, 2 * W>>>();
  test<bf16, by_rows<conv_case<1, 6, 9, 4, 3, 3, 3, 1, 2, 1, 2, W>>>(false);
}
TEST(ConvBf16, WhatIsComputedOnTheWayIn) {
  test<float, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, W>>();
  test<float, conv_case<1, 7, 6, 15, W + 3, 3, 3, 2, 1, 1, 4, 2 * W>>();
  test<float, conv_case<1, 7, 6, 15, W + 3, 3, 3, 2, 1, 1, 4, 2 * W>>(false);
  test<float, conv_case<1, 1, 1, 131, 5 * W - 1, 1, 1, 1, 1, 0, 1, 4 * W>>();
}

/// Infinite neighbours, and infinite values of another chunk, stay out of runs of odd length.
TEST(ConvBf16, TailsOfRunsAreZero) {
  using Cfg = conv_case<1, 1, 400, 3, W, 1, 1, 1, 1, 0, 2, W>;
  const Cfg cfg{};
  std::vector<bf16> x(1200, rounded(1.f));
  for (size_t i = 0; i < 600; ++i)
    x[i] = rounded(std::numeric_limits<float>::infinity());
  for (size_t i = 603; i < 1200; i += 6)
    for (size_t c = 0; c < 3; ++c)
      x[i + c] = rounded(-std::numeric_limits<float>::infinity());
  const std::vector<bf16> weights = packed(cfg, std::vector<bf16>(size_t(W) * 3, rounded(1.f)));
  cpu::pool workers(1);
  withAllProducts([&](const auto &kernel) {
    std::vector<float> y(400 * size_t(W));
    kernel(cfg, make_view(x.data(), extents<1200, 1, 1200, 3>{}), weights.data(),
           pack(make_view(y.data(), extents<400 * W, 1, 400 * W, W>{})), arguments<>{},
           cpu::identity_body{}, workers, cpu::no_prologue{}, arguments<>{});
    for (size_t i = 200; i < 400; i += 2)
      ASSERT_EQ(y[i * size_t(W)], 3) << "column " << i;
  });
}

constexpr index_t kColumns = W > 1 ? W + 2 : 2; // of two blocks
/// Each batch with its own right operand, and one for all.
template <index_t Own> struct product_case : cpu::matmul_defaults {
  static constexpr fixed<2> batch1{};
  static constexpr fixed<3> m{};
  static constexpr fixed<kColumns> n{};
  static constexpr fixed<5> k{};
  static constexpr fixed<Own * 2 * W * 6> b_stride1{};
  static constexpr int mr = 2, nr = 2 * W;
  using accumulator = float;
};
template <index_t Own> void testProduct() {
  constexpr index_t N = kColumns;
  const auto a = rounded(test::randomFloats(2 * 3 * 5, 4)),
             b = rounded(test::randomFloats(2 * 5 * N, 5));
  std::vector<bf16> packedB(size_t(2 * 2 * W * 6), rounded(0.f));
  std::vector<double> want;
  for (index_t i = 0; i < 2; ++i)
    for (index_t j = 0; j < N; ++j)
      for (index_t k = 0; k < 5; ++k)
        packedB[size_t(i * 2 * W * 6 + ((j / W * 3 + k / 2) * W + j % W) * 2 + k % 2)] =
            b[size_t((i * 5 + k) * N + j)];
  for (index_t i = 0; i < 2; ++i)
    for (index_t r = 0; r < 3; ++r)
      for (index_t j = 0; j < N; ++j) {
        double sum = 0;
        for (index_t k = 0; k < 5; ++k)
          sum += double(value(a[size_t((i * 3 + r) * 5 + k)])) *
                 value(b[size_t((i * Own * 5 + k) * N + j)]);
        want.push_back(sum);
      }
  std::vector<float> y(want.size());
  cpu::pool workers(2);
  cpu::matmul_bf16(product_case<Own>{}, make_view(a.data(), extents<0, 15, 5, 1>{}), packedB.data(),
                   pack(make_view(y.data(), extents<0, 3 * N, N, 1>{})), arguments<>{},
                   cpu::identity_body{}, workers);
  test::expectClose(y, want, 1e-5);
}
TEST(MatMulBf16, BatchesShareTheRightOperandOrHaveTheirOwn) {
  testProduct<0>();
  testProduct<1>();
}

} // namespace
