// Imports Resize and Upsample: scales, sizes, coordinate rules and their changes between opsets.
#include "frontend/DataExtents.h"
#include "frontend/GraphImporter.h"
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Resample.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

namespace tenon::frontend {
namespace {

/// `extent` times `scale`, rounded down; null when that is too large. The product is one of f32, as
/// ONNX's shape inference and others have it: 3 times 5/3 are 5, though that scale, rounded, is
/// less. A number of f32 is a fraction whose denominator is a power of 2; a shorter one serves
/// where it gives the same extents.
Dim scaled(Dim extent, double scale) {
  constexpr int64_t kMostTried = 1 << 14;
  if (scale == 1)
    return extent;
  Context &c = *extent.node()->context;
  auto product = [&](int64_t v) { return std::floor(double(float(v) * float(scale))); };
  if (!(product(extent.upper()) < 1e12))
    return Dim();
  if (extent.isConstant())
    return product(extent.constant()) >= 0 ? c.dim(int64_t(product(extent.constant()))) : Dim();
  for (int64_t divisor = 1; divisor <= 16 && extent.upper() - extent.lower() <= kMostTried;
       ++divisor) {
    const auto numerator = int64_t(std::round(scale * double(divisor)));
    bool same = true;
    for (int64_t v = extent.lower(); same && v <= extent.upper(); ++v)
      same = v * numerator / divisor == int64_t(product(v));
    if (same)
      return floorDiv(extent * numerator, divisor);
  }
  int exponent;
  const double fraction = std::frexp(scale, &exponent); // fraction · 2^exponent, 24 bits
  const auto numerator = int64_t(std::ldexp(fraction, 24));
  if (double(numerator) != std::ldexp(fraction, 24)) // of a crop
    return Dim();
  const int shift = 24 - exponent;
  if (shift <= 0 && exponent < 40)
    return extent * (numerator << -shift);
  // The numbers on the way fit into 64 bits.
  if (shift <= 0 || shift > 38 || extent.upper() >= int64_t(1) << 36)
    return Dim();
  return floorDiv(extent * numerator, int64_t(1) << shift);
}

struct Geometry {
  Dims shape;
  Floats scales;
  /// The scales are the quotients of the extents, which are open.
  bool fromExtents = false;
  /// The dimensions that change, where a scale is known at run time only.
  std::vector<ResampledAxis> atRunTime = {};
};

using Numbers = std::vector<Number>;

/// Finds of which extents element `k` of `list` is the quotient: exporters write so the scales that
/// lead to a size.
void findQuotient(Value *list, int64_t k, Number &number) {
  Operation *div = list->def();
  if (!div || !div->is(Op::Map) || div->numOperands() != 2)
    return;
  Region &body = div->region();
  Operation &first = body.front(), *yield = body.terminator();
  if (!first.is(Op::Div) || yield->operand(0) != first.result() ||
      first.operand(0) != body.argument(0) || first.operand(1) != body.argument(1))
    return;
  const auto over = inferValue(div->operand(0)), under = inferValue(div->operand(1));
  if (!over || !under || over->size() != under->size() || size_t(k) >= over->size())
    return;
  number.numerator = (*over)[size_t(k)];
  number.denominator = (*under)[size_t(k)];
}

/// Adds the elements of `list`, of rank 1; false after an error. Exporters concatenate those that
/// are constants and the others.
bool addNumbers(Node &n, Value *list, Numbers &numbers) {
  if (const auto known = knownTensor(list)) {
    for (int64_t k = 0; k < known->size(); ++k)
      numbers.push_back({known->at(k)});
    return true;
  }
  if (Operation *def = list->def(); def && def->is(Op::Concat))
    return llvm::all_of(def->operands(), [&](Value *v) { return addNumbers(n, v, numbers); });
  for (int64_t k = 0; k < list->type().upperElements(); ++k) {
    Value *one = sliceAlong(n.b, list, 0, n.dim(k), n.dim(1), 1);
    numbers.push_back({0, one ? n.b.reshape(one, {}) : nullptr});
    if (!numbers.back().atRunTime)
      return false;
    findQuotient(list, k, numbers.back());
  }
  return true;
}

/// Operand `i`, a list of up to `most` floats, which may be known one by one; None after an error.
llvm::Optional<Numbers> numbersOperand(Node &n, unsigned i, int64_t most) {
  if (!n.checkRank(i, 1, 1) || !n.checkFloat(i))
    return llvm::None;
  if (!n.type(i).dim(0).isConstant() || n.type(i).dim(0).constant() > most) {
    n.error("operand " + n.inputName(i) + ": expected up to " + std::to_string(most) +
            " numbers, found " + toString(n.type(i)));
    return llvm::None;
  }
  Numbers numbers;
  return addNumbers(n, n.input(i), numbers) ? llvm::Optional<Numbers>(numbers) : llvm::None;
}

/// Dimension `d` of operand 0, `part` of it, times `scale` of rank 0, rounded down; null after an
/// error.
Value *scaledAtRunTime(Node &n, unsigned d, Value *scale, double part) {
  Value *in = extentProduct(n.b, n.input(0), {int64_t(d)}, Element::I64);
  return pointwise(n.b, {in, scale}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Scalars single{s.b, Element::F32};
    Value *factor = s(Op::Mul, single.cast(a[1], single.type), single.c(part));
    Value *size = s(Op::Mul, single.cast(a[0], single.type), factor);
    return single.cast(s(Op::Floor, s(Op::Max, size, single.c(0))), Element::I64);
  });
}

/// From scales for `axes`.
llvm::Optional<Geometry> fromScales(Node &n, const Numbers &scales, const Ints &axes,
                                    const Floats &roi) {
  Type t = n.type(0);
  Geometry g{Dims(t.shape().begin(), t.shape().end()), Floats(t.rank(), 1)};
  if (scales.size() != axes.size()) {
    n.error("expected " + std::to_string(axes.size()) + " scales, found " +
            std::to_string(scales.size()));
    return llvm::None;
  }
  const bool known = llvm::none_of(scales, [](const Number &s) { return s.atRunTime; });
  // Sizes over extents, beside dimensions that stay: the quotients of the extents, not their values
  // at run time, whose product with an extent may round to another size.
  bool quotients = !known && roi.empty();
  for (size_t i = 0; i < axes.size(); ++i)
    quotients &= scales[i].numerator ? scales[i].denominator == t.dim(unsigned(axes[i]))
                                     : !scales[i].atRunTime && scales[i].known == 1;
  if (quotients) {
    g.fromExtents = true;
    for (size_t i = 0; i < axes.size(); ++i)
      if (scales[i].numerator)
        g.shape[size_t(axes[i])] = scales[i].numerator;
    return g;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const unsigned d = unsigned(axes[i]);
    const double scale = scales[i].known;
    // A crop scales the region that it takes.
    const double start = roi.empty() ? 0 : roi[d], end = roi.empty() ? 1 : roi[d + t.rank()];
    g.scales[d] = scale;
    if (!scales[i].atRunTime) {
      if (!(scale > 0) || std::isinf(scale)) {
        n.error("expected positive scales, found " + std::to_string(scale));
        return llvm::None;
      }
      g.shape[d] = scaled(t.dim(d), scale * (end - start));
      if (!g.shape[d]) {
        n.error("extent " + text({t.dim(d)}, "") + " times " + std::to_string(scale) +
                " is too large or no fraction: give the symbol a value with --bind");
        return llvm::None;
      }
      if (known || (scale == 1 && roi.empty()))
        continue;
    }
    Value *factor =
        scales[i].atRunTime ? scales[i].atRunTime : n.b.scalarConstant(Element::F32, scale);
    Value *extent = scaledAtRunTime(n, d, factor, end - start);
    if (!extent)
      return llvm::None;
    if (scales[i].atRunTime) {
      auto extents = dataExtents(n, extent);
      if (!extents)
        return llvm::None;
      g.shape[d] = (*extents)[0];
      extent = n.graph.state.pinned(extent);
    }
    g.atRunTime.push_back({d, g.shape[d], extent, factor, {start}, {end}});
  }
  return g;
}

/// k where `a` is k times `b` for every value of the symbols.
llvm::Optional<int64_t> multiple(Dim a, Dim b) {
  const Dim k = floorDiv(a, b);
  return b.lower() > 0 && k.isConstant() && k.constant() > 0 && b * k == a
             ? llvm::Optional<int64_t>(k.constant())
             : llvm::None;
}

/// From sizes for `axes` of open extents, one of which decides the scale of all: the smallest, or
/// the largest, quotient of a size and an extent.
llvm::Optional<Geometry> keepingRatio(Node &n, const Ints &sizes, const Ints &axes, bool largest) {
  const Type t = n.type(0);
  Geometry g{Dims(t.shape().begin(), t.shape().end()), Floats(t.rank(), 1)};
  llvm::SmallVector<Value *, 4> lengths;
  for (const int64_t a : axes) {
    if (t.dim(unsigned(a)).lower() < 1) {
      n.error("keep_aspect_ratio_policy of " + toString(t) +
              ": expected extents from 1 on; give open ones a lower bound with --range");
      return llvm::None;
    }
    lengths.push_back(extentProduct(n.b, n.input(0), {a}, Element::I64));
  }
  Value *scale = pointwise(n.b, lengths, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    Scalars single{s.b, Element::F32};
    Value *all = nullptr;
    for (size_t i = 0; i < a.size(); ++i) {
      Value *one = single(Op::Div, single.c(double(sizes[i])), single.cast(a[i], single.type));
      all = all ? single(largest ? Op::Max : Op::Min, all, one) : one;
    }
    return all;
  });
  for (size_t k = 0; scale && k < axes.size(); ++k) {
    // That extent times each of the quotients, to the nearest integer: as an extent and as a value.
    const unsigned d = unsigned(axes[k]);
    const Dim in = t.dim(d);
    Dim out = n.dim(sizes[k]);
    for (size_t i = 0; i < axes.size(); ++i) {
      const Dim other = t.dim(unsigned(axes[i]));
      const Dim size = i == k ? out : floorDiv(in * (2 * sizes[i]) + other, other * 2);
      out = largest ? max(out, size) : min(out, size);
    }
    Value *extent = pointwise(n.b, lengths, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      auto whole = [&](int64_t v) { return s.b.scalarInt(Element::I64, v); };
      Value *all = whole(sizes[k]);
      for (size_t i = 0; i < a.size(); ++i) {
        if (i == k)
          continue;
        Value *twice = s(Op::Add, s(Op::Mul, a[k], whole(2 * sizes[i])), a[i]);
        all = s(largest ? Op::Max : Op::Min, all, s(Op::Div, twice, s(Op::Mul, a[i], whole(2))));
      }
      return all;
    });
    if (!extent)
      return llvm::None;
    g.shape[d] = out;
    g.atRunTime.push_back({d, out, extent, scale});
  }
  return scale ? llvm::Optional<Geometry>(g) : llvm::None;
}

