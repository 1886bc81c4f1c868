// Defines Interval, inclusive bounds of a number, and what scalar functions make of them.
#pragma once

#include "ir/IR.h"

#include <algorithm>
#include <limits>
#include <map>

namespace tenon {

/// Inclusive; infinite where nothing is known.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  static Interval symmetric(double bound) { return {-bound, bound}; }
  /// Of every number of a type; infinite for floats.
  static Interval of(Element e);
  /// The largest magnitude.
  double bound() const { return std::max(-low, high); }
  bool isBounded() const { return bound() < std::numeric_limits<double>::infinity(); }
};
/// The smallest interval that holds both.
inline Interval hull(Interval a, Interval b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}
/// Of the products of independent numbers.
Interval product(Interval a, Interval b);
/// a * b, where 0 times infinity counts as 0: the factor 0 is exact.
inline double boundProduct(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

/// The scalar functions in the body of a map over intervals.
class BodyIntervals {
public:
  /// `arguments`: of the region's; `space`: the map's iteration space.
  BodyIntervals(std::map<const Value *, Interval> arguments, llvm::ArrayRef<Dim> space)
      : known_(std::move(arguments)), space_(space) {}

  Interval of(const Value *v);

private:
  Interval monotone(const Operation &op, double (*f)(double));
  Interval evaluate(const Operation &op);
  Interval multiply(const Operation &op);
  Interval power(const Operation &op);

  std::map<const Value *, Interval> known_;
  llvm::ArrayRef<Dim> space_;
};

} // namespace tenon
