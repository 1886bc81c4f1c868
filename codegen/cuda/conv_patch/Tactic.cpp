// Defines the tactics `conv_patch_sm75` and `conv_patch_sm80`: convolutions whose groups have few
// channels on Tensor Cores, from a patch of the image in shared memory
// (runtime/cuda/conv_patch/kernel.cuh): grouped convolutions, and the first layer of a network,
// whose image is rearranged on the way into the patch and needs no kernel for it.
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/ConvPatch.h"
#include "runtime/cuda/conv_patch/geometry.h"

#include "codegen/core/Work.h"

namespace tenon::cuda {
namespace {

struct Generation {
  llvm::StringRef id, summary;
  llvm::StringRef kernel; // conv_<kernel>
  llvm::StringRef header;
  MmaGeneration machines;
};
constexpr Generation kSm75 = {
    "conv_patch_sm75", "fp16 convolution of few channels a group on the Tensor Cores of sm_75",
    "patch_sm75", "cuda/conv_patch/sm75.cuh", kMmaSm75};
constexpr Generation kSm80 = {"conv_patch_sm80",
                              "fp16 and bf16 convolution of few channels a group on Tensor Cores",
                              "patch_sm80", "cuda/conv_patch/sm80.cuh", kMmaSm80};

/// Beyond as many channels of a group, the tiles of contract_mma and contract_wgmma are full.
constexpr int64_t kMaxChannels = 64;

struct PatchSchedule {
  int64_t h, w, groups, n, warpsM, warpsN;

  static llvm::ArrayRef<Field<PatchSchedule>> fields() {
    static const Field<PatchSchedule> kFields[] = {
        {"tile_h", &PatchSchedule::h, between(1, 64)},
        {"tile_w", &PatchSchedule::w, between(1, 64)},
        {"tile_groups", &PatchSchedule::groups, between(1, 8)},
        {"tile_n", &PatchSchedule::n, oneOf(8, 16, 24, 32, 40, 48, 56, 64)},
        {"warps_m", &PatchSchedule::warpsM, oneOf(1, 2, 4, 8)},
        {"warps_n", &PatchSchedule::warpsN, oneOf(1, 2, 4)},
    };
    return kFields;
  }

  conv_patch_geometry geometry(const ConvProblem &p) const {
    return {patchOf(p, h, w, groups), n, warpsM, warpsN};
  }
  int64_t blocks(const ConvProblem &p) const { return blocksOfTiles(p, h, w, n, groups); }

  bool hasRowsForWarps() const { return warpsM * warpsN <= 8 && 16 * (warpsM - 1) < h * w; }
  bool fits(const ConvProblem &p, const TargetLevel &level) const {
    const conv_patch_geometry shape = geometry(p);
    return hasRowsForWarps() && shape.has_even_parts() && keepsSums(shape) &&
           shape.shared_bytes() <= int64_t(level.sharedBytes);
  }
  static bool keepsSums(const conv_patch_geometry &shape) { // in registers
    return shape.blocks_m() * shape.blocks_n() <= 16;
  }
};

/// Pixels of a block, rows and columns.
constexpr std::pair<int64_t, int64_t> kPatches[] = {{4, 8},   {8, 8},  {4, 16}, {8, 16}, {7, 7},
                                                    {14, 14}, {7, 14}, {4, 28}, {1, 32}, {1, 64}};

/// Tiles that fit, at most `limit` of them.
std::vector<PatchSchedule> tilesOf(const ConvProblem &p, const TargetLevel &level,
                                   size_t limit = SIZE_MAX) {
  std::vector<PatchSchedule> tiles;
  constexpr int64_t kMaxFilters = 64; // of a block, over its groups
  const int64_t filters = ceilDiv(p.filters, 8) * 8;
  // Whole groups, or parts of one.
  llvm::SmallVector<std::pair<int64_t, int64_t>, 8> across; // groups, filters of each
  for (int64_t groups : {1, 2, 3, 4, 8})
    if (groups <= p.groups && groups * filters <= kMaxFilters)
      across.push_back({groups, filters});
  for (int64_t n : {16, 32, 48, 64})
    if (n < filters)
      across.push_back({1, n});
  for (auto [h, w] : kPatches) {
    if (h > 1 && h >= 2 * p.outHeight.upper())
      continue; // more than half of it lies outside
    for (auto [groups, n] : across)
      for (int64_t warpsM : {1, 2, 4, 8})
        for (int64_t warpsN : {1, 2, 4})
          if (const PatchSchedule s{h, w, groups, n, warpsM, warpsN}; s.fits(p, level)) {
            tiles.push_back(s);
            if (tiles.size() == limit)
              return tiles;
          }
  }
  return tiles;
}

/// Whether sums of bytes keep to 22 bits, which Tensor Cores add in fp32 without loss.
Result<> sumsAreExact(const GroupForm &form, const Contraction &c) {
  const Tensor &w = **constantOperand(form, 1)->def()->find("value")->get<Literal>();
  const int64_t low = c.a == Element::I8 ? -128 : 0,
                most = std::max(c.xZero - low, low + 255 - c.xZero),
                depth = w.size() / (c.conv.groups * c.conv.filters);
  for (int64_t first = 0; first < w.size(); first += depth) {
    int64_t sum = 0;
    for (int64_t i = 0; i < depth; ++i)
      sum += std::abs(w.intAt(first + i)) * most;
    if (sum >= int64_t(1) << 22)
      return Refusal{"sums of more than 22 bits", ""};
  }
  return Accepted{};
}

/// Whether A is loaded in runs of 8 channels.
bool loadsRuns(const ContractionProblem &p) {
  const ScalarProgram &a = p.in.form.anchorInputs[0];
  return p.c.conv.channels % 8 == 0 &&
         stridesOf(a.inputs[p.c.mainInput], unsigned(a.space.size())).strides[1].isConstant(1);
}

template <const Generation &G> struct Patch {
  static constexpr llvm::StringRef id = G.id, summary = G.summary;
  using Problem = ContractionProblem;
  using Schedule = PatchSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return isMachineOf(G.machines, in.level) && multipliedAs(in.form).empty();
  }

