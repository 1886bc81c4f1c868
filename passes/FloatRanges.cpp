// Implements the ranges of floats: interval arithmetic by channel, exact for single contractions
// with constant weights, where operands vary independently of each other.
#include "passes/FloatRanges.h"

#include "ir/ops/Clones.h"
#include "ir/ops/Parallel.h"
#include "passes/Rewrite.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

namespace tenon {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr unsigned kChannel = 1;
/// More channels than this are taken as one.
constexpr int64_t kMostChannels = 1 << 14;
/// Elements that are numbers at a time, elements that pay for a thread, and columns that a thread
/// takes at least: whole lines of the cache.
constexpr int64_t kChunk = 1 << 11, kThreadElements = 1 << 18, kLeastColumns = 64;
/// Elements are taken in so many lanes at a time, a number of them that compilers know.
constexpr int64_t kLanes = 16;

int64_t channelsOf(Type t) {
  if (!t.isTensor() || t.rank() <= kChannel || !t.dim(kChannel).isConstant())
    return 1;
  const int64_t n = t.dim(kChannel).constant();
  return n >= 1 && n <= kMostChannels ? n : 1;
}

TENON_CLONES void meet(const double *__restrict values, int64_t count, double *__restrict low,
                       double *__restrict high, int64_t *__restrict unknown) {
  const auto one = [=](int64_t i) {
    const double v = values[i];
    low[i] = v < low[i] ? v : low[i];
    high[i] = v > high[i] ? v : high[i];
    unknown[i] |= v == v ? 0 : 1;
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j)
      one(i + j);
  for (; i < count; ++i)
    one(i);
}

/// What elements met in each lane: the least, the greatest, and whether one was no number.
class LaneBounds {
public:
  explicit LaneBounds(int64_t lanes)
      : low_(size_t(lanes), kInf), high_(size_t(lanes), -kInf), unknown_(size_t(lanes)) {}

  /// Values one lane after the other, from lane `first` on.
  void meet(const double *values, int64_t count, int64_t first) {
    tenon::meet(values, count, &low_[size_t(first)], &high_[size_t(first)],
                &unknown_[size_t(first)]);
  }
  /// The bounds of each, which are as new then.
  Intervals take() {
    Intervals out;
    for (size_t i = 0; i < low_.size(); ++i)
      out.push_back(unknown_[i] ? Interval() : Interval{low_[i], high_[i]});
    *this = LaneBounds(int64_t(low_.size()));
    return out;
  }

private:
  std::vector<double> low_, high_;
  std::vector<int64_t> unknown_;
};

/// A constant's elements along its dimension `channel` (−1: all together).
Intervals ofConstant(const Tensor &t, int channel, int64_t channels) {
  if (t.element() == Element::String || t.size() == 0)
    return {Interval()};
  int64_t inner = channel < 0 ? t.size() : 1; // elements of a channel side by side
  for (size_t d = size_t(channel) + 1; channel >= 0 && d < t.shape().size(); ++d)
    inner *= t.shape()[d];
  // A lane meets elements of one channel: the same of each period, or, where those are too many,
  // some of a run.
  const int64_t period = channels * inner;
  const bool byLane = period <= kMostChannels;
  const int64_t run = byLane ? period * std::max<int64_t>(kChunk / period, 1) : inner;
  // Parts of the tensor, joined in their order.
  std::mutex lock;
  std::map<int64_t, Intervals> parts;
  parallelFor(
      t.size(), kThreadElements,
      [&](int64_t begin, int64_t end) {
        Intervals part(size_t(channels), Interval{kInf, -kInf});
        LaneBounds bounds(byLane ? run : std::min(run, kChunk));
        std::vector<double> values(kChunk);
        for (int64_t i = begin; i < end;) {
          const int64_t at = i % run, count = std::min({kChunk, end - i, run - at});
          t.toDoubles(i, count, values.data());
          bounds.meet(values.data(), count, byLane ? at : 0);
          i += count;
          if (!byLane && (at + count == run || i == end)) {
            Interval &r = part[size_t((i - 1) / inner % channels)];
            r = hull(r, hull(bounds.take()));
          }
        }
        for (int64_t lane = 0; const Interval &r : byLane ? bounds.take() : Intervals()) {
          Interval &all = part[size_t(lane++ / inner % channels)];
          all = hull(all, r);
        }
        const std::lock_guard<std::mutex> guard(lock);
        parts[begin] = std::move(part);
      },
      kAllThreads);
  t.leaveMemory();
  Intervals out = std::move(parts.begin()->second);
  for (auto next = std::next(parts.begin()); next != parts.end(); ++next)
    for (size_t c = 0; c < out.size(); ++c)
      out[c] = hull(out[c], next->second[c]);
  return out;
}

/// The bounds of a sum of products with constant weights, and the sum of their magnitudes.
struct Sums {
  double low = 0, high = 0, total = 0;