/// From sizes for `axes`, which operand 3 holds.
llvm::Optional<Geometry> fromSizes(Node &n, Shape sizes, const Ints &axes,
                                   const std::string &policy) {
  Type t = n.type(0);
  Geometry g{Dims(t.shape().begin(), t.shape().end()), Floats(t.rank(), 1)};
  if (sizes.size() != axes.size()) {
    n.error("expected " + std::to_string(axes.size()) + " sizes, found " +
            std::to_string(sizes.size()));
    return llvm::None;
  }
  auto isOpen = [&](int64_t axis) { return !t.dim(unsigned(axis)).isConstant(); };
  auto isKnown = [](Dim size) { return size.isConstant() && size.constant() > 0; };
  if (policy != "stretch" && llvm::any_of(axes, isOpen) && llvm::all_of(sizes, isKnown)) {
    Ints known;
    for (const Dim size : sizes)
      known.push_back(size.constant());
    return keepingRatio(n, known, axes, policy == "not_smaller");
  }
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = size_t(axes[i]);
    Dim in = t.dim(unsigned(d));
    if (sizes[i].upper() < 0) {
      n.error("sizes [" + text(sizes, ", ") + "] are negative");
      return llvm::None;
    }
    if (in.isConstant(0) && !sizes[i].isConstant(0)) {
      n.error("dimension " + std::to_string(d) + " has no elements to resample");
      return llvm::None;
    }
    g.shape[d] = sizes[i];
    if (sizes[i] == in)
      g.scales[d] = 1;
    else if (sizes[i].isConstant() && in.isConstant())
      g.scales[d] = in.isConstant(0) ? 1 : double(sizes[i].constant()) / double(in.constant());
    else if (auto whole = multiple(sizes[i], in))
      g.scales[d] = double(*whole);
    else if (auto part = multiple(in, sizes[i]))
      g.scales[d] = 1 / double(*part);
    else if (policy == "stretch")
      g.fromExtents = true;
    else {
      n.error("keep_aspect_ratio_policy " + policy + " of extent " + text({in}, "") + " to " +
              text({sizes[i]}, "") + " needs known extents: give the symbols values with --bind");
      return llvm::None;
    }
    common = policy == "not_larger" ? std::min(common, g.scales[d]) : std::max(common, g.scales[d]);
  }
  if (policy == "stretch")
    return g;
  for (int64_t axis : axes) {
    const size_t d = size_t(axis);
    g.scales[d] = common;
    if (t.dim(unsigned(d)).isConstant())
      g.shape[d] = n.dim(int64_t(std::floor(double(t.dim(unsigned(d)).constant()) * common + 0.5)));
  }
  return g;
}

