// Defines the tactic `conv_patch_simt`: convolutions whose groups have few channels, in fp32 on
// CUDA cores, from a patch of the image in shared memory (runtime/cuda/conv_patch_simt.cuh):
// grouped convolutions, whose filters fill no tile of contract_simt, and the first layer of a
// network.
#include "codegen/cuda/ConvPatch.h"
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"

namespace tenon::cuda {
namespace {

/// Beyond as many channels of a group, a patch is too large for several blocks on a multiprocessor:
/// what contract_simt can take is left to it.
constexpr int64_t kMaxChannels = 32;
constexpr int64_t kMostThreadN = 8;

/// A schedule's numbers.
struct Tiles {
  int64_t h, w, groups, n, threadM, threadN, lanesN, warps;

  explicit Tiles(const Schedule &s)
      : h(*s.get("tile_h")), w(*s.get("tile_w")), groups(*s.get("tile_groups")),
        n(*s.get("tile_n")), threadM(*s.get("thread_m")), threadN(*s.get("thread_n")),
        lanesN(*s.get("lanes_n")), warps(*s.get("warps")) {}
  Tiles(int64_t h, int64_t w, int64_t groups, int64_t n, int64_t threadM, int64_t threadN,
        int64_t lanesN, int64_t warps)
      : h(h), w(w), groups(groups), n(n), threadM(threadM), threadN(threadN), lanesN(lanesN),
        warps(warps) {}

  /// What warps take in turn.
  int64_t parts() const {
    return groups * (n / (threadN * lanesN)) * ceilDiv(h * w, 32 / lanesN * threadM);
  }
  int64_t blocks(const ConvProblem &p) const { return blocksOfTiles(p, h, w, n, groups); }
};

/// The patch of conv_patch_simt_kernel.
struct Patch {
  int64_t vector, runs, cells, sharedBytes;

  Patch(const ConvProblem &p, const Tiles &t) {
    vector = p.channels % 4 == 0 ? 4 : p.channels % 2 == 0 ? 2 : 1;
    runs = t.groups * p.channels / vector;
    const int64_t rows = (t.h - 1) * p.strideH + (p.kernelH - 1) * p.dilationH + 1,
                  columns = (t.w - 1) * p.strideW + (p.kernelW - 1) * p.dilationW + 1,
                  plane = rows * p.strideW * ceilDiv(columns, p.strideW) | 1,
                  weights = t.groups * p.taps() * p.channels * t.n;
    cells = rows * columns;
    sharedBytes = 4 * (ceilDiv(weights, 4) * 4 + runs * plane * vector);
  }
};

/// All tiles that fit.
llvm::SmallVector<Tiles, 64> tilesOf(const ConvProblem &p, const TargetLevel &level) {
  // Columns in eights: lanes that read 16 bytes each keep to different banks.
  constexpr int64_t kPatches[][2] = {{4, 8},  {8, 8},  {4, 16}, {8, 16},
                                     {4, 32}, {8, 32}, {1, 32}, {1, 128}};
  int64_t most = kMostThreadN;
  while (p.groups > 1 && p.filters % most)
    most /= 2;
  // Whole groups, or parts of one.
  const int64_t filters = ceilDiv(p.filters, most) * most;
  llvm::SmallVector<std::pair<int64_t, int64_t>, 8> across; // groups, filters of each
  if (filters <= 64)
    for (int64_t groups : {1, 2, 4, 8})
      if (groups <= p.groups)
        across.push_back({groups, filters});
  for (int64_t n : {16, 32})
    if (n < filters && (p.groups == 1 || p.filters % n == 0))
      across.push_back({1, n});
  llvm::SmallVector<Tiles, 64> all;
  for (auto [h, w] : kPatches) {
    if (h > 1 && h >= 2 * p.outHeight.upper())
      continue; // more than half of it lies outside
    for (auto [groups, n] : across)
      for (int64_t threadN : {most, most / 2})
        for (int64_t lanesN : {1, 2, 4})
          for (int64_t threadM : {1, 2, 4, 8})
            for (int64_t warps : {2, 4, 8}) {
              // All lanes share what one reads as slowly as a half or a quarter of them do.
              if (threadN < 1 || n % (threadN * lanesN) || (lanesN == 1 && n % (2 * threadN) == 0))
                continue;
              const Tiles t(h, w, groups, n, threadM, threadN, lanesN, warps);
              if ((t.parts() % warps == 0 || (warps == 2 && t.parts() > 2)) &&
                  32 / lanesN * (threadM - 1) < h * w &&
                  Patch(p, t).sharedBytes <= int64_t(level.sharedBytes))
                all.push_back(t);
            }
  }
  return all;
}

bool match(const TacticInput &in, std::string &why) {
  auto c = readContraction(in, why);
  if (!c || !multipliesInF32(in, *c, why) || !hasWindows(*c, why))
    return false;
  const ConvProblem &p = c->conv;
  const bool few = p.channels <= (p.groups > 1 ? kMaxChannels : kMostPatchChannels);
  if (p.isDepthwise() || (!few && packsIn(*c, 16))) {
    why = p.isDepthwise() ? "depthwise" : std::to_string(p.channels) + " channels of a group";
    return false;
  }
  if (!multipliedAs(in.form).empty() && worthTensorCores(in.form)) {
    why = "a contraction that Tensor Cores are to multiply";
    return false;
  }
  if (tilesOf(p, in.level).empty()) {
    why = "a window whose patches do not fit in shared memory";
    return false;
  }
  return true;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  for (const Tiles &t : tilesOf(c.conv, in.level))
    out.push_back({"conv_patch_simt",
                   {{"tile_h", t.h},
                    {"tile_w", t.w},
                    {"tile_groups", t.groups},
                    {"tile_n", t.n},
                    {"thread_m", t.threadM},
                    {"thread_n", t.threadN},
                    {"lanes_n", t.lanesN},
                    {"warps", t.warps},
                    {"least_shared", leastShared(in.level, t.blocks(c.conv))}}});
}

/// Source: fitted to bench/conv_patch_simt_h200.csv, rms error 22 %: cycles that a load of the
/// patch takes its thread and that an instruction takes its warp, and that the multiprocessor is
/// busy for 128 bytes of pixels and 16 bytes of weights from shared memory and for a warp's result.
constexpr double kLoad = 415, kInstruction = 2.35, kPixels = 1.5, kWeights = 3.8, kResult = 2.2;
/// How many times the bytes of operands and results are counted, which do not all move while
/// something else is done; and, in microseconds, a launch, and each block of a multiprocessor,
/// which decides where estimates are the same.
constexpr double kMoving = 2.65, kLaunch = 1.5, kBlock = 0.02;

/// Rounds of resident blocks, each of which loads its patch and runs through its instructions;
/// unless the multiprocessor's multipliers or its shared memory are busy for longer.
double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const ConvProblem &p = c.conv;
  const Tiles t(s);
  const Patch patch(p, t);
  const double sms = in.level.multiprocessors, warps = double(t.warps), parts = double(t.parts());
  const double perMultiprocessor = std::ceil(double(t.blocks(p)) / sms);
  const double resident =
      std::max(1.0, std::min(in.level.sharedBytes / double(patch.sharedBytes), 16 / warps));
  const double rounds = std::ceil(perMultiprocessor / std::floor(resident));

