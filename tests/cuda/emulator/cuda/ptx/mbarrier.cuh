// Stands in for runtime/cuda/ptx/mbarrier.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_MBARRIER_CUH
#define TENON_RUNTIME_CUDA_PTX_MBARRIER_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct mbarrier {
  uint32_t phase : 1, count : 11, missing : 11, mark : 8; // 8 bytes in all, as the machine has them
  int32_t bytes;

  void init(int n) {
    if (n <= 0 || n >= 1 << 11)
      emulator::machine::fail("an mbarrier that counts so many threads");
    phase = 0, count = missing = unsigned(n), mark = initialised, bytes = 0;
  }
  static void fence_init() {}
  void arrive() { change(1, 0); }
  void arrive_expecting(int n) { change(1, n); }
  /// A copy's bytes have landed.
  void land(int n) { change(0, -n); }
  bool try_wait(int parity) const {
    check();
    return int(phase) != parity;
  }
  void wait(int parity) const {
    while (!try_wait(parity))
      emulator::machine::instance().spin();
  }
  void wait_for_cluster(int parity) const { wait(parity); }

private:
  static constexpr unsigned initialised = 0x5a;
  void check() const {
    if (mark != initialised)
      emulator::machine::fail("an mbarrier that was not initialised");
  }
  void change(int arrivals, int more) {
    check();
    if (arrivals > int(missing))
      emulator::machine::fail("more threads arrive at an mbarrier than it counts");
    missing = missing - unsigned(arrivals);
    bytes += more;
    if (missing == 0 && bytes == 0) {
      phase ^= 1;
      missing = count;
      emulator::machine::instance().note_progress();
    }
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
