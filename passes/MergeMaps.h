// Defines the merging of maps that stand in one group: one body instead of a chain.
#pragma once

#include "passes/Pass.h"

namespace tenon {

/// In every group of the region: map(map(x)) over one space becomes one map, whose body is then
/// simplified. Ids: fuse.merge-maps and canonicalize.scalar-*.
bool mergeMaps(Region &region, PassContext &context);

} // namespace tenon
