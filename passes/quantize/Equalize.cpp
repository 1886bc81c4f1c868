// Implements cross-layer equalisation.
#include "passes/quantize/Equalize.h"

#include "passes/Rewrite.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr int kSweeps = 4; // along chains, factors reach their neighbours sweep by sweep
constexpr double kMostFactor = 1e3;

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

  /// Largest magnitudes by output channel, or by input channel.
  std::vector<double> largest(bool byInput) const {
    std::vector<double> v(size_t(byInput ? inputs() : outputs()), 0);
    for (int64_t i = 0; i < tensor_.size(); ++i) {
      double &most = v[size_t(byInput ? inputOf(i) : outputOf(i))];
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

bool equalize(QuantizableLayer &first, QuantizableLayer &second, Diagnostics &diagnostics) {
  Weights a(first), b(second);
  const auto bias = first.bias();
  if (a.outputs() != b.inputs() ||
      (bias && constantValue(bias->map->operand(bias->operand))->size() != a.outputs()))
    return false;
  const std::vector<double> outgoing = a.largest(false), incoming = b.largest(true);
  std::vector<double> factor(outgoing.size(), 1), inverse(outgoing.size(), 1);
  for (size_t c = 0; c < factor.size(); ++c)
    if (outgoing[c] > 0 && incoming[c] > 0) {
      // Both become the geometric mean. Whole powers of two change no digit of a weight.
      const double exact = std::sqrt(incoming[c] / outgoing[c]);
      factor[c] =
          std::exp2(std::nearbyint(std::log2(std::clamp(exact, 1 / kMostFactor, kMostFactor))));
      inverse[c] = 1 / factor[c];
    }
  if (llvm::all_of(factor, [](double f) { return f == 1; }))
    return false;
  a.scale(factor, false);
  b.scale(inverse, true);
  a.store(diagnostics);
  b.store(diagnostics);
  scaleBias(first, factor, diagnostics);
  return true;
}

} // namespace

unsigned equalizeLayers(Graph &graph, Diagnostics &diagnostics) {
  std::vector<QuantizableLayer> layers = findLayers(graph);
  std::vector<std::pair<QuantizableLayer *, QuantizableLayer *>> pairs;
  for (QuantizableLayer &l : layers)
    if (Weights::understands(l) && passesFactors(l))
      if (QuantizableLayer *next = readerOf(l, layers))
        pairs.push_back({&l, next});
  std::vector<bool> changed(pairs.size(), false);
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (size_t i = 0; i < pairs.size(); ++i)
      changed[i] = changed[i] | equalize(*pairs[i].first, *pairs[i].second, diagnostics);
  eraseDeadOps(graph.body());
  return unsigned(llvm::count(changed, true));
}

} // namespace tenon
