// constant-channels: channels of integer tensors whose values are known are not computed.
//
//   %y = map(conv %x, %w)          →   %y' = map(conv %x, %w without filter 1)
//   %z = conv %y, %v, −128             %z = conv %y', %v without channel 1, −128
//
// where channel 1 of %y is always −128.
//
// A filter can be dead behind its relu, pinned by saturation, or of nothing but zeros: the ranges
// of its sums follow from the weights (ChannelRanges.h). Whoever reads such a channel adds what it
// contributes to its own sums; at the border of padded windows that is only known when the value
// is the zero point. Channels of depthwise convolutions leave together with those they read.
// Nothing is lost: the remaining values are the same.
#include "passes/ConstantChannels.h"

#include "passes/ChannelRanges.h"
#include "passes/Rewrite.h"

namespace tenon {
namespace {

using Channels = std::vector<bool>;

bool inPlace(const Operation &map, unsigned i) {
  return map.operand(i)->type().shape() == map.result()->type().shape() &&
         isIdentityMap(indexMap(map, i), map.result()->type().rank());
}

/// `l` without the entries of dimension `dim` that `drop` names.
Tensor without(const Tensor &l, int64_t dim, const Channels &drop) {
  llvm::SmallVector<int64_t, 6> shape(l.shape().begin(), l.shape().end());
  int64_t inner = 1;
  for (size_t d = size_t(dim) + 1; d < shape.size(); ++d)
    inner *= shape[d];
  const int64_t extent = shape[size_t(dim)];
  shape[size_t(dim)] -= int64_t(llvm::count(drop, true));
  Tensor out(l.element(), shape);
  int64_t to = 0;
  for (int64_t i = 0; i < l.size(); ++i)
    if (!drop[size_t(i / inner % extent)])
      out.setInt(to++, l.intAt(i));
  return out;
}

class Remover {
public:
  Remover(PassContext &context) : context_(context) {}

  bool run(Region &region) {
    bool changed = false;
    for (Operation &op : region.opsEarlyInc()) {
      if (holdsStructured(op))
        for (unsigned r = 0; r < op.numRegions(); ++r)
          changed |= run(op.region(r));
      changed |= shrink(op);
    }
    return changed;
  }

private:
  bool shrink(Operation &op);
  const llvm::Optional<WeightedSum> &sumOf(const Operation &op);
  bool isRemovable(Value *y, size_t c);
  bool isRemovableFrom(Use &use, size_t c);
  void replaceReaders(Value *from, Value *to, const Channels &drop);
  void replaceReader(Operation &op, Value *from, Value *to, const Channels &drop);
  Value *shrunkMap(Operation &map, Value *from, Value *to, const Channels &drop);
  Builder before(Operation &op) { return Builder(&op, context_.diagnostics); }
  void keepRanges(Value *from, Value *to, const Channels &drop);

