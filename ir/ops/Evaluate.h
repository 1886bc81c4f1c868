// Declares the evaluate functions of the structured ops (OpInfo::evaluate), which the rows in
// ir/ops/<family>.cpp name and the Evaluate*.cpp files define.
#pragma once

#include "ir/Interpreter.h"

namespace tenon {

// EvaluateBodies.cpp
bool evaluateMap(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateReduce(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateScan(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateMovement.cpp
bool evaluateReshape(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateTranspose(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateSlice(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluatePad(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateConcat(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateGather(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateScatter(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateBitcast(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateContract.cpp
bool evaluateConv(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateConvTranspose(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateMatMul(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateAttention.cpp
bool evaluateAttention(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateRecurrent.cpp
bool evaluateRecurrent(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateWindow.cpp, EvaluateResize.cpp
bool evaluatePool(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateResize(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateSoftmax(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateQuantizedSoftmax(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateNormalize(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateShape.cpp
bool evaluateShapeOf(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateNonZero(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateTopK(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateNonMaxSuppression(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateUnique(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateText.cpp
bool evaluateTextMap(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateTextSplit(const Operation &op, EvaluationFrame &frame, std::string &error);
// EvaluateControl.cpp
bool evaluateIf(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateLoop(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateGroup(const Operation &op, EvaluationFrame &frame, std::string &error);
bool evaluateUser(const Operation &op, EvaluationFrame &frame, std::string &error);

} // namespace tenon
