// decompose-conv-transpose: transposed convolutions become ordinary ones with stride 1.
//
//   %y = conv_transpose %x, %w     →    %r0 = conv %x, %w0       two columns' filters each
//        {strides = [2, 2]}             %r1 = conv %x, %w1
//   %z = map %y, %b { … }               %s0 = map %r0, %b2 { … }
//                                       %s1 = map %r1, %b2 { … }
//                                       %c = concat %s0, %s1 {axis = 3}
//                                       %z = transpose (reshape (transpose %c))
//
// Outputs that are `stride` apart read the input through the same taps, every stride-th one: a
// phase. Phases along the width become filters of one convolution, phases along the height
// convolutions of their own; where a phase has no tap that another of the width has, its weight is
// zero. With channels innermost the concat and the movement behind it are no work at all: pixel
// (h * s + a, w * t + b) of %z is where %c has column a * W + w of row h and the filters of b.
// Maps with constants per channel go into the convolutions' epilogues first.
//
//   %z = transpose (reshape (concat (concat %p00, %p01 {axis = 3}), (concat …) {axis = 2}))
//   %y = concat %skip, %z {axis = 1}
//
// In front of a concat of channels the columns of a pixel would have to be torn apart. There each
// phase of either axis is a convolution of its own, %pab its result as [N][H][W][1][K]: every one
// of them is a window of what %y is written to (concat-in-place), and nothing is copied. So are
// those of groups, whose filters for several columns would not stand together, and of volumes.
#include "passes/DecomposeConvTranspose.h"

#include "passes/AssignPrecision.h"
#include "passes/Maps.h"
#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"

#include <algorithm>

namespace tenon {
namespace {

/// One axis: output `q * stride + phase` reads input `q + shift` through tap `tap` of the kernel.
struct Tap {
  int64_t shift, tap;
};
struct Axis {
  Dim in, out;
  int64_t stride;
  std::vector<std::vector<Tap>> phases;

  Dim quotients() const { return ceilDiv(out, stride); }
  /// Every phase has as many outputs.
  bool isMultiple() const { return quotients() * stride == out; }
  /// Outputs of a phase beyond the inputs; None where open extents let it vary.
  llvm::Optional<int64_t> excess() const { return (quotients() - in).asConstant(); }
};

Axis axisOf(const Operation &op, unsigned d) {
  auto at = [&](llvm::StringRef name, unsigned i, int64_t otherwise) {
    const Ints &v = op.intsAttr(name);
    return v.empty() ? otherwise : v[i];
  };
  const int64_t pad = at("pads", d, 0), dilation = at("dilations", d, 1);
  Axis a;
  a.in = op.operand(0)->type().dim(d + 2);
  a.out = op.result()->type().dim(d + 2);
  a.stride = at("strides", d, 1);
  const int64_t kernel = op.operand(1)->type().dim(d + 2).constant();
  for (int64_t phase = 0; phase < a.stride; ++phase) {
    std::vector<Tap> taps;
    // Input i adds through tap t to output i * stride - pad + t * dilation.
    for (int64_t t = 0; t < kernel; ++t)
      if ((phase + pad - t * dilation) % a.stride == 0)
        taps.push_back({(phase + pad - t * dilation) / a.stride, t});
    a.phases.push_back(std::move(taps));
  }
  return a;
}

/// The window that some phases of an axis share: shifts [first, first + extent).
struct Window {
  int64_t first = 0, extent = 1;

