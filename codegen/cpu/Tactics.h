// Defines the tactics of C++ targets; one file for each family of kernels in codegen/cpu/, listed
// in Tactics.cpp.
#pragma once

#include "codegen/core/TacticOf.h"

namespace tenon::cpu {

extern const Tactic &kMap;  // Map.cpp
extern const Tactic &kConv; // Conv.cpp
extern const Tactic &kConvDot;
extern const Tactic &kConvInt8;
extern const Tactic &kDepthwise;
extern const Tactic &kConvPairs; // Pairs.cpp
extern const Tactic &kDepthwisePairs;
extern const Tactic &kConvShared; // Shared.cpp
extern const Tactic &kDepthwiseShared;
extern const Tactic &kConvQuads; // Quads.cpp
extern const Tactic &kDepthwiseQuads;
extern const Tactic &kConvBytes; // Bytes.cpp
extern const Tactic &kDepthwiseBytes;
extern const Tactic &kConvDirect; // ConvDirect.cpp
extern const Tactic &kMatMul;     // MatMul.cpp
extern const Tactic &kMatMulInt8;
extern const Tactic &kMatMulDynamic;
extern const Tactic &kMatMulDirect;
extern const Tactic &kMatMulNarrow; // MatMulNarrow.cpp
extern const Tactic &kPooling;      // Pool.cpp
extern const Tactic &kPoolingDirect;
extern const Tactic &kReduce; // Reduce.cpp
extern const Tactic &kFold;
extern const Tactic &kAttention; // Attention.cpp
extern const Tactic &kSoftmax;   // Softmax.cpp
extern const Tactic &kSoftmaxBytes;
extern const Tactic &kNormalize; // Normalize.cpp
extern const Tactic &kResize;    // Resize.cpp
extern const Tactic &kResizeDirect;
extern const Tactic &kGather;    // Gather.cpp
extern const Tactic &kPadBorder; // Pad.cpp
extern const Tactic &kNonZero;   // DataDependent.cpp
extern const Tactic &kTopK;
extern const Tactic &kShapeOf;
extern const Tactic &kScatter; // Scatter.cpp
extern const Tactic &kNonMaxSuppression;
extern const Tactic &kUnique;
extern const Tactic &kBitcast;
extern const Tactic &kTextMap; // Text.cpp
extern const Tactic &kTextSplit;
extern const Tactic &kUser; // User.cpp

} // namespace tenon::cpu
