// Defines the text of self-tests: a C file that runs a generated model on one set of inputs and
// compares with what the interpreter computed.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/core/Target.h"
#include "ir/IR.h"

#include "ir/Tensor.h"

namespace tenon {

/// The function that the file defines, for the header: "int net_self_test(net_context *context)".
std::string selfTestSignature(llvm::StringRef prefix);

/// Text of the file. `inputs` and `outputs` are the graph's, in order, those of states included;
/// empty after reporting a type that the comparison does not know.
std::string writeSelfTest(Module &module, const Target &target, const CompileOptions &options,
                          llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs,
                          Diagnostics &diagnostics);

} // namespace tenon
