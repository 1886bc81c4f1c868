// Declares the importer functions, one per ONNX operator, and the building blocks that families
// share. The table in Table.cpp says which function is which operator.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

struct Window;

/// Operand 1 for broadcasting with operand 0. Before opset 7 an attribute says at which dimension
/// of operand 0 it starts.
Value *alignedSecond(Node &n);
/// One scalar function of operand 0.
template <Op S> void importUnary(Node &n) { n.set(0, n.b.pointwise(S, {n.input(0)})); }
/// One scalar function of operands 0 and 1, broadcast.
template <Op S> void importBinary(Node &n) {
  n.set(0, n.b.pointwise(S, {n.input(0), alignedSecond(n)}));
}

// ChannelsLast.cpp
/// As `import` with the channels of operands `images` and of the results behind the other
/// dimensions.
void importChannelsLast(Node &n, ImportFunction import, llvm::ArrayRef<unsigned> images);
template <ImportFunction Import, unsigned... Images> void importNhwc(Node &n) {
  importChannelsLast(n, Import, {Images...});
}
void importMicrosoftQLinearConv(Node &n);
void importNhwcMaxPool(Node &n);

// Cast.cpp
void importBitCast(Node &n);
void importCast(Node &n);
void importCastLike(Node &n);

// Pointwise.cpp
void importBiasGelu(Node &n);
void importBitShift(Node &n);
void importEqual(Node &n);
void importCelu(Node &n);
void importClip(Node &n);
void importElu(Node &n);
void importFastGelu(Node &n);
void importGelu(Node &n);
void importHardSigmoid(Node &n);
void importHardSwish(Node &n);
void importIdentity(Node &n);
void importIsInf(Node &n);
void importLeakyRelu(Node &n);
void importMax(Node &n);
void importMean(Node &n);
void importMin(Node &n);
void importMish(Node &n);
void importMod(Node &n);
void importPRelu(Node &n);
void importPow(Node &n);
void importQuickGelu(Node &n);
void importSelu(Node &n);
void importShrink(Node &n);
void importSoftplus(Node &n);
void importSoftsign(Node &n);
void importSum(Node &n);
void importSwiGLU(Node &n);
void importSwish(Node &n);
void importThresholdedRelu(Node &n);
void importWhere(Node &n);

// Contract.cpp
void importConv(Node &n);
void importConvTranspose(Node &n);
void importEinsum(Node &n);
void importFusedMatMul(Node &n);
void importGemm(Node &n);
void importMatMul(Node &n);
/// conv over `operands` with the node's window attributes; the weights are operand `weight` of the
/// node.
Value *convolve(Node &n, llvm::ArrayRef<Value *> operands, unsigned weight);
/// NumPy's matmul for any ranks; `zeros` are zero points.
Value *matmul(Builder &b, Value *x, Value *y, llvm::ArrayRef<Value *> zeros,
              NamedAttributes attributes);
/// v + bias with bias [C] along `axis`; v alone when there is no bias.
Value *addAlong(Builder &b, Value *v, Value *bias, int64_t axis);
/// Operand i, where present, is one bias per channel; reports otherwise.
bool checkBias(Node &n, unsigned i, Dim channels);

// Sequence.cpp
void importConcatFromSequence(Node &n);
void importOptional(Node &n);
void importOptionalGetElement(Node &n);
void importOptionalHasElement(Node &n);
void importSequenceAt(Node &n);
void importSequenceConstruct(Node &n);
void importSequenceEmpty(Node &n);
void importSequenceErase(Node &n);
void importSequenceInsert(Node &n);
void importSequenceLength(Node &n);
void importSequenceMap(Node &n);
void importSplitToSequence(Node &n);
/// The tensors side by side along dimension `axis`, which is new or theirs.
Value *stackAlong(Builder &b, llvm::ArrayRef<Value *> values, int64_t axis, bool isNew);
/// The number that every element of `v` is; None where it is not known, or they differ.
llvm::Optional<double> fillOf(Value *v);
/// As much of `v` along `axis` as `length`, one i64, says; null after an error.
Value *cut(Node &n, Value *v, int64_t axis, Value *length);
/// The pieces of `stack`, no longer than the longest; null after an error.
Value *evened(Node &n, const Stack &stack);
/// The pieces of `stack` concatenated along `axis`, or stacked there; null after an error.
Value *joinStack(Node &n, const Stack &stack, int64_t axis, bool isNew);
/// Indices of the nonzero elements of `v`, [rank, S] with a symbol of the node's own: of a scalar
/// [0, S]. Where equal numbers were asked before (a mask that selects from several tensors) that is
/// the result, so that the extents agree; of known numbers the count is known.
Value *nonZero(Node &n, Value *v);

