// Imports the operators of ai.onnx.ml, classical machine learning.
#include "frontend/onnx/Ml.h"

#include <cmath>

namespace tenon::frontend {

llvm::Optional<Transform> postTransform(Node &n) {
  constexpr const char *kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  return byName<Transform>(n, n.stringAttr("post_transform", "NONE"), kNames);
}

namespace {

/// The quantile of the normal distribution, √2 · erf⁻¹(2p − 1), with the approximation of the
/// inverse that onnxruntime has, off by 0.2 % at most (Winitzki's, a = 0.147):
///   erf⁻¹(x) = ±√(√(v² − l / a) − v),  l = log(1 − x²),  v = 2 / (π a) + l / 2
Value *probit(Builder &b, Value *scores) {
  constexpr double kA = 0.147, kPi = 3.14159265358979323846;
  return pointwise(b, {scores}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
    Value *x = s(Op::Sub, s(Op::Mul, s.c(2), a[0]), s.c(1));
    Value *l = s(Op::Log, s(Op::Mul, s(Op::Sub, s.c(1), x), s(Op::Add, s.c(1), x)));
    Value *v = s(Op::Add, s.c(2 / (kPi * kA)), s(Op::Mul, s.c(0.5), l));
    Value *root = s(Op::Sqrt, s(Op::Sub, s(Op::Mul, v, v), s(Op::Mul, s.c(1 / kA), l)));
    Value *y = s(Op::Mul, s.c(std::sqrt(2.0)), s(Op::Sqrt, s(Op::Sub, root, v)));
    return s(Op::Select, s(Op::Less, x, s.c(0)), s(Op::Neg, y), y);
  });
}

} // namespace

Value *transformed(Node &n, Value *scores, Transform transform) {
  switch (transform) {
  case Transform::None: return scores;
  case Transform::Softmax: return n.b.value(Op::Softmax, {scores}, {{"axis", int64_t(1)}});
  case Transform::Logistic: return n.b.pointwise(Op::Sigmoid, {scores});
  case Transform::SoftmaxZero: {
    // Scores of 0 stay 0 and do not count.
    Value *shown = pointwise(n.b, {scores}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Select, s(Op::Equal, a[0], s.c(0)), s.c(-INFINITY), a[0]);
    });
    Value *y = shown ? n.b.value(Op::Softmax, {shown}, {{"axis", int64_t(1)}}) : nullptr;
    return y ? pointwise(n.b, {scores, y},
                         [](Scalars &s, llvm::ArrayRef<Value *> a) {
                           return s(Op::Select, s(Op::Equal, a[0], s.c(0)), s.c(0), a[1]);
                         })
             : nullptr;
  }
  case Transform::Probit: return probit(n.b, scores);
  }
  return nullptr;
}

llvm::Optional<Tensor> classLabels(Node &n, llvm::StringRef integers) {
  const Strings names = n.stringsAttr("classlabels_strings");
  const Ints numbers = n.intsAttr(integers);
  const size_t classes = std::max(names.size(), numbers.size());
  if (classes < 2) {
    n.error("expected at least two class labels, found " + std::to_string(classes));
    return llvm::None;
  }
  return names.empty() ? Tensor::fromInts(numbers)
                       : Tensor::strings({int64_t(names.size())}, names);
}

Value *labelAt(Node &n, Value *places, const Tensor &labels) {
  Value *flat = places ? n.b.reshape(places, {places->type().dim(0)}) : nullptr;
  return flat ? n.b.value(Op::Gather, {n.b.constant(labels), flat}, {{"axis", int64_t(0)}})
              : nullptr;
}

Value *labelOfBest(Node &n, Value *scores, const Tensor &labels) {
  Operation *best = n.b.create(Op::TopK, {scores}, {{"k", Dims{n.dim(1)}}, {"axis", int64_t(1)}});
  return labelAt(n, best ? best->result(1) : nullptr, labels);
}

void importArrayFeatureExtractor(Node &n) {
  enum { X, Indices };
  if (!n.checkRank(X, 1))
    return;
  // Whatever the shape of the indices, they pick from the last dimension; a vector counts as a row.
  Value *x = n.rank(X) > 1 ? n.input(X) : n.b.reshape(n.input(X), {n.dim(1), n.type(X).dim(0)});
  Value *indices = n.b.reshape(n.input(Indices), {n.type(Indices).elements()});
  if (x && indices)
    n.set(0, n.b.value(Op::Gather, {x, indices}, {{"axis", int64_t(x->type().rank()) - 1}}));
}

void importBinarizer(Node &n) {
  const double threshold = n.floatAttr("threshold", 0);
  n.set(0, pointwise(n.b, {n.input(0)}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          return s(Op::Select, s(Op::Greater, a[0], s.c(threshold)), s.c(1), s.c(0));
        }));
}

