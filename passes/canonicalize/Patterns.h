// The patterns of canonicalize, in the order in which they are tried; each file beside this one
// says above a pattern what it rewrites.
#pragma once

#include "passes/Rewrite.h"

namespace tenon::canonicalize {

inline bool rowMajor(const Value *v) { return v->type().layout().isRowMajor(); }

bool splatOperand(Operation &op, Rewriter &rw);
bool scalarBody(Operation &op, Rewriter &rw);
bool deadOperand(Operation &op, Rewriter &rw);
bool duplicateOperand(Operation &op, Rewriter &rw);
bool copyIntoMap(Operation &op, Rewriter &rw);
bool reshapeBelowMap(Operation &op, Rewriter &rw);
bool unitReshapeIntoMap(Operation &op, Rewriter &rw);
bool identityMapPattern(Operation &op, Rewriter &rw);
bool widenedBias(Operation &op, Rewriter &rw);
bool widenedNormalize(Operation &op, Rewriter &rw);
bool repeatedHeads(Operation &op, Rewriter &rw);
bool unitReduce(Operation &op, Rewriter &rw);
bool reshapeNoop(Operation &op, Rewriter &rw);
bool reshapeOfReshape(Operation &op, Rewriter &rw);
bool transposeNoop(Operation &op, Rewriter &rw);
bool transposeOfTranspose(Operation &op, Rewriter &rw);
bool unitTranspose(Operation &op, Rewriter &rw);
bool transposedReshape(Operation &op, Rewriter &rw);
bool reshapedSoftmax(Operation &op, Rewriter &rw);
bool normalizedPieces(Operation &op, Rewriter &rw);
bool sliceNoop(Operation &op, Rewriter &rw);
bool sliceOfSlice(Operation &op, Rewriter &rw);
bool sliceOfConcat(Operation &op, Rewriter &rw);
bool padNoop(Operation &op, Rewriter &rw);
bool padOfPad(Operation &op, Rewriter &rw);
bool concatNoop(Operation &op, Rewriter &rw);
bool concatOfConcat(Operation &op, Rewriter &rw);
bool concatRun(Operation &op, Rewriter &rw);
bool gatherConstant(Operation &op, Rewriter &rw);
bool gatherRamp(Operation &op, Rewriter &rw);
bool lastQuery(Operation &op, Rewriter &rw);
bool poolNoop(Operation &op, Rewriter &rw);
bool resizeNoop(Operation &op, Rewriter &rw);
bool ifConstant(Operation &op, Rewriter &rw);
bool capturedConstant(Operation &op, Rewriter &rw);

} // namespace tenon::canonicalize
