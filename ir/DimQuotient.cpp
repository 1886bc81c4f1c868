// Implements the normal forms of quotients and extremes of sums.
//
// A quotient by an integer c > 0 is taken apart by these equations, in turn:
//
//   ⌊(c·q + r) / c⌋          = q + ⌊r / c⌋            coefficients of r are in (−c/2, c/2]
//   ⌊(g·r + b) / (g·c)⌋      = ⌊(r + ⌊b/g⌋) / c⌋       g: what divides coefficients and divisor
//   ⌊(⌊x/a⌋ + r) / c⌋        = ⌊(x + a·r) / (a·c)⌋
//   ⌊(−r + b) / c⌋           = −⌊(r − b + c − 1) / c⌋   so that the first coefficient is positive
//   ⌊r / c⌋                  = k                      where the bounds of r are k·c … k·c + c − 1
//
// ⌈a/c⌉ is −⌊−a/c⌋ and a mod c is a − c·⌊a/c⌋. Extremes lose what both operands have in common.
#include "ir/DimSum.h"

#include "ir/Context.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

namespace tenon {
namespace {

constexpr int64_t kLargestDivisor = int64_t(1) << 40; // quotients by more stay as they are
constexpr size_t kMostChoices = 4;                    // terms whose remainders are tried

/// a modulo c > 0.
int64_t remainder(int64_t a, int64_t c) { return a % c < 0 ? a % c + c : a % c; }

/// Whether x / a with an integer a > 1 is the only quotient among the terms and stands alone.
const DimNode *innerQuotient(const DimSum &s) {
  const DimNode *found = nullptr;
  for (auto &[product, coefficient] : s.terms())
    for (const DimNode *f : factorsOf(product)) {
      if (f->kind != DimKind::FloorDiv)
        continue;
      if (found || f != product || (coefficient != 1 && coefficient != -1) ||
          f->rhs->kind != DimKind::Constant || f->rhs->value <= 0)
        return nullptr;
      found = f;
    }
  return found;
}

/// A quotient by an integer: `whole` + `sign` · ⌊rest / divisor⌋.
class Quotient {
public:
  Quotient(DimSum a, int64_t divisor) : rest_(std::move(a)), divisor_(divisor) {}

  Dim dim(Context &c) {
    // Normal forms of a sum and of the quotient may pull in two directions. Then it stays as it is.
    const DimSum given = rest_;
    const int64_t by = divisor_;
    for (int round = 0; round < 4; ++round) {
      do {
        takeWhole();
        reduce();
      } while (divisor_ > 1 && takeInner());
      if (divisor_ == 1) {
        whole_.add(rest_, sign_);
        return whole_.dim(c);
      }
      normaliseSign();
      if (rest_.isConstant() || decide())
        return whole_.dim(c);
      const Dim rest = rest_.dim(c);
      if (DimSum again(rest); again != rest_) {
        rest_ = again;
        continue;
      }
      whole_.add(dimNode(DimKind::FloorDiv, rest, c.dim(divisor_)), sign_);
      return whole_.dim(c);
    }
    return dimNode(DimKind::FloorDiv, given.dim(c), c.dim(by));
  }

private:
  void takeWhole() {
    DimSum rest;
    for (auto &[product, coefficient] : rest_.terms()) {
      int64_t r = remainder(coefficient, divisor_), q = floorDivide(coefficient, divisor_);
      if (r > divisor_ - r) {
        r -= divisor_;
        ++q;
      }
      rest.add(product, r);
      whole_.add(product, saturatingMul(q, sign_));
    }
    rest.constant = remainder(rest_.constant, divisor_);
    const int64_t q = floorDivide(rest_.constant, divisor_);
    whole_.constant = saturatingAdd(whole_.constant, saturatingMul(q, sign_));
    rest_ = rest;
  }

  void reduce() {
    int64_t g = divisor_;
    for (auto &[product, coefficient] : rest_.terms())
      g = std::gcd(g, coefficient);
    if (g == 1)
      return;
    DimSum rest(floorDivide(rest_.constant, g));
    for (auto &[product, coefficient] : rest_.terms())
      rest.add(product, coefficient / g);
    rest_ = rest;
    divisor_ /= g;
  }

