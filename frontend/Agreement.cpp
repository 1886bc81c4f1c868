// Implements the look for what would make extents agree.
//
//   tensor<{N}x4x{S}x{S}>  and  tensor<{N}x1x1x{min(S, T)}>    where T is S
//   tensor<{N}x{S}x64>     and  tensor<1x{min(S, 32)}x64>      where S is at most 32
//   tensor<{N}x32x64>      and  tensor<1x{min(S, 32)}x64>      where S is at least 32
//   tensor<1x8x{H}x{W}>    and  tensor<1x8x{floordiv((H + 1), 2) * 2}x...>  where H is even
//   tensor<{N}x{S}x64>     and  tensor<2x1x64>                 where N is 2
//
// Exporters give each input's dimension a name of its own where nobody says that they are equal,
// slice tables of positions to the length of a text, and write what a tensor has while they trace.
// Networks halve an image and join it with what they double. Symbols are replaced in the
// expressions of both extents: where these are equal then, that is what to say.
#include "frontend/Agreement.h"

#include "frontend/PositionTables.h"
#include "frontend/onnx/Node.h"
#include "ir/BornExtents.h"

#include <set>

namespace tenon::frontend {
namespace {

using Pair = std::pair<Dim, Dim>;

/// `d` with `by` in place of a symbol.
Dim replaced(Dim d, Dim symbol, Dim by) {
  if (d == symbol)
    return by;
  const DimNode *n = d.node();
  if (!n->lhs)
    return d;
  const Dim a = replaced(Dim(n->lhs), symbol, by), b = replaced(Dim(n->rhs), symbol, by);
  switch (n->kind) {
  case DimKind::Add: return a + b;
  case DimKind::Mul: return a * b;
  case DimKind::FloorDiv: return floorDiv(a, b);
  case DimKind::Min: return min(a, b);
  case DimKind::Max: return max(a, b);
  case DimKind::Constant:
  case DimKind::Symbol: break;
  }
  return d;
}

/// The smallest constant that a minimum within `d` has, or a maximum, as in n + 8 - max(n, 8);
/// `least` where that is smaller.
int64_t smallestCut(const DimNode *d, int64_t least, bool inMaxima = false) {
  if (!d->lhs)
    return least;
  if (d->kind == DimKind::Min || (inMaxima && d->kind == DimKind::Max))
    for (const DimNode *side : {d->lhs, d->rhs})
      if (side->kind == DimKind::Constant)
        least = std::min(least, side->value);
  return smallestCut(d->rhs, smallestCut(d->lhs, least, inMaxima), inMaxima);
}

/// That an extent of an operand is cut to fewer rows than a decoder's caches hold, such as a square
/// of masks to the model's positions.
std::string cutBelowCapacity(const ImportOptions &options,
                             llvm::ArrayRef<TensorOrSequence> operands) {
  if (!options.decoder)
    return "";
  const int64_t capacity = options.decoder->request.capacity;
  int64_t most = capacity;
  for (const TensorOrSequence &operand : operands)
    if (const Value *v = operand.tensor(); v && v->type().isTensor())
      for (Dim d : v->type().shape())
        most = smallestCut(d.node(), most);
  return most == capacity ? ""
                          : "--decoder: the caches hold " + std::to_string(capacity) +
                                " tokens, and an extent is cut to " + std::to_string(most) +
                                expectedAtMost(most);
}

/// Elements of a tensor of `elements` in another shape, one of whose extents may be -1.
Dim reshaped(Dim elements, llvm::ArrayRef<Dim> shape) {
  Dim others = elements.node()->context->dim(1);
  bool open = false;
  for (const Dim d : shape)
    if (d.isConstant(-1))
      open = true;
    else
      others = others * d;
  return open ? floorDiv(elements, others) * others : others;
}

/// Extents that a node may want to be equal: those at one place, counted from the last, and the
/// elements of the first operand and of the shape that the second one is.
llvm::SmallVector<Pair, 8> pairsOf(llvm::ArrayRef<TensorOrSequence> operands) {
  llvm::SmallVector<Pair, 8> pairs;
  auto add = [&](Dim a, Dim b) {
    if (a != b && !a.isConstant(1) && !b.isConstant(1) && !(a.isConstant() && b.isConstant()))
      pairs.push_back({a, b});
  };
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t k = i + 1; k < operands.size(); ++k) {
      Value *const x = operands[i].tensor(), *const y = operands[k].tensor();
      if (!x || !y || !x->type().isTensor() || !y->type().isTensor())
        continue;
      const Type a = x->type(), b = y->type();
      if (const auto shape = i == 0 && k == 1 && b.rank() == 1 ? knownShape(y) : llvm::None) {
        add(a.elements(), reshaped(a.elements(), *shape));
        continue;
      }
      for (unsigned d = 1; d <= std::min(a.rank(), b.rank()); ++d)
        add(a.dim(a.rank() - d), b.dim(b.rank() - d));
    }
  return pairs;
}

/// Whether the extents are equal with other values in place of symbols.
bool agree(Pair extents, llvm::ArrayRef<Pair> places) {
  for (const auto &[symbol, by] : places)
    extents = {replaced(extents.first, symbol, by), replaced(extents.second, symbol, by)};
  return extents.first == extents.second;
}

std::string rangeOf(const std::string &name, int64_t lower, int64_t upper) {
  return "--range " + name + "=" + std::to_string(lower) + ".." + std::to_string(upper);
}

/// The product of the different constants that quotients in `d` are of, up to `most`.
int64_t productOfDivisors(const DimNode *d, int64_t most, std::set<int64_t> &seen) {
  if (!d->lhs)
    return 1;
  int64_t product = d->kind == DimKind::FloorDiv && d->rhs->kind == DimKind::Constant &&
                            seen.insert(d->rhs->value).second
                        ? std::min(most, d->rhs->value)
                        : 1;
  product = std::min(most, product * productOfDivisors(d->lhs, most, seen));
  return std::min(most, product * productOfDivisors(d->rhs, most, seen));
}

/// Symbols of the first pair, and of others that need the same, as multiples of the smallest number
/// that makes them agree.
std::string multiples(llvm::ArrayRef<Pair> pairs, llvm::ArrayRef<Dim> symbols) {
  constexpr int64_t kMost = 512;
  std::set<int64_t> seen;
  const int64_t most = std::min(kMost, productOfDivisors(pairs[0].first.node(), kMost, seen) *
                                           productOfDivisors(pairs[0].second.node(), kMost, seen));
  for (int64_t factor = 2; factor <= most; ++factor) {
    llvm::SmallVector<Pair, 4> places, others;
    for (const Dim s : symbols) {
      if ((s.lower() + factor - 1) / factor > s.upper() / factor)
        continue;
      // Nothing of the module has this symbol. It is open far beyond the range: that decides no
      // quotient.
      const Dim units = s.node()->context->symbol(s.symbol().str() + " units", 1, 1 << 20);
      const bool first = mentions(pairs[0].first, s) || mentions(pairs[0].second, s);
      (first ? places : others).push_back({s, units * factor});
    }
    if (!agree(pairs[0], places))
      continue;
    for (size_t i = places.size(); i-- > 0;) {
      llvm::SmallVector<Pair, 4> less(places);
      less.erase(less.begin() + int64_t(i));
      if (agree(pairs[0], less))
        places = less;
    }
    for (const Pair &p : pairs.drop_front())
      for (const Pair &other : others)
        if (!agree(p, places) && agree(p, other) && !llvm::is_contained(places, other))
          places.push_back(other);
    std::string names, bind, ranges;
    for (const Pair &place : places) {
      const Dim s = place.first;
      const std::string name = s.symbol().str(), units = name + std::to_string(factor);
      names += (names.empty() ? "" : " and ") + quoted(name);
      bind += (bind.empty() ? " --bind " : ",") + name + "=" + units + "*" + std::to_string(factor);
      ranges += " " + rangeOf(units, (s.lower() + factor - 1) / factor, s.upper() / factor);
    }
    return "they agree where " + names +
           (places.size() > 1 ? " are multiples of " : " is a multiple of ") +
           std::to_string(factor) + ":" + bind + ranges;
  }
  return "";
}

/// How to say that symbol `s` is from `lower` to `upper`, where the pair agrees then; else empty.
std::string within(const Pair &pair, Dim s, int64_t lower, int64_t upper) {
  // Nothing of the module has this symbol.
  const Dim narrower = s.node()->context->symbol(
      s.symbol().str() + " from " + std::to_string(lower) + " to " + std::to_string(upper), lower,
      upper);
  if (!agree(pair, Pair{s, narrower}))
    return "";
  const bool most = lower == s.lower();
  return "they agree as long as " + quoted(s.symbol().str()) + " is at " +
         (most ? "most " : "least ") + std::to_string(most ? upper : lower) + ": " +
         rangeOf(s.symbol().str(), lower, upper);
}

/// The least value of `s`, within the lower half of its range, from which on the pair agrees.
std::string fromLeast(const Pair &pair, Dim s) {
  int64_t fails = s.lower(), agrees = s.lower() + (s.upper() - s.lower()) / 2;
  if (agrees == fails || within(pair, s, agrees, s.upper()).empty())
    return "";
  while (agrees - fails > 1) { // from where on it agrees, it agrees from every larger value on
    const int64_t middle = fails + (agrees - fails) / 2;
    (within(pair, s, middle, s.upper()).empty() ? fails : agrees) = middle;
  }
  return within(pair, s, agrees, s.upper());
}

/// The smallest value of a symbol with which all pairs agree. Pairs that the node does not ask to
/// be equal have no such value in common.
std::string constantOf(llvm::ArrayRef<Pair> pairs, llvm::ArrayRef<Dim> symbols) {
  constexpr int64_t kMostTried = 4096;
  for (const Dim s : symbols)
    for (int64_t c = s.lower(); c <= std::min(s.upper(), s.lower() + kMostTried); ++c)
      if (llvm::all_of(pairs, [&](const Pair &p) {
            return agree(p, Pair{s, s.node()->context->dim(c)});
          }))
        return "they agree where " + quoted(s.symbol().str()) + " is " + std::to_string(c) +
               ", which the model may have been traced with: --bind " + s.symbol().str() + "=" +
               std::to_string(c);
  return "";
}

} // namespace

