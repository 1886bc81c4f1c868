// Evaluates windows along dimensions: pool, softmax (in integers, too) and normalize. Resize stands
// in EvaluateResize.cpp.
#include "ir/Scalar.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Parallel.h"
#include "ir/ops/Strided.h"

#include <cmath>
#include <limits>

namespace tenon {
namespace {

//===----------------------------------------------------------------------===//
// Pool
//===----------------------------------------------------------------------===//

/// The taps of one window along one dimension: elements first, first + step, … (count of them)
/// inside x, and how many taps lie inside the padded extent.
struct Taps {
  int64_t first, step, count, padded;
};

Taps tapsOf(const Operation &op, size_t d, size_t spatial, int64_t extent, int64_t out) {
  const int64_t kernel = intAt(op, "kernel", d, 1), step = intAt(op, "dilations", d, 1);
  const int64_t start = out * intAt(op, "strides", d, 1) - intAt(op, "pads", d, 0);
  const int64_t end = extent + intAt(op, "pads", spatial + d, 0);
  // Number of taps t with start + t · step below a limit.
  auto below = [&](int64_t limit) {
    return start >= limit ? 0 : std::min(kernel, (limit - start - 1) / step + 1);
  };
  const int64_t skipped = below(0);
  return {start + skipped * step, step, below(extent) - skipped, below(end)};
}

/// Reduces a window with `add(accumulator, element)` over all dimensions.
template <class T, class Add>
void foldWindow(llvm::ArrayRef<const Taps *> taps, llvm::ArrayRef<int64_t> strides, const T *at,
                T &accumulator, Add add) {
  const Taps &t = *taps[0];
  if (taps.size() == 1) {
    for (int64_t i = 0; i < t.count; ++i)
      accumulator = add(accumulator, at[t.first + i * t.step]);
    return;
  }
  for (int64_t i = 0; i < t.count; ++i)
    foldWindow(taps.drop_front(), strides.drop_front(), at + (t.first + i * t.step) * strides[0],
               accumulator, add);
}

/// T: double or int64_t; load and store convert planes of x and of the result.
template <class T, class Load, class Store>
void poolPlanes(const Operation &op, const Tensor &x, llvm::ArrayRef<int64_t> shape, T lowest,
                Load load, Store store) {
  const size_t spatial = shape.size() - 2;
  llvm::ArrayRef<int64_t> in = x.shape().drop_front(2), out = shape.drop_front(2);
  std::vector<std::vector<Taps>> taps(spatial);
  for (size_t d = 0; d < spatial; ++d)
    for (int64_t o = 0; o < out[d]; ++o)
      taps[d].push_back(tapsOf(op, d, spatial, in[d], o));
  const Extents strides = rowMajorStrides(in);
  const bool average = op.wordAttr("kind") == "average", all = op.boolAttr("count_include_pad");
  const int64_t area = product(in), positions = product(out);
  parallelFor(
      shape[0] * shape[1], 1 + 16384 / std::max<int64_t>(area, 1), [&](int64_t p0, int64_t p1) {
        std::vector<T> plane(static_cast<size_t>(area)), result(static_cast<size_t>(positions));
        llvm::SmallVector<const Taps *, 4> window(spatial);
        for (int64_t p = p0; p < p1; ++p) {
          load(p * area, area, plane.data());
          for (int64_t o = 0; o < positions; ++o) {
            int64_t rest = o, inside = 1, padded = 1;
            for (size_t d = spatial; d-- > 0; rest /= out[d]) {
              window[d] = &taps[d][size_t(rest % out[d])];
              inside *= window[d]->count;
              padded *= window[d]->padded;
            }
            T value = average ? T(0) : lowest;
            if (average) {
              foldWindow(window, strides, plane.data(), value, [](T a, T b) { return a + b; });
              const int64_t n = all ? padded : inside;
              value = n ? value / T(n) : T(0);
            } else {
              foldWindow(window, strides, plane.data(), value, [](T a, T b) {
                return a != a ? a : b != b ? b : a > b ? a : b;
              });
            }
            result[size_t(o)] = value;
          }
          store(p * positions, positions, result.data());
        }
      });
}

} // namespace

bool evaluatePool(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  Extents shape = frame.resultShape(op, 0);
  Tensor result(x.element(), shape);
  if (result.size() > 0) {
    result.mutableBytes();
    if (isFloat(x.element()))
      poolPlanes<double>(
          op, x, shape, -std::numeric_limits<double>::infinity(),
          [&](int64_t at, int64_t n, double *out) { x.toDoubles(at, n, out); },
          [&](int64_t at, int64_t n, const double *in) { result.fromDoubles(at, n, in); });
    else
      poolPlanes<int64_t>(
          op, x, shape, minInt(x.element()),
          [&](int64_t at, int64_t n, int64_t *out) { x.toInts(at, n, out); },
          [&](int64_t at, int64_t n, const int64_t *in) { result.fromInts(at, n, in); });
  }
  frame.results.push_back(std::move(result));
  return true;
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

bool evaluateSoftmax(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  const size_t axis = size_t(op.intAttr("axis"));
  const int64_t n = x.shape()[axis], inner = product(x.shape().drop_front(axis + 1));
  const bool log = op.boolAttr("log");
  std::vector<double> v(static_cast<size_t>(x.size()));
  x.toDoubles(0, x.size(), v.data());
  const int64_t lines = n ? x.size() / n : 0;
  parallelFor(lines, 1 + 4096 / std::max<int64_t>(n, 1), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      double *at = v.data() + line / inner * n * inner + line % inner;
      double largest = at[0], sum = 0;
      for (int64_t i = 1; i < n; ++i)
        largest = std::max(largest, at[i * inner]);
      for (int64_t i = 0; i < n; ++i)
        sum += std::exp(at[i * inner] - largest);
      for (int64_t i = 0; i < n; ++i) {
        const double shifted = at[i * inner] - largest;
        at[i * inner] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
      }
    }
  });
  Tensor result(x.element(), x.shape());
  result.fromDoubles(0, x.size(), v.data());
  frame.results.push_back(std::move(result));
  return true;
}

