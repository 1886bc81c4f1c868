// Defines the tactics of CUDA targets, which Tactics.cpp lists; each kernel family has a folder.
#pragma once

#include "codegen/core/Tactic.h"

namespace tenon::cuda {

extern const Tactic &kMap;
extern const Tactic &kMapTransposed;
extern const Tactic &kConvPatchSm75;
extern const Tactic &kConvPatchSm80;
extern const Tactic &kConvPatchSm90a;
extern const Tactic &kConvPatchSimt;
extern const Tactic &kConvPoolSm90a;
extern const Tactic &kContractSimt;
extern const Tactic &kConvWinograd;
extern const Tactic &kContractMmaSm75;
extern const Tactic &kContractMmaSm80;
extern const Tactic &kContractInt8Sm75;
extern const Tactic &kContractInt8Sm80;
extern const Tactic &kContractInt8Sm90a;
extern const Tactic &kContractTf32Sm80;
extern const Tactic &kContractTf32x3Sm80;
extern const Tactic &kContractTf32Sm90a;
extern const Tactic &kContractTf32x3Sm90a;
extern const Tactic &kContractWgmmaSm90a;
extern const Tactic &kContractHaloSm90a;
extern const Tactic &kContractClusterSm90a;
extern const Tactic &kContractClusterInt8Sm90a;
extern const Tactic &kContractClusterTf32Sm90a;
extern const Tactic &kContractClusterTf32x3Sm90a;
extern const Tactic &kContractAny;
extern const Tactic &kAttentionSm80;
extern const Tactic &kAttentionSm90a;
extern const Tactic &kGemv;
extern const Tactic &kGemvNarrow;
extern const Tactic &kDepthwise;
extern const Tactic &kDepthwiseMmaSm80;
extern const Tactic &kPooling;
extern const Tactic &kPoolingAny;
extern const Tactic &kExpandDepthwiseSm80;
extern const Tactic &kSqueezeExcite;
extern const Tactic &kReduce;
extern const Tactic &kFold;
extern const Tactic &kScan;
extern const Tactic &kSoftmax;
extern const Tactic &kNormalize;
extern const Tactic &kResize;
extern const Tactic &kResizeAny;
extern const Tactic &kGather;
extern const Tactic &kPadBorder;
extern const Tactic &kTopK;
extern const Tactic &kTopKRows;
extern const Tactic &kTopKSorted;
extern const Tactic &kScatter;
extern const Tactic &kScatterLast;
extern const Tactic &kScatterSorted;
extern const Tactic &kBitcast;
extern const Tactic &kShapeOf;
extern const Tactic &kNonZero;
extern const Tactic &kUnique;
extern const Tactic &kNonMaxSuppression;
extern const Tactic &kNonMaxSuppressionSorted;

} // namespace tenon::cuda
