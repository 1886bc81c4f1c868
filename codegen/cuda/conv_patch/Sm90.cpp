// Defines the tactics `conv_patch_sm90a` and `conv_pool_sm90a`: the first layer of a network on
// Tensor Cores by warpgroups, straight from a patch of the image
// (runtime/cuda/conv_patch/sm90.cuh); and the largest elements of windows of what it makes in the
// same kernel (runtime/cuda/conv_pool/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/ConvPatch.h"
#include "runtime/cuda/warpgroup/geometry.h"

#include "codegen/core/Work.h"
#include "codegen/emit/CppText.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kTileW = warpgroup_patch_geometry::tile_w,
                  kFilling = warpgroup_patch_geometry::filling; // threads that fill patches
constexpr int64_t kMostSteps = 32;                              // of K, all unrolled
/// Nanoseconds.
struct RowCosts {
  double start;         // until the weights are there
  double loads;         // of some rows of the patch that are under way together
  double cell;          // each cell of them
  double row;           // of outputs
  double step;          // of K, in a row
  double column;        // each filter of what is stored
  double tile;          // the rest of it
  double alone, beside; // of a warpgroup by itself, and each of those that get in each other's way
};
struct PatchCosts {
  RowCosts rows, windows; // of results, and of largest elements of them
  /// What is not hidden of the lesser of computing and moving, as a part of it.
  double exposed;

  static constexpr llvm::StringLiteral family = "conv_patch";
};
constexpr PatchCosts kCosts = {
#include "codegen/cuda/conv_patch/costs.inc"
};
/// To the scale of conv_patch_sm80, which these compete with.
constexpr double kScale = kContractionScale / kPatchShortfall;

struct WidePatchSchedule {
  int64_t h; // rows of outputs, or of windows of them
  int64_t n, consumers;

  static llvm::ArrayRef<Field<WidePatchSchedule>> fields() {
    static const Field<WidePatchSchedule> kFields[] = {
        {"tile_h", &WidePatchSchedule::h, between(1, 16)},
        {"tile_n", &WidePatchSchedule::n, oneOf(32, 64, 96, 128)},
        {"consumers", &WidePatchSchedule::consumers, between(1, 3)},
    };
    return kFields;
  }
};

/// A schedule's tiles. `rows`: of outputs; `ownBytes`: of shared memory, beside the patches.
struct Tiles : WidePatchSchedule {
  int64_t rows, ownBytes = 0;

  /// `pool`: the windows of the results, or null.
  Tiles(const WidePatchSchedule &s, const ConvProblem *pool) : WidePatchSchedule(s), rows(h) {
    if (!pool)
      return;
    rows = h * pool->strideH + pool->kernelH - pool->strideH;
    ownBytes = consumers * kTileW * 2 * (n + 8);
  }

  warpgroup_patch_geometry geometry(const ConvProblem &p) const {
    return {patchOf(p, rows, kTileW, 1), n, consumers, ownBytes};
  }
};

/// Whether threads that fill have a column of the patch at least, and wgmma reads it.
bool isReadable(const ConvProblem &p, const Tiles &t) {
  const warpgroup_patch_geometry shape = t.geometry(p);
  return shape.patch.cells() <= kFilling && shape.runs_ascend();
}

/// `pool`: the windows of the results, or null.
std::vector<WidePatchSchedule> tilesOf(const ConvProblem &p, const ConvProblem *pool,
                                       const TargetLevel &level) {
  constexpr int64_t kRows[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 2}, {6, 3}, {9, 3}};
  const int64_t filters = int64_t(llvm::alignTo(uint64_t(p.filters), 32)),
                height = (pool ? pool : &p)->outHeight.upper();
  std::vector<WidePatchSchedule> all;
  for (auto [h, consumers] : kRows) {
    const Tiles t({h, filters <= 128 ? filters : 64, consumers}, pool);
    if ((h == 1 || h < 2 * height) && isReadable(p, t) &&
        t.geometry(p).shared_bytes() <= int64_t(level.sharedBytes))
      all.push_back(t);
  }
  return all;
}

/// What the tactics of both kinds of tiles say of a schedule.
template <class T>
Result<> isLegal(const ConvProblem &p, const WidePatchSchedule &s, const ConvProblem *pool,
                 const TargetLevel &level) {
  if (pool && s.h % s.consumers != 0)
    return impossible<T>(s, "tile_h is no multiple of consumers, which take as many rows each");
  const Tiles t(s, pool);
  if (!isReadable(p, t))
    return impossible<T>(s, "a window of another form than patches are read in");
  return fitsShared(level, printSchedule(T::id, s), t.geometry(p).shared_bytes());
}

/// What the shape of a convolution has to be.
Result<> isFirstLayer(const ConvProblem &p) {
  if (p.isVolume() || p.taps() == 1)
    return Refusal{"no convolution in two dimensions with a window", ""};
  if (p.groups > 1 || p.channels > kMostPatchChannels)
    return Refusal{p.groups > 1 ? "several groups" : std::to_string(p.channels) + " channels", ""};
  if (Tiles({1, 32, 1}, nullptr).geometry(p).steps() > kMostSteps)
    return Refusal{"a window of another form than patches are read in", ""};
  return Accepted{};
}

