// Implements the machines that C++ files are written for.
#include "codegen/cpu/Family.h"

namespace tenon::cpu {
namespace {

#define TENON_HOSTED "-O2 -fno-exceptions"
#define TENON_VECTORS TENON_HOSTED " -fno-tree-vectorize"

TargetLevel cpu(llvm::StringRef name, unsigned width, unsigned registers, double gflops,
                llvm::StringRef flags, llvm::StringRef given, llvm::StringRef summary) {
  TargetLevel t;
  t.name = name;
  t.family = &kFamily;
  t.summary = summary;
  t.simdWidth = width;
  t.simdRegisters = registers;
  t.buildFlags = flags;
  t.flagsGiven = given;
  t.peakGflops = gflops;
  t.bandwidthGBs = 14;
  t.variableShifts = name.startswith("armv8") || width >= 8;
  return t;
}

/// What processors of aarch64 have beside armv8, each with all before it.
TargetLevel armv8(llvm::StringRef name, llvm::StringRef flags, llvm::StringRef given,
                  llvm::StringRef summary) {
  TargetLevel t = cpu(name, 4, 32, 40, flags, given, summary);
  t.dotProducts = true;
  t.matrixProducts = flags.contains("+i8mm");
  return t;
}

} // namespace

// The kernels are vectorised by hand. The compilers' own loop vectoriser adds nothing to them, and
// g++ 12.2's miscompiles narrow stores at -O3 (seen in an int8 epilogue with AVX-512): it stays
// off. Without exceptions what they write links with a C compiler. Peaks: one core of an AVX-512
// server at 3.3 GHz, measured (213 and 113 GFLOP/s).
llvm::ArrayRef<TargetLevel> levels() {
  static const TargetLevel kLevels[] = {
      cpu("generic", 1, 16, 4, TENON_HOSTED, "", "plain ISO C++17, no vector extensions"),
      cpu("x86-64-v2", 4, 16, 50, TENON_VECTORS " -march=x86-64-v2", "defined(__SSE4_2__)",
          "SSE4.2"),
      cpu("x86-64-v3", 8, 16, 113, TENON_VECTORS " -march=x86-64-v3",
          "defined(__AVX2__) && defined(__FMA__)", "AVX2 and FMA"),
      cpu("x86-64-v4", 16, 32, 213, TENON_VECTORS " -march=x86-64-v4 -mprefer-vector-width=512",
          "defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && "
          "defined(__AVX512VL__)",
          "AVX-512"),
      cpu("armv8", 4, 32, 40, TENON_VECTORS " -march=armv8-a", "defined(__aarch64__)", "NEON"),
      armv8("armv8+dotprod", TENON_VECTORS " -march=armv8.2-a+dotprod",
            "defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)", "NEON with dot products"),
      armv8("armv8+i8mm", TENON_VECTORS " -march=armv8.2-a+dotprod+i8mm",
            "defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)",
            "and products of 8-bit matrices"),
      armv8("armv8+bf16", TENON_VECTORS " -march=armv8.2-a+dotprod+i8mm+bf16",
            "defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)",
            "and bf16, whose conversions the compiler may use"),
      armv8("armv8+sve2", TENON_VECTORS " -march=armv8.5-a+dotprod+i8mm+bf16+sve2",
            "defined(__aarch64__) && defined(__ARM_FEATURE_SVE2)",
            "and SVE2, which the compiler may use"),
  };
  return kLevels;
}

} // namespace tenon::cpu