namespace {

/// round(a / 2^count), half to even.
int64_t roundShift(int64_t a, int64_t count) {
  return scalarInfo(Op::RoundShift)->onInt(a, count, 0);
}

/// One line of n integers, `stride` apart; the result takes their place.
void quantizedSoftmaxLine(const Operation &op, int64_t *line, int64_t n, int64_t stride) {
  const Ints &table = op.intsAttr("table");
  const Element to = op.find("to")->get<Type>()->element();
  int64_t largest = line[0], sum = 0;
  for (int64_t i = 1; i < n; ++i)
    largest = std::max(largest, line[i * stride]);
  for (int64_t i = 0; i < n; ++i)
    sum += table[size_t(largest - line[i * stride])];
  int64_t up = 0; // brings the sum to 32 bits
  while (sum << up < int64_t(1) << 31)
    ++up;
  const int64_t reciprocal = (int64_t(1) << 62) / (sum << up);
  const int64_t factor = (reciprocal * op.intAttr("multiplier") + (int64_t(1) << 30)) >> 31;
  const int64_t shift = op.intAttr("shift") + 31 - up;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t steps = roundShift(table[size_t(largest - line[i * stride])] * factor, shift);
    line[i * stride] = std::min(std::max(op.intAttr("zero") + steps, minInt(to)), maxInt(to));
  }
}

} // namespace

bool evaluateQuantizedSoftmax(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  const size_t axis = size_t(op.intAttr("axis"));
  const int64_t n = x.shape()[axis], inner = product(x.shape().drop_front(axis + 1));
  std::vector<int64_t> v(static_cast<size_t>(x.size()));
  x.toInts(0, x.size(), v.data());
  const int64_t lines = n ? x.size() / n : 0;
  parallelFor(lines, 1 + 4096 / std::max<int64_t>(n, 1), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line)
      quantizedSoftmaxLine(op, v.data() + line / inner * n * inner + line % inner, n, inner);
  });
  Tensor result(op.find("to")->get<Type>()->element(), x.shape());
  result.fromInts(0, x.size(), v.data());
  frame.results.push_back(std::move(result));
  return true;
}

//===----------------------------------------------------------------------===//
// Normalize
//===----------------------------------------------------------------------===//

namespace {
/// Element offsets of all points of the dimensions in `dims`, the last of them fastest.
std::vector<int64_t> offsetsOf(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims) {
  const Extents strides = rowMajorStrides(shape);
  std::vector<int64_t> offsets{0};
  for (int64_t d : dims) {
    std::vector<int64_t> finer;
    for (int64_t o : offsets)
      for (int64_t i = 0; i < shape[size_t(d)]; ++i)
        finer.push_back(o + i * strides[size_t(d)]);
    offsets = std::move(finer);
  }
  return offsets;
}
} // namespace

bool evaluateNormalize(const Operation &op, EvaluationFrame &frame, std::string &) {
  const Tensor &x = frame.operands[0];
  const Ints &axes = op.intsAttr("axes");
  Ints kept;
  for (int64_t d = 0; d < int64_t(x.shape().size()); ++d)
    if (!llvm::is_contained(axes, d))
      kept.push_back(d);
  const std::vector<int64_t> rows = offsetsOf(x.shape(), kept), inner = offsetsOf(x.shape(), axes);
  const double epsilon = op.floatAttr("epsilon"), n = double(inner.size());
  std::vector<double> v(static_cast<size_t>(x.size()));
  x.toDoubles(0, x.size(), v.data());
  parallelFor(int64_t(rows.size()), 1 + 4096 / std::max<int64_t>(int64_t(inner.size()), 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  double *at = v.data() + rows[size_t(row)], mean = 0, squares = 0;
                  if (op.boolAttr("centered")) {
                    for (int64_t i : inner)
                      mean += at[i];
                    mean /= n;
                  }
                  for (int64_t i : inner)
                    squares += (at[i] - mean) * (at[i] - mean);
                  const double factor = 1 / std::sqrt(squares / n + epsilon);
                  for (int64_t i : inner)
                    at[i] = (at[i] - mean) * factor;
                }
              });
  Tensor result(frame.stored(op.result()->type().element()), x.shape());
  result.fromDoubles(0, x.size(), v.data());
  frame.results.push_back(std::move(result));
  return true;
}

} // namespace tenon
