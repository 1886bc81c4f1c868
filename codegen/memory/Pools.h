// Defines pools: named memories that the arena is split over (--pool). The module's fact `pools`
// lists them, "dtcm=16384,sram=65536"; an offset in the arena says which one it is in: those below
// 16384 in the first, the others in the second.
#pragma once

#include "codegen/memory/Plan.h"

#include <string>
#include <vector>

namespace tenon {

struct Pool {
  std::string name;
  int64_t size;      // bytes that there are
  int64_t bytes;     // of them, those that the arena takes: a multiple of kArenaAlignment
  int64_t begin = 0; // offset in the arena
};

constexpr char kPoolsFact[] = "pools";

/// In order of preference; empty where the arena is one block.
std::vector<Pool> poolsOf(const Module &module);
/// Bytes that a plan takes of each pool; of the last one perhaps more than there are.
std::vector<int64_t> poolUse(const Plan &plan, llvm::ArrayRef<Pool> pools);
/// What a plan has beyond the end of the last pool, as a person would name it.
std::vector<std::string> beyondPools(const Plan &plan, llvm::ArrayRef<Pool> pools);

} // namespace tenon
