// Defines the tactic `conv_patch_simt`: convolutions whose groups have few channels, in fp32 on
// CUDA cores, from a patch of the image in shared memory (runtime/cuda/conv_patch_simt/kernel.cuh):
// grouped convolutions, whose filters fill no tile of contract_simt, and the first layer of a
// network.
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/ConvPatch.h"
#include "runtime/cuda/conv_patch_simt/geometry.h"

namespace tenon::cuda {
namespace {

/// Beyond as many channels of a group, a patch is too large for several blocks on a multiprocessor:
/// what contract_simt can take is left to it.
constexpr int64_t kMaxChannels = 32;
constexpr int64_t kMostThreadN = 8;

struct PatchSimtSchedule {
  int64_t h, w, groups, n, threadM, threadN, lanesN, warps;

  static llvm::ArrayRef<Field<PatchSimtSchedule>> fields() {
    static const Field<PatchSimtSchedule> kFields[] = {
        {"tile_h", &PatchSimtSchedule::h, between(1, 64)},
        {"tile_w", &PatchSimtSchedule::w, between(1, 128)},
        {"tile_groups", &PatchSimtSchedule::groups, between(1, 8)},
        {"tile_n", &PatchSimtSchedule::n, between(1, 64)},
        {"thread_m", &PatchSimtSchedule::threadM, oneOf(1, 2, 4, 8)},
        {"thread_n", &PatchSimtSchedule::threadN, oneOf(1, 2, 4, 8)},
        {"lanes_n", &PatchSimtSchedule::lanesN, oneOf(1, 2, 4)},
        {"warps", &PatchSimtSchedule::warps, oneOf(2, 4, 8)},
    };
    return kFields;
  }

  conv_patch_simt_geometry geometry(const ConvProblem &p) const {
    return {p.channels, p.kernelH, p.kernelW, p.strideH, p.strideW, p.dilationH, p.dilationW,
            h,          w,         groups,    n,         threadM,   threadN,     lanesN};
  }
  int64_t blocks(const ConvProblem &p) const { return blocksOfTiles(p, h, w, n, groups); }
};

/// Pixels of a block, rows and columns: these in eights, so that lanes that read 16 bytes each keep
/// to different banks.
constexpr std::pair<int64_t, int64_t> kPatches[] = {{4, 8},  {8, 8},  {4, 16}, {8, 16},
                                                    {4, 32}, {8, 32}, {1, 32}, {1, 128}};

/// Tiles that fit, at most `limit` of them.
std::vector<PatchSimtSchedule> tilesOf(const ConvProblem &p, const TargetLevel &level,
                                       size_t limit = SIZE_MAX) {
  std::vector<PatchSimtSchedule> tiles;
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
              const PatchSimtSchedule s{h, w, groups, n, threadM, threadN, lanesN, warps};
              if ((s.geometry(p).parts() % warps == 0 ||
                   (warps == 2 && s.geometry(p).parts() > 2)) &&
                  32 / lanesN * (threadM - 1) < h * w &&
                  s.geometry(p).shared_bytes() <= int64_t(level.sharedBytes)) {
                tiles.push_back(s);
                if (tiles.size() == limit)
                  return tiles;
              }
            }
  }
  return tiles;
}

struct PatchSimtCosts {
  /// Cycles that a load of the patch takes its thread and that an instruction takes its warp, and
  /// that the multiprocessor is busy for 128 bytes of pixels and 16 bytes of weights from shared
  /// memory and for a warp's result.
  double load, instruction, pixels, weights, result;
  /// How many times the bytes of operands and results are counted, which do not all move while
  /// something else is done.
  double moving;
  /// Microseconds: a launch, and each block of a multiprocessor.
  double launch, block;

  static constexpr llvm::StringLiteral family = "conv_patch_simt";
};
constexpr PatchSimtCosts kCosts = {
#include "codegen/cuda/conv_patch_simt/costs.inc"
};