  /// Of weights that add up to `up` above 0 and to `down` below it, each times a number within x.
  void add(double up, double down, Interval x) {
    total += up - down;
    const auto bound = [](double a, double atA, double b, double atB) {
      return boundProduct(a, atA) + boundProduct(b, atB);
    };
    low += bound(up, x.low, down, x.high);
    high += bound(up, x.high, down, x.low);
  }
};

// Kernels use masks: compilers make branches of selections that follow each other, and signs of
// weights are hardly ever predicted.

/// All bits where a number has the sign.
uint64_t signMask(uint64_t bits) { return uint64_t(int64_t(bits) >> 63); }

/// The sums of weights above and below 0. Those of `kLanes` weights are `next` behind those of the
/// lanes before.
TENON_CLONES void addSigns(const double *__restrict values, int64_t count, double *__restrict up,
                           double *__restrict down, int64_t next) {
  for (int64_t i = 0; i < count; i += kLanes, values += kLanes, up += next, down += next)
    for (int64_t j = 0; j < kLanes; ++j) {
      const uint64_t weight = llvm::DoubleToBits(values[j]), below = signMask(weight);
      up[j] += llvm::BitsToDouble(weight & ~below);
      down[j] += llvm::BitsToDouble(weight & below);
    }
}

/// Sums as those of Sums, one a lane.
struct LaneSums {
  double *low, *high, *total;
};

/// Adds products of weights with numbers from `low` to `high`, each lane's own; bounds and sums of
/// `kLanes` weights are `nextBounds` and `nextSums` behind those of the lanes before. A weight that
/// is not a number is in the total.
TENON_CLONES void addProducts(const double *__restrict values, int64_t count,
                              const double *__restrict low, const double *__restrict high,
                              int64_t nextBounds, LaneSums sums, int64_t nextSums) {
  double *__restrict lows = sums.low, *__restrict highs = sums.high,
                     *__restrict totals = sums.total;
  for (int64_t i = 0; i < count; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      const uint64_t weight = llvm::DoubleToBits(values[j]), a = llvm::DoubleToBits(low[j]),
                     b = llvm::DoubleToBits(high[j]),
                     other = (a ^ b) & signMask(weight); // weights below 0 meet the other bound
      const double p = values[j] * llvm::BitsToDouble(a ^ other),
                   q = values[j] * llvm::BitsToDouble(b ^ other);
      lows[j] += p == p ? p : 0; // boundProduct(): no number is 0 times infinity
      highs[j] += q == q ? q : 0;
      totals[j] += llvm::BitsToDouble(weight & ~(uint64_t(1) << 63));
    }
    values += kLanes, low += nextBounds, high += nextBounds;
    lows += nextSums, highs += nextSums, totals += nextSums;
  }
}

