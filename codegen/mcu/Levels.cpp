// Implements the microcontrollers that firmware sources are written for.
#include "codegen/core/Chips.h"
#include "codegen/mcu/Family.h"

namespace tenon::mcu {
namespace {

#define TENON_FREESTANDING "-O2 -fno-tree-vectorize -ffreestanding -fno-exceptions -fno-rtti"

TargetLevel core(llvm::StringRef name, double gflops, double bandwidth, llvm::StringRef summary) {
  TargetLevel t;
  t.name = name;
  t.family = &kFamily;
  t.summary = summary;
  t.buildFlags = TENON_FREESTANDING;
  t.peakGflops = gflops;
  t.bandwidthGBs = bandwidth;
  return t;
}

/// A Cortex-M core as GNU's compiler for bare ARM machines knows it.
TargetLevel cortexM(llvm::StringRef name, bool mve, double gflops, double bandwidth, double clock,
                    llvm::StringRef flags, llvm::StringRef summary) {
  TargetLevel t = core(name, gflops, bandwidth, summary);
  t.compiler = "arm-none-eabi-g++";
  t.buildFlags = flags;
  // On other machines the same bytes come of plain C++.
  t.flagsGiven = mve ? "(!defined(__arm__) || defined(__ARM_FEATURE_MVE))"
                     : "(!defined(__arm__) || defined(__ARM_FEATURE_DSP))";
  t.megahertz = clock;
  t.fpu = t.dsp = true;
  t.mve = mve;
  return t;
}

/// The core's row with what the chip has: estimates are cycles, so its clock makes times of them.
TargetLevel chipLevel(const Chip &chip, TargetLevel t) {
  const double faster = chip.megahertz / t.megahertz;
  t.device = chip.name;
  t.summary = chip.summary;
  t.megahertz = chip.megahertz;
  t.peakGflops *= faster;
  t.bandwidthGBs *= faster;
  return t;
}

} // namespace

// Figures: instructions of bench/firmware at 2 cycles each (M7: 1.3), not measured on silicon.
llvm::ArrayRef<TargetLevel> levels() {
  static const std::vector<TargetLevel> kLevels = [] {
    std::vector<TargetLevel> rows = {
        core("generic", 0.1, 0.2, "any 32-bit microcontroller: plain ISO C++17"),
        cortexM("cortex-m4", false, 0.11, 0.1, 120,
                TENON_FREESTANDING " -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard",
                "Cortex-M4F: DSP extension, single-precision FPU"),
        cortexM("cortex-m7", false, 0.6, 0.8, 400,
                TENON_FREESTANDING " -mcpu=cortex-m7 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
                "Cortex-M7: DSP extension, single-precision FPU"),
        cortexM("cortex-m33", false, 0.16, 0.15, 160,
                TENON_FREESTANDING " -mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
                "Cortex-M33: DSP extension, single-precision FPU"),
        cortexM("cortex-m55", true, 0.6, 0.8, 400,
                TENON_FREESTANDING " -mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
                "Cortex-M55: Helium (MVE), DSP extension, FPU"),
    };
    const size_t cores = rows.size();
    for (const Chip &chip : chips())
      for (size_t i = 0; i < cores; ++i)
        if (rows[i].name == chip.core)
          rows.push_back(chipLevel(chip, rows[i]));
    return rows;
  }();
  return kLevels;
}

} // namespace tenon::mcu
