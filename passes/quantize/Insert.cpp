// Implements the insertion of quantize and dequantize.
//
//   activations   int8 with a zero point, one scale: quantize and dequantize behind the value
//   weights       int8 constants without one, a scale for each output channel
//   biases        int32 constants in units of the sums that they are added to
//
// With f8e4m3 what contractions read is in 8 bits: activations with one scale, by their largest
// magnitude, weights as above; biases stay floats.
#include "passes/quantize/Insert.h"

#include "passes/Rewrite.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tenon {
namespace {

/// The largest number in f8e4m3.
constexpr double kMostOfFloat8 = 448;

IterationSpace spaceOf(const Value *v) {
  return IterationSpace(v->type().shape().begin(), v->type().shape().end());
}

/// dequantize of the constant `q`, with one scale or one for each channel along `axis`.
Value *dequantized(Builder &b, const Tensor &q, llvm::ArrayRef<float> scales, int64_t axis) {
  Value *source = b.constant(q);
  llvm::SmallVector<Value *, 2> operands{source};
  std::vector<IndexMap> maps{identityMap(source->type().rank())};
  if (scales.size() > 1) {
    Tensor t(Element::F32, {int64_t(scales.size())});
    for (size_t c = 0; c < scales.size(); ++c)
      t.set(int64_t(c), double(scales[c]));
    operands.push_back(b.constant(t));
    maps.push_back({axis});
  }
  Operation *map =
      b.map(operands, maps, spaceOf(source), [&](Builder &body, llvm::ArrayRef<Value *> args) {
        Value *s = scales.size() > 1 ? args[1] : body.scalarConst(Element::F32, double(scales[0]));
        Value *z = isFloat(q.element()) ? body.scalarConst(q.element(), 0)
                                        : body.scalarInt(q.element(), 0);
        return llvm::SmallVector<Value *, 2>{body.scalar(Op::Dequantize, {args[0], s, z})};
      });
  return map->result();
}

class Inserter {
public:
  Inserter(Graph &graph, const QuantizationPlan &plan, Diagnostics &diagnostics)
      : graph_(graph), plan_(plan), diagnostics_(diagnostics), numbers_(graph) {}

  void run() {
    std::vector<QuantizableLayer> layers = findLayers(graph_);
    for (const QuantizableLayer &l : layers)
      read_[l.anchor] = numbers_.of(l.anchor->operand(0));
    for (size_t i = 0; i < layers.size(); ++i) {
      QuantizableLayer &l = layers[i];
      if ((!plan_.layers.empty() && !plan_.layers[i]) || !takesElement(l, plan_.element))
        continue;
      if (l.isContraction())
        quantizeWeights(l);
      for (Value *v : l.inputs)
        quantize(v);
      if (!narrowFloats())
        quantize(l.result);
    }
    eraseDeadOps(graph_.body());
  }

private:
  bool narrowFloats() const { return isFloat(plan_.element); }
  static Operation *after(Operation *op) { return &*std::next(Region::iterator(op)); }
  ByteScale scaleOf(const Value *v) const {
    const ValueRange &r = plan_.values[size_t(numbers_.of(v))];
    return byteScale({r.low, r.high});
  }

  /// Of f8e4m3: the largest magnitude becomes the largest number.
  float float8Scale(const Value *v) const {
    const ValueRange &r = plan_.values[size_t(numbers_.of(v))];
    const auto s = float(std::max(-r.low, r.high) / kMostOfFloat8);
    return s > 1e-30f ? s : 1;
  }
  Value *zeroOf(Builder &body, const ByteScale &s) const {
    return narrowFloats() ? body.scalarConst(plan_.element, 0)
                          : body.scalarInt(plan_.element, s.zero);
  }
  /// x / scale in f8e4m3, as the importer writes QuantizeLinear.
  Value *narrowed(Builder &body, Value *x, Value *scale) const {
    Value *quotient = body.scalar(Op::Div, {x, scale});
    Value *most = body.scalarConst(Element::F32, kMostOfFloat8),
          *least = body.scalarConst(Element::F32, -kMostOfFloat8);
    return body.scalar(Op::Cast, {body.scalar(Op::Clamp, {quotient, least, most})},
                       {{"to", Type::scalar(body.context(), plan_.element)}});
  }

