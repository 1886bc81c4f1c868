// Imports support vector machines of ai.onnx.ml.
#include "frontend/onnx/Ml.h"

namespace tenon::frontend {
namespace {

enum class Kernel { Linear, Poly, Rbf, Sigmoid };

llvm::Optional<Kernel> kernelType(Node &n) {
  constexpr const char *kKernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  return byName<Kernel>(n, n.stringAttr("kernel_type", "LINEAR"), kKernels);
}

Value *constant(Node &n, const Floats &values, llvm::ArrayRef<int64_t> shape) {
  Tensor t(Element::F32, shape);
  t.fromDoubles(0, t.size(), values.data());
  return n.b.constant(t);
}

/// The kernel of each row of x [rows, features] and each of `count` vectors: [rows, count].
Value *likeness(Node &n, Value *x, const Floats &vectors, int64_t count, Kernel kernel) {
  Floats parameters = n.floatsAttr("kernel_params");
  parameters.resize(std::max<size_t>(parameters.size(), 3), 0);
  const double gamma = parameters[0], offset = parameters[1], degree = parameters[2];
  const Dim features = x->type().dim(1);
  Value *rows = constant(n, vectors, {count, features.constant()});
  Value *y;
  if (kernel == Kernel::Rbf) {
    Value *squares =
        pointwise(n.b, {x, rows}, {{0, 2}, {1, 2}}, {x->type().dim(0), n.dim(count), features},
                  [](Scalars &s, llvm::ArrayRef<Value *> a) {
                    Value *d = s(Op::Sub, a[0], a[1]);
                    return s(Op::Mul, d, d);
                  });
    y = squares ? sum(n.b, squares, {2}) : nullptr;
  } else {
    y = n.b.value(Op::MatMul, {x, rows}, {{"trans_b", true}});
  }
  if (!y || kernel == Kernel::Linear)
    return y;
  return pointwise(n.b, {y}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    if (kernel == Kernel::Rbf)
      return s(Op::Exp, s(Op::Mul, a[0], s.c(-gamma)));
    Value *line = s(Op::Add, s(Op::Mul, a[0], s.c(gamma)), s.c(offset));
    return kernel == Kernel::Poly ? s(Op::Pow, line, s.c(degree)) : s(Op::Tanh, line);
  });
}

} // namespace

void importSvmRegressor(Node &n) {
  const auto kernel = kernelType(n);
  const auto transform = postTransform(n);
  const Floats coefficients = n.floatsAttr("coefficients"),
               vectors = n.floatsAttr("support_vectors"), rho = n.floatsAttr("rho");
  Value *x = kernel && transform ? featureRows(n) : nullptr;
  if (!x)
    return;
  const Dim features = x->type().dim(1);
  const int64_t supports = n.intAttr("n_supports", 0);
  const int64_t rows = supports > 0 ? supports : 1;
  const Floats &table = supports > 0 ? vectors : coefficients; // without vectors a plain product
  if (!features.isConstant() || supports < 0 ||
      int64_t(table.size()) != rows * features.constant() || rho.empty() ||
      (supports > 0 && int64_t(coefficients.size()) != supports)) {
    n.error("expected n_supports vectors and coefficients for " + toString(x->type()) +
            " and one rho, found " + std::to_string(vectors.size()) + ", " +
            std::to_string(coefficients.size()) + " and " + std::to_string(rho.size()) +
            " numbers");
    return;
  }
  Value *y = likeness(n, x, table, rows, supports > 0 ? *kernel : Kernel::Linear);
  if (y && supports > 0)
    y = n.b.value(Op::MatMul, {y, constant(n, coefficients, {supports, 1})});
  const bool oneClass = n.boolAttr("one_class", false);
  y = y ? pointwise(n.b, {y},
                    [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                      Value *v = s(Op::Add, a[0], s.c(rho[0]));
                      return oneClass ? s(Op::Select, s(Op::Greater, v, s.c(0)), s.c(1), s.c(-1))
                                      : v;
                    })
        : nullptr;
  n.set(0, y ? transformed(n, y, *transform) : nullptr);
}

