// Imports transforms of signals: Fourier transforms as products with constant matrices, columns of
// patches back to an image, convolutions that carry their past.
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Window.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// Larger matrices would fill the generated file, or memory where they are computed at run time;
/// such lengths want another algorithm.
constexpr int64_t kLargestTransform = 4096, kLargestOpenTransform = 1024;

/// A discrete Fourier transform of `length` points.
struct Transform {
  Dim length;
  Value *lengthValue; // i64 of rank 0, where the length is open
  bool inverse, oneSided;

  /// One-sided spectra of real signals go to or come from half of the points.
  bool toReal() const { return inverse && oneSided; }
  Dim outputs() const { return oneSided && !inverse ? floorDiv(length, 2) + 1 : length; }

  /// Matrix [points · parts, outputs · (1 or 2)] for `points` points with `parts` 1 (real) or 2
  /// (real and imaginary): the transform of interleaved parts is a product with it.
  Tensor matrix(Element e, int64_t points, int64_t parts) const {
    const int64_t length = this->length.constant(), count = outputs().constant();
    const int64_t made = toReal() ? 1 : 2;
    Tensor t(e, {points * parts, count * made});
    for (int64_t n = 0; n < points; ++n)
      for (int64_t k = 0; k < count; ++k) {
        // Exact reduction of the angle first.
        const double angle = 2 * M_PI * double(n * k % length) / double(length);
        const double cosine = std::cos(angle), sine = (inverse ? 1 : -1) * std::sin(angle);
        double factor = inverse ? 1 / double(length) : 1;
        if (toReal() && n > 0 && 2 * n != length)
          factor *= 2; // stands for its conjugate, too
        const int64_t column = k * made;
        auto put = [&](int64_t part, int64_t c, double v) {
          t.set((n * parts + part) * count * made + column + c, factor * v);
        };
        put(0, 0, cosine);
        if (made == 2)
          put(0, 1, sine);
        if (parts == 2) {
          put(1, 0, -sine);
          if (made == 2)
            put(1, 1, cosine);
        }
      }
    return t;
  }

