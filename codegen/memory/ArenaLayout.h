// Defines where things lie in the arena that live for a part of an inference. Things share bytes
// unless they meet, that is, may be live at the same time.
#pragma once

#include "codegen/memory/Pools.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <vector>

namespace tenon {

struct ArenaItem {
  int64_t bytes;   // at least 1
  int first, last; // steps, both included
  bool scratch;
};

/// Items that meet at one step only and may share bytes nevertheless: where `over` begins
/// `distance` bytes before `under`.
struct ArenaOverlay {
  unsigned over, under;
  int step;
  int64_t distance; // a multiple of kArenaAlignment
};

struct ArenaLayout {
  std::vector<int64_t> at; // by item; multiples of kArenaAlignment
  int64_t bytes = 0;       // of the arena
  /// Largest sum of live bytes over the steps, which no layout can beat for this order of steps;
  /// what may lie over another counts once.
  int64_t boundBytes = 0;
};

constexpr int64_t kArenaAlignment = 64;
/// The least multiple of kArenaAlignment that is no less.
int64_t alignInArena(int64_t bytes);

/// Places items by best fit under several orders and takes the best result; a few seeded shuffles
/// help where it misses the bound. The same items give the same places.
/// \param meet   whether two items, by index, may be live at the same time
/// \param pools  in order of preference, at least one; the last is taken to have no end: the driver
///               reports what is beyond it
ArenaLayout layOutArena(llvm::ArrayRef<ArenaItem> items,
                        llvm::function_ref<bool(unsigned, unsigned)> meet,
                        llvm::ArrayRef<ArenaOverlay> overlays, llvm::ArrayRef<Pool> pools);

} // namespace tenon
