// Declares DimSum: an extent as a polynomial, a sum of integers times products of what is no sum or
// integer (symbols, quotients, minima, maxima). Internal to the normalisation of extents.
#pragma once

#include "ir/Dim.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"

namespace tenon {

/// a·b and a + b that stop at the ends of the type.
int64_t saturatingMul(int64_t a, int64_t b);
int64_t saturatingAdd(int64_t a, int64_t b);
inline int64_t saturatingNegate(int64_t a) { return saturatingMul(a, -1); }
/// Far enough from the ends of the type that nothing was cut off and small sums stay within it.
inline bool isSafe(int64_t v) { return v > -(int64_t(1) << 61) && v < int64_t(1) << 61; }
/// ⌊a / b⌋; b is not 0.
int64_t floorDivide(int64_t a, int64_t b);

/// The canonical order of extents: negative when `a` comes first, 0 when they are one node. It
/// depends on nothing but what the extents say, so that text parses back to the same bytes.
int order(const DimNode *a, const DimNode *b);

struct DimBounds {
  int64_t lower, upper;

  bool isExact() const { return lower == upper; }
  DimBounds operator+(DimBounds b) const {
    return {saturatingAdd(lower, b.lower), saturatingAdd(upper, b.upper)};
  }
  DimBounds operator*(int64_t k) const;
  /// What is within both. Bounds that were cut off at the ends of the type may exclude each other;
  /// then these stay.
  DimBounds meet(DimBounds b) const {
    const DimBounds r{lower > b.lower ? lower : b.lower, upper < b.upper ? upper : b.upper};
    return r.lower > r.upper ? *this : r;
  }
  DimBounds join(DimBounds b) const {
    return {lower < b.lower ? lower : b.lower, upper > b.upper ? upper : b.upper};
  }
};

class DimSum {
public:
  /// A factor of a product, with repetition, in canonical order.
  using Factors = llvm::SmallVector<const DimNode *, 4>;
  using Term = std::pair<const DimNode *, int64_t>; // a product of factors, its coefficient

  DimSum() = default;
  explicit DimSum(Dim d) { add(d, 1); }
  explicit DimSum(int64_t constant) : constant(constant) {}

  void add(Dim d, int64_t factor);
  void add(const DimSum &s, int64_t factor);
  void add(const DimNode *product, int64_t coefficient);
  void remove(const DimNode *product) { terms_.erase(product); }
  DimSum operator*(const DimSum &b) const;

  bool operator==(const DimSum &b) const;
  bool operator!=(const DimSum &b) const { return !(*this == b); }

  bool isConstant() const { return terms_.empty(); }
  /// Terms in canonical order.
  llvm::SmallVector<Term, 8> terms() const;
  size_t size() const { return terms_.size(); }
  int64_t coefficient(const DimNode *product) const { return terms_.lookup(product); }

  /// Bounds of every value; exact for sums of distinct symbols, else what follows from taking apart
  /// quotients, minima and maxima, and from the corners of what is linear in each factor.
  DimBounds bounds() const { return boundsWithin(kDepth, kExtremes); }

  /// The uniqued extent; equal sums are one.
  Dim dim(Context &c) const;

  int64_t constant = 0;

private:
  static constexpr unsigned kDepth = 3, kExtremes = 6;

  /// Taking apart quotients within each other and extremes, so many of them at most.
  DimBounds boundsWithin(unsigned depth, unsigned extremes) const;
  DimBounds boundsTogether(DimBounds apart) const;
  DimBounds boundsWithout(const DimNode *atom, int64_t coefficient, unsigned depth,
                          unsigned extremes) const;
  bool boundsAtCorners(DimBounds &b) const;
  bool mendHalves(Context &c);

  llvm::SmallMapVector<const DimNode *, int64_t, 8> terms_; // no coefficient is 0
};

/// The factors of a product.
DimSum::Factors factorsOf(const DimNode *product);
/// The product of `factors`, which are put in order.
const DimNode *productOf(DimSum::Factors factors);

/// ⌊a / b⌋ in normal form.
Dim floorQuotient(Context &c, const DimSum &a, const DimSum &b);
/// The smaller one, or the larger one, in normal form.
Dim extremum(Context &c, DimKind kind, const DimSum &a, const DimSum &b);

/// The uniqued node of a normal form, with its bounds.
Dim dimNode(DimKind kind, Dim a, Dim b);

} // namespace tenon
