// Stands in for runtime/cuda/ptx/cp_async.cuh: copies land when their group is waited for.
#ifndef TENON_RUNTIME_CUDA_PTX_CP_ASYNC_CUH
#define TENON_RUNTIME_CUDA_PTX_CP_ASYNC_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <int Bytes> struct cp_async {
  static void copy(void *shared, const void *global, bool valid) {
    emulator::machine::instance().current().open.push_back({shared, global, Bytes, valid});
  }
};

struct cp_async_group {
  static void commit() {
    emulator::fiber &f = emulator::machine::instance().current();
    f.groups.push_back(std::move(f.open));
    f.open.clear();
  }
  template <int Pending> static void wait() {
    emulator::fiber &f = emulator::machine::instance().current();
    while (f.groups.size() > size_t(Pending)) {
      emulator::machine::apply(f.groups.front());
      f.groups.erase(f.groups.begin());
    }
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
