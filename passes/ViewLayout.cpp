// Implements the search for view layouts by strides.
//
// Strides are computed with symbols set to large primes. A dense layout that fits then fits for
// all values: strides are products of extents, and primes that divide none of the constant ones
// keep different products apart. Windows that are made up for other shapes than static ones are
// compared with the symbols' own strides (reshapeOffset).
#include "passes/ViewLayout.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace tenon {
namespace {

constexpr int64_t kShortestRun = 16; // bytes

llvm::Optional<int64_t> primeOf(llvm::StringRef symbol, void *) {
  static const int64_t kPrimes[] = {7919, 7927, 7933, 7937, 7949, 7951, 7963, 7993};
  unsigned sum = 0;
  for (char c : symbol)
    sum = sum * 31 + uint8_t(c);
  return kPrimes[sum % 8];
}

int64_t extent(Dim d) {
  llvm::Optional<int64_t> v = evaluate(d, primeOf, nullptr);
  return v ? *v : -1;
}

struct Placement {
  llvm::SmallVector<int64_t, 6> extents, strides;
  int64_t offset = 0, allocated = 1;
  llvm::SmallVector<int64_t, 2> rooms; // of axes that grow
};

/// Whether an axis of symbolic extent has memory for its largest.
bool isRoom(Dim alloc, Dim extent) { return alloc.isConstant() && !extent.isConstant(); }

llvm::Optional<Placement> placement(Type t) {
  if (!t.isTensor() || t.layout().hasBlocks())
    return llvm::None;
  Placement p;
  for (Dim d : t.shape()) {
    p.extents.push_back(extent(d));
    if (p.extents.back() < 0)
      return llvm::None;
  }
  p.strides.assign(t.rank(), 0);
  auto place = [&](unsigned dim, int64_t n, int64_t origin) {
    p.strides[dim] = p.allocated;
    p.offset += p.allocated * origin;
    p.allocated *= n;
  };
  if (t.layout().isRowMajor()) {
    for (unsigned i = t.rank(); i-- > 0;)
      place(i, p.extents[i], 0);
    return p;
  }
  llvm::ArrayRef<LayoutAxis> axes = t.layout().axes();
  for (size_t i = axes.size(); i-- > 0;) {
    const auto d = unsigned(axes[i].dim);
    // The room of an axis that grows comes on top of its extent, so that it is larger for primes.
    const int64_t grows = axes[i].alloc && isRoom(axes[i].alloc, t.dim(d)) ? p.extents[d] : 0;
    if (grows)
      p.rooms.push_back(axes[i].alloc.constant());
    place(d, axes[i].alloc ? grows + extent(axes[i].alloc) : p.extents[d], axes[i].origin);
  }
  return p;
}

bool sameStrides(const Placement &a, const Placement &b) {
  if (a.offset != b.offset)
    return false;
  for (size_t i = 0; i < a.extents.size(); ++i)
    if (a.extents[i] > 1 && a.strides[i] != b.strides[i])
      return false;
  return true;
}

/// Strides with which the elements of `from` appear under another shape, unit extents getting 0;
/// false when no strides do it.
bool reshapeStrides(const Placement &from, llvm::ArrayRef<int64_t> shape,
                    llvm::SmallVectorImpl<int64_t> &strides) {
  strides.assign(shape.size(), 0);
  llvm::SmallVector<int64_t, 6> n, s; // operand dimensions other than 1
  for (size_t i = 0; i < from.extents.size(); ++i)
    if (from.extents[i] != 1) {
      n.push_back(from.extents[i]);
      s.push_back(from.strides[i]);
    }
  size_t i = 0, k = 0;
  while (k < shape.size()) {
    if (shape[k] == 1) {
      ++k;
      continue;
    }
    // Take dimensions on both sides until they cover the same elements.
    size_t i1 = i, k1 = k;
    int64_t a = 1, b = 1;
    do {
      if (a <= b) {
        if (i1 == n.size())
          return false;
        a *= n[i1++];
      } else {
        while (k1 < shape.size() && shape[k1] == 1)
          ++k1;
        if (k1 == shape.size())
          return false;
        b *= shape[k1++];
      }
    } while (a != b || b == 1);
    for (size_t j = i; j + 1 < i1; ++j)
      if (s[j] != s[j + 1] * n[j + 1])
        return false; // a gap inside what the result would run through evenly
    int64_t stride = s[i1 - 1];
    for (size_t j = k1; j-- > k;)
      if (shape[j] != 1) {
        strides[j] = stride;
        stride *= shape[j];
      }
    i = i1;
    k = k1;
  }
  return i == n.size();
}

/// The layout of a type with the given strides (0 at unit extents), or None.
llvm::Optional<Layout> layoutFromStrides(Type t, const Placement &p) {
  Context &c = t.context();
  for (Layout l : {Layout(), Layout::channelsLast(c, t.rank())}) {
    auto q = placement(t.withLayout(l));
    if (q && q->allocated == p.allocated && sameStrides(*q, p))
      return l;
  }
  llvm::SmallVector<int, 6> order;
  for (unsigned i = 0; i < t.rank(); ++i)
    order.push_back(int(i));
  // A unit dimension stands just outside the next larger one in logical order, a leading one
  // outside all.
  llvm::SmallVector<int64_t, 6> key(p.strides.begin(), p.strides.end());
  for (size_t i = key.size(), last = 1; i-- > 0;) {
    if (p.extents[i] == 1)
      key[i] = int64_t(last);
    else
      last = size_t(key[i] * p.extents[i]);
  }
  for (size_t i = 0; i < key.size() && p.extents[i] == 1; ++i)
    key[i] = INT64_MAX;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key[a] > key[b]; });
  {
    Layout l = Layout::permuted(c, order);
    auto q = placement(t.withLayout(l));
    if (q && q->allocated == p.allocated && sameStrides(*q, p))
      return l;
  }
  // Windows: allocated extents are the quotients of neighbouring strides.
  llvm::SmallVector<LayoutAxis, 6> axes(order.size());
  int64_t stride = 1, offset = p.offset;
  llvm::SmallVector<int64_t, 6> alloc(order.size());
  for (size_t i = order.size(); i-- > 0;) {
    const int d = order[i];
    int64_t outer = p.allocated;
    for (size_t j = i; j-- > 0;)
      if (p.extents[order[j]] != 1) {
        outer = p.strides[order[j]];
        break;
      }
    axes[i].dim = d;
    if (p.extents[d] == 1) {
      alloc[i] = 1;
      continue;
    }
    if (p.strides[d] != stride || outer % stride || outer / stride < p.extents[d])
      return llvm::None;
    alloc[i] = outer / stride;
    stride = outer;
  }
  if (stride != p.allocated)
    return llvm::None;
  int64_t step = p.allocated;
  for (size_t i = 0; i < order.size(); ++i) {
    step /= alloc[i];
    axes[i].origin = offset / step;
    offset %= step;
    const int64_t n = p.extents[order[i]];
    if (axes[i].origin + n > alloc[i])
      return llvm::None;
    if (alloc[i] == n)
      continue;
    const bool grows = !t.dim(unsigned(order[i])).isConstant();
    if (grows && !llvm::is_contained(p.rooms, alloc[i] - n))
      return llvm::None; // a window whose size depends on symbols has no layout
    axes[i].alloc = c.dim(grows ? alloc[i] - n : alloc[i]);
  }
  if (offset != 0)
    return llvm::None;
  return Layout::get(c, axes);
}