/// What a region in `g` is, whose starts and ends are known at run time only; false after an error.
bool cropAtRunTime(Node &n, Geometry &g, const Ints &axes, const Numbers &roi) {
  if (!n.has(3)) {
    n.error("operand roi is not known at compile time: expected sizes instead of scales; write "
            "sizes, or bind the input that it is computed from with --bind NAME=@FILE");
    return false;
  }
  Value *sizes = n.graph.state.pinned(n.input(3));
  for (size_t i = 0; i < axes.size(); ++i) {
    const unsigned d = unsigned(axes[i]);
    const Number &start = roi[i], &end = roi[i + axes.size()];
    if (g.shape[d] == n.type(0).dim(d) && !start.atRunTime && !end.atRunTime && start.known == 0 &&
        end.known == 1)
      continue;
    Value *extent = sliceAlong(n.b, sizes, 0, n.dim(int64_t(i)), n.dim(1), 1);
    extent = extent ? n.b.cast(n.b.reshape(extent, {}), Element::I64) : nullptr;
    if (!extent)
      return false;
    g.atRunTime.push_back({d, g.shape[d], extent, nullptr, start, end});
  }
  g.fromExtents = false;
  return true;
}

/// `x`, operand 0 or what became of it, resampled to `g`; null after an error.
Value *resampled(Node &n, Value *x, Geometry g, const Resampling &how, const Floats &roi) {
  const bool crop = how.coordinates == "tf_crop_and_resize";
  if (how.antialias && g.fromExtents) // the IR's resize reads as many elements as known scales say
    for (unsigned d = 0; d < n.rank(0); ++d)
      if (const Dim out = g.shape[d]; out != x->type().dim(d)) {
        Value *as = n.b.broadcastTo(n.b.scalarConstant(Element::Bool, 0), {out});
        g.atRunTime.push_back({d, out, extentProduct(n.b, as, {0}, Element::I64)});
      }
  if (!g.atRunTime.empty()) {
    if (!isFloat(n.element(0)) && !isInteger(n.element(0)))
      return n.error("expected numbers, found " + toString(n.type(0)));
    if (how.antialias && crop)
      return n.error("attribute antialias: expected 0 where data decide the region, found 1");
    return resample(n.b, x, g.atRunTime, how);
  }
  bool still = !g.fromExtents; // nothing moves
  for (unsigned d = 0; d < n.rank(0); ++d)
    still &= g.scales[d] == 1 && g.shape[d] == x->type().dim(d);
  if (still && !crop)
    return x;
  NamedAttributes attributes{{"mode", Word{how.mode}},
                             {"coordinates", Word{how.coordinates}},
                             {"nearest", Word{how.nearest}},
                             {"shape", g.shape},
                             {"cubic_a", how.cubicA}};
  if (!g.fromExtents)
    attributes.insert({"scales", g.scales});
  if (how.excludeOutside)
    attributes.insert({"exclude_outside", true});
  if (how.antialias)
    attributes.insert({"antialias", true});
  if (crop) {
    attributes.insert({"roi", roi});
    attributes.insert({"extrapolation", how.extrapolation});
  }
  return n.b.value(Op::Resize, {x}, std::move(attributes));
}

