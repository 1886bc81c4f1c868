// Implements extents: uniquing constructors with light algebraic normalisation, bounds, printing.
#include "ir/Dim.h"

#include "ir/Context.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace tenon {
namespace {

int64_t floorDivide(int64_t a, int64_t b) {
  if (b == -1) // INT64_MIN has no negative
    return a == INT64_MIN ? INT64_MAX : -a;
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
int64_t saturatingAdd(int64_t a, int64_t b) {
  int64_t r;
  if (llvm::AddOverflow(a, b, r))
    return a > 0 ? INT64_MAX : INT64_MIN;
  return r;
}
int64_t saturatingMul(int64_t a, int64_t b) {
  int64_t r;
  if (llvm::MulOverflow(a, b, r))
    return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
  return r;
}

int64_t apply(DimKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case DimKind::Add: return saturatingAdd(a, b);
  case DimKind::Mul: return saturatingMul(a, b);
  case DimKind::FloorDiv: return b == 0 ? 0 : floorDivide(a, b);
  case DimKind::CeilDiv: return b == 0 ? 0 : floorDivide(a, b) + (b != -1 && a % b != 0);
  case DimKind::Mod: return b == 0 || b == -1 ? 0 : a - floorDivide(a, b) * b;
  case DimKind::Min: return std::min(a, b);
  case DimKind::Max: return std::max(a, b);
  case DimKind::Constant:
  case DimKind::Symbol: break;
  }
  return 0;
}

/// Interval arithmetic; exact because every operation is monotone in each operand on extents.
void bounds(DimKind kind, Dim a, Dim b, int64_t &lower, int64_t &upper) {
  if (kind == DimKind::Mod) {
    lower = std::min<int64_t>(0, saturatingAdd(b.lower(), 1));
    upper = std::max<int64_t>(0, saturatingAdd(b.upper(), -1));
    if (a.lower() >= 0)
      upper = std::min(upper, a.upper());
    return;
  }
  int64_t c[4] = {apply(kind, a.lower(), b.lower()), apply(kind, a.lower(), b.upper()),
                  apply(kind, a.upper(), b.lower()), apply(kind, a.upper(), b.upper())};
  lower = *std::min_element(c, c + 4);
  upper = *std::max_element(c, c + 4);
}

/// What an extent's text begins with: an order by it, then by operands, is that of the texts, but
/// costs no text.
llvm::StringRef head(const DimNode &n) {
  switch (n.kind) {
  case DimKind::Add:
  case DimKind::Mul: return "(";
  case DimKind::FloorDiv: return "floordiv(";
  case DimKind::CeilDiv: return "ceildiv(";
  case DimKind::Mod: return "mod(";
  case DimKind::Min: return "min(";
  case DimKind::Max: return "max(";
  case DimKind::Symbol: return n.symbol;
  case DimKind::Constant: break;
  }
  return "";
}

/// The canonical order of operands: negative when `a` comes first, 0 when they are one node. It
/// depends on nothing but what the extents say, so that text parses back to the same bytes.
int order(const DimNode *a, const DimNode *b) {
  if (a == b)
    return 0;
  if (int c = head(*a).compare(head(*b)))
    return c;
  if (a->kind == DimKind::Constant && b->kind == DimKind::Constant)
    return a->value < b->value ? -1 : 1;
  if (a->lhs && b->lhs)
    if (int c = order(a->lhs, b->lhs))
      return c;
  if (a->kind != b->kind) // a product before a sum, as '*' before '+'
    return int(b->kind) - int(a->kind);
  return a->rhs && b->rhs ? order(a->rhs, b->rhs) : 0;
}

Dim node(DimKind kind, Dim a, Dim b) {
  int64_t lower, upper;
  bounds(kind, a, b, lower, upper);
  return a.node()->context->dimExpression(kind, a, b, lower, upper);
}

/// A sum as coefficients of terms that are no sums, and a constant.
struct Sum {
  llvm::SmallMapVector<const DimNode *, int64_t, 8> terms;
  int64_t constant = 0;

  void add(Dim d, int64_t factor) {
    const DimNode *n = d.node();
    if (n->kind == DimKind::Add) {
      add(Dim(n->lhs), factor);
      add(Dim(n->rhs), factor);
    } else if (n->kind == DimKind::Constant) {
      constant = saturatingAdd(constant, saturatingMul(n->value, factor));
    } else if (n->kind == DimKind::Mul && n->rhs->kind == DimKind::Constant) {
      add(Dim(n->lhs), saturatingMul(factor, n->rhs->value));
    } else {
      int64_t &coefficient = terms[n];
      coefficient = saturatingAdd(coefficient, factor);
    }
  }

