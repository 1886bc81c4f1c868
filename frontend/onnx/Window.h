// Defines the attributes that convolutions and pools share, with ONNX's defaults and padding rules
// resolved to explicit numbers.
#pragma once

#include "frontend/onnx/Node.h"

namespace tenon::frontend {

struct Window {
  Ints kernel, strides, dilations;
  Ints pads; // all begins, then all ends
};

/// Reads strides, dilations, pads and auto_pad for `kernel` over the spatial dimensions of operand
/// `input`; None after an error.
llvm::Optional<Window> readWindow(const Node &n, unsigned input, Ints kernel);

/// The kernel_shape attribute, or the spatial extents of operand `weight`; both must agree.
llvm::Optional<Ints> readKernel(const Node &n, unsigned weight);

/// An attribute of `count` integers in [least, 2^31), or `otherwise` repeated; None after an error.
llvm::Optional<Ints> readSpatial(const Node &n, llvm::StringRef name, size_t count, int64_t least,
                                 int64_t otherwise);

} // namespace tenon::frontend