llvm::SmallVector<LayoutAxis, 6> axesOf(Type t) {
  llvm::SmallVector<LayoutAxis, 6> axes;
  if (!t.layout().isRowMajor()) {
    axes.append(t.layout().axes().begin(), t.layout().axes().end());
    return axes;
  }
  for (unsigned i = 0; i < t.rank(); ++i)
    axes.push_back({int(i), 0, false, Dim(), 0});
  return axes;
}

} // namespace

llvm::Optional<Layout> reshapeLayout(Type from, Type to) {
  if (from.layout().isRowMajor())
    return Layout();
  auto p = placement(from);
  if (!p)
    return llvm::None;
  Placement q;
  for (Dim d : to.shape())
    q.extents.push_back(extent(d));
  if (!reshapeStrides(*p, q.extents, q.strides))
    return llvm::None;
  q.offset = p->offset;
  q.allocated = p->allocated;
  q.rooms = p->rooms;
  llvm::Optional<Layout> l = layoutFromStrides(to, q);
  if (l && !l->isDense() && !(from.hasStaticShape() && to.hasStaticShape())) {
    const auto offset = reshapeOffset(from, to.withLayout(*l));
    if (!offset || !offset->isConstant(0))
      return llvm::None;
  }
  return l;
}

llvm::Optional<Layout> operandLayout(const Operation &op, Layout layout) {
  const Type from = op.operand(0)->type(), to = op.result()->type().withLayout(layout);
  if (layout.hasBlocks())
    return llvm::None;
  if (op.is(Op::Reshape))
    return reshapeLayout(to, from);
  if (!op.is(Op::Transpose))
    return llvm::None;
  llvm::SmallVector<LayoutAxis, 6> axes = axesOf(to);
  for (LayoutAxis &a : axes)
    a.dim = int(op.intsAttr("perm")[size_t(a.dim)]);
  return Layout::get(from.context(), axes);
}

