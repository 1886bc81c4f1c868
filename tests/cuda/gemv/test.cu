// Architectures: 800
//
// Tests of gemv.
#include "cuda/base/computed.cuh"
#include "common/scalar.h"
#include "gemv/cases.h"

using namespace test;

namespace {

struct bias_body {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias) const { return acc + bias; }
};
template <class T, index_t M, int Lanes, int Columns> void gemv(index_t n, index_t k, index_t skew = 0) {
  name_case("gemv m%ld n%ld k%ld lanes %d columns %d of %zu-byte skew %ld", long(M), long(n), long(k), Lanes, Columns, sizeof(T), long(skew));
  gemv_case<M, Lanes, Columns> cfg;
  cfg.n = n, cfg.k = k;
  const index_t run = 16 / index_t(sizeof(T)), pitch = (k + run - 1) / run * run;
  buffer<T> x(M * k, skew), w(n * pitch), y(M * n, skew);
  buffer<float> bias(n);
  x.fill_random();
  bias.fill_random();
  for (index_t j = 0; j < n; ++j)
    for (index_t i = 0; i < pitch; ++i)
      w.set(j * pitch + i, i < k ? random_float() : 0.0f);
  w.upload();
  std::vector<double> want;
  for (index_t m = 0; m < M; ++m)
    for (index_t j = 0; j < n; ++j) {
      double sum = double(bias.get(j));
      for (index_t i = 0; i < k; ++i)
        sum += double(x.get(m * k + i)) * double(w.get(j * pitch + i));
      want.push_back(sum);
    }
  launch(cuda::gemv(cfg, make_view<const T>(x.device(), dims<dyn, fixed<1>>(k, {})), static_cast<const T *>(w.device()),
                    pack(make_view(y.device(), dims<dyn, fixed<1>>(n, {}))),
                    pack(make_view<const float>(bias.device(), extents<0, 1>{})), bias_body{}));
  expect_close(y, want, rounding<T>() + 1e-6);
}

/// x is computed where it is read: relu(a * scale), scale along k.
struct scaled_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> scale) const {
    return relu<L>(a * scale);
  }
};
void gemv_computed(index_t n, index_t k) {
  name_case("gemv of a computed operand n%ld k%ld", long(n), long(k));
  gemv_case<2, 64, 2> cfg;
  cfg.n = n, cfg.k = k;
  const index_t pitch = (k + 3) / 4 * 4;
  buffer<float> x(2 * k), scale(k), w(n * pitch), bias(n), y(2 * n);
  x.fill_random();
  scale.fill_random();
  bias.fill_random();
  for (index_t j = 0; j < n; ++j)
    for (index_t i = 0; i < pitch; ++i)
      w.set(j * pitch + i, i < k ? random_float() : 0.0f);
  w.upload();
  std::vector<double> want;
  for (index_t m = 0; m < 2; ++m)
    for (index_t j = 0; j < n; ++j) {
      double sum = double(bias.get(j));
      for (index_t i = 0; i < k; ++i)
        sum += fmax(double(x.get(m * k + i)) * double(scale.get(i)), 0) * double(w.get(j * pitch + i));
      want.push_back(sum);
    }
  const auto computed = cuda::make_computed_view<float, 2>(
      pack(make_view<const float>(x.device(), dims<dyn, fixed<1>>(k, {})),
           make_view<const float>(scale.device(), extents<0, 1>{})),
      scaled_relu{});
  launch(cuda::gemv(cfg, computed, static_cast<const float *>(w.device()),
                    pack(make_view(y.device(), dims<dyn, fixed<1>>(n, {}))),
                    pack(make_view<const float>(bias.device(), extents<0, 1>{})), bias_body{}));
  expect_close(y, want, 1e-5);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  gemv<float, 1, 32, 2>(37, 130);
  gemv<float, 3, 256, 4>(10, 1000, 1);
  gemv<f16, 1, 64, 1>(50, 77);
#endif
  gemv<f16, 8, 32, 4>(9, 64, 3);
  gemv_computed(21, 150);
  return finish();
}