  /// What reads `v` reads it through 8 bits.
  void quantize(Value *v) {
    if (!done_.insert(v).second || numbers_.of(v) < 0)
      return;
    const Value *known = v;
    if (Value *behind = moved_.lookup(v))
      v = behind;
    Builder b(v->def() ? after(v->def()) : &graph_.body().front(), diagnostics_);
    if (v->def())
      b.location = v->def()->loc();
    const ByteScale s = narrowFloats() ? ByteScale{float8Scale(known), 0} : scaleOf(known);
    const IndexMap same = identityMap(v->type().rank());
    auto through = [&](Value *from, Op function) {
      return b.map({from}, {same}, spaceOf(v), [&](Builder &body, llvm::ArrayRef<Value *> args) {
        Value *scale = body.scalarConst(Element::F32, double(s.scale));
        Value *y = narrowFloats() && function == Op::Quantize
                       ? narrowed(body, args[0], scale)
                       : body.scalar(function, {args[0], scale, zeroOf(body, s)});
        return llvm::SmallVector<Value *, 2>{y};
      });
    };
    Operation *q = through(v, Op::Quantize);
    Value *back = through(q->result(), Op::Dequantize)->result();
    v->replaceUsesIf(back, [&](Use &use) { return use.owner() != q; });
  }

  void quantizeWeights(const QuantizableLayer &l) {
    Operation &op = *l.anchor;
    const Tensor w = *constantValue(op.operand(1));
    int64_t inner = 1;
    const bool matrix = op.is(Op::MatMul);
    const int64_t axis = l.weightAxis(), channels = w.shape()[size_t(axis)];
    for (size_t d = size_t(axis) + 1; d < w.rank(); ++d)
      inner *= w.shape()[d];
    auto channel = [&](int64_t i) { return size_t(i / inner % channels); };
    // Integer products of stacked matrices take one scale.
    const bool each = plan_.perChannel && (!matrix || w.rank() == 2);
    const double most = narrowFloats() ? kMostOfFloat8 : 127;
    std::vector<float> scales(each ? size_t(channels) : 1, 0);
    for (int64_t i = 0; i < w.size(); ++i) {
      float &s = scales[each ? channel(i) : 0];
      s = std::max(s, std::fabs(float(w.at(i))) / float(most));
    }
    for (float &s : scales)
      s = s > 1e-30f ? s : 1;
    Tensor q(plan_.element, w.shape());
    std::vector<double> shift(size_t(channels), 0); // of the mean of each channel
    const std::vector<double> &means = inputMeans(op);
    for (int64_t i = 0; i < w.size(); ++i) {
      const auto s = double(scales[each ? channel(i) : 0]);
      if (narrowFloats())
        q.set(i, std::clamp(w.at(i) / s, -most, most));
      else
        q.setInt(i, int64_t(std::clamp(std::nearbyint(w.at(i) / s), -most, most)));
      const double v = q.at(i);
      if (!means.empty())
        shift[channel(i)] += (v * s - w.at(i)) * means[inputChannel(op, w, i)];
    }
    Builder b(&op, diagnostics_);
    b.location = op.loc();
    quantizeBias(l, scales, shift);
    op.setOperand(1, dequantized(b, q, scales, axis));
  }

  const std::vector<double> &inputMeans(const Operation &op) const {
    static const std::vector<double> none;
    const bool known = !op.is(Op::MatMul) || op.operand(1)->type().rank() == 2;
    const int number = read_.lookup(&op);
    return known && number >= 0 ? plan_.values[size_t(number)].channelMeans : none;
  }

