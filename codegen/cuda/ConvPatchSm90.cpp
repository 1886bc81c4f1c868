// Defines the tactics `conv_patch_sm90a` and `conv_pool_sm90a`: the first layer of a network on
// Tensor Cores by warpgroups, straight from a patch of the image
// (runtime/cuda/conv_patch_sm90.cuh); and the largest elements of windows of what it makes in the
// same kernel, of the chains that fuse.conv-pool makes (runtime/cuda/conv_pool_sm90.cuh).
#include "codegen/cuda/ConvPatch.h"
#include "codegen/cuda/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/Work.h"
#include "codegen/emit/CppText.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kTileW = 64, kFilling = 256; // threads that fill patches
constexpr int64_t kMostSteps = 32;             // of K, all unrolled
/// Cycles.
struct Costs {
  double start;         // until the weights are there
  double loads;         // of some rows of the patch that are under way together
  double cell;          // each cell of them
  double row;           // of outputs
  double step;          // of K, in a row
  double column;        // each filter of what is stored
  double tile;          // the rest of it
  double alone, beside; // of a warpgroup by itself, and each of those that get in each other's way
};
/// Source: first layers of five networks (3x3, 4x4 and 7x7 taps; 32 to 96 filters) at batch 1, 8
/// and 64 on one H100, by `tenon tune` (docs/performance.md): rms error 34 %.
constexpr Costs kOfRows = {1500, 1500, 350, 900, 60, 20, 600, 0.6, 0.13};
/// Source: bench/conv_pool_h100.csv (18 layers, up to 6 schedules each): rms error 13 %.
constexpr Costs kOfWindows = {530, 40, 600, 380, 36, 21, 340, 0.46, 0.37};
constexpr double kCyclesOfMicrosecond = 1700;
/// To the scale of conv_patch_sm80, which these compete with.
constexpr double kScale = kContractionScale / kPatchShortfall;

/// A schedule's numbers. `h`: rows of outputs, or of windows of them; `rows`: of outputs.
struct Tiles {
  int64_t h, n, consumers, rows, ownBytes;

  Tiles(int64_t h, int64_t n, int64_t consumers, const ConvProblem *pool)
      : h(h), n(n), consumers(consumers), rows(h), ownBytes(0) {
    if (!pool)
      return;
    rows = h * pool->strideH + pool->kernelH - pool->strideH;
    ownBytes = consumers * kTileW * 2 * (n + 8);
  }
  Tiles(const Schedule &s, const ConvProblem *pool)
      : Tiles(*s.get("tile_h"), *s.get("tile_n"), *s.get("consumers"), pool) {}

  PatchLayout layout(const ConvProblem &p) const { return PatchLayout(p, rows, kTileW, 1); }
};

int64_t stepsOf(const PatchLayout &l) { return ceilDiv(l.runs, 2); }

/// As warpgroup_patch.cuh counts it.
int64_t sharedBytes(const ConvProblem &p, const Tiles &t) {
  const PatchLayout l = t.layout(p);
  return 2 * stepsOf(l) * t.n * 16 + 2 * (l.hasHalves ? 2 : 1) * l.size * 2 +
         (l.runs % 2 != 0 ? 1024 : 0) + 32 + t.ownBytes;
}

/// Whether the second run of each pair lies behind the first: descriptors have no distances
/// backwards.
bool runsAscend(const ConvProblem &p, const PatchLayout &l) {
  auto at = [&](int64_t run) {
    const int64_t tap = run % l.tapsW, row = run / l.tapsW * p.dilationH, cell = tap * p.dilationW;
    const bool half = l.hasHalves && tap == l.tapsW - 1;
    return ((row * l.step + cell % l.step) * l.phase + cell / l.step) * 8 + (half ? l.size : 0);
  };
  for (int64_t run = 0; run + 1 < l.runs; run += 2)
    if (at(run + 1) < at(run))
      return false;
  return true;
}