  /// The same of an open number of points, computed at run time.
  Value *matrixAtRunTime(Builder &b, Element e, Dim points, int64_t parts) const {
    const int64_t made = toReal() ? 1 : 2;
    const Dim space[] = {points * parts, outputs() * made};
    return pointwise(
        b, {lengthValue}, {IndexMap{}}, space, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
          auto whole = [&](int64_t v) { return s.b.scalarInt(Element::I64, v); };
          Scalars exact{s.b, Element::F64};
          Value *n = s(Op::Div, s.index(0), whole(parts)), *k = s(Op::Div, s.index(1), whole(made));
          Value *part = s(Op::Mod, s.index(0), whole(parts)),
                *c = s(Op::Mod, s.index(1), whole(made));
          Value *turns = exact(Op::Div, s.cast(s(Op::Mod, s(Op::Mul, n, k), a[0]), Element::F64),
                               s.cast(a[0], Element::F64));
          Value *angle = exact(Op::Mul, turns, exact.c(2 * M_PI));
          Value *sine = exact(Op::Sin, angle), *minus = exact(Op::Neg, sine);
          Value *mixed = exact(Op::Select, s(Op::Less, part, c), inverse ? sine : minus,
                               inverse ? minus : sine);
          Value *v = exact(Op::Select, s(Op::Equal, part, c), exact(Op::Cos, angle), mixed);
          if (inverse)
            v = exact(Op::Div, v, s.cast(a[0], Element::F64));
          if (toReal()) {
            Value *once = s(Op::LogicalOr, s(Op::Equal, n, whole(0)),
                            s(Op::Equal, s(Op::Mul, n, whole(2)), a[0]));
            v = exact(Op::Select, once, v, exact(Op::Mul, v, exact.c(2)));
          }
          return s.cast(v, e);
        });
  }

  /// Transforms dimension `axis` of x, whose last dimension holds the parts; null after an error.
  Value *apply(Node &n, Value *x, int64_t axis) const {
    const Type t = x->type();
    const unsigned rank = t.rank();
    const Dim parts = t.dim(rank - 1), given = t.dim(unsigned(axis));
    const bool known = given.isConstant() && length.isConstant();
    const int64_t most = known ? kLargestTransform : kLargestOpenTransform;
    if (length.lower() < 1 || !(parts.isConstant(1) || parts.isConstant(2)))
      return n.error("expected real or complex points, one or more, found " + toString(t) +
                     " and length " + text({length}, ""));
    if (length.upper() > most)
      return n.error(std::string("a transform of ") + (known ? "" : "up to ") +
                     std::to_string(length.upper()) +
                     " points is not supported: expected at most " + std::to_string(most) +
                     (known ? "" : "; give open extents a smaller upper bound with --range"));
    // Points beyond those given are zero, those beyond the ones that count are dropped.
    const Dim points = min(given, toReal() ? floorDiv(length, 2) + 1 : length);
    if (points != given)
      x = sliceAlong(n.b, x, axis, n.dim(0), points, 1);
    Ints perm = allAxes(0, rank - 1), back;
    perm.erase(perm.begin() + axis);
    perm.push_back(axis);
    perm.push_back(rank - 1);
    Value *last = x ? n.b.transpose(x, perm) : nullptr;
    if (!last)
      return nullptr;
    Shape rows{n.dim(1)}, shape;
    for (unsigned d = 0; d + 2 < rank; ++d) {
      rows[0] = rows[0] * last->type().dim(d);
      shape.push_back(last->type().dim(d));
    }
    rows.push_back(points * parts.constant());
    shape.push_back(outputs());
    shape.push_back(n.dim(toReal() ? 1 : 2));
    Value *matrix =
        known ? n.b.constant(this->matrix(t.element(), points.constant(), parts.constant()))
              : matrixAtRunTime(n.b, t.element(), points, parts.constant());
    if (!matrix)
      return nullptr;
    Value *y = n.b.value(Op::MatMul, {n.b.reshape(last, rows), matrix});
    y = y ? n.b.reshape(y, shape) : nullptr;
    for (int64_t d = 0; d < int64_t(rank); ++d)
      back.push_back(d < axis ? d : d == axis ? int64_t(rank) - 2 : d + 1 == rank ? d : d - 1);
    return y ? n.b.transpose(y, back) : nullptr;
  }
};

/// The one number in operand i, or `otherwise` where it is absent; None after an error.
llvm::Optional<int64_t> numberOperand(Node &n, unsigned i, int64_t otherwise) {
  if (!n.has(i))
    return otherwise;
  auto given = n.intsOperand(i);
  if (!given)
    return llvm::None;
  if (given->size() == 1)
    return given->front();
  n.error("operand " + n.inputName(i) + ": expected one number");
  return llvm::None;
}

} // namespace

void importDFT(Node &n) {
  enum { X, Length, Axis };
  if (!n.checkRank(X, 2) || !n.checkFloat(X))
    return;
  auto given = n.opset < 20 ? n.intAttr("axis", 1) : numberOperand(n, Axis, -2);
  auto axis = given ? n.axis(*given, n.rank(X)) : llvm::None;
  if (!axis)
    return;
  if (*axis + 1 == int64_t(n.rank(X))) {
    n.error("the last dimension of " + toString(n.type(X)) +
            " holds real and imaginary parts: expected another axis");
    return;
  }
  const Dim points = n.type(X).dim(unsigned(*axis));
  Transform transform{points, nullptr, n.boolAttr("inverse", false), n.boolAttr("onesided", false)};
  if (n.has(Length)) {
    auto length = n.shapeOperand(Length);
    if (!length)
      return;
    if (length->size() != 1) {
      n.error("operand " + n.inputName(Length) + ": expected one number");
      return;
    }
    transform.length = (*length)[0];
  } else if (transform.toReal()) { // it follows from the points
    transform.length = points * 2 - 2;
  }
  if (!points.isConstant() || !transform.length.isConstant()) {
    Value *count = n.has(Length) ? n.b.reshape(n.graph.state.pinned(n.input(Length)), {})
                                 : extentProduct(n.b, n.input(X), {*axis}, Element::I64);
    transform.lengthValue =
        n.has(Length) || !transform.toReal()
            ? n.b.cast(count, Element::I64)
            : pointwise(n.b, {count}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
                return s(Op::Mul, s(Op::Sub, a[0], s.b.scalarInt(Element::I64, 1)),
                         s.b.scalarInt(Element::I64, 2));
              });
    if (!transform.lengthValue)
      return;
  }
  n.set(0, transform.apply(n, n.input(X), *axis));
}

