// Implements interval arithmetic.
#include "ir/Interval.h"

#include "ir/Scalar.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Interval inverse(Interval a) {
  if (a.low <= 0 && a.high >= 0)
    return {};
  return {1 / a.high, 1 / a.low};
}

Interval absolute(Interval a) {
  const double low = a.low <= 0 && a.high >= 0 ? 0 : std::min(std::fabs(a.low), std::fabs(a.high));
  return {low, a.bound()};
}

} // namespace

Interval Interval::of(Element e) {
  if (isBool(e))
    return {0, 1};
  if (isInteger(e))
    return {double(minInt(e)), double(maxInt(e))};
  return {};
}

Interval product(Interval a, Interval b) {
  const double c[] = {boundProduct(a.low, b.low), boundProduct(a.low, b.high),
                      boundProduct(a.high, b.low), boundProduct(a.high, b.high)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

Interval BodyIntervals::of(const Value *v) {
  auto it = known_.find(v);
  if (it != known_.end())
    return it->second;
  const Operation *op = v->def();
  Interval r = op ? evaluate(*op) : Interval();
  // Integers wrap around.
  const Interval all = Interval::of(v->type().element());
  if (std::isnan(r.low) || std::isnan(r.high) || r.low < all.low || r.high > all.high)
    r = all;
  return known_[v] = r;
}

Interval BodyIntervals::monotone(const Operation &op, double (*f)(double)) {
  const Interval a = of(op.operand(0));
  return {f(a.low), f(a.high)};
}

Interval BodyIntervals::evaluate(const Operation &op) {
  auto in = [&](unsigned i) { return of(op.operand(i)); };
  switch (op.kind()) {
  case Op::Const: {
    const Attribute *a = op.find("value");
    if (const double *d = a->get<double>())
      return {*d, *d};
    if (const int64_t *i = a->get<int64_t>())
      return {double(*i), double(*i)};
    const bool *t = a->get<bool>();
    return t ? Interval{double(*t), double(*t)} : Interval();
  }
  case Op::Index: {
    const auto d = size_t(op.intAttr("dim"));
    return {0, d < space_.size() ? double(space_[d].upper()) : kInf};
  }
  case Op::Add: return {in(0).low + in(1).low, in(0).high + in(1).high};
  case Op::Sub: return {in(0).low - in(1).high, in(0).high - in(1).low};
  case Op::Mul: return multiply(op);
  case Op::Fma: {
    const Interval p = product(in(0), in(1));
    return {p.low + in(2).low, p.high + in(2).high};
  }
  case Op::Div:
    return isInteger(op.result()->type().element()) ? Interval::symmetric(in(0).bound())
                                                    : product(in(0), inverse(in(1)));
  case Op::Mod:
    return in(1).low > 0 ? Interval{0, in(1).high} : Interval::of(op.result()->type().element());
  case Op::Min: return {std::min(in(0).low, in(1).low), std::min(in(0).high, in(1).high)};
  case Op::Max: return {std::max(in(0).low, in(1).low), std::max(in(0).high, in(1).high)};
  case Op::Clamp: {
    const Interval a = in(0), low = in(1), high = in(2);
    return {std::min(std::max(a.low, low.low), high.low),
            std::min(std::max(a.high, low.high), high.high)};
  }
  case Op::Neg: return {-in(0).high, -in(0).low};
  case Op::Abs: return absolute(in(0));
  case Op::Relu: return {std::max(in(0).low, 0.0), std::max(in(0).high, 0.0)};
  case Op::Exp: return monotone(op, [](double a) { return std::exp(a); });
  case Op::Tanh: return monotone(op, [](double a) { return std::tanh(a); });
  case Op::Erf: return monotone(op, [](double a) { return std::erf(a); });
  case Op::Atan: return monotone(op, [](double a) { return std::atan(a); });
  case Op::Sigmoid: return monotone(op, [](double a) { return 1 / (1 + std::exp(-a)); });
  case Op::Floor: return monotone(op, [](double a) { return std::floor(a); });
  case Op::Ceil: return monotone(op, [](double a) { return std::ceil(a); });
  case Op::Round: return monotone(op, [](double a) { return std::nearbyint(a); });
  case Op::Trunc: return monotone(op, [](double a) { return std::trunc(a); });
  case Op::Sqrt: return {0, std::sqrt(std::max(in(0).high, 0.0))};
  case Op::Log:
    return in(0).low > 0 ? monotone(op, [](double a) { return std::log(a); }) : Interval();
  case Op::Rsqrt:
    return in(0).low > 0 ? Interval{1 / std::sqrt(in(0).high), 1 / std::sqrt(in(0).low)}
                         : Interval();
  case Op::Reciprocal: return inverse(in(0));
  case Op::Pow: return power(op);
  case Op::Sin:
  case Op::Cos:
  case Op::Sign: return {-1, 1};
  case Op::Select: return hull(in(1), in(2));
  case Op::Cast: {
    const Interval a = in(0), all = Interval::of(op.result()->type().element());
    return {std::max(a.low, all.low), std::min(a.high, all.high)}; // saturates
  }
  case Op::Dequantize: {
    const Interval q = in(0), zero = in(2);
    return product({q.low - zero.high, q.high - zero.low}, in(1));
  }
  default: return Interval::of(op.result()->type().element());
  }
}

// a · a is no product of two independent values
Interval BodyIntervals::multiply(const Operation &op) {
  const Interval a = of(op.operand(0)), b = of(op.operand(1));
  if (op.operand(0) != op.operand(1))
    return product(a, b);
  const Interval m = absolute(a);
  return {m.low * m.low, m.high * m.high};
}

Interval BodyIntervals::power(const Operation &op) {
  const Interval a = of(op.operand(0)), e = of(op.operand(1));
  if (e.low != e.high || e.low < 0 || e.low != std::floor(e.low))
    return {};
  const double high = std::pow(a.bound(), e.low);
  const bool even = std::fmod(e.low, 2) == 0;
  return {even || a.low >= 0 ? 0 : -high, high};
}

} // namespace tenon
