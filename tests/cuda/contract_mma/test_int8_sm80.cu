// Architectures: 800
//
// Tests of conv_int8_sm80 and matmul_int8_sm80.
#include "cuda/contract_mma/int8.cuh"
#include "shared/int8_cases.h"

using namespace test;

namespace {

struct int8 {
  static constexpr const char *name = "int8";
  using packing = row_weights;
  template <class... Args> static auto conv(Args... args) { return cuda::conv_int8_sm80(args...); }
  template <class... Args> static auto matmul(Args... args) {
    return cuda::matmul_int8_sm80(args...);
  }
};

} // namespace

int main() {
  contractions_of_bytes<int8, 3>();
  return finish();
}