std::string whyNotApart(int64_t run, int64_t at, int64_t pitch, int64_t alignment) {
  if (run < kShortestRun)
    return "runs of " + std::to_string(run) + " bytes are too short to be written apart";
  if (run % alignment == 0 && (at % alignment || pitch % alignment))
    return "the window at byte " + std::to_string(at) + " of " + std::to_string(pitch) +
           " breaks the alignment of " + std::to_string(alignment) + " bytes";
  return "";
}

llvm::Optional<Layout> viewLayout(const Operation &op) {
  return viewLayout(op, op.operand(0)->type());
}

llvm::Optional<Layout> viewLayout(const Operation &op, Type from) {
  const Type to = op.result()->type();
  if (!from.isTensor() || from.layout().hasBlocks())
    return llvm::None;
  Context &c = from.context();
  switch (op.kind()) {
  case Op::Reshape: return reshapeLayout(from, to);
  case Op::Transpose: {
    const Ints &perm = op.intsAttr("perm");
    llvm::SmallVector<int, 6> inverse(perm.size());
    for (size_t i = 0; i < perm.size(); ++i)
      inverse[perm[i]] = int(i);
    llvm::SmallVector<LayoutAxis, 6> axes = axesOf(from);
    for (LayoutAxis &a : axes)
      a.dim = inverse[a.dim];
    return Layout::get(c, axes);
  }
  case Op::Slice: {
    Type t = from;
    for (unsigned d = 0; d < from.rank(); ++d) {
      Dim start = op.dimsAttr("starts")[d];
      if (op.intsAttr("steps")[d] != 1 && !to.dim(d).isConstant(1))
        return llvm::None;
      if (!start.isConstant())
        return llvm::None;
      if (from.dim(d) != to.dim(d) || !start.isConstant(0))
        t = t.withLayout(windowLayout(t, d, start.constant()));
    }
    return t.layout();
  }
  default: return llvm::None;
  }
}

bool samePlacement(Type a, Type b) {
  if (a.layout() == b.layout())
    return true;
  auto p = placement(a), q = placement(b);
  return p && q && p->allocated == q->allocated && sameStrides(*p, *q);
}

bool needsKernel(const Operation &op) {
  return !op.isTerminator() && !op.isAny(Op::Constant, Op::Group, Op::If, Op::Loop) && !isView(op);
}

} // namespace tenon
