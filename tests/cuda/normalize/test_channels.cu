// Architectures: 800
//
// Tests of normalize_channels.
#include "cuda/normalize/channels.cuh"
#include "common/scalar.h"
#include "shared/harness.h"

using namespace test;

namespace {

template <int Width, int Columns, int V, int Ahead, int Blocks, bool Whole, bool Centered> struct channels_case {
  dims<dyn> images, pixels, channels;
  static constexpr int threads = 256, width = Width, columns = Columns, vector = V, ahead = Ahead, blocks = Blocks;
  static constexpr bool whole = Whole, centered = Centered;
};
struct scale_add {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> x, f32<L> scale, f32<L> z) const { return x * scale + z; }
};
/// Groups of Width channels of (images, pixels, channels), scaled by channel, and a tensor added; twice, for the
/// same bits.
template <class T, int Width, int Columns, int V, int Ahead, int Blocks, bool Whole = false, bool Centered = true>
void channels(index_t images, index_t pixels, index_t groups, index_t skew = 0) {
  name_case("normalize_channels %d-byte %ldx%ldx%ld width %d columns %d vector %d ahead %d blocks %d whole %d centered %d",
            int(sizeof(T)), long(images), long(pixels), long(groups), Width, Columns, V, Ahead, Blocks, Whole, Centered);
  channels_case<Width, Columns, V, Ahead, Blocks, Whole, Centered> cfg;
  const index_t all = groups * Width;
  cfg.images = dims<dyn>(images), cfg.pixels = dims<dyn>(pixels), cfg.channels = dims<dyn>(all);
  buffer<T> x(images * pixels * all, skew), z(x.size(), skew);
  buffer<float> scale(all), y(x.size(), skew), again(x.size(), skew);
  x.fill_random(), scale.fill_random(), z.fill_random();
  for (index_t i = 0; i < x.size(); ++i)
    x.set(i, x.get(i) + 40);
  x.upload();
  std::vector<double> want(size_t(x.size()));
  for (index_t n = 0; n < images; ++n)
    for (index_t g = 0; g < groups; ++g) {
      const auto each = [&](auto f) {
        for (index_t p = 0; p < pixels; ++p)
          for (index_t c = g * Width; c < (g + 1) * Width; ++c)
            f((n * pixels + p) * all + c, c);
      };
      double mean = 0, squares = 0;
      const double count = double(pixels * Width);
      if (Centered)
        each([&](index_t i, index_t) { mean += double(x.get(i)) / count; });
      each([&](index_t i, index_t) { squares += (double(x.get(i)) - mean) * (double(x.get(i)) - mean) / count; });
      each([&](index_t i, index_t c) {
        want[size_t(i)] =
            (double(x.get(i)) - mean) / ::sqrt(squares + 1e-5) * double(scale.get(c)) + double(z.get(i));
      });
    }
  const auto strides = [&] {
    if constexpr (Whole)
      return dims<fixed<0>, fixed<Width * (Columns * V / Width)>, fixed<1>>(); // one image, one block's channels
    else
      return dims<dyn, dyn, fixed<1>>(pixels * all, all, {});
  }();
  const auto in = make_view((const T *)x.device(), strides), added = make_view((const T *)z.device(), strides);
  const auto factors = make_view<const float>(scale.device(), extents<0, 0, 1>{});
  for (buffer<float> *result : {&y, &again}) {
    buffer<cuda::row_moments<float>> parts(images * groups * Blocks);
    launch(cuda::normalize_channels_parts(cfg, in, parts.device()));
    launch(cuda::normalize_channels(cfg, 1e-5f, in, pack(make_view(result->device(), strides)), pack(factors, added),
                                    scale_add{}, parts.device()));
  }
  expect_close(y, want, 2e-5);
  std::vector<double> same(want.size());
  for (index_t i = 0; i < y.size(); ++i)
    same[size_t(i)] = double(y.get(i));
  expect_close(again, same, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  channels<f16, 10, 5, 8, 4, 7>(2, 300, 8);
  channels<f16, 10, 10, 8, 8, 3, true>(1, 450, 8);
  channels<float, 4, 16, 4, 4, 5>(3, 70, 32, 1);
  channels<float, 3, 3, 1, 1, 16>(1, 10, 4);
  channels<float, 6, 192, 2, 4, 4, false, false>(2, 33, 64);
  channels<f16, 60, 15, 8, 4, 33>(1, 1000, 4);
#endif
  channels<f16, 30, 120, 8, 8, 40>(1, 500, 32);
  return finish();
}