/// The node's attribute `name` is one of `allowed`; reports otherwise.
bool checkWord(Node &n, llvm::StringRef name, const std::string &word,
               llvm::ArrayRef<llvm::StringRef> allowed) {
  if (llvm::is_contained(allowed, word))
    return true;
  n.error("attribute " + name.str() + ": expected " + llvm::join(allowed.drop_back(), ", ") +
          " or " + allowed.back().str() + ", found '" + word + "'");
  return false;
}

/// Upsample, and Resize of opset 10: scales only, positions i / s.
void importByScales(Node &n) {
  std::string mode = n.stringAttr("mode", "nearest");
  if (mode == "bilinear" || mode == "trilinear")
    mode = "linear";
  if (!checkWord(n, "mode", mode, {"nearest", "linear"}))
    return;
  Numbers scales;
  for (double scale : n.floatsAttr("scales"))
    scales.push_back({scale});
  if (n.opset >= 9) {
    if (!n.has(1)) {
      n.error("operand 1 (scales) is missing: expected it in this operator; write it");
      return;
    }
    auto given = numbersOperand(n, 1, n.rank(0));
    if (!given)
      return;
    scales = *given;
  }
  auto g = fromScales(n, scales, allAxes(0, n.rank(0)), {});
  if (!g)
    return;
  // Neighbours are picked axis by axis: from above where a known scale shrinks, else from below.
  Value *x = n.input(0);
  if (n.op() == "Resize" && mode == "nearest" && g->atRunTime.empty()) {
    Geometry shrunk{Dims(n.type(0).shape().begin(), n.type(0).shape().end()), Floats(n.rank(0), 1)};
    for (unsigned d = 0; d < n.rank(0); ++d)
      if (g->scales[d] < 1) {
        shrunk.shape[d] = g->shape[d];
        std::swap(shrunk.scales[d], g->scales[d]);
      }
    x = resampled(n, x, shrunk, {mode, "asymmetric", "ceil"}, {});
    if (!x)
      return;
  }
  n.set(0, resampled(n, x, *g, {mode, "asymmetric", "floor"}, {}));
}

} // namespace

