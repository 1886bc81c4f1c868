// Defines how tactics sort on the device: rows of items, each in one block where it can hold it
// (runtime/cuda/sort/block_sort.cuh), or all of them in passes (runtime/cuda/sort/radix_sort.cuh).
// Keys are 32-bit numbers; what decides on the time is how many of their bits differ.
#pragma once

#include "codegen/core/ScheduleFields.h"
#include "codegen/core/Target.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {
class StepWriter;
}

namespace tenon::cuda {

/// A block that holds a row: each of `threads` has up to `run` items of it.
struct SortBlock {
  int64_t threads, run;
};
/// Items of a thread at most.
constexpr int64_t kLongestSortRun = 32;
/// Refuses a schedule with a block that a multiprocessor has no registers or no memory for.
Result<> fitsMultiprocessor(const TargetLevel &level, const ScheduleText &schedule,
                            SortBlock block);
/// The best block for each of `rows` rows of up to `length` items, none where they are too long.
std::optional<SortBlock> sortBlock(const TargetLevel &level, int64_t rows, int64_t length);
/// Estimated microseconds of its kernel with keys up to `largest`.
double sortBlockMicroseconds(const TargetLevel &level, int64_t rows, SortBlock block,
                             int64_t largest);

/// Items that are sorted row by row: upper bounds, and keys up to `largestKey`.
struct SortedRows {
  int64_t rows, length, largestKey;
  int64_t items() const { return rows * length; }
};
/// Scratch bytes.
int64_t sortBytes(const SortedRows &sorted);
/// Estimated microseconds.
double sortMicroseconds(const TargetLevel &level, const SortedRows &sorted);

/// Declares `sort`, whose memory is the step's scratch, for `count` (C++) items; they stand in its
/// first list.
void beginSort(StepWriter &out, const SortedRows &sorted, const std::string &count);
/// Sorts rows of `length` (C++) items. Returns the list that they stand in then (C++).
std::string emitSort(StepWriter &out, const TargetLevel &level, const SortedRows &sorted,
                     const std::string &length);

} // namespace tenon::cuda
