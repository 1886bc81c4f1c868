// Defines the tactic `contract_simt`: true fp32 convolutions and matrix products on CUDA cores
// (runtime/cuda/contract_simt/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/TileCosts.h"
#include "runtime/cuda/contract_simt/geometry.h"

namespace tenon::cuda {
namespace {

struct SimtSchedule : SplitTiles {
  static llvm::ArrayRef<Field<SimtSchedule>> fields() {
    static const Field<SimtSchedule> kFields[] = {
        {"tile_m", &SimtSchedule::tileM, oneOf(16, 32, 64, 128)},
        {"tile_n", &SimtSchedule::tileN, oneOf(16, 32, 48, 64, 96, 128)},
        {"tile_k", &SimtSchedule::tileK, oneOf(16, 32, 64)},
        {"thread_m", &SimtSchedule::partM, oneOf(2, 4, 8)},
        {"thread_n", &SimtSchedule::partN, oneOf(4, 8)},
        {"stages", &SimtSchedule::stages, between(2, 8)},
        {"splits", &SimtSchedule::splits, oneOf(1, 2, 4, 8, 16)},
        {"teams", &SimtSchedule::teams, oneOf(1, 2, 4)},
    };
    return kFields;
  }

  contract_simt_geometry geometry() const {
    return {tileM, tileN, tileK, partM, partN, stages, teams};
  }
};

/// Source: fitted to bench/gemm.cu on one H200 (CUDA 13.0, fp32; the products of four networks at
/// batch 1, of two at batch 8): rms error 3 to 11 % (16 % of the last two); what the estimates
/// choose is 4 % slower than the fastest.
constexpr TileRow kTiles[] = {
    // tile_m, tile_n, tile_k, thread_m, thread_n, stages
    {{128, 128, 16, 8, 8, 3}, 1, {1, 1.600, 0.642, 1.87, 1.83, 0.39}},
    {{128, 96, 32, 8, 8, 3}, 2, {1, 2.301, 0.166, 1.66, 1.59, 0.38}},
    {{64, 128, 16, 8, 8, 3}, 1, {5, 0.861, 0.774, 1.06, 1.53, 0.55}},
    {{128, 64, 16, 8, 8, 3}, 1, {5, 0.895, 0.789, 1.39, 1.70, 0.39}},
    {{64, 96, 32, 8, 8, 3}, 4, {1, 1.250, 1.001, 1.51, 1.32, 0.22}},
    {{64, 64, 32, 8, 8, 3}, 4, {1, 0.875, 0.492, 1.19, 1.31, 0.18}},
    {{64, 64, 32, 8, 4, 3}, 2, {3, 0.903, 0.687, 1.00, 1.84, 0.01}},
    {{64, 48, 32, 8, 4, 4}, 4, {1, 0.375, 0.739, 1.03, 0.87, 0.16}},
    {{32, 48, 64, 4, 4, 3}, 4, {1, 0.546, 0.759, 0.94, 0.51, 0.37}},
    {{32, 32, 64, 4, 4, 3}, 4, {3, 0.524, 0.389, 1.01, 1.17, 0.01}},
    {{64, 16, 16, 2, 4, 3}, 1, {3, 0.243, 0.175, 0.00, 1.01, 0.62}},
    {{16, 64, 32, 2, 4, 3}, 1, {3, 0.368, 0.276, 0.10, 1.61, 0.01}},
};

/// What copying A element by element costs a step, where no runs of 16 bytes are neighbours along
/// K. Source: as of codegen/cuda/contract_mma/Tactic.cpp.
double singleElements(const Contraction &c) {
  return (c.isConv ? c.conv.channels : c.depth()) % 4 == 0 ? 1 : 2;
}

struct Simt : SplitContraction {
  static constexpr llvm::StringRef id = "contract_simt",
                                   summary = "fp32 convolution and matrix product on CUDA cores";
  using Schedule = SimtSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return readContraction(in, [&](const Contraction &c) -> Result<> {
      if (auto types = multipliesInF32(in, c); !types)
        return types;
      if (!packsIn(c, 16))
        return Refusal{
            "groups of " + std::to_string(c.conv.filters) + " filters, which no tile fits", ""};
      return Accepted{};
    });
  }

  static Result<> fits(const Problem &p, const Schedule &s) {
    return isPackedBy<Simt>(p.c, s).andThen(
        [&] { return hasRoom<Simt>(p, s, s.geometry().shared_bytes()); });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const TileRow &row : kTiles)
      for (int64_t splits : splitsFor(p.c, p.in.level, row.shape))
        if (const Schedule s{row.tiles(splits)}; fits(p, s))
          out.push_back(s);
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    return hasTilesOf<Simt>(kTiles, s).andThen([&] { return fits(p, s); });
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const TileCosts &costs = rowOf(kTiles, s).costs;
    const double blocks = double(tileCount(p.c, s)) * double(s.splits),
                 each = costs.crowded(blocks / p.in.level.multiprocessors);
    const double time = stepsOf(p.c.depth(), s.tileK, s.splits) * costs.step(each) *
                            slowdownOfCores(p.in.level) * singleElements(p.c) +
                        costs.blocks(each) + costs.parts(s.splits);
    Effort e;
    e.bytes = double(workOf(*p.in.form.group).bytes);
    e.launches = 0;
    // Where estimates are as good as equal, what Tensor Cores multiply goes there.
    const double tie = bitWidth(p.c.b) <= 16 || !multipliedAs(p.in.form).empty() ? 1.2 : 1;
    // What is moved hides behind what is multiplied in part.
    return tie * (kTileLaunch + std::hypot(time, cuda::microseconds(p.in.level, e) + 0.3));
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packContractionTiles(p, s.tileN, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/contract_simt/kernel.cuh");
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), scratchOf(s.splits), out, "simt");
  }
};

} // namespace

const Tactic &kContractSimt = kTacticOf<Simt>;

} // namespace tenon::cuda
