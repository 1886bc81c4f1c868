// Implements the comparison of tensors.
#include "tools/Compare.h"

#include "ir/Type.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr double kStepShare = 1e-4;

std::string indexText(int64_t flat, llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t, 6> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return shapeText(index);
}

/// With as many digits as tell floats apart.
std::string numberText(double v) {
  std::string s;
  llvm::raw_string_ostream os(s);
  os << llvm::format("%.9g", v);
  return os.str();
}

/// Two roundings of a type that is stored: a value in between falls either way, and what a group
/// hands on inside is rounded by the interpreter alone.
double leastTolerance(Element e) {
  return e == Element::BF16 ? 0x1p-7 : e == Element::F16 ? 0x1p-9 : 0;
}

Difference compareFloats(const Tensor &actual, const Tensor &expected, double tolerance) {
  double largest = 0, worst = 0;
  int64_t at = -1;
  bool finite = true;
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double a = actual.at(i), e = expected.at(i);
    if (!std::isfinite(e) || !std::isfinite(a)) {
      if (a == e || (std::isnan(a) && std::isnan(e)))
        continue;
      if (finite)
        at = i;
      finite = false;
      continue;
    }
    largest = std::max(largest, std::fabs(e));
    if (finite && std::fabs(a - e) > worst) {
      worst = std::fabs(a - e);
      at = i;
    }
  }
  Difference d;
  d.error = finite ? (worst == 0 ? 0 : largest > 0 ? worst / largest : worst) : HUGE_VAL;
  d.same = d.error <= tolerance;
  if (!d.same)
    d.reason = "at " + indexText(at, expected.shape()) + " " + numberText(actual.at(at)) +
               ", expected " + numberText(expected.at(at)) + " (largest " + numberText(largest) +
               ")";
  return d;
}

/// `explained`: the share of elements that may differ by any amount.
Difference compareIntegers(const Tensor &actual, const Tensor &expected, double explained = 0) {
  const Element e = expected.element();
  const bool steps = e == Element::I8 || e == Element::U8;
  int64_t differ = 0, worst = 0, at = -1;
  for (int64_t i = 0; i < expected.size(); ++i) {
    const int64_t a = actual.intAt(i), b = expected.intAt(i);
    if (a == b)
      continue;
    ++differ;
    const int64_t distance = steps ? std::abs(a - b) : 1;
    if (distance > worst) {
      worst = distance;
      at = i;
    }
  }
  Difference d;
  d.error = expected.size() ? double(differ) / double(expected.size()) : 0;
  // A tie may fall either way in any tensor, however small.
  const auto allowed = std::max<int64_t>(1, int64_t(kStepShare * double(expected.size())));
  d.same = differ == 0 || (steps && worst <= 1 && differ <= allowed) ||
           double(differ) <= explained * double(expected.size());
  if (!d.same)
    d.reason = std::to_string(differ) + " of " + std::to_string(expected.size()) +
               " elements differ; at " + indexText(at, expected.shape()) + " " +
               std::to_string(actual.intAt(at)) + ", expected " +
               std::to_string(expected.intAt(at));
  return d;
}

Difference compareText(const Tensor &actual, const Tensor &expected) {
  Difference d;
  for (size_t i = 0; d.same && i < size_t(expected.size()); ++i)
    if (actual.stringValues()[i] != expected.stringValues()[i]) {
      d.same = false;
      d.error = HUGE_VAL;
      d.reason = "text at " + std::to_string(i) + " is '" + actual.stringValues()[i] +
                 "', expected '" + expected.stringValues()[i] + "'";
    }
  return d;
}

} // namespace

double explainedBy(double rounding, int64_t size) {
  return 2 * rounding * (1 + 8 / double(std::max<int64_t>(size, 1)));
}

double roundingError(const Tensor &typed, const Tensor &exact) {
  if (typed.isNull() || exact.isNull() || typed.shape() != exact.shape() ||
      isOpaque(typed.element()))
    return 0;
  double largest = 0, worst = 0;
  int64_t differ = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    const double t = typed.at(i), e = exact.at(i);
    differ += t != e;
    if (!std::isfinite(t) || !std::isfinite(e))
      continue;
    largest = std::max(largest, std::fabs(e));
    worst = std::max(worst, std::fabs(t - e));
  }
  if (!isFloat(typed.element()))
    return exact.size() ? double(differ) / double(exact.size()) : 0;
  return largest > 0 ? worst / largest : worst;
}

Difference compareWithExact(const Tensor &actual, const Tensor &typed, const Tensor &exact,
                            double tolerance) {
  if (exact.isNull() || typed.shape() != exact.shape() || isOpaque(typed.element()) ||
      actual.isNull() || actual.element() != typed.element() || actual.shape() != typed.shape())
    return compareTensors(actual, typed, tolerance);
  const double rounding = roundingError(typed, exact);
  const double explained = explainedBy(rounding, exact.size());
  Difference d;
  if (isFloat(typed.element())) {
    // Where the types know infinities or NaNs only, fp64 says nothing about them.
    Tensor expected = exact;
    for (int64_t i = 0; i < exact.size(); ++i)
      if (!std::isfinite(exact.at(i)) ||
          (!std::isfinite(typed.at(i)) && !std::isfinite(actual.at(i))))
        expected.set(i, typed.at(i));
    d = compareFloats(actual, expected,
                      std::max({tolerance, leastTolerance(typed.element()), explained}));
  } else {
    // What either gives is right; others are as many as rounding made differ.
    Tensor expected = exact;
    for (int64_t i = 0; i < exact.size(); ++i)
      if (actual.intAt(i) == typed.intAt(i))
        expected.setInt(i, typed.intAt(i));
    d = compareIntegers(actual, expected, explained);
  }
  d.rounding = rounding;
  return d;
}

Difference compareTensors(const Tensor &actual, const Tensor &expected, double tolerance) {
  Difference d;
  auto mismatch = [&](std::string reason) {
    d.same = false;
    d.error = HUGE_VAL;
    d.reason = std::move(reason);
    return d;
  };
  if (actual.isNull())
    return mismatch("no value was computed");
  // numpy computes in f64, and what it writes beside a model of f32 says values, not a type.
  const bool isWider = expected.element() == Element::F64 && isFloat(actual.element());
  if (actual.element() != expected.element() && !isWider)
    return mismatch("type " + name(actual.element()).str() + ", expected " +
                    name(expected.element()).str());
  if (actual.shape() != expected.shape())
    return mismatch("shape " + shapeText(actual.shape()) + ", expected " +
                    shapeText(expected.shape()));
  const Element e = isWider ? actual.element() : expected.element();
  if (e == Element::String)
    return compareText(actual, expected);
  if (isFloat(e))
    return compareFloats(actual, expected, std::max(tolerance, leastTolerance(e)));
  if (isComplex(e))
    return actual.sameBytes(expected) ? d : mismatch("complex values differ");
  return compareIntegers(actual, expected);
}

bool valueRange(const Tensor &tensor, double &low, double &high) {
  const Element e = tensor.element();
  if (tensor.isNull() || isOpaque(e))
    return false;
  low = HUGE_VAL, high = -HUGE_VAL;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double v = tensor.at(i);
    if (!std::isfinite(v))
      continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  return low <= high;
}

int64_t countNotFinite(const Tensor &tensor) {
  if (tensor.isNull() || !isFloat(tensor.element()))
    return 0;
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    count += !std::isfinite(tensor.at(i));
  return count;
}

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

} // namespace tenon
