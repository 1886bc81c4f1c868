// Defines how tactics sort on the device (runtime/cuda/radix_sort.cuh): what it costs, its scratch
// memory, and the statements. Keys are 32-bit numbers; what decides on the time is how many of
// their bits differ.
#pragma once

#include "codegen/Target.h"

#include <string>

namespace tenon {
class StepWriter;
}

namespace tenon::cuda {

/// Scratch bytes for up to `items` items.
int64_t sortBytes(int64_t items);

/// Estimated microseconds for `items` items with keys up to `largest`.
double sortCost(const TargetLevel &level, int64_t items, int64_t largest);

/// Declares `sort`, whose memory is the step's scratch, for `count` (C++) of up to `most` items,
/// and `from`, the list that they stand in.
void beginSort(StepWriter &out, int64_t most, const std::string &count);
/// Sorts by keys up to `largest`.
void sortByKeys(StepWriter &out, int64_t largest);
/// Sorts by index / `length` (C++), up to `largest`.
void sortByRows(StepWriter &out, int64_t largest, const std::string &length);

} // namespace tenon::cuda
