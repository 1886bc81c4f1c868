// concat-in-place: producers write straight into the concat's buffer.
//
//   %a = group … : tensor<1x16x8x8xf32, nhwc>         %a = group … : tensor<…, [0, 2, 3, 1:48]>
//   %b = group … : tensor<1x32x8x8xf32, nhwc>    →    %b = group … : tensor<…, [0, 2, 3, 1:48@16]>
//   %c = concat %a, %b {axis = 1}                     %c = concat %a, %b {axis = 1}
//
// The operand's layout becomes the window of the result's that it fills; all its readers see the
// window, too. A concat all of whose operands lie so moves nothing. Operands along an outermost
// dimension are windows already and need no change of type. An operand that is itself a concat
// becomes a window, too, and its operands windows of that: in a network with dense connections
// every layer writes once into the buffer of the whole block. Reshapes and transposes without cost
// between an operand and what makes it show the window, too: the maker's layout is then that of the
// window under its own shape. What cannot be written in place is copied there; every decision is
// recorded.
//
//   %k = concat %past, %new {axis = 2}, the next run's %past
//
// A cache that grows from run to run gets room for its largest extent first, so that what is old
// stays where it is.
#include "passes/ConcatInPlace.h"

#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"

#include "llvm/ADT/DenseSet.h"