/// The sums of every column of a matrix [terms, outputs] times numbers within `x`, one interval for
/// each term or one for all: a pass in the order of memory, where each column is added up from its
/// first element to its last.
std::vector<Sums> columnSums(const Tensor &w, int64_t terms, int64_t outputs, const Intervals &x) {
  std::vector<Sums> sums(static_cast<size_t>(outputs));
  const auto ofChunk = [&](int64_t first, int64_t count) {
    std::vector<double> values(kChunk), low(kChunk), high(kChunk), total(kChunk);
    double factorLow[kLanes], factorHigh[kLanes];
    for (int64_t i = 0; i < terms; ++i) {
      w.toDoubles(i * outputs + first, count, values.data());
      if (x.size() > 1) {
        std::fill_n(factorLow, kLanes, x[size_t(i)].low);
        std::fill_n(factorHigh, kLanes, x[size_t(i)].high);
      }
      if (x.size() > 1)
        addProducts(values.data(), count, factorLow, factorHigh, /*nextBounds=*/0,
                    {low.data(), high.data(), total.data()}, /*nextSums=*/kLanes);
      else
        addSigns(values.data(), count, low.data(), high.data(), /*next=*/kLanes);
    }
    for (int64_t j = 0; j < count; ++j)
      if (x.size() > 1)
        sums[size_t(first + j)] = {low[size_t(j)], high[size_t(j)], total[size_t(j)]};
      else
        sums[size_t(first + j)].add(/*up=*/low[size_t(j)], /*down=*/high[size_t(j)], x.front());
  };
  parallelFor(
      outputs, std::max<int64_t>(kLeastColumns, kThreadElements / std::max<int64_t>(terms, 1)),
      [&](int64_t begin, int64_t end) {
        for (int64_t first = begin; first < end; first += kChunk)
          ofChunk(first, std::min(kChunk, end - first));
      },
      kAllThreads);
  return sums;
}

/// The sums of every row of [outputs, terms], in groups of as many rows: times numbers within `x`,
/// one interval for all or one for each of the `taps` terms of a channel, of which groups have
/// their own.
std::vector<Sums> rowSums(const Tensor &w, int64_t terms, int64_t outputs, int64_t groups,
                          int64_t taps, const Intervals &x) {
  std::vector<Sums> sums(static_cast<size_t>(outputs));
  // Of each group the intervals of its terms, up to whole lanes.
  const auto padded = int64_t(llvm::alignTo(uint64_t(terms), kLanes));
  std::vector<double> low, high;
  if (x.size() > 1) {
    low.resize(size_t(groups * padded));
    high.resize(size_t(groups * padded));
    for (int64_t g = 0, c = 0; g < groups; ++g)
      for (int64_t i = 0; i < terms; ++i) {
        low[size_t(g * padded + i)] = x[size_t(c)].low;
        high[size_t(g * padded + i)] = x[size_t(c)].high;
        c += (i + 1) % taps == 0;
      }
  }
  parallelFor(
      outputs, 1 + kThreadElements / std::max<int64_t>(terms, 1),
      [&](int64_t begin, int64_t end) {
        std::vector<double> values(kChunk);
        for (int64_t k = begin; k < end; ++k) {
          double a[kLanes] = {}, b[kLanes] = {}, total[kLanes] = {};
          for (int64_t first = 0; first < terms; first += kChunk) {
            const int64_t count = std::min(kChunk, terms - first);
            w.toDoubles(k * terms + first, count, values.data());
            std::fill(values.begin() + count,
                      values.begin() + int64_t(llvm::alignTo(uint64_t(count), kLanes)), 0.0);
            const int64_t at = k / (outputs / groups) * padded + first;
            if (x.size() > 1)
              addProducts(values.data(), count, &low[size_t(at)], &high[size_t(at)],
                          /*nextBounds=*/kLanes, {a, b, total}, /*nextSums=*/0);
            else
              addSigns(values.data(), count, a, b, /*next=*/0);
          }
          const auto sum = [](const double *lanes) {
            return std::accumulate(lanes, lanes + kLanes, 0.0);
          };
          if (x.size() > 1)
            sums[size_t(k)] = {sum(a), sum(b), sum(total)};
          else
            sums[size_t(k)].add(/*up=*/sum(a), /*down=*/sum(b), x.front());
        }
      },
      kAllThreads);
  return sums;
}

/// What a group's argument stands for.
Value *resolved(Value *v) {
  while (v->argumentOf() && v->argumentOf()->parentOp() &&
         v->argumentOf()->parentOp()->is(Op::Group))
    v = v->argumentOf()->parentOp()->operand(v->index());
  return v;
}

bool sumsUp(const Operation &reduce) {
  if (reduce.numOperands() != 1 || reduce.numResults() != 1)
    return false;
  const Operation *op = reduce.region().terminator()->operand(0)->def();
  const Value *sum = reduce.region().argument(0), *x = elementArgument(reduce, 0);
  return op && op->is(Op::Add) &&
         ((op->operand(0) == sum && op->operand(1) == x) ||
          (op->operand(0) == x && op->operand(1) == sum));
}

