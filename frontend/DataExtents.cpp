// Implements extents that the data decide. A number v from lo to hi becomes one by counting:
//
//   %below = map {space = dims[hi - lo]} { index + lo < v }
//   %found = nonzero %below {symbol = "S"}    : tensor<1x{S}xi64>
//   %known = slice(shape_of %found) + lo      : v, and known as S + lo when compiling
//
// so that whoever reads v from here on, reads an extent. Values outside of the bounds count as the
// bound. A sum over a mask is the extent of what NonZero finds in it.
#include "frontend/DataExtents.h"

#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"
#include "ir/Equality.h"
#include "ir/Interval.h"
#include "ir/Names.h"
#include "ir/ops/Ops.h"

#include "llvm/ADT/DenseSet.h"

#include <cmath>

namespace tenon::frontend {
namespace {

constexpr double kWidestRange = 1 << 20; // of a number: as much is counted
constexpr unsigned kDeepest = 200;

/// Bounds of every element of a value: from the functions that compute it, from the extents of
/// shapes, and from the ranges that the options give to tensors by name.
class Bounds {
public:
  explicit Bounds(const ModelImport &state) : state_(state) {}

  Interval of(Value *v) {
    auto known = memo_.find(v);
    if (known != memo_.end())
      return known->second;
    Interval r = Interval::of(v->type().element());
    if (depth_ < kDeepest) {
      ++depth_;
      r = meet(r, compute(v));
      --depth_;
    }
    auto range = state_.resultRanges.find(v->hint());
    if (range != state_.resultRanges.end() && isInteger(v->type().element()))
      r = meet(r, {double(range->second.lower), double(range->second.upper)});
    return memo_[v] = r;
  }

private:
  static Interval meet(Interval a, Interval b) {
    return {std::max(a.low, b.low), std::min(a.high, b.high)};
  }
  static Interval upTo(Dim count) { return {0, std::max(0.0, double(count.upper()) - 1)}; }

  Interval ofOperands(const Operation &op) {
    Interval all = of(op.operand(0));
    for (unsigned i = 1; i < op.numOperands(); ++i)
      all = hull(all, of(op.operand(i)));
    return all;
  }

  Interval ofArgument(Value *v) {
    Operation *owner = v->argumentOf()->parentOp();
    if (!owner) {
      auto range = state_.valueRanges.find(v);
      return range == state_.valueRanges.end()
                 ? Interval()
                 : Interval{double(range->second.lower), double(range->second.upper)};
    }
    if (owner->is(Op::If))
      return of(owner->operand(v->index() + 1));
    if (!owner->is(Op::Loop) || v->index() == 1)
      return {};
    if (v->index() == 0)
      return {0, std::max(0.0, of(owner->operand(0)).high - 1)};
    return int64_t(v->index()) >= 2 + owner->intAttr("carried") ? of(owner->operand(v->index()))
                                                                : Interval();
  }

  Interval ofMap(const Operation &op, unsigned result) {
    std::map<const Value *, Interval> arguments;
    for (unsigned i = 0; i < op.numOperands(); ++i)
      arguments[op.region().argument(i)] = of(op.operand(i));
    llvm::SmallVector<Dim, 6> space;
    std::string error;
    if (!iterationSpace(op, space, error))
      return {};
    return BodyIntervals(std::move(arguments), space).of(op.region().terminator()->operand(result));
  }

  Interval ofConstant(const Tensor &t) {
    if (isOpaque(t.element()) || t.size() == 0)
      return {};
    Interval all{t.at(0), t.at(0)};
    for (int64_t i = 0; i < t.size(); ++i) {
      if (std::isnan(t.at(i)))
        return {};
      all = hull(all, {t.at(i), t.at(i)});
    }
    return all;
  }