/// `pool`: the windows of the results, or null.
llvm::SmallVector<Tiles, 8> tilesOf(const ConvProblem &p, const ConvProblem *pool,
                                    const TargetLevel &level) {
  constexpr int64_t kRows[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 2}, {6, 3}, {9, 3}};
  const int64_t filters = int64_t(llvm::alignTo(uint64_t(p.filters), 32)),
                height = (pool ? pool : &p)->outHeight.upper();
  llvm::SmallVector<Tiles, 8> all;
  for (auto [h, consumers] : kRows)
    for (int64_t n : {filters, int64_t(64)}) {
      const Tiles t(h, n, consumers, pool);
      if (n <= 128 && (n == filters || filters > 128) && (h == 1 || h < 2 * height) &&
          t.layout(p).cells <= kFilling && runsAscend(p, t.layout(p)) &&
          sharedBytes(p, t) <= int64_t(level.sharedBytes))
        all.push_back(t);
    }
  return all;
}

/// What the shape of a convolution has to be.
bool isFirstLayer(const ConvProblem &p, std::string &why) {
  if (p.isVolume() || p.taps() == 1)
    why = "no convolution in two dimensions with a window";
  else if (p.groups > 1 || p.channels > kMostPatchChannels)
    why = p.groups > 1 ? "several groups" : std::to_string(p.channels) + " channels";
  else if (stepsOf(Tiles(1, 32, 1, nullptr).layout(p)) > kMostSteps)
    why = "a window of another form than patches are read in";
  else
    return true;
  return false;
}

/// The convolution, whatever becomes of its results.
llvm::Optional<ConvProblem> readFirstLayer(const TacticInput &in, std::string &why) {
  if (!hasWgmma(in.level)) {
    why = "wgmma exists on sm_90a only";
    return llvm::None;
  }
  auto c = readContraction(in, why);
  if (!c)
    return llvm::None;
  if (!c->isConv) {
    why = "no convolution in two dimensions with a window";
    return llvm::None;
  }
  if (!isFirstLayer(c->conv, why))
    return llvm::None;
  if (!isFloat(in.form.anchor->operand(0)->type().element()) ||
      !multipliesOn(kMmaSm80, in, *c, why)) {
    if (why.empty())
      why = "bytes";
    return llvm::None;
  }
  return c->conv;
}

bool match(const TacticInput &in, std::string &why) {
  const auto p = readFirstLayer(in, why);
  if (p && tilesOf(*p, nullptr, in.level).empty())
    why = "a window of another form than patches are read in";
  return p && why.empty();
}

void addSchedules(llvm::StringRef id, llvm::ArrayRef<Tiles> tiles, const TargetLevel &level,
                  llvm::SmallVectorImpl<Schedule> &out) {
  for (const Tiles &t : tiles)
    out.push_back({id.str(),
                   {{"tile_h", t.h},
                    {"tile_n", t.n},
                    {"consumers", t.consumers},
                    {"multiprocessors", level.multiprocessors}}});
}
void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  addSchedules("conv_patch_sm90a", tilesOf(*readFirstLayer(in, why), nullptr, in.level), in.level,
               out);
}

