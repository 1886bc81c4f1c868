// Defines the tactics `contract_mma_sm75` and `contract_mma_sm80`: convolutions and matrix products
// with fp32 accumulation on Tensor Cores (runtime/cuda/contract_mma/kernel.cuh), for tensors that
// are stored in 16 bits: fp16, and bf16 from sm_80 on. And `contract_int8_sm75` and
// `contract_int8_sm80`: the same of bytes with exact 32-bit sums
// (runtime/cuda/contract_mma/int8.cuh). Each generation serves the machines up to the next. And
// `contract_fp8_sm89`: the same of f8e4m3 with fp32 sums (runtime/cuda/contract_mma/fp8.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/contract_mma/Costs.h"

#include "llvm/Support/ErrorHandling.h"

#include <array>

namespace tenon::cuda {
namespace {

/// Tiles, along K in elements of 16 bits. The first is for products that fill the machine.
constexpr TileRow kOfHalves[] = {
    {{128, 256, 32, 64, 64, 4}, 1, 1}, {{256, 64, 32, 64, 64, 4}, 1, 2},
    {{128, 128, 32, 64, 32, 3}, 1, 1}, {{128, 128, 64, 64, 64, 3}, 2, 1},
    {{64, 128, 64, 64, 64, 3}, 2, 2},  {{128, 64, 32, 32, 32, 3}, 1, 2},
    {{64, 64, 64, 64, 64, 4}, 4, 2},   {{64, 64, 64, 32, 32, 4}, 2, 2},
    {{64, 64, 32, 32, 32, 4}, 1, 4},   {{64, 32, 64, 32, 16, 3}, 1, 6},
    {{32, 64, 128, 32, 32, 3}, 2, 3},  {{32, 64, 64, 16, 32, 3}, 1, 5},
    {{64, 16, 64, 16, 16, 3}, 1, 7},
};
/// An instruction takes as long for 32 bytes along K as for 16 elements of 16 bits.
constexpr auto kOfBytes = [] {
  std::array<TileRow, std::size(kOfHalves)> rows{};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = kOfHalves[i];
    rows[i].shape.tileK *= 2;
  }
  return rows;
}();
/// Estimates of other tactics, and those of wgmma by kContractionScale, compare with measurements
/// in whole networks, where these kernels lose more than by the clock.
constexpr double kScale = 0.85;

/// f8e4m3 on sm_90, which has no such instruction for a warp: ptxas widens the operands and
/// multiplies twice as many steps of fp16.
constexpr double kWidened = 2;

struct Generation {
  llvm::StringRef id, summary;
  llvm::StringRef kernel; // conv_<kernel>, matmul_<kernel>
  llvm::StringRef header;
  MmaGeneration machines;
  int64_t stages; // at most
  Multiplicand of = Multiplicand::Float;

  /// Whether elements have 8 bits: weights lie as rows along K, for ldmatrix transposes 16-bit
  /// elements only.
  bool isNarrow() const { return of != Multiplicand::Float; }
  llvm::ArrayRef<TileRow> rows() const {
    return isNarrow() ? llvm::ArrayRef<TileRow>(kOfBytes.data(), kOfBytes.size())
                      : llvm::ArrayRef<TileRow>(kOfHalves);
  }
};
constexpr Generation kSm75 = {"contract_mma_sm75",
                              "fp16 contraction on the Tensor Cores of sm_75",
                              "mma_sm75",
                              "cuda/contract_mma/sm75.cuh",
                              kMmaSm75,
                              2};
constexpr Generation kSm80 = {"contract_mma_sm80",
                              "fp16 and bf16 contraction on Tensor Cores",
                              "mma_sm80",
                              "cuda/contract_mma/sm80.cuh",
                              kMmaSm80,
                              4};
constexpr Generation kBytesSm75 = {
    "contract_int8_sm75",
    "contraction of bytes on the Tensor Cores of sm_75, exact 32-bit sums",
    "int8_sm75",
    "cuda/contract_mma/int8.cuh",
    kMmaSm75,
    2,
    Multiplicand::Byte};
constexpr Generation kBytesSm80 = {"contract_int8_sm80",
                                   "contraction of bytes on Tensor Cores, exact 32-bit sums",
                                   "int8_sm80",
                                   "cuda/contract_mma/int8.cuh",
                                   kMmaSm80,
                                   4,
                                   Multiplicand::Byte};
constexpr Generation kFloat8Sm89 = {"contract_fp8_sm89",
                                    "contraction of f8e4m3 on Tensor Cores, fp32 sums",
                                    "fp8_sm89",
                                    "cuda/contract_mma/fp8.cuh",
                                    kMmaSm89,
                                    4,
                                    Multiplicand::Float8};

/// What copying A element by element costs a step, where no runs of 16 bytes are neighbours along
/// K. Words of four bytes are copied as such, others take twice as long as elements of 16 bits.
double singleElements(const Contraction &c, bool narrow, const MmaCosts &costs) {
  if (c.isConv && c.conv.isDepthwise())
    return (narrow ? 2 : 1) * costs.singleDepthwise;
  const int64_t neighbours = c.neighbours();
  if (narrow)
    return neighbours % 16 == 0 ? 1 : (neighbours % 4 == 0 ? 1 : 2) * costs.single;
  return neighbours % 8 == 0 ? 1 : costs.single;
}

template <const Generation &G> struct Mma : SplitContraction, PricedBy<kMmaCosts> {
  static constexpr llvm::StringRef id = G.id, summary = G.summary;
  using Schedule = MmaSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return isMachineOf(G.machines, in.level) && multipliedAs(in.form).empty() &&
           multiplicandOf(in.form) == G.of;
  }

