// Declares what the attention operators share: heads split from and joined to the last dimension,
// products of heads that share keys.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

/// [batch, length, heads · size] as [batch, heads, length, size]; `attribute` names where the
/// number of heads comes from. Null after an error.
Value *splitHeads(Node &n, Value *v, int64_t heads, const char *attribute);
/// [batch, heads, length, size] as [batch, length, heads · size].
Value *joinHeads(Builder &b, Value *v);
/// How many heads of queries share one of keys; None after an error.
llvm::Optional<Dim> sharing(Node &n, Dim heads, Dim groups);
/// [batch, heads, length, size] as [batch, heads / shared, shared, length, size].
Value *groupHeads(Builder &b, Value *v, Dim shared);
/// The reverse; 4 dimensions stay as they are.
Value *ungroupHeads(Builder &b, Value *v);
/// A mask over heads as one over groups of `shared` heads; where it has one head, or none, it goes
/// on being the same for all.
Value *groupMask(Builder &b, Value *mask, Dim shared);
/// a · b for [batch, heads, …] operands where b may have fewer heads, each shared by consecutive
/// heads of a.
Value *matmulShared(Node &n, Value *a, Value *b, bool transposed);
/// x [batch, heads, length, size] turned by the angles of its positions, whose cosines and sines
/// are [batch, length, half of what is turned]; what lies behind stays. Null after an error.
Value *rotated(Node &n, Value *x, Value *cos, Value *sin, bool interleaved);
/// com.microsoft: attention of the node over queries, keys and values that stand side by side in
/// `projected` [batch, length, width], and what else it takes. Null: an error was reported.
struct AttentionOperands {
  unsigned mask, added, past; // kNone: the operator has none
  Value *lengths = nullptr;   // keys of each sequence, [batch]; null: all
};
constexpr unsigned kNone = ~0u;
void attendProjected(Node &n, Value *projected, AttentionOperands at);
Value *scaledBy(Builder &b, Value *v, double factor);

} // namespace tenon::frontend