  // Of a warp, for one part.
  const double threadM = double(t.threadM), threadN = double(t.threadN),
               vector = double(patch.vector), runs = double(p.taps() * p.channels) / vector;
  const double products = runs * vector * threadM * threadN;
  const double loads = std::max(1.0, threadN / 4) * vector; // of weights
  const double instructions = products + runs * (threadM + loads);
  const double shared = runs * (threadM * kPixels * std::max(1.0, vector / double(t.lanesN)) +
                                kWeights * loads * std::min(1.0, threadN / 4));
  const double ofBlock = std::ceil(double(patch.cells * patch.runs) / (32 * warps)) * kLoad +
                         std::ceil(parts / warps) * std::max(instructions, shared) * kInstruction;

  const double clock = in.level.peakGflops / sms / (in.level.sm == 75 ? 128 : 256); // GHz
  const double multiplying = products * 64 / (in.level.peakGflops / sms / clock);
  const double busy = std::max(multiplying, shared) + kResult * threadM * threadN;
  const double time = std::max(rounds * ofBlock, perMultiprocessor * parts * busy) / (clock * 1e3) +
                      kBlock * perMultiprocessor;
  Effort e;
  e.bytes = kMoving * double(workOf(*in.form.group).bytes);
  e.launches = 0;
  // Where estimates are as good as equal, what Tensor Cores multiply goes there.
  const double tie = bitWidth(c.b) <= 16 || !multipliedAs(in.form).empty() ? 1.2 : 1;
  return tie * (kLaunch + std::max(time, microseconds(in.level, e)));
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/conv_patch_simt.cuh");
  emitContraction(in, s, out, "patch_simt");
}

void pack(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  packContractionTiles(in, *s.get("tile_n"), out);
}

} // namespace

const Tactic kConvPatchSimt = {"conv_patch_simt",
                               "fp32 convolution of few channels a group on CUDA cores",
                               match,
                               enumerate,
                               cost,
                               pack,
                               nullptr,
                               emit};

} // namespace tenon::cuda
