// assign-layout: chooses the physical layout of every value.
//
//   %c = conv %x, %w : tensor<1x64x56x56xf32>         %t = map %x { yield } : tensor<…, nhwc>
//   %r = map %c { relu } : tensor<1x64x56x56xf32>  →  %c = conv %t, %w : tensor<…, nhwc>
//   return %r                                         %r = map %c { relu } : tensor<…, nhwc>
//                                                     %y = map %r { yield } : tensor<…xf32>
//
// Convolutions, pools and resizes run with channels innermost; whatever lies between them follows.
// Connected regions of such operations are weighed as a whole: a region whose conversions move
// more bytes than its operations gain stays row-major. Attention reads rows wherever they lie and
// writes its result as the transpose behind it wants it, so that heads are split and merged in
// place. Transposes, reshapes and slices then become views wherever a layout can say what they do.
// Conversions are identity maps (reshapes where nothing moves), one per value and layout, placed at
// the first use; their bytes are counted in assign-layout.conversion-bytes. Weights stay row-major
// here: tactics pack them.
#include "passes/AssignLayout.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace tenon {
namespace {

int64_t bytesOf(Type t) { return byteSize(t.element(), t.upperElements()); }

/// A depthwise convolution, which runs along rows as well; of volumes only so.
bool runsAlongRows(const Operation &op, const TargetTraits &target) {
  return op.is(Op::Conv) && target.depthwiseRows && op.intAttr("groups", 1) > 1 &&
         op.operand(1)->type().dim(1).isConstant(1) && constantValue(op.operand(1)) &&
         isFloat(op.operand(0)->type().element());
}

/// Prefers channels innermost; operand 0 and the result are activations [N, C, spatial…].
bool isSpatial(const Operation &op, const TargetTraits &target) {
  const unsigned rank = op.numResults() ? op.result()->type().rank() : 0;
  return op.isAny(Op::Conv, Op::ConvTranspose, Op::Pool, Op::Resize) && rank >= 3 &&
         op.operand(0)->type().rank() >= 3 && !(rank == 5 && runsAlongRows(op, target));
}

/// How much better, in passes over input and output, channels-last is for an operation.
int64_t gain(const Operation &op, const TargetTraits &target) {
  if (runsAlongRows(op, target))
    return 1;
  return op.isAny(Op::Conv, Op::ConvTranspose) ? 6 : 2;
}

/// Takes the layout of what it reads: elementwise in place.
bool isFollower(const Operation &op) {
  return op.isAny(Op::Map, Op::Concat, Op::Pad, Op::Scan, Op::Softmax, Op::QuantizedSoftmax,
                  Op::Normalize) &&
         op.result()->type().isTensor();
}

bool followsOperand(const Operation &op, unsigned i) {
  Type t = op.operand(i)->type();
  if (!t.isTensor())
    return false;
  switch (op.kind()) {
  case Op::Map: return readsInPlace(op, i);
  case Op::Pad:
  case Op::Scan:
  case Op::Softmax:
  case Op::QuantizedSoftmax:
  case Op::Normalize: return i == 0;
  case Op::Concat: return true;
  default: return false;
  }
}

/// The order of dimensions of a layout without windows.
Layout dense(Context &c, Layout l) {
  llvm::SmallVector<int, 6> order;
  for (const LayoutAxis &a : l.axes())
    order.push_back(a.dim);
  return l.isRowMajor() ? l : Layout::permuted(c, order);
}

/// Whether `v` in layout `l` shows row-major data in place, through transposes and reshapes: pixels
/// with channels innermost are tokens, which are rows of channels.
bool comesInPlace(const Value *v, Layout l) {
  const Operation *def = v->def();
  if (!def || !def->isAny(Op::Transpose, Op::Reshape))
    return false;
  const auto before = operandLayout(*def, l);
  return before && (before->isRowMajor() || comesInPlace(def->operand(0), *before));
}

/// Whether `reader` makes row-major data of `v` in layout `l` in place, or all that reads its
/// result does.
bool goesInPlace(const Value *v, Layout l, const Operation &reader) {
  if (!reader.isAny(Op::Transpose, Op::Reshape))
    return false;
  const auto behind = viewLayout(reader, v->type().withLayout(l));
  const Value *y = reader.result();
  return behind && (behind->isRowMajor() || llvm::all_of(y->uses(), [&](const Use *u) {
                      return goesInPlace(y, *behind, *u->owner());
                    }));
}

class Assigner {
public:
  Assigner(Region &region, PassContext &context) : region_(region), context_(context) {}

  bool run() {
    chooseRegions();
    for (Operation &op : region_.opsEarlyInc())
      assign(op);
    return changed_;
  }

private:
  //===--------------------------------------------------------------------===//
  // Which operations run channels-last
  //===--------------------------------------------------------------------===//

