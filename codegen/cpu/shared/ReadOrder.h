// Defines how far results may lie over an operand that dies, by the order in which the kernels for
// sums of 8-bit integers read and write.
#pragma once

#include "codegen/cpu/shared/ByteContraction.h"

namespace tenon::cpu {

/// Of a kernel that takes tiles of `pixels`, each read before it is written (`copied`), or while it
/// is; None when the result has to lie apart.
llvm::Optional<Overlap> overlapByTiles(const ByteProblem &p, int64_t pixels, bool copied);
/// Of one that reads channels as a whole before they are written.
llvm::Optional<Overlap> overlapByChannels(const ByteProblem &p);

} // namespace tenon::cpu
