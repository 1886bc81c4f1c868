// Defines tactics: each is one way to run one kind of group on a target.
#pragma once

#include "codegen/core/GroupForm.h"
#include "codegen/core/Target.h"
#include "ir/Result.h"

#include "llvm/ADT/ArrayRef.h"

namespace tenon {

class Alignment;
class StepWriter;

struct TacticInput {
  const GroupForm &form;
  const TargetLevel &level;
  /// What is known of addresses; null: nothing.
  const Alignment *alignment = nullptr;
  /// Whether weights that fit into 2 or 4 bits are to take no more.
  bool packWeights = false;
  /// Whether filters may be stored in pairs, which halves the widening of weights.
  bool joinFilters = false;
};

/// A layout that a tactic wants one operand of the group (a constant) to be packed in, and what is
/// stored in it: the constant's attribute `stored`, empty for its elements.
struct Packing {
  unsigned operand;
  Layout layout;
  std::string stored = {};
};

/// The result may begin `bytes` before an operand that dies, or `step` bytes more, any number of
/// times: then no byte of the operand is written before its last read.
struct Overlap {
  unsigned operand = 0; // of the group
  int64_t bytes = 0;
  int64_t step = 1;

  /// The least such distance that is a multiple of `alignment`; None when there is none.
  llvm::Optional<int64_t> distance(int64_t alignment) const;
  bool permits(int64_t distance) const {
    return distance >= bytes && (distance - bytes) % step == 0;
  }
};

/// One of the groups that a chain joins. What it makes is read by another of them alone, the last
/// one's by anybody.
struct ChainPart {
  /// Whether a group around this anchor may be it; null: a group of maps alone.
  bool (*takes)(const Operation &anchor);
  /// The number of the part that reads it, which comes later; of the last one its own.
  unsigned reader;
};

/// Groups whose work one kernel may do, where that is estimated to be faster
/// (codegen/schedule/Chains.h).
struct Chain {
  llvm::StringRef id; // "fuse.…", by which it is switched and reported
  llvm::StringRef summary;
  llvm::ArrayRef<ChainPart> parts; // in the order in which they run
  /// The id of the chain of all parts but the last, which switches this one, too; may be empty.
  llvm::StringRef within = {};
};

struct Tactic {
  llvm::StringRef id;
  llvm::StringRef summary;
  /// What `accepts` asks of groups with as many anchors as the tactic takes.
  Result<> (*match)(const TacticInput &in);
  /// Legal schedules, best guess first; at least one after a successful match.
  void (*enumerate)(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out);
  /// Estimated microseconds, on the scale of the tactics that compete for the group.
  double (*cost)(const TacticInput &in, const Schedule &schedule);
  /// Weight layouts of a schedule.
  void (*pack)(const TacticInput &in, const Schedule &schedule,
               llvm::SmallVectorImpl<Packing> &out);
  /// Scratch bytes that live as long as the step.
  int64_t (*scratch)(const TacticInput &in, const Schedule &schedule);
  /// Writes configuration, body and call. The schedule stands on the group.
  void (*emit)(const TacticInput &in, const Schedule &schedule, StepWriter &out);
  /// Bytes that are zero before the first run and that the kernel leaves zero; null for none.
  int64_t (*zeroed)(const TacticInput &in, const Schedule &schedule) = nullptr;
  /// Whether it is for the Tensor Cores of the machine and for operands as the group multiplies
  /// them; null: it uses none.
  bool (*usesTensorCores)(const TacticInput &in) = nullptr;
  /// CUDA: whether operands and results may have elements that share bytes, which threads that
  /// write neighbours have to mind.
  bool takesPacked = false;
  /// C++: one instance of its code serves layers of all shapes. --optimize=size takes it wherever
  /// it matches; otherwise it is left aside.
  bool sharesCode = false;
  /// Estimated microseconds by the clock, where costs are on another scale; null: the cost.
  double (*clock)(const TacticInput &in, const Schedule &schedule) = nullptr;
  /// It runs these (GroupForm::before), and nothing else; empty: groups of one anchor at most.
  llvm::ArrayRef<Chain> chains = {};
  /// The schedule as the tactic writes it, where one that somebody else wrote is legal for a group
  /// that matches.
  Result<Schedule> (*check)(const TacticInput &in, const Schedule &schedule) = nullptr;
  /// C++: how far the result may lie over an operand, by the order of the kernel's reads and
  /// writes; null: it lies apart.
  llvm::Optional<Overlap> (*overlap)(const TacticInput &in, const Schedule &schedule) = nullptr;
  /// C++: how many bits of a weight the schedule reads, where that may be few; null: whole bytes.
  int64_t (*weightBits)(const Schedule &schedule) = nullptr;

  /// Whether it is for groups of as many anchors.
  bool takes(const GroupForm &form) const { return form.isChain() == !chains.empty(); }
  /// Whether the whole group can run so.
  Result<> accepts(const TacticInput &in) const {
    if (takes(in.form))
      return match(in);
    return Refusal{!chains.empty() ? "one anchor alone" : "several anchors, one after another", ""};
  }
  /// What users are told; 0 where nothing is estimated.
  double microseconds(const TacticInput &in, const Schedule &schedule) const {
    return clock ? clock(in, schedule) : cost ? cost(in, schedule) : 0;
  }
};

/// A group of a scheduled module with the kernel that its schedule names.
struct ScheduledGroup {
  GroupForm form;
  const Tactic *tactic;
  const Schedule *schedule;
};
/// Refused where the group has no schedule, or one that does not fit it.
Result<ScheduledGroup> scheduledGroup(Operation &group, const TargetLevel &level,
                                      const Alignment *alignment = nullptr);

} // namespace tenon
