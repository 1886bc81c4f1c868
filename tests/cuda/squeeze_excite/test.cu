// Architectures: 900a
//
// Tests of squeeze_excite.
#include "common/scalar.h"
#include "cuda/base/computed.cuh"
#include "cuda/squeeze_excite/kernel.cuh"
#include "shared/harness.h"

#include <cmath>

using namespace test;

namespace {

template <int C, int H, int E, int Threads, int ChannelParts, int PixelParts, bool Staged>
struct gate_case {
  dyn images;
  dims<dyn, dyn> pixels;
  static constexpr int channels = C, hidden = H, outputs = E;
  static constexpr int threads = Threads, channel_parts = ChannelParts, pixel_parts = PixelParts;
  static constexpr bool staged = Staged;
};

struct biased_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> sum, f32<L> bias) const {
    return relu<L>(sum + bias);
  }
};
struct times_and_plus {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> sum, f32<L> bias) const {
    return 2.0f * sum + bias;
  }
};
struct product_and_sum {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> gate, f32<L> x, f32<L> residual) const {
    return gate * x + residual;
  }
};
struct twice {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x) const { return 2.0f * x; }
};

index_t padded(index_t n, index_t run) { return (n + run - 1) / run * run; }

/// Random weights in rows that zeros fill up to 16 bytes.
template <class T> void fill_rows(buffer<T> &w, index_t columns) {
  const index_t pitch = padded(columns, index_t(16 / sizeof(T)));
  for (index_t i = 0; i < w.size(); ++i)
    w.set(i, i % pitch < columns ? random_float() : 0.0f);
  w.upload();
}

enum class order { channels_last, channels_first, window, computed };

/// x is NHWC, NCHW, a window of more channels, or computed where it is read.
template <class T, int C, int H, int E, int Threads, int ChannelParts, int PixelParts,
          bool Staged = true, order Order = order::channels_last>
