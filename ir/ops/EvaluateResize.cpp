// Evaluates resize: each dimension in turn, as a pick (nearest) or a weighted sum (linear, cubic).
#include "ir/ResizeTaps.h"
#include "ir/Scalar.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Strided.h"

#include <cmath>

namespace tenon {
namespace {

/// values [outer, axis.in, inner] → [outer, axis.out, inner]
std::vector<double> resample(const std::vector<double> &values, const Operation &op,
                             const ResizeAxis &axis, int64_t outer, int64_t inner) {
  std::vector<double> result(size_t(outer * axis.out * inner), 0.0);
  for (int64_t i = 0; i < axis.out; ++i) {
    const ResizeTaps taps = resizeTaps(op, axis, i);
    for (int64_t o = 0; o < outer; ++o) {
      double *to = result.data() + (o * axis.out + i) * inner;
      for (size_t t = 0; t < taps.index.size(); ++t) {
        const double *from = values.data() + (o * axis.in + taps.index[t]) * inner;
        const double w = taps.weight[t];
        if (w != 0)
          for (int64_t k = 0; k < inner; ++k)
            to[k] += w * from[k];
      }
    }
  }
  return result;
}

/// Overwrites what lies outside the region along any axis.
void extrapolate(Tensor &result, llvm::ArrayRef<ResizeAxis> axes, double value) {
  Extents strides = rowMajorStrides(result.shape());
  for (size_t d = 0; d < axes.size(); ++d)
    for (int64_t i = 0; i < axes[d].out; ++i) {
      if (!axes[d].isOutside(i))
        continue;
      Extents shape(result.shape().begin(), result.shape().end());
      shape[d] = 1;
      const Tensor fill = filled(shape, Tensor::scalar(result.element(), value));
      copyElements(shape, fill, {0, rowMajorStrides(shape)}, result, {i * strides[d], strides});
    }
}

} // namespace

bool evaluateResize(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0];
  Extents shape = frame.resultShape(op, 0);
  std::vector<ResizeAxis> axes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (x.shape()[d] == 0 && shape[d] != 0)
      return fail(error, "dimension " + llvm::Twine(d) + " has no elements to resample");
    axes.push_back(resizeAxis(op, unsigned(d), x.shape()[d], shape[d]));
  }
  Tensor result(x.element(), shape);
  if (result.size() == 0) {
    frame.results.push_back(std::move(result));
    return true;
  }
  if (op.wordAttr("mode") == "nearest") {
    std::vector<std::vector<int64_t>> indices;
    for (const ResizeAxis &a : axes) {
      std::vector<int64_t> list(static_cast<size_t>(a.out));
      for (int64_t i = 0; i < a.out; ++i)
        list[size_t(i)] = resizeTaps(op, a, i).index[0];
      indices.push_back(std::move(list));
    }
    pickElements(x, indices, result);
  } else {
    std::vector<double> values(static_cast<size_t>(x.size()));
    x.toDoubles(0, x.size(), values.data());
    for (size_t d = axes.size(); d-- > 0;)
      if (!axes[d].isIdentity())
        values = resample(values, op, axes[d], product(x.shape().take_front(d)),
                          product(llvm::makeArrayRef(shape).drop_front(d + 1)));
    if (isInteger(x.element()))
      for (double &v : values) // half to even, saturating
        v = double(truncateToInt(x.element(), std::nearbyint(v)));
    result.fromDoubles(0, result.size(), values.data());
  }
  if (op.wordAttr("coordinates") == "tf_crop_and_resize")
    extrapolate(result, axes, op.floatAttr("extrapolation"));
  frame.results.push_back(std::move(result));
  return true;
}

} // namespace tenon
