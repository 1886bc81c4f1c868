// raise-recurrent: loops that run a recurrent cell become one operation.
//
//   %h, %y = loop %steps, %true, %h0, %x {A}   →   %y = recurrent %x, %w, %h0 {A on scalars}
//                                                  %h = slice %y at the last step
//
// The body takes the step's share of %x, multiplies the first state by weights, perhaps what it
// makes of that by others, and is pointwise beside: maps over [rows, units], and slices along units
// that begin at multiples of a state's. Every value of the body is then a function of one row and
// one unit of what gates, states and vectors of units have. Where %x is read from its last step to
// the first, so is it by the operation.
#include "passes/RaiseRecurrent.h"

#include "passes/FlattenControlFlow.h"
#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include "ir/Recurrent.h"

namespace tenon {
namespace {

bool isForward(const Operation &slice, unsigned rank, unsigned from) {
  const Dims &starts = slice.dimsAttr("starts");
  const Ints &steps = slice.intsAttr("steps");
  for (unsigned d = from; d < rank; ++d)
    if (!starts[d].isConstant(0) || steps[d] != 1)
      return false;
  return true;
}

/// What `v` reads from the last of its first dimension to the first; null where it is no such
/// slice.
Value *reversed(Value *v) {
  const Operation *slice = v->def();
  if (!slice || !slice->is(Op::Slice) || slice->intsAttr("steps")[0] != -1 ||
      slice->operand(0)->type().shape() != v->type().shape() ||
      !isForward(*slice, v->type().rank(), 1))
    return nullptr;
  return slice->operand(0);
}

/// A loop as a cell: what its regions are made from, once without building anything.
class Cell {
public:
  explicit Cell(Operation &loop)
      : loop_(loop), body_(loop.region()), carried_(unsigned(loop.intAttr("carried"))) {}

  RecurrentShape shape;
  llvm::SmallVector<Value *, 2> weights; // of the graph around the loop, or constants of the body
  llvm::SmallVector<unsigned, 4> order;  // of carried values, as states
  unsigned sequence = 0;                 // the carried value that the loop stacks
  Value *given = nullptr;                // the inputs' share, around the loop
  struct Extra {
    Value *vector;
    int64_t column;
  };
  llvm::SmallVector<Extra, 4> extras;

  bool match() {
    if (carried_ < 1 || loop_.intAttr("scans") != 1 || !alwaysGoes(loop_) || !findShare() ||
        !findProducts())
      return false;
    const Operation &end = *body_.terminator();
    const Value *stacked = end.operand(1 + carried_);
    for (sequence = 0; sequence < carried_ && end.operand(1 + sequence) != stacked;)
      ++sequence;
    if (sequence == carried_)
      return false;
    for (unsigned p = 0; p < products_.size(); ++p)
      if (!build(nullptr, p))
        return false;
    shape.extras = unsigned(extras.size());
    return true;
  }

  /// The operations of region `p`; without a builder only whether there can be any.
  bool build(Region *region, unsigned p) {
    region_ = region;
    product_ = p;
    scalars_.clear();
    llvm::Optional<Builder> b;
    if (region) {
      const Type scalar = Type::scalar(loop_.operand(0)->type().context(), shape.element);
      for (unsigned a = 0; a < shape.arguments(p); ++a)
        region->addArgument(scalar);
      b.emplace(*region, *diagnostics);
      b->location = loop_.loc();
    }
    builder_ = region ? b.getPointer() : nullptr;
    llvm::SmallVector<Value *, 4> yields;
    if (p + 1 < products_.size())
      yields.push_back(scalarOf(products_[p + 1]->operand(0), 0));
    else
      for (unsigned i : order)
        yields.push_back(scalarOf(body_.terminator()->operand(1 + i), 0));
    if (llvm::is_contained(yields, nullptr))
      return false;
    if (builder_)
      builder_->yield(yields);
    return true;
  }

  Diagnostics *diagnostics = nullptr;

private:
  Value *argument(unsigned i) const { return body_.argument(2 + i); }

  /// The value around the loop that `v` is, or a constant of the body; null where it is neither.
  Value *outside(Value *v) const {
    if (v->def())
      return v->def()->is(Op::Constant) ? v : nullptr;
    return v->index() >= 2 + carried_ ? loop_.operand(v->index()) : nullptr;
  }

