// Defines how inputs and outputs get another element type or order of dimensions than the model's
// (--io NAME=f16,nhwc): the graph's arguments and results change, and conversions become operations
// at its borders, which passes then fuse with what lies behind them.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"
#include "ir/Tensor.h"

#include "llvm/ADT/Optional.h"

namespace tenon {

/// What is asked of one input or output; None keeps what the model has.
struct PortRequest {
  std::string name;
  llvm::Optional<Element> element;
  /// Spelt for the tensor's rank: nchw and nhwc for four dimensions.
  std::string order;
};

/// Parses `f16`, `nhwc` or `f16,nhwc`. False after reporting what is not understood.
bool parsePortRequest(llvm::StringRef name, llvm::StringRef text, PortRequest &out,
                      Diagnostics &diagnostics);

/// Changes the graph's inputs and outputs. The module's facts `io.NAME` keep what the model itself
/// has. False after reporting names, types and orders that do not fit.
bool applyPortRequests(Graph &graph, llvm::ArrayRef<PortRequest> requests,
                       Diagnostics &diagnostics);

/// What the model itself has where a port was changed.
struct PortForm {
  Element element = Element::F32;
  /// The port's last dimension is the model's second.
  bool channelsLast = false;
};
/// None for ports that are as in the model.
llvm::Optional<PortForm> portForm(const Module &module, llvm::StringRef port);

/// A tensor of the model's own form as the port of type `element` takes it: floats rounded to
/// nearest, integers saturated. `changed`, where given, receives how many elements lost value by
/// it.
Tensor portTensor(const Tensor &own, const PortForm &form, Element element,
                  int64_t *changed = nullptr);

} // namespace tenon
