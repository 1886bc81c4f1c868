// Implements the maps that rescale sums of integers.
//
//   Wide (i64) and Short (i32)                High (i32)
//     %s = Σ cast(%n − zero) * multiplier       %h = Σ mul_high (%n + bias) << before, multiplier
//     %r = round_shift %s + addend, shift       %r = (%h + half) >> after
//     clamp(%r + zero point, low, high)         clamp(%r + zero point, low, high)
//
//   Float (f32)
//     %s = fma(cast(%n), multiplier, addend), one for each term
//     cast(round(min(max(%s, low), high)) + zero point): to integers, which saturates
#include "passes/Rescale.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

/// The offset of a bias that was rounded to f32 from the integer it stands for, at most.
constexpr double kBiasError = 3e-7;
constexpr double kMostAddend = 4e18;

template <class T, class F> std::vector<T> eachChannel(size_t n, F f) {
  std::vector<T> v;
  for (size_t c = 0; c < n; ++c)
    v.push_back(f(c));
  return v;
}

/// The largest bias that 32 bits have room for: sums of 16-bit activations take half of them.
double mostBias(const ChannelRanges &sums) {
  const bool wide = llvm::any_of(
      sums, [](const Range &r) { return std::max(-r.low, r.high) >= int64_t(1) << 29; });
  return wide ? 0x1p30 : 0x1p31;
}

/// The constant in units of the one term, where those are what it was made of.
bool planBias(const IntegerSum &s, RescalePlan &plan, double most) {
  const PerChannel &k = s.terms[0].coefficient;
  const size_t n = std::max(k.size(), s.constant.size());
  for (size_t c = 0; c < n; ++c) {
    const double units = at(s.constant, c) == 0 ? 0 : at(s.constant, c) / at(k, c);
    const double whole = std::nearbyint(units);
    if (!(std::fabs(whole) < most) ||
        !(std::fabs(units - whole) <= std::max(1e-4, std::fabs(units) * kBiasError)))
      return false;
    plan.bias.push_back(int64_t(whole));
  }
  return true;
}

/// Operands and index maps of the map under construction.
class Operands {
public:
  Operands(Builder &b, int64_t axis) : b_(b), axis_(axis) {}
  void tensor(Value *v, const IndexMap &map) { add(v, map); }
  /// One number stays in the body; a list becomes an operand along the channels.
  void list(llvm::ArrayRef<int64_t> values, Element e) {
    if (isOne(values))
      return;
    Tensor t(e, {int64_t(values.size())});
    for (size_t c = 0; c < values.size(); ++c)
      t.setInt(int64_t(c), values[c]);
    add(b_.constant(t), {axis_});
  }
  void list(llvm::ArrayRef<double> values) {
    if (isOne(values))
      return;
    Tensor t(Element::F32, {int64_t(values.size())});
    t.fromDoubles(0, int64_t(values.size()), values.data());
    add(b_.constant(t), {axis_});
  }
  template <class T> static bool isOne(llvm::ArrayRef<T> values) {
    return llvm::all_of(values, [&](T v) { return v == values[0]; });
  }
  std::vector<Value *> values;
  std::vector<IndexMap> maps;

private:
  void add(Value *v, const IndexMap &map) {
    values.push_back(v);
    maps.push_back(map);
  }
  Builder &b_;
  int64_t axis_;
};

/// Hands out the arguments in the order in which Operands took them.
class Arguments {
public:
  Arguments(Builder &b, llvm::ArrayRef<Value *> args) : b_(b), args_(args) {}
  Value *tensor() { return args_[next_++]; }
  Value *list(llvm::ArrayRef<int64_t> values, Element e) {
    return Operands::isOne(values) ? b_.scalarInt(e, values[0]) : args_[next_++];
  }
  Value *list(llvm::ArrayRef<double> values) {
    return Operands::isOne(values) ? b_.scalarConst(Element::F32, values[0]) : args_[next_++];
  }
  Value *cast(Value *v, Element to) {
    if (v->type().element() == to)
      return v;
    return b_.scalar(Op::Cast, {v}, {{"to", Type::scalar(b_.context(), to)}});
  }
  /// v + list, nothing where the list is zero or empty.
  Value *plus(Value *v, llvm::ArrayRef<int64_t> values) {
    if (values.empty() || (Operands::isOne(values) && values[0] == 0))
      return v;
    return b_.scalar(Op::Add, {v, list(values, v->type().element())});
  }

private:
  Builder &b_;
  llvm::ArrayRef<Value *> args_;
  size_t next_ = 0;
};