  Interval compute(Value *v) {
    if (auto extents = knownShape(v); extents && !extents->empty()) {
      Interval all{INFINITY, -INFINITY};
      for (Dim d : *extents)
        all = hull(all, {double(d.lower()), double(d.upper())});
      return all;
    }
    Operation *op = v->def();
    if (!op)
      return ofArgument(v);
    switch (op->kind()) {
    case Op::Constant: return ofConstant(**op->find("value")->get<Literal>());
    case Op::Map: return ofMap(*op, v->index());
    case Op::Reduce: return ofReduce(*op);
    case Op::Scan: return ofScan(*op);
    case Op::Reshape:
    case Op::Transpose:
    case Op::Slice:
    case Op::Gather: return of(op->operand(0));
    case Op::Concat: return ofOperands(*op);
    case Op::Pad: return hull(ofOperands(*op), {0, 0});
    case Op::Scatter: return hull(of(op->operand(0)), of(op->operand(2)));
    case Op::Softmax: return {0, 1};
    case Op::Resize: return op->wordAttr("mode") == "cubic" ? Interval() : of(op->operand(0));
    case Op::TopK:
      return v->index() == 0 ? of(op->operand(0))
                             : upTo(op->operand(0)->type().dim(unsigned(op->intAttr("axis"))));
    case Op::NonZero: {
      Interval all{0, 0};
      for (Dim d : op->operand(0)->type().shape())
        all = hull(all, upTo(d));
      return all;
    }
    case Op::NonMaxSuppression: return hull({-1, -1}, upTo(op->operand(1)->type().dim(2)));
    case Op::If: {
      Operation *yes = op->region(0).terminator(), *no = op->region(1).terminator();
      return yes && no ? hull(of(yes->operand(v->index())), of(no->operand(v->index())))
                       : Interval();
    }
    default: return {};
    }
  }

  Interval ofReduce(const Operation &op) {
    const Operation *combiner = op.region().terminator()->operand(0)->def();
    if (op.numResults() != 1 || op.numOperands() != 1 || !combiner)
      return {};
    const Interval x = of(op.operand(0));
    if (combiner->isAny(Op::Max, Op::Min))
      return x; // of no elements it is the type's own bound
    if (!combiner->is(Op::Add))
      return {};
    llvm::SmallVector<Dim, 6> space;
    std::string error;
    if (!iterationSpace(op, space, error))
      return {};
    double count = 1;
    for (int64_t axis : op.intsAttr("axes"))
      count *= double(space[size_t(axis)].upper());
    return {boundProduct(count, std::min(x.low, 0.0)), boundProduct(count, std::max(x.high, 0.0))};
  }

  Interval ofScan(const Operation &op) {
    const Operation *combiner = op.region().terminator()->operand(0)->def();
    if (!combiner || !combiner->is(Op::Add))
      return {};
    const Interval x = of(op.operand(0));
    const double count =
        double(op.operand(0)->type().dim(unsigned(op.intAttr("axis"))).upper()); // terms at most
    return {boundProduct(count, std::min(x.low, 0.0)), boundProduct(count, std::max(x.high, 0.0))};
  }

  const ModelImport &state_;
  llvm::DenseMap<Value *, Interval> memo_;
  unsigned depth_ = 0;
};

/// Whether inferValue sees through the operation when it knows the operands.
bool isTransparent(const Operation &op) {
  if (op.is(Op::Gather))
    return knownTensor(op.operand(1)).hasValue();
  if (op.info().traits & OpTrait::Movement)
    return true;
  if (!op.isAny(Op::Map, Op::Reduce))
    return false;
  return llvm::all_of(op.region(), [](const Operation &s) {
    return s.isTerminator() ||
           s.isAny(Op::Const, Op::Index, Op::Cast, Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Mod,
                   Op::Min, Op::Max, Op::Clamp, Op::Relu, Op::Neg, Op::Select, Op::Equal,
                   Op::NotEqual, Op::Less, Op::LessEqual, Op::Greater, Op::GreaterEqual);
  });
}

/// The mask whose true elements `v` counts: a sum over all of it. Null for anything else.
Value *countedMask(Value *v) {
  Operation *sum = v->def();
  if (!sum || !sum->is(Op::Reduce) || sum->numResults() != 1 || sum->numOperands() != 1 ||
      v->type().elements() != v->type().context().dim(1) || !isInteger(v->type().element()) ||
      bitWidth(v->type().element()) < 32 || sum->floatsAttr("init")[0] != 0)
    return nullptr;
  const Operation *combiner = sum->region().terminator()->operand(0)->def();
  if (!combiner || !combiner->is(Op::Add) || combiner->operand(0) != sum->region().argument(0) ||
      combiner->operand(1) != sum->region().argument(1))
    return nullptr;
  bool isCast = false;
  for (Value *x = sum->operand(0);;) {
    if (isBool(x->type().element()) && isCast && !(x->def() && x->def()->is(Op::Reshape)))
      return x;
    Operation *def = x->def();
    if (!def || def->numOperands() != 1 || def->numResults() != 1)
      return nullptr;
    if (def->is(Op::Map)) {
      const Operation *end = def->region().terminator(), *body = end->operand(0)->def();
      const bool casts =
          body && body->is(Op::Cast) && body->operand(0) == def->region().argument(0);
      if (!casts || isCast || def->operand(0)->type().shape() != x->type().shape() ||
          def->intListsAttr("maps")[0] != identityMap(x->type().rank()))
        return nullptr;
      isCast = true;
    } else if (!def->is(Op::Reshape)) {
      return nullptr;
    }
    x = def->operand(0);
  }
}

class DataExtents {
public:
  explicit DataExtents(const Node &n) : n_(n), state_(n.graph.state), bounds_(state_) {}