void importSTFT(Node &n) {
  enum { Signal, Step, Window, FrameLength };
  if (!n.checkFloat(Signal) || !n.checkRank(Signal, 2, 3))
    return;
  Value *x = n.input(Signal);
  if (n.rank(Signal) == 2)
    x = n.b.reshape(x, {x->type().dim(0), x->type().dim(1), n.dim(1)});
  if (!x || (n.has(Window) && !n.checkRank(Window, 1, 1)))
    return;
  const Dim samples = x->type().dim(1), whole = n.has(Window) ? n.type(Window).dim(0) : samples;
  auto step = numberOperand(n, Step, 0);
  auto frame = step ? numberOperand(n, FrameLength, whole.asConstant().getValueOr(0)) : llvm::None;
  if (!frame)
    return;
  if (*step < 1 || *frame < 1 || *frame > samples.lower() ||
      (n.has(Window) && n.type(Window).dim(0) != n.dim(*frame))) {
    n.error("expected frames of a known length within the signal and a window as long, found " +
            std::to_string(*frame) + " of " + toString(n.type(Signal)));
    return;
  }
  // [batch, frame, sample in the frame, part]
  const Shape framed{floorDiv(samples - *frame, *step) + 1, n.dim(*frame)};
  Value *positions = generate(n.b, Element::I64, framed, [&](Scalars &s, llvm::ArrayRef<Value *>) {
    Value *first = s(Op::Mul, s.index(0), s.b.scalarInt(Element::I64, *step));
    return s(Op::Add, first, s.index(1));
  });
  Value *cut = positions ? n.b.value(Op::Gather, {x, positions}, {{"axis", int64_t(1)}}) : nullptr;
  if (cut && n.has(Window))
    cut = pointwise(n.b, {cut, n.input(Window)}, {identityMap(4), along(2)}, cut->type().shape(),
                    [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Mul, a[0], a[1]); });
  const Transform transform{n.dim(*frame), nullptr, false, n.boolAttr("onesided", true)};
  n.set(0, cut ? transform.apply(n, cut, 2) : nullptr);
}

