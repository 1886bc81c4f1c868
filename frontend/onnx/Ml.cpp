// Imports the operators of ai.onnx.ml, classical machine learning.
#include "frontend/onnx/Operators.h"

namespace tenon::frontend {

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

} // namespace tenon::frontend