  static Result<Problem> match(const GroupQuery &in) {
    return readContraction(in, [&](const Contraction &c) -> Result<> {
      const ConvProblem &p = c.conv;
      const bool bytes = !isFloat(in.form.anchor->operand(0)->type().element());
      auto operands =
          bytes ? multipliesBytesOn(G.machines, in, c) : multipliesOn(G.machines, in, c);
      if (auto taken = operands.andThen([&] { return hasWindows(c); }); !taken)
        return taken;
      if (p.isDepthwise() || p.channels > (p.groups > 1 ? kMaxChannels : kMostPatchChannels))
        return Refusal{p.isDepthwise() ? "a depthwise convolution"
                                       : std::to_string(p.channels) + " channels of a group",
                       ""};
      if (bytes)
        if (auto exact = sumsAreExact(in.form, c); !exact)
          return exact;
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
    if (s.groups > 1 && (s.groups > conv.groups || s.n < conv.filters))
      return impossible<Patch>(s, "blocks take several whole groups, or a part of one");
    if (!s.hasRowsForWarps())
      return impossible<Patch>(s, "more than 8 warps, or warps without pixels");
    const conv_patch_geometry shape = s.geometry(conv);
    if (!shape.has_even_parts())
      return impossible<Patch>(s, "a warp takes whole groups, or an even part of one, in eights of "
                                  "filters");
    if (!s.keepsSums(shape))
      return impossible<Patch>(s, std::to_string(shape.blocks_m() * shape.blocks_n()) +
                                      " blocks of 16 pixels and 8 filters for a warp, which has "
                                      "registers for 16");
    return fitsShared(p.in.level, printSchedule(id, s), shape.shared_bytes());
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    return timeOf(p, s, kPatchShortfall);
  }
  static double rank(const Problem &p, const Schedule &s) {
    return timeOf(p, s, kContractionScale);
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packPatchWeights(p.in.form, patchOf(p.c.conv, s.h, s.w, s.groups), out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include(G.header);
    emitContraction(p.in, p.c, membersOf(s), SplitScratch::None, out, G.kernel);
  }

private:
  /// Rounds of resident blocks, each of which waits for its patch and runs through its
  /// instructions, one in four cycles; unless a unit of the multiprocessor is busy for longer: the
  /// schedulers, the tags of the first-level cache, shared memory or the Tensor Cores. Instruction
  /// counts are those of the loops; unmeasured yet. `scale`: of all that is computed or moved.
  static double timeOf(const Problem &p, const Schedule &s, double scale) {
    const ConvProblem &conv = p.c.conv;
    const TargetLevel &level = p.in.level;
    const conv_patch_geometry shape = s.geometry(conv);
    const patch_geometry &patch = shape.patch;
    const double sms = level.multiprocessors, warps = double(s.warpsM * s.warpsN);
    const double blocks = double(s.blocks(conv)), perMultiprocessor = std::ceil(blocks / sms);
    const double resident = std::max(
        1.0, std::min({level.sharedBytes / double(shape.shared_bytes()),
                       (level.sm == 75 ? 1024.0 : 2048.0) / double(shape.threads()), 16.0}));
    const double rounds = std::ceil(perMultiprocessor / std::floor(resident));
    const double steps = double(ceilDiv(patch.runs(), 2)), blocksM = double(shape.blocks_m()),
                 blocksN = double(shape.blocks_n()),
                 fragments = blocksM * std::max(1.0, blocksN / (double(s.n) / 8)); // of A

    // Instructions of a warp. A run of the patch is one asynchronous copy, or a load per element.
    const double elements = double(std::min<int64_t>(patch.fold() * conv.channels, 8));
    const double patchRuns = double(patch.rows() * patch.cells() * patch.cell_runs()),
                 weightRuns = double(s.groups * s.n * patch.runs()),
                 threads = double(shape.threads());
    const double loading =
        std::ceil(patchRuns / threads) * (loadsRuns(p) ? 20 : 20 + 10 * elements) +
        std::ceil(weightRuns / threads) * 12;
    const double multiplying = steps * (4 + 3 * fragments + 2 * blocksN + blocksM * blocksN);
    const double storing = blocksM * (4 * blocksN + std::ceil(blocksN / 2) * 60);
    const double instructions = loading + multiplying + storing;
    // Cycles of a block in the units of its multiprocessor.
    const double issue = warps * instructions / 4;
    const double tags = double(patch.rows() * patch.cells()) + patchRuns / 8;
    const double shared = steps * warps * (4 * fragments + 2 * blocksN);        // 128 bytes each
    const double clock = level.peakGflops / sms / (level.sm == 75 ? 128 : 256); // GHz
    const double tensor =
        steps * warps * blocksM * blocksN * 4096 / (level.tensorTflops * 1e3 / sms / clock * 0.7);
    constexpr double kMemoryLatency = 0.8;
    const double time = rounds * kMemoryLatency +
                        std::max(rounds * 4 * instructions,
                                 perMultiprocessor * std::max({issue, tags, shared, tensor})) /
                            (clock * 1e3);
    Effort e;
    e.bytes = double(workOf(*p.in.form.group).bytes);
    e.blocks = blocks;
    e.launches = 0;
    return level.launchMicroseconds + scale * std::max(time, cuda::microseconds(level, e));
  }
};

} // namespace

Result<> hasWindows(const Contraction &c) {
  if (!c.isConv || c.conv.isPointwise())
    return Refusal{"no convolution with a window", ""};
  if (c.conv.isVolume())
    return Refusal{"three spatial dimensions", ""};
  return Accepted{};
}

int64_t blocksOfTiles(const ConvProblem &p, int64_t tileH, int64_t tileW, int64_t n,
                      int64_t groups) {
  return p.batch.upper() * ceilDiv(p.outHeight.upper(), tileH) *
         ceilDiv(p.outWidth.upper(), tileW) * ceilDiv(p.filters, n) * ceilDiv(p.groups, groups);
}

void packPatchWeights(const GroupForm &form, const patch_geometry &patch,
                      llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int columns = int(w.rank()) - 1;
  auto padded = [&](int dim, int64_t extent) {
    const bool same = w.dim(unsigned(dim)).isConstant(extent);
    return LayoutAxis{dim, 0, false, same ? Dim() : w.context().dim(extent), 0};
  };
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({0, 0, false, Dim(), 0});
  for (int d = 2; d < columns; ++d)
    axes.push_back({d, 0, false, Dim(), 0});
  axes.push_back(padded(columns, patch.taps_w() * patch.fold()));
  axes.push_back(padded(1, patch.pixel()));
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

const Tactic &kConvPatchSm75 = kTacticOf<Patch<kSm75>>;
const Tactic &kConvPatchSm80 = kTacticOf<Patch<kSm80>>;

} // namespace tenon::cuda
