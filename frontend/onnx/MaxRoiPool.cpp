// Imports MaxRoiPool: the largest pixel in each cell of a region. Cells are as large as regions ask
// for, so a loop looks at one pixel of each cell at a time, as often as the largest has pixels.
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Sample.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// To the nearest integer, halves away from 0.
Value *rounded(Scalars &s, Value *x) {
  return s(Op::Select, s(Op::Less, x, s.c(0)), s(Op::Ceil, s(Op::Sub, x, s.c(0.5))),
           s(Op::Floor, s(Op::Add, x, s.c(0.5))));
}

/// Of the regions: the image, x1, y1, x2, y2; [regions] each. Empty after an error.
llvm::SmallVector<Value *, 5> columnsOf(Node &n, Value *rois) {
  llvm::SmallVector<Value *, 5> columns;
  for (int64_t k = 0; k < 5; ++k) {
    Value *column = sliceAlong(n.b, rois, 1, n.dim(k), n.dim(1), 1);
    columns.push_back(column ? n.b.reshape(column, {rois->type().dim(0)}) : nullptr);
    if (!columns.back())
      return {};
  }
  return columns;
}

/// First pixel and number of pixels of each cell along a dimension of the image, i64 [regions,
/// cells]; null after an error. `low` and `high` are the columns of the regions' corners.
Operation *cellBounds(Node &n, Value *low, Value *high, int64_t cells, const Pixels &pixels,
                      size_t dim) {
  const double scale = n.floatAttr("spatial_scale", 1);
  llvm::SmallVector<Value *, 4> operands{low, high};
  std::vector<IndexMap> maps{along(0), along(0)};
  PixelExtents::append(pixels, operands, maps);
  return n.b.map(operands, maps, {low->type().dim(0), n.dim(cells)},
                 [&](Builder &inner, llvm::ArrayRef<Value *> a) {
                   Scalars s{inner, computeType(a[0]->type().element())};
                   Value *extent = PixelExtents{pixels, a.drop_front(2)}(s, dim);
                   auto corner = [&](Value *v) {
                     return rounded(s, s(Op::Mul, s.cast(v, s.type), s.c(scale)));
                   };
                   Value *start = corner(a[0]);
                   Value *size = s(Op::Add, s(Op::Sub, corner(a[1]), start), s.c(1));
                   Value *cell = s(Op::Div, s(Op::Max, size, s.c(1)), s.c(double(cells)));
                   Value *k = s.cast(s.index(1), s.type);
                   auto inside = [&](Value *v) {
                     return limited(s, s(Op::Add, start, v), s.c(0), extent);
                   };
                   Value *first = inside(s(Op::Floor, s(Op::Mul, k, cell)));
                   Value *end = inside(s(Op::Ceil, s(Op::Mul, s(Op::Add, k, s.c(1)), cell)));
                   Value *count = s(Op::Max, s(Op::Sub, end, first), s.c(0));
                   return llvm::SmallVector<Value *, 2>{s.cast(first, Element::I64),
                                                        s.cast(count, Element::I64)};
                 });
}

} // namespace

