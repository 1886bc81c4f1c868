// canonicalize: removes what does nothing and merges what one operation can say.
//
//   %a = transpose %x {perm = [1, 0]}          %c = map %x { relu }
//   %b = transpose %a {perm = [1, 0]}    →
//   %c = map %b, splat 0 { max }
//
// No pattern here trades one cost for another; those that need a cost stand in passes of their
// own. Types must agree including layouts, so that a layout conversion is never taken for a no-op.
#include "passes/Canonicalize.h"

#include "passes/canonicalize/Patterns.h"

namespace tenon {
namespace {

const Pattern kPatterns[] = {
    {"canonicalize.splat-operand", canonicalize::splatOperand},
    {"canonicalize.scalar-fold", canonicalize::scalarBody},
    {"canonicalize.dead-operand", canonicalize::deadOperand},
    {"canonicalize.duplicate-operand", canonicalize::duplicateOperand},
    {"canonicalize.copy-into-map", canonicalize::copyIntoMap},
    {"canonicalize.reshape-below-map", canonicalize::reshapeBelowMap},
    {"canonicalize.unit-reshape-into-map", canonicalize::unitReshapeIntoMap},
    {"canonicalize.identity-map", canonicalize::identityMapPattern},
    {"canonicalize.widened-bias", canonicalize::widenedBias},
    {"canonicalize.widened-normalize", canonicalize::widenedNormalize},
    {"canonicalize.repeated-heads", canonicalize::repeatedHeads},
    {"canonicalize.unit-reduce", canonicalize::unitReduce},
    {"canonicalize.reshape-noop", canonicalize::reshapeNoop},
    {"canonicalize.reshape-of-reshape", canonicalize::reshapeOfReshape},
    {"canonicalize.transpose-noop", canonicalize::transposeNoop},
    {"canonicalize.transpose-of-transpose", canonicalize::transposeOfTranspose},
    {"canonicalize.unit-transpose", canonicalize::unitTranspose},
    {"canonicalize.transposed-reshape", canonicalize::transposedReshape},
    {"canonicalize.reshaped-softmax", canonicalize::reshapedSoftmax},
    {"canonicalize.normalized-pieces", canonicalize::normalizedPieces},
    {"canonicalize.slice-noop", canonicalize::sliceNoop},
    {"canonicalize.slice-of-slice", canonicalize::sliceOfSlice},
    {"canonicalize.slice-of-concat", canonicalize::sliceOfConcat},
    {"canonicalize.pad-noop", canonicalize::padNoop},
    {"canonicalize.pad-of-pad", canonicalize::padOfPad},
    {"canonicalize.concat-noop", canonicalize::concatNoop},
    {"canonicalize.concat-of-concat", canonicalize::concatOfConcat},
    {"canonicalize.concat-run", canonicalize::concatRun},
    {"canonicalize.gather-constant", canonicalize::gatherConstant},
    {"canonicalize.gather-ramp", canonicalize::gatherRamp},
    {"canonicalize.last-query", canonicalize::lastQuery},
    {"canonicalize.pool-noop", canonicalize::poolNoop},
    {"canonicalize.resize-noop", canonicalize::resizeNoop},
    {"canonicalize.if-constant", canonicalize::ifConstant},
    {"canonicalize.captured-constant", canonicalize::capturedConstant},
};

} // namespace

bool runCanonicalize(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
