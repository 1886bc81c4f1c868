// Imports pointwise operators: arithmetic, activations, comparison, logic, bits. Most are one
// scalar function and stand in the table directly; here are those with attributes or several steps.
#include "frontend/onnx/Activation.h"
#include "frontend/onnx/Operators.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// A map of operand 0 whose body is an expression.
void unary(Node &n, llvm::function_ref<Value *(Scalars &, Value *)> body) {
  n.set(0, pointwise(n.b, {n.input(0)},
                     [&](Scalars &s, llvm::ArrayRef<Value *> a) { return body(s, a[0]); }));
}
/// As unary, for floating-point operands only.
void unaryFloat(Node &n, llvm::function_ref<Value *(Scalars &, Value *)> body) {
  if (n.checkFloat(0))
    unary(n, body);
}

Value *whereNegative(Scalars &s, Value *x, Value *negative, Value *otherwise) {
  return s(Op::Select, s(Op::Less, x, s.c(0)), negative, otherwise);
}

/// Folds all operands with one scalar function in one body.
Value *variadic(Node &n, Op op, bool average) {
  for (unsigned i = 0; i < n.numInputs(); ++i)
    if (!n.has(i))
      return n.error("operand " + std::to_string(i) +
                     " is missing: expected it in this operator; write it");
  return pointwise(n.b, n.inputs(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *v = a[0];
    for (Value *x : a.drop_front())
      v = s(op, v, x);
    return average ? s(Op::Div, v, s.c(double(a.size()))) : v;
  });
}

} // namespace

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

void importMax(Node &n) { n.set(0, variadic(n, Op::Max, false)); }
void importMin(Node &n) { n.set(0, variadic(n, Op::Min, false)); }
void importSum(Node &n) { n.set(0, variadic(n, Op::Add, false)); }
void importMean(Node &n) { n.set(0, variadic(n, Op::Add, true)); }

void importMod(Node &n) {
  n.set(0, n.b.pointwise(n.boolAttr("fmod", false) ? Op::FMod : Op::Mod, {n.input(0), n.input(1)}));
}

Value *alignedSecond(Node &n) {
  Value *y = n.input(1);
  if (n.opset >= 7 || !n.hasAttr("axis"))
    return y;
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (!axis)
    return nullptr;
  const int64_t after = int64_t(n.rank(0)) - *axis - n.rank(1);
  if (after < 0)
    return n.error("attribute axis: " + toString(n.type(1)) + " does not fit " +
                   toString(n.type(0)) + " from dimension " + std::to_string(*axis));
  Shape shape(n.type(1).shape().begin(), n.type(1).shape().end());
  shape.append(size_t(after), n.dim(1));
  return n.b.reshape(y, shape);
}

void importPow(Node &n) {
  // Base and exponent may differ in type; the result has the base's.
  const Element base = n.element(0), exponent = n.element(1);
  const Element compute = isFloat(base) || base == exponent ? base
                          : isFloat(exponent)               ? Element::F64
                                                            : base;
  n.set(0,
        pointwise(n.b, {n.input(0), alignedSecond(n)}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          return s.cast(s(Op::Pow, s.cast(a[0], compute), s.cast(a[1], compute)), base);
        }));
}

void importBitShift(Node &n) {
  const std::string direction = n.stringAttr("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    n.error("attribute direction: expected LEFT or RIGHT, found '" + direction + "'");
    return;
  }
  n.set(0, n.b.pointwise(direction == "LEFT" ? Op::ShiftLeft : Op::ShiftRight,
                         {n.input(0), n.input(1)}));
}

void importIsInf(Node &n) {
  const bool negative = n.boolAttr("detect_negative", true);
  const bool positive = n.boolAttr("detect_positive", true);
  unaryFloat(n, [&](Scalars &s, Value *x) -> Value * {
    if (negative && positive)
      return s(Op::IsInf, x);
    if (!negative && !positive)
      return s.c(Element::Bool, 0);
    return s(Op::LogicalAnd, s(Op::IsInf, x), s(negative ? Op::Less : Op::Greater, x, s.c(0)));
  });
}

