// Defines what the tactics of C++ targets share beyond codegen/forms/Operands.h: views of computed
// operands, lanes, costs.
#pragma once

#include "codegen/forms/Operands.h"

namespace tenon::cpu {

/// A view of what `program` computes: of the tensor itself where it is read as it is, else a
/// computed_view with a functor `<name>_<suffix>`.
std::string operandView(StepWriter &out, const ScalarProgram &program, StepWriter::Change change,
                        llvm::ArrayRef<int> placeOf, llvm::StringRef suffix);

/// A view over `rank` dimensions of the zero point that operand `i` of the anchor is: a scalar, or
/// one number for each index along dimension `along`. cpu::no_zero_point where it is left out.
std::string zeroPointView(StepWriter &out, const GroupForm &form, unsigned i, unsigned rank,
                          unsigned along, llvm::StringRef suffix);

/// f32 lanes per vector for work on elements of type `e`.
unsigned lanesFor(const TargetLevel &level, Element e);
/// The lanes type with `width` elements.
std::string lanesType(unsigned width);
/// Bound by arithmetic at a fraction of the peak or by memory, in microseconds.
double rooflineCost(const GroupQuery &in, double efficiency);
/// The same for kernels that compute one element at a time.
double directCost(const GroupQuery &in);

} // namespace tenon::cpu
