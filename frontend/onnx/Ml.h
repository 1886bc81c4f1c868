// Defines what importers of ai.onnx.ml share: words of attributes, and what is done with scores at
// the end.
#pragma once

#include "frontend/onnx/Operators.h"

namespace tenon::frontend {

/// The enumerator whose word stands at its place in `names`; None after reporting another word.
template <class E, size_t N>
llvm::Optional<E> byName(Node &n, llvm::StringRef name, const char *const (&names)[N]) {
  for (size_t i = 0; i < N; ++i)
    if (name == names[i])
      return E(i);
  n.error("'" + name.str() + "' is not supported here: expected " + names[0] + ", " + names[1] +
          " or the like");
  return llvm::None;
}

enum class Transform { None, Softmax, Logistic, SoftmaxZero, Probit };
/// The attribute post_transform.
llvm::Optional<Transform> postTransform(Node &n);
/// Scores [rows, classes] after it; null after an error.
Value *transformed(Node &n, Value *scores, Transform transform);

/// Operand 0 as f32 rows [rows, features]; null after an error.
Value *featureRows(Node &n);

/// The names of the classes: the attribute classlabels_strings, or `integers`; None after reporting
/// that there are not two.
llvm::Optional<Tensor> classLabels(Node &n, llvm::StringRef integers);
/// The names at `places`, i64 [rows, 1]: [rows].
Value *labelAt(Node &n, Value *places, const Tensor &labels);
/// The name of the class with the best of the scores [rows, classes], the first of equals.
Value *labelOfBest(Node &n, Value *scores, const Tensor &labels);

} // namespace tenon::frontend
