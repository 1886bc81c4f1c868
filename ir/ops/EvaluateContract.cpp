// Evaluates contractions as matrix products in double: conv gathers its windows as columns,
// conv_transpose scatters them.
#include "ir/Scalar.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Gemm.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Parallel.h"
#include "ir/ops/Strided.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon {
namespace {

std::vector<double> toDoubles(const Tensor &t) {
  std::vector<double> v(static_cast<size_t>(t.size()));
  t.toDoubles(0, t.size(), v.data());
  return v;
}

/// What a contraction multiplies: the elements of an operand, rounded where it asks for tf32.
std::vector<double> factors(const Operation &op, const Tensor &t) {
  std::vector<double> v = toDoubles(t);
  if (op.wordAttr("precision") == "tf32" && t.element() == Element::F32) // not where it is wide
    for (double &x : v)
      x = llvm::BitsToFloat((llvm::FloatToBits(float(x)) + 0x1000u) & 0xffffe000u);
  return v;
}

/// Subtracts a zero point; with one per channel, `channel(i)` is that of element i.
template <class Channel>
void subtractZero(std::vector<double> &values, const EvaluationFrame &frame, unsigned operand,
                  Channel channel) {
  if (operand >= frame.operands.size())
    return;
  const Tensor &zero = frame.operands[operand];
  for (size_t i = 0; i < values.size(); ++i)
    values[i] -= zero.at(zero.size() == 1 ? 0 : channel(int64_t(i)));
}

/// (value − zero point) · scale of the rows of k values each, in blocks.
void dequantizeBlocks(std::vector<double> &values, const EvaluationFrame &frame, int64_t k,
                      int64_t block) {
  const Tensor &scale = frame.operands[2];
  const int64_t blocks = k ? (k + block - 1) / block : 0;
  for (int64_t i = 0; i < int64_t(values.size()); ++i) {
    const int64_t at = i / k * blocks + i % k / block;
    const double zero = frame.operands.size() > 3 ? frame.operands[3].at(at) : 0;
    values[size_t(i)] = (values[size_t(i)] - zero) * scale.at(at);
  }
}

/// Exact sums of products of 8 or 16 bits wrap to i32 as any integer does.
void storeSums(Tensor &result, int64_t begin, int64_t count, const double *in) {
  if (isFloat(result.element())) {
    result.fromDoubles(begin, count, in);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    result.setInt(begin + i, int64_t(in[i]));
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// Extents and parameters that conv and conv_transpose share. "Small" is the side with the windows'
/// positions (the result of conv, the operand of conv_transpose), "large" the one they slide over.
struct Windows {
  int64_t groups, taps;
  Extents large, small, kernel, strides, dilations, begins;

  Windows(const Operation &op, llvm::ArrayRef<int64_t> largeShape,
          llvm::ArrayRef<int64_t> smallShape, llvm::ArrayRef<int64_t> weights)
      : groups(op.intAttr("groups", 1)), taps(product(weights.drop_front(2))) {
    large.append(largeShape.begin() + 2, largeShape.end());
    small.append(smallShape.begin() + 2, smallShape.end());
    kernel.append(weights.begin() + 2, weights.end());
    for (size_t d = 0; d < kernel.size(); ++d) {
      strides.push_back(intAt(op, "strides", d, 1));
      dilations.push_back(intAt(op, "dilations", d, 1));
      begins.push_back(intAt(op, "pads", d, 0));
    }
  }
  int64_t positions() const { return product(small); }

  /// Visits the positions [n0, n1) of tap `tap` as runs along the last dimension: run(n, count, at,
  /// step) says that positions n … n + count − 1 touch large elements at, at + step, …; positions
  /// outside are not visited.
  template <class Run> void visit(int64_t tap, int64_t n0, int64_t n1, Run run) const {
    const size_t last = kernel.size() - 1;
    Extents tapShift(kernel.size());
    for (size_t d = kernel.size(); d-- > 0; tap /= kernel[d])
      tapShift[d] = tap % kernel[d] * dilations[d] - begins[d];
    const int64_t width = small[last], step = strides[last];
    // Positions o of the last dimension with 0 ≤ o · step + shift < extent.
    const int64_t shift = tapShift[last], extent = large[last];
    const int64_t first = shift >= 0 ? 0 : (-shift + step - 1) / step;
    const int64_t end = extent > shift ? (extent - shift - 1) / step + 1 : 0;
    for (int64_t n = n0; n < n1;) {
      const int64_t row = n / width, o0 = n % width, o1 = std::min(width, o0 + n1 - n);
      int64_t rest = row, at = 0, scale = large[last];
      bool inside = true;
      for (size_t d = last; d-- > 0; rest /= small[d]) {
        const int64_t i = rest % small[d] * strides[d] + tapShift[d];
        inside &= i >= 0 && i < large[d];
        at += i * scale;
        scale *= large[d];
      }
      const int64_t from = std::max(o0, first), to = std::min(o1, end);
      if (inside && from < to)
        run(n + from - o0, to - from, at + from * step + shift, step);
      n += o1 - o0;
    }
  }
};

} // namespace

bool evaluateConv(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0], &w = frame.operands[1];
  if (x.shape()[1] != w.shape()[1] * op.intAttr("groups", 1))
    return fail(error, "x has " + llvm::Twine(x.shape()[1]) + " channels: expected " +
                           llvm::Twine(w.shape()[1]) + " in each group");
  Extents shape = frame.resultShape(op, 0);
  Tensor result(frame.stored(op.result()->type().element()), shape);
  const Windows windows(op, x.shape(), shape, w.shape());
  const int64_t positions = windows.positions(), taps = windows.taps, groups = windows.groups;
  const int64_t inputs = w.shape()[1], outputs = shape[1] / groups, depth = inputs * taps;
  const int64_t area = product(windows.large);
  if (result.size() == 0)
    return frame.results.push_back(std::move(result)), true;

  std::vector<double> in = factors(op, x), weights = factors(op, w);
  // Padding counts as the zero point: 0 once that is subtracted.
  subtractZero(in, frame, 2, [](int64_t) { return 0; });
  subtractZero(weights, frame, 3, [&](int64_t i) { return i / depth; });
  std::vector<PackedRows> packed;
  for (int64_t g = 0; g < groups; ++g)
    packed.emplace_back(weights.data() + g * outputs * depth, outputs, depth, depth, 1);

  result.mutableBytes();
  const int64_t blocks = (positions + kGemmColumns - 1) / kGemmColumns;
  parallelFor(shape[0] * groups * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> c;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t n0 = task % blocks * kGemmColumns, n1 = std::min(n0 + kGemmColumns, positions);
      const int64_t g = task / blocks % groups, image = task / blocks / groups;
      const double *source = in.data() + (image * groups + g) * inputs * area;
      gemmColumns(
          packed[size_t(g)], n1 - n0,
          [&](int64_t p0, int64_t p1, double *out) {
            for (int64_t p = p0; p < p1; ++p, out += kGemmColumns) {
              std::fill(out, out + (n1 - n0), 0.0);
              const double *plane = source + p / taps * area;
              windows.visit(p % taps, n0, n1,
                            [&](int64_t n, int64_t count, int64_t at, int64_t step) {
                              for (int64_t i = 0; i < count; ++i)
                                out[n - n0 + i] = plane[at + i * step];
                            });
            }
          },
          c);
      for (int64_t k = 0; k < outputs; ++k)
        storeSums(result, ((image * groups + g) * outputs + k) * positions + n0, n1 - n0,
                  c.data() + k * kGemmColumns);
    }
  });
  frame.results.push_back(std::move(result));
  return true;
}

