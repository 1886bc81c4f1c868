// bundle-groups: grouped convolutions of volumes get fewer groups, whose filters have zeros.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runBundleGroups(Graph &graph, PassContext &context);

} // namespace tenon
