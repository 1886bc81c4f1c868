// Defines how the driver asks the interpreter: for outputs and for every value by its name.
#pragma once

#include "driver/DataSet.h"
#include "driver/Pipeline.h"
#include "ir/Interpreter.h"

#include "llvm/ADT/StringMap.h"

namespace tenon {

/// What the interpreter computed: tensors by the name that the value has in text.
using NamedValues = std::map<std::string, Tensor>;

struct OracleRun {
  std::vector<Tensor> outputs;
  /// Values computed at graph level; filled when asked for.
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

private:
  llvm::StringMap<std::string> names_;
};

/// A tensor for the value of a name; null where there is none.
using ValueSource = std::function<const Tensor *(llvm::StringRef)>;

/// Interprets the first graph of `module`. What follows a value that `feed` has a tensor of the
/// same shape and element type for reads that one.
bool interpretModule(Module &module, llvm::ArrayRef<Tensor> inputs, bool everyValue, OracleRun &run,
                     Diagnostics &diagnostics, ValueSource feed = {});

/// Puts together the inputs of the graph, by name: the data's tensors, for the others (and for all
/// when `seed` is not 0) seeded values in the data's range and shape. Symbolic extents without data
/// take a value within their bounds.
bool graphInputs(Graph &graph, llvm::ArrayRef<DeclaredTensor> declared, llvm::ArrayRef<Tensor> data,
                 uint64_t seed, std::vector<Tensor> &inputs, Diagnostics &diagnostics);

/// Values of the symbols in the graph's input types, from the inputs' shapes.
SymbolValues symbolValues(Graph &graph, llvm::ArrayRef<Tensor> inputs);

} // namespace tenon
