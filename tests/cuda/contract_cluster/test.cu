// Architectures: 900a
//
// Tests of conv_cluster_sm90 and matmul_cluster_sm90; of floats with weights rounded to tf32 and in
// two parts.
#include "contract_cluster/cases.h"
#include "shared/warpgroup_cases.h"

using namespace test;

namespace {

struct f16_cluster : cluster_kernels, warpgroup_weights<f16> {
  static constexpr const char *name = "cluster";
};
struct bf16_cluster : cluster_kernels, warpgroup_weights<bf16> {
  static constexpr const char *name = "cluster";
};
struct tf32x3_cluster : cluster_kernels, warpgroup_weights<float, stored_as::parts> {
  static constexpr const char *name = "tf32x3 cluster";
};
struct tf32_cluster : cluster_kernels, tf32_weights {
  static constexpr const char *name = "tf32 cluster";
};

template <int S> using float_part_small = part<64, 32, 32, 1, 3, S>;
template <int S> using float_part_thin = part<64, 32, 8, 1, 4, S>;
template <int S> using float_part_pair = part<64, 128, 32, 2, 3, S>;
template <int S> using float_part_tall = part<128, 64, 32, 2, 2, S>;
template <int S> using part_small = part<64, 32, 64, 1, 3, S>;
template <int S> using part_thin = part<64, 32, 32, 1, 4, S>;
template <int S> using part_square = part<64, 64, 64, 1, 2, S>;
template <int S> using part_pair = part<64, 64, 64, 2, 3, S>; // columns are shared
template <int S> using part_wide = part<64, 128, 32, 2, 3, S>;
template <int S> using part_tall = part<128, 64, 64, 2, 3, S>;
template <int S> using part_large = part<128, 128, 64, 2, 3, S>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv<f16_cluster, f16, part_small<1>, 64, 32, 1>(1, 8, 9, 1, 1, 0);
  conv<f16_cluster, f16, known_runs<part_small<1>>, 8, 40, 3>(2, 9, 7, 1, 1, 1);
  conv<f16_cluster, f16, part_square<1>, 136, 70, 3>(2, 9, 9, 2, 1, 1);
  conv<f16_cluster, f16, part_tall<1>, 72, 136, 3>(2, 11, 9, 1, 2, 2);
  conv<f16_cluster, f16, part_small<1>, 64, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv<f16_cluster, f16, part_pair<1>, 72, 136, 3>(2, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_wide<1>, 40, 136, 1>(2, 9, 9, 1, 1, 0);
  conv<f16_cluster, f16, part_pair<2>, 72, 70, 3>(2, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_pair<4>, 72, 136, 3>(1, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_pair<8>, 72, 72, 3>(1, 9, 9, 1, 1, 1);
  conv<f16_cluster, f16, part_wide<3>, 136, 136, 1, 1, true>(2, 9, 9, 1, 1, 0);
  conv<f16_cluster, f16, part_square<2>, 64, 72, 3>(1, 10, 10, 1, 1, 1);
  conv<f16_cluster, f16, part_thin<8>, 32, 40, 3>(3, 7, 7, 1, 1, 1);
  conv<f16_cluster, f16, part_small<8>, 136, 70, 1>(1, 9, 9, 1, 1, 0); // parts without a step
  conv<f16_cluster, f16, part_large<4>, 40, 136, 3>(2, 9, 9, 2, 1, 1);
  conv<f16_cluster, f16, part_thin<4>, 136, 70, 1, 1, true>(2, 9, 9, 1, 1, 0);
  conv<f16_cluster, f16, part_large<1>, 200, 70, 1, 1, true>(2, 9, 10, 1, 1, 0);
  matmul<f16_cluster, f16, part_square<4>, 328, false>(3, 70, 100, true);
  matmul<f16_cluster, f16, part_small<1>, 72, false>(2, 33, 40, false);
  matmul<f16_cluster, f16, part_wide<2>, 72, false>(2, 70, 72, true);
  matmul<bf16_cluster, bf16, part_tall<1>, 328, true>(2, 150, 72, true);
  floats<tf32x3_cluster, float_part_small<1>, float_part_thin<1>, float_part_thin<2>,
         float_part_pair<2>, float_part_tall<4>>();
  volumes<f16_cluster, f16, part_square<2>, 40>();
#endif
  conv<f16_cluster, f16, part_thin<3>, 136, 70, 3>(2, 9, 9, 1, 1, 1);
  matmul<bf16_cluster, bf16, part_large<2>, 200, false>(1, 150, 136, true);
  conv<tf32_cluster, float, float_part_small<8>, 72, 72, 3>(1, 9, 9, 1, 1, 1);
  return finish();
}
