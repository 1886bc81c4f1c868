// Defines where the values of a run come from: a test data set, single files, a seed.
#pragma once

#include "frontend/Import.h"
#include "ir/Tensor.h"

#include <map>
#include <string>
#include <vector>

namespace tenon {

/// One tensor per declared input and output; null where none is known. The elements of sequences
/// and optionals stand in their places; `counts` says how many they are.
struct DataSet {
  std::vector<Tensor> inputs, outputs;
  std::map<std::string, int64_t> inputCounts, outputCounts;
  std::string from; ///< its folder or file, where there is one
  /// The files of a folder that were read.
  std::vector<std::string> files;
};

/// Reads input_K and output_K (.pb or .npy) of the folder that `option` names: by the name inside
/// the file where the model knows it, else by K. False after reporting what is wrong.
bool readDataSet(llvm::StringRef option, llvm::StringRef folder,
                 llvm::ArrayRef<DeclaredTensor> inputs, llvm::ArrayRef<DeclaredTensor> outputs,
                 DataSet &data, Diagnostics &diagnostics);

/// Puts the tensors of NAME=FILE options over those of `data`.
bool readInputFiles(llvm::ArrayRef<std::string> options, llvm::ArrayRef<DeclaredTensor> inputs,
                    DataSet &data, Diagnostics &diagnostics);

/// Seeded values. Floats are spread over the values of `like` (null: [-1, 1)), integers too (null:
/// 0 to 3), booleans are coin tosses, text is picked from `like` (null: words). The same seed and
/// shape give the same tensor everywhere.
Tensor randomTensor(Element element, llvm::ArrayRef<int64_t> shape, const Tensor &like,
                    uint64_t seed);

} // namespace tenon
