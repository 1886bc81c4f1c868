// Architectures: 750
//
// Tests of conv_int8_sm75 and matmul_int8_sm75.
#include "contract_mma/cases.h"

using namespace test;

namespace {

struct int8 {
  static constexpr const char *name = "int8";
  using packing = row_weights;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_int8_sm75(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_int8_sm75(args...);
  }
};

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  contractions_of_bytes<int8, 2>();
#endif
  conv_int8<int8, int8_t, -5, cuda::contract_mma_schedule<64, 64, 64, 32, 32, 2, 2>, 64, 72, 3>(1, 7, 7, 1, 1, 1);
  conv_int8<int8, uint8_t, 9, cuda::contract_mma_schedule<64, 16, 32, 16, 16, 2>, 7, 9, 5>(1, 8, 9, 1, 1, 2);
  return finish();
}
