// Declares how recurrent layers are shared out among blocks: what the tactic chooses from, and what
// decides whether loops become such layers at all.
#pragma once

#include "codegen/core/ScheduleFields.h"
#include "codegen/core/Target.h"
#include "ir/Recurrent.h"
#include "runtime/cuda/recurrent/geometry.h"

namespace tenon::cuda {

struct RecurrentSchedule {
  int64_t threads, blocks; // of a block; of a cluster
  int64_t rows;            // of the batch, in a cluster
  int64_t splits, splits1; // of the terms of each product, among the warps

  static llvm::ArrayRef<Field<RecurrentSchedule>> fields();
};

recurrent_geometry geometryOf(const RecurrentShape &shape, const RecurrentSchedule &s);
/// Why a schedule is not possible.
Result<> fits(const TargetLevel &level, const RecurrentShape &shape, const RecurrentSchedule &s);
double stepMicroseconds(const TargetLevel &level, const RecurrentShape &shape,
                        const RecurrentSchedule &s);
/// For each way of sharing out threads, blocks and rows the best splits; fastest first.
std::vector<RecurrentSchedule> recurrentSchedules(const TargetLevel &level,
                                                  const RecurrentShape &shape);

/// Whether a level has a kernel for such layers, and their batch leaves it faster than steps one by
/// one.
bool runsRecurrent(const TargetLevel &level, const RecurrentShape &shape);

} // namespace tenon::cuda