void importSvmClassifier(Node &n) {
  // Each pair of classes has a machine, whose support vectors are those of both; its score is above
  // 0 where it votes for the first of them. Most votes decide, of equals the first class.
  enum { Label, Scores };
  const auto kernel = kernelType(n);
  const auto transform = postTransform(n);
  const auto labels = classLabels(n, "classlabels_ints");
  Value *x = kernel && transform && labels ? featureRows(n) : nullptr;
  if (!x)
    return;
  const Floats coefficients = n.floatsAttr("coefficients"),
               vectors = n.floatsAttr("support_vectors"), rho = n.floatsAttr("rho");
  const Ints counts = n.intsAttr("vectors_per_class");
  const int64_t classes = labels->size(), pairs = classes * (classes - 1) / 2;
  if (counts.empty() || n.hasAttr("prob_a")) {
    n.error(counts.empty() ? "attribute vectors_per_class: expected one number a class, found none"
                           : "attribute prob_a: probabilities fitted to the scores are not "
                             "supported; train without them (probability=False)");
    return;
  }
  int64_t supports = 0;
  Ints first; // support vector of each class
  bool fits = int64_t(counts.size()) == classes && int64_t(rho.size()) == pairs;
  for (int64_t count : counts) {
    fits &= count >= 0 && count <= int64_t(vectors.size());
    first.push_back(supports);
    supports += fits ? count : 0;
  }
  const Dim features = x->type().dim(1);
  if (!fits || !features.isConstant() ||
      int64_t(vectors.size()) != supports * features.constant() ||
      int64_t(coefficients.size()) != (classes - 1) * supports) {
    n.error("expected vectors of " + std::to_string(classes) + " classes for " +
            toString(x->type()) + " with coefficients, and a rho for each pair of classes, found " +
            std::to_string(vectors.size()) + ", " + std::to_string(coefficients.size()) + " and " +
            std::to_string(rho.size()) + " numbers");
    return;
  }
  // Of class i against j the coefficients stand in row j - 1, of j against i in row i.
  Floats weights(size_t(supports * pairs)), votes(size_t(pairs * classes)),
      standing(size_t(classes), 0);
  for (int64_t i = 0, pair = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      for (const auto &[own, row] : {std::pair(i, j - 1), std::pair(j, i)})
        for (int64_t v = first[size_t(own)]; v < first[size_t(own)] + counts[size_t(own)]; ++v)
          weights[size_t(v * pairs + pair)] = coefficients[size_t(row * supports + v)];
      // A vote less for j where i has it.
      votes[size_t(pair * classes + i)] = 1;
      votes[size_t(pair * classes + j)] = -1;
      standing[size_t(j)] += 1;
    }
  Value *y = likeness(n, x, vectors, supports, *kernel);
  y = y ? n.b.value(Op::MatMul, {y, constant(n, weights, {supports, pairs})}) : nullptr;
  y = y ? n.b.pointwise(Op::Add, {y, constant(n, rho, {pairs})}) : nullptr;
  if (!y)
    return;
  if (n.wants(Label)) {
    Value *wins = pointwise(n.b, {y}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s.cast(s(Op::Greater, a[0], s.c(0)), Element::F32);
    });
    Value *sums =
        wins ? n.b.value(Op::MatMul, {wins, constant(n, votes, {pairs, classes})}) : nullptr;
    sums = sums ? n.b.pointwise(Op::Add, {sums, constant(n, standing, {classes})}) : nullptr;
    n.set(Label, sums ? labelOfBest(n, sums, *labels) : nullptr);
  }
  if (pairs == 1) // of the second class, and of the first one
    y = n.b.value(Op::Concat, {n.b.pointwise(Op::Neg, {y}), y}, {{"axis", int64_t(1)}});
  if (pairs == 1 && *transform != Transform::None && *transform != Transform::Logistic) {
    n.error("attribute post_transform: expected NONE or LOGISTIC for two classes, found " +
            n.stringAttr("post_transform", ""));
    return;
  }
  n.set(Scores, y ? transformed(n, y, *transform) : nullptr);
}

} // namespace tenon::frontend
