// Implements the rounding of weights that keeps the sums of their rows.
#include "passes/RoundWeights.h"

#include "ir/Extents.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

/// The other way to round an element: takes `step` off the sum of errors, and adds `price` times as
/// much to the sum of their squares.
struct Choice {
  double price, step;
  uint16_t bits;
  int64_t k;

  /// Order of a heap that has the cheapest in front; by position where prices are equal.
  bool operator<(const Choice &o) const { return price != o.price ? price > o.price : k > o.k; }
};

class Row {
public:
  Row(Element to, double mean) : to_(to), mean_(mean) {}

  /// Elements base[k * stride], rounded to nearest in `out`, are rounded otherwise where it helps.
  void round(const double *base, uint16_t *out, int64_t length, int64_t stride) {
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) {
      sum += decodeFloat(to_, out[k * stride]) - base[k * stride];
      if (!std::isfinite(sum))
        return;
    }
    choices_.clear();
    for (int64_t k = 0; k < length; ++k)
      consider(base[k * stride], out[k * stride], k, sum);
    std::make_heap(choices_.begin(), choices_.end());
    // A choice lowers r · left² + Σ δ² by step · (r · (2 · left − step) − price).
    double left = std::fabs(sum);
    while (!choices_.empty() && choices_.front().price < 2 * mean_ * left) {
      std::pop_heap(choices_.begin(), choices_.end());
      const Choice c = choices_.back();
      choices_.pop_back();
      if (mean_ * (2 * left - c.step) <= c.price)
        continue;
      left -= c.step;
      out[c.k * stride] = c.bits;
    }
  }

private:
  /// The neighbour on the other side of `w`, where it takes the sum towards zero.
  void consider(double w, uint16_t nearest, int64_t k, double sum) {
    const double n = decodeFloat(to_, nearest), error = n - w;
    if (error == 0 || (error > 0) != (sum > 0))
      return;
    const auto bits = uint16_t(std::fabs(n) > std::fabs(w) ? nearest - 1 : nearest + 1);
    const double other = decodeFloat(to_, bits);
    if (std::isfinite(other) && (other - n > 0) != (sum > 0))
      choices_.push_back({std::fabs(other - w) - std::fabs(error), std::fabs(other - n), bits, k});
  }

  Element to_;
  double mean_;
  std::vector<Choice> choices_;
};

} // namespace

WeightRows weightRows(const Operation &op, llvm::ArrayRef<int64_t> s) {
  if (op.is(Op::Conv))
    return {s[0], product(s.drop_front()), 1, product(s.drop_front()), 1};
  if (op.is(Op::ConvTranspose)) {
    const int64_t groups = op.intAttr("groups", 1), inner = product(s.drop_front());
    return {groups, s[0] / groups * inner, inner, s[0] / groups, inner};
  }
  const int64_t last = s.back(), before = s[s.size() - 2], matrices = product(s.drop_back(2));
  if (op.boolAttr("trans_b"))
    return {matrices * before, last, 1, last, 1};
  return {matrices, before * last, last, before, last};
}

Tensor roundedInRows(const Tensor &w, Element to, const WeightRows &rows, double mean) {
  Tensor out(to, w.shape());
  auto *bits = out.mutableAs<uint16_t>();
  const int64_t block = (rows.length - 1) * rows.stride + rows.inners;
  std::vector<double> wide(size_t(std::max<int64_t>(block, 0)));
  Row row(to, mean);
  for (int64_t i = 0; i < rows.outers; ++i) {
    const int64_t begin = i * rows.outerStride;
    w.toDoubles(begin, block, wide.data());
    out.fromDoubles(begin, block, wide.data());
    for (int64_t j = 0; j < rows.inners; ++j)
      row.round(wide.data() + j, bits + begin + j, rows.length, rows.stride);
  }
  return out;
}

} // namespace tenon
