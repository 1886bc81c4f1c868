// Defines what the tactics of C++ targets share beyond codegen/forms/Operands.h: views of computed
// operands, lanes, costs.
#pragma once

#include "codegen/forms/Operands.h"

namespace tenon::cpu {

/// What blocked contractions multiply: floats as they are computed, integers of 8 bits with exact
/// sums, or bf16 with sums of f32.
enum class Factors { Floats, Bytes, Bf16 };
/// Whether the anchor's operands are such, and the level has kernels for them.
Result<> multiplies(const GroupQuery &in, Factors factors);

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
/// How many times as long blocked products of floats take that are stored in 16 bits: those of x
/// are widened one at a time, also where others are computed in vectors.
double storageCost(const GroupQuery &in);
/// Bound by arithmetic at a fraction of the peak or by memory, in microseconds.
double rooflineCost(const GroupQuery &in, double efficiency);
/// The same for kernels that compute one element at a time.
double directCost(const GroupQuery &in);

} // namespace tenon::cpu