namespace {

/// Keys or values of a LabelEncoder: the attribute of whichever type there is; null where none is.
llvm::Optional<Tensor> labels(Node &n, const std::string &kind) {
  const Strings strings = n.stringsAttr(kind + "_strings");
  const Ints integers = n.intsAttr(kind + "_int64s");
  const Floats floats = n.floatsAttr(kind + "_floats");
  if (!strings.empty())
    return Tensor::strings({int64_t(strings.size())}, strings);
  if (!integers.empty())
    return Tensor::fromInts(integers);
  if (!floats.empty()) {
    Tensor t(Element::F32, {int64_t(floats.size())});
    t.fromDoubles(0, t.size(), floats.data());
    return t;
  }
  auto t = n.tensorAttr(kind + "_tensor");
  return t ? llvm::Optional<Tensor>(t->reshaped({t->size()})) : llvm::None;
}

/// What stands for a key that is not there, of element type `e`.
llvm::Optional<Tensor> defaultLabel(Node &n, Element e) {
  if (auto t = n.tensorAttr("default_tensor"))
    return t->element() == e && t->size() == 1 ? llvm::Optional<Tensor>(t->reshaped({1}))
                                               : llvm::None;
  if (e == Element::String)
    return Tensor::strings({1}, {n.stringAttr("default_string", "_Unused")});
  Tensor t(e, {1});
  if (e == Element::I64)
    t.setInt(0, n.intAttr("default_int64", -1));
  else
    t.set(0, n.floatAttr("default_float", -0.0));
  return t;
}

/// What stands at the place of each element among `keys`, in `values`, or `otherwise`.
void lookUp(Node &n, const Tensor &keys, const Tensor &values, const Tensor &otherwise) {
  // The place of the key picks from the values; -1 picks the default behind them.
  Value *x = n.input(0), *place;
  if (keys.element() == Element::String) {
    place = n.b.value(Op::TextMap, {x},
                      {{"function", Word{"index"}}, {"keys", Strings(keys.stringValues())}});
  } else {
    Shape space(x->type().shape().begin(), x->type().shape().end());
    const int64_t last = int64_t(space.size());
    space.push_back(n.dim(keys.size()));
    Value *each =
        pointwise(n.b, {x, n.b.constant(keys)}, {identityMap(unsigned(last)), along(last)}, space,
                  [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                    Value *same = s(Op::Equal, a[0], a[1]);
                    if (isFloat(keys.element()))
                      same = s(Op::LogicalOr, same,
                               s(Op::LogicalAnd, s(Op::IsNaN, a[0]), s(Op::IsNaN, a[1])));
                    return s(Op::Select, same, s.index(unsigned(last)), s.c(Element::I64, -1));
                  });
    place = each ? n.b.reduce(Op::Max, each, {last}, -1) : nullptr;
  }
  const NamedAttributes first{{"axis", int64_t(0)}};
  Value *table = n.b.value(Op::Concat, {n.b.constant(values), n.b.constant(otherwise)}, first);
  n.set(0, place && table ? n.b.value(Op::Gather, {table, place}, first) : nullptr);
}

} // namespace

void importLabelEncoder(Node &n) {
  auto keys = labels(n, "keys"), values = labels(n, "values");
  if (n.opset == 1 && n.hasAttr("classes_strings")) { // a list of names and their places
    const Strings names = n.stringsAttr("classes_strings");
    Ints places(names.size());
    for (size_t i = 0; i < places.size(); ++i)
      places[i] = int64_t(i);
    const bool fromText = n.element(0) == Element::String;
    keys = fromText ? Tensor::strings({int64_t(names.size())}, names) : Tensor::fromInts(places);
    values = fromText ? Tensor::fromInts(places) : Tensor::strings({int64_t(names.size())}, names);
  }
  if (!keys || !values || keys->size() != values->size() || keys->element() != n.element(0)) {
    n.error("expected as many values as keys, keys of type " + name(n.element(0)).str());
    return;
  }
  auto otherwise = defaultLabel(n, values->element());
  if (!otherwise) {
    n.error("attribute default_tensor: expected one " + name(values->element()).str());
    return;
  }
  lookUp(n, *keys, *values, *otherwise);
}

void importCategoryMapper(Node &n) {
  // One list of names and of numbers serves both directions.
  const Strings names = n.stringsAttr("cats_strings");
  const Ints numbers = n.intsAttr("cats_int64s");
  const bool fromText = n.element(0) == Element::String;
  if (names.empty() || names.size() != numbers.size() ||
      (!fromText && n.element(0) != Element::I64)) {
    n.error("expected text or i64 and as many cats_strings as cats_int64s, found " +
            toString(n.type(0)) + ", " + std::to_string(names.size()) + " and " +
            std::to_string(numbers.size()));
    return;
  }
  const Tensor texts = Tensor::strings({int64_t(names.size())}, names),
               whole = Tensor::fromInts(numbers);
  if (fromText)
    lookUp(n, texts, whole, Tensor::fromInts({n.intAttr("default_int64", -1)}));
  else
    lookUp(n, whole, texts, Tensor::strings({1}, {n.stringAttr("default_string", "_Unused")}));
}

} // namespace tenon::frontend
