// Defines the tactics of C++ targets, which Tactics.cpp lists; beside the first of each kernel
// family stands its folder.
#pragma once

#include "codegen/core/TacticOf.h"

namespace tenon::cpu {

extern const Tactic &kMap;  // map
extern const Tactic &kConv; // conv
extern const Tactic &kConvDot;
extern const Tactic &kConvInt8;
extern const Tactic &kDepthwise;
extern const Tactic &kConvPairs; // conv_dsp
extern const Tactic &kDepthwisePairs;
extern const Tactic &kConvShared; // conv_size
extern const Tactic &kDepthwiseShared;
extern const Tactic &kConvQuads; // conv_mve
extern const Tactic &kDepthwiseQuads;
extern const Tactic &kConvBytes; // conv_bytes
extern const Tactic &kDepthwiseBytes;
extern const Tactic &kConvDirect; // conv/Direct.cpp
extern const Tactic &kMatMul;     // matmul
extern const Tactic &kMatMulInt8;
extern const Tactic &kMatMulDynamic;
extern const Tactic &kMatMulDirect;
extern const Tactic &kMatMulNarrow; // matmul/Narrow.cpp
extern const Tactic &kPooling;      // pool
extern const Tactic &kPoolingDirect;
extern const Tactic &kReduce; // reduce
extern const Tactic &kFold;
extern const Tactic &kScan;      // scan
extern const Tactic &kAttention; // attention
extern const Tactic &kSoftmax;   // softmax
extern const Tactic &kSoftmaxBytes;
extern const Tactic &kNormalize; // normalize
extern const Tactic &kResize;    // resize
extern const Tactic &kResizeDirect;
extern const Tactic &kGather;    // gather
extern const Tactic &kPadBorder; // pad
extern const Tactic &kNonZero;   // nonzero
extern const Tactic &kTopK;
extern const Tactic &kShapeOf;
extern const Tactic &kScatter; // scatter
extern const Tactic &kNonMaxSuppression;
extern const Tactic &kUnique;
extern const Tactic &kBitcast;
extern const Tactic &kTextMap; // text
extern const Tactic &kTextSplit;
extern const Tactic &kUser; // user

} // namespace tenon::cpu
