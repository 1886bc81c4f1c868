// Defines tactics, each of which is one way to run one kind of group on a target, and choices: a
// group that was read for a tactic, with one of its schedules.
#pragma once

#include "codegen/core/GroupForm.h"
#include "codegen/core/ScheduleFields.h"
#include "codegen/core/Target.h"
#include "ir/Result.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace tenon {

class Alignment;
class StepWriter;
class Tactic;

/// What a tactic is asked about. The form outlives what is made of it.
struct GroupQuery {
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

/// What choices are compared by.
struct Price {
  /// Estimated microseconds by the clock, which users are told; 0 where nothing is estimated.
  double microseconds = 0;
  /// On the scale of the tactics that compete for the group.
  double rank = 0;
  /// C++: how many bits of a weight are read, where that may be few.
  int64_t weightBits = 8;
};

/// A group and one schedule of a tactic, both of which have been read and fit. Everything that it
/// says follows from them: asking twice gives the same.
class Choice {
public:
  explicit Choice(const Tactic &tactic) : tactic(tactic) {}
  virtual ~Choice() = default;

  const Tactic &tactic;

  virtual ScheduleText text() const = 0;
  virtual Price price() const = 0;
  /// The same where the tactic's constants (TacticInfo::costs) are others.
  virtual Price price(llvm::ArrayRef<double> costs) const = 0;
  /// Scratch bytes that live as long as the step.
  virtual int64_t scratch() const = 0;
  /// Bytes that are zero before the first run and that the kernel leaves zero.
  virtual int64_t zeroed() const = 0;
  /// Layouts of the group's weights.
  virtual void pack(llvm::SmallVectorImpl<Packing> &out) const = 0;
  /// C++: how far the result may lie over an operand, by the order of the kernel's reads and
  /// writes; None: it lies apart.
  virtual llvm::Optional<Overlap> overlap() const = 0;
  /// Writes configuration, body and call.
  virtual void emit(StepWriter &out) const = 0;
};
using Choices = std::vector<std::unique_ptr<Choice>>;

/// One of the groups that a chain joins. What it makes is read by others of them alone, the last
/// one's by anybody.
struct ChainPart {
  /// Whether a group around this anchor may be it; null: a group of maps alone.
  bool (*takes)(const Operation &anchor);
  /// The number of the part that reads it, which comes later; of the last one its own.
  unsigned reader;
  /// Another one that does, between the two; the same number: there is none.
  unsigned also = reader;
};

/// Groups whose work one kernel may do, where that is estimated to be faster
/// (codegen/schedule/Chains.h).
struct Chain {
  llvm::StringRef id; // "fuse.…", by which it is switched and reported
  llvm::StringRef summary;
  llvm::ArrayRef<ChainPart> parts; // in the order in which they run
  /// The id of the chain of all parts but the last, which switches this one, too; may be empty.
  llvm::StringRef within = {};
  /// Instead of parts: the groups and the views between them that go with the group `last`, which
  /// is not among them; false where there are none. What concats among them make may be read by
  /// others, too; one that appends to a state in place stays where it is and is repeated in the
  /// joined group, which makes what is new.
  bool (*find)(Operation &last, llvm::SmallVectorImpl<Operation *> &pieces) = nullptr;
};

/// The constants of a kernel family's prices, as codegen/cuda/<family>/costs.inc has them.
struct CostTable {
  llvm::StringRef family;
  llvm::ArrayRef<double> values;
};

/// What there is to say of a tactic without a group.
struct TacticInfo {
  llvm::StringRef id, summary;
  /// Empty where prices have no table of constants.
  CostTable costs = {};
  /// CUDA: whether operands and results may have elements that share bytes, which threads that
  /// write neighbours have to mind.
  bool takesPacked = false;
  /// C++: one instance of its code serves layers of all shapes. --optimize=size takes it wherever
  /// it matches; otherwise it is left aside.
  bool sharesCode = false;
  /// It runs these (GroupForm::before), and nothing else; empty: groups of one anchor at most.
  llvm::ArrayRef<Chain> chains = {};

  /// Whether it is for groups of as many anchors.
  bool takes(const GroupForm &form) const { return form.isChain() == !chains.empty(); }
};

class Tactic {
public:
  const TacticInfo info;

  /// Whether it is for the Tensor Cores of the machine and for operands as the group multiplies
  /// them, whatever else keeps it from the group.
  virtual bool forTensorCores(const GroupQuery &in) const = 0;
  /// The group with every schedule worth trying, best guess first, at least one; refused where the
  /// tactic does not run the group.
  virtual Result<Choices> choices(const GroupQuery &in) const = 0;
  /// The group with a schedule that somebody else may have written; refused, by the tactic's name,
  /// where either does not fit.
  virtual Result<std::unique_ptr<Choice>> choice(const GroupQuery &in,
                                                 const ScheduleText &text) const = 0;

protected:
  constexpr explicit Tactic(const TacticInfo &info) : info(info) {}
  ~Tactic() = default; // tactics are constant objects
};

} // namespace tenon
