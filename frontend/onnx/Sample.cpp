// Implements sampling. For each tap of the interpolation a map computes which rows of pixels it
// reads and with what weights, a gather reads them, and one map adds them up.
#include "frontend/onnx/Sample.h"

namespace tenon::frontend {
namespace {

/// One tap for each dimension of an image, numbered from 0; the last dimension varies fastest.
struct Combinations {
  size_t dims, taps;

  size_t count() const {
    size_t all = 1;
    for (size_t d = 0; d < dims; ++d)
      all *= taps;
    return all;
  }
  /// Number among all dimensions' taps of the one that combination `k` takes along dimension `d`.
  size_t tap(size_t k, size_t d) const {
    for (size_t last = dims - 1; last > d; --last)
      k /= taps;
    return d * taps + k % taps;
  }
};

} // namespace

llvm::Optional<Pixels> pixelsOf(Node &n, Value *image) {
  if (!image)
    return llvm::None;
  const Type t = image->type();
  Pixels p{nullptr, {}, {}};
  Ints perm{0};
  for (unsigned d = 2; d < t.rank(); ++d) {
    if (t.dim(d).lower() < 1) {
      n.error("expected an image of at least one pixel, found " + toString(t) +
              "; give open extents a larger lower bound with --range");
      return llvm::None;
    }
    p.extents.push_back(t.dim(d));
    p.lengths.push_back(t.dim(d).isConstant() ? nullptr
                                              : extentProduct(n.b, image, {d}, Element::I64));
    if (!t.dim(d).isConstant() && !p.lengths.back())
      return llvm::None;
    perm.push_back(d);
  }
  perm.push_back(1);
  Value *last = n.b.transpose(image, perm);
  p.rows =
      last ? n.b.reshape(last, {t.dim(0) * product(n.context(), p.extents), t.dim(1)}) : nullptr;
  return p.rows ? llvm::Optional<Pixels>(p) : llvm::None;
}

void PixelExtents::append(const Pixels &pixels, llvm::SmallVectorImpl<Value *> &operands,
                          std::vector<IndexMap> &maps) {
  for (Value *length : pixels.lengths)
    if (length) {
      operands.push_back(length);
      maps.push_back({});
    }
}

Value *PixelExtents::whole(Scalars &s, size_t dim) const {
  if (const auto known = pixels.extents[dim].asConstant())
    return s.b.scalarInt(Element::I64, *known);
  return open[size_t(llvm::count_if(llvm::makeArrayRef(pixels.lengths).take_front(dim),
                                    [](Value *v) { return v != nullptr; }))];
}

Value *PixelExtents::stride(Scalars &s, size_t dim) const {
  Value *all = s.b.scalarInt(Element::I64, 1);
  for (size_t d = dim; d < pixels.extents.size(); ++d)
    all = s(Op::Mul, all, whole(s, d));
  return all;
}

Value *sample(Builder &b, const Pixels &pixels, const Sampling &how) {
  const Combinations all{pixels.extents.size(), how.taps};
  const Element compute = computeType(how.operands[0]->type().element());
  // For each dimension's taps the distance in rows and the weight; last the image's first row.
  auto operands = how.operands;
  auto maps = how.maps;
  PixelExtents::append(pixels, operands, maps);
  Operation *found =
      b.map(operands, maps, how.space, [&](Builder &inner, llvm::ArrayRef<Value *> a) {
        Scalars s{inner, compute};
        const PixelExtents extents{pixels, a.drop_front(how.operands.size())};
        a = a.take_front(how.operands.size());
        llvm::SmallVector<Value *, 2> yields;
        for (size_t d = 0; d < all.dims; ++d)
          for (const Tap &t : how.neighbours(s, a, d, extents(s, d))) {
            yields.push_back(s(Op::Mul, t.index, extents.stride(s, d + 1)));
            yields.push_back(t.weight);
          }
        yields.push_back(s(Op::Mul, how.image(s, a), extents.stride(s, 0)));
        return yields;
      });
  if (!found)
    return nullptr;
  auto distance = [&](size_t tap) { return found->result(unsigned(2 * tap)); };
  auto weight = [&](size_t tap) { return found->result(unsigned(2 * tap + 1)); };
  Value *first = found->result(found->numResults() - 1);

  const unsigned rank = unsigned(how.space.size());
  const size_t count = all.count();
  llvm::SmallVector<Value *, 24> values;
  std::vector<IndexMap> reads;
  for (size_t k = 0; k < count; ++k) {
    llvm::SmallVector<Value *, 4> parts{first};
    for (size_t d = 0; d < all.dims; ++d)
      parts.push_back(distance(all.tap(k, d)));
    Value *row = pointwise(b, parts, [](Scalars &s, llvm::ArrayRef<Value *> a) {
      Value *at = a[0];
      for (Value *more : a.drop_front())
        at = s(Op::Add, at, more);
      return at;
    });
    values.push_back(b.value(Op::Gather, {pixels.rows, row}, {{"axis", int64_t(0)}}));
    if (!values.back())
      return nullptr;
    reads.push_back(identityMap(rank + 1));
  }
  for (size_t i = 0; i < all.dims * all.taps; ++i) {
    values.push_back(weight(i));
    reads.push_back(identityMap(rank));
  }
  return pointwise(b, values, reads, values[0]->type().shape(),
                   [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                     Value *result = nullptr;
                     for (size_t k = 0; k < count; ++k) {
                       Value *pixel = s.cast(a[k], compute);
                       for (size_t d = 0; d < all.dims; ++d)
                         pixel = s(Op::Mul, pixel, a[count + all.tap(k, d)]);
                       result = result ? s(how.largest ? Op::Max : Op::Add, result, pixel) : pixel;
                     }
                     return s.cast(result, s.type);
                   });
}

Value *limited(Scalars &s, Value *x, Value *low, Value *high) {
  Value *least = s(Op::Select, s(Op::Greater, x, low), x, low);
  return s(Op::Select, s(Op::Less, least, high), least, high);
}

Value *limited(Scalars &s, Value *x, double low, double high) {
  return limited(s, x, s.c(low), s.c(high));
}

Taps linearTaps(Scalars &s, Value *x, Value *extent) {
  Value *last = s(Op::Sub, extent, s.c(1));
  auto tap = [&](Value *at, Value *weight) -> Tap {
    Value *outside = s(Op::LogicalOr, s(Op::Less, at, s.c(0)), s(Op::Greater, at, last));
    return {s.cast(limited(s, at, s.c(0), last), Element::I64),
            s(Op::Select, outside, s.c(0), weight)};
  };
  Value *base = s(Op::Floor, x), *t = s(Op::Sub, x, base);
  return {tap(base, s(Op::Sub, s.c(1), t)), tap(s(Op::Add, base, s.c(1)), t)};
}

llvm::SmallVector<Value *, 4> cubicWeights(Scalars &s, Value *t, double a) {
  // ((c3 x + c2) x + c1) x + c0
  auto polynomial = [&](Value *x, double c3, double c2, double c1, double c0) {
    Value *v = s(Op::Add, s(Op::Mul, s.c(c3), x), s.c(c2));
    v = s(Op::Add, s(Op::Mul, v, x), s.c(c1));
    return s(Op::Add, s(Op::Mul, v, x), s.c(c0));
  };
  Value *back = s(Op::Sub, s.c(1), t);
  return {
      polynomial(s(Op::Add, t, s.c(1)), a, -5 * a, 8 * a, -4 * a),
      polynomial(t, a + 2, -(a + 3), 0, 1),
      polynomial(back, a + 2, -(a + 3), 0, 1),
      polynomial(s(Op::Add, back, s.c(1)), a, -5 * a, 8 * a, -4 * a),
  };
}

Value *channelsSecond(Builder &b, Value *v) {
  if (!v)
    return nullptr;
  const int64_t rank = v->type().rank();
  Ints perm{0, rank - 1};
  for (int64_t d = 1; d + 1 < rank; ++d)
    perm.push_back(d);
  return b.transpose(v, perm);
}

} // namespace tenon::frontend
