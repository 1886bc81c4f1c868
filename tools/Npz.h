// Defines reading of NumPy's .npz files: zip archives of .npy files, stored or deflated.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/Tensor.h"

#include "llvm/ADT/Optional.h"

#include <string>
#include <utility>
#include <vector>

namespace tenon {

/// The arrays of an archive by their names, in its order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

llvm::Optional<NamedTensors> readNpz(llvm::StringRef path, Diagnostics &diagnostics);

} // namespace tenon
