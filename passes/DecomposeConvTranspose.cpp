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
#include "passes/DecomposeConvTranspose.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include <algorithm>

namespace tenon {
namespace {

/// One axis: output `q * stride + phase` reads input `q + shift` through tap `tap` of the kernel.
struct Tap {
  int64_t shift, tap;
};
struct Axis {
  int64_t in, out, stride;
  std::vector<std::vector<Tap>> phases;

  int64_t quotients() const { return (out + stride - 1) / stride; }
};

Axis axisOf(const Operation &op, unsigned d) {
  auto at = [&](llvm::StringRef name, unsigned i, int64_t otherwise) {
    const Ints &v = op.intsAttr(name);
    return v.empty() ? otherwise : v[i];
  };
  const int64_t pad = at("pads", d, 0), dilation = at("dilations", d, 1);
  Axis a;
  a.in = op.operand(0)->type().dim(d + 2).constant();
  a.out = op.result()->type().dim(d + 2).constant();
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
  int64_t padEnd(const Axis &a) const { return a.quotients() - a.in + first + extent - 1; }
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

/// Weights [phases of the width * K][C][window] of one phase of the height.
Tensor phaseWeights(const Tensor &w, bool flat, llvm::ArrayRef<Tap> rows, Window height,
                    const Axis &width, Window across) {
  const int64_t channels = w.shape()[0], filters = w.shape()[1];
  const int64_t kernelW = w.shape().back(), kernelH = flat ? 1 : w.shape()[2];
  llvm::SmallVector<int64_t, 4> shape{width.stride * filters, channels};
  if (!flat)
    shape.push_back(height.extent);
  shape.push_back(across.extent);
  Tensor out(w.element(), shape);
  for (int64_t b = 0; b < width.stride; ++b)
    for (const Tap &x : width.phases[size_t(b)])
      for (const Tap &y : rows)
        for (int64_t k = 0; k < filters; ++k)
          for (int64_t c = 0; c < channels; ++c) {
            const int64_t from = ((c * filters + k) * kernelH + y.tap) * kernelW + x.tap;
            const int64_t to =
                (((b * filters + k) * channels + c) * height.extent + y.shift - height.first) *
                    across.extent +
                x.shift - across.first;
            out.set(to, w.at(from));
          }
  return out;
}

bool phasesPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::ConvTranspose))
    return false;
  const Type x = op.operand(0)->type(), y = op.result()->type();
  const unsigned rank = x.rank();
  Literal w = constantValue(op.operand(1));
  if (!w || rank < 3 || rank > 4 || op.intAttr("groups", 1) != 1)
    return false;
  for (unsigned d = 1; d < rank; ++d)
    if (!x.dim(d).isConstant() || !y.dim(d).isConstant() || y.dim(d).constant() == 0)
      return false;
  const bool flat = rank == 3;
  const Axis width = axisOf(op, rank - 3),
             height = flat ? Axis{1, 1, 1, {{{0, 0}}}} : axisOf(op, 0);
  const Window across = windowOf(width.phases);
  std::vector<Window> down;
  for (const auto &taps : height.phases)
    down.push_back(windowOf(taps));
  int64_t taps = 0;
  for (const auto &p : width.phases)
    taps += int64_t(p.size());
  // Dilation and stride that share no phase would fill the window with zeros.
  if (width.stride * across.extent > 2 * std::max<int64_t>(taps, width.stride))
    return false;
  auto fits = [](const Window &v, const Axis &a) { return v.padBegin() >= 0 && v.padEnd(a) >= 0; };
  if (!fits(across, width) ||
      !llvm::all_of(down, [&](const Window &v) { return fits(v, height); }) || !rw.fire(op))
    return false;

  // What may go into the epilogue: the new operations stand where the last of these maps does.
  llvm::SmallVector<Operation *, 4> maps;
  Operation *last = &op;
  while (last->result()->hasOneUse()) {
    Operation *user = (*last->result()->uses().begin())->owner();
    if (user->parent() != op.parent() || !channelMapOperand(*user, last->result()))
      break;
    maps.push_back(user);
    last = user;
  }

  Builder b = rw.before(*last);
  llvm::SmallVector<Value *, 4> rows;
  for (size_t a = 0; a < height.phases.size(); ++a) {
    b.location = op.loc();
    Value *weights = b.constant(phaseWeights(*w, flat, height.phases[a], down[a], width, across),
                                op.operand(1)->hint());
    Ints pads;
    if (!flat)
      pads = {down[a].padBegin(), across.padBegin(), down[a].padEnd(height), across.padEnd(width)};
    else
      pads = {across.padBegin(), across.padEnd(width)};
    Value *row = b.value(Op::Conv, {op.operand(0), weights},
                         {{"strides", Ints(rank - 2, 1)},
                          {"dilations", Ints(rank - 2, 1)},
                          {"pads", pads},
                          {"groups", int64_t(1)}});
    const Value *before = op.result();
    for (Operation *map : maps) {
      row = mapOfPhase(b, *map, *channelMapOperand(*map, before), row, width.stride);
      before = map->result();
    }
    rows.push_back(row);
  }
  b.location = last->loc();
  Value *z = rows.size() == 1 ? rows[0] : b.value(Op::Concat, rows, {{"axis", int64_t(rank - 1)}});
  if (rows.size() > 1 || width.stride > 1) {
    const Dim n = x.dim(0), k = y.dim(1);
    Context &c = b.context();
    const Dim wide = c.dim(width.quotients() * width.stride);
    Dims shape =
        flat ? Dims{n, wide, k} : Dims{n, c.dim(height.quotients() * height.stride), wide, k};
    z = flat ? b.transpose(z, {0, 2, 1}) : b.transpose(z, {0, 2, 3, 1});
    z = b.reshape(z, shape);
    z = flat ? b.transpose(z, {0, 2, 1}) : b.transpose(z, {0, 3, 1, 2});
  }
  if (z->type().shape() != y.shape()) { // extents that are no multiples of the stride
    const Dims zero(rank, b.context().dim(0)), extents(y.shape().begin(), y.shape().end());
    z = b.value(Op::Slice, {z}, {{"starts", zero}, {"sizes", extents}, {"steps", Ints(rank, 1)}});
  }
  rw.replace(*last, z);
  return true;
}

const Pattern kPatterns[] = {
    {"decompose-conv-transpose.phases", phasesPattern},
};

} // namespace

bool runDecomposeConvTranspose(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