bool evaluateConvTranspose(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &x = frame.operands[0], &w = frame.operands[1];
  if (x.shape()[1] != w.shape()[0] || x.shape()[1] % op.intAttr("groups", 1) != 0)
    return fail(error, "x has " + llvm::Twine(x.shape()[1]) + " channels: expected " +
                           llvm::Twine(w.shape()[0]));
  Extents shape = frame.resultShape(op, 0);
  Tensor result(frame.stored(op.result()->type().element()), shape);
  const Windows windows(op, shape, x.shape(), w.shape());
  const int64_t positions = windows.positions(), taps = windows.taps, groups = windows.groups;
  const int64_t inputs = x.shape()[1] / groups, outputs = w.shape()[1];
  const int64_t area = product(windows.large), rows = outputs * taps;

  std::vector<double> in = toDoubles(x), weights = toDoubles(w);
  std::vector<double> sums(static_cast<size_t>(result.size()), 0.0);
  // Each group of each image owns its part of the result, which its windows add to in order.
  parallelFor(shape[0] * groups, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> c;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t g = task % groups;
      const PackedRows packed(weights.data() + g * inputs * rows, rows, inputs, 1, rows);
      const double *source = in.data() + task * inputs * positions;
      for (int64_t n0 = 0; n0 < positions; n0 += kGemmColumns) {
        const int64_t n1 = std::min(n0 + kGemmColumns, positions);
        gemmColumns(
            packed, n1 - n0,
            [&](int64_t p0, int64_t p1, double *out) {
              for (int64_t p = p0; p < p1; ++p, out += kGemmColumns)
                std::copy(source + p * positions + n0, source + p * positions + n1, out);
            },
            c);
        for (int64_t r = 0; r < rows; ++r) {
          double *plane = sums.data() + (task * outputs + r / taps) * area;
          const double *column = c.data() + r * kGemmColumns;
          windows.visit(r % taps, n0, n1, [&](int64_t n, int64_t count, int64_t at, int64_t step) {
            for (int64_t i = 0; i < count; ++i)
              plane[at + i * step] += column[n - n0 + i];
          });
        }
      }
    }
  });
  result.fromDoubles(0, result.size(), sums.data());
  frame.results.push_back(std::move(result));
  return true;
}

