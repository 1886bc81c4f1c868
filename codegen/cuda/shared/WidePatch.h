// Defines what the tactics of patches that warpgroups multiply share (conv_patch_sm90a,
// conv_pool_sm90a): first layers of networks, straight from a patch of the image.
#pragma once

#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/ConvPatch.h"
#include "runtime/cuda/warpgroup/geometry.h"

namespace tenon::cuda {

constexpr int64_t kWidePatchW = warpgroup_patch_geometry::tile_w;

/// Nanoseconds.
struct WidePatchCosts {
  double start;         // until the weights are there
  double loads;         // of some rows of the patch that are under way together
  double cell;          // each cell of them
  double row;           // of outputs
  double step;          // of K, in a row
  double column;        // each filter of what is stored
  double tile;          // the rest of it
  double alone, beside; // of a warpgroup by itself, and each of those that get in each other's way
  double exposed;       // of the lesser of computing and moving, as a part of it: not hidden
};

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
struct WidePatchTiles : WidePatchSchedule {
  int64_t rows, ownBytes = 0;

  /// `pool`: the windows of the results, or null.
  WidePatchTiles(const WidePatchSchedule &s, const ConvProblem *pool)
      : WidePatchSchedule(s), rows(h) {
    if (!pool)
      return;
    rows = h * pool->strideH + pool->kernelH - pool->strideH;
    ownBytes = consumers * kWidePatchW * 2 * (n + 8);
  }

  warpgroup_patch_geometry geometry(const ConvProblem &p) const {
    return {patchOf(p, rows, kWidePatchW, 1), n, consumers, ownBytes};
  }
};

/// `pool`: the windows of the results, or null.
std::vector<WidePatchSchedule> widePatchTilesOf(const ConvProblem &p, const ConvProblem *pool,
                                                const TargetLevel &level);

/// Whether the kernels run the schedule: `text` is the whole of it.
Result<> isWidePatchLegal(const ConvProblem &p, const WidePatchSchedule &s, const ConvProblem *pool,
                          const TargetLevel &level, const ScheduleText &text);

/// The convolution, whatever becomes of its results.
Result<ContractionProblem> readFirstLayer(const GroupQuery &in);

/// Rounds of persistent blocks: in each the next tile's patch is filled while one is multiplied and
/// stored. `consume`: nanoseconds of a warpgroup for its part of a tile; `tiles`: of an image.
/// scale: of what multiplies and stores; scaleOfMoving: of what memory takes.
double timeOfWidePatches(const GroupQuery &in, const ConvProblem &p, const WidePatchTiles &t,
                         const WidePatchCosts &costs, double consume, int64_t tiles, double scale,
                         double scaleOfMoving);

} // namespace tenon::cuda
