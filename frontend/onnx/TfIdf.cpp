// Imports TfIdfVectorizer: how often each of a pool of n-grams occurs in a row of items, weighted.
#include "frontend/onnx/Operators.h"

#include <algorithm>

namespace tenon::frontend {
namespace {

/// Of the result: a wrong number must not claim all memory.
constexpr int64_t kMostColumns = 1 << 24;
/// Of the rows, each an operand: one for every item of an n-gram, at every distance.
constexpr int64_t kMostWindows = 4096;

struct Pool {
  Ints items;  // n-grams one after the other, shorter ones first
  Ints starts; // of the n-grams of length 1, 2, ...
  Ints columns;
};

/// How often the n-grams of `length` occur in `x` [rows, items], items `distance` apart: f32
/// [rows, n-grams]; null after an error.
Value *occurrences(Node &n, Value *x, llvm::ArrayRef<int64_t> grams, int64_t length,
                   int64_t distance) {
  const Dim rows = x->type().dim(0), items = x->type().dim(1);
  const Dim starts = items - (length - 1) * distance;
  const int64_t count = int64_t(grams.size()) / length;
  llvm::SmallVector<Value *, 8> operands;
  std::vector<IndexMap> maps;
  for (int64_t k = 0; k < length; ++k) {
    Ints wanted;
    for (int64_t g = 0; g < count; ++g)
      wanted.push_back(grams[size_t(g * length + k)]);
    operands.push_back(sliceAlong(n.b, x, 1, n.dim(k * distance), starts, 1));
    maps.push_back({0, 1});
    operands.push_back(n.b.constant(Tensor::fromInts(wanted)));
    maps.push_back({2});
    if (!operands[operands.size() - 2])
      return nullptr;
  }
  Value *found = pointwise(n.b, operands, maps, {rows, starts, n.dim(count)},
                           [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                             Value *all = nullptr;
                             for (size_t k = 0; k < a.size(); k += 2) {
                               Value *same = s(Op::Equal, a[k], a[k + 1]);
                               all = all ? s(Op::LogicalAnd, all, same) : same;
                             }
                             return s.cast(all, Element::F32);
                           });
  return found ? sum(n.b, found, {1}) : nullptr;
}

/// Text as the place of each item among all of the pool; −1 for what is not there.
Value *numbered(Node &n, Value *x, Ints &items) {
  Strings keys;
  for (const std::string &word : n.stringsAttr("pool_strings")) {
    const auto known = llvm::find(keys, word);
    items.push_back(known - keys.begin());
    if (known == keys.end())
      keys.push_back(word);
  }
  return n.b.value(Op::TextMap, {x}, {{"function", Word{"index"}}, {"keys", keys}});
}

/// The n-grams that are counted: their columns, and f32 [rows, n-grams] of each length.
struct GramCounts {
  Ints columns;
  llvm::SmallVector<Value *, 4> counts;
};

/// False after an error.
bool countGrams(Node &n, Value *x, const Pool &pool, GramCounts &out) {
  const int64_t shortest = n.intAttr("min_gram_length", 1),
                longest = n.intAttr("max_gram_length", 1), skips = n.intAttr("max_skip_count", 0);
  const Dim items = x->type().dim(1);
  if (shortest < 1 || longest < shortest || skips < 0 || pool.columns.empty() ||
      !items.isConstant()) {
    n.error("expected n-grams of 1 and more items in rows of a known length, found lengths " +
            std::to_string(shortest) + " to " + std::to_string(longest) + " in " +
            toString(n.type(0)));
    return false;
  }
  size_t gram = 0;
  int64_t windows = 0;
  for (int64_t length = 1; length <= int64_t(pool.starts.size()); ++length) {
    const int64_t begin = pool.starts[size_t(length) - 1];
    const int64_t end = length < int64_t(pool.starts.size()) ? pool.starts[size_t(length)]
                                                             : int64_t(pool.items.size());
    const bool fits = begin >= 0 && begin <= end && end <= int64_t(pool.items.size()) &&
                      (end - begin) % length == 0;
    const size_t count = fits ? size_t((end - begin) / length) : 0;
    if (!fits || gram + count > pool.columns.size()) {
      n.error("attributes ngram_counts, ngram_indexes and the pool do not fit each other");
      return false;
    }
    const auto grams = llvm::makeArrayRef(pool.items).slice(size_t(begin), size_t(end - begin));
    Value *total = nullptr;
    for (int64_t distance = 1; distance - 1 <= (length == 1 ? 0 : skips); ++distance) {
      if (length < shortest || length > longest || !count ||
          length - 1 > (items.constant() - 1) / distance)
        break;
      if ((windows += length) > kMostWindows) {
        n.error("attribute max_skip_count: found " + std::to_string(skips) + " for rows of " +
                std::to_string(items.constant()) + " items, more than " +
                std::to_string(kMostWindows) + " windows; expected a smaller one");
        return false;
      }
      Value *found = occurrences(n, x, grams, length, distance);
      if (!found)
        return false;
      total = total ? n.b.pointwise(Op::Add, {total, found}) : found;
    }
    if (total) {
      out.counts.push_back(total);
      out.columns.insert(out.columns.end(), pool.columns.begin() + gram,
                         pool.columns.begin() + gram + count);
    }
    gram += count;
  }
  return true;
}

/// The counts in their columns, f32 [rows, `width`]; n-grams that are not counted are zeros.
Value *inColumns(Node &n, GramCounts grams, Dim rows, int64_t width) {
  grams.counts.push_back(n.b.broadcastTo(n.b.scalarConstant(Element::F32, 0), {rows, n.dim(1)}));
  Ints from(size_t(width), int64_t(grams.columns.size()));
  for (size_t i = 0; i < grams.columns.size(); ++i)
    from[size_t(grams.columns[i])] = int64_t(i);
  Value *all = n.b.value(Op::Concat, grams.counts, {{"axis", int64_t(1)}});
  return all ? n.b.value(Op::Gather, {all, n.b.constant(Tensor::fromInts(from))},
                         {{"axis", int64_t(1)}})
             : nullptr;
}

/// `y` times the weights, or for IDF those of the n-grams that occur; null after an error.
Value *weighted(Node &n, Value *y, const std::string &mode, int64_t width) {
  const Floats weights = n.floatsAttr("weights");
  if (!weights.empty() && int64_t(weights.size()) != width) {
    n.error("attribute weights: expected " + std::to_string(width) + " numbers, found " +
            std::to_string(weights.size()));
    return nullptr;
  }
  Tensor w(Element::F32, {width});
  for (int64_t i = 0; i < width; ++i)
    w.set(i, weights.empty() ? 1 : weights[size_t(i)]);
  return pointwise(n.b, {y, n.b.constant(w)}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    return mode == "TFIDF" ? s(Op::Mul, a[0], a[1])
                           : s(Op::Select, s(Op::Greater, a[0], s.c(0)), a[1], s.c(0));
  });
}

} // namespace

