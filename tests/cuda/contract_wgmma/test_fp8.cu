// Architectures: 900a
//
// Tests of f8e4m3 in conv_wgmma_sm90 and matmul_wgmma_sm90.
#include "contract_wgmma/cases.h"
#include "shared/fp8_cases.h"

using namespace test;

namespace {

struct fp8 {
  static constexpr const char *name = "fp8 wgmma";
  using packing = rounded_rows<16>;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_wgmma_sm90(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_wgmma_sm90(args...);
  }
};

using wide = tiles<64, 128, 128, 1, false, 2>;
using broad = tiles<128, 192, 128, 2, false, 2>;
using shared = tiles<128, 128, 128, 2, false, 3>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv_fp8<fp8, small, 128, 32, 1>(1, 8, 9, 1, 1, 0);
  conv_fp8<fp8, small, 16, 40, 3>(2, 9, 7, 1, 1, 1);
  conv_fp8<fp8, thin, 48, 70, 3>(1, 11, 13, 2, 1, 1);
  conv_fp8<fp8, thinnest, 32, 33, 5>(3, 12, 6, 3, 2, 4);
  conv_fp8<fp8, wide, 144, 130, 1>(1, 13, 11, 1, 1, 0);
  conv_fp8<fp8, three, 128, 130, 1>(2, 15, 14, 1, 1, 0);
  conv_fp8<fp8, four, 64, 70, 3>(3, 12, 10, 1, 1, 1);
  conv_fp8<fp8, turns, 80, 72, 3>(2, 10, 12, 1, 1, 1);
  conv_fp8<fp8, small, 128, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv_fp8<fp8, split_shared<4>, 64, 40, 3>(3, 7, 7, 1, 1, 1);
  matmul_fp8<fp8, turns, 400>(150, 136);
  matmul_fp8<fp8, broad, 144>(70, 200);
  matmul_fp8<fp8, small, 4096>(33, 40, true); // long sums that grow
  matmul_fp8<fp8, shared, 2048>(130, 104, true);
#endif
  conv_fp8<fp8, split<3>, 128, 72, 3>(1, 10, 10, 1, 1, 1);
  matmul_fp8<fp8, shared, 144>(130, 104);
  matmul_fp8<fp8, broad, 272>(130, 200);
  return finish();
}