void importUpsample(Node &n) { importByScales(n); }

void importResize(Node &n) {
  if (n.opset < 11) {
    importByScales(n);
    return;
  }
  const unsigned rank = n.rank(0);
  const Resampling how{n.stringAttr("mode", "nearest"),
                       n.stringAttr("coordinate_transformation_mode", "half_pixel"),
                       n.stringAttr("nearest_mode", "round_prefer_floor"),
                       n.floatAttr("cubic_coeff_a", -0.75),
                       n.boolAttr("exclude_outside", false),
                       n.floatAttr("extrapolation_value", 0),
                       n.boolAttr("antialias", false)};
  const std::string policy = n.stringAttr("keep_aspect_ratio_policy", "stretch");
  // ONNX dropped tf_half_pixel_for_nn in opset 13; tf2onnx writes it for later ones, too.
  const llvm::StringRef coordinates[] = {
      "half_pixel",         "half_pixel_symmetric", "align_corners",       "asymmetric",
      "pytorch_half_pixel", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
  if (!checkWord(n, "mode", how.mode, {"nearest", "linear", "cubic"}) ||
      !checkWord(n, "coordinate_transformation_mode", how.coordinates, coordinates) ||
      !checkWord(n, "nearest_mode", how.nearest,
                 {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) ||
      !checkWord(n, "keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"}))
    return;
  Ints axes = allAxes(0, rank);
  if (n.hasAttr("axes")) {
    axes = n.intsAttr("axes");
    for (int64_t &a : axes) {
      auto normal = n.axis(a, rank);
      if (!normal)
        return;
      a = *normal;
    }
  }
  Floats roi; // starts, ends of all dimensions
  Numbers region;
  if (how.coordinates == "tf_crop_and_resize") {
    auto given = n.has(1) ? numbersOperand(n, 1, 2 * int64_t(axes.size())) : Numbers();
    if (!given)
      return;
    region = *given;
    if (region.size() != 2 * axes.size()) {
      n.error("operand roi: expected " + std::to_string(2 * axes.size()) + " numbers, found " +
              std::to_string(region.size()));
      return;
    }
    roi.assign(rank, 0);
    roi.resize(2 * size_t(rank), 1);
    for (size_t i = 0; i < axes.size(); ++i) {
      roi[size_t(axes[i])] = region[i].known;
      roi[size_t(axes[i]) + rank] = region[i + axes.size()].known;
    }
  }
  // An empty tensor counts as left out.
  auto present = [&](unsigned i) { return n.has(i) && !n.type(i).elements().isConstant(0); };
  llvm::Optional<Geometry> g;
  if (present(3)) {
    if (auto sizes = n.shapeOperand(3))
      g = fromSizes(n, *sizes, axes, policy);
  } else if (present(2)) {
    if (auto scales = numbersOperand(n, 2, n.rank(0)))
      g = fromScales(n, *scales, axes, roi);
  } else {
    n.error("expected scales or sizes, found neither");
  }
  if (g && llvm::any_of(region, [](const Number &v) { return v.atRunTime; }) &&
      !cropAtRunTime(n, *g, axes, region))
    return;
  if (g)
    n.set(0, resampled(n, n.input(0), *g, how, roi));
}

} // namespace tenon::frontend
