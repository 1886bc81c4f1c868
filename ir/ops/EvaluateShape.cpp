// Evaluates ops about extents and ops whose results depend on data: shape_of, nonzero, topk.
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Strided.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon {

bool evaluateShapeOf(const Operation &, EvaluationFrame &frame, std::string &) {
  frame.results.push_back(Tensor::fromInts(frame.operands[0].shape()));
  return true;
}

bool evaluateNonZero(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i)
    if (isFloat(x.element()) ? x.at(i) != 0 : x.intAt(i) != 0)
      found.push_back(i);
  const int64_t n = int64_t(found.size());
  Tensor result(Element::I64, {int64_t(x.rank()), n});
  int64_t *out = result.mutableAs<int64_t>();
  for (size_t d = x.rank(); d-- > 0;)
    for (int64_t i = 0; i < n; ++i) {
      out[int64_t(d) * n + i] = found[size_t(i)] % x.shape()[d];
      found[size_t(i)] /= x.shape()[d];
    }
  if (frame.symbols)
    frame.symbols->insert_or_assign(op.stringAttr("symbol").str(), n);
  frame.results.push_back(std::move(result));
  return true;
}

namespace {

/// Orders the first k of `order` by value, equal ones by index; NaN counts as largest.
template <class T>
void orderFirst(std::vector<int64_t> &order, int64_t k, bool largest, const T *values) {
  auto less = [](T a, T b) { return b != b ? a == a : a < b; };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t i, int64_t j) {
    const T a = values[i], b = values[j];
    if (less(a, b))
      return !largest;
    if (less(b, a))
      return largest;
    return i < j;
  });
}

} // namespace

bool evaluateTopK(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0];
  const size_t axis = size_t(op.intAttr("axis"));
  Extents shape = frame.resultShape(op, 0);
  const int64_t n = x.shape()[axis], k = shape[axis];
  if (k < 0 || k > n)
    return fail(error, "cannot take " + llvm::Twine(k) + " of " + llvm::Twine(n) + " elements");
  Tensor values(x.element(), shape), indices(Element::I64, shape);
  const auto tail = x.shape().drop_front(axis + 1);
  const int64_t inner = product(tail);
  const bool largest = op.boolAttr("largest", true), real = isFloat(x.element());
  // Keeps the order of u64 in int64.
  const uint64_t flip = x.element() == Element::U64 ? uint64_t(1) << 63 : 0;
  std::vector<double> reals(static_cast<size_t>(n));
  std::vector<int64_t> integers(static_cast<size_t>(n)), order(static_cast<size_t>(n));
  const int64_t lines = n ? x.size() / n : 0;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t from = line / inner * n * inner + line % inner;
    const int64_t to = line / inner * k * inner + line % inner;
    for (int64_t i = 0; i < n; ++i)
      if (real)
        reals[size_t(i)] = x.at(from + i * inner);
      else
        integers[size_t(i)] = int64_t(uint64_t(x.intAt(from + i * inner)) ^ flip);
    std::iota(order.begin(), order.end(), 0);
    if (real)
      orderFirst(order, k, largest, reals.data());
    else
      orderFirst(order, k, largest, integers.data());
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = order[size_t(i)];
      if (real)
        values.set(to + i * inner, reals[size_t(at)]);
      else
        values.setInt(to + i * inner, int64_t(uint64_t(integers[size_t(at)]) ^ flip));
      indices.setInt(to + i * inner, at);
    }
  }
  frame.results.push_back(std::move(values));
  frame.results.push_back(std::move(indices));
  return true;
}

namespace {

/// A box as its lower and upper corner.
struct Box {
  float low[2], high[2];