void importTfIdfVectorizer(Node &n) {
  const std::string mode = n.stringAttr("mode", "TF");
  if (!n.checkRank(0, 1, 2))
    return;
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    n.error("attribute mode: expected TF, IDF or TFIDF, found '" + mode + "'");
    return;
  }
  Pool pool{n.intsAttr("pool_int64s"), n.intsAttr("ngram_counts"), n.intsAttr("ngram_indexes")};
  Value *x = n.input(0);
  if (n.element(0) == Element::String) {
    pool.items.clear();
    x = numbered(n, x, pool.items);
  } else {
    x = n.b.cast(x, Element::I64);
  }
  const bool one = n.rank(0) == 1;
  if (x && one)
    x = n.b.reshape(x, {n.dim(1), x->type().dim(0)});
  GramCounts grams;
  if (!x || !countGrams(n, x, pool, grams))
    return;
  const auto [first, last] = std::minmax_element(pool.columns.begin(), pool.columns.end());
  if (*first < 0 || *last >= kMostColumns) {
    n.error("attribute ngram_indexes: expected columns from 0 to " +
            std::to_string(kMostColumns - 1) + ", found " + std::to_string(*first) + " to " +
            std::to_string(*last));
    return;
  }
  const int64_t width = *last + 1;
  Value *y = inColumns(n, std::move(grams), x->type().dim(0), width);
  if (y && mode != "TF")
    y = weighted(n, y, mode, width);
  n.set(0, y && one ? n.b.reshape(y, {n.dim(width)}) : y);
}

} // namespace tenon::frontend
