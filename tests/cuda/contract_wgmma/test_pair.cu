// Architectures: 900a
//
// Tests of matmul_wgmma_sm90 of two products of the same rows (packed_pair): ragged rows, columns
// and depths, every tile that is offered, what the body reads of rows and of columns, two results.
#include "cuda/contract_wgmma/kernel.cuh"
#include "shared/warpgroup_cases.h"

using namespace test;

namespace {

/// a * (b + bias) + residual, and b.
struct gate {
  template <class L>
  TENON_FN results<f32<L>, f32<L>> operator()(L, f32<L> a, f32<L> b, f32<L> bias,
                                              f32<L> residual) const {
    return pack(a * (b + bias) + residual, b);
  }
};

// Two blocks at most, so that each takes several tiles.
template <int M, int N, int K, int Consumers, bool PingPong, int Stages, int Splits = 1>
using tiles = cuda::contract_wgmma_schedule<M, N, K, Consumers, PingPong, Stages, Splits, 2>;

template <class Schedule, index_t Depth, index_t Columns>
struct pair_case : cuda::matmul_defaults, Schedule {
  dyn m;
  static constexpr fixed<Columns> n{};
  static constexpr fixed<Depth> k{};
};

template <class T, class Schedule, index_t Depth, index_t Columns> void pair(index_t m) {
  name_case("two products, m %ld n %ld k %ld", long(m), long(Columns), long(Depth));
  pair_case<Schedule, Depth, Columns> cfg;
  cfg.m = m;
  constexpr index_t pitch = (Depth + 7) / 8 * 8;
  buffer<T> a(m * Depth), weights[2] = {buffer<T>(Columns * pitch), buffer<T>(Columns * pitch)};
  buffer<float> bias(Columns), residual(m * Columns), y(m * Columns);
  buffer<T> second(m * Columns);
  a.fill_random();
  bias.fill_random();
  residual.fill_random();
  for (buffer<T> &w : weights) {
    w.fill_random();
    for (index_t j = 0; j < Columns; ++j)
      for (index_t k = Depth; k < pitch; ++k)
        w.set(j * pitch + k, 0);
    w.upload();
  }
  std::vector<double> want, want_second;
  for (index_t i = 0; i < m; ++i)
    for (index_t j = 0; j < Columns; ++j) {
      double sum[2] = {};
      for (int p = 0; p < 2; ++p)
        for (index_t k = 0; k < Depth; ++k)
          sum[p] += double(a.get(i * Depth + k)) * double(weights[p].get(j * pitch + k));
      want.push_back(sum[0] * (sum[1] + double(bias.get(j))) +
                     double(residual.get(i * Columns + j)));
      want_second.push_back(sum[1]);
    }
  constexpr index_t tile_m = Schedule::tile_m, tile_n = Schedule::tile_n;
  split_buffers splits((m + tile_m - 1) / tile_m * ((2 * Columns + tile_n - 1) / tile_n),
                       Schedule::splits, tile_m, tile_n);
  using matrix = dims<fixed<0>, fixed<0>, fixed<Columns>, fixed<1>>;
  launch(cuda::matmul_wgmma_sm90(
      cfg, make_view<const T>(a.device(), dims<fixed<0>, fixed<0>, fixed<Depth>, fixed<1>>()),
      cuda::make_packed_pair<T>(weights[0].device(), weights[1].device()),
      pack(make_view(y.device(), matrix()), make_view(second.device(), matrix())),
      pack(make_view<const float>(bias.device(), dims<fixed<0>, fixed<0>, fixed<0>, fixed<1>>()),
           make_view<const float>(residual.device(), matrix())),
      gate(), splits.scratch()));
  if (Schedule::splits > 1)
    splits.expect_zero();
  expect_close(y, want, 1e-5);
  expect_close(second, want_second, warpgroup_weights<T>::template tolerance<T>());
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  pair<f16, tiles<64, 64, 64, 1, false, 6>, 64, 32>(64);
  pair<f16, tiles<64, 64, 64, 1, false, 6>, 72, 40>(70);
  pair<f16, tiles<64, 64, 64, 1, false, 3>, 200, 33>(150);
  pair<f16, tiles<64, 128, 64, 1, false, 4>, 136, 72>(65);
  pair<f16, tiles<128, 64, 64, 2, false, 8>, 136, 104>(260);
  pair<f16, tiles<128, 128, 64, 2, false, 6>, 328, 200>(130);
  pair<f16, tiles<128, 256, 64, 2, false, 4>, 136, 264>(140);
  pair<f16, tiles<256, 64, 64, 4, false, 5>, 72, 40>(270);
  pair<f16, tiles<192, 128, 64, 3, false, 5>, 72, 136>(200);
  pair<f16, tiles<256, 128, 64, 2, false, 4>, 136, 72>(300);
  pair<f16, tiles<64, 64, 64, 2, true, 4>, 200, 136>(150);
  pair<bf16, tiles<128, 128, 64, 2, false, 6>, 136, 72>(130);
#endif
  pair<f16, tiles<128, 192, 64, 2, false, 5>, 136, 200>(150);
  pair<f16, tiles<128, 64, 64, 2, false, 3, 2>, 264, 72>(140);
  pair<bf16, tiles<128, 256, 64, 2, false, 4>, 264, 160>(140);
  return finish();
}
