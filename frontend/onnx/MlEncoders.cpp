// Imports encoders of features of ai.onnx.ml.
#include "frontend/GraphImporter.h"
#include "frontend/Proto.h"
#include "frontend/onnx/Ml.h"

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
  if (!n.boolAttr("zeros", true))
    n.graph.state.warning(
        "node " + quoted(n.id) +
        " (OneHotEncoder): attribute zeros = 0 asks for an error where a category "
        "is unknown; code that runs gives zeros there");
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

/// A map for each row has no form in the C interface: the result is the tensor that holds the same
/// values, a column for each class.
void importZipMap(Node &n) {
  const Strings words = n.stringsAttr("classlabels_strings");
  const Ints numbers = n.intsAttr("classlabels_int64s");
  if (words.empty() == numbers.empty()) {
    n.error("expected either classlabels_strings or classlabels_int64s");
    return;
  }
  if (!n.checkRank(0, 1, 2))
    return;
  const auto count = int64_t(words.empty() ? numbers.size() : words.size());
  const Dim columns = n.type(0).shape().back();
  if (columns.isConstant() && columns.constant() != count) {
    n.error("expected a column for each of " + std::to_string(count) + " class labels, found " +
            toString(n.type(0)));
    return;
  }
  n.graph.state.warning("node " + quoted(n.id) +
                        " (ZipMap): its result, a map for each row, is given as the tensor " +
                        n.inputName(0) +
                        ": a row for each of them, with a column for each class label in their "
                        "order");
  Value *x = n.input(0);
  n.set(0, n.rank(0) == 1 ? n.b.reshape(x, {n.dim(1), columns}) : x);
}

} // namespace tenon::frontend
