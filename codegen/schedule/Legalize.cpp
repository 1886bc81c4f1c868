// Implements legalisation before scheduling.
#include "codegen/schedule/Legalize.h"

#include "ir/Builder.h"
#include "ir/Views.h"

#include "llvm/ADT/DenseSet.h"

#include <set>

namespace tenon {
namespace {

class Legalizer {
public:
  explicit Legalizer(Diagnostics &diagnostics) : diagnostics_(diagnostics) {}

  bool run(Graph &graph) {
    graph.body().walk([&](Operation *op) { apart_ |= op->is(Op::Group) && op->boolAttr("apart"); });
    unwrapAll(graph.body());
    appends(graph);
    region(graph.body());
    return ok_;
  }

private:
  /// A group before `where` that copies `v` into a value of type `type` (same logical type).
  Value *copyBefore(Operation *where, Value *v, Type type, const Location &loc) {
    Operation *g = Operation::create(Op::Group, {v}, {}, {type}, 1);
    g->loc() = loc;
    where->parent()->insertBefore(where, g);
    Value *a = g->region().addArgument(v->type());
    Operation *map = Operation::create(
        Op::Map, {a}, {{"maps", IntLists{identityMap(v->type().rank())}}}, {type}, 1);
    map->loc() = loc;
    g->region().push_back(map);
    Value *s = map->region().addArgument(Type::scalar(type.context(), type.element()));
    map->region().push_back(Operation::create(Op::Yield, {s}, {}, {}));
    g->region().push_back(Operation::create(Op::Yield, {map->result()}, {}, {}));
    if (!v->hint().empty())
      g->result()->setHint(v->hint().str() + "_copy");
    return g->result();
  }

  /// Takes a lone concat, or a reshape or transpose that is a view, out of its group.
  Operation *unwrap(Operation &group) {
    Region &r = group.region();
    Operation &op = r.front();
    Operation *end = r.terminator();
    if (&op == end || op.isTerminator() || &*std::next(op.getIterator()) != end ||
        end->numOperands() != 1 || end->operand(0) != op.result() || op.numResults() != 1)
      return nullptr;
    if (!op.is(Op::Concat) && !(op.isAny(Op::Reshape, Op::Transpose, Op::Slice) && isView(op)))
      return nullptr;
    std::map<const Value *, Value *> map;
    for (unsigned i = 0; i < r.numArguments(); ++i)
      map[r.argument(i)] = group.operand(i);
    Operation *copy = op.clone(map);
    copy->result()->setHint(group.result()->hint());
    copy->result()->setType(group.result()->type());
    if (copy->loc().empty())
      copy->loc() = group.loc();
    group.parent()->insertBefore(&group, copy);
    group.result()->replaceAllUsesWith(copy->result());
    group.erase();
    return copy;
  }

  void unwrapAll(Region &r) {
    for (Operation &op : r.opsEarlyInc())
      if (op.is(Op::Group))
        unwrap(op);
  }

  /// What a state appends lies behind its old elements, in the memory of the state.
  void appends(Graph &graph) {
    for (const State &s : graph.states) {
      Operation *op = appendOf(graph, s);
      if (!op)
        continue;
      const Layout room = roomyLayout(op->result()->type(), unsigned(s.appendAxis));
      relayout(op->operand(0), room, *op);
      relayout(op->result(), room, *op);
      appends_.insert(op);
      kept_.insert({graph.returnOp(), s.output});
    }
  }

  /// Gives the operand or result of `concat` another layout; readers that cannot take it get a
  /// copy in the old one.
  void relayout(Value *v, Layout layout, Operation &concat) {
    const Type old = v->type();
    if (old.layout() == layout)
      return;
    // Asked before the type changes: under the new one a view is none any more.
    llvm::SmallVector<Use *, 4> follow, apart;
    for (Use *u : v->uses())
      if (u->owner() != &concat && !u->owner()->isAny(Op::Concat, Op::Return))
        (needsItsLayout(*u) ? apart : follow).push_back(u); // others look at layouts themselves
    v->setType(old.withLayout(layout));
    for (Use *u : apart)
      u->set(copyBefore(u->owner(), v, old, concat.loc()));
    for (Use *u : follow)
      if (u->owner()->is(Op::Group))
        u->owner()->region().argument(u->index())->setType(v->type());
  }

