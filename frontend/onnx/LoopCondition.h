// Declares what can be said of the condition of a Loop while it is imported.
#pragma once

#include "ir/IR.h"

namespace tenon::frontend {

/// The one element of `v` is known, and true.
bool isSurelyTrue(Value *v);

/// How often a loop runs whose condition holds at first: `count`, its trip count, where the
/// condition does not end it earlier, and what the condition counts where there is no trip count
/// (INT64_MAX), up to 1,024. Null where neither is certain. `body` is its region, and `yields` what
/// that gives: the condition first, then what is carried.
Dim certainTrips(Region &body, llvm::ArrayRef<Value *> yields, Dim count);

} // namespace tenon::frontend
