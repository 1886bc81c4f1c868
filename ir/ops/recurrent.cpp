// Recurrent layers.
//
//   recurrent (x, weights…, state…, extra…) {states, kept, reverse}
//     { (inputs…, gates…, states…, extras…) … yield … } …
//
// runs a cell along the first dimension of x [steps, rows, inputs · hidden], the share of the
// layer's inputs in its gates. There is a region for each of one or two products. Before the first
// the first state is multiplied, before the second what the first region yields:
//
//   gates[row, g, u] = Σ over k of weights[g · hidden + u, k] · multiplied[row, k]
//
// Regions take scalars of one row and unit: of the inputs' share, of all gates so far, of the
// states [rows, hidden] and of extras [hidden]. The last region yields the new states; results are
// the sequences [steps, rows, hidden] of those that `kept` names. With `reverse` the cell goes from
// the last step to the first.
//
// Numeric rules. Sums and what regions compute are not rounded to the type of tensors; what is
// multiplied, and states, are in each step.
#include "ir/Recurrent.h"

#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

namespace tenon {
namespace {

/// The extents of weights, states and extras follow from those of the first state.
bool checkOperands(const Operation &op, const RecurrentShape &s, std::string &error) {
  const Type x = op.operand(0)->type(), first = op.operand(s.state(0))->type();
  auto expect = [&](unsigned i, llvm::ArrayRef<Dim> shape) {
    const Type t = op.operand(i)->type();
    if (t.element() == x.element() && sameShape(t.shape(), shape))
      return true;
    return fail(error, "operand " + llvm::Twine(i) + ": expected elements " + name(x.element()) +
                           " and extents " + text(shape) + ", found " + toString(t));
  };
  if (!isFloat(x.element()))
    return fail(error, "operand 0: expected floats, found " + toString(x));
  if (s.hidden < 1 || s.inputs < 1 || x.dim(2) != x.context().dim(s.inputs * s.hidden))
    return fail(error, "operand 0: expected a multiple of the state's last extent, found " +
                           toString(x) + " and " + toString(first));
  for (unsigned i = 0; i < s.states; ++i)
    if (!checkTensor(op, s.state(i), 2, error) || !expect(s.state(i), {x.dim(1), first.dim(1)}))
      return false;
  for (unsigned p = 0; p < s.products; ++p) {
    const Type w = op.operand(s.weights(p))->type();
    if (s.gates[p] < 1 ||
        !expect(s.weights(p), {x.context().dim(s.gates[p] * s.hidden), first.dim(1)}))
      return fail(error, "operand " + llvm::Twine(s.weights(p)) +
                             ": expected a row for each unit of each gate, found " + toString(w));
  }
  for (unsigned i = 0; i < s.extras; ++i)
    if (!checkTensor(op, s.extra(i), 1, error) || !expect(s.extra(i), {first.dim(1)}))
      return false;
  return true;
}

bool checkRegion(const Operation &op, const RecurrentShape &s, unsigned i, std::string &error) {
  const Type scalar = Type::scalar(op.operand(0)->type().context(), s.element);
  Region &region = op.region(i);
  Operation *end = regionEnd(op, i, error);
  if (!end)
    return false;
  const unsigned yields = i + 1 < s.products ? 1 : s.states;
  bool fits = region.numArguments() == s.arguments(i) && end->numOperands() == yields;
  for (unsigned a = 0; fits && a < region.numArguments(); ++a)
    fits = region.argument(a)->type() == scalar;
  for (unsigned y = 0; fits && y < yields; ++y)
    fits = end->operand(y)->type() == scalar;
  if (!fits)
    return fail(error, "region " + llvm::Twine(i) + ": expected " + llvm::Twine(s.arguments(i)) +
                           " arguments and " + llvm::Twine(yields) + " yielded values of type " +
                           toString(scalar));
  for (const Operation &o : region)
    if (o.is(Op::Index))
      return fail(error, "a region asks for a position, which cells have not");
  return true;
}

bool inferRecurrent(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error) || !checkTensor(op, 0, 3, error))
    return false;
  const unsigned products = op.numRegions();
  const int64_t states = op.intAttr("states");
  if (products < 1 || products > 2)
    return fail(error, "expected one region or two, found " + llvm::Twine(products));
  if (states < 1 || op.numOperands() < 1 + products + states)
    return fail(error, "attribute states: expected 1 or more, and as many operands behind the "
                       "weights, found " +
                           llvm::Twine(states));
  for (unsigned i = 0; i < products + 1; ++i)
    if (!checkTensor(op, 1 + i, 2, error))
      return false;
  const RecurrentShape s = recurrentShape(op);
  if (!checkOperands(op, s, error))
    return false;
  for (unsigned i = 0; i < products; ++i)
    if (!checkRegion(op, s, i, error))
      return false;
  const Ints &kept = op.intsAttr("kept");
  if (kept.empty())
    return fail(error, "attribute kept: expected at least one state, found none");
  const Type x = op.operand(0)->type();
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] < 0 || kept[i] >= states || (i > 0 && kept[i] <= kept[i - 1]))
      return fail(error, "attribute kept: expected ascending numbers of states");
    results.push_back(Type::tensor(x.context(), x.element(),
                                   {x.dim(0), x.dim(1), op.operand(s.state(0))->type().dim(1)}));
  }
  return true;
}

const llvm::StringRef kOperands[] = {"x", "weights, states, extras…"};
const AttrInfo kAttributes[] = {
    {"states", AttrKind::Int, true, "how many states a cell has; the first is multiplied"},
    {"kept", AttrKind::Ints, true, "states whose sequences are results, ascending"},
    {"reverse", AttrKind::Bool, false, "from the last step to the first (default false)"},
};

} // namespace

RecurrentShape recurrentShape(const Operation &op) {
  RecurrentShape s;
  s.products = op.numRegions();
  s.states = unsigned(op.intAttr("states"));
  s.extras = op.numOperands() - s.extra(0);
  const Type x = op.operand(0)->type(), state = op.operand(s.state(0))->type();
  s.element = x.element();
  s.rows = x.dim(1).upper();
  s.hidden = state.dim(1).isConstant() ? state.dim(1).constant() : 0;
  const auto multiple = [&](Dim d) {
    return s.hidden > 0 && d.isConstant() && d.constant() % s.hidden == 0
               ? unsigned(d.constant() / s.hidden)
               : 0;
  };
  s.inputs = multiple(x.dim(2));
  for (unsigned p = 0; p < s.products; ++p)
    s.gates[p] = multiple(op.operand(s.weights(p))->type().dim(0));
  return s;
}

llvm::ArrayRef<OpRow> recurrentOps() {
  static const OpRow kRows[] = {
      {Op::Recurrent,
       {"recurrent", "Runs a cell of one or two matrix products along a sequence.", kOperands,
        kAttributes, kVariadic, kVariadic, OpTrait::Isolated, inferRecurrent, nullptr,
        evaluateRecurrent}},
  };
  return kRows;
}

} // namespace tenon
