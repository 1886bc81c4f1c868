// Defines how real inputs are read wherever a command takes them: sets of inputs of one model, in a
// folder or a file.
#pragma once

#include "tools/DataSet.h"

namespace tenon {

struct CalibrationSet {
  std::vector<DataSet> sets;
  /// The right class of each set, where the folder says so; else empty.
  std::vector<int64_t> labels;
};

/// Reads, in the order of their names, one of
///
/// - test data sets: `data` itself or what it holds: folders with input_K (.pb or .npy) and perhaps
///   output_K, or .npz files with arrays named as inputs and outputs, or input_K, output_K, arr_K;
/// - for a model with one input the file `data`, or all files of that folder: .npy, .pb, or .bin
///   (the elements alone, little-endian).
///
/// Where an input's shape is known, a .npz, .npy, .pb or .bin file may hold several sets one after
/// the other. The right classes are those of labels.npy in the folder or `labels` in a .npz file,
/// else the places of the largest values of the first output. False after reporting, in the name of
/// `option`, what is wrong.
bool readSamples(llvm::StringRef option, llvm::StringRef data,
                 llvm::ArrayRef<DeclaredTensor> inputs, llvm::ArrayRef<DeclaredTensor> outputs,
                 CalibrationSet &samples, Diagnostics &diagnostics);

/// The first set of those: a warning says that there are more.
bool readFirstSample(llvm::StringRef option, llvm::StringRef data,
                     llvm::ArrayRef<DeclaredTensor> inputs, llvm::ArrayRef<DeclaredTensor> outputs,
                     DataSet &set, Diagnostics &diagnostics);

} // namespace tenon
