// Imports encoders of features and support vector regression of ai.onnx.ml.
#include "frontend/onnx/Ml.h"

#include <cmath>

namespace tenon::frontend {

void importOneHotEncoder(Node &n) {
  const Strings names = n.stringsAttr("cats_strings");
  const Ints numbers = n.intsAttr("cats_int64s");
  const bool isText = n.element(0) == Element::String;
  const auto count = int64_t(isText ? names.size() : numbers.size());
  if (count == 0) {
    n.error("expected categories of the operand's type, " + toString(n.type(0)));
    return;
  }
  if (!n.boolAttr("zeros", true)) {
    n.error("attribute zeros = 0 is not supported: generated code cannot refuse a category");
    return;
  }
  // The place of the category, or the category itself.
  Value *x = n.input(0);
  const Tensor keys = isText ? Tensor::fromInts(allAxes(0, count)) : Tensor::fromInts(numbers);
  x = isText ? n.b.value(Op::TextMap, {x}, {{"function", Word{"index"}}, {"keys", names}})
             : n.b.cast(x, Element::I64);
  if (!x)
    return;
  Shape space(x->type().shape().begin(), x->type().shape().end());
  const auto last = int64_t(space.size());
  space.push_back(n.dim(count));
  n.set(0, pointwise(n.b, {x, n.b.constant(keys)}, {identityMap(unsigned(last)), along(last)},
                     space, [](Scalars &s, llvm::ArrayRef<Value *> a) {
                       return s.cast(s(Op::Equal, a[0], a[1]), Element::F32);
                     }));
}

void importFeatureVectorizer(Node &n) {
  llvm::SmallVector<Value *, 4> rows;
  for (unsigned i = 0; i < n.numInputs(); ++i) {
    if (!n.has(i) || !n.checkRank(i, 1, 2))
      return;
    Value *x = n.b.cast(n.input(i), Element::F32);
    if (x && n.rank(i) == 1)
      x = n.b.reshape(x, {n.dim(1), n.type(i).dim(0)});
    rows.push_back(x);
  }
  if (!llvm::is_contained(rows, nullptr))
    n.set(0, n.b.value(Op::Concat, rows, {{"axis", int64_t(1)}}));
}

void importSvmRegressor(Node &n) {
  enum class Kernel { Linear, Poly, Rbf, Sigmoid };
  constexpr const char *kKernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  const auto kernel = byName<Kernel>(n, n.stringAttr("kernel_type", "LINEAR"), kKernels);
  const auto transform = postTransform(n);
  const Floats coefficients = n.floatsAttr("coefficients"),
               vectors = n.floatsAttr("support_vectors"), rho = n.floatsAttr("rho");
  Floats parameters = n.floatsAttr("kernel_params");
  parameters.resize(std::max<size_t>(parameters.size(), 3), 0);
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
  auto constant = [&](const Floats &values, llvm::ArrayRef<int64_t> shape) {
    Tensor t(Element::F32, shape);
    t.fromDoubles(0, t.size(), values.data());
    return n.b.constant(t);
  };
  Value *rowsOf = constant(table, {rows, features.constant()});
  Value *likeness;
  if (*kernel == Kernel::Rbf && supports > 0) {
    Value *squares =
        pointwise(n.b, {x, rowsOf}, {{0, 2}, {1, 2}}, {x->type().dim(0), n.dim(rows), features},
                  [](Scalars &s, llvm::ArrayRef<Value *> a) {
                    Value *d = s(Op::Sub, a[0], a[1]);
                    return s(Op::Mul, d, d);
                  });
    likeness = squares ? sum(n.b, squares, {2}) : nullptr;
  } else {
    likeness = n.b.value(Op::MatMul, {x, rowsOf}, {{"trans_b", true}});
  }
  if (likeness && supports > 0)
    likeness = pointwise(n.b, {likeness}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      const double gamma = parameters[0], offset = parameters[1], degree = parameters[2];
      Value *line = s(Op::Add, s(Op::Mul, a[0], s.c(gamma)), s.c(offset));
      switch (*kernel) {
      case Kernel::Linear: return a[0];
      case Kernel::Poly: return s(Op::Pow, line, s.c(degree));
      case Kernel::Rbf: return s(Op::Exp, s(Op::Mul, a[0], s.c(-gamma)));
      case Kernel::Sigmoid: break;
      }
      return s(Op::Tanh, line);
    });
  Value *y = likeness;
  if (y && supports > 0)
    y = n.b.value(Op::MatMul, {y, constant(coefficients, {supports, 1})});
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

void importZipMap(Node &n) {
  n.error("its result, a list of maps, is not supported: take the scores that it gets, " +
          n.inputName(0) + ", as the model's output; skl2onnx writes no ZipMap with " +
          "options={'zipmap': False}");
}

} // namespace tenon::frontend