  Box(const float *v, bool center) {
    for (int d : {0, 1}) {
      const float a = center ? v[1 - d] - v[3 - d] / 2 : v[d];
      const float b = center ? v[1 - d] + v[3 - d] / 2 : v[d + 2];
      low[d] = std::min(a, b);
      high[d] = std::max(a, b);
    }
  }
  float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

/// Intersection over union.
float overlap(const Box &a, const Box &b) {
  float shared = 1;
  for (int d : {0, 1})
    shared *= std::max(0.0f, std::min(a.high[d], b.high[d]) - std::max(a.low[d], b.low[d]));
  return shared > 0 ? shared / (a.area() + b.area() - shared) : 0;
}

} // namespace

bool evaluateNonMaxSuppression(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &boxes = frame.operands[0], &scores = frame.operands[1];
  const auto iou = float(op.floatAttr("iou_threshold"));
  const auto least = float(op.floatAttr("score_threshold", -INFINITY));
  const bool center = op.boolAttr("center", false);
  const int64_t classes = scores.shape()[1], n = scores.shape()[2];
  const Extents shape = frame.resultShape(op, 0);
  Tensor result(Element::I64, shape);
  for (int64_t line = 0; line < shape[0] * shape[1]; ++line) {
    const float *score = scores.as<float>().data() + line * n;
    const float *box = boxes.as<float>().data() + line / classes * n * 4;
    std::vector<int64_t> order, taken;
    for (int64_t i = 0; i < n; ++i)
      if (score[i] > least)
        order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    for (int64_t i : order)
      if (int64_t(taken.size()) < shape[2] && llvm::none_of(taken, [&](int64_t other) {
            return overlap(Box(box + i * 4, center), Box(box + other * 4, center)) > iou;
          }))
        taken.push_back(i);
    taken.resize(size_t(shape[2]), -1);
    for (int64_t k = 0; k < shape[2]; ++k)
      result.setInt(line * shape[2] + k, taken[size_t(k)]);
  }
  frame.results.push_back(std::move(result));
  return true;
}

bool evaluateUnique(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  // −1, 0 or 1 for elements i and j of x.
  auto compare = [&](int64_t i, int64_t j) {
    if (x.element() == Element::String)
      return x.stringValues()[size_t(i)].compare(x.stringValues()[size_t(j)]);
    if (isFloat(x.element())) {
      const double a = x.at(i), b = x.at(j);
      return a != a || b != b ? int(a != a) - int(b != b) : int(a > b) - int(a < b);
    }
    const int64_t a = x.intAt(i), b = x.intAt(j);
    if (x.element() == Element::U64)
      return int(uint64_t(a) > uint64_t(b)) - int(uint64_t(a) < uint64_t(b));
    return int(a > b) - int(a < b);
  };
  auto compareRows = [&](int64_t a, int64_t b) {
    int order = 0;
    for (int64_t k = 0; k < n && order == 0; ++k)
      order = compare(a * n + k, b * n + k);
    return order;
  };
  struct Class {
    int64_t first;
    std::vector<int64_t> rows;
  };
  std::vector<int64_t> sorted(static_cast<size_t>(rows));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int64_t a, int64_t b) { return compareRows(a, b) < 0; });
  std::vector<Class> classes;
  for (int64_t row : sorted) {
    if (classes.empty() || compareRows(classes.back().first, row) != 0)
      classes.push_back({row, {}});
    classes.back().rows.push_back(row);
  }
  if (!op.boolAttr("sorted", true))
    std::sort(classes.begin(), classes.end(),
              [](const Class &a, const Class &b) { return a.first < b.first; });
  Tensor result(Element::I64, {3, rows});
  for (int64_t c = 0; c < rows; ++c) {
    const bool exists = c < int64_t(classes.size());
    result.setInt(rows + c, exists ? classes[size_t(c)].first : -1);
    result.setInt(2 * rows + c, exists ? int64_t(classes[size_t(c)].rows.size()) : 0);
    for (size_t i = 0; exists && i < classes[size_t(c)].rows.size(); ++i)
      result.setInt(classes[size_t(c)].rows[i], c);
  }
  frame.results.push_back(std::move(result));
  return true;
}

} // namespace tenon
