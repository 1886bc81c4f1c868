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

/// Which classes the machine of each pair tells apart, in the order of the machines.
template <class Fn> void forPairs(int64_t classes, Fn fn) {
  for (int64_t i = 0, pair = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair)
      fn(i, j, pair);
}

/// From scores y [rows, pairs] the chances r [rows, classes, classes] of the first of two classes
/// where it is one of them: a sigmoid fitted to each machine's scores (Platt).
Value *pairedChances(Node &n, Value *y, int64_t classes) {
  constexpr double kLeast = 1e-7; // of a chance, so that none is ruled out
  const Dim rows = y->type().dim(0);
  const int64_t pairs = classes * (classes - 1) / 2, all = classes * classes;
  Floats place(size_t(pairs * all)), rest(size_t(all), 0);
  forPairs(classes, [&](int64_t i, int64_t j, int64_t pair) {
    place[size_t(pair * all + i * classes + j)] = 1;
    place[size_t(pair * all + j * classes + i)] = -1;
    rest[size_t(j * classes + i)] = 1;
  });
  Value *chances = pointwise(n.b,
                             {y, constant(n, n.floatsAttr("prob_a"), {pairs}),
                              constant(n, n.floatsAttr("prob_b"), {pairs})},
                             [](Scalars &s, llvm::ArrayRef<Value *> a) {
                               Value *line = s(Op::Add, s(Op::Mul, a[0], a[1]), a[2]);
                               Value *chance = s(Op::Sigmoid, s(Op::Neg, line));
                               return s(Op::Min, s(Op::Max, chance, s.c(kLeast)), s.c(1 - kLeast));
                             });
  Value *r = chances ? n.b.value(Op::MatMul, {chances, constant(n, place, {pairs, all})}) : nullptr;
  r = r ? n.b.pointwise(Op::Add, {r, constant(n, rest, {all})}) : nullptr;
  return r ? n.b.reshape(r, {rows, n.dim(classes), n.dim(classes)}) : nullptr;
}

