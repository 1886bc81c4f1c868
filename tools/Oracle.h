// Defines how the driver asks the interpreter: for outputs and for every value by its name.
#pragma once

#include "compiler/Compiler.h"
#include "ir/Interpreter.h"
#include "tools/DataSet.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tenon {

/// What the interpreter computed: tensors by the name that the value has in text.
using NamedValues = std::map<std::string, Tensor>;

struct OracleRun {
  std::vector<Tensor> outputs;
  /// Outputs of a wide evaluation (ir/Interpreter.h), where one was asked for.
  std::vector<Tensor> exact;
  /// Values computed at graph level; those that were asked for.
  NamedValues values;
  double milliseconds = 0;
};

/// Which values of two graphs correspond. Graphs whose values have the same names throughout
/// correspond name by name. Otherwise two values do when each is the only one of its graph with
/// that hint: names alone follow the order of operations, which passes change.
class CommonNames {
public:
  CommonNames(Graph &a, Graph &b);
  /// Name in b of the value that is called `name` in a; empty when there is none.
  llvm::StringRef inB(llvm::StringRef name) const;
  /// Whether a value of a corresponds to this one of b.
  bool isInB(llvm::StringRef name) const { return inB_.contains(name); }

private:
  llvm::StringMap<std::string> names_;
  llvm::StringSet<> inB_;
};

/// A tensor for the value of a name; null where there is none.
using ValueSource = std::function<const Tensor *(llvm::StringRef)>;

struct OracleOptions {
  /// Which values computed at graph level are kept, by their names; null: none.
  std::function<bool(llvm::StringRef)> keep;
  /// What follows a value that this has a tensor of the same shape and element type for reads that
  /// one.
  ValueSource feed;
  /// As InterpreterOptions::after.
  decltype(InterpreterOptions::after) after;
};

bool interpretGraph(Graph &graph, llvm::ArrayRef<Tensor> inputs, OracleRun &run,
                    Diagnostics &diagnostics, const OracleOptions &options = {});

/// Whether the first graph computes in types narrower than f32, or rounds activations, so that its
/// own rounding may exceed what comparisons tolerate.
bool isNarrow(Module &module);
/// Interprets the graph wide, into `run.exact`; nothing where fp64 goes another way (a loop that
/// ends elsewhere, say), so that there is nothing to compare with.
void interpretWide(Graph &graph, llvm::ArrayRef<Tensor> inputs, OracleRun &run);

/// Puts together the inputs of the graph, by name: the data's tensors, for the others (and for all
/// when `seed` is not 0) seeded values in the data's range and shape. Symbolic extents without data
/// take their values in `symbols`, or one within their bounds.
bool graphInputs(Graph &graph, llvm::ArrayRef<DeclaredTensor> declared, llvm::ArrayRef<Tensor> data,
                 uint64_t seed, std::vector<Tensor> &inputs, Diagnostics &diagnostics,
                 SymbolValues symbols = {});

/// Values of the symbols in the graph's input types, from the inputs' shapes.
SymbolValues symbolValues(Graph &graph, llvm::ArrayRef<Tensor> inputs);

} // namespace tenon