void importClip(Node &n) {
  const Element e = n.element(0);
  // A bound that is known becomes part of the body.
  llvm::Optional<Tensor> known[2];
  bool present[2] = {};
  for (unsigned i : {0u, 1u}) {
    if (n.opset < 11) {
      const char *name = i ? "max" : "min";
      if ((present[i] = n.hasAttr(name)))
        known[i] = Tensor::scalar(e, n.floatAttr(name, 0));
      continue;
    }
    if (!(present[i] = n.has(i + 1)))
      continue;
    if (n.element(i + 1) != e || !n.type(i + 1).elements().isConstant(1)) {
      n.error("operand " + n.inputName(i + 1) + ": expected a scalar of " + name(e).str() +
              ", found " + toString(n.type(i + 1)));
      return;
    }
    known[i] = n.knownOperand(i + 1);
  }
  if (!present[0] && !present[1]) {
    n.set(0, n.input(0));
    return;
  }
  llvm::SmallVector<Value *, 3> operands{n.input(0)};
  for (unsigned i : {0u, 1u})
    if (present[i] && !known[i])
      operands.push_back(n.b.reshape(n.input(i + 1), {}));
  n.set(0, pointwise(n.b, operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) -> Value * {
          Value *bound[2] = {};
          size_t next = 1;
          for (unsigned i : {0u, 1u})
            if (present[i])
              bound[i] = !known[i]    ? a[next++]
                         : isFloat(e) ? s.c(known[i]->at(0))
                                      : s.b.scalarInt(e, known[i]->intAt(0));
          if (bound[0] && bound[1])
            return s(Op::Clamp, a[0], bound[0], bound[1]);
          return bound[0] ? s(Op::Max, a[0], bound[0]) : s(Op::Min, a[0], bound[1]);
        }));
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

void importLeakyRelu(Node &n) {
  const double alpha = n.floatAttr("alpha", 0.01f);
  unaryFloat(n, [&](Scalars &s, Value *x) {
    Value *scaled = s(Op::Mul, x, s.c(alpha));
    // For slopes up to 1 the larger of both is the right one.
    return alpha > 0 && alpha <= 1 ? s(Op::Max, x, scaled) : whereNegative(s, x, scaled, x);
  });
}

void importPRelu(Node &n) {
  Value *slope = n.input(1);
  if (n.opset < 7 && n.rank(1) == 1 && n.rank(0) > 1 && !n.type(1).dim(0).isConstant(1)) {
    Shape shape(n.rank(0) - 1, n.dim(1)); // one slope per channel
    shape[0] = n.type(1).dim(0);
    slope = n.b.reshape(slope, shape);
  }
  n.set(0, pointwise(n.b, {n.input(0), slope}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
          return whereNegative(s, a[0], s(Op::Mul, a[0], a[1]), a[0]);
        }));
}

void importElu(Node &n) {
  const double alpha = n.floatAttr("alpha", 1);
  unaryFloat(n, [&](Scalars &s, Value *x) {
    Value *curve = s(Op::Mul, s.c(alpha), s(Op::Sub, s(Op::Exp, x), s.c(1)));
    return whereNegative(s, x, curve, x);
  });
}

void importSelu(Node &n) {
  const double alpha = n.floatAttr("alpha", 1.67326319217681884765625f);
  const double gamma = n.floatAttr("gamma", 1.05070102214813232421875f);
  unaryFloat(n, [&](Scalars &s, Value *x) {
    Value *curve = s(Op::Mul, s.c(alpha), s(Op::Sub, s(Op::Exp, x), s.c(1)));
    return s(Op::Mul, s.c(gamma), whereNegative(s, x, curve, x));
  });
}

void importCelu(Node &n) {
  const double alpha = n.floatAttr("alpha", 1);
  unaryFloat(n, [&](Scalars &s, Value *x) {
    Value *e = s(Op::Exp, s(Op::Div, x, s.c(alpha)));
    return whereNegative(s, x, s(Op::Mul, s.c(alpha), s(Op::Sub, e, s.c(1))), x);
  });
}

void importThresholdedRelu(Node &n) {
  const double alpha = n.floatAttr("alpha", 1);
  unaryFloat(n, [&](Scalars &s, Value *x) {
    return s(Op::Select, s(Op::Greater, x, s.c(alpha)), x, s.c(0));
  });
}

void importHardSigmoid(Node &n) {
  const double alpha = n.floatAttr("alpha", 0.2f), beta = n.floatAttr("beta", 0.5f);
  unaryFloat(n, [&](Scalars &s, Value *x) {
    return s(Op::Clamp, s(Op::Add, s(Op::Mul, x, s.c(alpha)), s.c(beta)), s.c(0), s.c(1));
  });
}

