// Implements --ram-limit, and the same for the memory of a chip: the fewest multiply-adds whose
// arena is within the bound, by computing the first windows of the network in strips
// (passes/Patches.h).
#include "compiler/Compiler.h"

#include "codegen/core/Chips.h"
#include "codegen/memory/Plan.h"
#include "codegen/memory/Pools.h"
#include "passes/Patches.h"

#include "llvm/Support/Format.h"

#include <algorithm>
#include <limits>

namespace tenon {
namespace {

/// Strips that are tried, and most schedules that are made for the search.
constexpr int64_t kCounts[] = {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32};
constexpr int kMostTries = 32, kTriesForLeast = 8;

struct PatchChoice {
  int64_t windows = 0, count = 0;
  PatchEstimate estimate;
  double added() const { // share of multiply-adds that are computed again
    return double(estimate.macs - estimate.wholeMacs) / double(std::max<int64_t>(estimate.macs, 1));
  }
};

std::vector<PatchChoice> choices(Graph &graph) {
  std::vector<PatchChoice> all;
  const int64_t most = patchableWindows(graph);
  for (int64_t windows = 1; windows <= most; ++windows)
    for (int64_t count : kCounts)
      if (auto e = estimatePatches(graph, windows, count))
        all.push_back({windows, count, *e});
  return all;
}

std::string text(const PatchChoice &c) {
  return std::to_string(c.windows) + (c.windows == 1 ? " window" : " windows") + " in " +
         std::to_string(c.count) + " strips";
}

/// What bounds the arena, for messages.
std::string limitedBy(const Target &target, int64_t limit) {
  const Chip *chip = chipOf(*target.levels.front());
  if (!chip || chip->largest().bytes != limit)
    return "--ram-limit";
  return "memory '" + chip->largest().name.str() + "' of " + target.name +
         " (--ram-limit bounds the arena otherwise, --pool spreads it over memories)";
}

} // namespace

llvm::Optional<int64_t> Compiler::arenaInStrips(const Module &optimized, int64_t windows,
                                                int64_t count, const Target &target,
                                                const ScheduleOptions &options) {
  exchange(optimized.clone());
  grouped_ = false;
  if (count) {
    Pipeline pipeline;
    if (!parsePipeline("patches{windows=" + std::to_string(windows) +
                           ",count=" + std::to_string(count) + "}",
                       pipeline, diagnostics_) ||
        !runPasses(pipeline)) {
      fail(status_ == Done ? Defect : status_);
      return llvm::None;
    }
  }
  if (!groupFor(target) || !choose(target, options))
    return llvm::None;
  return planMemory(module_->graph()).arenaBytes;
}

bool Compiler::scheduleWithin(const Target &target, const ScheduleOptions &options) {
  aim(target);
  if (!optimize())
    return false;
  const int64_t limit = options.ramLimit;
  const std::unique_ptr<Module> optimized = module_->clone();
  // Reports are of the last try alone.
  const auto counts = passContext_.counts, statistics = passContext_.statistics;
  const auto fusions = passContext_.fusions;
  const auto runs = runs_;
  auto attempt = [&](int64_t windows, int64_t count) {
    passContext_.counts = counts;
    passContext_.statistics = statistics;
    passContext_.fusions = fusions;
    runs_ = runs;
    return arenaInStrips(*optimized, windows, count, target, options);
  };
  const std::vector<Pool> pools = poolsOf(*module_);
  auto fits = [&](int64_t arena) {
    return arena <= limit &&
           (pools.empty() || beyondPools(planMemory(module_->graph()), pools).empty());
  };
  const auto whole = attempt(0, 0);
  if (!whole)
    return false;
  if (fits(*whole))
    return true;

  std::vector<PatchChoice> all = optimized->stage == Stage::Scheduled ? std::vector<PatchChoice>()
                                                                      : choices(optimized->graph());
  int64_t least = *whole;
  std::string how;
  auto better = [&](const PatchChoice &c, int64_t arena) {
    if (arena < least) {
      least = arena;
      how = ", with " + text(c);
    }
  };
  llvm::stable_sort(all, [](const PatchChoice &a, const PatchChoice &b) {
    return a.estimate.macs - a.estimate.wholeMacs < b.estimate.macs - b.estimate.wholeMacs;
  });
  int tries = 0;
  for (const PatchChoice &c : all) {
    if (c.estimate.bytes > limit || tries++ == kMostTries)
      continue;
    const auto arena = attempt(c.windows, c.count);
    if (!arena)
      return false;
    better(c, *arena);
    if (!fits(*arena))
      continue;
    char added[32];
    snprintf(added, sizeof added, "%.1f", 100 * c.added());
    module_->facts["patches"] =
        text(c) + ", " + added + " % of their multiply-adds repeated; arena " +
        std::to_string(*arena) + " bytes instead of " + std::to_string(*whole);
    return true;
  }
  llvm::stable_sort(all, [](const PatchChoice &a, const PatchChoice &b) {
    return a.estimate.bytes < b.estimate.bytes;
  });
  all.resize(std::min<size_t>(all.size(), kTriesForLeast));
  for (const PatchChoice &c : all) {
    const auto arena = attempt(c.windows, c.count);
    if (!arena)
      return false;
    better(c, *arena);
  }
  if (least <= limit && !pools.empty()) {
    diagnostics_.error(limitedBy(target, limit) + ": arenas down to " + std::to_string(least) +
                       " bytes" + how +
                       ", were found, but none that fits into the memories of --pool");
    return fail(Failed);
  }
  diagnostics_.error(limitedBy(target, limit) + ": expected an arena of at most " +
                     std::to_string(limit) + " bytes; the least that was found is " +
                     std::to_string(least) + how + ", the whole network at once takes " +
                     std::to_string(*whole));
  return fail(Failed);
}

} // namespace tenon
