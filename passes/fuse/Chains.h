// Defines fuseChains: clusters of several anchors, each of which needs what the one before it
// makes, and nothing else does; where the target has a kernel for them.
//
//   fuse.conv-pool         pool(f(conv(x))), the largest elements of windows
//   fuse.expand-depthwise  conv(f(conv(x))), a 1x1 convolution and a depthwise one
//   fuse.squeeze-excite    conv(f(conv(mean(x)))), the gates of squeeze-and-excitation, and with
//   fuse.gated-image       what they make of the image
#pragma once

#include "passes/Pass.h"
#include "passes/fuse/Clusters.h"

namespace tenon {

/// Epilogues and prologues have joined their anchors before.
void fuseChains(Clusters &clusters, PassContext &context);

} // namespace tenon
