// Implements the counting of work.
#include "codegen/core/Work.h"

#include "ir/Attention.h"

#include "ir/Names.h"
#include "ir/Recurrent.h"

namespace tenon {
namespace {

double elements(Type t) {
  double n = 1;
  for (Dim d : t.shape())
    n *= double(d.upper());
  return n;
}

double flopsOf(const Operation &op) {
  const double out = op.numResults() ? elements(op.result()->type()) : 0;
  switch (op.kind()) {
  case Op::Conv: {
    const double taps =
        elements(op.operand(1)->type()) / double(op.operand(1)->type().dim(0).upper());
    return 2 * out * taps;
  }
  case Op::ConvTranspose: {
    Type w = op.operand(1)->type();
    return 2 * elements(op.operand(0)->type()) * elements(w) / double(w.dim(0).upper());
  }
  case Op::MatMul: {
    Type a = op.operand(0)->type();
    const bool transposed = op.boolAttr("trans_a");
    return 2 * out * double(a.dim(a.rank() - (transposed ? 2 : 1)).upper());
  }
  case Op::Attention: {
    // Two products, and as many operations for each score as a softmax takes.
    const Type q = op.operand(0)->type(), y = op.result()->type();
    const auto values = double(y.shape().back().upper());
    const double heads = out / values / std::max(1.0, double(y.dim(y.rank() - 2).upper()));
    return heads * visibleScores(op) * (2 * double(q.shape().back().upper()) + 2 * values + 4);
  }
  case Op::Recurrent: {
    const RecurrentShape r = recurrentShape(op);
    return 2 * out * double(r.hidden) * double(r.gates[0] + r.gates[1]);
  }
  case Op::Pool: {
    double window = 1;
    for (int64_t k : op.intsAttr("kernel"))
      window *= double(k);
    return out * window;
  }
  case Op::Map: {
    double n = 0;
    for (Operation &s : op.region())
      n += !s.isTerminator() && !s.is(Op::Const);
    return n * out;
  }
  case Op::Reduce:
  case Op::Softmax:
  case Op::QuantizedSoftmax: return elements(op.operand(0)->type()) * (op.is(Op::Reduce) ? 1 : 4);
  case Op::Scan: return out;
  case Op::Normalize: return out * 6;
  case Op::Resize: return out * 7;
  default: return 0;
  }
}

} // namespace

double visibleScores(const Operation &attention) {
  const Type q = attention.operand(0)->type(), k = attention.operand(1)->type();
  const int64_t queries = q.dim(q.rank() - 2).upper(), keys = k.dim(k.rank() - 2).upper();
  const int64_t causal = attention.intAttr("causal", keys);
  const int64_t window = attention.intAttr("window", keys);
  // Queries behind a cache are the last rows of it.
  const int64_t origin =
      attentionOperands(attention).first ? std::max<int64_t>(0, keys - queries) : 0;
  double seen = 0;
  for (int64_t m = 0; m < queries; ++m) {
    const int64_t end = std::min(keys, origin + m + causal + 1);
    seen += double(end - std::min(end, std::max<int64_t>(0, origin + m - window + 1)));
  }
  return seen;
}

/// Whether nothing of an operand but its extents is asked for.
static bool isOnlyMeasured(const Operation &op, unsigned operand) {
  if (!op.is(Op::Group))
    return op.is(Op::ShapeOf);
  return llvm::all_of(op.region().argument(operand)->uses(),
                      [](const Use *u) { return u->owner()->is(Op::ShapeOf); });
}

Work workOf(const Operation &group) {
  Work w;
  for (unsigned i = 0; i < group.numOperands(); ++i)
    if (const Type t = group.operand(i)->type(); t.isTensor() && !isOnlyMeasured(group, i))
      w.bytes += byteSize(t.element(), t.upperElements());
  for (Value *v : group.results())
    if (v->type().isTensor())
      w.bytes += byteSize(v->type().element(), v->type().upperElements());
  if (group.is(Op::Group))
    for (Operation &op : group.region())
      w.flops += flopsOf(op);
  else
    w.flops = flopsOf(group);
  return w;
}

std::string formatCount(double n) {
  char text[32];
  if (n >= 1e9)
    snprintf(text, sizeof text, "%.2f G", n / 1e9);
  else if (n >= 1e6)
    snprintf(text, sizeof text, "%.2f M", n / 1e6);
  else if (n >= 1e3)
    snprintf(text, sizeof text, "%.1f k", n / 1e3);
  else
    snprintf(text, sizeof text, "%.0f ", n);
  return text;
}

std::string sanitizedStem(llvm::StringRef nodeName) {
  std::string s = sanitizeName(nodeName);
  if (s.size() > 32)
    s = s.substr(s.size() - 32);
  return sanitizeName(s);
}

} // namespace tenon
