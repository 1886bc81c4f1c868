// Defines targets: what a name such as cpu:x86-64-v4 or cuda:sm_80+sm_90a stands for.
#pragma once

#include "ir/Diagnostics.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace tenon {

struct TargetFamily; // codegen/core/TargetFamily.h

/// One machine level. Rows stand in the Levels.cpp of its family.
struct TargetLevel {
  llvm::StringRef name; // "x86-64-v4", "sm_90a", "cortex-m4"
  /// CUDA: which machine the figures are of, where those of one architecture differ ("orin-nx").
  /// The first row of a name is meant when none is given.
  llvm::StringRef device;
  const TargetFamily *family = nullptr;
  llvm::StringRef summary;
  /// CPU: f32 lanes of a vector register (1: plain ISO C++17 without vector extensions).
  unsigned simdWidth = 1;
  /// CPU: architectural vector registers.
  unsigned simdRegisters = 16;
  /// CPU: whether an instruction shifts each lane by a count of its own.
  bool variableShifts = false;
  /// CPU, aarch64: which products of bytes its machines have beside smull: sdot, smmla.
  bool dotProducts = false, matrixProducts = false;
  /// CUDA: 10 × compute capability (75, 80, 90 …); `a` variants run on that capability only.
  unsigned sm = 0;
  bool archSpecific = false;
  /// MCU: what the core has beyond 32-bit integers.
  bool fpu = false; // single precision, with fused multiply-add
  bool dsp = false; // pairs of 16-bit integers in a register (SMLAD)
  bool mve = false; // vectors of 16 bytes (Helium)
  /// Compiler and flags that the generated file's build command names.
  llvm::StringRef compiler = "c++";
  llvm::StringRef buildFlags;
  /// Condition of the preprocessor that holds where these flags were given; empty: not known.
  llvm::StringRef flagsGiven;

  /// As it stands behind the family in a target's name: "sm_87", and "sm_87@orin-nx" where it is
  /// not the first row.
  std::string spelling() const;
  /// With its family: "cuda:sm_87".
  std::string fullName() const;
  /// Whether what `compiler` builds runs on another machine than this one.
  bool isCross() const { return compiler != "c++"; }
  // Figures for the cost model, with their sources where the rows stand.
  double peakGflops = 0;   // f32, one core or one whole GPU
  double tensorTflops = 0; // f16 with f32 accumulation
  double bandwidthGBs = 0;
  double megahertz = 0; // MCU: clock that the figures are for; 0: unknown
  double launchMicroseconds = 0;
  /// CUDA: what a kernel adds to a run beyond its estimate, which is of a kernel alone.
  double neighbourMicroseconds = 0;
  unsigned multiprocessors = 0;
  unsigned sharedBytes = 0; // per block, opt-in maximum
};

struct Target {
  const TargetFamily *family = nullptr;
  /// One level, or one for each machine-code variant where the family joins levels.
  std::vector<const TargetLevel *> levels;
  bool ptx = false;
  /// Canonical name, `native` resolved: "cpu:x86-64-v4", "cuda:sm_80+sm_90a+ptx",
  /// "cuda:sm_87@orin-nx".
  std::string name;

  /// The level whose code also goes into the file as PTX: the newest that is not for one machine;
  /// null without ptx.
  const TargetLevel *ptxLevel() const;
  /// What the scheduled graph of one level says that it is for: a target of that level alone, such
  /// as "cuda:sm_80+ptx" for the level that PTX comes from.
  std::string variantName(size_t level) const;
};

/// The flags of a level's build command; for small code where `size` asks for it.
std::string buildFlags(const TargetLevel &level, bool size);
/// The name of the target that has variants of these names.
std::string joinVariantNames(llvm::ArrayRef<std::string> variants);

/// Every row, family by family.
std::vector<const TargetLevel *> allTargetLevels();
/// The CUDA level whose code runs best on a GPU of this capability (10 x: 86, 90 …): its own, else
/// the newest before it of the same major number; null when there is none.
const TargetLevel *cudaLevelOf(unsigned capability);
/// Parses a target name and resolves cpu:native; reports what exists when it is unknown. GPUs are
/// asked by the driver, which resolves cuda:native before.
llvm::Optional<Target> parseTarget(llvm::StringRef text, Diagnostics &diagnostics);

} // namespace tenon
