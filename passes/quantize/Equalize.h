// Cross-layer equalisation: factors between the output channels of a contraction and the input
// channels of the next one, which rectifiers and maxima let through, so that all channels of the
// tensor between them use the steps of its one scale. The network computes the same.
#pragma once

#include "passes/quantize/Statistics.h"

namespace tenon {

/// The number of pairs that were equalised. Statistics are of the graph as it is.
unsigned equalizeLayers(Graph &graph, const Statistics &statistics, Diagnostics &diagnostics);

} // namespace tenon
