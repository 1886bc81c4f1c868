// Evaluates attention in double: scores, weights and sums of one batch entry at a time.
#include "ir/Attention.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Gemm.h"
#include "ir/ops/Ops.h"
#include "ir/ops/Parallel.h"
#include "ir/ops/Strided.h"

#include <cmath>
#include <limits>

namespace tenon {
namespace {

/// An operand as doubles, its leading dimensions broadcast against `batches`.
struct Stack {
  std::vector<double> values;
  Extents strides; // of the result's leading dimensions, then of the operand's last two

  Stack(const Tensor &t, llvm::ArrayRef<int64_t> batches) : values(static_cast<size_t>(t.size())) {
    t.toDoubles(0, t.size(), values.data());
    const Extents own = rowMajorStrides(t.shape());
    const size_t rank = batches.size() + 2;
    strides.assign(rank, 0);
    for (size_t d = 0; d < t.rank(); ++d)
      if (t.shape()[d] != 1)
        strides[rank - t.rank() + d] = own[d];
  }
  const double *at(int64_t batch, llvm::ArrayRef<int64_t> batches) const {
    int64_t offset = 0;
    for (size_t d = batches.size(); d-- > 0; batch /= batches[d])
      offset += batch % batches[d] * strides[d];
    return values.data() + offset;
  }
  int64_t rowStride() const { return strides[strides.size() - 2]; }
  int64_t columnStride() const { return strides.back(); }
};

/// y[i · n + j] = Σ_p a(i, p) · b(p, j), where b(p, j) is at b[p · bRow + j · bColumn].
void multiply(const PackedRows &a, const double *b, int64_t n, int64_t bRow, int64_t bColumn,
              double *y) {
  std::vector<double> c;
  for (int64_t n0 = 0; n0 < n; n0 += kGemmColumns) {
    const int64_t n1 = std::min(n0 + kGemmColumns, n);
    gemmColumns(
        a, n1 - n0,
        [&](int64_t p0, int64_t p1, double *out) {
          for (int64_t p = p0; p < p1; ++p, out += kGemmColumns)
            for (int64_t j = n0; j < n1; ++j)
              out[j - n0] = b[p * bRow + j * bColumn];
        },
        c);
    for (int64_t i = 0; i < a.m(); ++i)
      std::copy_n(c.data() + i * kGemmColumns, n1 - n0, y + i * n + n0);
  }
}

/// Which keys are hidden from which queries.
struct Order {
  const Operation &op;
  int64_t queries, keys;
  const Tensor *first; // null: none
  int64_t entry;       // batches of one entry of the leading dimension

  bool hides(int64_t batch, int64_t query, int64_t key) const {
    const int64_t origin = first ? first->intAt(first->size() == 1 ? 0 : batch / entry) : 0;
    const int64_t position = origin + query;
    return (first && key >= origin + queries) ||
           (op.has("causal") && key > position + op.intAttr("causal")) ||
           (op.has("window") && key <= position - op.intAttr("window"));
  }
};

/// n scores become weights.
void normalizeScores(double *scores, int64_t n, bool zeroUndefined) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i)
    largest = std::max(largest, scores[i]);
  for (int64_t i = 0; i < n; ++i)
    sum += scores[i] = std::exp(scores[i] - largest);
  const bool undefined = !(sum > 0);
  for (int64_t i = 0; i < n; ++i)
    scores[i] = undefined && zeroUndefined ? 0 : scores[i] / sum;
}

} // namespace

bool evaluateAttention(const Operation &op, EvaluationFrame &frame, std::string &error) {
  const Tensor &q = frame.operands[0], &k = frame.operands[1], &v = frame.operands[2];
  const Extents shape = frame.resultShape(op, 0);
  Tensor result(frame.stored(op.result()->type().element()), shape);
  const llvm::ArrayRef<int64_t> batches = llvm::makeArrayRef(shape).drop_back(2);
  const int64_t m = shape[shape.size() - 2], e = shape.back();
  const int64_t n = k.shape()[k.rank() - 2], d = q.shape().back();
  if (k.shape().back() != d || v.shape()[v.rank() - 2] != n)
    return fail(error, "expected keys of " + llvm::Twine(d) + " elements and a value for each of " +
                           llvm::Twine(n) + " keys, found " + llvm::Twine(k.shape().back()) +
                           " and " + llvm::Twine(v.shape()[v.rank() - 2]));
  if (result.size() == 0)
    return frame.results.push_back(std::move(result)), true;
  const Stack queries(q, batches), keys(k, batches), values(v, batches);
  std::vector<Stack> parts;
  std::vector<AttentionFactor> factors;
  const AttentionOperands at = attentionOperands(op);
  llvm::Optional<Stack> bias;
  if (at.bias)
    bias.emplace(frame.operands[at.bias], batches);
  for (unsigned i = 0; i < at.factors; ++i) {
    parts.emplace_back(frame.operands[at.parts + i], batches);
    factors.push_back(attentionFactor(op, i));
  }
  const double scale = op.floatAttr("scale"), cap = op.floatAttr("softcap", 0);
  const Order order{op, m, n, at.first ? &frame.operands[at.first] : nullptr,
                    batches.empty() ? 1 : result.size() / (m * e) / batches.front()};
  const bool zeroUndefined = op.boolAttr("zero_undefined");
  result.mutableBytes();
  parallelFor(result.size() / (m * e), 1, [&](int64_t begin, int64_t end) {
    std::vector<double> scores(static_cast<size_t>(m * n)), y(static_cast<size_t>(m * e));
    for (int64_t batch = begin; batch < end; ++batch) {
      multiply(
          PackedRows(queries.at(batch, batches), m, d, queries.rowStride(), queries.columnStride()),
          keys.at(batch, batches), n, keys.columnStride(), keys.rowStride(), scores.data());
      const double *added = bias ? bias->at(batch, batches) : nullptr;
      const auto sumOfParts = [&](int64_t i, int64_t j) {
        double sum = 0;
        for (size_t p = 0; p < parts.size(); ++p)
          sum += parts[p].at(
              batch, batches)[i * parts[p].rowStride() +
                              j / factors[p].step % factors[p].extent * parts[p].columnStride()];
        return sum;
      };
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double &score = scores[size_t(i * n + j)];
          score *= scale;
          if (cap > 0)
            score = cap * std::tanh(score / cap);
          score = order.hides(batch, i, j)
                      ? -std::numeric_limits<double>::infinity()
                      : score +
                            (added ? added[i * bias->rowStride() + j * bias->columnStride()] : 0) +
                            sumOfParts(i, j);
        }
        normalizeScores(scores.data() + i * n, n, zeroUndefined);
      }
      multiply(PackedRows(scores.data(), m, n, n, 1), values.at(batch, batches), e,
               values.rowStride(), values.columnStride(), y.data());
      result.fromDoubles(batch * m * e, m * e, y.data());
    }
  });
  frame.results.push_back(std::move(result));
  return true;
}

} // namespace tenon
