// Implements sorting on the device (codegen/cuda/Sort.h).
#include "codegen/cuda/Sort.h"

#include "codegen/cuda/Common.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cuda {
namespace {

/// Beside its three launches: what they wait for each other, and what a thread waits for its run of
/// items. Source: topk_sorted over 256 to 100,000 elements and scatter_sorted over 64 to 30,000
/// rows, each alone (H200, tenon bench --profile).
constexpr double kMicrosecondsOfAPass = 4.3, kMicrosecondsOfFullRuns = 2.3;

// As in runtime/cuda/radix_sort.cuh.
constexpr int64_t kItemBytes = 8, kItemsOfABlock = 256 * 8, kDigits = 16, kBitsOfADigit = 4;

int64_t bitsUpTo(int64_t largest) { return int64_t(llvm::Log2_64(uint64_t(largest) | 1)) + 1; }

} // namespace

int64_t sortBytes(int64_t items) {
  return 2 * kItemBytes * items +
         4 * kDigits * int64_t(llvm::divideCeil(uint64_t(items), uint64_t(kItemsOfABlock)));
}

/// A pass reads every item twice and writes it once, in pieces of a few that are neighbours: as
/// long as if it were sixteen times (topk_sorted of 64 x 1,000 and 64 x 4,000).
double sortCost(const TargetLevel &level, int64_t items, int64_t largest) {
  const double passes = std::ceil(double(bitsUpTo(largest)) / kBitsOfADigit);
  Effort e;
  e.bytes = passes * double(items) * kItemBytes * 16;
  e.launches = passes * 3;
  const double full = std::min(1.0, double(items) / double(kItemsOfABlock));
  return passes * (kMicrosecondsOfAPass + full * kMicrosecondsOfFullRuns) + microseconds(level, e);
}

void beginSort(StepWriter &out, int64_t most, const std::string &count) {
  out.include("cuda/radix_sort.cuh");
  SourceWriter &w = out.code();
  w.line("const auto sort = cuda::sort_space::over(" + out.scratchPointer("cuda::sort_item") +
         ", " + std::to_string(most) + ", " + count + ");");
  w.line("int from = 0;");
}

void sortByKeys(StepWriter &out, int64_t largest) { sortByRows(out, largest, "0"); }

void sortByRows(StepWriter &out, int64_t largest, const std::string &length) {
  out.code().line("TENON_CHECK(cuda::sort_by<V>(to, sort, " + std::to_string(bitsUpTo(largest)) +
                  ", " + length + ", from));");
}

} // namespace tenon::cuda
