// flatten-control-flow: loops and branches become plain operations, for targets whose programs are
// one sequence of kernels.
//
//   %r = if %c, %x {A} {B}                    →   A; B; %r = map %c, %a, %b { select }
//   %r = gather (if %c {A} {B}), %i           →   the same of gathers: constants with different
//                                                 numbers of rows, one of them chosen
//   %s, %y = loop %n, %true, %s0 {A}          →   A once for each of n known trips, with the number
//            {carried = 1, scans = 1}              of the trip as a constant; %y a concat
//   the same with a condition of the data     →   A for each trip; a carried value is replaced
//                                                 while the condition holds:
//                                                 map %going, %new, %old
//
// Nothing in the IR but operators of users has effects, so what is computed for nothing costs only
// time. Left as they are: loops without a known bound on their trips, such whose unrolled text
// would be beyond kMostOperations, stacked results whose number depends on data, regions with
// extents that are born inside, and choices between text or complex numbers, which no select takes.
#include "passes/FlattenControlFlow.h"

#include "ir/BornExtents.h"
#include "passes/Rewrite.h"

namespace tenon {
namespace {

constexpr int64_t kMostOperations = 16384;

/// Structured operations of a region and of those inside.
int64_t sizeOf(Region &region) {
  int64_t n = 0;
  for (Operation &op : region) {
    ++n;
    for (unsigned r = 0; holdsStructured(op) && r < op.numRegions(); ++r)
      n += sizeOf(op.region(r));
  }
  return n;
}

/// Whether extents are born in a region: a symbol has one value at a time, so the region neither
/// runs beside another nor stands in several places.
bool bearsExtents(Region &region) {
  return llvm::any_of(region, [](const Operation &op) { return !bornSymbols(op).empty(); });
}

/// Whether all of a region may run although it need not.
bool isSpeculative(Region &region) {
  bool ok = !bearsExtents(region);
  region.walk([&](Operation *op) { ok &= !op->is(Op::User); });
  return ok;
}

/// Whether a select can choose between the values that the data may ask for.
bool isSelectable(const Operation &op) {
  return llvm::none_of(op.results(), [](const Value *v) { return isOpaque(v->type().element()); });
}

/// Copies a region's operations to the builder's place; the values that it yields. `values` maps
/// the region's arguments.
llvm::SmallVector<Value *, 4> inlined(Operation &where, Region &region,
                                      std::map<const Value *, Value *> values) {
  for (Operation &op : region)
    if (!op.isTerminator())
      where.parent()->insertBefore(&where, op.clone(values));
  llvm::SmallVector<Value *, 4> yielded;
  for (Value *v : region.terminator()->operands())
    yielded.push_back(values[v]);
  return yielded;
}

/// One boolean as a tensor of rank 0.
Value *condition(Builder &b, Value *v) { return v->type().rank() ? b.reshape(v, {}) : v; }

/// `yes` where `going`, else `no`; of their type.
Value *selected(Builder &b, Value *going, Value *yes, Value *no) {
  return yes == no ? yes : b.pointwise(Op::Select, {going, yes, no});
}

llvm::Optional<bool> known(const Value *condition) {
  const llvm::Optional<double> v = splatValue(condition);
  return v ? llvm::Optional<bool>(*v != 0) : llvm::None;
}

bool flattenIf(Operation &op, Rewriter &rw) {
  if (op.has("extents"))
    return false;
  const llvm::Optional<bool> which = known(op.operand(0));
  if (!which && (!isSpeculative(op.region(0)) || !isSpeculative(op.region(1)) || !isSelectable(op)))
    return false;
  if (!rw.fire(op))
    return false;
  llvm::SmallVector<llvm::SmallVector<Value *, 4>, 2> yielded;
  for (unsigned r = 0; r < 2; ++r) {
    yielded.emplace_back();
    if (which && *which != (r == 0))
      continue;
    std::map<const Value *, Value *> values;
    for (unsigned i = 1; i < op.numOperands(); ++i)
      values[op.region(r).argument(i - 1)] = op.operand(i);
    yielded[r] = inlined(op, op.region(r), std::move(values));
  }
  if (which) {
    return rw.replace(op, yielded[*which ? 0 : 1]);
  }
  Builder b = rw.before(op);
  Value *going = condition(b, op.operand(0));
  llvm::SmallVector<Value *, 4> results;
  for (unsigned i = 0; i < op.numResults(); ++i)
    results.push_back(selected(b, going, yielded[0][i], yielded[1][i]));
  return rw.replace(op, results);
}

// gather(if c {A} {B}, i) = select(c, gather(A, i), gather(B, i)), A and B constants with different
// numbers of rows, the lower of which gets copies of its last one: rows that are not asked for
bool chosenTable(Operation &op, Rewriter &rw) {
  Operation *def = op.is(Op::Gather) ? op.operand(0)->def() : nullptr;
  if (!def || !def->is(Op::If) || !def->has("extents") || !isSelectable(op))
    return false;
  const unsigned axis = unsigned(op.intAttr("axis")), result = op.operand(0)->index();
  const Value *yielded[2];
  for (unsigned r = 0; r < 2; ++r) {
    yielded[r] = def->region(r).terminator()->operand(result);
    if (!constantValue(yielded[r]))
      return false;
  }
  const Type yes = yielded[0]->type(), no = yielded[1]->type();
  if (yes.rank() != no.rank())
    return false;
  for (unsigned d = 0; d < yes.rank(); ++d)
    if (d != axis && yes.dim(d) != no.dim(d))
      return false;
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  Context &c = yes.context();
  const int64_t rows = std::max(yes.dim(axis).constant(), no.dim(axis).constant());
  Value *chosen[2];
  for (unsigned r = 0; r < 2; ++r) {
    Value *table = b.constant(*constantValue(yielded[r]));
    Dims none(yes.rank(), c.dim(0)), behind = none;
    behind[axis] = c.dim(rows - yielded[r]->type().dim(axis).constant());
    if (!behind[axis].isConstant(0))
      table = b.value(Op::Pad, {table}, {{"low", none}, {"high", behind}, {"mode", Word{"edge"}}});
    chosen[r] = b.value(Op::Gather, {table, op.operand(1)}, {{"axis", int64_t(axis)}});
  }
  return rw.replace(op, selected(b, condition(b, def->operand(0)), chosen[0], chosen[1]));
}

/// The trips of a loop, at most; None when nothing is known.
llvm::Optional<int64_t> tripsOf(const Operation &op) {
  const auto value = inferValue(op.operand(0));
  if (!value || value->size() != 1 || !(*value)[0].isConstant())
    return llvm::None;
  return std::max<int64_t>(0, (*value)[0].constant());
}

class Unrolled {
public:
  Unrolled(Operation &op, int64_t trips, bool always, Builder builder)
      : op_(op), trips_(trips), always_(always), carried_(unsigned(op.intAttr("carried"))),
        scans_(unsigned(op.intAttr("scans"))), b_(std::move(builder)) {}

