// Declares how the interpreter moves elements of any type between regularly addressed places.
#pragma once

#include "ir/Extents.h"
#include "ir/Tensor.h"

namespace tenon {

Extents rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// One side of a copy: element `offset` + Σ index · stride.
struct Place {
  int64_t offset = 0;
  Extents strides;
};

/// to[i] = from[i] for every index i of `shape`. Tensors have one element type, places lie inside
/// them, and `to` does not overlap itself.
void copyElements(llvm::ArrayRef<int64_t> shape, const Tensor &from, Place source, Tensor &to,
                  Place target);

/// A tensor of `shape` whose elements are read from `from` at `source`.
Tensor readStrided(llvm::ArrayRef<int64_t> shape, const Tensor &from, const Place &source);

/// result[i0, i1, …] = from[indices[0][i0], indices[1][i1], …]; where an index is −1 the element of
/// `result` stays as it is. `result` has the extents of the index lists.
void pickElements(const Tensor &from, llvm::ArrayRef<std::vector<int64_t>> indices, Tensor &result);

/// A tensor of `shape` filled with element 0 of `value`.
Tensor filled(llvm::ArrayRef<int64_t> shape, const Tensor &value);

} // namespace tenon
