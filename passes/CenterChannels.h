// center-channels: 16-bit tensors that only normalisations read are stored less their mean.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runCenterChannels(Graph &graph, PassContext &context);

} // namespace tenon