  llvm::Optional<Shape> of(Value *v) {
    trace(v, 0);
    const auto open = llvm::find_if(sources_, [&](Value *source) { return !canPin(source); });
    if (open == sources_.end()) {
      for (Value *source : sources_)
        if (!pin(source))
          return llvm::None;
      if (auto known = knownShape(state_.pinned(v)))
        return known;
    } else if (!canPin(v)) { // of the numbers that have no bounds the first is named
      refuse(*open);
      return llvm::None;
    }
    if (!canPin(v)) {
      refuse(v);
      return llvm::None;
    }
    return pin(v) ? knownShape(state_.pinned(v)) : llvm::None;
  }

  /// Whether of() finds bounds.
  bool isBounded(Value *v) {
    trace(v, 0);
    return canPin(v) || llvm::all_of(sources_, [&](Value *source) { return canPin(source); });
  }

private:
  static bool isShort(Value *v) {
    return v->type().isTensor() && v->type().hasStaticShape() && v->type().upperElements() > 0 &&
           v->type().upperElements() <= kMostBounded;
  }
  static bool isSmall(Value *v) { return isShort(v) && isInteger(v->type().element()); }

  /// Collects what `v` is computed from and has to become known.
  void trace(Value *v, unsigned depth) {
    v = state_.pinned(v);
    if (!seen_.insert(v).second || knownShape(v))
      return;
    Operation *op = v->def();
    if (!op) {
      Operation *owner = v->argumentOf()->parentOp();
      if (owner && owner->is(Op::If))
        return trace(owner->operand(v->index() + 1), depth + 1);
      if (owner && owner->is(Op::Loop) && int64_t(v->index()) >= 2 + owner->intAttr("carried"))
        return trace(owner->operand(v->index()), depth + 1);
    }
    const bool bounded = state_.resultRanges.count(v->hint()); // the user says where
    const bool through =
        op && !bounded && depth < kDeepest && isTransparent(*op) && !countedMask(v) &&
        llvm::all_of(op->operands(), [](Value *x) {
          return isSmall(x) || (isShort(x) && isBool(x->type().element())) || knownTensor(x);
        });
    if (!through) {
      sources_.push_back(v);
      return;
    }
    for (Value *x : op->operands())
      trace(x, depth + 1);
  }

  /// What keeps the numbers in `v` from becoming symbols; empty when nothing does.
  std::string obstacle(Value *v) {
    if (state_.pinned(v) != v || countedMask(v))
      return "";
    if (!isSmall(v))
      return "is no short list of integers";
    const Interval i = bounds_.of(v);
    const double low = std::ceil(i.low), high = std::floor(i.high);
    const Interval all = Interval::of(v->type().element());
    const bool whole = i.low <= all.low || i.high >= all.high;
    if (std::max(-low, high) > 1e15 || (high - low > kWidestRange && whole))
      return "has no bounds";
    if (high - low > kWidestRange || high < low)
      return "lies in " + std::to_string(int64_t(low)) + ".." + std::to_string(int64_t(high)) +
             ", which is not a range of up to " + std::to_string(int64_t(kWidestRange)) +
             " numbers";
    return "";
  }
  bool canPin(Value *v) { return obstacle(v).empty(); }

  void refuse(Value *v) {
    const std::string name = v->hint().empty() ? "" : " '" + v->hint().str() + "'";
    n_.error("the result's extents follow from data: the value" + name + " of type " +
             toString(v->type()) + " " + obstacle(v) +
             (name.empty() ? "; limit it in the model (Clip, Min, Max)"
                           : "; say what it is at least and at most with --range " +
                                 v->hint().str() + "=1..100") +
             ", or bind the input that it is computed from with --bind NAME=@FILE");
  }

