// Defines the prologues that blocked contractions take: scalar work on the elements of one tensor,
// with further operands that vary along one dimension (the channels, or K) only.
#pragma once

#include "codegen/core/GroupForm.h"
#include "codegen/emit/StepWriter.h"
#include "ir/Result.h"

namespace tenon::cpu {

/// The input of `program` that is the tensor itself, all others varying along `dim` at most.
/// Kernels hand its elements over in the type of their `sums`, so that wider ones are refused.
Result<unsigned> prologueTensor(const ScalarProgram &program, unsigned dim, Element sums);
/// Writes the functor and returns ", functor, pack(views over dim)"; empty for a plain read.
std::string prologueArguments(StepWriter &out, const ScalarProgram &program, unsigned tensor,
                              unsigned dim);

/// 8-bit operands that the blocked kernels take: x read as it is, constant w without a zero point,
/// or with constant ones where a kernel takes those.
Result<> matchInt8Operands(const GroupForm &form, bool weightZeros = false);
/// Whether x of an integer contraction has a zero point that must be subtracted.
bool hasZeroPoint(const GroupForm &form);
/// ", functor, pack(view over dim)" that subtracts it as elements are loaded, so that padding,
/// which stays zero, counts as the zero point; empty without one.
std::string zeroPointArguments(StepWriter &out, const GroupForm &form);

} // namespace tenon::cpu
