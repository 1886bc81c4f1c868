// Defines what CUDA tactics share: sizes that decide on vectors and index types, the parts of cost
// models, and the launch statement.
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/core/ScheduleFields.h"
#include "codegen/forms/Operands.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {

inline int64_t ceilDiv(int64_t a, int64_t b) {
  return int64_t(llvm::divideCeil(uint64_t(a), uint64_t(b)));
}

/// Blocks of a cluster; every machine with clusters has room for them.
constexpr int64_t kMostOfCluster = 8;

/// Elements of 16 bytes of the widest tensor that the body reads or writes; at least 1.
int64_t vectorLength(const GroupForm &form);

/// True when a tensor of the group has 2^30 elements or more, so that int offsets do not do.
bool isLarge(const GroupForm &form);
/// The same as a reason not to match.
Result<> fitsInt(const GroupForm &form);

/// True when the body reads no padded input and no index.
Result<> isPlainBody(const ScalarProgram &body);

/// Refuses a schedule whose blocks need more shared memory than they can have.
Result<> fitsShared(const TargetLevel &level, const ScheduleText &schedule, int64_t bytes);

/// The schedule of kernels whose threads have runs of elements, as long as anyone likes: what hangs
/// over is cut, and what is not aligned goes element by element.
struct VectorSchedule {
  int64_t vector;
  static AllowedValues allowed() { return oneOf(1, 2, 4, 8, 16); }
  static llvm::ArrayRef<Field<VectorSchedule>> fields();
};
/// The same over the points of an image, along channels (1) or columns (3).
struct WindowSchedule {
  int64_t along, vector;
  static llvm::ArrayRef<Field<WindowSchedule>> fields();
  /// Runs of 16 bytes along channels and single elements; along columns those alone.
  static void candidates(const GroupForm &form, const ConvProblem &p,
                         std::vector<WindowSchedule> &out);
};

/// A view of what `program` computes: of the tensor itself where it is read as it is, else a
/// computed_view with a functor `<name>_<suffix>`.
std::string operandView(StepWriter &out, const ScalarProgram &program, StepWriter::Change change,
                        llvm::ArrayRef<int> placeOf, llvm::StringRef suffix);

/// Declares what kernels of anchors of one operand take, seen through `change`: `x`, what `program`
/// computes, `outs` and `ins` of the form's body. Returns that body's functor.
std::string declareOperands(StepWriter &out, const GroupForm &form, const ScalarProgram &program,
                            StepWriter::Change change, llvm::ArrayRef<int> placeOf);

/// Places of (n, c, [h,] w) among (n, c, h, w).
llvm::SmallVector<int, 6> planePlaces(const ConvProblem &p);
/// Along which dimension of (n, c, h, w) a window kernel's threads go: 1, channels, where these are
/// contiguous in the first output; else 3, columns.
int64_t runsAlong(const GroupForm &form, const ConvProblem &p);

/// True when runs of `vector` elements along dimension `along` of these strides (extent `extent`)
/// are whole and start at multiples of their size in `value`'s memory.
bool hasWholeRuns(const StepWriter &out, Value *value, const Strides &s, unsigned along, Dim extent,
                  int64_t vector);
/// The same of all that is read from a space of `rank` dimensions, seen through `change`, where
/// what does not move along the dimension may be anything; and of all that a form reads and writes.
bool areReadInWholeRuns(const StepWriter &out, llvm::ArrayRef<Access> reads, unsigned rank,
                        StepWriter::Change change, unsigned along, Dim extent, int64_t vector);
bool areRunsWhole(const StepWriter &out, const GroupForm &form, StepWriter::Change change,
                  unsigned along, Dim extent, int64_t vector);
/// The same but for what the anchor reads.
bool areResultsWhole(const StepWriter &out, const GroupForm &form, StepWriter::Change change,
                     unsigned along, Dim extent, int64_t vector);

/// Microseconds: `bytes` through memory or `operations` of f32 arithmetic at a part of the peak,
/// whichever takes longer, with `blocks` blocks of work spread over the multiprocessors in waves.
struct Effort {
  double bytes = 0;
  double operations = 0;
  double efficiency = 1; // of the peak
  double blocks = 1e9;
  double launches = 1;
  bool tensorCores = false;
};
double microseconds(const TargetLevel &level, const Effort &effort);

/// True when elements of this type share bytes.
inline bool isPacked(Element e) { return bitWidth(e) < 8; }

/// The kernel that walks `extents` pointwise, and its configuration: `map`, or `map_packed` where
/// elements of a result share bytes. `outputs`: the results' strides along `extents`; `vector`:
/// elements a thread of `map` takes.
struct MapKernel {
  std::string name, config;
};
MapKernel mapKernel(StepWriter &out, const GroupForm &form, llvm::ArrayRef<Dim> extents,
                    llvm::ArrayRef<Strides> outputs, int64_t vector);
/// The same over the space of the group's body as it stands.
MapKernel mapKernel(StepWriter &out, const GroupForm &form);

/// Copies `count` neighbours from one pointer (C++) to another.
void emitCopy(StepWriter &out, Dim count, const std::string &to, const std::string &from);

/// Declares scratch `parts` and launches KERNEL_parts(arguments..., parts), before the kernel that
/// joins them.
void launchParts(StepWriter &out, llvm::StringRef kernel, llvm::ArrayRef<std::string> arguments);
/// `return to.launch<V>(cuda::KERNEL(arguments...));`
void launch(StepWriter &out, llvm::StringRef kernel, llvm::ArrayRef<std::string> arguments);

/// A kernel for values of an extent up to `most`.
struct BoundedKernel {
  int64_t most;
  std::vector<std::string> arguments;
};
/// Launches, of kernels in rising order that make the same results, the first that takes the extent
/// `value` that the run has, or the last one. Each costs the text of its configuration and
/// arguments, and nvcc its time.
void launchFirstFor(StepWriter &out, Dim value, llvm::StringRef kernel,
                    llvm::ArrayRef<BoundedKernel> kernels);

} // namespace tenon::cuda