  void chooseRegions() {
    llvm::EquivalenceClasses<Operation *> classes; // leaders are never iterated in this order
    std::vector<Operation *> spatial;
    auto takesPart = [&](Operation *op) {
      return op && (isSpatial(*op, context_.target) || isFollower(*op));
    };
    for (Operation &op : region_) {
      if (!takesPart(&op))
        continue;
      classes.insert(&op);
      for (unsigned i = 0; i < op.numOperands(); ++i)
        if (isSpatial(op, context_.target) ? i == 0 : followsOperand(op, i))
          if (Operation *def = op.operand(i)->def(); takesPart(def) && def->parent() == &region_)
            classes.unionSets(def, &op);
      if (isSpatial(op, context_.target))
        spatial.push_back(&op);
    }
    // Gains and conversions by region, in the order in which regions are met.
    std::map<Operation *, int64_t> balance;
    for (Operation &op : region_) {
      if (!takesPart(&op))
        continue;
      int64_t &sum = balance[classes.getLeaderValue(&op)];
      if (isSpatial(op, context_.target)) {
        sum += gain(op, context_.target) *
               (bytesOf(op.operand(0)->type()) + bytesOf(op.result()->type()));
        Operation *def = op.operand(0)->def();
        if (!takesPart(def) && !readsRowMajor(op) && !(def && def->is(Op::Transpose)) &&
            !comesInPlace(op.operand(0), channelsLast(op.operand(0))))
          sum -= 2 * bytesOf(op.operand(0)->type());
      }
      for (Value *v : op.results())
        if (llvm::any_of(v->uses(), [&](Use *u) {
              return !takesPart(u->owner()) &&
                     !u->owner()->isAny(Op::Transpose, Op::Slice, Op::Reduce) &&
                     !goesInPlace(v, channelsLast(v), *u->owner());
            }))
          sum -= 2 * bytesOf(v->type());
    }
    for (Operation *op : spatial)
      if (context_.target.channelsLast && balance[classes.getLeaderValue(op)] > 0 &&
          context_.fire("assign-layout.channels-last", *op))
        channelsLast_.insert({op, true});
  }

  static Layout channelsLast(const Value *v) {
    const Type t = v->type();
    return t.rank() < 3 ? Layout() : Layout::channelsLast(t.context(), t.rank());
  }

  /// A convolution over few channels reads its input as it lies: one element at a time is
  /// broadcast against a vector of output channels, so the order matters little.
  bool readsRowMajor(const Operation &op) const {
    Dim c = op.operand(0)->type().dim(1);
    return op.is(Op::Conv) && op.intAttr("groups", 1) == 1 && c.isConstant() &&
           c.constant() <= context_.target.rowMajorReadChannels;
  }

  //===--------------------------------------------------------------------===//
  // Assignment in order of definition
  //===--------------------------------------------------------------------===//

  void setLayout(Value *v, Layout l) {
    if (v->type().layout() == l)
      return;
    v->setType(v->type().withLayout(l));
    changed_ = true;
  }

  /// `v` in layout `l`, as it is when it lies so already.
  Value *converted(Value *v, Layout l, Operation &before) {
    Type to = v->type().withLayout(l);
    if (v->type() == to)
      return v;
    Value *&known = conversions_[{v, l.storage()}];
    if (known)
      return known;
    changed_ = true;
    Operation *op;
    Location loc = v->def() ? v->def()->loc() : before.loc();
    if (samePlacement(v->type(), to)) {
      op = Operation::create(Op::Reshape, {v},
                             {{"shape", Dims(to.shape().begin(), to.shape().end())}}, {to});
    } else {
      op = Operation::create(Op::Map, {v}, {{"maps", IntLists{identityMap(to.rank())}}}, {to}, 1);
      Value *s = op->region().addArgument(Type::scalar(to.context(), to.element()));
      op->region().push_back(Operation::create(Op::Yield, {s}, {}, {}));
      context_.statistics["assign-layout.conversion-bytes"] += bytesOf(to);
      ++context_.statistics["assign-layout.conversions"];
    }
    op->loc() = loc;
    region_.insertBefore(&before, op);
    op->result()->setHint(v->hint());
    return known = op->result();
  }

  void rowMajorOperands(Operation &op) {
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (op.operand(i)->type().isTensor())
        op.setOperand(i, converted(op.operand(i), Layout(), op));
  }

  /// Same order of dimensions, whatever window of a larger buffer it is.
  bool hasOrder(Type t, Layout order) {
    Layout d = dense(t.context(), t.layout());
    return d == order || samePlacement(t.withLayout(d), t.withLayout(order));
  }

