// Imports losses: what the probability of the right class costs.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {
namespace {

/// The loss of logarithms of probabilities `x` [N, C, d…]; operands 1 and 2 of the node are the
/// right classes [N, d…] and weights of the classes [C]. Null after an error.
Value *negativeLogLikelihood(Node &n, Value *x) {
  const Type t = x->type(), target = n.type(1);
  if (!t.hasStaticShape() || target.rank() + 1 != t.rank() || !isInteger(target.element()))
    return n.error("expected known extents and one class per position of " + toString(t) +
                   ", found " + toString(target));
  const std::string reduction = n.stringAttr("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return n.error("attribute reduction: expected none, sum or mean, found '" + reduction + "'");
  const bool ignores = n.hasAttr("ignore_index");
  const int64_t ignored = n.intAttr("ignore_index", 0), classes = t.dim(1).constant();
  int64_t inner = 1; // distance between classes
  for (unsigned d = 2; d < t.rank(); ++d)
    inner *= t.dim(d).constant();

  auto isIgnored = [&](Scalars &s, Value *c) {
    return s(Op::Equal, s.cast(c, Element::I64), s.b.scalarInt(Element::I64, ignored));
  };
  // An ignored class need not be one: class 0 is read in its place.
  Value *chosen = pointwise(n.b, {n.input(1)}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *c = s.cast(a[0], Element::I64);
    return ignores ? s(Op::Select, isIgnored(s, c), s.c(Element::I64, 0), c) : c;
  });
  if (!chosen)
    return nullptr;
  // x[n, class[n, d…], d…] at n · C · inner + class · inner + position in d…
  Value *linear = pointwise(n.b, {chosen}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    auto times = [&](Value *v, int64_t f) { return s(Op::Mul, v, s.b.scalarInt(Element::I64, f)); };
    Value *at = s(Op::Add, times(s.index(0), classes * inner), times(a[0], inner));
    int64_t stride = inner;
    for (unsigned d = 2; d < t.rank(); ++d) {
      stride /= std::max<int64_t>(1, t.dim(d).constant());
      at = s(Op::Add, at, times(s.index(d - 1), stride));
    }
    return at;
  });
  Value *log = gatherLinear(n.b, x, linear);
  if (!log)
    return nullptr;
  Value *weight = nullptr; // of each position
  if (n.has(2))
    weight = n.b.value(Op::Gather, {n.input(2), chosen}, {{"axis", int64_t(0)}});
  if (ignores) {
    llvm::SmallVector<Value *, 2> operands{n.input(1)};
    if (weight)
      operands.push_back(weight);
    weight = pointwise(n.b, operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      Value *kept = a.size() > 1 ? a[1] : s.c(t.element(), 1);
      return s(Op::Select, isIgnored(s, a[0]), s.c(t.element(), 0), kept);
    });
  }
  llvm::SmallVector<Value *, 2> operands{log};
  if (weight)
    operands.push_back(weight);
  Value *loss = pointwise(n.b, operands, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *cost = s(Op::Neg, a[0]);
    return a.size() > 1 ? s(Op::Mul, cost, a[1]) : cost;
  });
  if (!loss || reduction == "none")
    return loss;
  const Ints all = allAxes(0, target.rank());
  if (reduction == "mean" && !weight)
    return mean(n.b, loss, all);
  Value *total = sum(n.b, loss, all);
  if (reduction == "sum")
    return total;
  return n.b.pointwise(Op::Div, {total, sum(n.b, weight, all)});
}

} // namespace

void importNegativeLogLikelihoodLoss(Node &n) {
  if (n.checkRank(0, 2) && n.checkFloat(0))
    n.set(0, negativeLogLikelihood(n, n.input(0)));
}

void importSoftmaxCrossEntropyLoss(Node &n) {
  if (!n.checkRank(0, 2) || !n.checkFloat(0))
    return;
  Value *log = n.b.value(Op::Softmax, {n.input(0)}, {{"axis", int64_t(1)}, {"log", true}});
  if (!log)
    return;
  n.set(0, negativeLogLikelihood(n, log));
  if (n.wants(1))
    n.set(1, log);
}

} // namespace tenon::frontend
