// Defines what the families of warpgroup products with the copy engine as loader share, on sm_90a
// alone (contract_wgmma, contract_halo, contract_cluster): what they multiply, which operands the
// copy engine brings, and how weights are packed.
//
// Tensor maps want addresses that are multiples of 16 bytes. What cannot be shown to lie so (the
// caller's memory, odd channel counts) is left to the tactics of sm_80.
#pragma once

#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Contraction.h"

namespace tenon::cuda {

/// What is multiplied.
struct WarpgroupKind {
  llvm::StringRef precision;   // what multipliedAs() says
  int64_t bytes;               // of an element
  llvm::StringRef stored = {}; // how constants are (ir/ops/constant.cpp)
  int64_t storedParts = 1;
  Multiplicand multiplicand = Multiplicand::Float;

  llvm::StringRef weights() const { return storedParts == 2 ? "packed_parts" : "packed_weights"; }
};
/// fp16 and bf16; bytes with exact 32-bit sums; f8e4m3; f32 rounded to tf32, or in two parts.
constexpr WarpgroupKind kHalves = {"", 2}, kBytes = {"", 1, {}, 1, Multiplicand::Byte},
                        kFloat8 = {"", 1, {}, 1, Multiplicand::Float8}, kTf32 = {"tf32", 4, "tf32"},
                        kTf32x3 = {"tf32x3", 4, "tf32x3", 2};

struct WarpgroupProblem {
  GroupQuery in;
  Contraction c;
  WarpgroupKind kind;
  /// Elements of a tile along K: a row of it is 32, 64 or 128 bytes of one tap's channels; groups
  /// share none.
  int64_t tileK;
  /// Whether B lies K-major, as it is packed; else its columns are contiguous.
  bool kMajorB;

  /// Steps along K.
  int64_t steps() const;
  /// Output tiles of m x n over all slices.
  int64_t tiles(int64_t m, int64_t n) const;
  /// Microseconds that moving all operands and results takes.
  double moving() const;
  /// What a step costs as a factor of one of 128 bytes: shorter steps save copying, not waiting.
  double shorter() const { return 0.5 + double(tileK * kind.bytes) / 256; }
};

/// The rest of a launch in a graph of such kernels, in microseconds.
constexpr double kWarpgroupLaunch = 1.0;

bool isForWarpgroups(const WarpgroupKind &kind, const GroupQuery &in);
Result<WarpgroupProblem> readWarpgroups(const WarpgroupKind &kind, const GroupQuery &in);

/// Microseconds on the scale on which contractions are ranked (kContractionScale). gemv's estimates
/// are not on it: a row or two must be faster by the clock. Nor are those of f32's other tactics.
double rankOf(const WarpgroupProblem &p, double microseconds);

/// K-major: conv [filters][taps][channels], matmul [n][k], rows rounded up to 16 bytes.
void packForWarpgroups(const WarpgroupProblem &p, llvm::SmallVectorImpl<Packing> &out);

} // namespace tenon::cuda
