// Defines which operands of a map are constants that vary along its columns, the last dimension of
// its space, at most: such maps follow a product whose columns are joined or split.
#pragma once

#include "passes/Maps.h"

namespace tenon {

/// Whether operand i of `map` is a constant of one element.
inline bool isNumber(const Operation &map, unsigned i) {
  const Literal l = constantValue(map.operand(i));
  return l && l->size() == 1;
}

/// Whether operand i of `map`, which has `rank` dimensions, is a constant with an element for each
/// of so many columns.
inline bool isOfColumns(const Operation &map, unsigned i, unsigned rank, int64_t columns) {
  const Literal l = constantValue(map.operand(i));
  return l && l->size() == columns && !l->shape().empty() && l->shape().back() == columns &&
         indexMap(map, i).back() == int64_t(rank) - 1;
}

} // namespace tenon