  PassContext &context_;
  RangeAnalysis ranges_;
  /// Of the readers of one value, whose channels are asked for one after the other.
  llvm::DenseMap<const Operation *, llvm::Optional<WeightedSum>> sums_;
};

const llvm::Optional<WeightedSum> &Remover::sumOf(const Operation &op) {
  auto it = sums_.find(&op);
  if (it == sums_.end())
    it = sums_.try_emplace(&op, weightedSum(op)).first;
  return it->second;
}

/// Whether a map computes each channel of `v` by itself, from constants besides.
bool isChannelwise(const Operation &map, const Value *v) {
  if (!map.is(Op::Map) || map.numResults() != 1)
    return false;
  for (unsigned i = 0; i < map.numOperands(); ++i) {
    if (map.operand(i) == v) {
      if (!inPlace(map, i))
        return false;
      continue;
    }
    Literal l = constantValue(map.operand(i));
    if (!l)
      return false;
    for (size_t d = 0; l->size() != 1 && d < indexMap(map, i).size(); ++d)
      if (l->shape()[d] != 1 && indexMap(map, i)[d] != int64_t(kChannelDim))
        return false;
  }
  return true;
}

/// The one map that reads a sum where it is made and gives 8-bit integers.
Operation *soleMap(Value *sum) {
  Operation *map = sum->hasOneUse() ? sum->firstUse()->owner() : nullptr;
  return map && isChannelwise(*map, sum) && bitWidth(map->result()->type().element()) == 8
             ? map
             : nullptr;
}

/// Whether a reduction keeps the channels where they are.
bool keepsChannels(const Operation &op) {
  return op.is(Op::Reduce) && op.numOperands() == 1 && op.numResults() == 1 &&
         isIdentityMap(indexMap(op, 0), op.operand(0)->type().rank()) &&
         llvm::all_of(op.intsAttr("axes"), [](int64_t a) { return a > int64_t(kChannelDim); });
}

/// Whether a reader can do without channel c.
bool Remover::isRemovableFrom(Use &use, size_t c) {
  Operation &op = *use.owner();
  if (op.is(Op::Reshape)) {
    Type from = use.get()->type(), to = op.result()->type();
    return to.rank() > kChannelDim && from.dim(0) == to.dim(0) &&
           from.dim(kChannelDim) == to.dim(kChannelDim) && isRemovable(op.result(), c);
  }
  if (keepsChannels(op) || isChannelwise(op, use.get()))
    return isRemovable(op.result(), c);
  if (use.index() != 0 || !sumOf(op))
    return false;
  const WeightedSum *s = &*sumOf(op); // until channels of other values are asked for
  if (s->groups > 1) {
    Operation *map = s->isDepthwise() ? soleMap(op.result()) : nullptr;
    return map && isRemovable(map->result(), c);
  }
  const Range r = ranges_.of(use.get())[c];
  if (r.isConstant() && (!s->padded || r.low == s->zero))
    return true;
  for (int64_t k = 0; k < s->filters; ++k)
    for (int64_t t = 0; t < s->taps; ++t)
      if (s->weightOf(k, int64_t(c), t) != 0)
        return false;
  return true;
}

bool Remover::isRemovable(Value *y, size_t c) {
  if (!y->hasUses() || ranges_.of(y).empty())
    return false;
  for (Use *use : y->uses())
    if (!isRemovableFrom(*use, c))
      return false;
  return true;
}

void Remover::keepRanges(Value *from, Value *to, const Channels &drop) {
  ChannelRanges kept;
  const ChannelRanges &all = ranges_.of(from);
  for (size_t c = 0; c < all.size(); ++c)
    if (!drop[c])
      kept.push_back(all[c]);
  ranges_.set(to, std::move(kept));
  to->setHint(from->hint());
}

/// A copy of `map` that reads `to`, which lacks channels, instead of `from`.
Value *Remover::shrunkMap(Operation &map, Value *from, Value *to, const Channels &drop) {
  Builder b = before(map);
  llvm::SmallVector<Value *, 4> operands;
  for (unsigned i = 0; i < map.numOperands(); ++i) {
    Value *v = map.operand(i);
    const size_t rank = indexMap(map, i).size();
    Literal l = v == from ? nullptr : constantValue(v);
    if (l && l->size() != 1)
      for (size_t d = 0; d < rank; ++d)
        if (l->shape()[d] != 1)
          v = b.constant(without(*l, int64_t(d), drop), v->hint());
    operands.push_back(v == from ? to : v);
  }
  Operation *copy = mapOver(b, map, operands, to->type().shape());
  keepRanges(map.result(), copy->result(), drop);
  return copy->result();
}

/// `op` reads `to` instead of `from`.
void Remover::replaceReader(Operation &op, Value *from, Value *to, const Channels &drop) {
  Builder b = before(op);
  if (op.is(Op::Reshape)) {
    Dims shape(op.result()->type().shape().begin(), op.result()->type().shape().end());
    shape[kChannelDim] = to->type().dim(kChannelDim);
    Value *y = b.reshape(to, shape);
    keepRanges(op.result(), y, drop);
    replaceReaders(op.result(), y, drop);
    return;
  }
  if (op.is(Op::Map)) {
    replaceReaders(op.result(), shrunkMap(op, from, to, drop), drop);
    return;
  }
  if (op.is(Op::Reduce)) {
    std::map<const Value *, Value *> values{{from, to}};
    Operation *copy = op.clone(values);
    llvm::SmallVector<Type, 1> types;
    std::string error;
    inferTypes(*copy, types, error);
    copy->result()->setType(types[0]);
    op.parent()->insertBefore(&op, copy);
    keepRanges(op.result(), copy->result(), drop);
    replaceReaders(op.result(), copy->result(), drop);
    return;
  }
  const WeightedSum s = *weightedSum(op);
  llvm::SmallVector<Value *, 4> operands = op.operands();
  operands[0] = to;
  NamedAttributes attributes = op.attributes();
  if (s.groups > 1) { // depthwise: the filters of those channels leave, too
    operands[1] = b.constant(without(*s.weights, 0, drop), op.operand(1)->hint());
    attributes.insert_or_assign("groups", Attribute(s.groups - int64_t(llvm::count(drop, true))));
    Operation *map = soleMap(op.result());
    Value *y = shrunkMap(*map, op.result(), b.value(op.kind(), operands, attributes), drop);
    replaceReaders(map->result(), y, drop);
    return;
  }
  const int64_t dim = !s.matrix ? 1 : s.transB ? 1 : 0;
  operands[1] = b.constant(without(*s.weights, dim, drop), op.operand(1)->hint());
  Value *sum = b.value(op.kind(), operands, attributes);
  // What the missing channels contributed.
  Tensor missing(Element::I32, {s.filters});
  const ChannelRanges &x = ranges_.of(from);
  std::vector<int64_t> totals(size_t(s.filters));
  s.forEach([&](int64_t filter, int64_t channel, int64_t w) {
    if (w != 0 && drop[size_t(channel)])
      totals[size_t(filter)] += w * (x[size_t(channel)].low - s.zero);
  });
  missing.fromInts(0, s.filters, totals.data());
  if (llvm::any_of(totals, [](int64_t total) { return total != 0; })) {
    const unsigned rank = sum->type().rank();
    llvm::SmallVector<Dim, 6> space(sum->type().shape().begin(), sum->type().shape().end());
    sum = b.map({sum, b.constant(missing)}, {identityMap(rank), IndexMap{kChannelDim}}, space,
                [](Builder &body, llvm::ArrayRef<Value *> args) {
                  return llvm::SmallVector<Value *, 2>{body.scalar(Op::Add, args)};
                })
              ->result();
  }
  sum->setHint(op.result()->hint());
  ranges_.set(sum, ranges_.of(op.result()));
  op.result()->replaceAllUsesWith(sum);
}

void Remover::replaceReaders(Value *from, Value *to, const Channels &drop) {
  for (Use *use : from->uses())
    replaceReader(*use->owner(), from, to, drop);
}

/// Channels that kernels take at once: as many stay as fill the last group.
constexpr int64_t kGroup = 4;

void keepWholeGroups(Channels &drop) {
  int64_t left = llvm::count(drop, false);
  for (size_t c = 0; c < drop.size() && (left == 0 || left % kGroup != 0); ++c)
    if (drop[c]) {
      drop[c] = false;
      ++left;
    }
}

// map(contraction(x, w)) without the filters that nobody needs
bool Remover::shrink(Operation &op) {
  auto s = isDead(op) ? llvm::None : weightedSum(op);
  if (!s || s->groups != 1)
    return false;
  Operation *map = soleMap(op.result());
  if (!map)
    return false;
  Value *y = map->result();
  sums_.clear();
  Channels drop;
  for (int64_t k = 0; k < s->filters; ++k)
    drop.push_back(isRemovable(y, size_t(k)));
  keepWholeGroups(drop);
  if (llvm::none_of(drop, [](bool d) { return d; }) ||
      !context_.fire("constant-channels.remove", *map))
    return false;
  Builder b = before(op);
  llvm::SmallVector<Value *, 4> operands = op.operands();
  operands[1] = b.constant(without(*s->weights, s->matrix && !s->transB ? 1 : 0, drop),
                           op.operand(1)->hint());
  Value *sum = b.value(op.kind(), operands, op.attributes());
  keepRanges(op.result(), sum, drop);
  replaceReaders(y, shrunkMap(*map, op.result(), sum, drop), drop);
  context_.statistics["constant-channels.channels"] += int64_t(llvm::count(drop, true));
  return true;
}

} // namespace

bool runConstantChannels(Graph &graph, PassContext &context) {
  const bool changed = Remover(context).run(graph.body());
  if (changed)
    eraseDeadOps(graph.body());
  return changed;
}

} // namespace tenon