void importHardSwish(Node &n) {
  unaryFloat(n, [](Scalars &s, Value *x) {
    Value *gate = s(Op::Add, s(Op::Mul, x, s.c(1.0 / 6)), s.c(0.5));
    return s(Op::Mul, x, s(Op::Clamp, gate, s.c(0), s.c(1)));
  });
}

void importSoftplus(Node &n) {
  unaryFloat(n, [](Scalars &s, Value *x) { return softplus(s, x); });
}

void importSoftsign(Node &n) {
  unaryFloat(n,
             [](Scalars &s, Value *x) { return s(Op::Div, x, s(Op::Add, s.c(1), s(Op::Abs, x))); });
}

void importMish(Node &n) {
  // tanh(log(1 + e^x)) as a quotient of sums of positive numbers, in u = e^-|x|:
  //   (1 + 2u) / (1 + 2u + 2u^2) for x >= 0,   (u^2 + 2u) / (u^2 + 2u + 2) below.
  unaryFloat(n, [](Scalars &s, Value *x) {
    Value *u = s(Op::Exp, s(Op::Neg, s(Op::Abs, x))), *square = s(Op::Mul, u, u);
    Value *below = s(Op::Less, x, s.c(0));
    Value *above = s(Op::Add, s(Op::Add, u, u), s(Op::Select, below, square, s.c(1)));
    Value *rest = s(Op::Select, below, s.c(2), s(Op::Add, square, square));
    return s(Op::Mul, x, s(Op::Div, above, s(Op::Add, above, rest)));
  });
}

void importGelu(Node &n) {
  const std::string approximate = n.stringAttr("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    n.error("attribute approximate: expected none or tanh, found '" + approximate + "'");
    return;
  }
  unaryFloat(n, [&](Scalars &s, Value *x) { return gelu(s, x, approximate == "tanh"); });
}

void importFastGelu(Node &n) { // com.microsoft: optional bias
  Value *x = n.has(1) ? n.b.pointwise(Op::Add, {n.input(0), n.input(1)}) : n.input(0);
  n.set(0, pointwise(n.b, {x},
                     [](Scalars &s, llvm::ArrayRef<Value *> a) { return gelu(s, a[0], true); }));
}

void importBiasGelu(Node &n) {
  n.set(0, pointwise(n.b, {n.input(0), n.input(1)}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
          return gelu(s, s(Op::Add, a[0], a[1]), false);
        }));
}

void importSwish(Node &n) {
  const double alpha = n.floatAttr("alpha", 1);
  unaryFloat(n, [&](Scalars &s, Value *x) { return swish(s, x, alpha); });
}

void importQuickGelu(Node &n) { // com.microsoft
  const double alpha = n.floatAttr("alpha", 1.702f);
  unaryFloat(n, [&](Scalars &s, Value *x) { return swish(s, x, alpha); });
}

void importSwiGLU(Node &n) {
  const double alpha = n.floatAttr("alpha", 1);
  if (!n.checkFloat(0))
    return;
  n.set(0, pointwise(n.b, {n.input(0), n.input(1)}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          return s(Op::Mul, swish(s, a[0], alpha), a[1]);
        }));
}

void importShrink(Node &n) {
  const double bias = n.floatAttr("bias", 0), lambda = n.floatAttr("lambd", 0.5);
  unary(n, [&](Scalars &s, Value *x) {
    Value *high = s(Op::Select, s(Op::Greater, x, s.c(lambda)), s(Op::Sub, x, s.c(bias)), s.c(0));
    return s(Op::Select, s(Op::Less, x, s.c(-lambda)), s(Op::Add, x, s.c(bias)), high);
  });
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

void importWhere(Node &n) {
  n.set(0, n.b.pointwise(Op::Select, {n.input(0), n.input(1), n.input(2)}));
}

void importEqual(Node &n) {
  n.set(0, n.element(0) == Element::String
               ? n.b.value(Op::TextMap, {n.input(0), n.input(1)}, {{"function", Word{"equal"}}})
               : n.b.pointwise(Op::Equal, {n.input(0), n.input(1)}));
}

void importIdentity(Node &n) {
  if (n.numInputs() > 0)
    n.set(0, n.item(0));
}

} // namespace tenon::frontend
