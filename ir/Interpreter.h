// Defines the interpreter: the oracle that every backend is compared with.
//
// Values are host tensors in logical order, whatever layout their types carry. Contractions and
// sums accumulate in double; each scalar function's result is rounded to its type (f32 for f16 and
// bf16 bodies, which round when a tensor is stored). Bodies are evaluated op by op over tiles.
//
// A wide evaluation keeps every float of 16 or 32 bits as f64 and rounds nothing, neither where
// tensors are stored nor in bodies, but by the casts that the model wrote (`rounds`). It says what
// a network means apart from its own rounding.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"
#include "ir/Tensor.h"

#include <functional>
#include <map>

namespace tenon {

/// How a wide evaluation keeps elements of a type.
Element wideElement(Element e);
/// The same values in that type.
Tensor widened(const Tensor &tensor);

using SymbolValues = std::map<std::string, int64_t, std::less<>>;

/// What an op's evaluate function sees. Results are given through set().
struct EvaluationFrame {
  /// Operand tensors in order (shared, cheap to copy).
  llvm::SmallVector<Tensor, 4> operands;
  /// Filled by evaluate, one per result.
  llvm::SmallVector<Tensor, 2> results;
  /// Whether the evaluation is wide; tensors of floats then are, too.
  bool wide = false;
  /// The element type of a tensor of declared type e.
  Element stored(Element e) const { return wide ? wideElement(e) : e; }
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
  /// Called after every such operation with its operands and what it made.
  std::function<void(const Operation &, llvm::ArrayRef<Tensor> operands,
                     llvm::ArrayRef<Tensor> results, const SymbolValues &)>
      after;
  /// Inputs may have the types that the graph declares; outputs are wide.
  bool wide = false;
};

/// Runs `graph` on `inputs` (its inputs in order; symbols are bound from their shapes).
/// Returns false after reporting what is wrong.
bool interpret(Graph &graph, llvm::ArrayRef<Tensor> inputs, std::vector<Tensor> &outputs,
               Diagnostics &diagnostics, const InterpreterOptions &options = {});

/// The wide results of one operation on operands of its own types, for given values of symbols.
/// False with the reason when it cannot be evaluated.
bool evaluateWide(const Operation &op, llvm::ArrayRef<Tensor> operands, const SymbolValues &symbols,
                  llvm::SmallVectorImpl<Tensor> &results, std::string &error);

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
