// Defines what is asked of rows (softmax, normalize, scan), and what softmax and normalize share:
// the schedule of kernels in which lanes, and blocks, go along rows
// (runtime/cuda/base/row_group.cuh), what is worth trying, what it costs, and the call.
#pragma once

#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/RowNest.h"

namespace tenon::cuda {

/// At least 1.
int64_t rowsOf(const RowProblem &p);
/// Whether rows, and not the elements of one, lie side by side in the result.
bool areNeighbours(const RowProblem &p);
/// Whether runs of `vector` elements along rows are whole and aligned in all that has a run's
/// elements side by side.
bool areRunsWhole(const RowProblem &p, int64_t vector, const StepWriter &out);

struct RowSchedule {
  int64_t threads, lanes; // of a block, of a row in it
  int64_t across;         // neighbouring threads take neighbouring rows
  int64_t vector, held;   // elements of a run; runs that a thread keeps (0: it reads them again)
  int64_t blocks;         // of a row
  int64_t cluster;        // which are one cluster; else there are two launches

  static llvm::ArrayRef<Field<RowSchedule>> fields();
};

/// Microseconds, but where something else stands.
struct RowCosts {
  double block;   // the start of a block, and its folds
  double fetch;   // a round of loads under way together
  double chain;   // each of a thread's elements, one after the other, whoever else is there
  double run;     // nanoseconds a multiprocessor takes for a warp's runs, beside their elements
  double element; // the same for an element of each lane
  double port;    // KB a microsecond that a multiprocessor reads and writes
  double memory;  // of what the machine's memory moves
  double piece;   // what moving takes beside, as a factor, where rows lie in pieces of 32 bytes
  double cluster; // joining a cluster's blocks
  double launch;  // the second launch
};

/// What a kernel adds: passes over a row that it does not hold, and the bytes of a statistic.
struct RowKernel {
  llvm::StringRef name;
  double passes;
  int64_t partBytes;
};

namespace rows {
void candidates(const RowProblem &p, std::vector<RowSchedule> &out);
Result<> legal(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel);
double microseconds(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel,
                    const RowCosts &c);
int64_t scratch(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel);
/// `flag`, `value`: of the kernel's own configuration; `argument`: behind that, if not empty.
void emit(const RowProblem &p, const RowSchedule &s, const RowKernel &kernel, llvm::StringRef flag,
          bool value, const std::string &argument, StepWriter &out);
} // namespace rows

} // namespace tenon::cuda