  bool takeInner() {
    const DimNode *inner = innerQuotient(rest_);
    if (!inner)
      return false;
    const int64_t a = inner->rhs->value, coefficient = rest_.coefficient(inner);
    if (a > kLargestDivisor / divisor_)
      return false;
    DimSum outside = rest_, rest;
    outside.remove(inner);
    rest.add(outside, a);
    rest.add(Dim(inner->lhs), coefficient);
    if (coefficient < 0) // −⌊x/a⌋ = ⌊(a − 1 − x)/a⌋
      rest.constant = saturatingAdd(rest.constant, a - 1);
    rest_ = rest;
    divisor_ *= a;
    return true;
  }

  void normaliseSign() {
    // Halves of the divisor are their own opposites.
    for (auto &[product, coefficient] : rest_.terms()) {
      if (coefficient == divisor_ - coefficient)
        continue;
      if (coefficient > 0)
        return;
      break;
    }
    DimSum opposite(divisor_ - 1 - rest_.constant);
    bool any = false;
    for (auto &[product, coefficient] : rest_.terms()) {
      const bool half = coefficient == divisor_ - coefficient;
      any |= !half;
      opposite.add(product, half ? coefficient : -coefficient);
    }
    if (!any)
      return;
    for (auto &[product, coefficient] : rest_.terms())
      if (coefficient == divisor_ - coefficient)
        whole_.add(product, sign_);
    rest_ = opposite;
    sign_ = -sign_;
  }

  /// Where the bounds of the rest say what the quotient is. Other remainders of the coefficients
  /// have other bounds.
  bool decide() {
    const auto terms = rest_.terms();
    const size_t choices = terms.size() > kMostChoices ? 1 : size_t(1) << terms.size();
    for (size_t choice = 0; choice < choices; ++choice) {
      DimSum rest = rest_, moved;
      for (size_t i = 0; i < terms.size() && choice; ++i)
        if (choice >> i & 1) {
          const int64_t q = terms[i].second > 0 ? 1 : -1;
          rest.add(terms[i].first, -q * divisor_);
          moved.add(terms[i].first, q);
        }
      const DimBounds b = rest.bounds();
      const int64_t q = floorDivide(b.lower, divisor_);
      if (q != floorDivide(b.upper, divisor_))
        continue;
      whole_.add(moved, sign_);
      whole_.constant = saturatingAdd(whole_.constant, saturatingMul(q, sign_));
      return true;
    }
    return false;
  }

  DimSum whole_, rest_;
  int64_t divisor_;
  int sign_ = 1;
};

/// Whether the product `a` comes after `b` by number of factors, then by the first that differ.
bool leads(const DimNode *a, const DimNode *b) {
  const auto x = factorsOf(a), y = factorsOf(b);
  if (x.size() != y.size())
    return x.size() > y.size();
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i])
      return order(x[i], y[i]) < 0;
  return false;
}

DimSum::Term leadingTerm(const DimSum &s) {
  const auto terms = s.terms();
  return *std::min_element(terms.begin(), terms.end(),
                           [](auto &a, auto &b) { return leads(a.first, b.first); });
}

/// One term divided by another: a term of the quotient.
llvm::Optional<DimSum> divideTerm(DimSum::Term a, DimSum::Term b) {
  if (b.second == 0 || (b.second != -1 && a.second % b.second != 0))
    return llvm::None;
  DimSum::Factors factors = factorsOf(a.first);
  for (const DimNode *f : factorsOf(b.first)) {
    auto *at = llvm::find(factors, f);
    if (at == factors.end())
      return llvm::None;
    factors.erase(at);
  }
  const int64_t quotient = floorDivide(a.second, b.second);
  DimSum r;
  if (factors.empty())
    r.constant = quotient;
  else
    r.add(productOf(std::move(factors)), quotient);
  return r;
}

