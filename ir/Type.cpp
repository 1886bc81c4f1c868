// Implements types, layouts and the addressing that follows from them.
#include "ir/Type.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace tenon {

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

Layout Layout::get(Context &c, llvm::ArrayRef<LayoutAxis> axes) {
  bool plain = true;
  for (size_t i = 0; i < axes.size(); ++i)
    plain &= axes[i] == LayoutAxis{int(i), 0, false, Dim(), 0};
  if (plain)
    return Layout();
  LayoutStorage s;
  s.axes.append(axes.begin(), axes.end());
  return Layout(c.unique(std::move(s)));
}

Layout Layout::permuted(Context &c, llvm::ArrayRef<int> order) {
  llvm::SmallVector<LayoutAxis, 6> axes;
  for (int d : order)
    axes.push_back({d, 0, false, Dim(), 0});
  return get(c, axes);
}

Layout Layout::channelsLast(Context &c, unsigned rank) {
  if (rank < 3)
    return Layout();
  llvm::SmallVector<int, 6> order{0};
  for (unsigned i = 2; i < rank; ++i)
    order.push_back(int(i));
  order.push_back(1);
  return permuted(c, order);
}

bool Layout::hasBlocks() const {
  for (const LayoutAxis &a : axes())
    if (a.block)
      return true;
  return false;
}

