// Implements sums of products: their algebra, their bounds, and the one node of equal sums.
#include "ir/DimSum.h"

#include "ir/Context.h"
#include "ir/SumBounds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdlib>

namespace tenon {

int64_t floorDivide(int64_t a, int64_t b) {
  if (b == -1) // INT64_MIN has no negative
    return a == INT64_MIN ? INT64_MAX : -a;
  const int64_t q = a / b;
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

namespace {

constexpr size_t kMostExpanded = 64; // terms of a product of sums; larger ones stay products
constexpr size_t kMostBounded = 8;   // terms whose dependence on each other is looked at
constexpr unsigned kMostCorners = 6; // factors

/// What an extent's text begins with: an order by it, then by operands, is that of the texts, but
/// costs no text.
llvm::StringRef head(const DimNode &n) {
  switch (n.kind) {
  case DimKind::Add:
  case DimKind::Mul: return "(";
  case DimKind::FloorDiv: return "floordiv(";
  case DimKind::Min: return "min(";
  case DimKind::Max: return "max(";
  case DimKind::Symbol: return n.symbol;
  case DimKind::Constant: break;
  }
  return "";
}

bool before(const DimNode *a, const DimNode *b) { return order(a, b) < 0; }

DimBounds quotientBounds(DimBounds a, DimBounds b) {
  auto divide = [](int64_t x, int64_t y) { return y == 0 ? 0 : floorDivide(x, y); };
  DimBounds r{INT64_MAX, INT64_MIN};
  llvm::SmallVector<int64_t, 4> divisors{b.lower, b.upper};
  for (int64_t nearZero : {-1, 0, 1}) // where a divisor changes its sign
    if (nearZero > b.lower && nearZero < b.upper)
      divisors.push_back(nearZero);
  for (int64_t y : divisors)
    for (int64_t x : {a.lower, a.upper})
      r = r.join({divide(x, y), divide(x, y)});
  return r;
}

/// Whether a sum has at most so many addends; looks at no more of it than says so.
bool hasAtMost(const DimNode &n, size_t &left) {
  if (n.kind == DimKind::Add)
    return hasAtMost(*n.rhs, left) && hasAtMost(*n.lhs, left);
  return left-- > 0;
}

size_t addends(const DimNode &n) {
  return n.kind == DimKind::Add ? addends(*n.lhs) + addends(*n.rhs) : 1;
}
/// Of both sides of a minimum or a maximum; 0 for all else.
size_t addendsWithin(const DimNode &n) {
  return n.kind == DimKind::Min || n.kind == DimKind::Max ? addends(*n.lhs) + addends(*n.rhs) : 0;
}

DimBounds productBounds(DimBounds a, DimBounds b) {
  const DimBounds low = b * a.lower, high = b * a.upper;
  return low.join(high);
}

} // namespace

DimBounds DimBounds::operator*(int64_t k) const {
  const int64_t a = saturatingMul(lower, k), b = saturatingMul(upper, k);
  return {std::min(a, b), std::max(a, b)};
}

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

Dim dimNode(DimKind kind, Dim a, Dim b) {
  const DimBounds x{a.lower(), a.upper()}, y{b.lower(), b.upper()};
  DimBounds r{};
  switch (kind) {
  case DimKind::Mul: r = productBounds(x, y); break;
  case DimKind::FloorDiv: r = quotientBounds(x, y); break;
  case DimKind::Min: r = {std::min(x.lower, y.lower), std::min(x.upper, y.upper)}; break;
  case DimKind::Max: r = {std::max(x.lower, y.lower), std::max(x.upper, y.upper)}; break;
  case DimKind::Add: {
    r = x + y;
    // Each prefix of a long sum is a node of its own, so most of them must cost little.
    size_t left = kMostBounded + 1; // one of them may be a constant
    if (hasAtMost(*b.node(), left) && hasAtMost(*a.node(), left)) {
      DimSum sum(a);
      sum.add(b, 1);
      if (sum.size() <= kMostBounded)
        r = r.meet(sum.bounds());
    }
    break;
  }
  case DimKind::Constant:
  case DimKind::Symbol: break;
  }
  return a.node()->context->dimExpression(kind, a, b, r.lower, r.upper);
}

DimSum::Factors factorsOf(const DimNode *product) {
  DimSum::Factors factors;
  for (; product->kind == DimKind::Mul; product = product->lhs)
    factors.push_back(product->rhs);
  factors.push_back(product);
  std::reverse(factors.begin(), factors.end());
  return factors;
}

const DimNode *productOf(DimSum::Factors factors) {
  llvm::stable_sort(factors, before);
  const DimNode *product = factors.front();
  for (const DimNode *f : llvm::drop_begin(factors))
    product = dimNode(DimKind::Mul, Dim(product), Dim(f)).node();
  return product;
}

void DimSum::add(const DimNode *product, int64_t coefficient) {
  auto at = terms_.find(product);
  if (at == terms_.end()) {
    if (coefficient != 0)
      terms_.insert({product, coefficient});
    return;
  }
  at->second = saturatingAdd(at->second, coefficient);
  if (at->second == 0)
    terms_.erase(at);
}

void DimSum::add(Dim d, int64_t factor) {
  const DimNode *n = d.node();
  if (n->kind == DimKind::Add) {
    add(Dim(n->lhs), factor);
    add(Dim(n->rhs), factor);
  } else if (n->kind == DimKind::Constant) {
    constant = saturatingAdd(constant, saturatingMul(n->value, factor));
  } else if (n->kind == DimKind::Mul && n->rhs->kind == DimKind::Constant) {
    add(n->lhs, saturatingMul(factor, n->rhs->value));
  } else {
    add(n, factor);
  }
}

void DimSum::add(const DimSum &s, int64_t factor) {
  for (auto &[product, coefficient] : s.terms_)
    add(product, saturatingMul(coefficient, factor));
  constant = saturatingAdd(constant, saturatingMul(s.constant, factor));
}

DimSum DimSum::operator*(const DimSum &b) const {
  DimSum r;
  if (isConstant() || b.isConstant()) {
    r.add(isConstant() ? b : *this, isConstant() ? constant : b.constant);
    return r;
  }
  if ((size() + 1) * (b.size() + 1) > kMostExpanded) {
    Context &c = *terms_.front().first->context;
    r.add(productOf({dim(c).node(), b.dim(c).node()}), 1);
    return r;
  }
  for (auto &[x, k] : terms_)
    for (auto &[y, l] : b.terms_) {
      Factors factors = factorsOf(x);
      factors.append(factorsOf(y));
      r.add(productOf(std::move(factors)), saturatingMul(k, l));
    }
  for (auto &[x, k] : terms_)
    r.add(x, saturatingMul(k, b.constant));
  for (auto &[y, l] : b.terms_)
    r.add(y, saturatingMul(l, constant));
  r.constant = saturatingMul(constant, b.constant);
  return r;
}

bool DimSum::operator==(const DimSum &b) const {
  return constant == b.constant && size() == b.size() &&
         llvm::all_of(terms_, [&](auto &t) { return b.terms_.lookup(t.first) == t.second; });
}

llvm::SmallVector<DimSum::Term, 8> DimSum::terms() const {
  llvm::SmallVector<Term, 8> list(terms_.begin(), terms_.end());
  llvm::sort(list, [](const Term &a, const Term &b) { return before(a.first, b.first); });
  return list;
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// From the bounds of each term: those that two symbols together have (ir/SumBounds.h). Of
/// k · a + l · b with signs that are alike, m · (a + b) with m = min(|k|, |l|) is in both.
DimBounds DimSum::boundsTogether(DimBounds apart) const {
  DimBounds r = apart;
  for (auto a = terms_.begin(); a != terms_.end(); ++a) {
    if (a->first->kind != DimKind::Symbol || !isSafe(a->second))
      continue;
    for (auto b = std::next(a); b != terms_.end(); ++b) {
      if (b->first->kind != DimKind::Symbol || !isSafe(b->second) ||
          (a->second > 0) != (b->second > 0))
        continue;
      const int64_t less = saturatingAdd(a->first->upper, b->first->upper) -
                           upperOfSum(Dim(a->first), Dim(b->first));
      const int64_t m = saturatingMul(std::min(std::abs(a->second), std::abs(b->second)), less);
      if (a->second > 0 && isSafe(apart.upper) && isSafe(m))
        r.upper = std::min(r.upper, apart.upper - m);
      else if (a->second < 0 && isSafe(apart.lower) && isSafe(m))
        r.lower = std::max(r.lower, apart.lower + m);
    }
  }
  return r;
}

DimBounds DimSum::boundsWithin(unsigned depth, unsigned extremes) const {
  DimBounds r{constant, constant};
  for (auto &[product, coefficient] : terms_)
    r = r + DimBounds{product->lower, product->upper} * coefficient;
  if (size() >= 2 && size() <= kMostBounded)
    r = r.meet(boundsTogether(r));
  if (size() < 2 || size() > kMostBounded || r.isExact())
    return r;
  if (DimBounds corners{}; boundsAtCorners(corners))
    r = r.meet(corners);
  // Taking extremes apart loses nothing: one after the other. Quotients do, and each is tried. The
  // largest extreme comes first: what is inside it cancels other terms, which are extremes, too.
  const Term *largest = nullptr;
  size_t most = 0;
  const llvm::SmallVector<Term, 8> ordered = terms();
  for (const Term &term : ordered)
    if (const size_t n = addendsWithin(*term.first); n > most) {
      largest = &term;
      most = n;
    }
  if (largest)
    return extremes > 0
               ? r.meet(boundsWithout(largest->first, largest->second, depth, extremes - 1))
               : r;
  if (depth > 0)
    for (auto &[product, coefficient] : terms_)
      r = r.meet(boundsWithout(product, coefficient, depth - 1, extremes));
  return r;
}

/// With the term coefficient · atom expressed by what is inside of the atom.
DimBounds DimSum::boundsWithout(const DimNode *atom, int64_t coefficient, unsigned depth,
                                unsigned extremes) const {
  const DimBounds all{INT64_MIN, INT64_MAX};
  const bool isExtreme = atom->kind == DimKind::Min || atom->kind == DimKind::Max;
  const bool isQuotient = atom->kind == DimKind::FloorDiv && atom->rhs->kind == DimKind::Constant &&
                          atom->rhs->value > 0 && isSafe(atom->rhs->value);
  if (!isExtreme && !isQuotient)
    return all;
  DimSum rest = *this;
  rest.remove(atom);
  if (isExtreme) {
    // k · max(a, b) + r = max(k · a + r, k · b + r), for k < 0 min
    DimSum left = rest, right = rest;
    left.add(Dim(atom->lhs), coefficient);
    right.add(Dim(atom->rhs), coefficient);
    const DimBounds a = left.boundsWithin(depth, extremes), b = right.boundsWithin(depth, extremes);
    if ((atom->kind == DimKind::Max) == (coefficient > 0))
      return {std::max(a.lower, b.lower), std::max(a.upper, b.upper)};
    return {std::min(a.lower, b.lower), std::min(a.upper, b.upper)};
  }
  // c · (k · ⌊x / c⌋ + r) = k · (x − m) + c · r with m = 0 … c − 1
  const int64_t c = atom->rhs->value;
  DimSum scaled;
  scaled.add(rest, c);
  scaled.add(Dim(atom->lhs), coefficient);
  const DimBounds b =
      scaled.boundsWithin(depth, extremes) + DimBounds{0, c - 1} * saturatingNegate(coefficient);
  if (!isSafe(b.lower) || !isSafe(b.upper))
    return all;
  return {floorDivide(b.lower + c - 1, c), floorDivide(b.upper, c)};
}

/// Extremes of what is linear in each of a few factors lie where these are at their bounds.
bool DimSum::boundsAtCorners(DimBounds &b) const {
  Factors atoms;
  bool linear = true;
  for (auto &[product, coefficient] : terms_) {
    const Factors factors = factorsOf(product);
    linear &= factors.size() == 1;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (i > 0 && factors[i] == factors[i - 1])
        return false;
      if (!llvm::is_contained(atoms, factors[i]))
        atoms.push_back(factors[i]);
    }
  }
  if (linear || atoms.size() > kMostCorners)
    return false;
  b = {INT64_MAX, INT64_MIN};
  for (unsigned corner = 0; corner < 1U << atoms.size(); ++corner) {
    int64_t value = constant;
    for (auto &[product, coefficient] : terms_) {
      int64_t term = coefficient;
      for (const DimNode *f : factorsOf(product)) {
        const auto place = size_t(llvm::find(atoms, f) - atoms.begin());
        term = saturatingMul(term, corner >> place & 1 ? f->upper : f->lower);
      }
      value = saturatingAdd(value, term);
    }
    b = b.join({value, value});
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The node
//===----------------------------------------------------------------------===//

/// ⌊x/2m⌋ + ⌊(x+m)/2m⌋ = ⌊x/m⌋: no sum keeps both halves, or one that is subtracted from the whole.
bool DimSum::mendHalves(Context &c) {
  llvm::SmallVector<const DimNode *, 2> halves;
  for (auto &[product, coefficient] : terms())
    if (product->kind == DimKind::FloorDiv && product->rhs->kind == DimKind::Constant &&
        product->rhs->value % 2 == 0 && isSafe(product->rhs->value) && isSafe(coefficient))
      halves.push_back(product);
  bool changed = false;
  for (const DimNode *half : halves) {
    const int64_t k = terms_.lookup(half), m = half->rhs->value / 2;
    const bool hasPeer =
        llvm::any_of(halves, [&](const DimNode *h) { return h != half && h->rhs == half->rhs; });
    if (k == 0 || (k > 0 && !hasPeer))
      continue;
    DimSum x{Dim(half->lhs)};
    const Dim whole = floorQuotient(c, x, DimSum(m));
    x.constant = saturatingAdd(x.constant, m);
    int64_t moved = k;
    if (k < 0 && m > 1) {
      int64_t room = 0;
      for (auto &[product, coefficient] : DimSum(whole).terms_)
        if (product->kind == DimKind::FloorDiv)
          room = std::max(room, terms_.lookup(product));
      moved = std::max(k, -room);
    }
    if (moved == 0)
      continue;
    const Dim other = floorQuotient(c, x, DimSum(2 * m));
    if (k > 0)
      moved = std::min(k, std::max<int64_t>(0, terms_.lookup(other.node())));
    add(half, -moved);
    add(other, -moved);
    add(whole, moved);
    changed |= moved != 0;
  }
  return changed;
}

Dim DimSum::dim(Context &c) const {
  DimSum mended = *this;
  for (unsigned round = 0; round < 8 && mended.mendHalves(c); ++round) {
  }
  // Terms in canonical order and the constant last, so that equal sums are one node.
  llvm::SmallVector<const DimNode *, 8> ordered;
  for (auto &[product, coefficient] : mended.terms_) {
    const DimNode *d =
        coefficient == 1 ? product : dimNode(DimKind::Mul, Dim(product), c.dim(coefficient)).node();
    // Almost in order: what is added to sums is little.
    const bool last = ordered.empty() || before(ordered.back(), d);
    ordered.insert(last ? ordered.end() : llvm::upper_bound(ordered, d, before), d);
  }
  Dim sum;
  for (const DimNode *term : ordered)
    sum = sum ? dimNode(DimKind::Add, sum, Dim(term)) : Dim(term);
  if (!sum)
    return c.dim(mended.constant);
  return mended.constant == 0 ? sum : dimNode(DimKind::Add, sum, c.dim(mended.constant));
}

} // namespace tenon