  /// A value that owns the memory it is written to: results of groups that no view shares yet.
  static Value *rootOf(Value *v) {
    while (Operation *op = v->def()) {
      if (!op->isAny(Op::Reshape, Op::Transpose, Op::Slice) || !isView(*op))
        break;
      v = op->operand(0);
    }
    return v;
  }

  bool canLieInside(Value *v) const {
    Operation *def = v->def();
    return def && !apart_ && (def->is(Op::Group) || (def->is(Op::Concat) && !appends_.count(def)));
  }

  void concat(Operation &op) {
    const Type whole = op.result()->type();
    const auto axis = unsigned(op.intAttr("axis"));
    Dim start = whole.context().dim(0);
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      const Dim here = start;
      start = start + v->type().dim(axis);
      if (i == 0 && appends_.count(&op))
        continue; // in the state already
      // In place only when this window is where the operand is written: by a group, or by what
      // makes the operands of a concat within this one, perhaps under another shape.
      Value *written = writtenValue(v);
      if (canLieInside(written) && windowOffset(op, i, here) && claimed_.insert(written).second)
        continue;
      const Type window =
          v->type().withLayout(windowLayout(whole, axis, here.isConstant() ? here.constant() : 0));
      Value *copy = copyBefore(&op, v, window, op.loc());
      claimed_.insert(copy);
      op.setOperand(i, copy);
    }
  }

  void region(Region &r) {
    for (Operation &op : r.opsEarlyInc()) {
      Operation *now = &op;
      switch (now->kind()) {
      case Op::Concat: concat(*now); break;
      case Op::Reshape:
      case Op::Transpose:
      case Op::Slice:
        if (!isView(*now)) {
          diagnostics_.error(*now, now->name().str() + " from " +
                                       toString(now->operand(0)->type()) + " to " +
                                       toString(now->result()->type()) +
                                       " cannot be done in place: expected an operand that lies in "
                                       "memory in that order; compile with -O0, or without the "
                                       "--state or --disable that this module was made with");
          ok_ = false;
        }
        break;
      case Op::Group:
      case Op::Constant: break;
      case Op::If:
      case Op::Loop:
        for (unsigned i = 0; i < now->numRegions(); ++i) {
          unwrapAll(now->region(i));
          region(now->region(i));
        }
        break;
      case Op::Return: outputs(*now); break;
      case Op::Yield: yields(*now); break;
      default: diagnostics_.error(*now, now->name().str() + " stands outside a group"); ok_ = false;
      }
    }
  }

  /// Operands of the terminator must be whole buffers of their own, dense and row-major.
  void outputs(Operation &end) {
    llvm::DenseSet<Value *> taken;
    for (auto &[op, i] : kept_)
      if (op == &end)
        taken.insert(end.operand(i));
    for (unsigned i = 0; i < end.numOperands(); ++i) {
      Value *v = end.operand(i);
      if (!v->type().isTensor() || kept_.count({&end, i}) || isUnchangedCondition(end, i))
        continue;
      Value *root = rootOf(v);
      Operation *def = root->def();
      const bool own = def && def->isAny(Op::Group, Op::If, Op::Loop) && !claimed_.count(root) &&
                       allocatedElements(root->type()) == v->type().upperElements();
      const bool concatenated = def && def->is(Op::Concat) && !claimed_.count(root) &&
                                allocatedElements(root->type()) == v->type().upperElements();
      if ((own || concatenated) && v->type().layout().isRowMajor() && taken.insert(root).second)
        continue;
      end.setOperand(
          i, copyBefore(&end, v, v->type().withLayout(Layout()), def ? def->loc() : Location()));
    }
  }

  /// Whether a loop goes on as it began; nobody looks at the value then.
  static bool isUnchangedCondition(const Operation &end, unsigned i) {
    const Operation *loop = end.parentOp();
    return i == 0 && loop && loop->is(Op::Loop) && end.operand(0) == loop->region().argument(1);
  }

  void yields(Operation &end) {
    if (end.parentOp() && end.parentOp()->isAny(Op::If, Op::Loop))
      outputs(end);
  }

  Diagnostics &diagnostics_;
  bool ok_ = true;
  bool apart_ = false;              // every result has memory of its own, as at -O0
  llvm::DenseSet<Value *> claimed_; // written in place into a concat
  llvm::DenseSet<Operation *> appends_;
  std::set<std::pair<Operation *, unsigned>> kept_; // outputs that are in their state's memory
};

} // namespace

bool legalizeForEmission(Graph &graph, Diagnostics &diagnostics) {
  return Legalizer(diagnostics).run(graph);
}

} // namespace tenon
