// Defines GroupForm: what one group computes, in the shape that kernels take it.
//
// A group's region is a small graph of at most one anchor (conv, matmul, pool, reduce, softmax …)
// and maps and movement around it. The form flattens it: how each input of the anchor is read and
// what is applied to it on the way in (prologue), and one scalar program over the output space
// with the tensors it reads (body). Movement disappears into the accesses.
//
// A few groups are chains: anchors of which each needs what the one before it makes, and nothing
// else does, and perhaps a map of another space at the end (codegen/schedule/Chains.h).
// Their forms are those of the anchors one by one, and that of the map. Anchors may also stand
// beside the last one: they read what it reads, and its body what they make. Or one anchor reads
// what concats of the group join; that, and its pieces, may be results as well, and what the pieces
// read may be made by other anchors.
#pragma once

#include "ir/IR.h"
#include "ir/Result.h"

#include "llvm/ADT/Optional.h"

namespace tenon {

/// How one dimension of a tensor is indexed from an iteration space:
/// index = offset + step * i[dim], or the constant offset when dim is −1.
struct AccessDim {
  int dim = -1;
  int64_t step = 1;
  Dim offset; // null: 0
};

/// A read (or write) of a region argument of the group from an iteration space.
struct Access {
  Value *source = nullptr; // argument of the group's region
  /// The type it is addressed by: the source's own, or another row-major shape of the same data.
  Type type;
  llvm::SmallVector<AccessDim, 6> dims; // one per dimension of `type`
  /// Set when the read passes a pad: per iteration dimension the half-open range that is inside;
  /// outside it the value is `fill`.
  bool bounded = false;
  llvm::SmallVector<std::pair<Dim, Dim>, 6> inside;
  double fill = 0;

  friend bool operator==(const Access &a, const Access &b);
};

/// One scalar of a program: an input, the anchor's result, or a scalar function of earlier ones.
struct ScalarNode {
  enum Kind : uint8_t { Input, Anchor, Function } kind = Function;
  unsigned index = 0;            // Input: index into inputs; Anchor: result of the anchor
  const Operation *op = nullptr; // Function: the scalar op (kind, attributes)
  llvm::SmallVector<unsigned, 3> operands;
  Element element = Element::F32;
  // `index` ops: position along dimension indexDim of the program's iteration space (−1: 0), times
  // indexStep, plus indexOffset.
  int indexDim = -1;
  int64_t indexStep = 1, indexOffset = 0;
};

/// Scalar SSA over an iteration space.
struct ScalarProgram {
  llvm::SmallVector<Dim, 6> space;
  std::vector<Access> inputs;
  std::vector<ScalarNode> nodes;
  llvm::SmallVector<unsigned, 2> outputs; // node numbers

  /// Exactly one unbounded read, nothing computed.
  bool isPlainRead() const {
    return inputs.size() == 1 && outputs.size() == 1 &&
           nodes[outputs[0]].kind == ScalarNode::Input && !inputs[0].bounded;
  }
  bool usesIndex() const;
};

/// Where one result of the group is written from the body's iteration space.
struct OutputForm {
  /// The type it is addressed by: the result's own, or another row-major shape of the same data.
  Type type;
  llvm::SmallVector<int, 6> dims; // per dimension of `type`: iteration dimension, −1 for extent 1
};

/// A concat in a group: its operands over their logical shapes.
struct JoinForm {
  Operation *concat = nullptr;
  std::vector<ScalarProgram> pieces;
};

struct GroupForm {
  Operation *group = nullptr;
  /// The one structured op that is neither map nor movement; null for pointwise groups.
  Operation *anchor = nullptr;
  /// One per operand of the anchor, over that operand's logical shape.
  std::vector<ScalarProgram> anchorInputs;
  /// Over the output space; reads the anchor's results as Anchor nodes. One output per result of
  /// the group, in order.
  ScalarProgram body;
  std::vector<OutputForm> outputs;
  /// Of a chain the forms of the anchors before this one (or before the map, where `anchor` is
  /// null), first to last. What each makes the next reads like an argument, which it is not; of
  /// joined pieces all of them read it.
  std::vector<GroupForm> before;
  /// The forms of the anchors beside this one. The body reads what each makes like an argument,
  /// which it is not.
  std::vector<GroupForm> beside;
  /// The concats of a group with an anchor. The anchor, and others of them, read what each makes
  /// like an argument, which it is not; results behind those of the body are what one makes or
  /// joins.
  std::vector<JoinForm> joined;

  bool isChain() const { return !before.empty() || !beside.empty() || !joined.empty(); }
  /// The concat that makes `v`; null: none does.
  const JoinForm *joinOf(const Value *v) const;
  /// The form before this one whose anchor makes `v`; null: none does.
  const GroupForm *makerOf(const Value *v) const;
  /// True when the body only hands the anchor's results on.
  bool bodyIsIdentity() const;
};

/// Element strides of an access or output over an iteration space of the given rank, and the
/// element offset of iteration point 0.
struct Strides {
  llvm::SmallVector<Dim, 6> strides;
  Dim offset;
};
Strides stridesOf(const Access &a, unsigned rank);
Strides stridesOf(const OutputForm &o, unsigned rank);
/// Where `read`, an access to what has the shape of `inner`'s iteration space, reads what `inner`
/// does; both are unbounded.
Access composed(const Access &read, const Access &inner);
/// How many dimensions a program's operands have where a kernel sees them through `change`, which
/// may merge some and add others.
unsigned rankThrough(const ScalarProgram &program,
                     llvm::function_ref<Strides(const Strides &)> change);

/// True for operations that a form absorbs into accesses and programs; all others are anchors.
bool isAbsorbable(const Operation &op);

/// Analyses a group; refused when its region has no such form (anchors that are no
/// chain, outputs over different spaces, a reshape between body and anchor that is no index map …).
Result<GroupForm> analyzeGroup(Operation &group);

} // namespace tenon