  void assign(Operation &op) {
    if (isSpatial(op, context_.target) && channelsLast_.count(&op)) {
      Context &c = op.result()->type().context();
      Value *x = op.operand(0);
      Layout in = Layout::channelsLast(c, x->type().rank());
      if (!hasOrder(x->type(), in) && !(x->type().layout().isRowMajor() && readsRowMajor(op)))
        op.setOperand(0, converted(x, in, op));
      for (unsigned i = 1; i < op.numOperands(); ++i)
        op.setOperand(i, converted(op.operand(i), Layout(), op));
      for (Value *y : op.results())
        setLayout(y, Layout::channelsLast(c, y->type().rank()));
      return;
    }
    switch (op.kind()) {
    case Op::Constant: return;
    case Op::Map:
    case Op::Concat:
    case Op::Pad:
    case Op::Scan:
    case Op::Softmax:
    case Op::QuantizedSoftmax:
    case Op::Normalize: follow(op); return;
    case Op::Reduce: reduce(op); return;
    case Op::Attention: attention(op); return;
    case Op::MatMul: product(op); return;
    case Op::Transpose:
    case Op::Reshape:
    case Op::Slice: view(op); return;
    case Op::Recurrent: // reads the inputs' share wherever it lies
      for (unsigned i = 1; i < op.numOperands(); ++i)
        op.setOperand(i, converted(op.operand(i), Layout(), op));
      return;
    case Op::ShapeOf: return; // looks at the type only
    case Op::If:
    case Op::Loop:
      for (unsigned r = 0; r < op.numRegions(); ++r)
        changed_ |= Assigner(op.region(r), context_).run();
      rowMajorOperands(op);
      return;
    default: rowMajorOperands(op); return;
    }
  }

  // map(x: L) : L, and likewise for the other followers
  void follow(Operation &op) {
    Type result = op.result()->type();
    if (!result.isTensor() || result.rank() < 2)
      return;
    Context &c = result.context();
    const Layout preferred = Layout::channelsLast(c, result.rank());
    Layout chosen;
    bool any = false, rowMajor = false, preferredSeen = false;
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      if (!followsOperand(op, i) || constantValue(op.operand(i)))
        continue;
      Layout l = dense(c, op.operand(i)->type().layout());
      rowMajor |= l.isRowMajor();
      preferredSeen |= l == preferred;
      if (!any)
        chosen = l;
      any = true;
    }
    if (preferredSeen)
      chosen = preferred;
    else if (rowMajor)
      chosen = Layout();
    if (chosen.isRowMajor())
      return;
    if (op.isAny(Op::Softmax, Op::QuantizedSoftmax) && chosen != preferred) {
      rowMajorOperands(op);
      return;
    }
    if (!context_.fire("assign-layout.follow", op)) {
      rowMajorOperands(op);
      return;
    }
    for (Value *y : op.results())
      setLayout(y, chosen);
  }

  // reduce(x: L) : L without the reduced dimensions
  void reduce(Operation &op) {
    Type x = op.operand(0)->type();
    Context &c = x.context();
    if (x.layout().isRowMajor() || op.numOperands() != 1 ||
        !isIdentityMap(indexMap(op, 0), x.rank()))
      return;
    llvm::SmallVector<int, 6> order;
    for (const LayoutAxis &a : dense(c, x.layout()).axes()) {
      if (llvm::is_contained(op.intsAttr("axes"), int64_t(a.dim)))
        continue;
      order.push_back(
          a.dim - int(llvm::count_if(op.intsAttr("axes"), [&](int64_t r) { return r < a.dim; })));
    }
    for (Value *y : op.results())
      setLayout(y, Layout::permuted(c, order));
  }

  // matmul(a: L) {trans_a} = matmul(transpose a), where L makes the transpose a view in rows
  void product(Operation &op) {
    const char *const flags[] = {"trans_a", "trans_b"};
    for (unsigned i = 0; i < 2; ++i) {
      Value *v = op.operand(i);
      Type t = v->type();
      if (t.rank() < 2 || !op.boolAttr(flags[i]))
        continue;
      llvm::SmallVector<int, 6> order;
      for (int d = 0; d < int(t.rank()); ++d)
        order.push_back(d);
      std::swap(order.back(), order[order.size() - 2]);
      if (t.layout() != Layout::permuted(t.context(), order) ||
          !context_.fire("assign-layout.view", op))
        continue;
      Builder b(&op, context_.diagnostics);
      b.location = op.loc();
      op.setOperand(i, b.transpose(v, Ints(order.begin(), order.end())));
      op.set(flags[i], false);
      changed_ = true;
    }
    rowMajorOperands(op);
  }