std::vector<int64_t> negated(const PerChannel &zero) {
  return eachChannel<int64_t>(zero.size(), [&](size_t c) { return -int64_t(zero[c]); });
}

/// What is added before the multiplier: −zero, which products have subtracted already, plus the
/// bias where there is one. It has one term then.
std::vector<int64_t> offsetOf(const IntegerTerm &t, const RescalePlan &plan) {
  std::vector<int64_t> offset = t.factor ? std::vector<int64_t>{0} : negated(t.zero);
  if (plan.bias.empty())
    return offset;
  return eachChannel<int64_t>(std::max(offset.size(), plan.bias.size()), [&](size_t c) {
    return offset[offset.size() == 1 ? 0 : c] + plan.bias[plan.bias.size() == 1 ? 0 : c];
  });
}

ChannelRanges shifted(const ChannelRanges &ranges, llvm::ArrayRef<int64_t> offset) {
  return eachChannel<Range>(std::max(ranges.size(), offset.size()), [&](size_t c) {
    const Range &r = ranges[ranges.size() == 1 ? 0 : c];
    const int64_t by = offset[offset.size() == 1 ? 0 : c];
    return Range{r.low + by, r.high + by};
  });
}

/// Half a unit in the last place of a float of this size, at most.
double roundingOf(double magnitude) { return std::fabs(magnitude) * 0x1p-24; }

double magnitude(const Range &r) { return double(std::max(std::abs(r.low), std::abs(r.high))); }

/// None where the errors of f32 come to more than kMostFloatError of a step, or ranges are unknown.
llvm::Optional<FloatProducts> toFloatProducts(const QuantizedSum &q, unsigned bits,
                                              llvm::ArrayRef<ChannelRanges> ranges) {
  const IntegerSum &s = q.sum;
  const bool odd = q.zero % 2 != 0;
  FloatProducts p;
  p.zero = odd ? q.zero : 0;
  size_t n = s.constant.size();
  for (const IntegerTerm &t : s.terms) {
    n = std::max({n, t.coefficient.size(), t.factor ? size_t(1) : t.zero.size()});
    p.multipliers.push_back(eachChannel<double>(
        t.coefficient.size(), [&](size_t c) { return double(float(t.coefficient[c] / q.scale)); }));
  }
  for (size_t c = 0; c < n; ++c) {
    double addend = at(s.constant, c) / q.scale + double(odd ? 0 : q.zero);
    for (size_t t = 0; t < s.terms.size(); ++t)
      if (!s.terms[t].factor)
        addend -= at(s.terms[t].zero, c) * at(p.multipliers[t], c);
    const double added = double(float(addend));
    // Beyond the bounds of the result nothing depends on errors.
    const double inside = double(int64_t(1) << bits) + std::fabs(added);
    double error = std::fabs(added - addend), sum = std::fabs(added);
    for (size_t t = s.terms.size(); t-- > 0;) {
      const double factor = at(s.terms[t].coefficient, c) / q.scale, by = at(p.multipliers[t], c);
      const Range &range = ranges[t][ranges[t].size() == 1 ? 0 : c];
      double product = std::fabs(by) * magnitude(range);
      if (s.terms.size() == 1)
        product = std::min(product, inside);
      if (by != factor)
        error += roundingOf(product);
      if (magnitude(range) > 0x1p24)
        error += roundingOf(product);
      sum = s.terms.size() == 1 ? std::min(sum + product, inside) : sum + product;
      error += roundingOf(sum);
    }
    if (!(error <= kMostFloatError))
      return llvm::None;
    p.addend.push_back(added);
  }
  return p;
}

} // namespace

