// Defines the attributes that convolutions and pools share, with ONNX's defaults and padding rules
// resolved to explicit numbers.
#pragma once

#include "frontend/onnx/Node.h"

namespace tenon::frontend {

struct Window {
  Ints kernel, strides, dilations;
  Ints pads; // all begins, then all ends
  /// Padding that follows from open extents, to be put around the operand: per spatial dimension;
  /// empty where `pads` says everything.
  Dims low = {}, high = {};

  bool isOpen() const { return !low.empty(); }
  /// More padding of spatial dimension i.
  void pad(size_t i, Dim before, Dim after);
};

/// Reads strides, dilations, pads and auto_pad for `kernel` over the spatial dimensions of operand
/// `input`; None after an error.
llvm::Optional<Window> readWindow(const Node &n, unsigned input, Ints kernel);

/// The operand of a window: `x` with the open padding around it, whose elements are `fill`.
Value *withOpenPads(Builder &b, Value *x, const Window &w, double fill);

/// The kernel_shape attribute, or the spatial extents of operand `weight`; both must agree.
llvm::Optional<Ints> readKernel(const Node &n, unsigned weight);

/// An attribute of `count` integers in [least, 2^31), or `otherwise` repeated; None after an error.
llvm::Optional<Ints> readSpatial(const Node &n, llvm::StringRef name, size_t count, int64_t least,
                                 int64_t otherwise);

} // namespace tenon::frontend
