// Defines what the tactics of `strip` read of a group: rows times constant weights, of halves or of
// integers with scales.
#pragma once

#include "codegen/cuda/shared/Contraction.h"
#include "codegen/memory/Strips.h"
#include "runtime/cuda/strip/geometry.h"

namespace tenon::cuda {

/// One product: y [count][n] = x [count][k] * w [n][k].
struct StripProduct {
  const GroupForm *form = nullptr;
  llvm::Optional<Contraction> contraction; // of halves
  unsigned rowDim = 2;                     // of integers: the dimension of rows, from the last
  Element multiplied = Element::F16, weights = Element::F16;
  Dim count;                                 // of rows
  int64_t rows = 0, n = 0, k = 0, block = 0; // at most; elements along k of a scale; 0: none
  /// Whether an output has one scale, of this element.
  bool scalesOutputs() const { return block == k && bits() == 8; }
  Element scale = Element::F16;

  int64_t bits() const { return bitWidth(weights); }
  /// Of strides over operand x, or over the result, those over (rows, k) and (rows, n).
  Strides ofX(const Strides &s) const;
  Strides ofY(const Strides &s) const;
  /// The layout of weights, and of their scales.
  void pack(llvm::SmallVectorImpl<Packing> &out) const;
};

/// `form`: of the group that `in` asks about, or of one of the anchors before or beside it.
Result<StripProduct> readStripProduct(const GroupQuery &in, const GroupForm &form);

/// A group: a product, perhaps of rows that are normalised, perhaps with others beside it.
struct StripProblem {
  GroupQuery in;
  StripProduct product;
  std::vector<StripProduct> beside;
  const GroupForm *norm = nullptr;

  int64_t matrices() const { return 1 + int64_t(beside.size()); }
};

/// A group of one anchor, or of several as strip's chains have them.
Result<StripProblem> readStrip(const GroupQuery &in);

} // namespace tenon::cuda