llvm::Optional<RescalePlan> planRescale(const QuantizedSum &q, Element to,
                                        llvm::ArrayRef<ChannelRanges> ranges, std::string &why) {
  const IntegerSum &s = q.sum;
  std::vector<PerChannel> factors;
  for (const IntegerTerm &t : s.terms) {
    factors.push_back(t.coefficient);
    for (double &v : factors.back())
      v /= q.scale;
  }
  auto fixed = toFixedPoint(factors);
  if (!fixed) {
    why = "a scale out of the range of 32-bit multipliers";
    return llvm::None;
  }
  RescalePlan plan;
  plan.fixed = std::move(*fixed);
  if (s.terms.size() > 1 || !planBias(s, plan, mostBias(ranges[0]))) {
    plan.bias.clear();
    const size_t n = std::max(s.constant.size(), plan.fixed.shifts.size());
    for (size_t c = 0; c < n; ++c) {
      const double v = std::ldexp(at(s.constant, c) / q.scale, int(plan.fixed.shift(c)));
      if (!(std::fabs(v) < kMostAddend)) {
        why = "a constant out of the range of 64-bit sums";
        return llvm::None;
      }
      plan.addend.push_back(std::llrint(v));
    }
    if (llvm::all_of(plan.addend, [](int64_t v) { return v == 0; }))
      plan.addend.clear();
  }
  const unsigned bits = bitWidth(to);
  plan.low = isSignedInt(to) ? -(int64_t(1) << (bits - 1)) : 0;
  plan.high = plan.low + (int64_t(1) << bits) - 1;
  auto step = [&](double v) {
    const double level = std::nearbyint(v / q.scale) + double(q.zero);
    return int64_t(std::min(std::max(level, double(plan.low)), double(plan.high)));
  };
  std::tie(plan.low, plan.high) = std::make_pair(step(s.low), step(s.high));

  if (llvm::all_of(ranges, [](const ChannelRanges &r) { return !r.empty(); })) {
    ScaledSum sum{plan.fixed, {}, plan.addend, plan.low - q.zero, plan.high - q.zero};
    for (size_t t = 0; t < s.terms.size(); ++t)
      sum.terms.push_back(shifted(ranges[t], offsetOf(s.terms[t], plan)));
    plan.highProducts = toHighProducts(sum);
    plan.shortProducts = toShortProducts(sum);
    if (bits == 8)
      plan.floatProducts = toFloatProducts(q, bits, ranges);
  }
  return plan;
}

namespace {

/// The form Float.
Value *buildFloatRescale(Builder &b, const QuantizedSum &q, const RescalePlan &plan,
                         llvm::ArrayRef<Value *> tensors, Type result) {
  const IntegerSum &s = q.sum;
  const FloatProducts &p = *plan.floatProducts;
  const Element to = result.element();
  const int64_t lowest = minInt(to), highest = maxInt(to);
  Operands in(b, s.axis);
  for (size_t t = 0; t < tensors.size(); ++t) {
    in.tensor(tensors[t], s.terms[t].map);
    if (s.terms[t].factor)
      in.tensor(s.terms[t].factor, s.terms[t].factorMap);
    in.list(p.multipliers[t]);
  }
  in.list(p.addend);
  llvm::SmallVector<Dim, 6> space(result.shape().begin(), result.shape().end());
  Operation *map =
      b.map(in.values, in.maps, space, [&](Builder &body, llvm::ArrayRef<Value *> values) {
        Arguments args(body, values);
        std::vector<std::pair<Value *, Value *>> products;
        for (size_t t = 0; t < tensors.size(); ++t) {
          Value *n = args.tensor();
          if (const IntegerTerm &term = s.terms[t]; term.factor) {
            Value *by = args.cast(args.tensor(), Element::I32);
            n = args.plus(args.cast(n, Element::I32), negated(term.zero));
            n = body.scalar(Op::Mul, {n, args.plus(by, {-term.factorZero})});
          }
          n = args.cast(n, Element::F32);
          products.emplace_back(n, args.list(p.multipliers[t]));
        }
        Value *sum = args.list(p.addend);
        for (size_t t = products.size(); t-- > 0;)
          sum = body.scalar(Op::Fma, {products[t].first, products[t].second, sum});
        auto constant = [&](int64_t v) { return body.scalarConst(Element::F32, double(v)); };
        if (plan.low > lowest)
          sum = body.scalar(Op::Max, {sum, constant(plan.low - p.zero)});
        if (plan.high < highest)
          sum = body.scalar(Op::Min, {sum, constant(plan.high - p.zero)});
        sum = body.scalar(Op::Round, {sum});
        if (p.zero)
          sum = body.scalar(Op::Add, {sum, constant(p.zero)});
        return llvm::SmallVector<Value *, 2>{args.cast(sum, to)};
      });
  return map ? map->result() : nullptr;
}

} // namespace

