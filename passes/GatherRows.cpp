// gather-rows: rows that concats and other movement rearrange are gathered by a table.
//
//   %a = slice %x {starts = [0, 3, 0]}           %t = constant {3, 4, …, 0, 1, 2}
//   %b = slice %x {starts = [0, 0, 0]}      →    %r = reshape %x
//   %y = concat %a, %b {axis = 1}                %y = gather %r, %t {axis = 0}
//
// A roll is a concat of two slices of one tensor, a roll of an image two of them; windows that are
// cut of it, or put together before it, are transposes. Each piece of a concat is a copy of its
// own. Where all of them move rows of one tensor as a whole, one kernel picks each row by its
// number, and maps behind it join that kernel. Other movement is a map of strides, or a view, and
// stays, unless a map behind it reads another tensor: windows that are put together are added to
// what they were cut of.
#include "passes/GatherRows.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tenon {
namespace {

/// Rows are worth a table of numbers of 4 bytes from so many bytes on, and while it has no more
/// entries than this.
constexpr int64_t kShortestRow = 32, kMostRows = 1 << 20;

bool isDense(Type t) {
  return t.isTensor() && t.rank() >= 2 && t.layout().isRowMajor() && t.hasStaticShape();
}

/// The product of the extents but the last.
int64_t rowsOf(Type t) {
  return t.upperElements() / std::max<int64_t>(1, t.dim(t.rank() - 1).upper());
}

/// Whether `op` moves rows along the last dimension as a whole.
bool movesRows(const Operation &op) {
  if (op.numResults() != 1 || !isDense(op.result()->type()))
    return false;
  const Type y = op.result()->type();
  const int64_t last = int64_t(y.rank()) - 1;
  for (const Value *v : op.operands())
    if (!isDense(v->type()) || v->type().shape().back() != y.shape().back())
      return false;
  switch (op.kind()) {
  case Op::Transpose: return op.intsAttr("perm").back() == last;
  case Op::Reshape: return true;
  case Op::Concat: return op.intAttr("axis") != last;
  case Op::Slice:
    return llvm::all_of(op.dimsAttr("starts"), [](Dim d) { return d.isConstant(); }) &&
           op.intsAttr("steps").back() == 1;
  default: return false;
  }
}

/// Movement of rows of one tensor.
class Rearrangement {
public:
  /// That which ends with `end`. False where there are several tensors, or no slices that a concat
  /// puts together anew. What something else reads, too, is where it begins.
  bool read(Operation &end) {
    while (true) {
      moves_.clear();
      source_ = nullptr;
      concats_ = slices_ = 0;
      if (!take(*end.result()) || !((concats_ > 0 && slices_ > 0) || meets(end)))
        return false;
      const auto shared = llvm::find_if(moves_, [&](const Operation *op) {
        return op != &end && llvm::any_of(op->result()->uses(),
                                          [&](const Use *u) { return !moves_.count(u->owner()); });
      });
      if (shared == moves_.end())
        return true;
      shared_.insert((*shared)->result());
    }
  }
  Value *source() const { return source_; }
  const llvm::SetVector<Operation *> &moves() const { return moves_; }

  /// The row of the source that is row i of what `v` is.
  const std::vector<int32_t> &rows(Value *v) {
    std::vector<int32_t> &table = tables_[v];
    if (!table.empty())
      return table;
    if (v == source_) {
      table.resize(size_t(rowsOf(v->type())));
      for (size_t i = 0; i < table.size(); ++i)
        table[i] = int32_t(i);
      return table;
    }
    return table = made(*v->def());
  }

private:
  /// Whether a map alone joins the result with another tensor, and strides do not say where its
  /// elements come from: transposed dimensions are merged.
  bool meets(Operation &end) const {
    if (!end.is(Op::Reshape) || !end.result()->hasOneUse() || !end.operand(0)->def() ||
        !end.operand(0)->def()->is(Op::Transpose) ||
        end.result()->type().rank() >= end.operand(0)->type().rank())
      return false;
    const Use &use = *end.result()->firstUse();
    const Operation &map = *use.owner();
    return map.is(Op::Map) && readsInPlace(map, use.index()) &&
           llvm::any_of(map.operands(), [&](Value *v) {
             return v != end.result() && !constantValue(v) &&
                    v->type().elements() == end.result()->type().elements();
           });
  }

  bool take(Value &v) {
    Operation *op = v.def();
    if (op && moves_.count(op))
      return true;
    if (!op || !movesRows(*op) || shared_.count(&v)) {
      if (source_ && source_ != &v)
        return false;
      source_ = &v;
      return true;
    }
    moves_.insert(op);
    concats_ += op->is(Op::Concat);
    slices_ += op->is(Op::Slice);
    return llvm::all_of(op->operands(), [&](Value *operand) { return take(*operand); });
  }