/// The convolution, whatever becomes of its results.
Result<ContractionProblem> readFirstLayer(const GroupQuery &in) {
  if (!hasWgmma(in.level))
    return Refusal{"wgmma exists on sm_90a only", ""};
  return readContraction(in, [&](const Contraction &c) -> Result<> {
    if (!c.isConv)
      return Refusal{"no convolution in two dimensions with a window", ""};
    return isFirstLayer(c.conv).andThen([&]() -> Result<> {
      if (!isFloat(in.form.anchor->operand(0)->type().element()))
        return Refusal{"bytes", ""};
      return multipliesOn(kMmaSm80, in, c);
    });
  });
}

/// Rounds of persistent blocks: in each the next tile's patch is filled while one is multiplied and
/// stored. `consume`: cycles of a warpgroup for its part of a tile; `tiles`: of an image.
/// scale: of what multiplies and stores; scaleOfMoving: of what memory takes.
double timeOf(const GroupQuery &in, const ConvProblem &p, const Tiles &t, const RowCosts &costs,
              double exposed, double consume, int64_t tiles, double scale, double scaleOfMoving) {
  const patch_geometry patch = t.geometry(p).patch;
  const int64_t columns = ceilDiv(p.filters, t.n),
                blocks = std::max<int64_t>(in.level.multiprocessors / columns, 1);
  const int64_t rows = ceilDiv(patch.rows(), kFilling / patch.cells()); // of a thread that fills
  const double fill = double(ceilDiv(rows, 6)) * costs.loads + double(rows) * costs.cell;
  const double consuming = consume * (costs.alone + double(t.consumers) * costs.beside);
  const double time = (costs.start + fill +
                       double(ceilDiv(p.batch.upper() * tiles, blocks)) *
                           (std::max(consuming, fill) + costs.tile)) /
                      1000;
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = 0;
  // The lesser of the two is not hidden altogether.
  const double computing = scale * time, moving = scaleOfMoving * microseconds(in.level, e);
  return in.level.launchMicroseconds + std::max(computing, moving) +
         exposed * std::min(computing, moving);
}

struct PatchSm90 : PricedBy<kCosts> {
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
    if (p && tilesOf(p->c.conv, nullptr, in.level).empty())
      return Refusal{"a window of another form than patches are read in", ""};
    return p;
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out = tilesOf(p.c.conv, nullptr, p.in.level);
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return isLegal<PatchSm90>(p.c.conv, s, nullptr, p.in.level);
  }

  static double microseconds(const Problem &p, const Schedule &s, const PatchCosts &c) {
    return timeOfRows(p, s, c, 1, 1);
  }
  static double rank(const Problem &p, const Schedule &s, const PatchCosts &c) {
    return timeOfRows(p, s, c, kScale, kContractionScale);
  }

  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"multiprocessors", p.in.level.multiprocessors}};
  }
  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packPatchWeights(p.in.form, Tiles(s, nullptr).geometry(p.c.conv).patch, out);
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/conv_patch/sm90.cuh");
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), SplitScratch::None, out, "patch_sm90");
  }

private:
  static double timeOfRows(const Problem &p, const Schedule &s, const PatchCosts &c, double scale,
                           double scaleOfMoving) {
    const ConvProblem &conv = p.c.conv;
    const Tiles t(s, nullptr);
    const RowCosts &costs = c.rows;
    const double row =
        costs.row + costs.step * double(t.geometry(conv).steps()) + costs.column * double(t.n);
    return timeOf(p.in, conv, t, costs, c.exposed, double(ceilDiv(t.h, t.consumers)) * row,
                  ceilDiv(conv.outHeight.upper(), t.h) * ceilDiv(conv.outWidth.upper(), kTileW),
                  scale, scaleOfMoving);
  }
};

// --- and the largest elements of windows ---

bool isConv(const Operation &op) { return op.is(Op::Conv); }
bool isMaxPool(const Operation &op) { return op.is(Op::Pool) && op.wordAttr("kind") == "max"; }

/// Whether the kernel knows such windows of what the convolution makes.
Result<> takesPool(const ConvProblem &conv, const ConvProblem &pool, const TargetLevel &level) {
  const int64_t overlap = pool.kernelH - pool.strideH;
  if (pool.dilationH != 1 || pool.dilationW != 1 || overlap < 0 || overlap > 1 || pool.kernelW > 8)
    return Refusal{"windows of " + std::to_string(pool.kernelH) + "x" +
                       std::to_string(pool.kernelW) + ", " + std::to_string(pool.strideH) +
                       " rows apart",
                   ""};
  if (tilesOf(conv, &pool, level).empty())
    return Refusal{"a window of another form than patches are read in", ""};
  return Accepted{};
}

