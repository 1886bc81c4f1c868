// Cross-layer equalisation: factors between the output channels of a contraction and the input
// channels of the next one, which rectifiers and maxima let through, so that channels of both fill
// their ranges alike. The network computes the same.
#pragma once

#include "passes/quantize/Layers.h"

#include "ir/Diagnostics.h"

namespace tenon {

/// The number of pairs that were equalised.
unsigned equalizeLayers(Graph &graph, Diagnostics &diagnostics);

} // namespace tenon