Value *buildRescale(Builder &b, const QuantizedSum &q, const RescalePlan &plan, RescaleForm form,
                    llvm::ArrayRef<Value *> tensors, Type result) {
  if (form == RescaleForm::Float)
    return buildFloatRescale(b, q, plan, tensors, result);
  const IntegerSum &s = q.sum;
  const bool high = form == RescaleForm::High, brief = form == RescaleForm::Short;
  const Element e = form == RescaleForm::Wide ? Element::I64 : Element::I32;
  const FixedPoint &fixed = brief ? plan.shortProducts->fixed : plan.fixed;
  const std::vector<int64_t> &addend = brief ? plan.shortProducts->addend : plan.addend;
  const std::vector<int64_t> &shifts = high ? plan.highProducts->after : fixed.shifts;
  std::vector<std::vector<int64_t>> offsets;
  for (const IntegerTerm &t : s.terms)
    offsets.push_back(offsetOf(t, plan));
  // Half a step, and the zero point as long as the sum keeps to 31 bits.
  int64_t zero = q.zero;
  std::vector<int64_t> halves;
  if (high) {
    const int64_t most = *std::max_element(shifts.begin(), shifts.end());
    const int64_t inside = std::abs(zero) < (int64_t(1) << 28 >> most) ? zero : 0;
    const std::vector<int64_t> &half = plan.highProducts->half;
    halves = eachChannel<int64_t>(std::max(half.size(), shifts.size()), [&](size_t c) {
      return half[half.size() == 1 ? 0 : c] +
             inside * (int64_t(1) << shifts[shifts.size() == 1 ? 0 : c]);
    });
    zero -= inside;
  }
  Operands in(b, s.axis);
  for (size_t t = 0; t < tensors.size(); ++t) {
    in.tensor(tensors[t], s.terms[t].map);
    if (s.terms[t].factor)
      in.tensor(s.terms[t].factor, s.terms[t].factorMap);
    in.list(offsets[t], Element::I32);
    in.list(fixed.multipliers[t], Element::I32);
  }
  if (high)
    in.list(halves, Element::I32);
  else if (!addend.empty())
    in.list(addend, e);
  in.list(shifts, Element::I32);

  llvm::SmallVector<Dim, 6> space(result.shape().begin(), result.shape().end());
  Operation *map =
      b.map(in.values, in.maps, space, [&](Builder &body, llvm::ArrayRef<Value *> values) {
        Arguments args(body, values);
        auto constant = [&](int64_t v) { return body.scalarInt(e, v); };
        Value *sum = nullptr;
        for (size_t t = 0; t < tensors.size(); ++t) {
          Value *n = args.cast(args.tensor(), Element::I32);
          if (const IntegerTerm &term = s.terms[t]; term.factor) {
            Value *by = args.cast(args.tensor(), Element::I32);
            n = body.scalar(Op::Mul,
                            {args.plus(n, negated(term.zero)), args.plus(by, {-term.factorZero})});
          }
          n = args.plus(n, offsets[t]);
          if (high && plan.highProducts->before)
            n = body.scalar(Op::ShiftLeft, {n, constant(plan.highProducts->before)});
          Value *m = args.cast(args.list(fixed.multipliers[t], Element::I32), e);
          Value *product =
              high ? body.scalar(Op::MulHigh, {n, m}) : body.scalar(Op::Mul, {args.cast(n, e), m});
          sum = sum ? body.scalar(Op::Add, {sum, product}) : product;
        }
        sum = args.plus(sum, high ? halves : addend);
        Value *count = args.cast(args.list(shifts, Element::I32), e);
        Value *rounded = body.scalar(high ? Op::ShiftRight : Op::RoundShift, {sum, count});
        rounded = args.plus(rounded, {zero});
        Value *clamped = body.scalar(Op::Clamp, {rounded, constant(plan.low), constant(plan.high)});
        return llvm::SmallVector<Value *, 2>{args.cast(clamped, result.element())};
      });
  return map ? map->result() : nullptr;
}

} // namespace tenon
