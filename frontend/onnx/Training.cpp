// Imports the optimizers of ai.onnx.preview.training: one step of a training loop, a map per
// tensor.
//
// All take a learning rate R, a step count T, then for n tensors all values, all gradients and all
// accumulators of each kind; they give the new values and the new accumulators.
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// What the body of a step sees of one element, and R and T as numbers of its type.
struct Step {
  Scalars &s;
  Value *rate, *count, *x, *gradient;
  llvm::ArrayRef<Value *> kept; // one for each kind of accumulator

  Value *c(double v) const { return s.c(v); }
  Value *add(Value *a, Value *b) const { return s(Op::Add, a, b); }
  Value *sub(Value *a, Value *b) const { return s(Op::Sub, a, b); }
  Value *mul(Value *a, Value *b) const { return s(Op::Mul, a, b); }
  Value *div(Value *a, Value *b) const { return s(Op::Div, a, b); }
  Value *started() const { return s(Op::Greater, count, c(0)); }
  /// The gradient of the loss and of norm / 2 · ‖x‖².
  Value *regularized(double norm) const { return add(mul(c(norm), x), gradient); }
};
/// The new value, then the new accumulators.
using StepBody = llvm::function_ref<llvm::SmallVector<Value *, 2>(const Step &)>;

void optimize(Node &n, unsigned accumulators, StepBody body) {
  enum { Rate, Count, First };
  const unsigned kinds = accumulators + 2, given = n.numInputs() - First;
  const unsigned tensors = given / kinds;
  if (given % kinds != 0 || tensors == 0 || n.numOutputs() > tensors * (accumulators + 1)) {
    n.error("expected " + std::to_string(kinds) +
            " operands for each tensor behind R and T, found " + std::to_string(given));
    return;
  }
  for (unsigned i = 0; i < n.numInputs(); ++i)
    if (!n.has(i) || (i >= First && !n.checkFloat(i)) ||
        (i < First && !n.type(i).elements().isConstant(1))) {
      n.error("operand " + std::to_string(i) + ": expected " +
              (i < First ? "one number" : "a floating-point tensor"));
      return;
    }
  Value *rate = n.b.reshape(n.input(Rate), {}), *count = n.b.reshape(n.input(Count), {});
  for (unsigned t = 0; t < tensors; ++t) {
    llvm::SmallVector<Value *, 6> operands;
    for (unsigned k = 0; k < kinds; ++k)
      operands.push_back(n.input(First + k * tensors + t));
    operands.append({rate, count});
    Operation *step = n.b.map(operands, [&](Builder &inner, llvm::ArrayRef<Value *> a) {
      Scalars s{inner, operands[0]->type().element()};
      return body({s, s.cast(a[kinds], s.type), s.cast(a[kinds + 1], s.type), a[0], a[1],
                   a.slice(2, accumulators)});
    });
    if (!step)
      return;
    for (unsigned k = 0; k <= accumulators; ++k)
      if (n.wants(k * tensors + t))
        n.set(k * tensors + t, step->result(k));
  }
}

} // namespace

void importAdagrad(Node &n) {
  const double norm = n.floatAttr("norm_coefficient", 0), epsilon = n.floatAttr("epsilon", 1e-6f);
  const double decay = n.floatAttr("decay_factor", 0);
  optimize(n, 1, [&](const Step &s) -> llvm::SmallVector<Value *, 2> {
    Value *g = s.regularized(norm);
    Value *squares = s.add(s.kept[0], s.mul(g, g));
    Value *rate = s.div(s.rate, s.add(s.c(1), s.mul(s.count, s.c(decay))));
    Value *size = s.add(s.s(Op::Sqrt, squares), s.c(epsilon));
    return {s.sub(s.x, s.div(s.mul(rate, g), size)), squares};
  });
}

void importAdam(Node &n) {
  const double alpha = n.floatAttr("alpha", 0.9f), beta = n.floatAttr("beta", 0.999f);
  const double norm = n.floatAttr("norm_coefficient", 0), epsilon = n.floatAttr("epsilon", 1e-6f);
  const double after = n.floatAttr("norm_coefficient_post", 0);
  optimize(n, 2, [&](const Step &s) -> llvm::SmallVector<Value *, 2> {
    Value *g = s.regularized(norm);
    auto average = [&](double keep, Value *old, Value *now) {
      return s.add(s.mul(s.c(keep), old), s.mul(s.c(1 - keep), now));
    };
    Value *first = average(alpha, s.kept[0], g), *second = average(beta, s.kept[1], s.mul(g, g));
    // Both averages start at zero, which the rate makes up for.
    auto missing = [&](double keep) { return s.sub(s.c(1), s.s(Op::Pow, s.c(keep), s.count)); };
    Value *corrected = s.div(s.mul(s.rate, s.s(Op::Sqrt, missing(beta))), missing(alpha));
    Value *rate = s.s(Op::Select, s.started(), corrected, s.rate);
    Value *size = s.add(s.s(Op::Sqrt, second), s.c(epsilon));
    Value *x = s.sub(s.x, s.div(s.mul(rate, first), size));
    return {s.mul(s.c(1 - after), x), first, second};
  });
}

void importMomentum(Node &n) {
  const double alpha = n.floatAttr("alpha", 0), beta = n.floatAttr("beta", 0);
  const double norm = n.floatAttr("norm_coefficient", 0);
  const std::string mode = n.stringAttr("mode", "standard");
  if (mode != "standard" && mode != "nesterov") {
    n.error("attribute mode: expected standard or nesterov, found '" + mode + "'");
    return;
  }
  optimize(n, 1, [&](const Step &s) -> llvm::SmallVector<Value *, 2> {
    Value *g = s.regularized(norm);
    Value *share = s.s(Op::Select, s.started(), s.c(beta), s.c(1));
    Value *momentum = s.add(s.mul(s.c(alpha), s.kept[0]), s.mul(share, g));
    Value *direction = mode == "nesterov" ? s.add(g, s.mul(s.c(alpha), momentum)) : momentum;
    return {s.sub(s.x, s.mul(s.rate, direction)), momentum};
  });
}

} // namespace tenon::frontend
