// Implements the machines that C++ files are written for.
#include "codegen/cpu/Family.h"

namespace tenon::cpu {
namespace {

TargetLevel cpu(llvm::StringRef name, unsigned width, unsigned registers, double gflops,
                llvm::StringRef flags, llvm::StringRef summary) {
  TargetLevel t;
  t.name = name;
  t.family = &kFamily;
  t.summary = summary;
  t.simdWidth = width;
  t.simdRegisters = registers;
  t.buildFlags = flags;
  t.peakGflops = gflops;
  t.bandwidthGBs = 14;
  return t;
}

} // namespace

// The kernels are vectorised by hand. The compilers' own loop vectoriser adds nothing to them, and
// g++ 12.2's miscompiles narrow stores at -O3 (seen in an int8 epilogue with AVX-512): it stays
// off. Peaks: one core of an AVX-512 server at 3.3 GHz, measured (213 and 113 GFLOP/s).
llvm::ArrayRef<TargetLevel> levels() {
  static const TargetLevel kLevels[] = {
      cpu("generic", 1, 16, 4, "-O2", "plain ISO C++17, no vector extensions"),
      cpu("x86-64-v2", 4, 16, 50, "-O2 -fno-tree-vectorize -march=x86-64-v2", "SSE4.2"),
      cpu("x86-64-v3", 8, 16, 113, "-O2 -fno-tree-vectorize -march=x86-64-v3", "AVX2 and FMA"),
      cpu("x86-64-v4", 16, 32, 213,
          "-O2 -fno-tree-vectorize -march=x86-64-v4 -mprefer-vector-width=512", "AVX-512"),
      cpu("armv8", 4, 32, 40, "-O2 -fno-tree-vectorize -march=armv8-a", "NEON"),
  };
  return kLevels;
}

} // namespace tenon::cpu