  bool findShare() {
    const Type state = argument(0)->type();
    if (state.rank() != 2 || !state.dim(1).isConstant() || !isFloat(state.element()))
      return false;
    shape.hidden = state.dim(1).constant();
    shape.rows = state.dim(0).upper();
    shape.element = state.element();
    for (unsigned i = 0; i < carried_; ++i)
      if (argument(i)->type() != state)
        return false;
    for (Operation &op : body_) {
      if (!op.is(Op::Gather))
        continue;
      if (share_ || op.intAttr("axis") != 0 || op.operand(1) != body_.argument(0) ||
          op.operand(1)->type().rank() != 0)
        return false;
      share_ = op.result();
      given = outside(op.operand(0));
    }
    if (!given || given->type().rank() != 3 || given->type().dim(1) != state.dim(0))
      return false;
    shape.inputs = multiple(given->type().dim(2));
    const auto trips = inferValue(loop_.operand(0));
    return shape.inputs > 0 && given->type().element() == shape.element && trips &&
           trips->size() == 1 && (*trips)[0] == given->type().dim(0);
  }
  unsigned multiple(Dim d) const {
    return d.isConstant() && d.constant() % shape.hidden == 0
               ? unsigned(d.constant() / shape.hidden)
               : 0;
  }

  /// The first multiplies a state, the second something else.
  bool findProducts() {
    for (Operation &op : body_)
      if (op.is(Op::MatMul))
        products_.push_back(&op);
    if (products_.empty() || products_.size() > 2)
      return false;
    for (unsigned p = 0; p < products_.size(); ++p) {
      Operation &op = *products_[p];
      Value *w = op.numOperands() == 2 ? outside(op.operand(1)) : nullptr;
      if (!w || w->type().rank() != 2 || !op.boolAttr("trans_b") || op.boolAttr("trans_a") ||
          op.operand(0)->type() != argument(0)->type() || op.result()->type().rank() != 2 ||
          w->type().element() != shape.element || !w->type().dim(1).isConstant(shape.hidden))
        return false;
      shape.gates[p] = multiple(w->type().dim(0));
      if (shape.gates[p] == 0)
        return false;
      weights.push_back(w);
    }
    shape.products = unsigned(products_.size());
    shape.states = carried_;
    for (unsigned i = 0; i < carried_; ++i)
      if (products_[0]->operand(0) == argument(i))
        order.insert(order.begin(), i);
      else
        order.push_back(i);
    return products_[0]->operand(0) == argument(order[0]);
  }

  /// Element [row, column + unit] of a value of the body, as a scalar of the region (without one,
  /// anything but null); null where it is no function of the cell's arguments.
  Value *scalarOf(Value *v, int64_t column) {
    const auto [at, isNew] = scalars_.try_emplace({v, column}, nullptr);
    if (!isNew)
      return at->second;
    Value *found = findScalar(v, column);
    return scalars_[{v, column}] = found;
  }
  Value *cellArgument(unsigned place, Value *otherwise) const {
    return region_ ? region_->argument(place) : otherwise;
  }
  Value *findScalar(Value *v, int64_t column) {
    const unsigned block = unsigned(column / shape.hidden);
    const bool whole = column % shape.hidden == 0;
    if (v == share_)
      return whole ? cellArgument(block, v) : nullptr;
    unsigned first = shape.inputs;
    for (unsigned p = 0; p <= product_; first += shape.gates[p++])
      if (v == products_[p]->result())
        return whole ? cellArgument(first + block, v) : nullptr;
    for (unsigned i = 0; i < carried_; ++i)
      if (v == argument(order[i]))
        return column == 0 ? cellArgument(first + i, v) : nullptr;
    Operation *op = v->def();
    if (!op)
      return nullptr;
    if (op->is(Op::Slice)) {
      const Dim start = op->dimsAttr("starts")[1];
      if (v->type().rank() != 2 || op->intsAttr("steps")[1] != 1 || !start.isConstant() ||
          !op->dimsAttr("starts")[0].isConstant(0) || op->intsAttr("steps")[0] != 1 ||
          op->operand(0)->type().dim(0) != v->type().dim(0))
        return nullptr;
      return scalarOf(op->operand(0), column + start.constant());
    }
    return op->is(Op::Map) ? ofMap(*op, v->index(), column) : nullptr;
  }