  llvm::SmallVector<Value *, 4> results() {
    llvm::SmallVector<Value *, 4> carried;
    for (unsigned i = 0; i < carried_; ++i)
      carried.push_back(op_.operand(2 + i));
    stacked_.resize(scans_);
    going_ = op_.operand(1);
    for (int64_t i = 0; i < trips_; ++i)
      trip(i, carried);
    for (unsigned s = 0; s < scans_; ++s)
      carried.push_back(joined(s));
    return carried;
  }

private:
  void trip(int64_t number, llvm::SmallVectorImpl<Value *> &carried) {
    Region &body = op_.region();
    std::map<const Value *, Value *> values;
    const Type counter = body.argument(0)->type();
    Tensor t(Element::I64, llvm::SmallVector<int64_t, 1>(counter.rank(), 1));
    t.set(0, double(number));
    values[body.argument(0)] = b_.constant(t);
    values[body.argument(1)] = going_;
    for (unsigned i = 2; i < op_.numOperands(); ++i)
      values[body.argument(i)] = i < 2 + carried_ ? carried[i - 2] : op_.operand(i);
    const auto yielded = inlined(op_, body, std::move(values));
    Value *goes = always_ ? nullptr : condition(b_, going_);
    for (unsigned i = 0; i < carried_; ++i)
      carried[i] = always_ ? yielded[1 + i] : selected(b_, goes, yielded[1 + i], carried[i]);
    for (unsigned s = 0; s < scans_; ++s) {
      Value *element = yielded[1 + carried_ + s];
      Dims shape{b_.context().dim(1)};
      llvm::append_range(shape, element->type().shape());
      stacked_[s].push_back(b_.reshape(element, shape));
    }
    if (!always_)
      going_ = b_.pointwise(Op::LogicalAnd, {goes, condition(b_, yielded[0])});
  }

  Value *joined(unsigned scan) {
    const Type t = op_.result(carried_ + scan)->type();
    if (stacked_[scan].empty()) { // no trip: no elements
      llvm::SmallVector<int64_t, 6> shape;
      for (Dim d : t.shape())
        shape.push_back(d.constant());
      return b_.constant(Tensor(t.element(), shape));
    }
    return stacked_[scan].size() == 1
               ? stacked_[scan][0]
               : b_.value(Op::Concat, stacked_[scan], {{"axis", int64_t(0)}});
  }

  Operation &op_;
  const int64_t trips_;
  const bool always_;
  const unsigned carried_, scans_;
  Builder b_;
  Value *going_ = nullptr;
  std::vector<llvm::SmallVector<Value *, 4>> stacked_;
};

bool flattenLoop(Operation &op, Rewriter &rw) {
  const llvm::Optional<int64_t> trips = tripsOf(op);
  const bool always = alwaysGoes(op);
  if (!trips || *trips > kMostOperations || *trips * sizeOf(op.region()) > kMostOperations ||
      (!always && (!isSpeculative(op.region()) || !isSelectable(op))) ||
      (*trips > 1 && bearsExtents(op.region())))
    return false;
  if (op.intAttr("scans") > 0) {
    if (!always || op.dimsAttr("max_trip")[0] != op.result()->type().context().dim(*trips))
      return false;
    if (*trips == 0)
      for (Value *v : op.results())
        for (Dim d : v->type().shape())
          if (!d.isConstant())
            return false;
  }
  return rw.fire(op) && rw.replace(op, Unrolled(op, *trips, always, rw.before(op)).results());
}

bool ifPattern(Operation &op, Rewriter &rw) { return op.is(Op::If) && flattenIf(op, rw); }
bool loopPattern(Operation &op, Rewriter &rw) { return op.is(Op::Loop) && flattenLoop(op, rw); }

const Pattern kPatterns[] = {
    {"flatten-control-flow.chosen-table", chosenTable},
    {"flatten-control-flow.if", ifPattern},
    {"flatten-control-flow.loop", loopPattern},
};

} // namespace

bool alwaysGoes(const Operation &op) {
  const Value *after = op.region().terminator()->operand(0);
  return known(op.operand(1)).getValueOr(false) &&
         (after == op.region().argument(1) || known(after).getValueOr(false));
}

bool runFlattenControlFlow(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
