// Implements legalisation before scheduling.
#include "codegen/Legalize.h"

#include "ir/Builder.h"
#include "ir/Views.h"

#include "llvm/ADT/DenseSet.h"

namespace tenon {
namespace {

class Legalizer {
public:
  explicit Legalizer(Diagnostics &diagnostics) : diagnostics_(diagnostics) {}

  bool run(Graph &graph) {
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

  /// A value that owns the memory it is written to: results of groups that no view shares yet.
  static Value *rootOf(Value *v) {
    while (Operation *op = v->def()) {
      if (!op->isAny(Op::Reshape, Op::Transpose, Op::Slice) || !isView(*op))
        break;
      v = op->operand(0);
    }
    return v;
  }

  void concat(Operation &op) {
    const Type whole = op.result()->type();
    const auto axis = unsigned(op.intAttr("axis"));
    int64_t start = 0;
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      if (!v->type().dim(axis).isConstant() && i + 1 < op.numOperands()) {
        diagnostics_.error(op, "concat along an extent known only at run time is not supported "
                               "except for its last operand; bind the extent with --bind");
        ok_ = false;
        return;
      }
      // In place only when the operand is written by a group straight into this window.
      const bool own = v->def() && v->def()->is(Op::Group) && claimed_.insert(v).second;
      if (!own || !viewOffset(op, i)) {
        const Type window = v->type().withLayout(windowLayout(whole, axis, start));
        Value *copy = copyBefore(&op, v, window, op.loc());
        claimed_.insert(copy);
        op.setOperand(i, copy);
      }
      start += v->type().dim(axis).isConstant() ? v->type().dim(axis).constant() : 0;
    }
  }

  void region(Region &r) {
    for (Operation &op : r.opsEarlyInc()) {
      Operation *now = &op;
      if (op.is(Op::Group))
        if (Operation *bare = unwrap(op))
          now = bare;
      switch (now->kind()) {
      case Op::Concat: concat(*now); break;
      case Op::Reshape:
      case Op::Transpose:
      case Op::Slice:
        if (!isView(*now)) {
          diagnostics_.error(*now,
                             now->name().str() + " outside a group is no view of its operand");
          ok_ = false;
        }
        break;
      case Op::Group:
      case Op::Constant: break;
      case Op::If:
      case Op::Loop:
        for (unsigned i = 0; i < now->numRegions(); ++i)
          region(now->region(i));
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
    for (unsigned i = 0; i < end.numOperands(); ++i) {
      Value *v = end.operand(i);
      if (!v->type().isTensor())
        continue;
      Value *root = rootOf(v);
      Operation *def = root->def();
      const bool own = def && def->isAny(Op::Group, Op::If, Op::Loop) && !claimed_.count(root) &&
                       allocatedElements(root->type()) == v->type().upperElements();
      const bool concatenated = def && def->is(Op::Concat) &&
                                allocatedElements(root->type()) == v->type().upperElements();
      if ((own || concatenated) && v->type().layout().isRowMajor() && taken.insert(root).second)
        continue;
      end.setOperand(
          i, copyBefore(&end, v, v->type().withLayout(Layout()), def ? def->loc() : Location()));
    }
  }

  void yields(Operation &end) {
    if (end.parentOp() && end.parentOp()->isAny(Op::If, Op::Loop))
      outputs(end);
  }

  Diagnostics &diagnostics_;
  bool ok_ = true;
  llvm::DenseSet<Value *> claimed_; // written in place into a concat
};

} // namespace

bool legalizeForEmission(Graph &graph, Diagnostics &diagnostics) {
  return Legalizer(diagnostics).run(graph);
}

} // namespace tenon
