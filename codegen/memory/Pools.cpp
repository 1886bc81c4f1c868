// Implements the named memories of a module.
#include "codegen/memory/Pools.h"

#include "codegen/core/TypeText.h"
#include "codegen/memory/ArenaLayout.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace tenon {
namespace {

/// visit(begin, bytes, step that first uses them, what they are) for all that is in the arena.
void forEachPlaced(const Plan &plan,
                   llvm::function_ref<void(int64_t, int64_t, int, const char *)> visit) {
  for (const BufferInfo &b : plan.buffers)
    if (b.home == Home::Arena && b.lastStep >= 0 && b.bytes > 0)
      visit(b.at, b.bytes, b.firstStep, "result");
  for (const Step &s : plan.steps)
    if (s.scratchBytes)
      visit(s.scratchAt, s.scratchBytes, s.number, "scratch");
}

} // namespace

std::vector<Pool> poolsOf(const Module &module) {
  std::vector<Pool> pools;
  auto fact = module.facts.find(kPoolsFact);
  if (fact == module.facts.end())
    return pools;
  llvm::SmallVector<llvm::StringRef, 4> items;
  llvm::StringRef(fact->second).split(items, ',');
  int64_t begin = 0;
  for (llvm::StringRef item : items) {
    auto [name, bytes] = item.split('=');
    Pool p{name.str(), 0, 0, begin};
    if (bytes.getAsInteger(10, p.size))
      continue;
    p.bytes = p.size / kArenaAlignment * kArenaAlignment;
    begin += p.bytes;
    pools.push_back(std::move(p));
  }
  return pools;
}

std::vector<int64_t> poolUse(const Plan &plan, llvm::ArrayRef<Pool> pools) {
  std::vector<int64_t> used(pools.size(), 0);
  forEachPlaced(plan, [&](int64_t begin, int64_t bytes, int, const char *) {
    size_t k = pools.size() - 1;
    while (k > 0 && begin < pools[k].begin)
      --k;
    used[k] = std::max(used[k], begin + bytes - pools[k].begin);
  });
  return used;
}

std::vector<std::string> beyondPools(const Plan &plan, llvm::ArrayRef<Pool> pools) {
  std::vector<std::string> names;
  const int64_t end = pools.back().begin + pools.back().bytes;
  forEachPlaced(plan, [&](int64_t begin, int64_t bytes, int step, const char *what) {
    if (begin + bytes > end)
      names.push_back("the " + std::string(what) + " of " +
                      describe(plan.steps[size_t(step)].op->loc(), 2) + " (" +
                      std::to_string(bytes) + " bytes)");
  });
  return names;
}

} // namespace tenon
