// Defines the memory plan: where every value of a scheduled graph lives. A pure function of the
// scheduled IR, computed last.
#pragma once

#include "codegen/memory/StepOrder.h"
#include "ir/IR.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace tenon {

/// What kind of memory a value's bytes are in.
enum class Home : uint8_t {
  Arena,
  Weights,
  Text, // constants whose elements are addresses: arrays of the generated file
  Input,
  Output,
  State
};

struct Placement {
  Home home = Home::Arena;
  /// Arena, Weights, State: byte offset of the value's base (its addressing starts there). Input,
  /// Output: index among the inputs or outputs of the interface (those that are no states). Text:
  /// index among Plan::texts.
  int64_t at = 0;
  /// Byte offset of the value's base within its buffer.
  int64_t offset = 0;
  /// Elements beyond that, known at run time; null where there are none.
  Dim start;
  /// Index into Plan::buffers; values that share memory (views, in-place) share a buffer.
  unsigned buffer = 0;
};

struct BufferInfo {
  Home home = Home::Arena;
  int64_t at = 0;
  int64_t bytes = 0;
  /// First and last step at which the bytes are live, both included (arena only).
  int firstStep = 0, lastStep = 0;
  /// The steps that read or write them, in order; steps of other branches may run in between.
  llvm::SmallVector<int, 4> steps;
  llvm::SmallVector<Value *, 2> values; // in order of definition
};

/// One thing that runs, in order: a group, or control flow with nested steps.
struct Step {
  Operation *op = nullptr;
  int number = 0;
  /// Scratch placement in the arena; bytes 0 when none.
  int64_t scratchAt = 0, scratchBytes = 0;
  /// Place of the scratch that kernels find zero and leave zero; never shared between steps.
  int64_t zeroedAt = 0, zeroedBytes = 0;
};

struct Plan {
  std::vector<Step> steps; // in execution order, nested ones included
  std::vector<BufferInfo> buffers;
  llvm::DenseMap<const Value *, Placement> placements; // looked up only
  int64_t arenaBytes = 0;
  /// Largest sum of live bytes over the order, the bound no plan can beat for this order. What
  /// steps on several branches need beyond it is the price of running side by side.
  int64_t boundBytes = 0;
  int64_t scratchBytes = 0; // largest scratch of any step, inside arenaBytes
  int64_t zeroedBytes = 0;  // outside arenaBytes
  int64_t weightBytes = 0;
  int64_t stateBytes = 0;
  /// The caller's tensors of fixed extents lie at multiples of kPortAlignment.
  bool alignedPorts = false;
  /// Constants in the order of their place in the weights.
  std::vector<Value *> constants;
  /// Constants of text.
  std::vector<Value *> texts;

  const Placement &operator[](const Value *v) const { return placements.find(v)->second; }
  /// Of the arena's buffers, while a step runs.
  int64_t liveBytes(int step) const;
};

Plan planMemory(Graph &graph);
/// The order that the plan of a graph relies on.
StepOrder orderOf(const Plan &plan);

} // namespace tenon
