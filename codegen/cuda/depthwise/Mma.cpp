// Defines the tactic `depthwise_mma_sm80`: depthwise convolutions of fp16 and bf16 with wide
// windows on Tensor Cores, from sm_80 on (runtime/cuda/depthwise/mma.cuh).
#include "codegen/cuda/depthwise/Problem.h"

#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/TileCosts.h"
#include "codegen/memory/Alignment.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kTile = 16, kChannels = 32; // of a block

/// Narrower windows are not worth the way to channels outermost and back.
constexpr int64_t kLeastWidth = 5, kMostWidth = 9;

/// Pixels along one dimension that the windows of a tile cover within the image, on the average.
double covered(int64_t in, int64_t out, int64_t kernel, int64_t pad) {
  const int64_t tiles = ceilDiv(out, kTile);
  int64_t sum = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t begin = std::max<int64_t>(t * kTile - pad, 0),
                  end = std::min<int64_t>(t * kTile - pad + kTile + kernel - 1, in);
    sum += std::max<int64_t>(end - begin, 0);
  }
  return double(sum) / double(std::max<int64_t>(tiles, 1));
}

struct DepthwiseMma : PricedBy<kDepthwiseCosts> {
  static constexpr llvm::StringRef id = "depthwise_mma_sm80",
                                   summary = "fp16 and bf16 depthwise convolution of wide windows "
                                             "on Tensor Cores";
  using Problem = DepthwiseProblem;
  using Schedule = NoSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    const Operation *anchor = in.form.anchor;
    if (!anchor || !anchor->is(Op::Conv) || !isMachineOf(kMmaSm80, in.level))
      return false;
    const auto p = convProblem(*anchor);
    const Element x = anchor->operand(0)->type().element();
    return p && p->isDepthwise() && p->kernelW >= kLeastWidth && p->kernelW <= kMostWidth &&
           (x == Element::F16 || x == Element::BF16);
  }

  static Result<Problem> match(const GroupQuery &in) {
    if (auto machine = isFor(kMmaSm80, in.level); !machine)
      return std::move(machine).refusal();
    auto depthwise = readDepthwise(in);
    if (!depthwise)
      return depthwise;
    const GroupForm &f = in.form;
    const ScalarProgram &image = f.anchorInputs[0];
    const ConvProblem &p = depthwise->conv;
    const Element x = f.anchor->operand(0)->type().element(),
                  w = f.anchor->operand(1)->type().element();
    if ((x != Element::F16 && x != Element::BF16) || w != x || !image.isPlainRead())
      return Refusal{"operands that are not both fp16 or both bf16 as they are stored", ""};
    if (p.filters != 1 || p.strideH != 1 || p.strideW != 1 || p.dilationH != 1 ||
        p.dilationW != 1 || p.kernelW < kLeastWidth || p.kernelW > kMostWidth ||
        p.kernelH > kMostWidth)
      return Refusal{"windows that are not 5 to 9 columns of neighbours at stride 1", ""};
    const Strides s = stridesOf(image.inputs[0], unsigned(image.space.size()));
    bool whole = p.groups % 8 == 0 && s.strides[1].isConstant(1);
    for (unsigned d = 0; d < s.strides.size(); ++d)
      whole &= d == 1 || (s.strides[d].isConstant() && s.strides[d].constant() % 8 == 0);
    if (!whole || !in.alignment ||
        !in.alignment->isKnown(f.group->operand(image.inputs[0].source->index()), s.offset, 16))
      return Refusal{"channels that are not runs of 8 at multiples of 16 bytes", ""};
    return depthwise;
  }

  static void candidates(const Problem &, std::vector<Schedule> &out) { out.push_back({}); }

  /// What a multiprocessor's blocks take one after the other, the more the more pixels they load;
  /// its first three wait for each other.
  static double microseconds(const Problem &problem, const Schedule &, const DepthwiseCosts &c) {
    const ConvProblem &p = problem.conv;
    const TargetLevel &level = problem.in.level;
    const double blocks = double(p.batch.upper()) *
                          double(ceilDiv(p.outHeight.upper(), kTile) *
                                 ceilDiv(p.outWidth.upper(), kTile) * ceilDiv(p.groups, kChannels));
    const double each = blocks / level.multiprocessors;
    const double loaded = covered(p.inHeight.upper(), p.outHeight.upper(), p.kernelH, p.padTop) *
                          covered(p.inWidth.upper(), p.outWidth.upper(), p.kernelW, p.padLeft) /
                          double((kTile + p.kernelH - 1) * 24);
    Effort e;
    e.bytes = double(workOf(*problem.in.form.group).bytes);
    e.launches = 0;
    // Other machines by what `depthwise` loses there; unmeasured.
    return std::max(slowdownOfCores(level) * (c.start + each * (c.block + c.loaded * loaded) +
                                              c.first * std::min(std::ceil(each), 3.0)),
                    1 + cuda::microseconds(level, e));
  }
  /// Taken where it is faster by more than the estimates err where it matters, at batch 8.
  static double rank(const Problem &p, const Schedule &s, const DepthwiseCosts &c) {
    return c.caution * microseconds(p, s, c);
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    out.push_back({p.in.form.anchorInputs[1].inputs[0].source->index(), Layout(), "pairs"});
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    out.include("cuda/depthwise/mma.cuh");
    emitDepthwise(p, {}, out, "depthwise_mma_sm80", [&](StepWriter::Config &cfg) {
      cfg.flag("whole_runs", areResultsAligned(p.in.form, out, [&](const Strides &strides) {
                 return inPlane(strides, p.conv);
               }));
    });
  }
};

} // namespace

const Tactic &kDepthwiseMmaSm80 = kTacticOf<DepthwiseMma>;

} // namespace tenon::cuda
