// Implements the layout of the arena.
#include "codegen/memory/ArenaLayout.h"

#include "llvm/ADT/Optional.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace tenon {
namespace {

struct Range {
  int64_t begin, end;
};

/// Where `bytes` best fit between what is busy, in a pool.
llvm::Optional<int64_t> bestGap(llvm::ArrayRef<Range> busy, int64_t bytes, const Pool &pool) {
  int64_t at = pool.begin, best = -1, smallest = INT64_MAX;
  auto gapUntil = [&](int64_t end) {
    if (end - at >= bytes && end - at < smallest) {
      smallest = end - at;
      best = at;
    }
  };
  const bool open = pool.bytes == INT64_MAX;
  const int64_t end = open ? INT64_MAX : pool.begin + pool.bytes;
  for (const Range &r : busy) {
    gapUntil(std::min(r.begin, end));
    at = std::max(at, r.end);
  }
  if (best < 0 && (open || end - at >= bytes))
    return at;
  return best >= 0 ? llvm::Optional<int64_t>(best) : llvm::None;
}

class Placer {
public:
  Placer(llvm::ArrayRef<ArenaItem> items, llvm::function_ref<bool(unsigned, unsigned)> meet,
         llvm::ArrayRef<ArenaOverlay> overlays, llvm::ArrayRef<Pool> pools)
      : items_(items), overlays_(overlays), pools_(pools.begin(), pools.end()),
        meets_(items.size() * items.size()), partners_(items.size()) {
    pools_.back().bytes = INT64_MAX;
    for (const ArenaOverlay &o : overlays) {
      partners_[o.over].push_back({o.under, -o.distance});
      partners_[o.under].push_back({o.over, o.distance});
    }
    for (unsigned a = 0; a < items.size(); ++a)
      for (unsigned b = 0; b < items.size(); ++b)
        meets_[a * items.size() + b] = meet(a, b);
  }

  ArenaLayout run() {
    ArenaLayout out;
    out.boundBytes = bound();
    if (items_.empty())
      return out;
    // Scratch is read most often for its size: it goes to the first of several pools.
    if (pools_.size() > 1)
      attempt(by([](const ArenaItem &i) { return i.scratch ? INT64_MAX : i.bytes; }));
    attempt(by([](const ArenaItem &i) { return i.bytes; }));
    attempt(by([](const ArenaItem &i) { return i.bytes * (i.last - i.first + 1); }));
    attempt(by([](const ArenaItem &i) { return int64_t(-i.first); }));
    attempt(by([](const ArenaItem &i) { return int64_t(i.last - i.first); }));
    if (!overlays_.empty()) // a chain of results, each a little before its operand
      attempt(by([](const ArenaItem &i) { return int64_t(i.first); }));
    // mt19937's sequence is fixed by C++.
    std::mt19937 random(1);
    std::vector<unsigned> base =
        overlays_.empty() ? by([](const ArenaItem &i) { return i.bytes; }) : bestOrder_;
    for (int round = 0; round < 400 && top_ > out.boundBytes && base.size() > 1; ++round) {
      std::vector<unsigned> tried = base;
      for (int swaps = 0; swaps < 3; ++swaps)
        std::swap(tried[random() % tried.size()], tried[random() % tried.size()]);
      const int64_t before = top_;
      attempt(tried);
      if (top_ < before)
        base = tried;
    }
    out.at = best_;
    out.bytes = top_;
    return out;
  }

private:
  int64_t bound() const {
    int steps = 0;
    for (const ArenaItem &it : items_)
      steps = std::max(steps, it.last + 1);
    std::vector<int64_t> live(size_t(steps) + 1, 0);
    for (const ArenaItem &it : items_)
      for (int s = it.first; s <= it.last; ++s)
        live[size_t(s)] += it.bytes;
    for (const ArenaOverlay &o : overlays_) {
      const int64_t over = items_[o.over].bytes, under = items_[o.under].bytes;
      live[size_t(o.step)] -=
          std::max<int64_t>(0, over + under - std::max(over, under + o.distance));
    }
    return *std::max_element(live.begin(), live.end());
  }

  /// Items by falling key, equal ones as they come.
  template <class Key> std::vector<unsigned> by(Key key) const {
    std::vector<unsigned> order(items_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](unsigned a, unsigned b) { return key(items_[a]) > key(items_[b]); });
    return order;
  }

  /// The lowest place of item n over or under a partner that has one, where it meets nothing else;
  /// −1 when there is none in the pool.
  int64_t besidePartners(unsigned n, llvm::ArrayRef<unsigned> placed,
                         const std::vector<int64_t> &places, const Pool &pool) const {
    int64_t best = -1;
    for (const Partner &partner : partners_[n]) {
      const int64_t at = places[partner.item] + partner.offset, end = at + items_[n].bytes;
      if (!llvm::is_contained(placed, partner.item) || at < pool.begin ||
          end - pool.begin > pool.bytes || (best >= 0 && at >= best))
        continue;
      const bool fits = llvm::all_of(placed, [&](unsigned p) {
        return !meets_[size_t(n) * items_.size() + p] || end <= places[p] ||
               places[p] + items_[p].bytes <= at ||
               llvm::any_of(partners_[n], [&](const Partner &other) {
                 return other.item == p && at == places[p] + other.offset;
               });
      });
      if (fits)
        best = at;
    }
    return best;
  }

  /// Places all items in an order; remembers it where the arena becomes smaller than before.
  void attempt(llvm::ArrayRef<unsigned> order) {
    std::vector<int64_t> at(items_.size());
    std::vector<unsigned> placed; // by place
    const auto before = [&](unsigned a, unsigned b) {
      return std::make_pair(at[a], items_[a].bytes) < std::make_pair(at[b], items_[b].bytes);
    };
    int64_t top = 0;
    std::vector<Range> busy;
    for (unsigned n : order) {
      busy.clear();
      for (unsigned p : placed)
        if (meets_[size_t(n) * items_.size() + p])
          busy.push_back({at[p], at[p] + items_[p].bytes});
      for (const Pool &pool : pools_) {
        const auto gap = bestGap(busy, items_[n].bytes, pool);
        const int64_t beside = besidePartners(n, placed, at, pool);
        if (!gap && beside < 0)
          continue;
        at[n] = beside >= 0 && (!gap || beside < *gap) ? beside : *gap;
        break;
      }
      top = std::max(top, at[n] + items_[n].bytes);
      if (top >= top_)
        return;
      placed.insert(std::upper_bound(placed.begin(), placed.end(), n, before), n);
    }
    top_ = top;
    best_ = at;
    bestOrder_ = order.vec();
  }

  /// An item that may share bytes: where this one begins `offset` bytes behind its beginning.
  struct Partner {
    unsigned item;
    int64_t offset;
  };

  llvm::ArrayRef<ArenaItem> items_;
  llvm::ArrayRef<ArenaOverlay> overlays_;
  llvm::SmallVector<Pool, 2> pools_;
  std::vector<uint8_t> meets_;                          // items by items
  std::vector<llvm::SmallVector<Partner, 2>> partners_; // by item
  std::vector<int64_t> best_;
  std::vector<unsigned> bestOrder_;
  int64_t top_ = INT64_MAX;
};

} // namespace

int64_t alignInArena(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

ArenaLayout layOutArena(llvm::ArrayRef<ArenaItem> items,
                        llvm::function_ref<bool(unsigned, unsigned)> meet,
                        llvm::ArrayRef<ArenaOverlay> overlays, llvm::ArrayRef<Pool> pools) {
  return Placer(items, meet, overlays, pools).run();
}

} // namespace tenon
