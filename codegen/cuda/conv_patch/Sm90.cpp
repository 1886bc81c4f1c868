// Defines the tactic `conv_patch_sm90a`: the first layer of a network on Tensor Cores by
// warpgroups, straight from a patch of the image (runtime/cuda/conv_patch/sm90.cuh).
#include "codegen/cuda/shared/WidePatch.h"

namespace tenon::cuda {
namespace {

/// Source: first layers of five networks (3x3, 4x4 and 7x7 taps; 32 to 96 filters) at batch 1, 8
/// and 64 on one H100, by `tenon tune` (docs/kernels.md): rms error 34 %.
constexpr WidePatchCosts kOfRows = {882.4, 882.4, 205.9, 529.4, 35.29,
                                    11.76, 352.9, 0.6,   0.13,  0.1};
/// To the scale of conv_patch_sm80, which these compete with.
constexpr double kScale = kContractionScale / kPatchShortfall;

struct PatchSm90 {
  static constexpr llvm::StringRef id = "conv_patch_sm90a",
                                   summary = "fp16 and bf16 convolution of few channels by "
                                             "warpgroups on Tensor Cores";
  using Problem = ContractionProblem;
  using Schedule = WidePatchSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return hasWgmma(in.level) && multipliedAs(in.form).empty();
  }

  static Result<Problem> match(const GroupQuery &in) {
    auto p = readFirstLayer(in);
    if (p && widePatchTilesOf(p->c.conv, nullptr, in.level).empty())
      return Refusal{"a window of another form than patches are read in", ""};
    return p;
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out = widePatchTilesOf(p.c.conv, nullptr, p.in.level);
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return isWidePatchLegal(p.c.conv, s, nullptr, p.in.level, printSchedule(id, s));
  }

  static double microseconds(const Problem &p, const Schedule &s) { return timeOfRows(p, s, 1, 1); }
  static double rank(const Problem &p, const Schedule &s) {
    return timeOfRows(p, s, kScale, kContractionScale);
  }

  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"multiprocessors", p.in.level.multiprocessors}};
  }
  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packPatchWeights(p.in.form, WidePatchTiles(s, nullptr).geometry(p.c.conv).patch, out);
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/conv_patch/sm90.cuh");
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), SplitScratch::None, out, "patch_sm90");
  }

private:
  static double timeOfRows(const Problem &p, const Schedule &s, double scale,
                           double scaleOfMoving) {
    const ConvProblem &conv = p.c.conv;
    const WidePatchTiles t(s, nullptr);
    const WidePatchCosts &costs = kOfRows;
    const double row =
        costs.row + costs.step * double(t.geometry(conv).steps()) + costs.column * double(t.n);
    return timeOfWidePatches(p.in, conv, t, costs, double(ceilDiv(t.h, t.consumers)) * row,
                             ceilDiv(conv.outHeight.upper(), t.h) *
                                 ceilDiv(conv.outWidth.upper(), kWidePatchW),
                             scale, scaleOfMoving);
  }
};

} // namespace

const Tactic &kConvPatchSm90a = kTacticOf<PatchSm90>;

} // namespace tenon::cuda