  static size_t inputChannel(const Operation &op, const Tensor &w, int64_t i) {
    if (op.is(Op::MatMul))
      return size_t(op.boolAttr("trans_b") ? i % w.shape()[1] : i / w.shape()[1]);
    int64_t taps = 1;
    for (size_t d = 2; d < w.rank(); ++d)
      taps *= w.shape()[d];
    const int64_t perGroup = w.shape()[0] / op.intAttr("groups", 1);
    return size_t(i / (taps * w.shape()[1]) / perGroup * w.shape()[1] + i / taps % w.shape()[1]);
  }

  void quantizeBias(const QuantizableLayer &l, llvm::ArrayRef<float> scales,
                    llvm::ArrayRef<double> shift) {
    const auto place = l.bias();
    const Tensor old = place ? *constantValue(place->map->operand(place->operand)) : Tensor();
    const bool shifts = llvm::any_of(shift, [](double v) { return v != 0; });
    if (!place && !shifts)
      return;
    const auto channels = int64_t(shift.size());
    const float unit = narrowFloats() ? 1 : scaleOf(l.inputs[0]).scale;
    std::vector<float> scale(scales.size());
    for (size_t c = 0; c < scales.size(); ++c)
      scale[c] = scales[c] * unit;
    Tensor q(narrowFloats() ? Element::F32 : Element::I32, {channels});
    for (int64_t c = 0; c < channels; ++c) {
      const double b = (place ? old.at(old.size() == 1 ? 0 : c) : 0) - shift[size_t(c)];
      if (narrowFloats()) {
        q.set(c, b);
        continue;
      }
      const double units = std::nearbyint(b / double(scale[scale.size() == 1 ? 0 : size_t(c)]));
      if (!(std::fabs(units) < 1 << 30))
        return; // stays as it is
      q.setInt(c, int64_t(units));
    }
    Builder b(place ? place->map : after(l.anchor), diagnostics_);
    b.location = l.anchor->loc();
    Value *bias = narrowFloats() ? b.constant(q) : dequantized(b, q, scale, 0);
    if (place) {
      IntLists maps = place->map->intListsAttr("maps");
      maps[place->operand] = {l.resultAxis()};
      place->map->setOperand(place->operand, bias);
      place->map->set("maps", maps);
      return;
    }
    Value *sum = l.anchor->result();
    Operation *map =
        b.map({sum, bias}, {identityMap(sum->type().rank()), IndexMap{l.resultAxis()}},
              spaceOf(sum), [&](Builder &body, llvm::ArrayRef<Value *> args) {
                return llvm::SmallVector<Value *, 2>{body.scalar(Op::Add, {args[0], args[1]})};
              });
    sum->replaceUsesIf(map->result(), [&](Use &use) { return use.owner() != map; });
    if (l.result == sum)
      moved_[sum] = map->result();
  }

  Graph &graph_;
  const QuantizationPlan &plan_;
  Diagnostics &diagnostics_;
  ValueNumbers numbers_;
  llvm::SmallPtrSet<Value *, 32> done_;
  llvm::DenseMap<const Operation *, int> read_; // number of what a layer reads
  llvm::DenseMap<Value *, Value *> moved_;      // results that got a bias behind them
};

} // namespace

std::vector<ValueRange> chooseRanges(const Statistics &statistics, const RangeMethod &method,
                                     bool means) {
  std::vector<ValueRange> ranges(statistics.size());
  for (size_t n = 0; n < statistics.size(); ++n) {
    const ValueStatistics &s = statistics[n];
    if (s.histogram.counts.empty())
      continue; // no layer needs it
    ranges[n].known = true;
    std::tie(ranges[n].low, ranges[n].high) = method.choose(s);
    if (means)
      ranges[n].channelMeans = s.channelMeans;
  }
  return ranges;
}

void insertQuantization(Graph &graph, const QuantizationPlan &plan, Diagnostics &diagnostics) {
  Inserter(graph, plan, diagnostics).run();
}

} // namespace tenon
