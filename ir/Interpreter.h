// Defines the interpreter: the oracle that every backend is compared with.
//
// Values are host tensors in logical order, whatever layout their types carry. Contractions and
// sums accumulate in double; each scalar function's result is rounded to its type (f32 for f16 and
// bf16 bodies, which round when a tensor is stored). Bodies are evaluated op by op over tiles.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"
#include "ir/Tensor.h"

#include <functional>
#include <map>

namespace tenon {

using SymbolValues = std::map<std::string, int64_t, std::less<>>;

/// What an op's evaluate function sees. Results are given through set().
struct EvaluationFrame {
  /// Operand tensors in order (shared, cheap to copy).
  llvm::SmallVector<Tensor, 4> operands;
  /// Filled by evaluate, one per result.
  llvm::SmallVector<Tensor, 2> results;
  /// Values of symbols; ops that create symbols (nonzero) add theirs.
  SymbolValues *symbols = nullptr;
  /// The shape of result i with all symbols replaced.
  llvm::SmallVector<int64_t, 6> resultShape(const Operation &op, unsigned i) const;
  llvm::Optional<int64_t> value(Dim d) const;
  /// Evaluates a nested region with the given arguments; outer values stay visible.
  std::function<bool(Region &, llvm::ArrayRef<Tensor>, llvm::SmallVectorImpl<Tensor> &,
                     std::string &)>
      run;
};

struct InterpreterOptions {
  /// Called with every value that an operation at graph level (not inside a group or body) makes.
  /// Readers see what it leaves there, of the same shape and element type.
  std::function<void(Value *, Tensor &)> observe;
};

/// Runs `graph` on `inputs` (its inputs in order; symbols are bound from their shapes).
/// Returns false after reporting what is wrong.
bool interpret(Graph &graph, llvm::ArrayRef<Tensor> inputs, std::vector<Tensor> &outputs,
               Diagnostics &diagnostics, const InterpreterOptions &options = {});

/// Binds the symbols that the extents of `shape` say: those that stand alone, and the one without a
/// value in a sum such as h * 32. Known ones keep their values.
void bindSymbols(Type type, llvm::ArrayRef<int64_t> shape, SymbolValues &symbols);

/// Gives values to the symbols in the types of the graph's inputs, then compares all extents.
/// Returns false after reporting each input that does not fit.
bool bindInputs(Graph &graph, llvm::ArrayRef<Tensor> inputs, SymbolValues &symbols,
                Diagnostics &diagnostics);

/// Evaluates one op on constant operands, for folding; false when it cannot be evaluated.
bool evaluateConstant(const Operation &op, llvm::ArrayRef<Tensor> operands,
                      llvm::SmallVectorImpl<Tensor> &results, std::string &error);

} // namespace tenon
