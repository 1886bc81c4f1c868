// patches: the first windows of a network are computed strip by strip, so that the large tensors
// between them are never whole in memory.
//
//   %a = conv %x              %x0 = slice %x, rows that strip 0 needs
//   %b = map %a          →    %b0 = map (conv %x0)
//                             %x1 = slice %x, rows that strip 1 needs …
//                             %b = concat %b0, %b1, … along the height
//
// Neighbours both compute the rows of the halo between them. A strip is padded where it is the
// image's border, so that every element is computed from the same numbers. Runs where --ram-limit
// asks for it. Options: `windows` of the chain that are computed so, `count` of strips.
#include "passes/Patches.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include <algorithm>

namespace tenon {
namespace {

constexpr unsigned kHeight = 2;

/// Rows of a tensor: [begin, end).
struct Rows {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

/// One operation of the chain; rows of its operand follow from rows of its result.
struct Link {
  Operation *op;
  bool isWindow;
};

int64_t rowsOf(const Value *v) { return v->type().dim(kHeight).constant(); }

int64_t intOr(const Operation &op, llvm::StringRef name, size_t i, int64_t otherwise) {
  const Attribute *a = op.find(name);
  const Ints *all = a ? a->get<Ints>() : nullptr;
  return all && i < all->size() ? (*all)[i] : otherwise;
}

size_t spatialRank(const Operation &op) { return op.result()->type().rank() - 2; }

/// Taps along the height, dilation included.
int64_t span(const Operation &op) {
  const int64_t taps =
      op.is(Op::Conv) ? op.operand(1)->type().dim(kHeight).constant() : op.intsAttr("kernel")[0];
  return (taps - 1) * intOr(op, "dilations", 0, 1) + 1;
}

/// The rows that a window needs for rows of its result, those in the padding included.
Rows needed(const Operation &op, Rows y) {
  const int64_t stride = intOr(op, "strides", 0, 1), first = -intOr(op, "pads", 0, 0);
  return {y.begin * stride + first, (y.end - 1) * stride + first + span(op)};
}
Rows inside(Rows r, int64_t rows) { return {std::max<int64_t>(r.begin, 0), std::min(r.end, rows)}; }

bool readsOnlyConstantsBeside(const Operation &op) {
  for (unsigned i = 1; i < op.numOperands(); ++i)
    if (!constantValue(op.operand(i)))
      return false;
  return true;
}

bool isWindow(const Operation &op, const Value *x) {
  if (op.operand(0) != x || op.numResults() != 1 || !op.result()->type().hasStaticShape())
    return false;
  if (op.is(Op::Conv))
    return readsOnlyConstantsBeside(op);
  return op.is(Op::Pool) && !op.boolAttr("ceil") && op.numOperands() == 1;
}

/// A map that is pointwise along the height, and reads nothing else that varies there.
bool isRowwise(Operation &op, const Value *x) {
  if (!op.is(Op::Map) || op.numResults() != 1 || op.result()->type().shape() != x->type().shape() ||
      llvm::any_of(op.region(), [](Operation &s) { return s.is(Op::Index); }))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    const IndexMap &m = indexMap(op, i);
    if (op.operand(i) == x
            ? !isIdentityMap(m, x->type().rank())
            : !constantValue(op.operand(i)) || llvm::is_contained(m, int64_t(kHeight)))
      return false;
  }
  return true;
}

/// The chain that begins at an input.
std::vector<Link> chainFrom(Value *x) {
  std::vector<Link> links;
  if (!x->type().isTensor() || x->type().rank() < 3 || !x->type().hasStaticShape())
    return links;
  while (x->hasOneUse()) {
    Operation &op = *x->firstUse()->owner();
    const bool window = isWindow(op, x);
    if (!window && !isRowwise(op, x))
      break;
    links.push_back({&op, window});
    x = op.result();
  }
  return links;
}

/// Of the input whose chain has most windows, up to what follows window number `windows`.
std::vector<Link> findChain(Graph &graph, int64_t windows) {
  std::vector<Link> best;
  int64_t most = 0;
  for (Value *x : graph.body().arguments()) {
    std::vector<Link> links = chainFrom(x);
    const int64_t n = llvm::count_if(links, [](const Link &l) { return l.isWindow; });
    if (n > most) {
      most = n;
      best = std::move(links);
    }
  }
  int64_t seen = 0;
  for (size_t i = 0; i < best.size(); ++i)
    if (best[i].isWindow && seen++ == windows) {
      best.resize(i);
      break;
    }
  return best;
}

Rows strip(int64_t rows, int64_t index, int64_t count) {
  return {rows * index / count, rows * (index + 1) / count};
}

/// Rows of each link's result, and last those of the input; false when a window lies in the
/// padding altogether.
bool rowsOfStrip(llvm::ArrayRef<Link> chain, Rows last, std::vector<Rows> &rows) {
  rows.assign(chain.size() + 1, last);
  for (size_t i = chain.size(); i-- > 0;) {
    rows[i + 1] = last;
    if (chain[i].isWindow)
      last = inside(needed(*chain[i].op, last), rowsOf(chain[i].op->operand(0)));
    if (last.count() <= 0)
      return false;
  }
  rows[0] = last;
  return true;
}

Value *sliceRows(Builder &b, Value *x, Rows rows) {
  const Type t = x->type();
  Dims starts(t.rank(), b.context().dim(0)), sizes(t.shape().begin(), t.shape().end());
  starts[kHeight] = b.context().dim(rows.begin);
  sizes[kHeight] = b.context().dim(rows.count());
  return b.value(Op::Slice, {x},
                 {{"starts", starts}, {"sizes", sizes}, {"steps", Ints(t.rank(), 1)}});
}

/// The window on a strip `x`, for rows `y` of the whole result.
Value *windowOn(Builder &b, const Operation &op, Value *x, Rows y) {
  const Rows all = needed(op, y);
  const size_t rank = spatialRank(op);
  Ints pads(2 * rank, 0);
  for (size_t i = 0; i < pads.size(); ++i)
    pads[i] = intOr(op, "pads", i, 0);
  pads[0] = std::max<int64_t>(0, -all.begin);
  pads[rank] = std::max<int64_t>(0, all.end - rowsOf(op.operand(0)));
  llvm::SmallVector<Value *, 4> operands = op.operands();
  operands[0] = x;
  NamedAttributes attributes = op.attributes();
  attributes.insert_or_assign("pads", Attribute(pads));
  return b.value(op.kind(), operands, attributes);
}

Value *mapOn(Builder &b, Operation &map, Value *whole, Value *x) {
  llvm::SmallVector<Value *, 4> operands = map.operands();
  std::replace(operands.begin(), operands.end(), whole, x);
  return mapOver(b, map, operands, x->type().shape())->result();
}

/// Multiply-adds of one row of a window's result.
int64_t macsOfRow(const Operation &op) {
  const Type y = op.result()->type();
  int64_t n = 1;
  for (unsigned d = 0; d < y.rank(); ++d)
    n *= d == kHeight ? 1 : y.dim(d).constant();
  if (!op.is(Op::Conv))
    return 0;
  const Type w = op.operand(1)->type();
  for (unsigned d = 1; d < w.rank(); ++d)
    n *= w.dim(d).constant();
  return n;
}

int64_t bytesOfRows(const Value *v, int64_t rows) {
  const Type t = v->type();
  return byteSize(t.element(), t.elements().constant() / rowsOf(v) * rows);
}

} // namespace

int64_t patchableWindows(Graph &graph) {
  return llvm::count_if(findChain(graph, INT64_MAX), [](const Link &l) { return l.isWindow; });
}

llvm::Optional<PatchEstimate> estimatePatches(Graph &graph, int64_t windows, int64_t count) {
  const std::vector<Link> chain = findChain(graph, windows);
  if (chain.empty() || count < 2 || count > rowsOf(chain.back().op->result()))
    return llvm::None;
  PatchEstimate e;
  const Value *result = chain.back().op->result();
  const int64_t whole = bytesOfRows(result, rowsOf(result));
  for (const Link &l : chain)
    e.wholeMacs += l.isWindow ? macsOfRow(*l.op) * rowsOf(l.op->result()) : 0;
  std::vector<Rows> rows;
  for (int64_t k = 0; k < count; ++k) {
    if (!rowsOfStrip(chain, strip(rowsOf(result), k, count), rows))
      return llvm::None;
    int64_t before = 0; // bytes of what the window reads; the input is the caller's
    for (size_t i = 0; i < chain.size(); ++i) {
      if (chain[i].isWindow)
        e.macs += macsOfRow(*chain[i].op) * rows[i + 1].count();
      // Only what is stored counts: the last operation before the next window.
      if (i + 1 < chain.size() && !chain[i + 1].isWindow)
        continue;
      const bool last = i + 1 == chain.size();
      const int64_t after = last ? 0 : bytesOfRows(chain[i].op->result(), rows[i + 1].count());
      e.bytes = std::max(e.bytes, before + after + whole);
      before = after;
    }
  }
  return e;
}

bool runPatches(Graph &graph, PassContext &context) {
  const int64_t count = context.option("count");
  const std::vector<Link> chain = findChain(graph, context.option("windows"));
  std::vector<Rows> rows;
  if (chain.empty() || count < 2 || count > rowsOf(chain.back().op->result()))
    return false;
  Value *result = chain.back().op->result();
  for (int64_t k = 0; k < count; ++k)
    if (!rowsOfStrip(chain, strip(rowsOf(result), k, count), rows))
      return false;
  if (!context.fire("patches.strips", *chain.front().op))
    return false;
  Value *input = nullptr;
  for (Value *v : chain.front().op->operands())
    if (!constantValue(v))
      input = v;
  Builder b(chain.back().op, context.diagnostics);
  llvm::SmallVector<Value *, 8> strips;
  for (int64_t k = 0; k < count; ++k) {
    rowsOfStrip(chain, strip(rowsOf(result), k, count), rows);
    Value *whole = input;
    b.location = chain.front().op->loc();
    Value *x = sliceRows(b, input, rows[0]);
    for (size_t i = 0; i < chain.size(); ++i) {
      Operation &op = *chain[i].op;
      b.location = op.loc();
      x = chain[i].isWindow ? windowOn(b, op, x, rows[i + 1]) : mapOn(b, op, whole, x);
      whole = op.result();
    }
    strips.push_back(x);
  }
  Value *y = b.value(Op::Concat, strips, {{"axis", int64_t(kHeight)}});
  y->setHint(result->hint());
  result->replaceAllUsesWith(y);
  eraseDeadOps(graph.body());
  return true;
}

} // namespace tenon
