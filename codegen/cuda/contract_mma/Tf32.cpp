// Defines the tactics `contract_tf32_sm80` and `contract_tf32x3_sm80`: convolutions and matrix
// products of f32 on Tensor Cores, for contractions that say so (`precision`), by one product in
// tf32 or by three that are as exact as fp32 (runtime/cuda/contract_mma/tf32.cuh). From sm_80 on.
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/contract_mma/Costs.h"

namespace tenon::cuda {
namespace {

/// What they cost was fitted to the times of these schedules on one H200 (CUDA 13.0; medians in a
/// graph of 20 launches with early starts; 14 layers of ResNet-50, ConvNeXt, DenseNet and a UNet at
/// batch 1 and 8), which were not kept: rms error 3 to 23 %; what the estimates choose was 2 %
/// (tf32x3) and 4 % (tf32) slower than the fastest.
constexpr TileRow kTf32[] = {
    {{128, 64, 32, 64, 32, 3}, 1, 2}, {{64, 64, 32, 32, 32, 4}, 1, 3},
    {{64, 64, 32, 16, 32, 4}, 1, 2},  {{64, 32, 32, 16, 32, 4}, 1, 4},
    {{32, 64, 32, 16, 32, 4}, 1, 4},  {{32, 32, 32, 16, 16, 4}, 1, 6},
    {{16, 64, 64, 16, 16, 3}, 1, 3},
};
constexpr TileRow kTf32x3[] = {
    {{128, 64, 32, 64, 32, 3}, 1, 2}, {{64, 64, 32, 32, 32, 4}, 1, 2},
    {{64, 64, 32, 16, 32, 4}, 1, 1},  {{64, 32, 32, 16, 32, 4}, 1, 3},
    {{32, 64, 32, 16, 32, 4}, 1, 2},  {{32, 32, 32, 16, 16, 4}, 1, 4},
    {{16, 64, 64, 16, 16, 3}, 1, 2},
};

struct Kind {
  llvm::StringRef id, summary;
  llvm::StringRef kernel;    // conv_<kernel>, matmul_<kernel>
  llvm::StringRef precision; // what multipliedAs() says
  llvm::ArrayRef<TileRow> rows;
  const TileCosts *(*costs)(const MmaCosts &);
};
constexpr Kind kOne = {"contract_tf32_sm80",
                       "f32 contraction in tf32 on Tensor Cores",
                       "tf32_sm80",
                       "tf32",
                       kTf32,
                       [](const MmaCosts &c) { return c.tf32; }};
constexpr Kind kThree = {"contract_tf32x3_sm80",
                         "f32 contraction by three products in tf32, as exact as fp32",
                         "tf32x3_sm80",
                         "tf32x3",
                         kTf32x3,
                         [](const MmaCosts &c) { return c.tf32x3; }};

template <const Kind &K> struct Tf32 : SplitContraction, PricedBy<kMmaCosts> {
  static constexpr llvm::StringRef id = K.id, summary = K.summary;
  using Schedule = MmaSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return isMachineOf(kMmaSm80, in.level) && multipliedAs(in.form) == K.precision;
  }

  static Result<Problem> match(const GroupQuery &in) {
    if (multipliedAs(in.form) != K.precision)
      return Refusal{"a contraction that is not to multiply in " + K.precision.str(), ""};
    if (auto machine = isFor(kMmaSm80, in.level); !machine)
      return std::move(machine).refusal();
    return readContraction(in, [](const Contraction &c) -> Result<> {
      if (c.b != Element::F32 || !loadsIntoF32(c) || (c.a != Element::F32 && !c.hasPrologue))
        return Refusal{
            "an operand that is stored as " + name(c.b != Element::F32 ? c.b : c.a).str(), ""};
      return Accepted{};
    });
  }

  static Result<> fits(const Problem &p, const Schedule &s) {
    return hasRoom<Tf32>(p, s, s.sharedBytes(p.c, 4));
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const TileRow &row : K.rows)
      for (int64_t splits : splitsFor(p.c, p.in.level, row.shape))
        if (const Schedule s{row.tiles(splits)}; splits <= 8 && bool(fits(p, s)))
          out.push_back(s);
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    return hasTilesOf<Tf32>(K.rows, s).andThen([&] { return fits(p, s); });
  }

  static double microseconds(const Problem &p, const Schedule &s, const MmaCosts &c) {
    const TilePrice tile = priceOf(K.rows, K.costs(c), s);
    const double blocks = double(tileCount(p.c, s)) * double(s.splits),
                 each = std::ceil(blocks / p.in.level.multiprocessors);
    // What lies in no runs of 16 bytes along K is copied word by word.
    const double step =
        tile.step(each) * (slowdownOfMma(p.in.level) * (p.c.neighbours() % 4 == 0 ? 1 : 1.5));
    const double time = stepsOf(p.c.depth(), s.tileK, s.splits) * step + tile.blocks(each) +
                        tile.costs.parts(s.splits);
    Effort e;
    e.bytes = p.bytes;
    e.blocks = blocks;
    e.launches = 0;
    return kTileLaunch + std::max(time, cuda::microseconds(p.in.level, e));
  }

  /// Rows along K: of 4-byte elements ldmatrix takes no others.
  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packRows(p.in.form, p.c, {/*columnsFirst=*/p.c.isConv}, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/contract_mma/tf32.cuh");
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), scratchOf(s.splits), out, K.kernel,
                    "k_major_weights");
  }
};

} // namespace

const Tactic &kContractTf32Sm80 = kTacticOf<Tf32<kOne>>;
const Tactic &kContractTf32x3Sm80 = kTacticOf<Tf32<kThree>>;

} // namespace tenon::cuda