  void include(llvm::ArrayRef<Tap> taps, bool fresh) {
    if (taps.empty())
      return;
    int64_t low = fresh ? taps[0].shift : first, high = fresh ? low : first + extent - 1;
    for (const Tap &t : taps) {
      low = std::min(low, t.shift);
      high = std::max(high, t.shift);
    }
    first = low;
    extent = high - low + 1;
  }
  int64_t padBegin() const { return -first; }
  int64_t padEnd(const Axis &a) const { return *a.excess() + first + extent - 1; }
};
Window windowOf(llvm::ArrayRef<std::vector<Tap>> phases) {
  Window w;
  bool fresh = true;
  for (const auto &taps : phases) {
    w.include(taps, fresh);
    fresh &= taps.empty();
  }
  return w;
}

/// Constants of a map that only differ by channel; the operand that is read in place.
llvm::Optional<unsigned> channelMapOperand(const Operation &map, const Value *y) {
  if (!map.is(Op::Map) || map.numResults() != 1)
    return llvm::None;
  llvm::Optional<unsigned> main;
  for (unsigned i = 0; i < map.numOperands(); ++i) {
    const IndexMap &m = indexMap(map, i);
    if (map.operand(i) == y) {
      if (main || !isIdentityMap(m, y->type().rank()))
        return llvm::None;
      main = i;
    } else if (!constantValue(map.operand(i)) ||
               !llvm::all_of(m, [](int64_t d) { return d == -1 || d == 1; }) ||
               llvm::count(m, 1) > 1) {
      return llvm::None;
    }
  }
  for (Operation &op : map.region())
    if (op.is(Op::Index))
      return llvm::None;
  return main;
}

/// A constant repeated along the dimension that a map reads by channel.
Value *repeated(Builder &b, Value *constant, const IndexMap &m, int64_t times) {
  auto at = llvm::find(m, 1);
  const Literal l = constantValue(constant);
  const size_t d = size_t(at - m.begin());
  if (at == m.end() || times == 1 || l->shape()[d] == 1)
    return constant;
  llvm::SmallVector<int64_t, 6> shape(l->shape().begin(), l->shape().end());
  const int64_t channels = shape[d]; // the only extent other than 1
  shape[d] *= times;
  Tensor t(l->element(), shape);
  for (int64_t i = 0; i < channels * times; ++i)
    t.set(i, l->at(i % channels));
  return b.constant(t, constant->hint());
}

/// `map` over one phase's result in place of its operand `main`.
Value *mapOfPhase(Builder &b, Operation &map, unsigned main, Value *phase, int64_t times) {
  llvm::SmallVector<Value *, 4> operands;
  llvm::SmallVector<IndexMap, 4> maps;
  for (unsigned i = 0; i < map.numOperands(); ++i) {
    operands.push_back(i == main ? phase : repeated(b, map.operand(i), indexMap(map, i), times));
    maps.push_back(indexMap(map, i));
  }
  b.location = map.loc();
  return b
      .map(operands, maps, phase->type().shape(),
           [&](Builder &inner, llvm::ArrayRef<Value *> arguments) {
             std::map<const Value *, Value *> values;
             for (unsigned i = 0; i < arguments.size(); ++i)
               values[map.region().argument(i)] = arguments[i];
             inlineBody(map.region(), inner, values, {});
             Value *y = map.region().terminator()->operand(0);
             return llvm::SmallVector<Value *, 2>{values[y]};
           })
      ->result();
}

/// A transposed convolution whose taps are known.
struct Problem {
  Operation &op;
  Axis depth, height, width; // of one element where there are fewer dimensions