std::string agreement(const ModelImport &state, llvm::ArrayRef<TensorOrSequence> operands) {
  if (std::string cut = cutBelowCapacity(state.options, operands); !cut.empty())
    return cut;
  const auto pairs = pairsOf(operands);
  const auto inputs = llvm::makeArrayRef(state.symbols).take_front(state.inputSymbols);
  for (size_t at = 0; at < pairs.size(); ++at) {
    const auto &[a, b] = pairs[at];
    llvm::SmallVector<Dim, 4> symbols; // in order of declaration
    for (const Dim s : inputs)
      if (mentions(a, s) || mentions(b, s))
        symbols.push_back(s);
    for (size_t i = 0; i < symbols.size(); ++i)
      for (size_t k = i + 1; k < symbols.size(); ++k)
        if (agree(pairs[at], Pair{symbols[k], symbols[i]})) {
          const std::string one = symbols[i].symbol().str(), other = symbols[k].symbol().str();
          return "where " + quoted(one) + " and " + quoted(other) +
                 " are one extent, say so with --bind " + other + "=" + one;
        }
    // Sums of as many on either side, each extent with a name of its own: in order of declaration.
    llvm::SmallVector<Dim, 4> left, right;
    for (const Dim s : symbols)
      if (mentions(a, s) != mentions(b, s))
        (mentions(a, s) ? left : right).push_back(s);
    llvm::SmallVector<Pair, 4> renamed;
    for (size_t i = 0; i < left.size() && left.size() == right.size(); ++i)
      renamed.push_back({right[i], left[i]});
    if (renamed.size() > 1 && agree(pairs[at], renamed)) {
      std::string names;
      for (const auto &[from, to] : renamed)
        names += (names.empty() ? "" : ",") + from.symbol().str() + "=" + to.symbol().str();
      return "they agree where extents have one name each, such as --bind " + names;
    }
    const int64_t cut = smallestCut(a.node(), smallestCut(b.node(), INT64_MAX, true), true);
    for (const Dim s : symbols)
      for (const auto &[lower, upper] : {std::pair(s.lower(), cut), std::pair(cut, s.upper())}) {
        if (lower > upper || lower < s.lower() || upper > s.upper())
          continue;
        if (std::string range = within(pairs[at], s, lower, upper); !range.empty())
          return range;
      }
    for (const Dim s : symbols)
      if (std::string range = fromLeast(pairs[at], s); !range.empty())
        return range;
    if (std::string all = multiples(llvm::makeArrayRef(pairs).drop_front(at), inputs); !all.empty())
      return all;
  }
  return pairs.empty() ? "" : constantOf(pairs, inputs);
}

} // namespace tenon::frontend
