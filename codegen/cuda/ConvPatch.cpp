// Defines the tactics `conv_patch_sm75` and `conv_patch_sm80`: convolutions whose groups have few
// channels on Tensor Cores, from a patch of the image in shared memory
// (runtime/cuda/conv_patch.cuh): grouped convolutions, and the first layer of a network, whose
// image is rearranged on the way into the patch and needs no kernel for it.
#include "codegen/cuda/ConvPatch.h"
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"

namespace tenon::cuda {
namespace {

struct Generation {
  llvm::StringRef id;
  llvm::StringRef kernel; // conv_<kernel>
  llvm::StringRef header;
  MmaGeneration machines;
};
constexpr Generation kSm75 = {"conv_patch_sm75", "patch_sm75", "cuda/conv_patch_sm75.cuh",
                              kMmaSm75};
constexpr Generation kSm80 = {"conv_patch_sm80", "patch_sm80", "cuda/conv_patch_sm80.cuh",
                              kMmaSm80};

/// Beyond as many channels of a group, the tiles of contract_mma and contract_wgmma are full.
constexpr int64_t kMaxChannels = 64;

/// A schedule's numbers.
struct Tiles {
  int64_t h, w, groups, n, warpsM, warpsN;

  explicit Tiles(const Schedule &s)
      : h(*s.get("tile_h")), w(*s.get("tile_w")), groups(*s.get("tile_groups")),
        n(*s.get("tile_n")), warpsM(*s.get("warps_m")), warpsN(*s.get("warps_n")) {}
  Tiles(int64_t h, int64_t w, int64_t groups, int64_t n, int64_t warpsM, int64_t warpsN)
      : h(h), w(w), groups(groups), n(n), warpsM(warpsM), warpsN(warpsN) {}