  /// Terms in canonical order and the constant last, so that equal sums are one node.
  Dim dim(Context &c) const {
    const auto before = [](auto *x, auto *y) { return order(x, y) < 0; };
    llvm::SmallVector<const DimNode *, 8> ordered;
    for (auto &[term, coefficient] : terms) {
      if (coefficient == 0)
        continue;
      const DimNode *d =
          coefficient == 1 ? term : node(DimKind::Mul, Dim(term), c.dim(coefficient)).node();
      // Almost in order: what is added to sums is little.
      const bool last = ordered.empty() || before(ordered.back(), d);
      ordered.insert(last ? ordered.end() : llvm::upper_bound(ordered, d, before), d);
    }
    Dim sum;
    for (const DimNode *term : ordered)
      sum = sum ? node(DimKind::Add, sum, Dim(term)) : Dim(term);
    if (!sum)
      return c.dim(constant);
    return constant == 0 ? sum : node(DimKind::Add, sum, c.dim(constant));
  }
};

Dim binary(DimKind kind, Dim a, Dim b) {
  Context &c = *a.node()->context;
  if (a.isConstant() && b.isConstant())
    return c.dim(apply(kind, a.constant(), b.constant()));
  const bool commutes = kind == DimKind::Mul || kind == DimKind::Min || kind == DimKind::Max;
  // Constants go right and other operands into order, so that equal products are one node.
  if (commutes && (a.isConstant() || (!b.isConstant() && order(b.node(), a.node()) < 0)))
    std::swap(a, b);
  switch (kind) {
  case DimKind::Add: {
    Sum sum;
    sum.add(a, 1);
    sum.add(b, 1);
    return sum.dim(c);
  }
  case DimKind::Mul:
    if (b.isConstant(1))
      return a;
    if (b.isConstant(0))
      return b;
    if (b.isConstant()) {
      const DimNode *n = a.node();
      if (n->kind == DimKind::Mul && n->rhs->kind == DimKind::Constant)
        return Dim(n->lhs) * c.dim(saturatingMul(n->rhs->value, b.constant()));
      if (n->kind == DimKind::Add) { // distribute, so that (N+1)*2 - 2 folds
        Sum sum;
        sum.add(a, b.constant());
        return sum.dim(c);
      }
    }
    break;
  case DimKind::FloorDiv:
  case DimKind::CeilDiv: {
    if (b.isConstant(1))
      return a;
    if (a == b)
      return c.dim(1);
    // (x * k) / d with d dividing k is exact.
    const DimNode *n = a.node();
    if (n->kind == DimKind::Mul && b.isConstant() && n->rhs->kind == DimKind::Constant &&
        b.constant() != 0 && n->rhs->value % b.constant() == 0)
      return Dim(n->lhs) * c.dim(n->rhs->value / b.constant());
    if (n->kind == DimKind::Mul && (Dim(n->lhs) == b || Dim(n->rhs) == b))
      return Dim(n->lhs) == b ? Dim(n->rhs) : Dim(n->lhs);
    break;
  }
  case DimKind::Mod:
    if (b.isConstant(1) || a == b)
      return c.dim(0);
    break;
  case DimKind::Min:
    if (a == b || a.upper() <= b.lower())
      return a;
    if (b.upper() <= a.lower())
      return b;
    break;
  case DimKind::Max:
    if (a == b || a.lower() >= b.upper())
      return a;
    if (b.lower() >= a.upper())
      return b;
    break;
  case DimKind::Constant:
  case DimKind::Symbol: break;
  }
  return node(kind, a, b);
}

} // namespace

int64_t Dim::constant() const {
  assert(isConstant() && "extent is not a constant");
  return node_->value;
}

Dim operator+(Dim a, Dim b) { return binary(DimKind::Add, a, b); }
Dim operator*(Dim a, Dim b) { return binary(DimKind::Mul, a, b); }
Dim operator-(Dim a, Dim b) {
  if (a == b)
    return a.node()->context->dim(0);
  return a + b * b.node()->context->dim(-1);
}
Dim floorDiv(Dim a, Dim b) { return binary(DimKind::FloorDiv, a, b); }
Dim ceilDiv(Dim a, Dim b) { return binary(DimKind::CeilDiv, a, b); }
Dim mod(Dim a, Dim b) { return binary(DimKind::Mod, a, b); }
Dim min(Dim a, Dim b) { return binary(DimKind::Min, a, b); }
Dim max(Dim a, Dim b) { return binary(DimKind::Max, a, b); }
Dim operator+(Dim a, int64_t b) { return a + a.node()->context->dim(b); }
Dim operator-(Dim a, int64_t b) { return a + a.node()->context->dim(-b); }
Dim operator*(Dim a, int64_t b) { return a * a.node()->context->dim(b); }
Dim floorDiv(Dim a, int64_t b) { return floorDiv(a, a.node()->context->dim(b)); }
Dim ceilDiv(Dim a, int64_t b) { return ceilDiv(a, a.node()->context->dim(b)); }

llvm::Optional<int64_t> evaluate(Dim d, SymbolLookup lookup, void *user) {
  const DimNode *n = d.node();
  if (n->kind == DimKind::Constant)
    return n->value;
  if (n->kind == DimKind::Symbol)
    return lookup(n->symbol, user);
  auto a = evaluate(Dim(n->lhs), lookup, user), b = evaluate(Dim(n->rhs), lookup, user);
  if (!a || !b)
    return llvm::None;
  return apply(n->kind, *a, *b);
}

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Dim d) {
  const DimNode *n = d.node();
  const char *call = nullptr;
  switch (n->kind) {
  case DimKind::Constant: return os << n->value;
  case DimKind::Symbol: return os << n->symbol;
  case DimKind::Add: return os << '(' << Dim(n->lhs) << " + " << Dim(n->rhs) << ')';
  case DimKind::Mul: return os << '(' << Dim(n->lhs) << " * " << Dim(n->rhs) << ')';
  case DimKind::FloorDiv: call = "floordiv"; break;
  case DimKind::CeilDiv: call = "ceildiv"; break;
  case DimKind::Mod: call = "mod"; break;
  case DimKind::Min: call = "min"; break;
  case DimKind::Max: call = "max"; break;
  }
  return os << call << '(' << Dim(n->lhs) << ", " << Dim(n->rhs) << ')';
}

} // namespace tenon
