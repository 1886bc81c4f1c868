// Implements the look for what would make extents agree.
//
//   tensor<{N}x4x{S}x{S}>  and  tensor<{N}x1x1x{min(S, T)}>    where T is S
//   tensor<{N}x{S}x64>     and  tensor<1x{min(S, 32)}x64>      where S is at most 32
//
// Exporters give each input's dimension a name of its own where nobody says that they are equal,
// and slice tables of positions to the length of a text. Symbols are replaced in the expressions of
// both extents: where these are equal then, that is what to say.
#include "frontend/Agreement.h"

#include "frontend/PositionTables.h"
#include "frontend/onnx/Node.h"
#include "ir/BornExtents.h"

namespace tenon::frontend {
namespace {

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

/// The smallest constant that a minimum within `d` has; `least` where that is smaller.
int64_t smallestCut(const DimNode *d, int64_t least) {
  if (!d->lhs)
    return least;
  if (d->kind == DimKind::Min)
    for (const DimNode *side : {d->lhs, d->rhs})
      if (side->kind == DimKind::Constant)
        least = std::min(least, side->value);
  return smallestCut(d->rhs, smallestCut(d->lhs, least));
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
llvm::SmallVector<std::pair<Dim, Dim>, 8> pairsOf(llvm::ArrayRef<TensorOrSequence> operands) {
  llvm::SmallVector<std::pair<Dim, Dim>, 8> pairs;
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
      for (unsigned d = 1; d <= std::min(a.rank(), b.rank()); ++d)
        add(a.dim(a.rank() - d), b.dim(b.rank() - d));
      if (const auto shape = i == 0 && k == 1 && b.rank() == 1 ? knownShape(y) : llvm::None)
        add(a.elements(), reshaped(a.elements(), *shape));
    }
  return pairs;
}

} // namespace

std::string agreement(const ModelImport &state, llvm::ArrayRef<TensorOrSequence> operands) {
  if (std::string cut = cutBelowCapacity(state.options, operands); !cut.empty())
    return cut;
  for (const auto &[a, b] : pairsOf(operands)) {
    llvm::SmallVector<Dim, 4> symbols; // the inputs', in order of declaration
    for (const Dim s : llvm::makeArrayRef(state.symbols).take_front(state.inputSymbols))
      if (mentions(a, s) || mentions(b, s))
        symbols.push_back(s);
    for (size_t i = 0; i < symbols.size(); ++i)
      for (size_t k = i + 1; k < symbols.size(); ++k)
        if (replaced(a, symbols[k], symbols[i]) == replaced(b, symbols[k], symbols[i])) {
          const std::string one = symbols[i].symbol().str(), other = symbols[k].symbol().str();
          return "where " + quoted(one) + " and " + quoted(other) +
                 " are one extent, say so with --bind " + other + "=" + one;
        }
    const int64_t cut = smallestCut(a.node(), smallestCut(b.node(), INT64_MAX));
    for (const Dim s : symbols) {
      if (cut < s.lower() || cut >= s.upper())
        continue;
      // Nothing of the module has this symbol.
      const Dim less = s.node()->context->symbol(s.symbol().str() + " cut", s.lower(), cut);
      if (replaced(a, s, less) == replaced(b, s, less))
        return "they agree as long as " + quoted(s.symbol().str()) + " is at most " +
               std::to_string(cut) + ": --range " + s.symbol().str() + "=" +
               std::to_string(s.lower()) + ".." + std::to_string(cut);
    }
  }
  return "";
}

} // namespace tenon::frontend
