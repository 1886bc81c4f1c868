// constant-channels: channels of integer tensors whose values are known are not computed.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runConstantChannels(Graph &graph, PassContext &context);

} // namespace tenon