/// A quotient by a sum with symbols: as many terms as it divides, leading ones first.
Dim symbolicQuotient(Context &c, const DimSum &a, const DimSum &b) {
  const DimSum::Term by = leadingTerm(b);
  DimSum whole, rest = a;
  bool found = true;
  for (unsigned step = 0; found && step < 64; ++step) {
    found = false;
    auto terms = rest.terms();
    llvm::stable_sort(terms, [](auto &x, auto &y) { return leads(x.first, y.first); });
    for (const DimSum::Term &term : terms)
      if (auto q = divideTerm(term, by)) {
        whole.add(*q, 1);
        rest.add(b * *q, -1);
        found = true;
        break;
      }
  }
  if (rest.isConstant() && rest.constant == 0)
    return whole.dim(c);
  DimSum room = b; // rest < b
  room.add(rest, -1);
  if (rest.bounds().lower >= 0 && room.bounds().lower > 0)
    return whole.dim(c);
  // Part of a sum, or a divisor that may be 0 or negative: only the whole is known to be right.
  if (b.size() > 1 || b.constant != 0 || b.bounds().lower <= 0)
    return dimNode(DimKind::FloorDiv, a.dim(c), b.dim(c));
  whole.add(dimNode(DimKind::FloorDiv, rest.dim(c), b.dim(c)), 1);
  return whole.dim(c);
}

} // namespace

Dim floorQuotient(Context &c, const DimSum &a, const DimSum &b) {
  if (!b.isConstant())
    return a.isConstant() && a.constant == 0 ? c.dim(0) : symbolicQuotient(c, a, b);
  if (b.constant == 0)
    return c.dim(0);
  if (a.isConstant())
    return c.dim(floorDivide(a.constant, b.constant));
  if (b.constant >= kLargestDivisor || b.constant <= -kLargestDivisor) {
    const Dim d = dimNode(DimKind::FloorDiv, a.dim(c), c.dim(b.constant));
    return d.lower() == d.upper() ? c.dim(d.lower()) : d;
  }
  if (b.constant < 0) {
    DimSum negated;
    negated.add(a, -1);
    return Quotient(std::move(negated), saturatingMul(b.constant, -1)).dim(c);
  }
  return Quotient(a, b.constant).dim(c);
}

Dim extremum(Context &c, DimKind kind, const DimSum &a, const DimSum &b) {
  DimSum difference = a;
  difference.add(b, -1);
  const DimBounds d = difference.bounds();
  const bool smaller = kind == DimKind::Min;
  if (d.upper <= 0)
    return (smaller ? a : b).dim(c);
  if (d.lower >= 0)
    return (smaller ? b : a).dim(c);
  // What both have, so that no coefficient is negative, and what divides both.
  DimSum common(std::min(a.constant, b.constant));
  for (auto &[product, coefficient] : a.terms())
    common.add(product, std::min(coefficient, b.coefficient(product)));
  for (auto &[product, coefficient] : b.terms())
    if (a.coefficient(product) == 0)
      common.add(product, std::min<int64_t>(coefficient, 0));
  DimSum rests[2] = {a, b};
  int64_t g = 0;
  for (DimSum &rest : rests) {
    rest.add(common, -1);
    g = std::gcd(g, rest.constant);
    for (auto &[product, coefficient] : rest.terms())
      g = std::gcd(g, coefficient);
  }
  Dim x[2];
  bool settled = true;
  for (int i = 0; i < 2; ++i) {
    DimSum divided(rests[i].constant / g);
    for (auto &[product, coefficient] : rests[i].terms())
      divided.add(product, coefficient / g);
    x[i] = divided.dim(c);
    settled &= DimSum(x[i]) == divided;
  }
  if (!settled) { // what is left has a shorter form
    common.add(extremum(c, kind, DimSum(x[0]), DimSum(x[1])), g);
    return common.dim(c);
  }
  // An integer goes right, other operands into order.
  if (x[0].isConstant() || (!x[1].isConstant() && order(x[1].node(), x[0].node()) < 0))
    std::swap(x[0], x[1]);
  common.add(dimNode(kind, x[0], x[1]), g);
  return common.dim(c);
}

} // namespace tenon
