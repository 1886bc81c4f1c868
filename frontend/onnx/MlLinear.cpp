// Imports linear models of ai.onnx.ml and what prepares their features.
#include "frontend/onnx/Ml.h"

#include <cmath>

namespace tenon::frontend {

Value *featureRows(Node &n) {
  if (!n.checkRank(0, 1, 2))
    return nullptr;
  Value *x = n.input(0);
  if (n.rank(0) == 1)
    x = n.b.reshape(x, {n.dim(1), x->type().dim(0)});
  return x && x->type().element() != Element::F32 ? n.b.cast(x, Element::F32) : x;
}

namespace {

Value *f32(Node &n, const Floats &values, llvm::ArrayRef<int64_t> shape) {
  Tensor t(Element::F32, shape);
  t.fromDoubles(0, t.size(), values.data());
  return n.b.constant(t);
}

/// An attribute with one number for all features or one for each, as a row that broadcasts. Null
/// after an error.
Value *perFeature(Node &n, llvm::StringRef name, double otherwise, Dim features) {
  Floats values = n.floatsAttr(name);
  if (values.empty())
    values.push_back(otherwise);
  if (values.size() != 1 && !features.isConstant(int64_t(values.size())))
    return n.error("attribute " + name.str() +
                   ": expected one number or one for each feature, found " +
                   std::to_string(values.size()));
  return f32(n, values, {int64_t(values.size())});
}

/// x times the rows of `coefficients`, plus `intercepts`: [rows, targets]. Null after an error.
Value *scores(Node &n, int64_t targets) {
  Value *x = featureRows(n);
  const Floats coefficients = n.floatsAttr("coefficients"), intercepts = n.floatsAttr("intercepts");
  if (!x)
    return nullptr;
  const Dim features = x->type().dim(1);
  if (targets < 1 || !features.isConstant() ||
      int64_t(coefficients.size()) != targets * features.constant() ||
      (!intercepts.empty() && int64_t(intercepts.size()) != targets))
    return n.error("expected " + std::to_string(targets) + " rows of coefficients for " +
                   toString(x->type()) + " and as many intercepts, found " +
                   std::to_string(coefficients.size()) + " and " +
                   std::to_string(intercepts.size()) + " numbers");
  Value *w = n.b.transpose(f32(n, coefficients, {targets, features.constant()}), {1, 0});
  Value *y = w ? n.b.value(Op::MatMul, {x, w}) : nullptr;
  return y && !intercepts.empty() ? n.b.pointwise(Op::Add, {y, f32(n, intercepts, {targets})}) : y;
}

} // namespace

void importScaler(Node &n) {
  Value *x = n.input(0);
  if (x->type().element() != Element::F32)
    x = n.b.cast(x, Element::F32);
  if (!x || !n.checkRank(0, 1))
    return;
  const Dim features = x->type().dim(n.rank(0) - 1);
  Value *offset = perFeature(n, "offset", 0, features),
        *scale = perFeature(n, "scale", 1, features);
  if (offset && scale)
    n.set(0, n.b.pointwise(Op::Mul, {n.b.pointwise(Op::Sub, {x, offset}), scale}));
}

void importImputer(Node &n) {
  Value *x = n.input(0);
  if (!n.checkRank(0, 1))
    return;
  if (x->type().element() != Element::F32) {
    n.error("expected features of type f32, found " + toString(x->type()));
    return;
  }
  const double replaced = n.floatAttr("replaced_value_float", 0);
  Value *imputed = perFeature(n, "imputed_value_floats", 0, x->type().dim(n.rank(0) - 1));
  if (imputed)
    n.set(0, pointwise(n.b, {x, imputed}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
            Value *absent =
                std::isnan(replaced) ? s(Op::IsNaN, a[0]) : s(Op::Equal, a[0], s.c(replaced));
            return s(Op::Select, absent, a[1], a[0]);
          }));
}

void importNormalizer(Node &n) {
  enum class Norm { Max, L1, L2 };
  constexpr const char *kNorms[] = {"MAX", "L1", "L2"};
  const auto norm = byName<Norm>(n, n.stringAttr("norm", "MAX"), kNorms);
  Value *x = norm ? featureRows(n) : nullptr;
  if (!x)
    return;
  Value *size;
  if (*norm == Norm::Max) {
    size = n.b.reduce(Op::Max, x, {1}, -INFINITY);
  } else {
    Value *each = *norm == Norm::L1 ? n.b.pointwise(Op::Abs, {x}) : n.b.pointwise(Op::Mul, {x, x});
    size = each ? sum(n.b, each, {1}) : nullptr;
    if (size && *norm == Norm::L2)
      size = n.b.pointwise(Op::Sqrt, {size});
  }
  // A row of zeros stays as it is.
  Value *y = size ? pointwise(n.b, {x, keepDims(n.b, size, x->type(), {1})},
                              [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                Value *by = s(Op::Select, s(Op::Equal, a[1], s.c(0)), s.c(1), a[1]);
                                return s(Op::Div, a[0], by);
                              })
                  : nullptr;
  const auto shape = n.type(0).shape();
  n.set(0, y ? n.b.reshape(y, Dims(shape.begin(), shape.end())) : nullptr);
}

void importLinearRegressor(Node &n) {
  const auto transform = postTransform(n);
  Value *y = transform ? scores(n, n.intAttr("targets", 1)) : nullptr;
  n.set(0, y ? transformed(n, y, *transform) : nullptr);
}

void importLinearClassifier(Node &n) {
  enum { Label, Scores };
  const auto labels = classLabels(n, "classlabels_ints");
  const auto transform = postTransform(n);
  Value *y = labels && transform ? scores(n, labels->size()) : nullptr;
  if (!y)
    return;
  if (n.wants(Label))
    n.set(Label, labelOfBest(n, y, *labels));
  n.set(Scores, transformed(n, y, *transform));
}

} // namespace tenon::frontend