/// Rounds of persistent blocks: in each the next tile's patch is filled while one is multiplied and
/// stored. `consume`: cycles of a warpgroup for its part of a tile; `tiles`: of an image.
/// scale: of what multiplies and stores; scaleOfMoving: of what memory takes.
double timeOf(const TacticInput &in, const ConvProblem &p, const Tiles &t, const Costs &costs,
              double consume, int64_t tiles, double scale, double scaleOfMoving) {
  const PatchLayout l = t.layout(p);
  const int64_t columns = ceilDiv(p.filters, t.n),
                blocks = std::max<int64_t>(in.level.multiprocessors / columns, 1);
  const int64_t rows = ceilDiv(l.rows, kFilling / l.cells); // of a thread that fills
  const double fill = double(ceilDiv(rows, 6)) * costs.loads + double(rows) * costs.cell;
  const double consuming = consume * (costs.alone + double(t.consumers) * costs.beside);
  const double time = (costs.start + fill +
                       double(ceilDiv(p.batch.upper() * tiles, blocks)) *
                           (std::max(consuming, fill) + costs.tile)) /
                      kCyclesOfMicrosecond;
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = 0;
  // The lesser of the two is not hidden altogether.
  const double computing = scale * time, moving = scaleOfMoving * microseconds(in.level, e);
  return in.level.launchMicroseconds + std::max(computing, moving) +
         0.1 * std::min(computing, moving);
}
double timeOfRows(const TacticInput &in, const Schedule &s, double scale, double scaleOfMoving) {
  std::string why;
  const ConvProblem p = *readFirstLayer(in, why);
  const Tiles t(s, nullptr);
  const Costs &costs = kOfRows;
  const double row =
      costs.row + costs.step * double(stepsOf(t.layout(p))) + costs.column * double(t.n);
  return timeOf(in, p, t, costs, double(ceilDiv(t.h, t.consumers)) * row,
                ceilDiv(p.outHeight.upper(), t.h) * ceilDiv(p.outWidth.upper(), kTileW), scale,
                scaleOfMoving);
}
double cost(const TacticInput &in, const Schedule &s) {
  return timeOfRows(in, s, kScale, kContractionScale);
}
double clock(const TacticInput &in, const Schedule &s) { return timeOfRows(in, s, 1, 1); }

void pack(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  packPatchWeights(in, Tiles(s, nullptr).layout(*readFirstLayer(in, why)), out);
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/conv_patch_sm90.cuh");
  emitContraction(in, s, out, "patch_sm90");
}

bool usesTensorCores(const TacticInput &in) {
  return hasWgmma(in.level) && multipliedAs(in.form).empty();
}

// --- and the largest elements of windows ---

/// A chain as conv_pool_sm90 takes it.
struct PooledLayer {
  ConvProblem conv, pool;
};

llvm::Optional<PooledLayer> readPooled(const TacticInput &in, std::string &why) {
  const GroupForm &form = in.form;
  if (form.before.size() != 1 || !matchAnchor(in, Op::Pool, why) ||
      form.anchor->wordAttr("kind") != "max") {
    why = "not the largest elements of windows of a convolution";
    return llvm::None;
  }
  const GroupForm &before = form.before[0];
  if (!before.anchor->is(Op::Conv)) {
    why = "no convolution before the windows";
    return llvm::None;
  }
  const auto conv = readFirstLayer({before, in.level, in.alignment}, why);
  const auto pool = convProblem(*form.anchor, why);
  if (!conv || !pool || !takesPool(*conv, *pool, in.level, why) ||
      !isOfChannels(before.body, why) || !isPlainBody(form.body, why) || !fitsInt(form, why))
    return llvm::None;
  const ScalarProgram &x = form.anchorInputs[0];
  if (!x.isPlainRead() || x.inputs[0].source->argumentOf() ||
      bitWidth(x.nodes[x.outputs[0]].element) != 16 || !isFloat(x.nodes[x.outputs[0]].element)) {
    why = "windows of something else than what the convolution makes, in 16 bits";
    return llvm::None;
  }
  return PooledLayer{*conv, *pool};
}

TacticInput convolutionOf(const TacticInput &in) {
  return {in.form.before[0], in.level, in.alignment};
}

bool matchPooled(const TacticInput &in, std::string &why) { return readPooled(in, why).hasValue(); }
void enumeratePooled(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const PooledLayer l = *readPooled(in, why);
  addSchedules("conv_pool_sm90a", tilesOf(l.conv, &l.pool, in.level), in.level, out);
}

/// Nothing competes with it.
double costPooled(const TacticInput &in, const Schedule &s) {
  std::string why;
  const PooledLayer l = *readPooled(in, why);
  const Tiles t(s, &l.pool);
  const int64_t windows = t.h / t.consumers,
                rows = windows * l.pool.strideH + l.pool.kernelH - l.pool.strideH,
                across = (kTileW - l.pool.kernelW) / l.pool.strideW + 1;
  const Costs &costs = kOfWindows;
  const double row = costs.row + costs.step * double(stepsOf(t.layout(l.conv)));
  return timeOf(
      in, l.conv, t, costs, double(rows) * row + double(windows) * costs.column * double(t.n),
      ceilDiv(l.pool.outHeight.upper(), t.h) * ceilDiv(l.pool.outWidth.upper(), across), 1, 1);
}
void packPooled(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const PooledLayer l = *readPooled(in, why);
  packPatchWeights(convolutionOf(in), Tiles(s, &l.pool).layout(l.conv), out);
}

