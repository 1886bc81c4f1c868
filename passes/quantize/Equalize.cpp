// Implements cross-layer equalisation.
#include "passes/quantize/Equalize.h"

#include "passes/Rewrite.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

/// A channel seen smaller than this share of the largest one counts as large as that: other inputs
/// may excite it more.
constexpr double kLeastShare = 1.0 / 32;

/// Channels of weights as numbers: [filters][channels of a group][taps], or of a matrix.
class Weights {
public:
  explicit Weights(QuantizableLayer &layer)
      : op_(*layer.anchor), tensor_(*constantValue(op_.operand(1))) {
    matrix_ = op_.is(Op::MatMul);
    transB_ = matrix_ && op_.boolAttr("trans_b");
    groups_ = matrix_ ? 1 : op_.intAttr("groups", 1);
    const auto shape = tensor_.shape();
    if (matrix_) {
      filters_ = shape[transB_ ? 0 : 1];
      depth_ = shape[transB_ ? 1 : 0];
    } else {
      filters_ = shape[0];
      depth_ = shape[1];
      for (size_t d = 2; d < shape.size(); ++d)
        taps_ *= shape[d];
    }
  }
  static bool understands(const QuantizableLayer &layer) {
    return layer.isContraction() &&
           (layer.anchor->is(Op::Conv) ||
            (layer.anchor->operand(1)->type().rank() == 2 && !layer.anchor->boolAttr("trans_a")));
  }
  int64_t outputs() const { return filters_; }
  int64_t inputs() const { return depth_ * groups_; }

  bool isDepthwise() const { return depth_ == 1 && filters_ == groups_ && groups_ > 1; }
  /// Largest magnitudes by input channel.
  std::vector<double> incoming() const {
    std::vector<double> v(size_t(inputs()), 0);
    for (int64_t i = 0; i < tensor_.size(); ++i) {
      double &most = v[size_t(inputOf(i))];
      most = std::max(most, std::fabs(tensor_.at(i)));
    }
    return v;
  }
  void scale(llvm::ArrayRef<double> factors, bool byInput) {
    for (int64_t i = 0; i < tensor_.size(); ++i)
      tensor_.set(i, tensor_.at(i) * factors[size_t(byInput ? inputOf(i) : outputOf(i))]);
  }
  void store(Diagnostics &diagnostics) {
    Builder b(&op_, diagnostics);
    op_.setOperand(1, b.constant(tensor_, op_.operand(1)->hint()));
  }

private:
  int64_t outputOf(int64_t i) const {
    return matrix_ ? (transB_ ? i / depth_ : i % filters_) : i / (depth_ * taps_);
  }
  int64_t inputOf(int64_t i) const {
    if (matrix_)
      return transB_ ? i % depth_ : i / filters_;
    const int64_t group = outputOf(i) / (filters_ / groups_);
    return group * depth_ + i / taps_ % depth_;
  }

  Operation &op_;
  Tensor tensor_;
  bool matrix_ = false, transB_ = false;
  int64_t groups_ = 1, filters_ = 1, depth_ = 1, taps_ = 1;
};

/// Whether a positive factor for each channel passes the layer's tail: a bias and rectifiers.
bool passesFactors(const QuantizableLayer &layer) {
  const auto bias = layer.bias();
  for (Operation *map : layer.tail)
    for (Operation &op : map->region()) {
      const bool isBias = op.is(Op::Add) && bias && map == bias->map &&
                          llvm::is_contained(op.operands(), elementArgument(*map, bias->operand));
      if (!isBias && !op.isTerminator() && !op.is(Op::Relu))
        return false;
    }
  return true;
}

/// The contraction that alone reads the layer's result, through maxima of windows.
QuantizableLayer *readerOf(const QuantizableLayer &layer,
                           llvm::MutableArrayRef<QuantizableLayer> layers) {
  Value *v = layer.result;
  while (v->hasOneUse()) {
    Operation *user = v->firstUse()->owner();
    for (QuantizableLayer &l : layers)
      if (l.anchor == user && user->operand(0) == v && Weights::understands(l))
        return &l;
    if (!user->is(Op::Pool) || user->wordAttr("kind") != "max")
      return nullptr;
    v = user->result();
  }
  return nullptr;
}

void scaleBias(const QuantizableLayer &layer, llvm::ArrayRef<double> factors,
               Diagnostics &diagnostics) {
  const auto place = layer.bias();
  if (!place)
    return;
  Value *old = place->map->operand(place->operand);
  Tensor t = *constantValue(old);
  for (int64_t i = 0; i < t.size(); ++i)
    t.set(i, t.at(i) * factors[size_t(i)]);
  Builder b(place->map, diagnostics);
  place->map->setOperand(place->operand, b.constant(t, old->hint()));
}

/// Factors for the channels of a tensor of these magnitudes that meet weights of those, in powers
/// of two, which change no digit of a weight.
std::vector<double> factorsFor(std::vector<double> magnitudes, const Weights &next) {
  const double most = *std::max_element(magnitudes.begin(), magnitudes.end());
  const std::vector<double> incoming = next.incoming();
  const double mostIncoming = *std::max_element(incoming.begin(), incoming.end());
  std::vector<double> factors(magnitudes.size(), 1);
  for (size_t c = 0; c < factors.size(); ++c) {
    if (!(magnitudes[c] > 0) || !(incoming[c] > 0))
      continue;
    const double share = std::max(magnitudes[c] / most, kLeastShare);
    // A channel that a filter of its own reads may fill the range; where filters read many, the
    // tensor and their weights share what there is to gain.
    const double factor =
        next.isDepthwise() ? 1 / share
                           : std::sqrt(std::max(incoming[c] / mostIncoming, kLeastShare) / share);
    factors[c] = std::exp2(std::nearbyint(std::log2(factor)));
  }
  return factors;
}

bool equalize(QuantizableLayer &first, QuantizableLayer &second, const ValueStatistics &between,
              Diagnostics &diagnostics) {
  Weights a(first), b(second);
  const auto bias = first.bias();
  if (a.outputs() != b.inputs() || int64_t(between.channelMagnitudes.size()) != a.outputs() ||
      (bias && constantValue(bias->map->operand(bias->operand))->size() != a.outputs()))
    return false;
  const std::vector<double> factors = factorsFor(between.channelMagnitudes, b);
  if (llvm::all_of(factors, [](double f) { return f == 1; }))
    return false;
  std::vector<double> inverse(factors.size());
  for (size_t c = 0; c < factors.size(); ++c)
    inverse[c] = 1 / factors[c];
  a.scale(factors, false);
  b.scale(inverse, true);
  a.store(diagnostics);
  b.store(diagnostics);
  scaleBias(first, factors, diagnostics);
  return true;
}

} // namespace

unsigned equalizeLayers(Graph &graph, const Statistics &statistics, Diagnostics &diagnostics) {
  const ValueNumbers numbers(graph);
  std::vector<QuantizableLayer> layers = findLayers(graph);
  unsigned pairs = 0;
  for (QuantizableLayer &l : layers)
    if (Weights::understands(l) && passesFactors(l))
      if (QuantizableLayer *next = readerOf(l, layers))
        pairs += equalize(l, *next, statistics[size_t(numbers.of(next->anchor->operand(0)))],
                          diagnostics);
  eraseDeadOps(graph.body());
  return pairs;
}

} // namespace tenon