  static Result<Problem> match(const GroupQuery &in) {
    return readContraction(in, [&](const Contraction &c) -> Result<> {
      switch (G.of) {
      case Multiplicand::Float: return multipliesOn(G.machines, in, c);
      case Multiplicand::Byte: return multipliesBytesOn(G.machines, in, c);
      case Multiplicand::Float8:
        return isFor(G.machines, in.level).andThen([&] { return multipliesFloat8(in, c); });
      }
      llvm_unreachable("all multiplicands are above");
    });
  }

  static bool hasRows(const Problem &p) { return G.isNarrow() || packsInRows(p.c); }

  static Result<> fits(const Problem &p, const Schedule &s) {
    const Result<> packs = hasRows(p) ? Result<>(Accepted{}) : isPackedBy<Mma>(p.c, s);
    return packs.andThen(
        [&] { return hasRoom<Mma>(p, s, s.sharedBytes(p.c, G.isNarrow() ? 1 : 2)); });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const TileRow &row : G.rows()) {
      Schedule s{row.tiles(1)};
      s.stages = std::min(s.stages, G.stages);
      if (!fits(p, s) || (s.partM * s.partN > 2048 && G.stages == 2))
        continue;
      for (int64_t splits : splitsFor(p.c, p.in.level, s)) {
        s.splits = splits;
        out.push_back(s);
      }
    }
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    return hasTilesOf<Mma>(G.rows(), s).andThen([&] { return fits(p, s); });
  }

  static double microseconds(const Problem &p, const Schedule &s, const MmaCosts &c) {
    const TilePrice tile = priceOf(G.rows(), c.halves, s);
    const double each =
        std::ceil(double(tileCount(p.c, s)) * double(s.splits) / p.in.level.multiprocessors);
    const double time = stepsOf(p.c.depth(), s.tileK, s.splits) * tile.step(each) *
                            std::max(1.0, slowdownOfMma(p.in.level)) *
                            singleElements(p.c, G.isNarrow(), c) *
                            (G.of == Multiplicand::Float8 && p.in.level.sm == 90 ? kWidened : 1) +
                        tile.blocks(each, G.of == Multiplicand::Byte ? c.rescaling : 1) +
                        tile.costs.parts(s.splits);
    Effort e;
    e.bytes = p.bytes;
    e.launches = 0;
    // What is moved hides behind what is multiplied in part.
    return kTileLaunch + std::hypot(time, cuda::microseconds(p.in.level, e) + c.moving);
  }
  static double rank(const Problem &p, const Schedule &s, const MmaCosts &c) {
    return kScale * microseconds(p, s, c);
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    hasRows(p) ? packRows(p.in.form, p.c, {/*columnsFirst=*/p.c.isConv}, out)
               : packContractionTiles(p, s.tileN, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include(G.header);
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), scratchOf(s.splits), out, G.kernel,
                    hasRows(p) ? "k_major_weights" : "packed_weights");
  }
};

} // namespace

const Tactic &kContractMmaSm75 = kTacticOf<Mma<kSm75>>;
const Tactic &kContractMmaSm80 = kTacticOf<Mma<kSm80>>;
const Tactic &kContractInt8Sm75 = kTacticOf<Mma<kBytesSm75>>;
const Tactic &kContractInt8Sm80 = kTacticOf<Mma<kBytesSm80>>;
const Tactic &kContractFloat8Sm89 = kTacticOf<Mma<kFloat8Sm89>>;

} // namespace tenon::cuda