void importMaxRoiPool(Node &n) {
  enum { X, Rois };
  Builder &b = n.b;
  const Ints cells = n.intsAttr("pooled_shape");
  if (!n.checkRank(X, 4, 4) || !n.checkFloat(X) || !n.checkRank(Rois, 2, 2) || !n.checkFloat(Rois))
    return;
  if (!n.type(Rois).dim(1).isConstant(5) || cells.size() != 2 || cells[0] < 1 || cells[1] < 1 ||
      cells[0] > INT16_MAX || cells[1] > INT16_MAX) {
    n.error("expected an image and four corners per region and a pooled_shape of two extents from "
            "1 on, found " +
            toString(n.type(Rois)) + " and " + std::to_string(cells.size()) + " extents");
    return;
  }
  auto pixels = pixelsOf(n, n.input(X));
  if (!pixels)
    return;
  const Dim regions = n.type(Rois).dim(0);
  const auto columns = columnsOf(n, n.input(Rois));
  if (columns.empty())
    return;
  Operation *rows = cellBounds(n, columns[2], columns[4], cells[0], *pixels, 0);
  Operation *across = cellBounds(n, columns[1], columns[3], cells[1], *pixels, 1);
  if (!rows || !across)
    return;
  Value *high = b.reduce(Op::Max, rows->result(1), {0, 1}, 0);
  Value *wide = b.reduce(Op::Max, across->result(1), {0, 1}, 0);
  Value *trip = high && wide ? b.pointwise(Op::Mul, {high, wide}) : nullptr;
  const Element e = n.element(X);
  const Shape shape{regions, n.dim(cells[0]), n.dim(cells[1]), n.type(X).dim(1)};
  Value *start =
      generate(b, e, shape, [](Scalars &s, llvm::ArrayRef<Value *>) { return s.c(-INFINITY); });
  if (!trip || !start)
    return;
  enum { Trip, Go, Best, Pixel, Image, Top, Height, Left, Width, Row };
  llvm::SmallVector<Value *, 12> operands{trip,
                                          b.scalarConstant(Element::Bool, 1),
                                          start,
                                          pixels->rows,
                                          columns[0],
                                          rows->result(0),
                                          rows->result(1),
                                          across->result(0),
                                          across->result(1),
                                          wide};
  const size_t lengths = operands.size(); // extents of the image that are open follow
  llvm::copy_if(pixels->lengths, std::back_inserter(operands), [](Value *v) { return v; });
  const NamedAttributes attributes{{"carried", int64_t(1)}, {"scans", int64_t(0)}};
  const IndexMap whole = identityMap(4), row{0, 1}, column{0, 2};
  Operation *loop = b.create(Op::Loop, operands, attributes, 1, [&](unsigned, Region &region) {
    llvm::SmallVector<Value *, 12> a;
    for (Value *v : operands)
      a.push_back(region.addArgument(v->type()));
    Builder inner(region, b.diagnostics());
    inner.location = b.location;
    // Turn t looks at pixel t / row downwards, t % row to the right, where the cell has it.
    llvm::SmallVector<Value *, 12> read{a[Trip],   a[Row],  a[Image], a[Top],
                                        a[Height], a[Left], a[Width]};
    std::vector<IndexMap> maps{{}, {}, along(0), row, row, column, column};
    const size_t own = read.size();
    read.append(a.begin() + int64_t(lengths), a.end());
    maps.resize(read.size());
    Operation *look =
        inner.map(read, maps, llvm::ArrayRef<Dim>(shape).take_front(3),
                  [&](Builder &body, llvm::ArrayRef<Value *> v) {
                    Scalars s{body, Element::I64};
                    const PixelExtents extents{*pixels, v.drop_front(own)};
                    Value *down = s(Op::Div, v[0], v[1]), *right = s(Op::Mod, v[0], v[1]);
                    Value *has =
                        s(Op::LogicalAnd, s(Op::Less, down, v[4]), s(Op::Less, right, v[6]));
                    Value *line = s(Op::Mul, s(Op::Add, v[3], down), extents.stride(s, 1));
                    Value *at = s(Op::Mul, s.cast(v[2], Element::I64), extents.stride(s, 0));
                    at = s(Op::Add, at, s(Op::Add, line, s(Op::Add, v[5], right)));
                    return llvm::SmallVector<Value *, 2>{s(Op::Select, has, at, s.c(0)), has};
                  });
    Value *seen = look
                      ? inner.value(Op::Gather, {a[Pixel], look->result(0)}, {{"axis", int64_t(0)}})
                      : nullptr;
    Value *best = seen ? pointwise(inner, {a[Best], seen, look->result(1)},
                                   {whole, whole, identityMap(3)}, shape,
                                   [](Scalars &s, llvm::ArrayRef<Value *> v) {
                                     return s(Op::Select, v[2], s(Op::Max, v[0], v[1]), v[0]);
                                   })
                       : nullptr;
    if (best)
      inner.yield({a[Go], best});
  });
  // Cells without a pixel give 0.
  Value *y = loop ? pointwise(b, {loop->result(0), rows->result(1), across->result(1)},
                              {whole, row, column}, shape,
                              [](Scalars &s, llvm::ArrayRef<Value *> a) {
                                Value *pixels = s(Op::Mul, a[1], a[2]);
                                Value *some = s(Op::Greater, pixels, s.c(Element::I64, 0));
                                return s(Op::Select, some, a[0], s.c(0));
                              })
                  : nullptr;
  n.set(0, channelsSecond(b, y));
}

} // namespace tenon::frontend
