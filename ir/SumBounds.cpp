// Implements bounds of two symbols together: they stand in the node of the sum, whose `value`,
// which other sums do not use, says that they are its own.
#include "ir/SumBounds.h"

#include "ir/Context.h"
#include "ir/DimSum.h"

#include <algorithm>

namespace tenon {
namespace {

/// The node as DimSum makes it. Where it is new its bounds are those of both apart.
const DimNode *nodeOf(Dim a, Dim b) {
  if (order(b.node(), a.node()) < 0)
    std::swap(a, b);
  return a.node()
      ->context
      ->dimExpression(DimKind::Add, a, b, saturatingAdd(a.lower(), b.lower()),
                      saturatingAdd(a.upper(), b.upper()))
      .node();
}

} // namespace

void boundSum(Dim a, Dim b, int64_t upper) {
  assert(a.isSymbol() && b.isSymbol() && a != b);
  auto *n = const_cast<DimNode *>(nodeOf(a, b));
  n->lower = saturatingAdd(a.lower(), b.lower());
  n->upper = std::min(upper, saturatingAdd(a.upper(), b.upper()));
  n->value = 1;
}

int64_t upperOfSum(Dim a, Dim b) {
  const DimNode *n = nodeOf(a, b);
  return n->value ? n->upper : saturatingAdd(a.upper(), b.upper());
}

std::vector<SumBound> sumsOf(llvm::ArrayRef<Dim> symbols) {
  std::vector<SumBound> sums;
  for (size_t i = 0; i < symbols.size(); ++i)
    for (size_t k = i + 1; k < symbols.size(); ++k)
      if (const int64_t upper = upperOfSum(symbols[i], symbols[k]);
          upper < saturatingAdd(symbols[i].upper(), symbols[k].upper()))
        sums.push_back({symbols[i], symbols[k], upper});
  return sums;
}

} // namespace tenon
