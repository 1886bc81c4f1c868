// Implements what is said of a Loop's condition. Exporters of TensorFlow write
//
//   for (i = 0; i < n; ++i)   as   loop n { …; j = j + 1; yield i < n and j < n }
//
// The condition says nothing beyond the trip count then, and what is stacked has n pieces. Without
// a trip count it alone says how many.
#include "frontend/onnx/LoopCondition.h"

#include "ir/Context.h"
#include "ir/ShapeValues.h"

namespace tenon::frontend {
namespace {

/// More iterations than any loop has.
constexpr int64_t kManyIterations = int64_t(1) << 31;
/// Most iterations whose condition is looked at one by one.
constexpr int64_t kMostTried = 1024;

bool isOneInteger(Type t) {
  return t.isTensor() && isInteger(t.element()) && t.elements().isConstant(1);
}

/// A carried integer that each iteration moves by the same `step`.
struct Counter {
  Value *argument;
  Dim first, step;
};

llvm::SmallVector<Counter, 2> countersOf(Region &body, llvm::ArrayRef<Value *> yields) {
  const Operation &loop = *body.parentOp();
  llvm::SmallVector<Counter, 2> counters;
  for (unsigned k = 0; k < unsigned(loop.intAttr("carried")); ++k) {
    Value *const argument = body.argument(2 + k);
    if (!isOneInteger(argument->type()) || !isOneInteger(yields[1 + k]->type()))
      continue;
    Context &c = argument->type().context();
    const Dim before = c.symbol("counter", -kManyIterations, kManyIterations);
    const auto first = inferValue(loop.operand(2 + k));
    const auto next = inferValueAssuming(yields[1 + k], {{argument, before}});
    if (!first || !next)
      continue;
    if (const Dim step = (*next)[0] - before; step.isConstant())
      counters.push_back({argument, (*first)[0], step});
  }
  return counters;
}

/// What the condition says at the end of an iteration; None where that is not known.
llvm::Optional<bool> goesOn(Region &body, llvm::ArrayRef<Value *> yields,
                            llvm::ArrayRef<Counter> counters, Dim iteration) {
  llvm::SmallVector<std::pair<Value *, Dim>, 4> assumed{
      {body.argument(0), iteration}, {body.argument(1), iteration.node()->context->dim(1)}};
  for (const Counter &counter : counters)
    assumed.push_back({counter.argument, counter.first + iteration * counter.step});
  const auto again = inferValueAssuming(yields[0], assumed);
  if (!again || again->size() != 1 || !(*again)[0].isConstant())
    return llvm::None;
  return (*again)[0].constant() != 0;
}

} // namespace

bool isSurelyTrue(Value *v) {
  const auto known = inferValue(v);
  return known && known->size() == 1 && (*known)[0].isConstant() && (*known)[0].constant() != 0;
}

Dim certainTrips(Region &body, llvm::ArrayRef<Value *> yields, Dim count) {
  Context &c = *count.node()->context;
  const llvm::SmallVector<Counter, 2> counters = countersOf(body, yields);
  // An iteration that at least one follows, told by how many more follow. Nothing of the module has
  // this symbol.
  const Dim followed = count - 2 - c.symbol("iterations left", 0, kManyIterations);
  if (goesOn(body, yields, counters, followed).getValueOr(false))
    return count;
  for (int64_t i = 0; i < kMostTried && count.isConstant(INT64_MAX); ++i) {
    const auto again = goesOn(body, yields, counters, c.dim(i));
    if (!again)
      break;
    if (!*again)
      return c.dim(i + 1);
  }
  return Dim();
}

} // namespace tenon::frontend