/// The chances p [rows, classes] that agree best with those of pairs, r: they minimise
/// Σ (r[j, i] p[i] − r[i, j] p[j])² = 2 pᵀ Q p (Wu, Lin and Weng 2004, the second method). One step
/// of the loop improves one class; a row rests once its gradient is small, as in libsvm, whose
/// results depend on where that is.
Value *coupledChances(Node &n, Value *r, int64_t classes) {
  Builder &b = n.b;
  const double tolerance = 0.005 / double(classes);
  const int64_t steps = std::max<int64_t>(100, classes) * classes;
  const Dim rows = r->type().dim(0);
  const Shape each{rows, n.dim(classes)};
  Value *squares = b.pointwise(Op::Mul, {r, r});
  Value *diagonal = squares ? sum(b, squares, {1}) : nullptr;
  Value *q = diagonal
                 ? pointwise(b, {r, r, diagonal}, {{0, 1, 2}, {0, 2, 1}, {0, 1}}, r->type().shape(),
                             [](Scalars &s, llvm::ArrayRef<Value *> a) {
                               return s(Op::Select, s(Op::Equal, s.index(1), s.index(2)), a[2],
                                        s(Op::Neg, s(Op::Mul, a[0], a[1])));
                             })
                 : nullptr;
  Value *start = generate(b, Element::F32, each, [&](Scalars &s, llvm::ArrayRef<Value *>) {
    return s.c(1 / double(classes));
  });
  Value *moving = generate(b, Element::Bool, {rows, n.dim(1)},
                           [](Scalars &s, llvm::ArrayRef<Value *>) { return s.c(1); });
  const llvm::SmallVector<Value *, 8> operands{b.constant(Tensor::fromInts({steps}).reshaped({})),
                                               b.scalarConstant(Element::Bool, 1),
                                               start,
                                               moving,
                                               q,
                                               diagonal};
  if (llvm::is_contained(operands, nullptr))
    return nullptr;
  const NamedAttributes attributes{
      {"carried", int64_t(2)}, {"scans", int64_t(0)}, {"max_trip", Dims{n.dim(steps)}}};
  Operation *loop = b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    enum { Step, More, P, Moving, Q, Diagonal };
    llvm::SmallVector<Value *, 8> a;
    for (Value *v : operands)
      a.push_back(region.addArgument(v->type()));
    Builder inner(region, b.diagnostics());
    inner.location = b.location;
    Value *column = inner.reshape(a[P], {rows, n.dim(classes), n.dim(1)});
    Value *product = column ? inner.value(Op::MatMul, {a[Q], column}) : nullptr;
    product = product ? inner.reshape(product, each) : nullptr;
    Value *terms = product ? inner.pointwise(Op::Mul, {a[P], product}) : nullptr;
    Value *total = terms ? keepDims(inner, sum(inner, terms, {1}), terms->type(), {1}) : nullptr;
    Value *gradient = total ? inner.pointwise(Op::Sub, {total, product}) : nullptr;
    Value *size = gradient ? inner.pointwise(Op::Abs, {gradient}) : nullptr;
    size = size ? inner.reduce(Op::Max, size, {1}, 0) : nullptr;
    size = size ? keepDims(inner, size, terms->type(), {1}) : nullptr;
    if (!size)
      return;
    const auto turn = [&](Scalars &s, Value *step) {
      return s(Op::Mod, step, s.c(Element::I64, double(classes)));
    };
    Value *moves = pointwise(inner, {a[Moving], size, a[Step]}, {{0, 1}, {0, 1}, {}},
                             a[Moving]->type().shape(), [&](Scalars &s, llvm::ArrayRef<Value *> v) {
                               Value *first = s(Op::Equal, turn(s, v[2]), s.c(Element::I64, 0));
                               Value *far = s(Op::GreaterEqual, v[1], s.c(Element::F32, tolerance));
                               return s(Op::Select, first, far, v[0]);
                             });
    Value *change = moves ? pointwise(inner, {gradient, a[Diagonal], moves, a[Step]},
                                      {{0, 1}, {0, 1}, broadcastMap(moves->type(), each), {}}, each,
                                      [&](Scalars &s, llvm::ArrayRef<Value *> v) {
                                        Value *here = s(Op::LogicalAnd, v[2],
                                                        s(Op::Equal, s.index(1), turn(s, v[3])));
                                        return s(Op::Select, here, s(Op::Div, v[0], v[1]), s.c(0));
                                      })
                          : nullptr;
    Value *by = change ? keepDims(inner, sum(inner, change, {1}), change->type(), {1}) : nullptr;
    Value *next =
        by ? pointwise(inner, {a[P], change, by},
                       [](Scalars &s, llvm::ArrayRef<Value *> v) {
                         return s(Op::Div, s(Op::Add, v[0], v[1]), s(Op::Add, s.c(1), v[2]));
                       })
           : nullptr;
    Value *any = next ? inner.reduce(Op::LogicalOr, moves, {0, 1}, 0) : nullptr;
    if (any)
      inner.yield({any, next, moves});
  });
  return loop ? loop->result(0) : nullptr;
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
  // 0 where it votes for the first of them. Most votes decide, of equals the first class, whatever
  // the chances are that were fitted to the scores.
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
  const bool fitted = n.hasAttr("prob_a");
  if (counts.empty()) {
    n.error("attribute vectors_per_class: expected one number a class, found none");
    return;
  }
  for (const char *name : {"prob_a", "prob_b"})
    if (const size_t found = n.floatsAttr(name).size(); fitted && int64_t(found) != pairs) {
      n.error("attribute " + std::string(name) + ": expected a number for each of " +
              std::to_string(pairs) + " pairs of classes, found " + std::to_string(found));
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
  forPairs(classes, [&](int64_t i, int64_t j, int64_t pair) {
    for (const auto &[own, row] : {std::pair(i, j - 1), std::pair(j, i)})
      for (int64_t v = first[size_t(own)]; v < first[size_t(own)] + counts[size_t(own)]; ++v)
        weights[size_t(v * pairs + pair)] = coefficients[size_t(row * supports + v)];
    // A vote less for j where i has it.
    votes[size_t(pair * classes + i)] = 1;
    votes[size_t(pair * classes + j)] = -1;
    standing[size_t(j)] += 1;
  });
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
  if (fitted) {
    Value *r = pairedChances(n, y, classes);
    Value *p = r ? coupledChances(n, r, classes) : nullptr;
    n.set(Scores, p ? transformed(n, p, *transform) : nullptr);
    return;
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