bool Layout::isDense() const {
  for (const LayoutAxis &a : axes())
    if (a.alloc || a.origin)
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Type
//===----------------------------------------------------------------------===//

Type Type::tensor(Context &c, Element e, llvm::ArrayRef<Dim> shape, Layout layout, Space space) {
  TypeStorage s;
  s.element = e;
  s.shape.append(shape.begin(), shape.end());
  s.layout = layout;
  s.space = space;
  return Type(c.unique(std::move(s)));
}

Type Type::tensor(Context &c, Element e, llvm::ArrayRef<int64_t> shape, Layout layout) {
  llvm::SmallVector<Dim, 6> dims;
  for (int64_t d : shape)
    dims.push_back(c.dim(d));
  return tensor(c, e, dims, layout);
}

Type Type::scalar(Context &c, Element e) {
  TypeStorage s;
  s.kind = TypeKind::Scalar;
  s.element = e;
  return Type(c.unique(std::move(s)));
}

Type Type::sequence(Type inner) {
  TypeStorage s;
  s.kind = TypeKind::Sequence;
  s.inner = inner.storage();
  return Type(inner.context().unique(std::move(s)));
}

Type Type::optional(Type inner) {
  TypeStorage s;
  s.kind = TypeKind::Optional;
  s.inner = inner.storage();
  return Type(inner.context().unique(std::move(s)));
}

namespace {
int64_t saturatingProduct(llvm::ArrayRef<int64_t> factors) {
  int64_t n = 1;
  if (llvm::is_contained(factors, 0))
    return 0;
  for (int64_t f : factors)
    if (llvm::MulOverflow(n, f, n))
      return INT64_MAX;
  return n;
}
} // namespace

bool Type::hasStaticShape() const {
  for (Dim d : shape())
    if (!d.isConstant())
      return false;
  return true;
}

llvm::SmallVector<int64_t, 6> Type::staticShape() const {
  llvm::SmallVector<int64_t, 6> s;
  for (Dim d : shape())
    s.push_back(d.constant());
  return s;
}

llvm::SmallVector<int64_t, 6> Type::upperShape() const {
  llvm::SmallVector<int64_t, 6> s;
  for (Dim d : shape())
    s.push_back(d.upper());
  return s;
}

int64_t Type::upperElements() const {
  // The polynomial knows how extents depend on each other, as long as it has few terms.
  return std::min(elements().upper(), saturatingProduct(upperShape()));
}

Dim Type::elements() const {
  Dim n = context().dim(1);
  for (Dim d : shape())
    n = n * d;
  return n;
}

Type Type::withLayout(Layout layout) const {
  return tensor(context(), element(), shape(), layout, space());
}
Type Type::withShape(llvm::ArrayRef<Dim> shape) const {
  return tensor(context(), element(), shape, Layout(), space());
}
Type Type::withElement(Element e) const { return tensor(context(), e, shape(), layout(), space()); }

//===----------------------------------------------------------------------===//
// Addressing
//===----------------------------------------------------------------------===//

Addressing addressing(Type t) {
  assert(!t.layout().hasBlocks() && "blocked layouts have no strides");
  Context &c = t.context();
  Addressing a;
  a.strides.assign(t.rank(), c.dim(0));
  a.offset = c.dim(0);
  Dim stride = c.dim(1);
  auto place = [&](int dim, Dim extent, int64_t origin) {
    a.strides[dim] = stride;
    a.offset = a.offset + stride * origin;
    stride = stride * extent;
  };
  if (t.layout().isRowMajor()) {
    for (int i = int(t.rank()) - 1; i >= 0; --i)
      place(i, t.dim(i), 0);
  } else {
    llvm::ArrayRef<LayoutAxis> axes = t.layout().axes();
    for (size_t i = axes.size(); i-- > 0;)
      place(axes[i].dim, axes[i].alloc ? axes[i].alloc : t.dim(axes[i].dim), axes[i].origin);
  }
  a.allocated = stride;
  return a;
}

namespace {
/// 256 TiB. Sums over the values of a graph stay far from overflow.
constexpr int64_t kMaxTensorBytes = int64_t(1) << 48;

/// Extent of one physical axis, where the allocated extent is `n`.
int64_t axisExtent(const LayoutAxis &a, int64_t n) {
  if (a.inner)
    return a.block;
  return a.block && n > 0 ? (n - 1) / a.block + 1 : n;
}
/// The same at the upper bounds.
int64_t axisExtent(Type t, const LayoutAxis &a) {
  return axisExtent(a, (a.alloc ? a.alloc : t.dim(a.dim)).upper());
}

std::string whyNotLaidOut(Type t) {
  for (unsigned d = 0; d < t.rank(); ++d) {
    int64_t room = t.dim(d).upper(), needed = room, block = 1;
    for (const LayoutAxis &a : t.layout().axes()) {
      if (a.dim != int(d))
        continue;
      if (a.origin < 0 || llvm::AddOverflow(needed, a.origin, needed))
        return "layout starts dimension " + std::to_string(d) + " at " + std::to_string(a.origin);
      if (a.alloc)
        room = a.alloc.upper();
      block = std::max(block, a.block);
    }
    if (needed > room && (room < 0 || needed - room > (block - room % block) % block))
      return "layout allocates " + std::to_string(room) + " along dimension " + std::to_string(d) +
             ", which takes " + std::to_string(needed);
  }
  return "";
}
} // namespace

int64_t allocatedElements(Type t) {
  if (t.layout().isRowMajor())
    return t.upperElements();
  llvm::SmallVector<int64_t, 6> extents;
  for (const LayoutAxis &a : t.layout().axes())
    extents.push_back(axisExtent(t, a));
  return saturatingProduct(extents);
}

std::string whyNotInMemory(Type t, bool atMost) {
  auto bound = [&](Dim d) { return atMost ? d.upper() : std::max<int64_t>(d.lower(), 1); };
  auto least = [&](Dim d) { return d.isConstant() ? d.constant() : bound(d); };
  llvm::SmallVector<int64_t, 6> extents;
  if (t.layout().isRowMajor()) {
    for (Dim d : t.shape())
      extents.push_back(least(d));
  } else {
    if (std::string why = whyNotLaidOut(t); !why.empty())
      return why;
    for (const LayoutAxis &a : t.layout().axes())
      extents.push_back(axisExtent(a, least(a.alloc ? a.alloc : t.dim(a.dim))));
  }
  const int64_t most = kMaxTensorBytes / std::max<int64_t>(1, bitWidth(t.element()) / 8);
  if (saturatingProduct(extents) >= most)
    return toString(t) + " takes more memory than any machine has";
  return "";
}

int64_t physicalIndex(Type t, llvm::ArrayRef<int64_t> index) {
  int64_t at = 0;
  if (t.layout().isRowMajor()) {
    for (unsigned i = 0; i < t.rank(); ++i)
      at = at * t.dim(i).upper() + index[i];
    return at;
  }
  // A dimension's origin stands on whichever of its axes carries it.
  llvm::SmallVector<int64_t, 6> shifted(index.begin(), index.end());
  for (const LayoutAxis &a : t.layout().axes())
    shifted[a.dim] += a.origin;
  for (const LayoutAxis &a : t.layout().axes()) {
    int64_t i = shifted[a.dim];
    if (a.block)
      i = a.inner ? i % a.block : i / a.block;
    at = at * axisExtent(t, a) + i;
  }
  return at;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

namespace {
/// The familiar name of a dense channels-last layout, empty for others.
llvm::StringRef familiarName(Layout l) {
  llvm::ArrayRef<LayoutAxis> axes = l.axes();
  unsigned rank = unsigned(axes.size());
  if (rank < 3 || rank > 5 || l.hasBlocks() || !l.isDense())
    return "";
  for (unsigned i = 0; i < rank; ++i)
    if (axes[i].dim != (i == 0 ? 0 : i + 1 == rank ? 1 : int(i) + 1))
      return "";
  return rank == 3 ? "nwc" : rank == 4 ? "nhwc" : "ndhwc";
}
} // namespace

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Layout l) {
  if (l.isRowMajor())
    return os << "rowmajor";
  llvm::StringRef known = familiarName(l);
  if (!known.empty())
    return os << known;
  os << '[';
  const char *comma = "";
  for (const LayoutAxis &a : l.axes()) {
    os << comma << a.dim;
    if (a.block)
      os << (a.inner ? '%' : '/') << a.block;
    if (a.alloc)
      a.alloc.isConstant() ? os << ':' << a.alloc : os << ":{" << a.alloc << '}';
    if (a.origin)
      os << '@' << a.origin;
    comma = ", ";
  }
  return os << ']';
}

llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Type t) {
  if (!t)
    return os << "<no type>";
  switch (t.kind()) {
  case TypeKind::Scalar: return os << name(t.element());
  case TypeKind::Sequence: return os << "seq<" << t.inner() << '>';
  case TypeKind::Optional: return os << "optional<" << t.inner() << '>';
  case TypeKind::Tensor: break;
  }
  os << "tensor<";
  for (Dim d : t.shape()) {
    if (d.isConstant()) // braces, because a symbol's name may hold an x
      os << d << 'x';
    else
      os << '{' << d << "}x";
  }
  os << name(t.element());
  if (!t.layout().isRowMajor())
    os << ", " << t.layout();
  if (t.space() == Space::Host)
    os << ", host";
  return os << '>';
}

std::string toString(Type t) {
  std::string s;
  llvm::raw_string_ostream os(s);
  os << t;
  return s;
}

} // namespace tenon
