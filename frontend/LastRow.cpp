// Implements the last row.
//
// clang-format off
//   %n = normalize %x {axes = [2]} : tensor<1x{S}x64xf32>
//   %y = matmul %n, %w : tensor<1x{S}x160xf32>
//   return %y
//
// becomes
//
//   %l = slice %x ... : tensor<1x1x64xf32>
//   %n = normalize %l {axes = [2]} : tensor<1x1x64xf32>
//   %y = matmul %n, %w : tensor<1x1x160xf32>
//   return %y
// clang-format on
//
// A walk from the end finds the operations all of whose uses want the last row; they keep their
// places and get shorter types, and what they take from others is sliced.
#include "frontend/LastRow.h"

#include "frontend/onnx/Operators.h"

#include "llvm/ADT/DenseMap.h"

namespace tenon::frontend {
namespace {

/// An operand and its axis that is a row of the result.
using Rows = llvm::SmallVector<std::pair<unsigned, unsigned>, 4>;

class LastRow {
public:
  LastRow(Graph &graph, Diagnostics &diagnostics) : graph_(graph), diagnostics_(diagnostics) {}

  bool run(unsigned output, unsigned axis) {
    Operation *end = graph_.returnOp();
    wanted_[&end->use(output)] = axis;
    std::vector<Operation *> narrowed; // last one first
    for (auto it = graph_.body().end(); it != graph_.body().begin();)
      if (Operation &op = *--it; !op.isTerminator() && wantLastRow(op))
        narrowed.push_back(&op);
    for (auto it = narrowed.rbegin(); it != narrowed.rend(); ++it)
      if (!narrow(**it))
        return false;
    return takeRows(*end);
  }

private:
  /// The axis of which every use wants the last element; None where some use wants more.
  llvm::Optional<unsigned> wantedOf(const Operation &op) const {
    llvm::Optional<unsigned> axis;
    for (Value *v : op.results())
      for (Use *u : v->uses()) {
        const auto it = wanted_.find(u);
        if (it == wanted_.end() || (axis && *axis != it->second))
          return llvm::None;
        axis = it->second;
      }
    return axis;
  }

  bool wantLastRow(Operation &op) {
    const auto axis = wantedOf(op);
    const auto rows = axis ? rowsOf(op, *axis) : llvm::None;
    if (!rows)
      return false;
    for (const auto &[operand, at] : *rows)
      wanted_[&op.use(operand)] = at;
    axes_[&op] = *axis;
    return true;
  }

  /// The dimension of the iteration space of a map or reduce that is dimension `axis` of its
  /// result.
  static unsigned spaceDim(const Operation &op, unsigned axis) {
    if (op.is(Op::Reduce))
      for (unsigned d = 0;; ++d) {
        if (llvm::is_contained(op.intsAttr("axes"), int64_t(d)))
          continue;
        if (axis-- == 0)
          return d;
      }
    return axis;
  }

  /// What a row of the result is computed of; None for operations that do not keep rows apart.
  static llvm::Optional<Rows> rowsOf(Operation &op, unsigned axis) {
    const Type t = op.result()->type();
    switch (op.kind()) {
    case Op::Map:
    case Op::Reduce: return rowsOfBody(op, spaceDim(op, axis));
    case Op::Normalize:
      if (llvm::is_contained(op.intsAttr("axes"), int64_t(axis)))
        return llvm::None;
      return Rows{{0, axis}};
    case Op::MatMul:
      if (axis + 2 != t.rank() || op.boolAttr("trans_a"))
        return llvm::None;
      return Rows{{0, op.operand(0)->type().rank() - 2}};
    case Op::Reshape: {
      const Type from = op.operand(0)->type();
      if (from.rank() <= axis ||
          from.shape().take_front(axis + 1) != t.shape().take_front(axis + 1))
        return llvm::None;
      return Rows{{0, axis}};
    }
    default: return llvm::None;
    }
  }

  static llvm::Optional<Rows> rowsOfBody(Operation &op, unsigned dim) {
    bool asks = false; // where it is
    op.walk([&](Operation *inner) {
      asks |= inner->is(Op::Index) && inner->intAttr("dim") == int64_t(dim);
    });
    if (asks)
      return llvm::None;
    Rows rows;
    const IntLists &maps = op.intListsAttr("maps");
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      if (llvm::count(maps[i], int64_t(dim)) > 1)
        return llvm::None;
      const auto at = llvm::find(maps[i], int64_t(dim));
      if (at != maps[i].end())
        rows.push_back({i, unsigned(at - maps[i].begin())});
    }
    return rows;
  }

  bool narrow(Operation &op) {
    if (!takeRows(op))
      return false;
    const bool hasBody = op.isAny(Op::Map, Op::Reduce);
    const char *attribute = hasBody ? "space" : "shape";
    if (op.has(attribute)) {
      Dims extents = op.dimsAttr(attribute);
      extents[hasBody ? spaceDim(op, axes_[&op]) : axes_[&op]] = one();
      op.set(attribute, extents);
    }
    llvm::SmallVector<Type, 2> types;
    std::string error;
    if (!inferTypes(op, types, error)) {
      diagnostics_.error(op, error);
      return false;
    }
    for (unsigned i = 0; i < op.numResults(); ++i)
      op.result(i)->setType(types[i]);
    return true;
  }

  /// Slices the operands of which the last row is wanted, unless that is all there is.
  bool takeRows(Operation &op) {
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      const auto it = wanted_.find(&op.use(i));
      if (it == wanted_.end() || op.operand(i)->type().dim(it->second).isConstant(1))
        continue;
      Value *row = sliced(op.operand(i), it->second, op);
      if (!row)
        return false;
      op.setOperand(i, row);
    }
    return true;
  }

  /// The last element of `v` along `axis`, once.
  Value *sliced(Value *v, unsigned axis, Operation &reader) {
    Value *&row = rows_[{v, axis}];
    if (!row) {
      Builder b(&reader, diagnostics_);
      b.location = v->def() ? v->def()->loc() : Location();
      row = sliceAlong(b, v, axis, v->type().dim(axis) - 1, one(), 1);
    }
    return row;
  }

  Dim one() const { return graph_.module().context().dim(1); }

  Graph &graph_;
  Diagnostics &diagnostics_;
  // Looked up only.
  llvm::DenseMap<const Use *, unsigned> wanted_;
  llvm::DenseMap<const Operation *, unsigned> axes_; // of what is computed for the last row
  llvm::DenseMap<std::pair<Value *, unsigned>, Value *> rows_;
};

} // namespace

bool takeLastRow(Graph &graph, unsigned output, unsigned axis, Diagnostics &diagnostics) {
  return LastRow(graph, diagnostics).run(output, axis);
}

} // namespace tenon::frontend
