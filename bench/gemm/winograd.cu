// Implements the list of schedules of Winograd's convolutions in fp32 that the compiler chooses
// among: codegen/cuda/winograd/Tactic.cpp.
#include "schedule.h"

#if GEMM_PRECISION == 3
#include "cuda/winograd/kernel.cuh"
#endif

namespace bench {

#if GEMM_PRECISION == 3
namespace {

struct kernels {
  template <class... Args> static auto conv(Args... args) { return cuda::conv_winograd(args...); }
  static auto weights(const element *w) { return cuda::make_packed_weights(w); }
};

template <int TileT, int TileN, int TileC, int Warps, int Stages, int... Splits>
void add(std::vector<schedule> &to) {
  const auto one = [&](auto splits) {
    using s = cuda::winograd_schedule<TileT, TileN, TileC, Warps, Stages, decltype(splits)::value>;
    char name[120];
    snprintf(name, sizeof(name), "winograd %dx%dx%d w%d st%d sk%d", TileT, TileN, TileC, Warps,
             Stages, int(splits));
    to.push_back({name, TileT, TileN, TileC, int(splits), packing::winograd, 1, false, nullptr,
                  launch_conv<kernels, s, dyn>});
  };
  (one(std::integral_constant<int, Splits>()), ...);
}

} // namespace
#endif

std::vector<schedule> winograd_schedules() {
  std::vector<schedule> all;
#if GEMM_PRECISION == 3
  add<32, 64, 8, 16, 3, 1, 2, 4, 8>(all);
  add<32, 64, 8, 8, 3, 1, 2, 4, 8>(all);
  add<32, 32, 8, 8, 3, 1, 2, 4, 8>(all);
  add<32, 32, 8, 16, 3, 1, 2, 4, 8>(all);
  add<16, 64, 8, 8, 3, 1, 2, 4, 8>(all);
  add<16, 32, 8, 8, 3, 1, 2, 4, 8, 16>(all);
  add<16, 32, 16, 8, 3, 1, 2, 4, 8>(all);
  add<16, 32, 8, 4, 3, 1, 2, 4, 8, 16>(all);
#endif
  return all;
}

} // namespace bench