  /// Makes the numbers in `v`, which have bounds, symbols, once.
  bool pin(Value *v) {
    if (state_.pinned(v) != v)
      return true;
    const auto uses = v->uses();
    Builder b = behind(v);
    Value *known = nullptr;
    if (Value *mask = countedMask(v)) {
      known = b.cast(b.reshape(countOf(b, v->def(), mask), v->type().shape()), v->type().element());
    } else {
      const Interval i = bounds_.of(v);
      const double low = std::ceil(i.low), high = std::floor(i.high);
      known = low == high
                  ? b.broadcastTo(b.scalarConstant(v->type().element(), low), v->type().shape())
                  : counted(b, v, int64_t(low), int64_t(high));
    }
    if (!known)
      return false;
    for (Use *use : uses)
      use->set(known);
    state_.pin(v, known);
    return true;
  }

  Builder behind(Value *v) {
    Operation *def = v->def();
    Region &region = def ? *def->parent() : *v->argumentOf();
    auto next = def ? std::next(def->getIterator()) : region.begin();
    Builder b =
        next == region.end() ? Builder(region, state_.pending) : Builder(&*next, state_.pending);
    b.location = def ? def->loc() : n_.b.location;
    return b;
  }

  /// How many elements of `mask` are true, [1]: the extent of what NonZero selects by it, so that
  /// whatever is selected fits what was counted.
  Value *countOf(Builder &b, Operation *sum, Value *mask) {
    Value *places = nullptr;
    for (Operation &op : *sum->parent()) {
      if (&op == sum)
        break;
      if (op.is(Op::NonZero) && sameNumbers(op.operand(0), mask))
        places = op.result();
    }
    if (!places) {
      const Dim symbol = state_.bornSymbol(b.context(), sanitizeName(n_.id + "_count"), 0,
                                           mask->type().upperElements());
      places = b.value(Op::NonZero, {mask}, {{"symbol", symbol.symbol().str()}});
    }
    Value *shape = places ? b.value(Op::ShapeOf, {places}) : nullptr;
    return shape ? sliceAlong(b, shape, 0, b.context().dim(1), b.context().dim(1), 1) : nullptr;
  }

  Value *counted(Builder &b, Value *v, int64_t low, int64_t high) {
    Context &c = b.context();
    const Dims one{c.dim(1)};
    Value *flat = b.reshape(b.cast(v, Element::I64), {v->type().elements()});
    Elements numbers;
    for (int64_t k = 0; flat && k < v->type().upperElements(); ++k) {
      Value *number = sliceAlong(b, flat, 0, c.dim(k), one[0], 1);
      number = number ? b.reshape(number, {}) : nullptr;
      Value *below =
          number ? pointwise(b, {number}, {IndexMap{}}, {c.dim(high - low)},
                             [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                               Value *at = s(Op::Add, s.index(0), s.b.scalarInt(Element::I64, low));
                               return s(Op::Less, at, a[0]);
                             })
                 : nullptr;
      const std::string base =
          sanitizeName(v->hint().empty() ? n_.id + "_extent" : v->hint().str());
      const Dim symbol = state_.bornSymbol(c, base, 0, high - low);
      Value *found =
          below ? b.value(Op::NonZero, {below}, {{"symbol", symbol.symbol().str()}}) : nullptr;
      Value *shape = found ? b.value(Op::ShapeOf, {found}) : nullptr;
      numbers.push_back(shape ? sliceAlong(b, shape, 0, c.dim(1), one[0], 1) : nullptr);
      if (!numbers.back())
        return nullptr;
    }
    Value *all =
        numbers.size() == 1 ? numbers[0] : b.value(Op::Concat, numbers, {{"axis", int64_t(0)}});
    if (low != 0)
      all = b.pointwise(Op::Add, {all, b.constant(Tensor::fromInts({low}))});
    all = b.cast(b.reshape(all, v->type().shape()), v->type().element());
    if (all)
      all->setHint(v->hint());
    return all;
  }

  const Node &n_;
  ModelImport &state_;
  Bounds bounds_;
  llvm::DenseSet<Value *> seen_;
  llvm::SmallVector<Value *, 4> sources_;
};

} // namespace

llvm::Optional<Shape> dataExtents(const Node &n, Value *v) { return DataExtents(n).of(v); }
bool hasBounds(const Node &n, Value *v) { return DataExtents(n).isBounded(v); }

} // namespace tenon::frontend