bool picks(const Operation &reduce) {
  const Operation *op =
      reduce.numResults() == 1 ? reduce.region().terminator()->operand(0)->def() : nullptr;
  return op && op->isAny(Op::Max, Op::Min) && reduce.numOperands() == 1 &&
         op->operand(0)->argumentOf() && op->operand(1)->argumentOf();
}

} // namespace

Interval hull(const Intervals &all) {
  Interval out = all.front();
  for (const Interval &i : all)
    out = hull(out, i);
  return out;
}

const Intervals &FloatRanges::of(Value *v) {
  auto known = ranges_.find(v);
  if (known == ranges_.end()) {
    Intervals computed = compute(v); // which may add others
    known = ranges_.try_emplace(v, std::move(computed)).first;
  }
  return known->second;
}

Intervals FloatRanges::ofArgument(Value *v) {
  Operation *owner = v->argumentOf() ? v->argumentOf()->parentOp() : nullptr;
  if (owner && owner->is(Op::Group))
    return of(owner->operand(v->index()));
  const Interval all = Interval::of(v->type().element());
  if (owner || isInteger(v->type().element()) || isBool(v->type().element()))
    return {all};
  auto it = inputs_.find(graph_.inputNames[v->index()]);
  return {it == inputs_.end() ? assumed_ : it->second};
}

Intervals FloatRanges::compute(Value *v) {
  if (!v->type().isTensor())
    return {Interval()};
  Operation *op = v->def();
  if (!op)
    return ofArgument(v);
  switch (op->kind()) {
  case Op::Constant: {
    const int64_t channels = channelsOf(v->type());
    return ofConstant(**op->find("value")->get<Literal>(), channels > 1 ? int(kChannel) : -1,
                      channels);
  }
  case Op::Group: return of(op->region().terminator()->operand(v->index()));
  case Op::Map: return ofMap(*op, v->index());
  case Op::Conv:
  case Op::MatMul: return ofContraction(*op);
  case Op::Reduce: return ofReduce(*op);
  case Op::Softmax: return {Interval{0, 1}};
  case Op::Attention: // means of values, or 0
    return {hull(hull(of(op->operand(2))), {0, 0})};
  case Op::Normalize: {
    double count = 1;
    for (int64_t axis : op->intsAttr("axes"))
      count *= double(op->operand(0)->type().dim(unsigned(axis)).upper());
    return {Interval::symmetric(std::sqrt(count))}; // all but one value equal
  }
  case Op::Pool: {
    Intervals x = of(op->operand(0));
    if (op->wordAttr("kind") == "average")
      for (Interval &i : x)
        i = hull(i, {0, 0});
    return x;
  }
  case Op::Resize:
    if (op->wordAttr("mode") == "cubic")
      return {Interval::symmetric(2 * hull(of(op->operand(0))).bound())};
    return {hull(of(op->operand(0)))};
  case Op::Pad: // with zeros, or with operand 1
  case Op::Concat: {
    Interval all =
        hull(hull(of(op->operand(0))), op->is(Op::Pad) ? Interval{0, 0} : hull(of(op->operand(0))));
    for (unsigned i = 1; i < op->numOperands(); ++i)
      all = hull(all, hull(of(op->operand(i))));
    return {all};
  }
  case Op::Reshape:
  case Op::Transpose:
  case Op::Slice:
  case Op::Gather: return {hull(of(op->operand(0)))};
  default: return {Interval::of(v->type().element())};
  }
}

