// causal-attention: a constant bias by which queries see no later keys becomes an attribute, so
// that kernels leave out the scores that it hides.
//
//   %b = constant … : 0 on and below a diagonal, −∞ above
//   %y = attention %q, %k, %v, %b {scale}    →    %y = attention %q, %k, %v {causal, scale}
//
// With s(m, n) a score, b(m, n) the bias and h a number that hides the key (kHides or less):
//   b(m, n) = h for all n > m + causal   ⇒   s(m, n) + b(m, n) weighs nothing there
// where every query sees a key, since an h other than −∞ hides nothing from a query from which it
// hides all. The bias stays where it is not 0 on and below the diagonal (positions that cost,
// windows). The smallest `causal` that holds is taken.
//
// The bias may be computed, too, as long as it is from constants: whatever makes it is evaluated.
#include "passes/CausalAttention.h"

#include "passes/Rewrite.h"

#include "ir/Attention.h"
#include "ir/Interpreter.h"

namespace tenon {
namespace {

/// From here down a number added to a score leaves nothing of it in f32.
constexpr double kHides = -1e30;
/// Numbers of a bias that are looked at.
constexpr int64_t kMostElements = int64_t(1) << 26;

/// What `v` is, where it is computed from constants alone.
llvm::Optional<Tensor> evaluated(const Value *v) {
  if (Literal l = constantValue(v))
    return *l;
  const Operation *op = v->def();
  if (!op || op->numResults() != 1 || !v->type().isTensor() || !v->type().hasStaticShape() ||
      v->type().upperElements() > kMostElements || holdsStructured(*op) ||
      (op->info().traits & OpTrait::Effect))
    return llvm::None;
  llvm::SmallVector<Tensor, 4> operands;
  for (const Value *x : op->operands()) {
    auto known = evaluated(x);
    if (!known)
      return llvm::None;
    operands.push_back(std::move(*known));
  }
  llvm::SmallVector<Tensor, 2> results;
  std::string error;
  if (!evaluateConstant(*op, operands, results, error))
    return llvm::None;
  return results.front();
}

struct Diagonal {
  int64_t causal;
  bool zeroBelow; // on and below it all numbers are 0
};

/// The lowest diagonal above which `bias` [..., m, n] hides every key; None where that leaves out
/// none, or where a query sees no key at all.
llvm::Optional<Diagonal> diagonalOf(const Tensor &bias, int64_t m, int64_t n) {
  if (bias.rank() < 2 || bias.shape()[bias.rank() - 2] != m || bias.shape().back() != n || m == 0 ||
      n == 0)
    return llvm::None;
  std::vector<double> row(static_cast<size_t>(n));
  Diagonal d{0, true};
  for (int64_t r = 0; r < bias.size() / n; ++r) {
    bias.toDoubles(r * n, n, row.data());
    const auto seen = [](double x) { return !(x <= kHides); };
    const auto last = std::find_if(row.rbegin(), row.rend(), seen);
    if (last == row.rend())
      return llvm::None;
    d.causal = std::max(d.causal, (row.rend() - last) - 1 - r % m);
  }
  if (d.causal >= n - 1)
    return llvm::None;
  for (int64_t r = 0; r < bias.size() / n && d.zeroBelow; ++r) {
    const int64_t count = std::min(n, r % m + d.causal + 1);
    bias.toDoubles(r * n, count, row.data());
    d.zeroBelow = std::all_of(row.begin(), row.begin() + count, [](double x) { return x == 0; });
  }
  return d;
}

// attention(q, k, v, b) = attention(q, k, v) {causal}, b 0 up to a diagonal and hiding beyond it
bool maskPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Attention) || op.numOperands() != 4 || !attentionOperands(op).bias ||
      op.has("causal"))
    return false;
  const Type q = op.operand(0)->type(), k = op.operand(1)->type();
  const Dim m = q.dim(q.rank() - 2), n = k.dim(k.rank() - 2);
  if (!m.isConstant() || !n.isConstant())
    return false;
  const auto bias = evaluated(op.operand(3));
  if (!bias)
    return false;
  const auto diagonal = diagonalOf(*bias, m.constant(), n.constant());
  if (!diagonal || !rw.fire(op))
    return false;
  NamedAttributes attributes = op.attributes();
  attributes.insert_or_assign("causal", Attribute(diagonal->causal));
  llvm::SmallVector<Value *, 4> operands{op.operand(0), op.operand(1), op.operand(2)};
  if (!diagonal->zeroBelow)
    operands.push_back(op.operand(3));
  Builder b = rw.before(op);
  return rw.replace(op, b.value(Op::Attention, operands, std::move(attributes)));
}

const Pattern kPatterns[] = {{"causal-attention.mask", maskPattern}};

} // namespace

bool runCausalAttention(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