  int64_t threads() const { return 32 * warpsM * warpsN; }
  /// Blocks of 16 pixels, and of 8 filters, of a warp.
  int64_t blocksM() const { return ceilDiv(h * w, 16 * warpsM); }
  int64_t blocksN() const { return groups * (n / 8) / warpsN; }
  bool isLegal() const {
    const int64_t of_group = n / 8;
    return groups * of_group % warpsN == 0 &&
           (blocksN() % of_group == 0 || of_group % blocksN() == 0);
  }
  int64_t sharedBytes(const ConvProblem &p) const {
    const PatchLayout l(p, h, w, groups);
    const int64_t operands = 2 * (groups * n * (l.runs | 1) * 8 + l.size),
                  sums = 4 * warpsM * warpsN * 16 * (8 * blocksN() + 4);
    return std::max(operands, sums);
  }
  int64_t blocks(const ConvProblem &p) const { return blocksOfTiles(p, h, w, n, groups); }
};

/// All tiles that fit.
llvm::SmallVector<Tiles, 32> tilesOf(const ConvProblem &p, const TargetLevel &level) {
  constexpr int64_t kPatches[][2] = {{4, 8},   {8, 8},  {4, 16}, {8, 16}, {7, 7},
                                     {14, 14}, {7, 14}, {4, 28}, {1, 32}, {1, 64}};
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
  llvm::SmallVector<Tiles, 32> all;
  for (auto [h, w] : kPatches) {
    if (h > 1 && h >= 2 * p.outHeight.upper())
      continue; // more than half of it lies outside
    for (auto [groups, n] : across)
      for (int64_t warpsM : {1, 2, 4, 8})
        for (int64_t warpsN : {1, 2, 4}) {
          const Tiles t(h, w, groups, n, warpsM, warpsN);
          // Every warp has rows; its sums stay in registers.
          if (warpsM * warpsN <= 8 && 16 * (warpsM - 1) < h * w && t.isLegal() &&
              t.blocksM() * t.blocksN() <= 16 && t.sharedBytes(p) <= int64_t(level.sharedBytes))
            all.push_back(t);
        }
  }
  return all;
}

/// Whether sums of bytes keep to 22 bits, which Tensor Cores add in fp32 without loss.
bool sumsAreExact(const GroupForm &form, const Contraction &c, std::string &why) {
  const Tensor &w = **constantOperand(form, 1)->def()->find("value")->get<Literal>();
  const int64_t low = c.a == Element::I8 ? -128 : 0,
                most = std::max(c.xZero - low, low + 255 - c.xZero),
                depth = w.size() / (c.conv.groups * c.conv.filters);
  for (int64_t first = 0; first < w.size(); first += depth) {
    int64_t sum = 0;
    for (int64_t i = 0; i < depth; ++i)
      sum += std::abs(w.intAt(first + i)) * most;
    if (sum >= int64_t(1) << 22) {
      why = "sums of more than 22 bits";
      return false;
    }
  }
  return true;
}

template <const Generation &G> bool match(const TacticInput &in, std::string &why) {
  auto c = readContraction(in, why);
  const bool bytes = c && !isFloat(in.form.anchor->operand(0)->type().element());
  if (!c ||
      !(bytes ? multipliesBytesOn(G.machines, in, *c, why) : multipliesOn(G.machines, in, *c, why)))
    return false;
  if (!hasWindows(*c, why))
    return false;
  const ConvProblem &p = c->conv;
  if (p.isDepthwise() || p.channels > (p.groups > 1 ? kMaxChannels : kMostPatchChannels)) {
    why = p.isDepthwise() ? "depthwise" : std::to_string(p.channels) + " channels of a group";
    return false;
  }
  if (bytes && !sumsAreExact(in.form, *c, why))
    return false;
  if (tilesOf(p, in.level).empty()) {
    why = "a window whose patches do not fit in shared memory";
    return false;
  }
  return true;
}

template <const Generation &G>
void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  for (const Tiles &t : tilesOf(readContraction(in, why)->conv, in.level))
    out.push_back({G.id.str(),
                   {{"tile_h", t.h},
                    {"tile_w", t.w},
                    {"tile_groups", t.groups},
                    {"tile_n", t.n},
                    {"warps_m", t.warpsM},
                    {"warps_n", t.warpsN}}});
}

/// Whether A is loaded in runs of 8 channels.
bool loadsRuns(const TacticInput &in, const Contraction &c) {
  const ScalarProgram &a = in.form.anchorInputs[0];
  return c.conv.channels % 8 == 0 &&
         stridesOf(a.inputs[c.mainInput], unsigned(a.space.size())).strides[1].isConstant(1);
}

/// Rounds of resident blocks, each of which waits for its patch and runs through its instructions,
/// one in four cycles; unless a unit of the multiprocessor is busy for longer: the schedulers, the
/// tags of the first-level cache, shared memory or the Tensor Cores. Instruction counts are those
/// of the loops; unmeasured yet. `scale`: of all that is computed or moved.
double timeOf(const TacticInput &in, const Schedule &s, double scale) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const ConvProblem &p = c.conv;
  const Tiles t(s);
  const PatchLayout l(p, t.h, t.w, t.groups);
  const double sms = in.level.multiprocessors, warps = double(t.warpsM * t.warpsN);
  const double blocks = double(t.blocks(p)), perMultiprocessor = std::ceil(blocks / sms);
  const double resident =
      std::max(1.0, std::min({in.level.sharedBytes / double(t.sharedBytes(p)),
                              (in.level.sm == 75 ? 1024.0 : 2048.0) / double(t.threads()), 16.0}));
  const double rounds = std::ceil(perMultiprocessor / std::floor(resident));
  const double steps = double(ceilDiv(l.runs, 2)), blocksM = double(t.blocksM()),
               blocksN = double(t.blocksN()),
               fragments = blocksM * std::max(1.0, blocksN / (double(t.n) / 8)); // of A