struct PoolSm90 : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "conv_pool_sm90a",
                                   summary = "fp16 and bf16 convolution of few channels by "
                                             "warpgroups, and the largest elements of its windows";
  static constexpr ChainPart kParts[] = {{isConv, 1}, {isMaxPool, 1}};
  static constexpr Chain chains[] = {
      {"fuse.conv-pool",
       "the largest elements of windows of what a convolution of few channels makes", kParts}};
  struct Problem {
    GroupQuery in;
    ContractionProblem convolution;
    ConvProblem pool;
  };
  using Schedule = WidePatchSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return !in.form.before.empty() && in.form.before[0].anchor->is(Op::Conv) && hasWgmma(in.level);
  }

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &form = in.form;
    if (form.before.size() != 1 || !form.anchor || !isMaxPool(*form.anchor))
      return Refusal{"not the largest elements of windows of a convolution", ""};
    const GroupForm &before = form.before[0];
    if (!before.anchor->is(Op::Conv))
      return Refusal{"no convolution before the windows", ""};
    auto conv = readFirstLayer({before, in.level, in.alignment});
    if (!conv)
      return std::move(conv).refusal();
    const auto pool = convProblem(*form.anchor);
    if (!pool)
      return pool.refusal();
    auto taken = takesPool(conv->c.conv, *pool, in.level)
                     .andThen([&] { return isOfChannels(before.body); })
                     .andThen([&] { return isPlainBody(form.body); })
                     .andThen([&] { return fitsInt(form); });
    if (!taken)
      return std::move(taken).refusal();
    const ScalarProgram &x = form.anchorInputs[0];
    if (!x.isPlainRead() || x.inputs[0].source->argumentOf() ||
        bitWidth(x.nodes[x.outputs[0]].element) != 16 || !isFloat(x.nodes[x.outputs[0]].element))
      return Refusal{"windows of something else than what the convolution makes, in 16 bits", ""};
    return Problem{in, *std::move(conv), *pool};
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out = tilesOf(p.convolution.c.conv, &p.pool, p.in.level);
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return isLegal<PoolSm90>(p.convolution.c.conv, s, &p.pool, p.in.level);
  }

  static double microseconds(const Problem &p, const Schedule &s, const PatchCosts &c) {
    const ConvProblem &conv = p.convolution.c.conv, &pool = p.pool;
    const Tiles t(s, &pool);
    const int64_t windows = t.h / t.consumers,
                  rows = windows * pool.strideH + pool.kernelH - pool.strideH,
                  across = (kTileW - pool.kernelW) / pool.strideW + 1;
    const RowCosts &costs = c.windows;
    const double row = costs.row + costs.step * double(t.geometry(conv).steps());
    return timeOf(p.in, conv, t, costs, c.exposed,
                  double(rows) * row + double(windows) * costs.column * double(t.n),
                  ceilDiv(pool.outHeight.upper(), t.h) * ceilDiv(pool.outWidth.upper(), across), 1,
                  1);
  }

  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"multiprocessors", p.in.level.multiprocessors}};
  }
  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packPatchWeights(p.convolution.in.form, Tiles(s, &p.pool).geometry(p.convolution.c.conv).patch,
                     out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &conv = p.convolution.in.form;
    const auto overWindows = [&](const Strides &x) { return inPlane(x, p.pool); };
    out.include("cuda/conv_pool/kernel.cuh");
    ContractionCall call(p.convolution.in, p.convolution.c, membersOf(s, computed(p, s)), out);
    call.cfg.number("pool_h", p.pool.kernelH).number("pool_w", p.pool.kernelW);
    call.cfg.number("pool_stride_h", p.pool.strideH).number("pool_stride_w", p.pool.strideW);
    call.cfg.number("pool_top", p.pool.padTop).number("pool_left", p.pool.padLeft);
    call.cfg.extent("pooled_h", p.pool.outHeight).extent("pooled_w", p.pool.outWidth);
    const bool aligned = areResultsAligned(p.in.form, out, overWindows) &&
                         areInputsAligned(conv.body, out, call.over);
    const std::string config = call.finish(aligned);
    const std::string front =
        out.body(conv.body, {conv.anchor->result()->type().element()}, "front");
    const Element made = p.in.form.anchor->operand(0)->type().element();
    const std::string body =
        out.body(p.in.form.body, {p.in.form.anchor->result()->type().element()});
    call.writeOperands();
    out.code().line("const auto front_ins = " + out.inputs(conv.body, call.over) + ";");
    out.code().line("const auto outs = " + out.outputs(p.in.form, overWindows) + ";");
    out.code().line("const auto ins = " + out.inputs(p.in.form.body, overWindows) + ";");
    std::vector<std::string> arguments = {config, "x",    "w",   "front_ins",
                                          front,  "outs", "ins", body};
    call.appendPrologue(arguments);
    launch(out, "conv_pool_sm90<" + cppElement(made).str() + ">", arguments);
  }
};

} // namespace

const Tactic &kConvPatchSm90a = kTacticOf<PatchSm90>;
const Tactic &kConvPoolSm90a = kTacticOf<PoolSm90>;

} // namespace tenon::cuda
