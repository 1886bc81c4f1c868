// Implements the ranges of channels: interval arithmetic, exact for the sums and the monotone maps
// that quantised networks are made of.
#include "passes/ChannelRanges.h"

#include "passes/Rewrite.h"

#include "ir/Scalar.h"

#include <algorithm>

namespace tenon {
namespace {

llvm::Optional<int64_t> channelCount(Type t) {
  if (!t.isTensor() || !isInteger(t.element()) || t.rank() <= kChannelDim ||
      !t.dim(kChannelDim).isConstant())
    return llvm::None;
  return t.dim(kChannelDim).constant();
}

Range rangeOf(Element e) {
  if (bitWidth(e) >= 64)
    return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  const int64_t low = isSignedInt(e) ? -(int64_t(1) << (bitWidth(e) - 1)) : 0;
  return {low, low + (int64_t(1) << bitWidth(e)) - 1};
}

bool inPlace(const Operation &map, unsigned i) {
  return map.operand(i)->type().shape() == map.result()->type().shape() &&
         isIdentityMap(indexMap(map, i), map.result()->type().rank());
}

/// Operand i of a map at channel c, as a constant.
llvm::Optional<Range> constantAt(const Operation &map, unsigned i, int64_t c) {
  Literal l = constantValue(map.operand(i));
  if (!l || !isInteger(l->element()) || l->size() == 0)
    return llvm::None;
  const IndexMap &m = indexMap(map, i);
  int64_t at = 0;
  for (size_t d = 0; d < m.size(); ++d)
    if (l->shape()[d] != 1) {
      if (m[d] != int64_t(kChannelDim) || l->shape()[d] != l->size())
        return llvm::None;
      at = c;
    }
  const int64_t v = l->intAt(at);
  return Range{v, v};
}

/// Evaluates the body of a map over ranges.
class BodyRanges {
public:
  explicit BodyRanges(std::map<const Value *, Range> arguments) : ranges_(std::move(arguments)) {}

  llvm::Optional<Range> of(const Value *v) {
    auto known = ranges_.find(v);
    if (known != ranges_.end())
      return known->second;
    const Operation *op = v->def();
    if (!op || !isInteger(v->type().element()))
      return llvm::None;
    auto range = evaluate(*op);
    const Range all = rangeOf(v->type().element());
    if (!range || range->low < all.low || range->high > all.high) // it may wrap
      return llvm::None;
    ranges_[v] = *range;
    return range;
  }

private:
  llvm::Optional<Range> evaluate(const Operation &op) {
    if (op.is(Op::Const)) {
      auto v = scalarValue(&*op.result());
      const auto whole = int64_t(*v);
      return Range{whole, whole};
    }
    llvm::SmallVector<Range, 3> in;
    for (Value *v : op.operands()) {
      auto r = of(v);
      if (!r || r->low < -kLimit || r->high > kLimit)
        return llvm::None;
      in.push_back(*r);
    }
    switch (op.kind()) {
    case Op::Cast: return in[0];
    case Op::Lookup: return entries(op, in[0]);
    case Op::ShiftLeft:
    case Op::ShiftRight:
    case Op::RoundShift: // monotone for a known count
      if (!in[1].isConstant() || in[1].low < 0 || in[1].low > 62 ||
          (op.is(Op::ShiftLeft) && in[1].low > 20))
        return llvm::None;
      break;
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::MulHigh:
    case Op::Min:
    case Op::Max:
    case Op::Clamp:
    case Op::Relu:
    case Op::Neg: break; // monotone in each operand: extremes are at corners
    default: return llvm::None;
    }
    const ScalarInfo &row = *scalarInfo(op.kind());
    Range out;
    for (unsigned corner = 0; corner < 1u << in.size(); ++corner) {
      int64_t a[3] = {0, 0, 0};
      for (unsigned i = 0; i < in.size(); ++i)
        a[i] = corner >> i & 1 ? in[i].high : in[i].low;
      const int64_t v = row.onInt(a[0], a[1], a[2]);
      out = corner == 0 ? Range{v, v} : Range{std::min(out.low, v), std::max(out.high, v)};
    }
    return out;
  }

  /// Of the entries that belong to a range of bytes.
  static Range entries(const Operation &lookup, const Range &bytes) {
    const Ints &table = lookup.intsAttr("table");
    Range out{table[uint8_t(bytes.low)], table[uint8_t(bytes.low)]};
    for (int64_t v = bytes.low; v <= bytes.high; ++v)
      out = {std::min(out.low, table[uint8_t(v)]), std::max(out.high, table[uint8_t(v)])};
    return out;
  }

