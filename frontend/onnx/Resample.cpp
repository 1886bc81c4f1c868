// Implements resampling at run time. For each dimension a map over its indices computes which
// elements are read and what they weigh, from the extents; gathers read them, and a map adds them
// up. With antialias the scale says how many are read, so that all weights are a matrix:
//
//   y[o] = Σ_i w[o, i] x[i] / Σ_i w[o, i],  w[o, i] = filter((i − position(o)) · min(scale, 1))
//
// where the border's elements also weigh what those beyond would.
#include "frontend/onnx/Resample.h"

#include "frontend/onnx/Sample.h"

namespace tenon::frontend {
namespace {

/// What a position follows from, as scalars of the type of `s`.
struct AxisScalars {
  Scalars &s;
  Value *in, *out, *scale, *start, *end; // of a crop's region the last two

  Value *less(Value *v) const { return s(Op::Sub, v, s.c(1)); }
  Value *scaled(Value *i) const { return s(Op::Div, s(Op::Add, i, s.c(0.5)), scale); }
  Value *whereMany(Value *many, Value *one) const {
    return s(Op::Select, s(Op::Greater, out, s.c(1)), many, one);
  }
  Value *position(Value *i, llvm::StringRef coordinates) const {
    if (coordinates == "asymmetric")
      return s(Op::Div, i, scale);
    if (coordinates == "align_corners")
      return whereMany(s(Op::Div, s(Op::Mul, i, less(in)), less(out)), s.c(0));
    if (coordinates == "tf_half_pixel_for_nn")
      return scaled(i);
    if (coordinates == "pytorch_half_pixel")
      return whereMany(s(Op::Sub, scaled(i), s.c(0.5)), s.c(0));
    if (coordinates == "half_pixel_symmetric") {
      Value *adjustment = s(Op::Div, out, s(Op::Mul, scale, in));
      Value *moved = s(Op::Mul, s(Op::Mul, in, s.c(0.5)), s(Op::Sub, s.c(1), adjustment));
      return s(Op::Sub, s(Op::Add, moved, scaled(i)), s.c(0.5));
    }
    if (coordinates == "tf_crop_and_resize") {
      Value *way = s(Op::Mul, s(Op::Mul, i, s(Op::Sub, end, start)), less(in));
      Value *middle = s(Op::Mul, s.c(0.5), s(Op::Add, start, end));
      return whereMany(s(Op::Add, s(Op::Mul, start, less(in)), s(Op::Div, way, less(out))),
                       s(Op::Mul, middle, less(in)));
    }
    return s(Op::Sub, scaled(i), s.c(0.5)); // half_pixel
  }
  Value *isOutside(Value *at) const {
    return s(Op::LogicalOr, s(Op::Less, at, s.c(0)), s(Op::Greater, at, less(in)));
  }
  /// As an index; that of the first element where it is no number.
  Value *index(Value *at) const {
    Value *least = s(Op::Select, s(Op::Greater, at, s.c(0)), at, s.c(0)), *last = less(in);
    return s.cast(s(Op::Select, s(Op::Less, least, last), least, last), Element::I64);
  }
};

Value *rounded(Scalars &s, Value *p, llvm::StringRef rule) {
  if (rule == "floor")
    return s(Op::Floor, p);
  if (rule == "ceil")
    return s(Op::Ceil, p);
  if (rule == "round_prefer_ceil")
    return s(Op::Floor, s(Op::Add, p, s.c(0.5)));
  return s(Op::Ceil, s(Op::Sub, p, s.c(0.5)));
}

/// The elements that position p reads.
Taps neighbours(const AxisScalars &axis, Value *p, const Resampling &how) {
  Scalars &s = axis.s;
  if (how.mode == "nearest")
    return {{axis.index(rounded(s, p, how.nearest)), s.c(1)}};
  const bool cubic = how.mode == "cubic";
  Value *base = s(Op::Floor, p), *t = s(Op::Sub, p, base);
  // Less than 1 by the distances, as the IR's resize has it to the last bit: ties of integers.
  Value *next = s(Op::Sub, s(Op::Add, base, s.c(1)), p);
  const llvm::SmallVector<Value *, 4> weights =
      cubic ? cubicWeights(s, t, how.cubicA)
            : llvm::SmallVector<Value *, 4>{s(Op::Sub, s.c(1), t), s(Op::Sub, s.c(1), next)};
  Taps taps;
  Value *sum = nullptr;
  for (size_t k = 0; k < weights.size(); ++k) {
    Value *at = s(Op::Add, base, s.c(double(k) - (cubic ? 1 : 0))), *weight = weights[k];
    if (how.excludeOutside)
      weight = s(Op::Select, axis.isOutside(at), s.c(0), weight);
    sum = sum ? s(Op::Add, sum, weight) : weight;
    taps.push_back({axis.index(at), weight});
  }
  if (how.excludeOutside)
    for (Tap &tap : taps)
      tap.weight = s(Op::Div, tap.weight, sum);
  return taps;
}

/// What positions along `axis` of `x` follow from, as operands of a map.
llvm::SmallVector<Value *, 5> axisOperands(Builder &b, Value *x, const ResampledAxis &axis) {
  llvm::SmallVector<Value *, 5> operands{axis.extent,
                                         extentProduct(b, x, {int64_t(axis.axis)}, Element::I64)};
  for (Value *v : {axis.scale, axis.start.atRunTime, axis.end.atRunTime})
    if (v)
      operands.push_back(v);
  return operands;
}

/// The scalars of these operands, `a` in a body that computes in the type of `s`.
AxisScalars axisScalars(Scalars &s, const ResampledAxis &axis, llvm::ArrayRef<Value *> a) {
  Value *out = s.cast(a[0], s.type), *in = s.cast(a[1], s.type);
  size_t next = 2;
  Value *scale = axis.scale ? s.cast(a[next++], s.type) : s(Op::Div, out, in);
  auto number = [&](const Number &v) {
    return v.atRunTime ? s.cast(a[next++], s.type) : s.c(v.known);
  };
  Value *start = number(axis.start), *end = number(axis.end);
  return {s, in, out, scale, start, end};
}

/// The filter's weight at `distance`.
Value *filterWeight(Scalars &s, Value *distance, const Resampling &how) {
  Value *d = s(Op::Abs, distance);
  auto plus = [&](Value *v, double c) { return s(Op::Add, v, s.c(c)); };
  auto times = [&](Value *v, Value *w) { return s(Op::Mul, v, w); };
  if (how.mode != "cubic")
    return s(Op::Max, s(Op::Sub, s.c(1), d), s.c(0));
  const double a = how.cubicA;
  Value *near = plus(times(times(plus(times(s.c(a + 2), d), -(a + 3)), d), d), 1);
  Value *far = plus(times(plus(times(plus(times(s.c(a), d), -5 * a), d), 8 * a), d), -4 * a);
  return s(Op::Select, s(Op::LessEqual, d, s.c(1)), near,
           s(Op::Select, s(Op::Less, d, s.c(2)), far, s.c(0)));
}

/// `x` along `axis` with a filter that is stretched where that shrinks, in elements of `compute`.
Value *antialiasAxis(Builder &b, Value *x, const ResampledAxis &axis, const Resampling &how,
                     Element compute) {
  const llvm::SmallVector<Value *, 5> operands = axisOperands(b, x, axis);
  const std::vector<IndexMap> scalars(operands.size());
  const Dim in = x->type().dim(axis.axis);
  // The weights of elements `place` gives by number.
  auto weights = [&](Dim count, llvm::function_ref<Value *(Scalars &, Value *, Value *)> place) {
    return pointwise(b, operands, scalars, {axis.out, count},
                     [&](Scalars &own, llvm::ArrayRef<Value *> a) {
                       Scalars s{own.b, Element::F64};
                       const AxisScalars t = axisScalars(s, axis, a);
                       Value *at = place(s, s.cast(s.index(1), s.type), t.in);
                       Value *p = t.position(s.cast(s.index(0), s.type), how.coordinates);
                       Value *stretch = s(Op::Min, t.scale, s.c(1));
                       return filterWeight(s, s(Op::Mul, s(Op::Sub, at, p), stretch), how);
                     });
  };
  // A filter reaches as far as twice its radius by the extent where a size of 1 was rounded up.
  const Dim beyond = in * (how.mode == "cubic" ? 4 : 2);
  Value *inside = weights(in, [](Scalars &, Value *k, Value *) { return k; });
  Value *before =
      weights(beyond, [](Scalars &s, Value *k, Value *) { return s(Op::Sub, s.c(-1), k); });
  Value *behind = weights(beyond, [](Scalars &s, Value *k, Value *n) { return s(Op::Add, n, k); });
  if (!inside || !before || !behind)
    return nullptr;
  auto total = [&](Value *w) { return keepDims(b, sum(b, w, {1}), w->type(), {1}); };
  Value *first = total(before), *last = total(behind);
  const double counts = how.excludeOutside ? 0 : 1;
  llvm::SmallVector<Value *, 4> parts{inside, first, last, operands[1]};
  if (llvm::is_contained(parts, nullptr))
    return nullptr;
  const Shape space{axis.out, in};
  const IndexMap row = broadcastMap(first->type(), space);
  Value *folded = pointwise(
      b, parts, {{0, 1}, row, row, {}}, space, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *k = s.index(1);
        auto where = [&](Value *end, Value *w) {
          return s(Op::Select, s(Op::Equal, k, end), s(Op::Mul, w, s.c(counts)), s.c(0));
        };
        Value *low = where(s.c(Element::I64, 0), a[1]);
        Value *high = where(s(Op::Sub, a[3], s.c(Element::I64, 1)), a[2]);
        return s(Op::Add, a[0], s(Op::Add, low, high));
      });
  Value *all = folded ? total(folded) : nullptr;
  Value *matrix = all ? pointwise(b, {folded, all},
                                  [&](Scalars &s, llvm::ArrayRef<Value *> a) {
                                    return s.cast(s(Op::Div, a[0], a[1]), compute);
                                  })
                      : nullptr;
  // The dimension stands last for the product.
  Ints perm = allAxes(0, x->type().rank());
  std::swap(perm[axis.axis], perm.back());
  Value *turned = b.transpose(b.cast(x, compute), perm);
  Value *y =
      turned && matrix ? b.value(Op::MatMul, {turned, matrix}, {{"trans_b", true}}) : nullptr;
  return y ? b.transpose(y, perm) : nullptr;
}

/// `x` along `axis`, in elements of type `compute` unless they are only picked.
Value *resampleAxis(Builder &b, Value *x, const ResampledAxis &axis, const Resampling &how,
                    Element compute) {
  const bool nearest = how.mode == "nearest", crop = how.coordinates == "tf_crop_and_resize";
  if (how.antialias && !nearest)
    return antialiasAxis(b, x, axis, how, compute);
  const llvm::SmallVector<Value *, 5> operands = axisOperands(b, x, axis);
  const std::vector<IndexMap> scalars(operands.size());
  // Index and weight of each tap, last whether the region is left.
  Operation *found =
      b.map(operands, scalars, {axis.out}, [&](Builder &inner, llvm::ArrayRef<Value *> a) {
        // In double, but in f32 where an ulp chooses another element, as in the IR's resize.
        Scalars s{inner, Element::F64}, choosing{inner, Element::F32};
        const AxisScalars given = axisScalars(s, axis, a);
        auto scalarsIn = [&](Scalars &t) {
          auto to = [&](Value *v) { return t.cast(v, t.type); };
          return AxisScalars{
              t, to(given.in), to(given.out), to(given.scale), to(given.start), to(given.end)};
        };
        auto position = [&](const AxisScalars &t) {
          return t.position(t.s.cast(t.s.index(0), t.s.type), how.coordinates);
        };
        llvm::SmallVector<Value *, 2> yields;
        const AxisScalars used = scalarsIn(nearest ? choosing : s);
        for (const Tap &tap : neighbours(used, position(used), how)) {
          yields.push_back(tap.index);
          if (!nearest)
            yields.push_back(s.cast(tap.weight, compute));
        }
        if (crop) {
          const AxisScalars border = scalarsIn(choosing);
          yields.push_back(border.isOutside(position(border)));
        }
        return yields;
      });
  if (!found)
    return nullptr;
  const unsigned rank = x->type().rank(), perTap = nearest ? 1 : 2;
  const unsigned taps = (found->numResults() - (crop ? 1 : 0)) / perTap;
  llvm::SmallVector<Value *, 9> values;
  std::vector<IndexMap> maps;
  for (unsigned k = 0; k < taps; ++k) {
    values.push_back(
        b.value(Op::Gather, {x, found->result(k * perTap)}, {{"axis", int64_t(axis.axis)}}));
    if (!values.back())
      return nullptr;
    maps.push_back(identityMap(rank));
  }
  if (nearest && !crop)
    return values[0];
  for (unsigned k = 0; !nearest && k < taps; ++k)
    values.push_back(found->result(k * perTap + 1));
  if (crop)
    values.push_back(found->result(found->numResults() - 1));
  maps.resize(values.size(), along(axis.axis));
  const Element own = x->type().element();
  return pointwise(
      b, values, maps, values[0]->type().shape(), [&](Scalars &s, llvm::ArrayRef<Value *> a) {
        Value *sum = nearest ? a[0] : nullptr;
        for (unsigned k = 0; !nearest && k < taps; ++k) {
          Value *part = s(Op::Mul, s.cast(a[k], compute), a[taps + k]);
          sum = sum ? s(Op::Add, sum, part) : part;
        }
        return crop ? s(Op::Select, a.back(), s.c(nearest ? own : compute, how.extrapolation), sum)
                    : sum;
      });
}

} // namespace

Value *resample(Builder &b, Value *x, llvm::ArrayRef<ResampledAxis> axes, const Resampling &how) {
  const Element own = x->type().element();
  // Integers round once, in the end.
  const Element compute = isInteger(own) ? Element::F64 : computeType(own);
  for (size_t i = axes.size(); x && i-- > 0;)
    x = resampleAxis(b, x, axes[i], how, compute);
  if (!x || x->type().element() == own)
    return x;
  return pointwise(b, {x}, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
    return s.cast(isInteger(own) ? s(Op::Round, a[0]) : a[0], own);
  });
}

} // namespace tenon::frontend
