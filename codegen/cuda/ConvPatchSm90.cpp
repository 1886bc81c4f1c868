// Defines the tactic `conv_patch_sm90a`: the first layer of a network on Tensor Cores by
// warpgroups, straight from a patch of the image (runtime/cuda/conv_patch_sm90.cuh).
#include "codegen/cuda/ConvPatch.h"
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kTileW = 64, kFilling = 256; // threads that fill patches
constexpr int64_t kMostSteps = 32;             // of K, all unrolled
/// Cycles: until the weights are there; of the loads of some rows that are under way together, and
/// of each cell of them; of a row of outputs, of each step along K and of each column; and of the
/// rest of a tile. Source: first layers of five networks (3x3, 4x4 and 7x7 taps; 32 to 96 filters)
/// at batch 1, 8 and 64 on one H100, by `tenon tune` (docs/performance.md): rms error 34 %.
constexpr double kStart = 1500, kLoads = 1500, kCell = 350, kRow = 900, kStep = 60, kColumn = 20,
                 kTile = 600;
constexpr double kCyclesOfMicrosecond = 1700;
/// To the scale of conv_patch_sm80, which these compete with.
constexpr double kScale = kContractionScale / kPatchShortfall;

/// A schedule's numbers.
struct Tiles {
  int64_t h, n, consumers;

  explicit Tiles(const Schedule &s)
      : h(*s.get("tile_h")), n(*s.get("tile_n")), consumers(*s.get("consumers")) {}
  Tiles(int64_t h, int64_t n, int64_t consumers) : h(h), n(n), consumers(consumers) {}

  PatchLayout layout(const ConvProblem &p) const { return PatchLayout(p, h, kTileW, 1); }
};

int64_t stepsOf(const PatchLayout &l) { return ceilDiv(l.runs, 2); }

/// As conv_patch_sm90.cuh counts it.
int64_t sharedBytes(const ConvProblem &p, const Tiles &t) {
  const PatchLayout l = t.layout(p);
  return 2 * stepsOf(l) * t.n * 16 + 2 * (l.hasHalves ? 2 : 1) * l.size * 2 +
         (l.runs % 2 != 0 ? 1024 : 0) + 32;
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

llvm::SmallVector<Tiles, 8> tilesOf(const ConvProblem &p, const TargetLevel &level) {
  constexpr int64_t kRows[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 2}, {6, 3}, {9, 3}};
  const int64_t filters = int64_t(llvm::alignTo(uint64_t(p.filters), 32));
  llvm::SmallVector<Tiles, 8> all;
  for (auto [h, consumers] : kRows)
    for (int64_t n : {filters, int64_t(64)}) {
      const Tiles t(h, n, consumers);
      if (n <= 128 && (n == filters || filters > 128) && (h == 1 || h < 2 * p.outHeight.upper()) &&
          t.layout(p).cells <= kFilling && runsAscend(p, t.layout(p)) &&
          sharedBytes(p, t) <= int64_t(level.sharedBytes))
        all.push_back(t);
    }
  return all;
}

bool match(const TacticInput &in, std::string &why) {
  if (!hasWgmma(in.level)) {
    why = "wgmma exists on sm_90a only";
    return false;
  }
  auto c = readContraction(in, why);
  if (!c)
    return false;
  const ConvProblem &p = c->conv;
  if (!c->isConv || p.isVolume() || p.taps() == 1) {
    why = "no convolution in two dimensions with a window";
    return false;
  }
  if (!isFloat(in.form.anchor->operand(0)->type().element()) ||
      !multipliesOn(kMmaSm80, in, *c, why)) {
    if (why.empty())
      why = "bytes";
    return false;
  }
  if (p.groups > 1 || p.channels > kMostPatchChannels) {
    why = p.groups > 1 ? "several groups" : std::to_string(p.channels) + " channels";
    return false;
  }
  if (stepsOf(Tiles(1, 32, 1).layout(p)) > kMostSteps || tilesOf(p, in.level).empty()) {
    why = "a window of another form than patches are read in";
    return false;
  }
  return true;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  for (const Tiles &t : tilesOf(readContraction(in, why)->conv, in.level))
    out.push_back({"conv_patch_sm90a",
                   {{"tile_h", t.h},
                    {"tile_n", t.n},
                    {"consumers", t.consumers},
                    {"multiprocessors", in.level.multiprocessors}}});
}

/// Rounds of persistent blocks: in each the next tile's patch is filled while one is multiplied and
/// stored.
/// scale: of what multiplies and stores; scaleOfMoving: of what memory takes.
double timeOf(const TacticInput &in, const Schedule &s, double scale, double scaleOfMoving) {
  std::string why;
  const ConvProblem p = readContraction(in, why)->conv;
  const Tiles t(s);
  const PatchLayout l = t.layout(p);
  const int64_t columns = ceilDiv(p.filters, t.n),
                tiles = p.batch.upper() * ceilDiv(p.outHeight.upper(), t.h) *
                        ceilDiv(p.outWidth.upper(), kTileW),
                blocks = std::max<int64_t>(in.level.multiprocessors / columns, 1);
  const int64_t rows = ceilDiv(l.rows, kFilling / l.cells); // of a thread that fills
  const double fill = double(ceilDiv(rows, 6)) * kLoads + double(rows) * kCell;
  const double row = kRow + kStep * double(stepsOf(l)) + kColumn * double(t.n);
  // Warpgroups beside each other get in each other's way.
  const double consume =
      double(ceilDiv(t.h, t.consumers)) * row * (0.6 + double(t.consumers) * 0.13);
  const double time =
      (kStart + fill + double(ceilDiv(tiles, blocks)) * (std::max(consume, fill) + kTile)) /
      kCyclesOfMicrosecond;
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = 0;
  // The lesser of the two is not hidden altogether.
  const double computing = scale * time, moving = scaleOfMoving * microseconds(in.level, e);
  return in.level.launchMicroseconds + std::max(computing, moving) +
         0.1 * std::min(computing, moving);
}
double cost(const TacticInput &in, const Schedule &s) {
  return timeOf(in, s, kScale, kContractionScale);
}
double clock(const TacticInput &in, const Schedule &s) { return timeOf(in, s, 1, 1); }

void pack(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  packPatchWeights(in, Tiles(s).layout(readContraction(in, why)->conv), out);
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/conv_patch_sm90.cuh");
  emitContraction(in, s, out, "patch_sm90");
}

bool usesTensorCores(const TacticInput &in) {
  return hasWgmma(in.level) && multipliedAs(in.form).empty();
}

} // namespace

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

} // namespace tenon::cuda