  // attention(q: L, k: L', …) : the layout that makes the transpose behind it row-major
  void attention(Operation &op) {
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (!hasContiguousRows(op.operand(i)->type()) || !context_.enabled("assign-layout.view", &op))
        op.setOperand(i, converted(op.operand(i), Layout(), op));
    Value *y = op.result();
    Operation *reader = onlyReader(y);
    while (reader && reader->is(Op::Map) && reader->numOperands() == 1 &&
           reader->numResults() == 1 && followsOperand(*reader, 0))
      reader = onlyReader(reader->result()); // it follows, as one that quantises does
    // Heads that share keys become neighbours of the others first.
    const Operation *merge = reader && reader->is(Op::Reshape) ? reader : nullptr;
    if (merge)
      reader = onlyReader(merge->result());
    if (!reader || !reader->is(Op::Transpose))
      return;
    llvm::SmallVector<int, 6> order;
    for (int64_t d : reader->intsAttr("perm"))
      order.push_back(int(d));
    llvm::Optional<Layout> layout = Layout::permuted(y->type().context(), order);
    if (merge)
      layout = reshapeLayout(merge->result()->type().withLayout(*layout), y->type());
    if (layout && context_.fire("assign-layout.view", op))
      setLayout(y, *layout);
  }
  static Operation *onlyReader(const Value *v) {
    return v->hasOneUse() ? v->firstUse()->owner() : nullptr;
  }

  /// Whether neighbours along the last dimension are neighbours in memory.
  static bool hasContiguousRows(Type t) {
    if (t.layout().hasBlocks())
      return false;
    return t.rank() == 0 || t.shape().back().isConstant(1) ||
           addressing(t).strides.back().isConstant(1);
  }

  // transpose, reshape, slice: a view where a layout can say it
  void view(Operation &op) {
    Value *x = op.operand(0);
    llvm::Optional<Layout> l = viewLayout(op);
    if (op.is(Op::Slice) && (!l || !aligned(op, *l))) {
      // A copy in the operand's order.
      setLayout(op.result(), dense(op.result()->type().context(), x->type().layout()));
      return;
    }
    if (l && context_.enabled("assign-layout.view", &op)) {
      if (*l != op.result()->type().layout() && context_.fire("assign-layout.view", op))
        setLayout(op.result(), *l);
      return;
    }
    if (op.is(Op::Transpose))
      return; // copies from whatever layout into row-major
    // One conversion is needed; where channels-last is wanted behind, it is made to fit that.
    if (channelsLastWanted(op.result(), 8)) {
      const Layout wanted = Layout::channelsLast(x->type().context(), op.result()->type().rank());
      llvm::Optional<Layout> pulled =
          reshapeLayout(op.result()->type().withLayout(wanted), x->type());
      if (pulled && context_.enabled("assign-layout.view", &op) &&
          context_.fire("assign-layout.view", op)) {
        op.setOperand(0, converted(x, *pulled, op));
        setLayout(op.result(), wanted);
        return;
      }
    }
    op.setOperand(0, converted(x, Layout(), op));
    setLayout(op.result(), Layout());
  }

  /// Whether some operation that runs channels-last reads `v`, through followers and slices.
  bool channelsLastWanted(Value *v, int depth) {
    if (v->type().rank() < 3)
      return false;
    for (Use *u : v->uses()) {
      Operation *user = u->owner();
      if (u->index() == 0 && channelsLast_.count(user))
        return true;
      if (depth > 0 &&
          ((isFollower(*user) && followsOperand(*user, u->index())) || user->is(Op::Slice)) &&
          channelsLastWanted(user->result(), depth - 1))
        return true;
    }
    return false;
  }

  /// Whether a slice's view starts and steps on the target's alignment along the innermost
  /// dimension. Windows of outer dimensions always do when whole rows do.
  bool aligned(const Operation &op, Layout l) {
    const int64_t bytes = bitWidth(op.operand(0)->type().element()) / 8;
    const int64_t alignment =
        context_.option("alignment") ? context_.option("alignment") : context_.target.viewAlignment;
    if (alignment <= 1 || l.isRowMajor())
      return true;
    const LayoutAxis &inner = l.axes().back();
    Dim extent = op.result()->type().dim(unsigned(inner.dim));
    if (!inner.alloc || !inner.alloc.isConstant() || !extent.isConstant() ||
        extent.constant() * bytes % alignment != 0)
      return true; // a dense copy would be no better
    return inner.origin * bytes % alignment == 0 && inner.alloc.constant() * bytes % alignment == 0;
  }

  Region &region_;
  PassContext &context_;
  llvm::DenseMap<Operation *, bool> channelsLast_;                           // looked up only
  std::map<std::pair<Value *, const LayoutStorage *>, Value *> conversions_; // looked up only
  bool changed_ = false;
};

} // namespace

bool runAssignLayout(Graph &graph, PassContext &context) {
  return Assigner(graph.body(), context).run();
}

} // namespace tenon
