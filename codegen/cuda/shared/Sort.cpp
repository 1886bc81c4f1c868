// Implements sorting on the device (codegen/cuda/shared/Sort.h).
#include "codegen/cuda/shared/Sort.h"

#include "runtime/cuda/sort/geometry.h"

#include "codegen/cuda/shared/Common.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {
namespace {

/// Beside its three launches: what they wait for each other, and what a thread waits for its run of
/// items. Source: topk_sorted over 256 to 100,000 elements and scatter_sorted over 64 to 30,000
/// rows, each alone (H200, tenon bench --profile).
constexpr double kMicrosecondsOfAPass = 4.3, kMicrosecondsOfFullRuns = 2.3;

/// A pass within a block: what its barriers and sums wait for, and each item of a thread's run; how
/// long a warp keeps shared memory busy, with its counters and with each item; and how long, beside
/// the passes, it reads and writes an item. Source: sort_rows of 4 and of 32 bits, blocks of 128 to
/// 1,024 threads with runs of 1 to 32, 1 to 264 rows (H200, graphs of 20 launches; 9 % off in the
/// mean, a quarter at most).
constexpr double kMicrosecondsOfABlocksPass = 0.25, kMicrosecondsOfAnItem = 0.025,
                 kMicrosecondsOfCounters = 0.033, kMicrosecondsOfAWarpsItem = 0.0065,
                 kMicrosecondsOfMoving = 0.0146;

constexpr int64_t kWarp = 32;

int64_t bitsUpTo(int64_t largest) { return int64_t(llvm::Log2_64(uint64_t(largest) | 1)) + 1; }
double passesUpTo(int64_t largest) {
  return double(
      llvm::divideCeil(uint64_t(bitsUpTo(largest)), uint64_t(block_sort_geometry::digit_bits)));
}
block_sort_geometry geometryOf(SortBlock block) { return {block.threads, block.run}; }

/// A pass reads every item twice and writes it once, in pieces of a few that are neighbours: as
/// long as if it were sixteen times (topk_sorted of 64 x 1,000 and 64 x 4,000).
double microsecondsOfPasses(const TargetLevel &level, int64_t items, int64_t largest) {
  const double passes = passesUpTo(largest);
  Effort e;
  e.bytes = passes * double(items) * sort_geometry::item_bytes * 16;
  e.launches = passes * 3;
  const double full =
      std::min(1.0, double(items) / double(sort_geometry::threads * sort_geometry::run));
  return passes * (kMicrosecondsOfAPass + full * kMicrosecondsOfFullRuns) + microseconds(level, e);
}

} // namespace

Result<> fitsMultiprocessor(const TargetLevel &level, const ScheduleText &schedule,
                            SortBlock block) {
  if (block.threads > geometryOf(block).threads_together())
    return impossible(schedule, "a multiprocessor has registers for " +
                                    std::to_string(geometryOf(block).threads_together()) +
                                    " threads with such runs");
  return fitsShared(level, schedule, geometryOf(block).shared_bytes());
}

std::optional<SortBlock> sortBlock(const TargetLevel &level, int64_t rows, int64_t length) {
  std::optional<SortBlock> best;
  double least = 0;
  for (int64_t threads = 128; threads <= 1024; threads *= 2) {
    const auto run = int64_t(llvm::divideCeil(uint64_t(length), uint64_t(threads)));
    const SortBlock block{threads, std::max<int64_t>(run, 1)};
    if (block.run > kLongestSortRun || threads > geometryOf(block).threads_together() ||
        geometryOf(block).shared_bytes() > int64_t(level.sharedBytes))
      continue;
    const double cost = sortBlockMicroseconds(level, rows, block, UINT32_MAX);
    if (!best || cost < least)
      best = block, least = cost;
  }
  return best;
}

double sortBlockMicroseconds(const TargetLevel &level, int64_t rows, SortBlock block,
                             int64_t largest) {
  const auto sms = uint64_t(std::max(1u, level.multiprocessors));
  const uint64_t fit = uint64_t(geometryOf(block).threads_together() / block.threads);
  const uint64_t together = std::min(fit, llvm::divideCeil(uint64_t(rows), sms));
  const double run = double(block.run), warps = double(together) * double(block.threads) / kWarp;
  const double pass = kMicrosecondsOfABlocksPass + run * kMicrosecondsOfAnItem +
                      warps * (kMicrosecondsOfCounters + run * kMicrosecondsOfAWarpsItem);
  return level.launchMicroseconds +
         double(llvm::divideCeil(uint64_t(rows), sms * fit)) *
             (passesUpTo(largest) * pass + warps * run * kMicrosecondsOfMoving);
}

int64_t sortBytes(const SortedRows &s) { return sort_geometry{s.items()}.scratch_bytes(); }

double sortMicroseconds(const TargetLevel &level, const SortedRows &s) {
  if (const std::optional<SortBlock> block = sortBlock(level, s.rows, s.length))
    return sortBlockMicroseconds(level, s.rows, *block, s.largestKey);
  return microsecondsOfPasses(level, s.items(), s.largestKey) +
         (s.rows > 1 ? microsecondsOfPasses(level, s.items(), s.rows - 1) : 0);
}

void beginSort(StepWriter &out, const SortedRows &s, const std::string &count) {
  out.include("cuda/sort/radix_sort.cuh");
  out.code().line("const auto sort = cuda::sort_space::over(" +
                  out.scratchPointer("cuda::sort_item") + ", " + std::to_string(s.items()) + ", " +
                  count + ");");
}

std::string emitSort(StepWriter &out, const TargetLevel &level, const SortedRows &s,
                     const std::string &length) {
  SourceWriter &w = out.code();
  const std::string bits = std::to_string(bitsUpTo(s.largestKey));
  if (const std::optional<SortBlock> block = sortBlock(level, s.rows, s.length)) {
    out.include("cuda/sort/block_sort.cuh");
    w.line("TENON_CHECK(to.launch<V>(cuda::sort_rows<" + std::to_string(block->threads) + ", " +
           std::to_string(block->run) + ">(sort, " + length + ", " + bits + ")));");
    return "sort.lists[1]";
  }
  w.line("int from = 0;");
  w.line("TENON_CHECK(cuda::sort_by<V>(to, sort, " + bits + ", 0, from));");
  if (s.rows > 1)
    w.line("TENON_CHECK(cuda::sort_by<V>(to, sort, " + std::to_string(bitsUpTo(s.rows - 1)) + ", " +
           length + ", from));");
  return "sort.lists[from]";
}

} // namespace tenon::cuda