  Value *x() const { return op.operand(0); }
  unsigned rank() const { return x()->type().rank(); }
  int64_t groups() const { return op.intAttr("groups", 1); }
  bool flat() const { return rank() == 3; }
  bool volume() const { return rank() == 5; }
  /// Whether filters for several columns may stand together in one convolution.
  bool joinsColumns() const { return groups() == 1 && !volume(); }
  Literal weights() const { return constantValue(op.operand(1)); }
};

llvm::Optional<Problem> problemOf(Operation &op) {
  if (!op.is(Op::ConvTranspose))
    return llvm::None;
  const Type x = op.operand(0)->type(), y = op.result()->type();
  const unsigned rank = x.rank();
  if (!constantValue(op.operand(1)) || rank < 3 || rank > 5)
    return llvm::None;
  if (!x.dim(1).isConstant() || y.dim(1).isConstant(0))
    return llvm::None;
  const Dim one = x.context().dim(1);
  const Axis none{one, one, 1, {{{0, 0}}}};
  Problem p{op, rank > 4 ? axisOf(op, 0) : none, rank > 3 ? axisOf(op, rank - 4) : none,
            axisOf(op, rank - 3)};
  for (const Axis *a : {&p.depth, &p.height, &p.width})
    if (a->out.lower() < 1 || !a->excess())
      return llvm::None;
  return p;
}

/// No padding is negative.
bool fits(const Window &v, const Axis &a) { return v.padBegin() >= 0 && v.padEnd(a) >= 0; }

/// Maps that may go into the epilogues: each reads nothing but the one before it, by channel.
llvm::SmallVector<Operation *, 4> mapsBehind(Operation &op) {
  llvm::SmallVector<Operation *, 4> maps;
  for (Operation *last = &op; last->result()->hasOneUse(); last = maps.back()) {
    Operation *user = (*last->result()->uses().begin())->owner();
    if (user->parent() != op.parent() || !channelMapOperand(*user, last->result()))
      break;
    maps.push_back(user);
  }
  return maps;
}

/// Weights [columns * K][C][window] of one phase of depth and height and some of the width; of one
/// where there are groups, whose filters follow each other.
Tensor phaseWeights(const Problem &p, llvm::ArrayRef<Tap> planes, llvm::ArrayRef<Tap> rows,
                    llvm::ArrayRef<std::vector<Tap>> columns, llvm::ArrayRef<Window> windows) {
  const Literal kept = p.weights();
  const Tensor &w = *kept;
  const int64_t channels = w.shape()[0] / p.groups(), each = w.shape()[1],
                filters = p.groups() * each;
  const auto kernel = llvm::makeArrayRef(w.shape()).drop_front(2);
  const int64_t kernelW = kernel.back(), kernelH = p.flat() ? 1 : kernel[kernel.size() - 2];
  const int64_t kernelD = p.volume() ? kernel[0] : 1;
  const Window &front = windows[0], &down = windows[1], &across = windows[2];
  llvm::SmallVector<int64_t, 5> shape{int64_t(columns.size()) * filters, channels};
  for (const Window &window : windows.take_back(p.rank() - 2))
    shape.push_back(window.extent);
  Tensor out(w.element(), shape);
  for (size_t b = 0; b < columns.size(); ++b)
    for (const Tap &x : columns[b])
      for (const Tap &y : rows)
        for (const Tap &z : planes)
          for (int64_t k = 0; k < filters; ++k)
            for (int64_t c = 0; c < channels; ++c) {
              int64_t from = (k / each * channels + c) * each + k % each;
              from = ((from * kernelD + z.tap) * kernelH + y.tap) * kernelW + x.tap;
              int64_t to = (int64_t(b) * filters + k) * channels + c;
              to = (to * front.extent + z.shift - front.first) * down.extent + y.shift - down.first;
              out.set(to * across.extent + x.shift - across.first, w.at(from));
            }
  return out;
}

/// The convolution for one phase of depth and height and some of the width, with its maps.
Value *phase(Builder &b, const Problem &p, llvm::ArrayRef<Tap> planes, llvm::ArrayRef<Tap> rows,
             llvm::ArrayRef<std::vector<Tap>> columns, llvm::ArrayRef<Operation *> maps) {
  const Window windows[] = {windowOf(planes.vec()), windowOf(rows.vec()), windowOf(columns)};
  const Axis *const axes[] = {&p.depth, &p.height, &p.width};
  b.location = p.op.loc();
  Value *weights =
      b.constant(phaseWeights(p, planes, rows, columns, windows), p.op.operand(1)->hint());
  Ints pads;
  for (unsigned d = 5 - p.rank(); d < 3; ++d)
    pads.push_back(windows[d].padBegin());
  for (unsigned d = 5 - p.rank(); d < 3; ++d)
    pads.push_back(windows[d].padEnd(*axes[d]));
  Value *y = b.value(Op::Conv, {p.x(), weights},
                     {{"strides", Ints(p.rank() - 2, 1)},
                      {"dilations", Ints(p.rank() - 2, 1)},
                      {"pads", pads},
                      {"groups", p.groups()}});
  const Value *before = p.op.result();
  for (Operation *map : maps) {
    y = mapOfPhase(b, *map, *channelMapOperand(*map, before), y, int64_t(columns.size()));
    before = map->result();
  }
  return y;
}

Value *concat(Builder &b, llvm::ArrayRef<Value *> parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : b.value(Op::Concat, parts, {{"axis", axis}});
}

/// From channels innermost, in whatever shape, to [N][K][D * r][H * s][W * t].
Value *channelsFirst(Builder &b, const Problem &p, Value *z) {
  const Type y = p.op.result()->type();
  const Axis *const axes[] = {&p.depth, &p.height, &p.width};
  Dims shape{y.dim(0)};
  Ints order{0, int64_t(p.rank()) - 1};
  for (unsigned d = 5 - p.rank(); d < 3; ++d) {
    order.push_back(int64_t(shape.size()));
    shape.push_back(axes[d]->quotients() * axes[d]->stride);
  }
  shape.push_back(y.dim(1));
  return b.transpose(b.reshape(z, shape), order);
}
Value *channelsLast(Builder &b, const Problem &p, Value *z) {
  Ints order{0};
  for (unsigned d = 2; d < p.rank(); ++d)
    order.push_back(d);
  order.push_back(1);
  return b.transpose(z, order);
}

bool phasesPattern(Operation &op, Rewriter &rw) {
  const auto p = problemOf(op);
  if (!p || !p->joinsColumns())
    return false;
  const Axis &height = p->height, &width = p->width;
  const Window across = windowOf(width.phases);
  int64_t taps = 0;
  for (const auto &t : width.phases)
    taps += int64_t(t.size());
  // Dilation and stride that share no phase would fill the window with zeros.
  if (width.stride * across.extent > 2 * std::max<int64_t>(taps, width.stride))
    return false;
  if (!fits(across, width) ||
      !llvm::all_of(height.phases,
                    [&](const std::vector<Tap> &t) { return fits(windowOf(t), height); }) ||
      !rw.fire(op))
    return false;

  // The new operations stand where the last of the maps does.
  const auto maps = mapsBehind(op);
  Operation &last = maps.empty() ? op : *maps.back();
  Builder b = rw.before(last);
  llvm::SmallVector<Value *, 4> rows;
  for (const auto &t : height.phases)
    rows.push_back(phase(b, *p, p->depth.phases[0], t, width.phases, maps));
  b.location = last.loc();
  Value *z = concat(b, rows, p->rank() - 1);
  if (rows.size() > 1 || width.stride > 1)
    z = channelsFirst(b, *p, channelsLast(b, *p, z));
  const Type y = op.result()->type();
  if (z->type().shape() != y.shape()) { // extents that are no multiples of the stride
    const Dims zero(p->rank(), b.context().dim(0)), extents(y.shape().begin(), y.shape().end());
    z = b.value(Op::Slice, {z},
                {{"starts", zero}, {"sizes", extents}, {"steps", Ints(p->rank(), 1)}});
  }
  return rw.replace(last, z);
}

/// Whether a concat of channels reads `v` that can have it written into its result, pixel by pixel.
bool isWrittenIntoConcat(Value *v, PassContext &context) {
  for (Use *u : v->uses()) {
    Operation &concat = *u->owner();
    if (!concat.is(Op::Concat) || concat.intAttr("axis") != 1 ||
        !context.enabled("concat-in-place.operand", &concat))
      continue;
    const int64_t bytes = bitWidth(storedElement(v->type().element(), concat.loc(), context)) / 8;
    int64_t at = 0;
    for (unsigned i = 0; i < u->index(); ++i)
      at += concat.operand(i)->type().dim(1).upper() * bytes;
    if (whyNotApart(v->type().dim(1).upper() * bytes, at,
                    concat.result()->type().dim(1).upper() * bytes, context.target.viewAlignment)
            .empty())
      return true;
  }
  return false;
}

bool phaseByPhasePattern(Operation &op, Rewriter &rw) {
  const auto p = problemOf(op);
  if (!p || !rw.context().target.channelsLast)
    return false;
  if (p->joinsColumns() && p->height.stride * p->width.stride == 1)
    return false;
  for (const Axis *a : {&p->depth, &p->height, &p->width})
    if (!a->isMultiple() ||
        !llvm::all_of(a->phases, [&](const std::vector<Tap> &t) { return fits(windowOf(t), *a); }))
      return false;
  const auto maps = mapsBehind(op);
  Operation &last = maps.empty() ? op : *maps.back();
  if ((p->joinsColumns() && !isWrittenIntoConcat(last.result(), rw.context())) || !rw.fire(op))
    return false;

  Builder b = rw.before(last);
  const int64_t axis = p->rank() - 2; // of the width
  llvm::SmallVector<Value *, 4> planes;
  for (const auto &front : p->depth.phases) {
    llvm::SmallVector<Value *, 4> rows;
    for (const auto &down : p->height.phases) {
      llvm::SmallVector<Value *, 4> columns;
      for (const auto &across : p->width.phases) {
        Value *z = channelsLast(b, *p, phase(b, *p, front, down, across, maps));
        Dims shape(z->type().shape().begin(), z->type().shape().end());
        shape.insert(shape.begin() + axis + 1, b.context().dim(1));
        columns.push_back(b.reshape(z, shape));
      }
      b.location = last.loc();
      rows.push_back(concat(b, columns, axis + 1));
    }
    planes.push_back(concat(b, rows, axis));
  }
  return rw.replace(last, channelsFirst(b, *p, concat(b, planes, axis - 1)));
}

const Pattern kPatterns[] = {
    {"decompose-conv-transpose.into-concat", phaseByPhasePattern},
    {"decompose-conv-transpose.phases", phasesPattern},
};

} // namespace

bool runDecomposeConvTranspose(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