//===----------------------------------------------------------------------===//
// Matrix product
//===----------------------------------------------------------------------===//

namespace {

/// A stack of matrices [batch…, rows, columns] inside an operand, swapped when transposed.
struct Matrices {
  int64_t rows, columns, rowStride = 0, columnStride = 0;
  Extents batchStrides; // aligned with the result's leading dimensions; 0 where broadcast

  Matrices(const Tensor &t, bool transposed, size_t batchRank) {
    const size_t rank = t.rank();
    Extents strides = rowMajorStrides(t.shape());
    rows = t.shape()[rank - 2], columns = t.shape()[rank - 1];
    rowStride = strides[rank - 2], columnStride = strides[rank - 1];
    if (transposed)
      std::swap(rows, columns), std::swap(rowStride, columnStride);
    batchStrides.assign(batchRank, 0);
    for (size_t d = 0; d + 2 < rank; ++d)
      if (t.shape()[d] != 1)
        batchStrides[batchRank - (rank - 2) + d] = strides[d];
  }
  int64_t offset(int64_t batch, llvm::ArrayRef<int64_t> extents) const {
    int64_t at = 0;
    for (size_t d = extents.size(); d-- > 0; batch /= extents[d])
      at += batch % extents[d] * batchStrides[d];
    return at;
  }
};

/// Integers beyond 8 bits: wrapping sums in 64 bits.
void multiplyIntegers(const Tensor &a, const Tensor &b, const Matrices &left, const Matrices &right,
                      llvm::ArrayRef<int64_t> batches, Tensor &result) {
  for (int64_t batch = 0, n = product(batches), at = 0; batch < n; ++batch) {
    const int64_t ao = left.offset(batch, batches), bo = right.offset(batch, batches);
    for (int64_t i = 0; i < left.rows; ++i)
      for (int64_t j = 0; j < right.columns; ++j) {
        uint64_t sum = 0;
        for (int64_t p = 0; p < left.columns; ++p)
          sum += uint64_t(a.intAt(ao + i * left.rowStride + p * left.columnStride)) *
                 uint64_t(b.intAt(bo + p * right.rowStride + j * right.columnStride));
        result.setInt(at++, int64_t(sum));
      }
  }
}

/// Rounds `a` to 8 bits where the product asks for it, a scale for each block of a row: the largest
/// magnitude is 127, ties go to even. Not where it is wide.
void roundBlocks(const Operation &op, std::vector<double> &a, Element e, const Matrices &rows) {
  if (!op.has("block") || op.intAttr("a_bits", 0) != 8 || e == Element::F64)
    return;
  const int64_t block = op.intAttr("block"), size = rows.rows * rows.columns;
  for (int64_t first = 0; first < int64_t(a.size()); first += std::max<int64_t>(1, size))
    for (int64_t i = 0; i < rows.rows; ++i)
      for (int64_t k = 0; k < rows.columns; k += block) {
        const int64_t count = std::min(block, rows.columns - k);
        const auto at = [&](int64_t j) -> double & {
          return a[size_t(first + i * rows.rowStride + (k + j) * rows.columnStride)];
        };
        float largest = 0;
        for (int64_t j = 0; j < count; ++j)
          if (const float x = std::fabs(float(at(j))); !std::isnan(largest) && !(x <= largest))
            largest = x;
        const float by = largest > 0 ? 127 / largest : 0;
        for (int64_t j = 0; j < count; ++j)
          at(j) = double(std::nearbyint(float(at(j)) * by) * (largest / 127));
      }
}

} // namespace

