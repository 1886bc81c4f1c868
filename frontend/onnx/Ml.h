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

} // namespace tenon::frontend
