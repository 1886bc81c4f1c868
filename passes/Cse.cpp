// cse: common subexpression elimination, regions included.
//
//   %a = conv %x, %w {…}              %a = conv %x, %w {…}
//   %b = conv %x, %w {…}         →    return %a, %a
//   return %a, %b
//
// Equality is that of ir/Equality.h, with operands that are the same value. Operations with
// effects, and those that bring forth symbols (whose types would not match), are left alone.
#include "passes/Cse.h"

#include "ir/Equality.h"
#include "passes/Rewrite.h"

#include "llvm/ADT/Hashing.h"

namespace tenon {
namespace {

/// Of weights the ends: what differs there only is told apart by comparing.
llvm::hash_code hashBytes(llvm::ArrayRef<uint8_t> bytes) {
  constexpr size_t kEnd = 4096;
  const auto hash = [](llvm::ArrayRef<uint8_t> part) {
    return llvm::hash_combine_range(part.begin(), part.end());
  };
  return bytes.size() <= 2 * kEnd ? hash(bytes)
                                  : llvm::hash_combine(bytes.size(), hash(bytes.take_front(kEnd)),
                                                       hash(bytes.take_back(kEnd)));
}

llvm::hash_code hashAttribute(const Attribute &a) {
  return std::visit(
      [](const auto &v) -> llvm::hash_code {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, int64_t>)
          return llvm::hash_value(v);
        else if constexpr (std::is_same_v<T, double>)
          return llvm::hash_value(std::hash<double>{}(v));
        else if constexpr (std::is_same_v<T, Ints>)
          return llvm::hash_combine_range(v.begin(), v.end());
        else if constexpr (std::is_same_v<T, Literal>)
          return v->element() == Element::String ? llvm::hash_value(v->size())
                                                 : hashBytes(v->bytes());
        else
          return llvm::hash_value(0); // rarely decides; equality looks closer
      },
      a.storage());
}

bool asksShape(const Operation &op) { return op.is(Op::ShapeOf); }

llvm::hash_code hashOp(const Operation &op) {
  llvm::hash_code h = llvm::hash_value(unsigned(op.kind()));
  for (auto &[name, value] : op.attributes())
    h = llvm::hash_combine(h, llvm::hash_value(name), hashAttribute(value));
  for (unsigned i = 0; i < op.numOperands() && !asksShape(op); ++i)
    h = llvm::hash_combine(h, op.operand(i));
  for (unsigned r = 0; r < op.numRegions(); ++r)
    for (Operation &inner : op.region(r))
      h = llvm::hash_combine(h, unsigned(inner.kind()));
  return h;
}

bool mayMerge(const Operation &op) {
  if (op.isTerminator() || (op.info().traits & OpTrait::Effect) ||
      op.isAny(Op::NonZero, Op::TextSplit, Op::User))
    return false;
  bool ok = true;
  for (unsigned r = 0; r < op.numRegions(); ++r)
    op.region(r).walk(
        [&](Operation *inner) { ok &= !inner->isAny(Op::NonZero, Op::TextSplit, Op::User); });
  return ok;
}

bool mergeRegion(Region &region, PassContext &context) {
  bool changed = false;
  std::multimap<size_t, Operation *> seen; // by hash; looked up only
  for (Operation &op : region.opsEarlyInc()) {
    for (unsigned r = 0; r < op.numRegions(); ++r)
      changed |= mergeRegion(op.region(r), context);
    if (!mayMerge(op))
      continue;
    const size_t h = hashOp(op);
    auto [begin, end] = seen.equal_range(h);
    Operation *twin = nullptr;
    for (auto it = begin; it != end && !twin; ++it) {
      if (computeSame(*it->second, op, std::equal_to<const Value *>()))
        twin = it->second;
    }
    if (!twin) {
      seen.insert({h, &op});
      continue;
    }
    // Scalars have no location of their own worth a selector; the operation around them does.
    const Operation &place = isStructured(op) ? op : *op.parentOp();
    if (!context.fire(isStructured(op) ? "cse.op" : "cse.scalar", place))
      continue;
    for (unsigned i = 0; i < op.numResults(); ++i)
      op.result(i)->replaceAllUsesWith(twin->result(i));
    mergeLocation(twin->loc(), op.loc());
    op.erase();
    changed = true;
  }
  return changed;
}

} // namespace

bool runCse(Graph &graph, PassContext &context) { return mergeRegion(graph.body(), context); }

} // namespace tenon
