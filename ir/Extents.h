// Defines Extents, a shape or strides as numbers, and their product.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <functional>
#include <numeric>

namespace tenon {

using Extents = llvm::SmallVector<int64_t, 6>;

/// 1 for none.
inline int64_t product(llvm::ArrayRef<int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}

} // namespace tenon