// Text.cpp
void importRegexFullMatch(Node &n);
void importStringConcat(Node &n);
void importStringNormalizer(Node &n);
void importStringSplit(Node &n);

// TfIdf.cpp
void importTfIdfVectorizer(Node &n);

// Det.cpp
void importDet(Node &n);

// Unpool.cpp
/// Where the elements are that a max pool takes, as ONNX counts them; null after an error.
Value *poolIndices(Node &n, const Window &window, Type pooled);
void importMaxUnpool(Node &n);

// TreeEnsembles.cpp
void importTreeEnsemble(Node &n);
void importTreeEnsembleClassifier(Node &n);
void importTreeEnsembleRegressor(Node &n);

// MicrosoftAttention.cpp
void importDecoderMaskedMultiHeadAttention(Node &n);
void importDecoderMaskedSelfAttention(Node &n);
void importMicrosoftAttention(Node &n);
void importMultiHeadAttention(Node &n);

// MicrosoftBlocks.cpp
void importGatherBlockQuantized(Node &n);
void importMatMulBnb4(Node &n);

// MicrosoftDynamic.cpp
void importDynamicQuantizeMatMul(Node &n);
void importMatMulIntegerToFloat(Node &n);
void importQAttention(Node &n);

// MicrosoftFused.cpp
void importBiasAdd(Node &n);
void importBiasDropout(Node &n);
void importBiasSoftmax(Node &n);
void importBiasSplitGelu(Node &n);
void importFusedConv(Node &n);
void importFusedGemm(Node &n);
void importFusedMatMulActivation(Node &n);
void importGemmFastGelu(Node &n);

// MicrosoftGroupNorm.cpp
void importGroupNorm(Node &n);
void importSkipGroupNorm(Node &n);

// MicrosoftMatrices.cpp
void importCDist(Node &n);
void importExpandDims(Node &n);
void importInverse(Node &n);

// MicrosoftPacked.cpp
/// Rows of `packed` [tokens, width] where RemovePadding's offsets [batch, length] put them,
/// [batch · length, width]; 0 elsewhere. Null after an error.
Value *unpackedRows(Node &n, Value *packed, Value *offsets);
void importPackedAttention(Node &n);
void importPackedMultiHeadAttention(Node &n);
void importRemovePadding(Node &n);
void importRestorePadding(Node &n);

// MicrosoftPositions.cpp
void importGatedRelativePositionBias(Node &n);
void importRelativePositionBias(Node &n);
void importUnfoldTensor(Node &n);

// MicrosoftQuantize.cpp
void importMatMulBlockQuantizedFp8Weight(Node &n);
void importMatMulNBits(Node &n);
void importQGemm(Node &n);
void importQLinearAveragePool(Node &n);
void importQLinearConcat(Node &n);
void importQLinearGlobalAveragePool(Node &n);
void importQLinearLeakyRelu(Node &n);
void importQLinearReduceMean(Node &n);
void importQLinearSigmoid(Node &n);
void importQLinearSoftmax(Node &n);
void importQLinearWhere(Node &n);

// MixtureOfExperts.cpp
void importMoE(Node &n);
void importQMoE(Node &n);

// Attention.cpp
void importAttention(Node &n);
void importFlexAttention(Node &n);

// Rotary.cpp
void importMicrosoftRotaryEmbedding(Node &n);
void importRotaryEmbedding(Node &n);

// GroupQueryAttention.cpp
void importGroupQueryAttention(Node &n);

// LinearAttention.cpp
void importLinearAttention(Node &n);

// Random.cpp
void importBernoulli(Node &n);
void importDropout(Node &n);
void importMultinomial(Node &n);
void importRandomNormal(Node &n);
void importRandomNormalLike(Node &n);
void importRandomUniform(Node &n);
void importRandomUniformLike(Node &n);

// Recurrent.cpp
void importDynamicQuantizeLSTM(Node &n);
void importGRU(Node &n);
void importLSTM(Node &n);
void importRNN(Node &n);

// DeformConv.cpp
void importDeformConv(Node &n);

// GridSample.cpp
void importAffineGrid(Node &n);
void importGridSample(Node &n);

// RoiAlign.cpp
void importMaxRoiPool(Node &n);
void importRoiAlign(Node &n);

// Signal.cpp
void importCausalConvWithState(Node &n);
void importCol2Im(Node &n);
void importDFT(Node &n);
void importSTFT(Node &n);

// Loss.cpp
void importNegativeLogLikelihoodLoss(Node &n);
void importSoftmaxCrossEntropyLoss(Node &n);