bool evaluateMatMul(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &a = frame.operands[0], &b = frame.operands[1];
  Extents shape = frame.resultShape(op, 0);
  Tensor result(frame.stored(op.result()->type().element()), shape);
  llvm::ArrayRef<int64_t> batches = llvm::makeArrayRef(shape).drop_back(2);
  const Matrices left(a, op.boolAttr("trans_a"), batches.size());
  const Matrices right(b, op.boolAttr("trans_b"), batches.size());
  const int64_t m = left.rows, n = right.columns, k = left.columns;
  if (k != right.rows)
    return fail(error,
                "inner extents differ: " + llvm::Twine(k) + " and " + llvm::Twine(right.rows));
  if (isInteger(a.element()) && a.element() == result.element()) {
    multiplyIntegers(a, b, left, right, batches, result);
    frame.results.push_back(std::move(result));
    return true;
  }
  std::vector<double> x = factors(op, a), y = factors(op, b);
  if (op.has("block")) {
    roundBlocks(op, x, a.element(), left);
    dequantizeBlocks(y, frame, k, op.intAttr("block"));
  } else {
    subtractZero(x, frame, 2, [](int64_t) { return 0; });
    subtractZero(y, frame, 3,
                 [&](int64_t i) { return op.boolAttr("trans_b") ? i / k % n : i % n; });
  }
  result.mutableBytes();
  const int64_t blocks = (n + kGemmColumns - 1) / kGemmColumns;
  for (int64_t batch = 0, last = product(batches); batch < last; ++batch) {
    const PackedRows packed(x.data() + left.offset(batch, batches), m, k, left.rowStride,
                            left.columnStride);
    const double *source = y.data() + right.offset(batch, batches);
    const int64_t grain = m * k < 4096 ? 8 : 1;
    parallelFor(blocks, grain, [&](int64_t begin, int64_t end) {
      std::vector<double> c;
      for (int64_t block = begin; block < end; ++block) {
        const int64_t n0 = block * kGemmColumns, n1 = std::min(n0 + kGemmColumns, n);
        gemmColumns(
            packed, n1 - n0,
            [&](int64_t p0, int64_t p1, double *out) {
              for (int64_t p = p0; p < p1; ++p, out += kGemmColumns)
                for (int64_t j = n0; j < n1; ++j)
                  out[j - n0] = source[p * right.rowStride + j * right.columnStride];
            },
            c);
        for (int64_t i = 0; i < m; ++i)
          storeSums(result, (batch * m + i) * n + n0, n1 - n0, c.data() + i * kGemmColumns);
      }
    });
  }
  frame.results.push_back(std::move(result));
  return true;
}

} // namespace tenon
