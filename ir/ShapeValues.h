// Declares value inference under assumptions; ir/Builder.h has what needs none.
#pragma once

#include "ir/Builder.h"

namespace tenon {

/// As inferValue, where values of one element that `assumed` names are taken to be what it says.
llvm::Optional<llvm::SmallVector<Dim, 6>>
inferValueAssuming(Value *v, llvm::ArrayRef<std::pair<Value *, Dim>> assumed);

} // namespace tenon