  std::vector<int32_t> made(const Operation &op) {
    const Type y = op.result()->type();
    if (op.is(Op::Reshape))
      return rows(op.operand(0));
    std::vector<int32_t> out;
    const unsigned rank = y.rank() - 1;
    llvm::SmallVector<int64_t, 6> at(rank, 0);
    for (int64_t i = 0, n = rowsOf(y); i < n; ++i) {
      out.push_back(element(op, at));
      for (unsigned d = rank; d-- > 0 && ++at[d] == y.dim(d).constant();)
        at[d] = 0;
    }
    return out;
  }
  /// The row of the source at `at` of the result of `op`.
  int32_t element(const Operation &op, llvm::SmallVector<int64_t, 6> at) {
    Value *x = op.operand(0);
    if (op.is(Op::Transpose)) {
      llvm::SmallVector<int64_t, 6> inner(at.size());
      for (size_t d = 0; d < at.size(); ++d)
        inner[size_t(op.intsAttr("perm")[d])] = at[d];
      at = inner;
    } else if (op.is(Op::Slice)) {
      for (size_t d = 0; d < at.size(); ++d)
        at[d] = op.dimsAttr("starts")[d].constant() + op.intsAttr("steps")[d] * at[d];
    } else { // concat
      const auto axis = size_t(op.intAttr("axis"));
      for (unsigned k = 0; at[axis] >= x->type().dim(unsigned(axis)).constant();) {
        at[axis] -= x->type().dim(unsigned(axis)).constant();
        x = op.operand(++k);
      }
    }
    int64_t row = 0;
    for (size_t d = 0; d < at.size(); ++d)
      row = row * x->type().dim(unsigned(d)).constant() + at[d];
    return rows(x)[size_t(row)];
  }

  llvm::SetVector<Operation *> moves_;
  llvm::SmallPtrSet<Value *, 4> shared_;
  Value *source_ = nullptr;
  unsigned concats_ = 0, slices_ = 0;
  std::map<Value *, std::vector<int32_t>> tables_; // looked up only
};

/// Whether images of a batch are rearranged alike, each from its own rows.
bool isAlike(llvm::ArrayRef<int32_t> table, int64_t batch, int64_t from) {
  const auto each = int64_t(table.size()) / batch;
  for (int64_t i = 0; i < int64_t(table.size()); ++i) {
    const int64_t own = i / each * from, first = table[size_t(i % each)];
    if (table[size_t(i)] != own + first || first >= from)
      return false;
  }
  return true;
}

// concat(slice(x), slice(x)), with what else moves rows before and behind it, is a gather; so are
// windows that become an image again
bool rowsPattern(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Concat, Op::Transpose, Op::Reshape, Op::Slice) || !movesRows(op) ||
      !rw.context().target.gatheredRows)
    return false;
  const Type y = op.result()->type();
  // The last of the movement, not its parts.
  if (llvm::any_of(op.result()->uses(), [](const Use *u) { return movesRows(*u->owner()); }))
    return false;
  Rearrangement move;
  if (!move.read(op))
    return false;
  Value *x = move.source();
  const Type from = x->type();
  const int64_t columns = y.shape().back().constant(), rows = rowsOf(from);
  if (columns * bitWidth(y.element()) < 8 * kShortestRow || rowsOf(y) > kMostRows ||
      rows > kMostRows || constantValue(x) || rowsOf(y) == 0 || !rw.fire(op))
    return false;
  const llvm::ArrayRef<int32_t> table = move.rows(op.result());
  // One table for all images of a batch, where these stay what they are.
  const int64_t images = from.dim(0).constant();
  const bool batched = y.rank() > 2 && from.rank() > 2 && y.dim(0) == from.dim(0) && images > 1 &&
                       isAlike(table, images, rows / images);
  llvm::SmallVector<int64_t, 6> shape;
  for (unsigned d = batched ? 1 : 0; d + 1 < y.rank(); ++d)
    shape.push_back(y.dim(d).constant());
  Tensor picked(Element::I32, shape);
  for (int64_t i = 0; i < picked.size(); ++i)
    picked.setInt(i, table[size_t(i)]);
  Builder b = rw.before(op);
  for (Operation *part : move.moves())
    mergeLocation(b.location, part->loc());
  Context &c = y.context();
  Dims flat{c.dim(batched ? rows / images : rows), c.dim(columns)};
  if (batched)
    flat.insert(flat.begin(), c.dim(images));
  Value *lines = b.reshape(x, flat), *where = b.constant(picked);
  Value *z = lines ? b.value(Op::Gather, {lines, where}, {{"axis", int64_t(batched)}}) : nullptr;
  return z && rw.replace(op, z);
}

const Pattern kPatterns[] = {{"gather-rows.move", rowsPattern}};

} // namespace

bool runGatherRows(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