void emitPooled(const TacticInput &in, const Schedule &s, StepWriter &out) {
  std::string why;
  const PooledLayer l = *readPooled(in, why);
  const GroupForm &conv = in.form.before[0];
  const auto overWindows = [&](const Strides &x) { return inPlane(x, l.pool); };
  out.include("cuda/conv_pool_sm90.cuh");
  const TacticInput convolution = convolutionOf(in);
  ContractionCall call(convolution, s, out);
  call.cfg.number("pool_h", l.pool.kernelH).number("pool_w", l.pool.kernelW);
  call.cfg.number("pool_stride_h", l.pool.strideH).number("pool_stride_w", l.pool.strideW);
  call.cfg.number("pool_top", l.pool.padTop).number("pool_left", l.pool.padLeft);
  call.cfg.extent("pooled_h", l.pool.outHeight).extent("pooled_w", l.pool.outWidth);
  const bool aligned =
      areResultsAligned(in.form, out, overWindows) && areInputsAligned(conv.body, out, call.over);
  const std::string config = call.finish(aligned);
  const std::string front = out.body(conv.body, {conv.anchor->result()->type().element()}, "front");
  const Element made = in.form.anchor->operand(0)->type().element();
  const std::string body = out.body(in.form.body, {in.form.anchor->result()->type().element()});
  call.writeOperands();
  out.code().line("const auto front_ins = " + out.inputs(conv.body, call.over) + ";");
  out.code().line("const auto outs = " + out.outputs(in.form, overWindows) + ";");
  out.code().line("const auto ins = " + out.inputs(in.form.body, overWindows) + ";");
  std::vector<std::string> arguments = {config, "x", "w", "front_ins", front, "outs", "ins", body};
  call.appendPrologue(arguments);
  launch(out, "conv_pool_sm90<" + cppElement(made).str() + ">", arguments);
}

bool usesTensorCoresPooled(const TacticInput &in) {
  return in.form.isChain() && in.form.before[0].anchor->is(Op::Conv) && hasWgmma(in.level);
}

Tactic pooledTactic() {
  Tactic t = {"conv_pool_sm90a",
              "fp16 and bf16 convolution of few channels by warpgroups, and the largest elements "
              "of its windows",
              matchPooled,
              enumeratePooled,
              costPooled,
              packPooled,
              nullptr,
              emitPooled,
              nullptr,
              usesTensorCoresPooled};
  t.takesChains = true;
  return t;
}

} // namespace

bool takesPool(const ConvProblem &conv, const ConvProblem &pool, const TargetLevel &level,
               std::string &why) {
  if (!hasWgmma(level)) {
    why = "wgmma exists on sm_90a only";
    return false;
  }
  if (!isFirstLayer(conv, why))
    return false;
  const int64_t overlap = pool.kernelH - pool.strideH;
  if (pool.dilationH != 1 || pool.dilationW != 1 || overlap < 0 || overlap > 1 ||
      pool.kernelW > 8) {
    why = "windows of " + std::to_string(pool.kernelH) + "x" + std::to_string(pool.kernelW) + ", " +
          std::to_string(pool.strideH) + " rows apart";
    return false;
  }
  if (tilesOf(conv, &pool, level).empty()) {
    why = "a window of another form than patches are read in";
    return false;
  }
  return true;
}

const Tactic kConvPatchSm90a = {
    "conv_patch_sm90a",
    "fp16 and bf16 convolution of few channels by warpgroups on Tensor Cores",
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

const Tactic kConvPoolSm90a = pooledTactic();

} // namespace tenon::cuda