// Pool.cpp
/// The average pool that the node's attributes ask for, over `x` in the shape of operand 0.
Value *averagePool(Node &n, Value *x);
void importAveragePool(Node &n);
void importGlobalAveragePool(Node &n);
void importGlobalLpPool(Node &n);
void importGlobalMaxPool(Node &n);
void importLRN(Node &n);
void importLpPool(Node &n);
void importMaxPool(Node &n);

// Normalize.cpp
void importBatchNormalization(Node &n);
void importGroupNormalization(Node &n);
void importInstanceNormalization(Node &n);
void importLayerNormalization(Node &n);
void importLpNormalization(Node &n);
void importMeanVarianceNormalization(Node &n);
void importRMSNormalization(Node &n);
void importEmbedLayerNormalization(Node &n);
void importQEmbedLayerNormalization(Node &n);
void importSimplifiedLayerNormalization(Node &n);
void importSkipLayerNormalization(Node &n);
void importSkipSimplifiedLayerNormalization(Node &n);

// Reduce.cpp
void importArgMax(Node &n);
void importArgMin(Node &n);
void importCumProd(Node &n);
void importCumSum(Node &n);
void importHardmax(Node &n);
void importLogSoftmax(Node &n);
void importReduceL1(Node &n);
void importReduceL2(Node &n);
void importReduceLogSum(Node &n);
void importReduceLogSumExp(Node &n);
void importReduceMax(Node &n);
void importReduceMean(Node &n);
void importReduceMin(Node &n);
void importReduceProd(Node &n);
void importReduceSum(Node &n);
void importReduceSumSquare(Node &n);
/// Softmax over all dimensions from `axis` on as one.
Value *softmaxFrom(Builder &b, Value *x, int64_t axis);
void importSoftmax(Node &n);

// Movement.cpp
void importCenterCropPad(Node &n);
void importConcat(Node &n);
void importDepthToSpace(Node &n);
void importExpand(Node &n);
void importFlatten(Node &n);
void importPad(Node &n);
void importReshape(Node &n);
void importSlice(Node &n);
void importSpaceToDepth(Node &n);
void importSplit(Node &n);
void importSqueeze(Node &n);
void importTile(Node &n);
void importTranspose(Node &n);
void importUnsqueeze(Node &n);
/// [start, start + size · step) along one axis.
Value *sliceAlong(Builder &b, Value *v, int64_t axis, Dim start, Dim size, int64_t step);

// Positions.cpp
/// As `import`, of text or complex numbers, which it only moves.
void importByPosition(Node &n, ImportFunction import);

// Index.cpp
void importGather(Node &n);
void importGatherElements(Node &n);
void importGatherND(Node &n);
void importOneHot(Node &n);
void importReverseSequence(Node &n);
void importScatterElements(Node &n);
void importScatterND(Node &n);
void importTensorScatter(Node &n);
void importTopK(Node &n);

// Select.cpp
void importCompress(Node &n);
void importNonMaxSuppression(Node &n);
void importNonZero(Node &n);
void importMicrosoftUnique(Node &n);
void importUnique(Node &n);

// Generate.cpp
void importBlackmanWindow(Node &n);
void importConstant(Node &n);
void importConstantOfShape(Node &n);
void importEyeLike(Node &n);
void importHammingWindow(Node &n);
void importHannWindow(Node &n);
void importMelWeightMatrix(Node &n);
void importRange(Node &n);
void importShape(Node &n);
void importSize(Node &n);
void importTrilu(Node &n);

// Resize.cpp
void importResize(Node &n);
void importUpsample(Node &n);

// Quantize.cpp
void importConvInteger(Node &n);
void importDequantizeLinear(Node &n);
void importDynamicQuantizeLinear(Node &n);
void importMatMulInteger(Node &n);
void importQLinearAdd(Node &n);
void importQLinearConv(Node &n);
void importQLinearMatMul(Node &n);
void importQLinearMul(Node &n);
void importQuantizeLinear(Node &n);

// Ml.cpp
void importArrayFeatureExtractor(Node &n);
void importLabelEncoder(Node &n);
void importBinarizer(Node &n);
void importCategoryMapper(Node &n);

// MlEncoders.cpp
void importFeatureVectorizer(Node &n);
void importOneHotEncoder(Node &n);
void importSvmClassifier(Node &n);
void importSvmRegressor(Node &n);
void importZipMap(Node &n);

// MlLinear.cpp
void importImputer(Node &n);
void importLinearClassifier(Node &n);
void importLinearRegressor(Node &n);
void importNormalizer(Node &n);
void importScaler(Node &n);

// Training.cpp
void importAdagrad(Node &n);
void importAdam(Node &n);
void importMomentum(Node &n);

// Control.cpp
void importIf(Node &n);
void importLoop(Node &n);

// Scan.cpp
void importScan(Node &n);
void importScanOfBatch(Node &n); // of opset 8

} // namespace tenon::frontend