void importCol2Im(Node &n) {
  // Every column spreads a patch: a transposed convolution whose weights pick one tap each.
  enum { X, Image, Block };
  if (!n.checkRank(X, 3, 3))
    return;
  auto image = n.intsOperand(Image), block = image ? n.intsOperand(Block) : llvm::None;
  if (!block)
    return;
  const size_t dims = image->size();
  auto strides = readSpatial(n, "strides", dims, 1, 1);
  auto dilations = readSpatial(n, "dilations", dims, 1, 1);
  auto pads = readSpatial(n, "pads", 2 * dims, 0, 0);
  if (!strides || !dilations || !pads)
    return;
  const Type t = n.type(X);
  const Dim columns = t.dim(1);
  // Elements of the block; 0 where it cannot be one.
  const bool fits = columns.isConstant() && columns.constant() <= INT32_MAX && dims > 0;
  int64_t taps = fits && block->size() == dims ? 1 : 0;
  for (int64_t b : *block)
    taps = taps > 0 && b > 0 && b <= columns.constant() / taps ? taps * b : 0;
  if (taps == 0 || columns.constant() % taps != 0) {
    n.error("expected an image and a block of the same rank and a multiple of the block's elements "
            "as channels, found " +
            toString(t));
    return;
  }
  const int64_t channels = columns.constant() / taps;
  Shape shape{t.dim(0), columns};
  Ints more, weights{columns.constant(), 1};
  for (size_t d = 0; d < dims; ++d) {
    const int64_t extent = (*image)[d], reach = (*dilations)[d] * ((*block)[d] - 1) + 1;
    const int64_t room =
        std::min<int64_t>(extent, INT32_MAX) + (*pads)[d] + (*pads)[dims + d] - reach;
    if (extent < 1 || extent > INT32_MAX || room < 0) {
      n.error("expected blocks within the padded image, found a reach of " + std::to_string(reach) +
              " in an extent of " + std::to_string(extent));
      return;
    }
    shape.push_back(n.dim(room / (*strides)[d] + 1));
    more.push_back(room % (*strides)[d]);
    weights.push_back((*block)[d]);
  }
  if (product(n.context(), llvm::makeArrayRef(shape).drop_front(2)) != t.dim(2)) {
    n.error("expected one column per block, [" +
            text(llvm::makeArrayRef(shape).drop_front(2), ", ") + "] of them, found " +
            toString(t));
    return;
  }
  Tensor pick(t.element(), weights);
  for (int64_t c = 0; c < columns.constant(); ++c)
    pick.set(c * taps + c % taps, 1);
  n.set(0, n.b.value(Op::ConvTranspose, {n.b.reshape(n.input(X), shape), n.b.constant(pick)},
                     {{"strides", *strides},
                      {"dilations", *dilations},
                      {"pads", *pads},
                      {"output_padding", more},
                      {"groups", channels}}));
}

void importCausalConvWithState(Node &n) {
  // Every channel on its own, over what came before and the new positions.
  enum { X, W, Bias, Past };
  if (!n.checkRank(X, 3, 3) || !n.checkRank(W, 3, 3) || !n.checkFloat(X))
    return;
  const std::string activation = n.stringAttr("activation", "none");
  const Type t = n.type(X), w = n.type(W);
  if (!t.dim(1).isConstant() || w.dim(0) != t.dim(1) || !w.dim(1).isConstant(1) ||
      !w.dim(2).isConstant() || w.dim(2).constant() < 1 || !checkBias(n, Bias, t.dim(1)) ||
      (activation != "none" && activation != "silu" && activation != "swish")) {
    n.error("expected weights [channels, 1, k] for " + toString(t) +
            " and activation none, silu or swish, found " + toString(w) + " and '" + activation +
            "'");
    return;
  }
  const Dim before = w.dim(2) - 1;
  Value *past = n.input(Past);
  if (!past)
    past = generate(n.b, t.element(), {t.dim(0), t.dim(1), before},
                    [](Scalars &s, llvm::ArrayRef<Value *>) { return s.c(0); });
  Value *all = past ? n.b.value(Op::Concat, {past, n.input(X)}, {{"axis", int64_t(2)}}) : nullptr;
  if (!all)
    return;
  Value *y = n.b.value(Op::Conv, {all, n.input(W)}, {{"groups", t.dim(1).constant()}});
  y = addAlong(n.b, y, n.input(Bias), 1);
  if (y && activation != "none")
    y = pointwise(n.b, {y}, [](Scalars &s, llvm::ArrayRef<Value *> a) {
      return s(Op::Mul, a[0], s(Op::Sigmoid, a[0]));
    });
  n.set(0, y);
  if (n.wants(1))
    n.set(1, sliceAlong(n.b, all, 2, t.dim(2), before, 1));
}

} // namespace tenon::frontend
