// Architectures: 900a
//
// Tests of bytes and of f8e4m3 in conv_cluster_sm90 and matmul_cluster_sm90.
#include "contract_cluster/cases.h"
#include "shared/fp8_cases.h"
#include "shared/int8_cases.h"

using namespace test;

namespace {

struct int8_cluster : cluster_kernels {
  static constexpr const char *name = "int8 cluster";
  using packing = rounded_rows<16>;
};
struct fp8_cluster : cluster_kernels {
  static constexpr const char *name = "fp8 cluster";
  using packing = rounded_rows<16>;
};

template <int S> using part_small = part<64, 32, 128, 1, 3, S>;
template <int S> using part_pair = part<64, 64, 64, 2, 3, S>;
template <int S> using part_tall = part<128, 64, 128, 2, 2, S>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv_int8<int8_cluster, int8_t, 0, part_small<1>, 128, 32, 1>(1, 8, 9, 1, 1, 0);
  conv_int8<int8_cluster, uint8_t, 0, part_small<4>, 144, 40, 3>(2, 9, 7, 1, 1, 1);
  conv_int8<int8_cluster, int8_t, 0, part_pair<2>, 80, 70, 3>(1, 11, 13, 2, 1, 1);
  conv_int8<int8_cluster, uint8_t, 0, part_tall<1>, 272, 130, 1>(2, 13, 11, 1, 1, 0);
  conv_int8<int8_cluster, int8_t, 0, part_tall<2>, 128, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  matmul_int8<int8_cluster, uint8_t, 0, part_small<8>, 1040>(65, 70);
  matmul_int8<int8_cluster, int8_t, 0, part_pair<1>, 144>(70, 40);
  conv_fp8<fp8_cluster, part_small<1>, 128, 32, 1>(1, 8, 9, 1, 1, 0);
  conv_fp8<fp8_cluster, part_small<4>, 144, 40, 3>(2, 9, 7, 1, 1, 1);
  conv_fp8<fp8_cluster, part_tall<2>, 128, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  matmul_fp8<fp8_cluster, part_small<8>, 1040>(65, 70);
  matmul_fp8<fp8_cluster, part_pair<1>, 144>(70, 40);
  matmul_fp8<fp8_cluster, part_tall<1>, 2048>(65, 40, true);
  matmul_fp8<fp8_cluster, part_small<4>, 4096>(33, 40, true);
#endif
  conv_int8<int8_cluster, uint8_t, 0, part_pair<8>, 128, 72, 3>(1, 9, 10, 1, 1, 1);
  conv_fp8<fp8_cluster, part_pair<8>, 128, 72, 3>(1, 9, 10, 1, 1, 1);
  return finish();
}
