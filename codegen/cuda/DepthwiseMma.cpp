// Defines the tactic `depthwise_mma_sm80`: depthwise convolutions of fp16 and bf16 with wide
// windows on Tensor Cores, from sm_80 on (runtime/cuda/depthwise_mma_sm80.cuh).
#include "codegen/cuda/Depthwise.h"

#include "codegen/Alignment.h"
#include "codegen/Work.h"
#include "codegen/cuda/Tactics.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kTile = 16, kChannels = 32; // of a block

/// Narrower windows are not worth the way to channels outermost and back.
constexpr int64_t kLeastWidth = 5, kMostWidth = 9;

bool usesTensorCores(const TacticInput &in) {
  std::string why;
  const Operation *anchor = in.form.anchor;
  if (!anchor || !anchor->is(Op::Conv) || in.level.sm < kMmaSm80.firstSm)
    return false;
  const auto p = convProblem(*anchor, why);
  const Element x = anchor->operand(0)->type().element();
  return p && p->isDepthwise() && p->kernelW >= kLeastWidth && p->kernelW <= kMostWidth &&
         (x == Element::F16 || x == Element::BF16);
}

bool match(const TacticInput &in, std::string &why) {
  if (in.level.sm < kMmaSm80.firstSm) {
    why = "written for other machines than " + in.level.name.str();
    return false;
  }
  if (!matchDepthwise(in, why))
    return false;
  const GroupForm &f = in.form;
  const ScalarProgram &image = f.anchorInputs[0];
  const ConvProblem p = *convProblem(*f.anchor, why);
  const Element x = f.anchor->operand(0)->type().element(),
                w = f.anchor->operand(1)->type().element();
  if ((x != Element::F16 && x != Element::BF16) || w != x || !image.isPlainRead()) {
    why = "operands that are not both fp16 or both bf16 as they are stored";
    return false;
  }
  if (p.filters != 1 || p.strideH != 1 || p.strideW != 1 || p.dilationH != 1 || p.dilationW != 1 ||
      p.kernelW < kLeastWidth || p.kernelW > kMostWidth || p.kernelH > kMostWidth) {
    why = "windows that are not 5 to 9 columns of neighbours at stride 1";
    return false;
  }
  const Strides s = stridesOf(image.inputs[0], unsigned(image.space.size()));
  bool whole = p.groups % 8 == 0 && s.strides[1].isConstant(1);
  for (unsigned d = 0; d < s.strides.size(); ++d)
    whole &= d == 1 || (s.strides[d].isConstant() && s.strides[d].constant() % 8 == 0);
  if (!whole || !in.alignment ||
      !in.alignment->isKnown(f.group->operand(image.inputs[0].source->index()), s.offset, 16)) {
    why = "channels that are not runs of 8 at multiples of 16 bytes";
    return false;
  }
  return true;
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"depthwise_mma_sm80", {}});
}

/// Pixels along one dimension that the windows of a tile cover within the image, on the average.
double covered(int64_t in, int64_t out, int64_t kernel, int64_t pad) {
  const auto tiles = int64_t(llvm::divideCeil(out, kTile));
  int64_t sum = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t begin = std::max<int64_t>(t * kTile - pad, 0),
                  end = std::min<int64_t>(t * kTile - pad + kTile + kernel - 1, in);
    sum += std::max<int64_t>(end - begin, 0);
  }
  return double(sum) / double(std::max<int64_t>(tiles, 1));
}

/// In microseconds by the clock: what a multiprocessor's blocks take one after the other, the more
/// the more pixels they load; its first three wait for each other. Source: the 30 layers of
/// bench/depthwise_h100.csv: rms error 20 %.
double clock(const TacticInput &in, const Schedule &) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  const double blocks =
      double(p.batch.upper()) *
      double(llvm::divideCeil(p.outHeight.upper(), kTile) *
             llvm::divideCeil(p.outWidth.upper(), kTile) * llvm::divideCeil(p.groups, kChannels));
  const double each = blocks / in.level.multiprocessors;
  const double loaded = covered(p.inHeight.upper(), p.outHeight.upper(), p.kernelH, p.padTop) *
                        covered(p.inWidth.upper(), p.outWidth.upper(), p.kernelW, p.padLeft) /
                        double((kTile + p.kernelH - 1) * 24);
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = 0;
  // Other machines by what `depthwise` loses there; unmeasured.
  constexpr double kMeasured = 51e3 / 132; // GFLOP/s of a multiprocessor
  const double slowdown =
      std::max(1.0, kMeasured / (in.level.peakGflops / in.level.multiprocessors));
  return std::max(slowdown * (3 + each * (0.4 + 3.6 * loaded) + 2 * std::min(std::ceil(each), 3.0)),
                  1 + microseconds(in.level, e));
}
/// Taken where it is faster by more than the estimates err where it matters, at batch 8.
double cost(const TacticInput &in, const Schedule &s) { return 1.15 * clock(in, s); }

void pack(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  out.push_back({in.form.anchorInputs[1].inputs[0].source->index(), Layout(), "pairs"});
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  emitDepthwise(in, s, out, "depthwise_mma_sm80", [&](StepWriter::Config &cfg) {
    std::string why;
    const ConvProblem p = *convProblem(*in.form.anchor, why);
    cfg.flag("whole_runs", areResultsAligned(in.form, out, [&](const Strides &strides) {
               return inPlane(strides, p);
             }));
  });
}

} // namespace

const Tactic kDepthwiseMmaSm80 = {"depthwise_mma_sm80",
                                  "fp16 and bf16 depthwise convolution of wide windows on Tensor "
                                  "Cores",
                                  match,
                                  enumerate,
                                  cost,
                                  pack,
                                  nullptr,
                                  emit,
                                  nullptr,
                                  usesTensorCores,
                                  false,
                                  false,
                                  clock};

} // namespace tenon::cuda