  /// Products of two such numbers stay within 64 bits; sums of i32 and of their products are.
  static constexpr int64_t kLimit = int64_t(1) << 62;
  std::map<const Value *, Range> ranges_;
};

} // namespace

llvm::Optional<WeightedSum> weightedSum(const Operation &op) {
  if (!op.isAny(Op::Conv, Op::MatMul) || op.result()->type().element() != Element::I32)
    return llvm::None;
  WeightedSum s;
  s.weights = constantValue(op.operand(1));
  if (!s.weights || bitWidth(s.weights->element()) != 8)
    return llvm::None;
  llvm::ArrayRef<int64_t> shape = s.weights->shape();
  if (op.is(Op::MatMul)) {
    if (shape.size() != 2 || op.boolAttr("trans_a") || op.operand(0)->type().rank() != 2)
      return llvm::None;
    s.matrix = true;
    s.transB = op.boolAttr("trans_b");
    s.filters = shape[s.transB ? 0 : 1];
    s.channels = shape[s.transB ? 1 : 0];
  } else {
    s.groups = op.intAttr("groups", 1);
    s.filters = shape[0] / s.groups;
    s.channels = shape[1];
    for (int64_t extent : shape.drop_front(2))
      s.taps *= extent;
    s.padded = llvm::any_of(op.intsAttr("pads"), [](int64_t p) { return p != 0; });
  }
  for (unsigned i = 2; i < op.numOperands(); ++i) {
    auto z = splatValue(op.operand(i));
    if (!z)
      return llvm::None;
    (i == 2 ? s.zero : s.weightZero) = int64_t(*z);
  }
  return s;
}

const ChannelRanges &RangeAnalysis::of(Value *v) {
  auto known = ranges_.find(v);
  if (known == ranges_.end()) {
    ChannelRanges computed = compute(v); // which may add others
    known = ranges_.try_emplace(v, std::move(computed)).first;
  }
  return known->second;
}

ChannelRanges RangeAnalysis::compute(Value *v) {
  auto channels = channelCount(v->type());
  if (!channels)
    return {};
  ChannelRanges all(size_t(*channels), rangeOf(v->type().element()));
  Operation *op = v->def();
  if (!op)
    return all;
  if (auto s = weightedSum(*op)) {
    ChannelRanges x = of(op->operand(0));
    if (int64_t(x.size()) != s->groups * s->channels)
      return all;
    for (Range &in : x) {
      in = {in.low - s->zero, in.high - s->zero};
      if (s->padded) // padding counts as 0
        in = {std::min<int64_t>(in.low, 0), std::max<int64_t>(in.high, 0)};
    }
    ChannelRanges sums(all.size());
    s->forEach([&](int64_t filter, int64_t channel, int64_t w) {
      const Range &in = x[size_t(channel)];
      Range &sum = sums[size_t(filter)];
      sum.low += std::min(w * in.low, w * in.high);
      sum.high += std::max(w * in.low, w * in.high);
    });
    const Range limits = rangeOf(Element::I32);
    for (size_t k = 0; k < sums.size(); ++k)
      if (sums[k].low >= limits.low && sums[k].high <= limits.high)
        all[k] = sums[k];
    return all;
  }
  if (op->is(Op::Pool) && op->wordAttr("kind") == "max")
    return of(op->operand(0));
  if (op->is(Op::Reshape)) {
    const ChannelRanges x = of(op->operand(0));
    return x.size() == all.size() && op->operand(0)->type().dim(0) == v->type().dim(0) ? x : all;
  }
  if (op->is(Op::Map) && op->numResults() == 1) {
    for (int64_t c = 0; c < *channels; ++c) {
      std::map<const Value *, Range> arguments;
      for (unsigned i = 0; i < op->numOperands(); ++i) {
        llvm::Optional<Range> r = constantAt(*op, i, c);
        if (!r && inPlace(*op, i) && !of(op->operand(i)).empty())
          r = of(op->operand(i))[size_t(c)];
        if (r)
          arguments[op->region().argument(i)] = *r;
      }
      BodyRanges body(std::move(arguments));
      if (auto r = body.of(op->region().terminator()->operand(0)))
        all[size_t(c)] = *r;
    }
    return all;
  }
  return all;
}

} // namespace tenon
