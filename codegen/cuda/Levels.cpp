// Implements the GPUs that CUDA files are written for: the one place with figures of machines.
#include "codegen/cuda/Family.h"

namespace tenon::cuda {
namespace {

TargetLevel cuda(llvm::StringRef name, unsigned sm, unsigned multiprocessors, double gflops,
                 double tensorTflops, double bandwidth, unsigned shared, llvm::StringRef summary) {
  TargetLevel t;
  t.name = name;
  t.family = &kFamily;
  t.summary = summary;
  t.sm = sm;
  t.archSpecific = name.endswith("a");
  t.multiprocessors = multiprocessors;
  t.peakGflops = gflops;
  t.tensorTflops = tensorTflops;
  t.bandwidthGBs = bandwidth;
  t.launchMicroseconds = sm >= 90 ? 0.7 : 1.3;
  // One H100; elsewhere assumed. Source: pairs of kernels in bench/cuda/expand_depthwise/h100.csv,
  // where their estimates alone are 0.84 of the time.
  t.neighbourMicroseconds = 0.4;
  t.sharedBytes = shared * 1024;
  return t;
}

/// One of several machines with the same architecture.
TargetLevel cuda(llvm::StringRef name, llvm::StringRef device, unsigned sm,
                 unsigned multiprocessors, double gflops, double tensorTflops, double bandwidth,
                 unsigned shared, llvm::StringRef summary) {
  TargetLevel t = cuda(name, sm, multiprocessors, gflops, tensorTflops, bandwidth, shared, summary);
  t.device = device;
  return t;
}

} // namespace

// sm_90a: one H200, measured; one H100, its bandwidth measured (bench/cuda/gemv/h100.csv), the chip
// is the same. Others: data sheets of T4, A100, A10, the Orin modules (64 GB, 16 GB
// and 8 GB at 1300, 918 and 625 MHz), L4, B200, Thor and RTX 5090; unmeasured.
llvm::ArrayRef<TargetLevel> levels() {
  static const TargetLevel kLevels[] = {
      cuda("sm_75", 75, 40, 8100, 65, 300, 64, "Turing (T4)"),
      cuda("sm_80", 80, 108, 19500, 312, 1555, 163, "Ampere (A100)"),
      cuda("sm_86", 86, 72, 31200, 125, 600, 99, "Ampere (A10)"),
      cuda("sm_87", "agx-orin", 87, 16, 5320, 42.5, 204.8, 163, "Jetson AGX Orin"),
      cuda("sm_87", "orin-nx", 87, 8, 1880, 15, 102.4, 163, "Jetson Orin NX"),
      cuda("sm_87", "orin-nano", 87, 8, 1280, 10.2, 68, 163, "Jetson Orin Nano"),
      cuda("sm_89", 89, 58, 30300, 121, 300, 99, "Ada (L4)"),
      cuda("sm_90a", "h200", 90, 132, 51000, 743, 4190, 227, "Hopper (H200)"),
      cuda("sm_90a", "h100", 90, 132, 51000, 743, 3090, 227, "Hopper (H100)"),
      cuda("sm_100", 100, 148, 75000, 2250, 8000, 227, "Blackwell (B200)"),
      cuda("sm_110", 110, 20, 8000, 517, 273, 227, "Jetson Thor"),
      cuda("sm_120", 120, 170, 104800, 419, 1792, 99, "Blackwell (RTX 5090)"),
  };
  return kLevels;
}

} // namespace tenon::cuda