  // Instructions of a warp. A run of the patch is one asynchronous copy, or a load per element.
  const double elements = double(std::min<int64_t>(l.fold * p.channels, 8));
  const double patchRuns = double(l.rows * l.cells * t.groups * l.tapRuns),
               weightRuns = double(t.groups * t.n * l.runs), threads = double(t.threads());
  const double loading =
      std::ceil(patchRuns / threads) * (loadsRuns(in, c) ? 20 : 20 + 10 * elements) +
      std::ceil(weightRuns / threads) * 12;
  const double multiplying = steps * (4 + 3 * fragments + 2 * blocksN + blocksM * blocksN);
  const double storing = blocksM * (4 * blocksN + std::ceil(blocksN / 2) * 60);
  const double instructions = loading + multiplying + storing;
  // Cycles of a block in the units of its multiprocessor.
  const double issue = warps * instructions / 4;
  const double tags = double(l.rows * l.cells) + patchRuns / 8;
  const double shared = steps * warps * (4 * fragments + 2 * blocksN); // 128 bytes each
  const double clock = in.level.peakGflops / sms / (in.level.sm == 75 ? 128 : 256); // GHz
  const double tensor =
      steps * warps * blocksM * blocksN * 4096 / (in.level.tensorTflops * 1e3 / sms / clock * 0.7);
  constexpr double kMemoryLatency = 0.8;
  const double time = rounds * kMemoryLatency +
                      std::max(rounds * 4 * instructions,
                               perMultiprocessor * std::max({issue, tags, shared, tensor})) /
                          (clock * 1e3);
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.blocks = blocks;
  e.launches = 0;
  return in.level.launchMicroseconds + scale * std::max(time, microseconds(in.level, e));
}
double cost(const TacticInput &in, const Schedule &s) { return timeOf(in, s, kContractionScale); }
double clock(const TacticInput &in, const Schedule &s) { return timeOf(in, s, kPatchShortfall); }

void pack(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const Tiles t(s);
  packPatchWeights(in, PatchLayout(readContraction(in, why)->conv, t.h, t.w, t.groups), out);
}

template <const Generation &G>
void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include(G.header);
  emitContraction(in, s, out, G.kernel);
}

template <const Generation &G> bool usesTensorCores(const TacticInput &in) {
  return isMachineOf(G.machines, in.level) && multipliedAs(in.form).empty();
}

template <const Generation &G> constexpr Tactic tactic(llvm::StringRef summary) {
  return {G.id,    summary, match<G>,           enumerate<G>, cost,  pack, nullptr,
          emit<G>, nullptr, usesTensorCores<G>, false,        false, clock};
}

} // namespace

PatchLayout::PatchLayout(const ConvProblem &p, int64_t tileH, int64_t tileW, int64_t groups) {
  fold = p.channels <= 4 && p.strideW % 2 == 0 && p.dilationW == 1 ? 2 : 1;
  pixel = fold == 2 ? 4 : ceilDiv(p.channels, 8) * 8;
  tapRuns = fold * pixel / 8;
  tapsW = ceilDiv(p.kernelW, fold);
  runs = p.kernelH * tapsW * tapRuns;
  step = p.strideW / fold;
  rows = (tileH - 1) * p.strideH + (p.kernelH - 1) * p.dilationH + 1;
  cells = (tileW - 1) * step + (tapsW - 1) * p.dilationW + 1;
  phase = ceilDiv(cells, step);
  size = rows * step * phase * (groups * tapRuns | 1) * 8;
  hasHalves = fold == 2 && p.kernelW % 2 != 0;
}

bool hasWindows(const Contraction &c, std::string &why) {
  const bool has = c.isConv && !c.conv.isPointwise();
  why = has ? "three spatial dimensions" : "no convolution with a window";
  return has && !c.conv.isVolume();
}

int64_t blocksOfTiles(const ConvProblem &p, int64_t tileH, int64_t tileW, int64_t n,
                      int64_t groups) {
  return p.batch.upper() * ceilDiv(p.outHeight.upper(), tileH) *
         ceilDiv(p.outWidth.upper(), tileW) * ceilDiv(p.filters, n) * ceilDiv(p.groups, groups);
}

void packPatchWeights(const TacticInput &in, const PatchLayout &l,
                      llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
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
  axes.push_back(padded(columns, l.tapsW * l.fold));
  axes.push_back(padded(1, l.pixel));
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

const Tactic kConvPatchSm75 =
    tactic<kSm75>("fp16 convolution of few channels a group on the Tensor Cores of sm_75");
const Tactic kConvPatchSm80 =
    tactic<kSm80>("fp16 and bf16 convolution of few channels a group on Tensor Cores");

} // namespace tenon::cuda
