// Declares the search for integers that follow from extents: the positions of a decoder's tokens,
// which exporters compute from masks of ones, lengths and ranges.
#pragma once

#include "ir/Builder.h"

#include "llvm/ADT/DenseMap.h"

namespace tenon {

/// Elements `base` + the position along `dim` of their tensor or iteration space; -1: all the same.
/// Of booleans: 0 or 1.
struct Ramp {
  Dim base;
  int dim = -1;

  bool isSame() const { return dim < 0; }
};
using MaybeRamp = llvm::Optional<Ramp>;

/// Of the values of a graph that is not changed meanwhile.
class Ramps {
public:
  MaybeRamp of(Value *v);

private:
  MaybeRamp compute(Value *v);
  MaybeRamp mapped(Operation &op, unsigned result);
  MaybeRamp reduced(Operation &op);
  MaybeRamp scanned(Operation &op);

  llvm::DenseMap<Value *, MaybeRamp> memo_;
  unsigned depth_ = 0;
};

} // namespace tenon