struct PatchSimt : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "conv_patch_simt",
                                   summary = "fp32 convolution of few channels a group on CUDA "
                                             "cores";
  using Problem = ContractionProblem;
  using Schedule = PatchSimtSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return readContraction(in, [&](const Contraction &c) -> Result<> {
      auto taken = multipliesInF32(in, c).andThen([&] { return hasWindows(c); });
      if (!taken)
        return taken;
      const ConvProblem &p = c.conv;
      const bool few = p.channels <= (p.groups > 1 ? kMaxChannels : kMostPatchChannels);
      if (p.isDepthwise() || (!few && packsIn(c, 16)))
        return Refusal{p.isDepthwise() ? "a depthwise convolution"
                                       : std::to_string(p.channels) + " channels of a group",
                       ""};
      if (!multipliedAs(in.form).empty() && worthTensorCores(in.form))
        return Refusal{"a contraction that Tensor Cores are to multiply", ""};
      if (tilesOf(p, in.level, 1).empty())
        return Refusal{"a window whose patches do not fit in shared memory", ""};
      return Accepted{};
    });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out = tilesOf(p.c.conv, p.in.level);
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ConvProblem &conv = p.c.conv;
    if (s.n % (s.threadN * s.lanesN) != 0)
      return impossible<PatchSimt>(s, "tile_n is no multiple of thread_n x lanes_n");
    if (s.groups > conv.groups || (s.groups > 1 && s.n != conv.filters) || !packsIn(p.c, s.n))
      return impossible<PatchSimt>(s, "blocks take whole groups of " +
                                          std::to_string(conv.filters) +
                                          " filters, or even parts of one");
    return fitsShared(p.in.level, printSchedule(id, s), s.geometry(conv).shared_bytes());
  }

  /// Rounds of resident blocks, each of which loads its patch and runs through its instructions;
  /// unless the multiprocessor's multipliers or its shared memory are busy for longer.
  static double microseconds(const Problem &p, const Schedule &s, const PatchSimtCosts &c) {
    const ConvProblem &conv = p.c.conv;
    const TargetLevel &level = p.in.level;
    const conv_patch_simt_geometry shape = s.geometry(conv);
    const double sms = level.multiprocessors, warps = double(s.warps),
                 parts = double(shape.parts());
    const double perMultiprocessor = std::ceil(double(s.blocks(conv)) / sms);
    const double resident =
        std::max(1.0, std::min(level.sharedBytes / double(shape.shared_bytes()), 16 / warps));
    const double rounds = std::ceil(perMultiprocessor / std::floor(resident));

    // Of a warp, for one part.
    const double threadM = double(s.threadM), threadN = double(s.threadN),
                 vector = double(shape.vector()),
                 runs = double(conv.taps() * conv.channels) / vector;
    const double products = runs * vector * threadM * threadN;
    const double loads = std::max(1.0, threadN / 4) * vector; // of weights
    const double instructions = products + runs * (threadM + loads);
    const double shared = runs * (threadM * c.pixels * std::max(1.0, vector / double(s.lanesN)) +
                                  c.weights * loads * std::min(1.0, threadN / 4));
    const double ofBlock =
        std::ceil(double(shape.rows() * shape.columns() * shape.tile_runs()) / (32 * warps)) *
            c.load +
        std::ceil(parts / warps) * std::max(instructions, shared) * c.instruction;

    const double clock = level.peakGflops / sms / (level.sm == 75 ? 128 : 256); // GHz
    const double multiplying = products * 64 / (level.peakGflops / sms / clock);
    const double busy = std::max(multiplying, shared) + c.result * threadM * threadN;
    const double time =
        std::max(rounds * ofBlock, perMultiprocessor * parts * busy) / (clock * 1e3) +
        c.block * perMultiprocessor;
    Effort e;
    e.bytes = c.moving * p.bytes;
    e.launches = 0;
    // Where estimates are as good as equal, what Tensor Cores multiply goes there.
    const double tie = bitWidth(p.c.b) <= 16 || !multipliedAs(p.in.form).empty() ? 1.2 : 1;
    return tie * (c.launch + std::max(time, cuda::microseconds(level, e)));
  }

  static KeyValues computed(const Problem &p, const Schedule &s) {
    return {{"least_shared", leastShared(p.in.level, s.blocks(p.c.conv))}};
  }
  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packContractionTiles(p, s.n, out);
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/conv_patch_simt/kernel.cuh");
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), SplitScratch::None, out, "patch_simt");
  }
};

} // namespace

const Tactic &kConvPatchSimt = kTacticOf<PatchSimt>;

} // namespace tenon::cuda
