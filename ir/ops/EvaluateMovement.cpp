// Evaluates movement ops: copies between index maps, whatever the element type.
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Strided.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

namespace tenon {

bool evaluateReshape(const Operation &op, EvaluationFrame &frame, std::string &error) {
  Extents shape = frame.resultShape(op, 0);
  const Tensor &x = frame.operands[0];
  const int64_t n = product(shape);
  if (n != x.size())
    return fail(error,
                "cannot reshape " + llvm::Twine(x.size()) + " elements to " + llvm::Twine(n));
  frame.results.push_back(x.reshaped(shape));
  return true;
}

bool evaluateTranspose(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  Extents strides = rowMajorStrides(x.shape()), shape;
  Place source;
  for (int64_t d : op.intsAttr("perm")) {
    shape.push_back(x.shape()[size_t(d)]);
    source.strides.push_back(strides[size_t(d)]);
  }
  frame.results.push_back(readStrided(shape, x, source));
  return true;
}

bool evaluateSlice(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0];
  const Dims &starts = op.dimsAttr("starts"), &sizes = op.dimsAttr("sizes");
  const Ints &steps = op.intsAttr("steps");
  Extents strides = rowMajorStrides(x.shape()), shape;
  Place source;
  for (size_t d = 0; d < strides.size(); ++d) {
    llvm::Optional<int64_t> start = frame.value(starts[d]), size = frame.value(sizes[d]);
    if (!start || !size)
      return fail(error, "dimension " + llvm::Twine(d) + ": start or size has no value");
    const int64_t step = *size > 1 ? steps[d] : 0; // one element has no neighbour to step to
    int64_t last;
    const bool overflow =
        llvm::MulOverflow(*size - 1, step, last) || llvm::AddOverflow(*start, last, last);
    if (*size > 0 &&
        (overflow || std::min(*start, last) < 0 || std::max(*start, last) >= x.shape()[d]))
      return fail(error, "dimension " + llvm::Twine(d) + ": " + llvm::Twine(*size) +
                             " elements from index " + llvm::Twine(*start) +
                             " are out of range for extent " + llvm::Twine(x.shape()[d]));
    shape.push_back(std::max<int64_t>(*size, 0));
    source.offset += *size > 0 ? *start * strides[d] : 0;
    source.strides.push_back(*size > 0 ? step * strides[d] : 0);
  }
  frame.results.push_back(readStrided(shape, x, source));
  return true;
}

namespace {

/// Index into an extent of `n` that stands at position i of the padded dimension; −1 for none.
int64_t paddedIndex(llvm::StringRef mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n)
    return i;
  if (mode == "constant" || n == 0)
    return -1;
  if (mode == "edge")
    return i < 0 ? 0 : n - 1;
  const int64_t period = mode == "wrap" ? n : std::max<int64_t>(2 * (n - 1), 1);
  i %= period;
  if (i < 0)
    i += period;
  return mode == "wrap" || i < n ? i : period - i;
}

} // namespace

bool evaluatePad(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0];
  Extents shape;
  std::vector<std::vector<int64_t>> indices;
  for (unsigned d = 0; d < x.rank(); ++d) {
    llvm::Optional<int64_t> low = frame.value(op.dimsAttr("low")[d]);
    llvm::Optional<int64_t> high = frame.value(op.dimsAttr("high")[d]);
    if (!low || !high || *low < 0 || *high < 0)
      return fail(error, "dimension " + llvm::Twine(d) + ": pads have no value of at least 0");
    const int64_t n = x.shape()[d];
    shape.push_back(*low + n + *high);
    std::vector<int64_t> list;
    for (int64_t i = -*low; i < n + *high; ++i)
      list.push_back(paddedIndex(op.wordAttr("mode", "constant"), i, n));
    indices.push_back(std::move(list));
  }
  Tensor result =
      frame.operands.size() > 1 ? filled(shape, frame.operands[1]) : Tensor(x.element(), shape);
  if (x.size() > 0)
    pickElements(x, indices, result);
  frame.results.push_back(std::move(result));
  return true;
}

