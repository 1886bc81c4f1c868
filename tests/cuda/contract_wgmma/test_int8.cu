// Architectures: 900a
//
// Tests of conv_int8_sm90 and matmul_int8_sm90.
#include "contract_wgmma/cases.h"
#include "shared/int8_cases.h"

using namespace test;

namespace {

struct int8 {
  static constexpr const char *name = "int8 wgmma";
  using packing = rounded_rows<16>;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_int8_sm90(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_int8_sm90(args...);
  }
};

using tall = tiles<128, 64, 128, 1, false, 2>;
using shared = tiles<128, 96, 128, 2, false, 3>;
using wide = tiles<128, 256, 128, 2, false, 2>;
template <int S> using split_turns = tiles<64, 32, 64, 2, true, 3, S>;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  conv_int8<int8, int8_t, 0, small, 128, 32, 1>(1, 8, 9, 1, 1, 0);
  conv_int8<int8, uint8_t, 0, small, 16, 40, 3>(2, 9, 7, 1, 1, 1);
  conv_int8<int8, int8_t, 0, thin, 48, 70, 3>(1, 11, 13, 2, 1, 1);
  conv_int8<int8, uint8_t, 0, thinnest, 32, 33, 5>(3, 12, 6, 3, 2, 4);
  conv_int8<int8, int8_t, 0, tall, 144, 64, 3>(1, 15, 14, 1, 1, 1);
  conv_int8<int8, uint8_t, 0, shared, 128, 130, 3>(2, 9, 10, 1, 1, 0);
  conv_int8<int8, uint8_t, 0, three, 128, 130, 1>(2, 15, 14, 1, 1, 0);
  conv_int8<int8, int8_t, 0, four, 64, 70, 3>(3, 12, 10, 1, 1, 1);
  conv_int8<int8, uint8_t, 0, turns, 80, 72, 3>(2, 10, 12, 1, 1, 1);
  conv_int8<int8, int8_t, 0, turns, 272, 200, 1>(1, 13, 13, 2, 1, 0);
  conv_int8<int8, uint8_t, 0, wide, 144, 264, 1>(1, 13, 11, 1, 1, 0);
  conv_int8<int8, uint8_t, 0, small, 128, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv_int8<int8, int8_t, 0, thinnest, 64, 8, 3, 2>(2, 6, 5, 1, 2, 2);
  conv_int8<int8, uint8_t, 0, split_shared<4>, 64, 40, 3>(3, 7, 7, 1, 1, 1);
  matmul_int8<int8, int8_t, 0, small, 144>(70, 40);
  matmul_int8<int8, uint8_t, 0, turns, 400>(150, 136);
  matmul_int8<int8, uint8_t, 0, shared, 128>(130, 104);
  matmul_int8<int8, int8_t, 0, wide, 272>(140, 300);
  matmul_int8<int8, int8_t, 0, split<3>, 1040>(65, 70);
#endif
  conv_int8<int8, int8_t, 0, split<3>, 128, 72, 3>(1, 10, 10, 1, 1, 1);
  conv_int8<int8, uint8_t, 0, split_turns<2>, 64, 70, 3>(2, 9, 9, 1, 1, 1);
  return finish();
}
