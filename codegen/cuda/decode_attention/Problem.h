// Defines what the tactics of `decode_attention` read of a group: attention of few queries, whose
// heads that share keys are told apart from the others.
#pragma once

#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Contraction.h"
#include "codegen/forms/AttentionForm.h"
#include "runtime/cuda/decode_attention/geometry.h"

namespace tenon::cuda {

struct DecodeAttentionProblem {
  GroupQuery in;
  AttentionForm f;
  int64_t group = 1; // neighbouring heads that share keys and values

  /// The leading dimensions without the heads of a group.
  llvm::ArrayRef<Dim> batch() const { return f.leading().drop_back(group > 1 ? 1 : 0); }
  /// Of rows of one block, at upper bounds.
  double tiles() const;
  /// Declares the views q, k, v and y, the pack `bias` and, where there is one, `order`, over
  /// (batch…, group, row, column).
  void writeViews(StepWriter &out) const;
};

Result<DecodeAttentionProblem> readDecodeAttention(const GroupQuery &in);

} // namespace tenon::cuda