bool evaluateConcat(const Operation &op, EvaluationFrame &frame, std::string &) {
  const size_t axis = size_t(op.intAttr("axis"));
  Extents shape(frame.operands[0].shape().begin(), frame.operands[0].shape().end());
  shape[axis] = 0;
  for (const Tensor &t : frame.operands)
    shape[axis] += t.shape()[axis];
  Tensor result(frame.operands[0].element(), shape);
  Extents strides = rowMajorStrides(shape);
  int64_t at = 0;
  for (const Tensor &t : frame.operands) {
    copyElements(t.shape(), t, {0, rowMajorStrides(t.shape())}, result,
                 {at * strides[axis], strides});
    at += t.shape()[axis];
  }
  frame.results.push_back(std::move(result));
  return true;
}

bool evaluateGather(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0], &indices = frame.operands[1];
  const size_t axis = size_t(op.intAttr("axis"));
  const int64_t extent = x.shape()[axis];
  std::vector<int64_t> list;
  for (int64_t i = 0; i < indices.size(); ++i) {
    const int64_t at = indices.intAt(i);
    if (at < -extent || at >= extent)
      return fail(error, "index " + llvm::Twine(at) + " is out of range for extent " +
                             llvm::Twine(extent) + " of dimension " + llvm::Twine(axis));
    list.push_back(at < 0 ? at + extent : at);
  }
  // As a pick on [outer, axis, inner].
  const int64_t outer = product(x.shape().take_front(axis));
  const int64_t inner = product(x.shape().drop_front(axis + 1));
  std::vector<int64_t> rows(static_cast<size_t>(outer)), columns(static_cast<size_t>(inner));
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(columns.begin(), columns.end(), 0);
  Extents shape(x.shape().begin(), x.shape().begin() + axis);
  shape.append(indices.shape().begin(), indices.shape().end());
  shape.append(x.shape().begin() + axis + 1, x.shape().end());
  Tensor result(x.element(), {outer, int64_t(list.size()), inner});
  if (result.size() > 0)
    pickElements(x.reshaped({outer, extent, inner}), {rows, std::move(list), columns}, result);
  frame.results.push_back(result.reshaped(shape));
  return true;
}

namespace {

template <class T> T combined(llvm::StringRef combiner, T old, T update) {
  if (combiner == "none")
    return update;
  if (combiner == "add")
    return old + update;
  if (combiner == "mul")
    return old * update;
  if (old != old || update != update) // NaN wins
    return old != old ? old : update;
  return combiner == "min" ? std::min(old, update) : std::max(old, update);
}

} // namespace

bool evaluateScatter(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0], &indices = frame.operands[1], &updates = frame.operands[2];
  const llvm::StringRef combiner = op.wordAttr("combiner", "none");
  const int64_t rows = x.shape()[0], row = rows ? x.size() / rows : 0;
  Tensor result = x;
  for (int64_t i = 0; i < indices.size(); ++i) {
    const int64_t at = indices.intAt(i);
    if (at < 0 || at >= rows)
      return fail(error, "index " + llvm::Twine(at) + " is out of range for extent " +
                             llvm::Twine(rows) + " of dimension 0");
    for (int64_t k = 0; k < row; ++k) {
      const int64_t to = at * row + k, from = i * row + k;
      if (isFloat(x.element()))
        result.set(to, combined(combiner, result.at(to), updates.at(from)));
      else // unsigned: sums and products wrap
        result.setInt(to, combiner == "min" || combiner == "max"
                              ? combined(combiner, result.intAt(to), updates.intAt(from))
                              : int64_t(combined(combiner, uint64_t(result.intAt(to)),
                                                 uint64_t(updates.intAt(from)))));
    }
  }
  frame.results.push_back(std::move(result));
  return true;
}

bool evaluateBitcast(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  frame.results.push_back(Tensor(op.result()->type().element(), x.shape(), x.bytes().vec()));
  return true;
}

} // namespace tenon