Intervals FloatRanges::ofMap(Operation &op, unsigned result) {
  const Type type = op.result(result)->type();
  const int64_t channels = channelsOf(type);
  std::vector<Intervals> operands;
  bool byChannel = false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    const IndexMap &m = indexMap(op, i);
    Value *v = op.operand(i);
    int at = -1; // the operand's dimension that follows the channels
    for (size_t d = 0; d < m.size(); ++d)
      if (m[d] == int64_t(kChannel) && v->type().dim(unsigned(d)).isConstant() &&
          v->type().dim(unsigned(d)).constant() == channels)
        at = int(d);
    if (Literal l = constantValue(resolved(v)))
      operands.push_back(
          ofConstant(*l, channels > 1 ? at : -1, channels > 1 && at >= 0 ? channels : 1));
    else if (const Intervals &r = of(v); at == int(kChannel) && int64_t(r.size()) == channels)
      operands.push_back(r);
    else
      operands.push_back({hull(r)});
    byChannel |= operands.back().size() > 1;
  }
  Intervals out;
  const IterationSpace space = iterationSpace(op);
  for (int64_t c = 0; c < (byChannel ? channels : 1); ++c) {
    std::map<const Value *, Interval> arguments;
    for (unsigned i = 0; i < op.numOperands(); ++i)
      arguments[op.region().argument(i)] = operands[i][operands[i].size() > 1 ? size_t(c) : 0];
    out.push_back(
        BodyIntervals(std::move(arguments), space).of(op.region().terminator()->operand(result)));
  }
  return out;
}

Intervals FloatRanges::ofContraction(Operation &op) {
  const Literal w = constantValue(resolved(op.operand(1)));
  const Intervals x = of(op.operand(0));
  if (!isFloat(op.result()->type().element()) || op.numOperands() != 2)
    return {Interval::of(op.result()->type().element())};
  const bool matrix = op.is(Op::MatMul);
  if (!w || (matrix && (w->rank() != 2 || op.boolAttr("trans_a")))) {
    // Products of two unknown values: as many as the inner dimension.
    const Type t = op.operand(0)->type();
    const double inner =
        matrix ? double(t.dim(t.rank() - (op.boolAttr("trans_a") && t.rank() > 1 ? 2 : 1)).upper())
               : kInf;
    const Interval p = product(hull(x), hull(of(op.operand(1))));
    return {Interval{boundProduct(inner, std::min(p.low, 0.0)),
                     boundProduct(inner, std::max(p.high, 0.0))}};
  }
  const bool transB = matrix && op.boolAttr("trans_b");
  const int64_t groups = matrix ? 1 : op.intAttr("groups", 1);
  const int64_t outputs = matrix ? w->shape()[transB ? 0 : 1] : w->shape()[0];
  const int64_t terms = outputs ? w->size() / outputs : 0;
  const int64_t channels = matrix ? terms : w->shape()[1], taps = channels ? terms / channels : 0;
  const bool padded =
      !matrix && llvm::any_of(op.intsAttr("pads"), [](int64_t p) { return p != 0; });
  const bool each =
      int64_t(x.size()) == channels * groups && (!matrix || op.operand(0)->type().rank() == 2);
  // What the weights multiply, one interval for each channel or one for all.
  Intervals factors = each ? x : Intervals{hull(x)};
  if (padded)
    for (Interval &a : factors)
      a = hull(a, {0, 0});
  std::vector<Sums> sums;
  if (matrix && !transB)
    sums = columnSums(*w, terms, outputs, factors);
  else
    sums = rowSums(*w, terms, outputs, groups, each ? taps : terms, factors);
  w->leaveMemory();
  Intervals out;
  double gain = 0;
  for (const Sums &s : sums) {
    // A weight that is no number, or infinities that cancel out.
    const bool known = !std::isnan(s.low) && !std::isnan(s.high) && !std::isnan(s.total);
    out.push_back(known ? Interval{s.low, s.high} : Interval());
    gain = std::max(gain, s.total);
  }
  growth_[&op] = {gain, hull(x).bound()};
  if (matrix && op.result()->type().rank() != 2)
    return {hull(out)};
  return outputs <= kMostChannels && channelsOf(op.result()->type()) == outputs
             ? out
             : Intervals{hull(out)};
}

Intervals FloatRanges::ofReduce(Operation &op) {
  const Interval x = hull(of(op.operand(0)));
  if (picks(op))
    return {x};
  if (!sumsUp(op))
    return {Interval::of(op.result()->type().element())};
  double count = 1;
  const IterationSpace space = iterationSpace(op);
  for (int64_t axis : op.intsAttr("axes"))
    count *= double(space[size_t(axis)].upper());
  // The accumulator's initial value is 0 in sums.
  return {Interval{boundProduct(count, std::min(x.low, 0.0)),
                   boundProduct(count, std::max(x.high, 0.0))}};
}

} // namespace tenon
