// Defines how a folder of real inputs is read: many sets of inputs of one model.
#pragma once

#include "tools/DataSet.h"

namespace tenon {

struct Samples {
  std::vector<DataSet> sets;
  /// The right class of each set, where the folder says so; else empty.
  std::vector<int64_t> labels;
};

/// Reads, in the order of their names, one of
///
/// - test data sets: the folder `data` itself or its subfolders, with input_K (.pb or .npy) and
///   perhaps output_K, whose largest value is the right class;
/// - for a model with one input the file `data`, or all files of that folder: .npy, .pb, or .bin
///   (the elements alone, little-endian), each with one set or several one after the other;
///   labels.npy has the right classes.
///
/// `shapes`: of the inputs, where they are known. False after reporting what is wrong.
bool readSamples(llvm::StringRef data, llvm::ArrayRef<DeclaredTensor> inputs,
                 llvm::ArrayRef<DeclaredTensor> outputs,
                 llvm::ArrayRef<llvm::SmallVector<int64_t, 6>> shapes, Samples &samples,
                 Diagnostics &diagnostics);

} // namespace tenon