  Value *ofMap(Operation &map, unsigned result, int64_t column) {
    const Type t = map.result(0)->type();
    if (t.rank() != 2 || t.dim(0) != argument(0)->type().dim(0))
      return nullptr;
    std::map<const Value *, Value *> values;
    for (unsigned i = 0; i < map.numOperands(); ++i) {
      Value *scalar = ofOperand(map, i, column);
      if (!scalar || map.operand(i)->type().element() != shape.element)
        return nullptr;
      values[map.region().argument(i)] = scalar;
    }
    for (Operation &s : map.region())
      if (s.is(Op::Index))
        return nullptr;
    for (Value *r : map.results())
      if (r->type().element() != shape.element)
        return nullptr;
    if (!builder_)
      return map.result(result);
    inlineBody(map.region(), *builder_, values, {0, 1});
    const Operation &end = *map.region().terminator();
    for (unsigned r = 0; r < map.numResults(); ++r)
      scalars_[{map.result(r), column}] = values[end.operand(r)];
    return values[end.operand(result)];
  }
  Value *ofOperand(Operation &map, unsigned i, int64_t column) {
    Value *v = map.operand(i);
    const IndexMap &m = indexMap(map, i);
    const bool alongUnits = !m.empty() && m.back() == 1;
    if (Value *vector = outside(v)) {
      const bool one = m.size() == 1 || (m.size() == 2 && v->type().dim(0).isConstant(1));
      return alongUnits && one ? extra(vector, column, v) : nullptr;
    }
    const bool along =
        m.size() == 2 && alongUnits && (m[0] == 0 || argument(0)->type().dim(0).isConstant(1));
    return along ? scalarOf(v, column) : nullptr;
  }
  /// Units [column, column + hidden) of a vector.
  Value *extra(Value *vector, int64_t column, Value *otherwise) {
    unsigned n = 0;
    while (n < extras.size() && (extras[n].vector != vector || extras[n].column != column))
      ++n;
    if (n == extras.size()) {
      assert(!region_ && "found before anything is built");
      extras.push_back({vector, column});
    }
    return region_ ? region_->argument(shape.arguments(product_) - shape.extras + n) : otherwise;
  }

  Operation &loop_;
  Region &body_;
  const unsigned carried_;
  Value *share_ = nullptr;
  llvm::SmallVector<Operation *, 2> products_;
  // Of the region that is looked at:
  Region *region_ = nullptr;
  Builder *builder_ = nullptr;
  unsigned product_ = 0;
  std::map<std::pair<Value *, int64_t>, Value *> scalars_;
};

/// Part [start, start + size) along dimension `axis`; `step` −1: from `start` backwards.
Value *part(Builder &b, Value *v, unsigned axis, Dim start, Dim size, int64_t step = 1) {
  Dims starts(v->type().rank(), b.context().dim(0)), sizes(v->type().shape());
  Ints steps(v->type().rank(), 1);
  starts[axis] = start;
  sizes[axis] = size;
  steps[axis] = step;
  return b.value(Op::Slice, {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

/// A value that an operation before the loop may read: constants of the body are made there once
/// more.
Value *around(Operation &loop, Value *v) {
  if (!v->def() || v->def()->parent() != &loop.region())
    return v;
  std::map<const Value *, Value *> none;
  Operation *copy = v->def()->clone(none);
  loop.parent()->insertBefore(&loop, copy);
  return copy->result();
}

bool loopPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Loop))
    return false;
  Cell cell(op);
  const auto &runs = rw.context().target.runsRecurrent;
  if (!cell.match() || (runs && !runs(cell.shape)) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  cell.diagnostics = &rw.context().diagnostics;
  const RecurrentShape &s = cell.shape;
  Value *backwards = reversed(cell.given);
  llvm::SmallVector<Value *, 8> operands{backwards ? backwards : cell.given};
  for (Value *w : cell.weights)
    operands.push_back(around(op, w));
  for (unsigned i : cell.order)
    operands.push_back(op.operand(2 + i));
  const Dim hidden = b.context().dim(s.hidden);
  for (const Cell::Extra &e : cell.extras) {
    Value *v = around(op, e.vector);
    v = part(b, v, v->type().rank() - 1, b.context().dim(e.column), hidden);
    operands.push_back(v && v->type().rank() > 1 ? b.reshape(v, {hidden}) : v);
  }
  Ints kept;
  for (unsigned i = 0; i < s.states; ++i)
    if (cell.order[i] == cell.sequence || op.result(cell.order[i])->hasUses())
      kept.push_back(int64_t(i));
  Operation *layer =
      b.create(Op::Recurrent, operands,
               {{"states", int64_t(s.states)}, {"kept", kept}, {"reverse", backwards != nullptr}},
               s.products, [&](unsigned p, Region &region) { cell.build(&region, p); });
  if (!layer)
    return false;
  const Dim steps = cell.given->type().dim(0);
  const Dim last = backwards ? b.context().dim(0) : steps - 1;
  llvm::SmallVector<Value *, 4> results;
  for (unsigned i = 0; i < s.states; ++i)
    results.push_back(op.operand(2 + i)); // of what nobody reads
  for (size_t k = 0; k < kept.size(); ++k) {
    const unsigned state = cell.order[size_t(kept[k])];
    Value *all = layer->result(unsigned(k));
    if (op.result(state)->hasUses()) {
      Value *end = part(b, all, 0, last, b.context().dim(1));
      results[state] = end ? b.reshape(end, op.result(state)->type().shape()) : nullptr;
    }
    if (state == cell.sequence)
      results.push_back(backwards ? part(b, all, 0, steps - 1, steps, -1) : all);
  }
  return rw.replace(op, results);
}

const Pattern kPatterns[] = {{"raise-recurrent.loop", loopPattern}};

} // namespace

bool runRaiseRecurrent(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