void gates(index_t n, index_t h, index_t w) {
  name_case("n%ld %ldx%ld c%d h%d e%d threads %d parts %dx%d staged %d order %d", long(n), long(h),
            long(w), C, H, E, Threads, ChannelParts, PixelParts, Staged, int(Order));
  constexpr index_t run = 16 / index_t(sizeof(T));
  constexpr index_t all = Order == order::window ? C + 24 : C;
  gate_case<C, H, E, Threads, ChannelParts, PixelParts, Staged> cfg;
  cfg.images = n;
  cfg.pixels = dims<dyn, dyn>(h, w);
  buffer<T> x(n * h * w * all), w1(H * padded(C, run)), w2(E * padded(H, run)), y(n * E);
  buffer<float> bias1(H), bias2(E);
  x.fill_random();
  fill_rows(w1, C);
  fill_rows(w2, H);
  bias1.fill_random();
  bias2.fill_random();

  const bool first = Order == order::channels_first;
  const float factor = Order == order::computed ? 2.0f : 1.0f;
  std::vector<double> want;
  for (index_t b = 0; b < n; ++b) {
    std::vector<double> hidden;
    for (index_t j = 0; j < H; ++j) {
      double sum = double(bias1.get(j));
      for (index_t c = 0; c < C; ++c) {
        double mean = 0;
        for (index_t p = 0; p < h * w; ++p)
          mean += double(factor) *
                  double(x.get(first ? (b * C + c) * h * w + p : (b * h * w + p) * all + c));
        sum += double(w1.get(j * padded(C, run) + c)) * mean / double(h * w);
      }
      hidden.push_back(sum > 0 ? sum : 0);
    }
    for (index_t e = 0; e < E; ++e) {
      double sum = 0;
      for (index_t j = 0; j < H; ++j)
        sum += double(w2.get(e * padded(H, run) + j)) * hidden[size_t(j)];
      want.push_back(2 * sum + double(bias2.get(e)));
    }
  }

  const auto run_with = [&](const auto &from) {
    launch(cuda::squeeze_excite(cfg, from, 1.0f / float(h * w), static_cast<const T *>(w1.device()),
                                pack(make_view<const float>(bias1.device(), extents<0, 1>{})),
                                biased_relu{}, static_cast<const T *>(w2.device()),
                                pack(make_view<const float>(bias2.device(), extents<0, 1>{})),
                                times_and_plus{},
                                pack(make_view(y.device(), dims<dyn, fixed<1>>(E, {})))));
  };
  const auto last =
      make_view<const T>(x.device(), dims<dyn, dyn, dyn, fixed<1>>(h * w * all, w * all, all, {}));
  if constexpr (Order == order::channels_first)
    run_with(make_view<const T>(x.device(), dims<dyn, dyn, dyn, dyn>(C * h * w, w, 1, h * w)));
  else if constexpr (Order == order::computed)
    run_with(cuda::make_computed_view<float, 4>(pack(last), twice{}));
  else
    run_with(last);
  expect_close(y, want, rounding<T>() + 2e-6);

  if constexpr (E == C && (Order == order::channels_last || Order == order::window)) {
    buffer<T> z(n * h * w * C), residual(n * h * w * C);
    residual.fill_random();
    std::vector<double> image;
    for (index_t i = 0; i < z.size(); ++i)
      image.push_back(want[size_t(i / C / (h * w) * C + i % C)] *
                          double(x.get(i / C * all + i % C)) +
                      double(residual.get(i)));
    const dims<dyn, dyn, dyn, fixed<1>> dense(h * w * C, w * C, C, {});
    launch(cuda::squeeze_excite_image(
        cfg, last, 1.0f / float(h * w), static_cast<const T *>(w1.device()),
        pack(make_view<const float>(bias1.device(), extents<0, 1>{})), biased_relu{},
        static_cast<const T *>(w2.device()),
        pack(make_view<const float>(bias2.device(), extents<0, 1>{})), times_and_plus{},
        pack(make_view(z.device(), dense)),
        pack(last, make_view<const T>(residual.device(), dense)), product_and_sum{}));
    expect_close(z, image, rounding<T>() + 2e-6);
  }
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  gates<f16, 96, 4, 96, 256, 8, 1>(1, 14, 14);
  gates<f16, 32, 8, 32, 512, 1, 8>(1, 33, 20);
  gates<f16, 144, 6, 144, 512, 2, 4>(2, 9, 11);
  gates<f16, 672, 28, 672, 512, 8, 1>(3, 7, 7);
  gates<f16, 1152, 48, 1152, 1024, 8, 1>(1, 7, 7);
  gates<f16, 440, 110, 440, 256, 4, 2>(1, 8, 8);
  gates<f16, 40, 10, 56, 64, 8, 1>(2, 3, 5); // fewer runs than blocks
  gates<f16, 64, 16, 64, 128, 1, 1>(5, 6, 6);
  gates<f16, 48, 12, 9, 256, 2, 1>(1, 1, 1);   // no more than the two products
  gates<f16, 100, 9, 100, 256, 1, 4>(2, 1, 3); // blocks without pixels
  gates<f16, 1024, 64, 1024, 512, 8, 1, false>(2, 7, 7);
  gates<f16, 20, 70, 13, 128, 2, 2, false>(3, 4, 4);
  gates<float, 96, 24, 96, 256, 4, 2>(2, 10, 10);
  gates<f16, 96, 24, 96, 256, 4, 1, true, order::channels_first>(2, 10, 9);
  gates<f16, 96, 24, 96, 256, 2, 2, true, order::window>(2, 10, 9);
#endif
  gates<f16, 20, 5, 13, 128, 2, 2>(3, 4, 4); // rows that are filled up
  gates<bf16, 96, 24, 96, 256, 4, 1>(2, 10, 10);
  gates<float, 30, 7, 30, 128, 2, 1, false>(2, 5, 5);
  gates<f16, 96, 24, 96, 256, 4, 1, true, order::computed>(2, 10, 9);
  return finish();
}
