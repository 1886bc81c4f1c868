// Implements extents: constructors that give equal extents one node, evaluation, printing.
#include "ir/Dim.h"

#include "ir/Context.h"
#include "ir/DimSum.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace tenon {
namespace {

int64_t apply(DimKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case DimKind::Add: return saturatingAdd(a, b);
  case DimKind::Mul: return saturatingMul(a, b);
  case DimKind::FloorDiv: return b == 0 ? 0 : floorDivide(a, b);
  case DimKind::Min: return std::min(a, b);
  case DimKind::Max: return std::max(a, b);
  case DimKind::Constant:
  case DimKind::Symbol: break;
  }
  return 0;
}

Context &contextOf(Dim d) { return *d.node()->context; }

} // namespace

int64_t Dim::constant() const {
  assert(isConstant() && "extent is not a constant");
  return node_->value;
}

Dim operator+(Dim a, Dim b) {
  DimSum sum(a);
  sum.add(b, 1);
  return sum.dim(contextOf(a));
}
Dim operator-(Dim a, Dim b) {
  DimSum sum(a);
  sum.add(b, -1);
  return sum.dim(contextOf(a));
}
Dim operator*(Dim a, Dim b) { return (DimSum(a) * DimSum(b)).dim(contextOf(a)); }
Dim floorDiv(Dim a, Dim b) { return floorQuotient(contextOf(a), DimSum(a), DimSum(b)); }
Dim ceilDiv(Dim a, Dim b) { return floorDiv(a * -1, b) * -1; }
Dim mod(Dim a, Dim b) { return a - b * floorDiv(a, b); }
Dim min(Dim a, Dim b) { return extremum(contextOf(a), DimKind::Min, DimSum(a), DimSum(b)); }
Dim max(Dim a, Dim b) { return extremum(contextOf(a), DimKind::Max, DimSum(a), DimSum(b)); }
Dim operator+(Dim a, int64_t b) { return a + a.node()->context->dim(b); }
Dim operator-(Dim a, int64_t b) { return a + a.node()->context->dim(saturatingNegate(b)); }
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
  case DimKind::Min: call = "min"; break;
  case DimKind::Max: call = "max"; break;
  }
  return os << call << '(' << Dim(n->lhs) << ", " << Dim(n->rhs) << ')';
}

} // namespace tenon
