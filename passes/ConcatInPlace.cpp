// concat-in-place: producers write straight into the concat's buffer.
//
//   %a = group … : tensor<1x16x8x8xf32, nhwc>         %a = group … : tensor<…, [0, 2, 3, 1:48]>
//   %b = group … : tensor<1x32x8x8xf32, nhwc>    →    %b = group … : tensor<…, [0, 2, 3, 1:48@16]>
//   %c = concat %a, %b {axis = 1}                     %c = concat %a, %b {axis = 1}
//
// The operand's layout becomes the window of the result's that it fills; all its readers see the
// window, too. A concat all of whose operands lie so moves nothing. Operands along an outermost
// dimension are windows already and need no change of type. What cannot be written in place is
// copied there; every decision is recorded.
#include "passes/ConcatInPlace.h"

#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"

#include "llvm/ADT/DenseSet.h"

namespace tenon {
namespace {

constexpr int64_t kShortestRun = 16; // bytes

/// Elements that lie together in a window of `extent` along `axis` of `whole`.
int64_t innerElements(Type whole, unsigned axis) {
  llvm::SmallVector<unsigned, 6> order;
  if (whole.layout().isRowMajor())
    for (unsigned d = 0; d < whole.rank(); ++d)
      order.push_back(d);
  else
    for (const LayoutAxis &a : whole.layout().axes())
      order.push_back(unsigned(a.dim));
  int64_t n = 1;
  for (size_t i = order.size(); i-- > 0 && order[i] != axis;)
    n *= whole.dim(order[i]).upper();
  return n;
}

Layout dense(Type t) {
  llvm::SmallVector<int, 6> order;
  for (const LayoutAxis &a : t.layout().axes())
    order.push_back(a.dim);
  return order.empty() ? Layout() : Layout::permuted(t.context(), order);
}

class InPlace {
public:
  InPlace(Region &region, PassContext &context) : region_(region), context_(context) {}

  bool run() {
    bool changed = false;
    // Outer concats stand later: their windows are settled before those inside them.
    for (auto it = region_.end(); it != region_.begin();) {
      Operation &op = *--it;
      if (op.is(Op::Concat))
        changed |= concat(op);
      else if (op.isAny(Op::If, Op::Loop))
        for (unsigned r = 0; r < op.numRegions(); ++r)
          changed |= InPlace(op.region(r), context_).run();
    }
    return changed;
  }

private:
  bool concat(Operation &op) {
    const auto axis = unsigned(op.intAttr("axis"));
    const Type whole = op.result()->type();
    bool changed = false;
    int64_t start = 0;
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      if (!v->type().dim(axis).isConstant())
        break; // later windows start at a place known only at run time
      changed |= operand(op, v, whole, axis, start);
      start += v->type().dim(axis).constant();
    }
    return changed;
  }

  bool operand(Operation &op, Value *v, Type whole, unsigned axis, int64_t start) {
    const int64_t bytes = byteSize(v->type().element(), v->type().upperElements());
    auto record = [&](bool accepted, llvm::StringRef reason) {
      FusionRecord r;
      r.accepted = accepted;
      r.id = "concat-in-place.operand";
      if (v->def())
        r.nodes = v->def()->loc();
      mergeLocation(r.nodes, op.loc());
      r.reason = reason.str();
      r.bytesSaved = 2 * bytes;
      context_.fusions.push_back(std::move(r));
      return false;
    };
    Operation *def = v->def();
    if (!def || def->is(Op::Constant))
      return record(false, def ? "a constant is copied in" : "an input is copied in");
    if (!def->is(Op::Group) && !needsKernel(*def))
      return record(false, "the value is a view of another buffer");
    if (def->is(Op::Concat))
      return record(false, "the value is the result of another concat");
    if (v->type().layout() == windowLayout(whole, axis, start)) {
      claimed_.insert(v);
      return false; // made for this place already
    }
    if (dense(v->type()) != dense(whole) || !v->type().layout().isDense())
      return record(false, "the value lies in another order than the result");
    if (claimed_.count(v))
      return record(false, "the value is written in place elsewhere");

    const Type window = v->type().withLayout(windowLayout(whole, axis, start));
    const bool moves = !contiguous(v->type(), whole, axis);
    if (moves) {
      const int64_t element = bitWidth(whole.element());
      const int64_t run = v->type().dim(axis).constant() * innerElements(whole, axis) * element / 8;
      const int64_t at = start * innerElements(whole, axis) * element / 8;
      const int64_t pitch = whole.dim(axis).upper() * innerElements(whole, axis) * element / 8;
      const int64_t alignment = context_.option("alignment") ? context_.option("alignment")
                                                             : context_.target.viewAlignment;
      if (run < kShortestRun)
        return record(false, "runs of " + std::to_string(run) +
                                 " bytes are too short to be written apart");
      if (run % alignment == 0 && (at % alignment || pitch % alignment))
        return record(false, "the window at byte " + std::to_string(at) + " of " +
                                 std::to_string(pitch) + " breaks the alignment of " +
                                 std::to_string(alignment) + " bytes");
      if (const char *reason = unsuitedReader(op, v))
        return record(false, reason);
      if (def->is(Op::Group) && def->region().terminator()->operand(v->index())->def() &&
          def->region().terminator()->operand(v->index())->def()->is(Op::Reshape))
        return record(false, "the value is reshaped as it is written");
    } else if (llvm::any_of(v->uses(), [](Use *u) { return u->owner()->isTerminator(); })) {
      return record(false, "the value is an output of its own");
    }
    if (!context_.fire("concat-in-place.operand", op))
      return record(false, "switched off");
    claimed_.insert(v);
    record(true, "");
    if (!moves)
      return false;
    v->setType(window);
    if (def->is(Op::Group))
      def->region().terminator()->operand(v->index())->setType(window);
    for (Use *u : v->uses())
      if (u->owner()->is(Op::Group))
        u->owner()->region().argument(u->index())->setType(window);
    return true;
  }

  /// The dense value already lies as its window would: all outer extents are 1.
  static bool contiguous(Type t, Type whole, unsigned axis) {
    Type w = t.withLayout(windowLayout(whole, axis, 0));
    const Addressing a = addressing(t), b = addressing(w);
    for (unsigned d = 0; d < t.rank(); ++d)
      if (!t.dim(d).isConstant(1) && a.strides[d] != b.strides[d])
        return false;
    return true;
  }

  /// Why some reader besides the concat cannot take a window; null when all can.
  const char *unsuitedReader(const Operation &concat, Value *v) {
    for (Use *u : v->uses()) {
      Operation *user = u->owner();
      if (user == &concat)
        continue;
      if (user->isTerminator())
        return "the value is an output of its own";
      if (user->isAny(Op::Reshape, Op::Transpose, Op::Slice) && isView(*user))
        return "another operation views the value as it lies";
      if (user->isAny(Op::If, Op::Loop, Op::Concat, Op::User))
        return "another reader needs the value dense";
      if (user->is(Op::Group))
        for (Operation &inner : user->region())
          if (inner.is(Op::Reshape) && inner.operand(0) == user->region().argument(u->index()))
            return "another kernel reshapes the value as it reads";
    }
    return nullptr;
  }

  Region &region_;
  PassContext &context_;
  llvm::DenseSet<Value *> claimed_; // looked up only
};

} // namespace

bool runConcatInPlace(Graph &graph, PassContext &context) {
  return InPlace(graph.body(), context).run();
}

} // namespace tenon
