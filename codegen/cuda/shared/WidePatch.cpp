// Implements what the tactics of patches that warpgroups multiply share.
#include "codegen/cuda/shared/WidePatch.h"

#include "codegen/core/Work.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kFilling = warpgroup_patch_geometry::filling; // threads that fill patches
constexpr int64_t kMostSteps = 32;                              // of K, all unrolled

/// Whether threads that fill have a column of the patch at least, and wgmma reads it.
bool isReadable(const ConvProblem &p, const WidePatchTiles &t) {
  const warpgroup_patch_geometry shape = t.geometry(p);
  return shape.patch.cells() <= kFilling && shape.runs_ascend();
}

/// What the shape of a convolution has to be.
Result<> isFirstLayer(const ConvProblem &p) {
  if (p.isVolume() || p.taps() == 1)
    return Refusal{"no convolution in two dimensions with a window", ""};
  if (p.groups > 1 || p.channels > kMostPatchChannels)
    return Refusal{p.groups > 1 ? "several groups" : std::to_string(p.channels) + " channels", ""};
  if (WidePatchTiles({1, 32, 1}, nullptr).geometry(p).steps() > kMostSteps)
    return Refusal{"a window of another form than patches are read in", ""};
  return Accepted{};
}

} // namespace

std::vector<WidePatchSchedule> widePatchTilesOf(const ConvProblem &p, const ConvProblem *pool,
                                                const TargetLevel &level) {
  constexpr int64_t kRows[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 2}, {6, 3}, {9, 3}};
  const int64_t filters = int64_t(llvm::alignTo(uint64_t(p.filters), 32)),
                height = (pool ? pool : &p)->outHeight.upper();
  std::vector<WidePatchSchedule> all;
  for (auto [h, consumers] : kRows) {
    const WidePatchTiles t({h, filters <= 128 ? filters : 64, consumers}, pool);
    if ((h == 1 || h < 2 * height) && isReadable(p, t) &&
        t.geometry(p).shared_bytes() <= int64_t(level.sharedBytes))
      all.push_back(t);
  }
  return all;
}

Result<> isWidePatchLegal(const ConvProblem &p, const WidePatchSchedule &s, const ConvProblem *pool,
                          const TargetLevel &level, const ScheduleText &text) {
  if (pool && s.h % s.consumers != 0)
    return impossible(text, "tile_h is no multiple of consumers, which take as many rows each");
  const WidePatchTiles t(s, pool);
  if (!isReadable(p, t))
    return impossible(text, "a window of another form than patches are read in");
  return fitsShared(level, text, t.geometry(p).shared_bytes());
}

Result<ContractionProblem> readFirstLayer(const GroupQuery &in) {
  if (auto wgmma = wantsWgmma(in.level); !wgmma)
    return std::move(wgmma).refusal();
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

double timeOfWidePatches(const GroupQuery &in, const ConvProblem &p, const WidePatchTiles &t,
                         const WidePatchCosts &costs, double consume, int64_t tiles, double scale,
                         double scaleOfMoving) {
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
  const double computing = scale * time, moving = scaleOfMoving * microseconds(in.level, e);
  return in.level.launchMicroseconds + std::max(computing, moving) +
         costs.exposed * std::min(computing, moving);
}

} // namespace tenon::cuda
