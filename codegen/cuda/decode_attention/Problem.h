// Defines what the tactics of `decode_attention` read of a group: attention of few queries, whose
// heads that share keys are told apart from the others, and what a chain computes of its operands:
// columns of theirs, perhaps of rows that are normalised.
#pragma once

#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Contraction.h"
#include "codegen/forms/AttentionForm.h"
#include "runtime/cuda/decode_attention/geometry.h"

namespace tenon::cuda {

/// Columns of an operand.
struct ComputedColumns {
  /// Over the operand's dimensions; where the group reads elements that it has normalised, this
  /// reads those that it normalises.
  ScalarProgram program;
  llvm::SmallVector<unsigned, 2> normed; // these inputs
};
/// An operand whose columns are those of one program, or of several side by side.
struct JoinedColumns {
  std::vector<ComputedColumns> pieces;
  /// What normalises the rows that pieces are computed of; null: nothing does. `rows` reads such
  /// rows from their first column on, over the dimensions of the first piece that does.
  const GroupForm *norm = nullptr;
  ScalarProgram rows;
};
/// Keys or values: old rows, new rows behind them, and where both, or the new ones, are to be
/// written.
struct AppendedRows {
  const ScalarProgram *old = nullptr; // a plain read
  JoinedColumns added;
  unsigned result = 0; // of the group
  bool moves = false;  // that has the old rows, too
};

struct DecodeAttentionProblem {
  DecodeAttentionProblem(const GroupQuery &query, AttentionForm form)
      : in(query), f(std::move(form)) {}

  GroupQuery in;
  AttentionForm f;
  /// Of a chain.
  JoinedColumns queries;
  AppendedRows keys, values;

  /// Neighbouring heads that share keys and values, in the last of the leading dimensions; 1: each
  /// has its own.
  int64_t group = 1;

  /// The leading dimensions without the heads of a group.
  llvm::ArrayRef<Dim> batch() const { return f.leading().drop_back(group > 1 ? 1 : 0); }
  /// Rows of one block: of so many queries, or at upper bounds.
  double tiles(int64_t queries) const;
  double tiles() const { return tiles(f.queries().upper()); }
  /// Declares what the kernel takes over (batch…, group, row, column): q, k, v, y, `bias`, `rows`
  /// and, where there is one, `order`.
  void writeOperands(StepWriter &out) const;
};

/// A group of attention alone, or one that a chain has joined.
Result<DecodeAttentionProblem> readDecodeAttention(const GroupQuery &in);

/// Of the group `last` of attention alone the groups and views that make what a chain computes: the
/// columns of queries and new keys, and the cache with its copies, where it moves (Chain::find).
bool findCacheUpdate(Operation &last, llvm::SmallVectorImpl<Operation *> &pieces);
/// The same with the norms of their rows; false where there are none.
bool findNormedCacheUpdate(Operation &last, llvm::SmallVectorImpl<Operation *> &pieces);

} // namespace tenon::cuda