namespace tenon {
namespace {

/// Where `t` lies along dimension `d` of its buffer, which is larger when `t` is a window of it.
struct Place {
  int64_t origin, extent;
};
Place placeOf(Type t, unsigned d) {
  for (const LayoutAxis &a : t.layout().axes())
    if (a.dim == int(d))
      return {a.origin, (a.alloc ? a.alloc : t.dim(d)).upper()};
  return {0, t.dim(d).upper()};
}

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
    n *= placeOf(whole, order[i]).extent;
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
    const bool grows = isAppend(op);
    bool changed = grows && makeRoom(op, axis);
    const Type whole = op.result()->type();
    Dim start = whole.context().dim(0);
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      if (i > 0 || !grows)
        changed |= operand(op, v, whole, axis, start);
      start = start + v->type().dim(axis);
    }
    return changed;
  }

  bool isAppend(const Operation &op) const {
    Graph *graph = region_.graph();
    return graph &&
           llvm::any_of(graph->states, [&](const State &s) { return appendOf(*graph, s) == &op; });
  }

  /// Legalisation does the same, with copies for readers that need a dense value.
  bool makeRoom(Operation &op, unsigned axis) {
    Value *past = op.operand(0), *whole = op.result();
    const Layout room = roomyLayout(whole->type(), axis);
    if (past->type().layout() == room && whole->type().layout() == room)
      return false;
    Places places;
    for (Value *v : {past, whole})
      if (!withViews(v, room, op, places))
        return false;
    for (auto &[value, layout] : places)
      setLayout(value, layout);
    return true;
  }

  using Places = llvm::SmallVector<std::pair<Value *, Layout>, 4>;
  /// Adds `v` and the views of it, with the layouts in which they lie where `v` does in `layout`;
  /// false where a reader other than `concat` needs what it has now.
  static bool withViews(Value *v, Layout layout, const Operation &concat, Places &places) {
    places.push_back({v, layout});
    const bool isState = v == concat.result() || v == concat.operand(0);
    return llvm::all_of(v->uses(), [&](Use *u) {
      Operation *user = u->owner();
      if (user == &concat || (isState && user->isTerminator()))
        return true;
      if (!user->isAny(Op::Reshape, Op::Transpose, Op::Slice) || !isView(*user))
        return !needsItsLayout(*u);
      const auto behind = viewLayout(*user, v->type().withLayout(layout));
      return behind && withViews(user->result(), *behind, concat, places);
    });
  }

  bool operand(Operation &op, Value *v, Type whole, unsigned axis, Dim start) {
    const int64_t bytes = byteSize(v->type().element(), v->type().upperElements());
    auto record = [&](bool accepted, llvm::StringRef reason) {
      FusionDecision r;
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
    Value *written = writtenValue(v); // in place; v where no view lies between
    Operation *def = written->def();
    if (!def || def->is(Op::Constant))
      return record(false, def ? "a constant is copied in" : "an input is copied in");
    if (!def->isAny(Op::Group, Op::Concat) && !needsKernel(*def))
      return record(false, "the value is a view of another buffer");
    const Layout window = windowLayout(whole, axis, start.isConstant() ? start.constant() : 0);
    if (v->type().layout() == window) {
      claimed_.insert(written);
      return false; // made for this place already
    }
    if (dense(v->type()) != dense(whole) || !v->type().layout().isDense())
      return record(false, "the value lies in another order than the result");
    if (claimed_.count(written))
      return record(false, "the value is written in place elsewhere");

    const bool moves = !contiguous(v->type(), whole, axis);
    if (moves) {
      // Along an extent known at run time every multiple of a row has to be fit.
      auto rows = [&](Dim d) { return d.isConstant() ? d.constant() : 1; };
      const int64_t row = innerElements(whole, axis) * bitWidth(whole.element()) / 8;
      const int64_t run = v->type().dim(axis).upper() * row;
      const int64_t at = rows(start) * row;
      const int64_t pitch = rows(room(whole, axis)) * row;
      const int64_t alignment = context_.option("alignment") ? context_.option("alignment")
                                                             : context_.target.viewAlignment;
      if (std::string why = whyNotApart(run, at, pitch, alignment); !why.empty())
        return record(false, why);
      if (const char *reason = unsuitedReader(op, v))
        return record(false, reason);
      if (def->is(Op::Group) && def->region().terminator()->operand(written->index())->def() &&
          def->region().terminator()->operand(written->index())->def()->is(Op::Reshape))
        return record(false, "the value is reshaped as it is written");
    } else if (isReturned(v)) {
      return record(false, "the value is an output of its own");
    }
    const llvm::Optional<Places> places = moves ? placesOf(v, window) : Places();
    if (!places)
      return record(false, "no layout says where the value lies before it is reshaped");
    if (!context_.fire("concat-in-place.operand", op))
      return record(false, "switched off");
    claimed_.insert(written);
    record(true, "");
    for (auto &[value, layout] : *places)
      setLayout(value, layout);
    return moves;
  }

  /// `v` and what it renames, with the layouts in which they lie where `v` does in `layout`; None
  /// when there are no such layouts.
  static llvm::Optional<Places> placesOf(Value *v, Layout layout) {
    Places places{{v, layout}};
    for (Value *x; v->def() && (x = renamedValue(*v->def())); v = x) {
      llvm::Optional<Layout> behind = operandLayout(*v->def(), layout);
      if (!behind)
        return llvm::None;
      layout = *behind;
      places.push_back({x, layout});
    }
    return places;
  }

  /// Gives a value another layout, also inside the groups that make and read it.
  static void setLayout(Value *v, Layout layout) {
    const Type type = v->type().withLayout(layout);
    v->setType(type);
    if (v->def() && v->def()->is(Op::Group))
      v->def()->region().terminator()->operand(v->index())->setType(type);
    for (Use *u : v->uses())
      if (u->owner()->is(Op::Group))
        u->owner()->region().argument(u->index())->setType(type);
  }

  /// Allocated extent along `axis`.
  static Dim room(Type t, unsigned axis) {
    for (const LayoutAxis &a : t.layout().axes())
      if (a.dim == int(axis) && a.alloc)
        return a.alloc;
    return t.dim(axis);
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

  /// Why some reader of `v`, or of what it renames, besides `reader` cannot take a window; null
  /// when all can.
  static const char *unsuitedReader(const Operation &reader, Value *v) {
    for (Use *u : v->uses())
      if (u->owner() != &reader)
        if (const char *reason = needsItsLayout(*u))
          return reason;
    Operation *def = v->def();
    Value *renamed = def ? renamedValue(*def) : nullptr;
    return renamed ? unsuitedReader(*def, renamed) : nullptr;
  }

  /// Whether `v`, or what it renames, leaves the region.
  static bool isReturned(Value *v) {
    if (llvm::any_of(v->uses(), [](Use *u) { return u->owner()->isTerminator(); }))
      return true;
    Value *renamed = v->def() ? renamedValue(*v->def()) : nullptr;
    return renamed && isReturned(renamed);
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
