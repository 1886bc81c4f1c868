// Implements what is known of extents that are born in a graph.
#include "ir/BornExtents.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace tenon {

llvm::SmallVector<BornExtent, 2> bornExtents(const Operation &op) {
  llvm::SmallVector<BornExtent, 2> born;
  if (!op.is(Op::If) || !op.has("extents"))
    return born;
  for (unsigned i = 0; i < op.numResults(); ++i)
    for (unsigned d = 0; d < op.result(i)->type().rank(); ++d) {
      const Dim symbol = op.result(i)->type().dim(d);
      const Dim yes = op.region(0).terminator()->operand(i)->type().dim(d);
      const Dim no = op.region(1).terminator()->operand(i)->type().dim(d);
      const bool known =
          llvm::any_of(born, [&](const BornExtent &b) { return b.symbol == symbol; });
      if ((yes != symbol || no != symbol) && !known)
        born.push_back({symbol, {yes, no}});
    }
  return born;
}

bool isBorn(Graph &graph, Dim symbol) {
  return llvm::none_of(graph.body().arguments(), [&](const Value *v) {
    return v->type().isTensor() &&
           llvm::any_of(v->type().shape(), [&](Dim d) { return mentions(d, symbol); });
  });
}

llvm::SmallVector<Dim, 2> bornSymbols(const Operation &op) {
  llvm::SmallVector<Dim, 2> all;
  if (op.isAny(Op::NonZero, Op::TextSplit))
    all.push_back(op.result()->type().context().symbol(op.stringAttr("symbol")));
  for (const BornExtent &b : bornExtents(op))
    all.push_back(b.symbol);
  if (op.is(Op::Loop) && op.intAttr("scans") > 0)
    if (const Dim count = op.dimsAttr("max_trip")[0];
        count.isSymbol() && op.parent() && isBorn(*op.parent()->graph(), count))
      all.push_back(count);
  if (op.isAny(Op::Group, Op::If, Op::Loop))
    for (unsigned r = 0; r < op.numRegions(); ++r)
      for (const Operation &inner : op.region(r))
        llvm::append_range(all, bornSymbols(inner));
  return all;
}

namespace {

/// Looks for symbols in extents; each expression is looked at once.
class Mentions {
public:
  explicit Mentions(llvm::ArrayRef<Dim> symbols) {
    for (Dim s : symbols)
      found_[s.node()] = true;
  }
  bool in(const DimNode *d) {
    auto known = found_.find(d);
    if (known != found_.end())
      return known->second;
    const bool found = d->lhs && (in(d->lhs) || in(d->rhs));
    return found_[d] = found;
  }
  bool in(llvm::ArrayRef<Dim> dims) {
    return llvm::any_of(dims, [&](Dim d) { return in(d.node()); });
  }
  bool in(const Value *v) { return v->type().isTensor() && in(v->type().shape()); }
  /// `but` is passed over.
  bool in(Region &region, const Operation &but) {
    if (llvm::any_of(region.arguments(), [&](const Value *v) { return in(v); }))
      return true;
    for (Operation &op : region) {
      if (&op == &but)
        continue;
      for (unsigned i = 0; i < op.numResults(); ++i)
        if (in(op.result(i)))
          return true;
      for (const auto &attribute : op.attributes())
        if (const Dims *dims = attribute.second.get<Dims>(); dims && in(*dims))
          return true;
      if (op.isAny(Op::Group, Op::If, Op::Loop))
        for (unsigned r = 0; r < op.numRegions(); ++r)
          if (in(op.region(r), but))
            return true;
    }
    return false;
  }

private:
  llvm::DenseMap<const DimNode *, bool> found_;
};

} // namespace

bool mentions(Dim d, llvm::ArrayRef<Dim> symbols) { return Mentions(symbols).in(d.node()); }

bool isMentioned(llvm::ArrayRef<Dim> symbols, const Operation &op) {
  Graph *graph = op.parent() ? op.parent()->graph() : nullptr;
  return !symbols.empty() && graph && Mentions(symbols).in(graph->body(), op);
}

void eraseIfResult(Operation &op, unsigned i) {
  if (op.has("extents")) {
    Dims extents = op.dimsAttr("extents");
    unsigned at = 0;
    for (unsigned r = 0; r < i; ++r)
      at += op.result(r)->type().rank();
    extents.erase(extents.begin() + at, extents.begin() + at + op.result(i)->type().rank());
    op.set("extents", std::move(extents));
  }
  for (unsigned r = 0; r < 2; ++r) {
    Operation *end = op.region(r).terminator();
    auto operands = end->operands();
    operands.erase(operands.begin() + i);
    end->setOperands(operands);
  }
  op.eraseResult(i);
}

} // namespace tenon
