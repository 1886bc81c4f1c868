// Defines what quantised maps are made of: dequantised tensors, and sums of integer tensors times
// real coefficients, perhaps one per channel, which is what most of them compute.
//
//   quantize(relu(conv(dequantize x, dequantize w) + dequantize b))
//     = saturate(round(clamp(coefficient · conv(x − zx, w − zw) + constant, 0, ∞) / scale) + zero)
//
// Nothing here changes the graph: passes/IntegerArithmetic.cpp decides and rewrites.
#pragma once

#include "passes/Maps.h"

#include <cmath>
#include <limits>

namespace tenon {

/// One number for all channels, or one for each of them.
using PerChannel = std::vector<double>;

/// Calls use(i, c) for all elements of a tensor of `shape` in their order, where c is the element's
/// place along `axis`; 0 for an axis of −1, which is that of one channel.
template <class Use>
void forEachOfChannels(llvm::ArrayRef<int64_t> shape, int64_t axis, const Use &use) {
  const size_t at = axis < 0 ? shape.size() : size_t(axis);
  const int64_t channels = axis < 0 ? 1 : shape[at];
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    (d < at ? outer : inner) *= d == at ? 1 : shape[d];
  int64_t i = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < inner; ++k)
        use(i++, size_t(c));
}

inline double at(const PerChannel &v, size_t channel) { return v.size() == 1 ? v[0] : v[channel]; }

/// Applies f to both, entry by entry.
template <class F> PerChannel zip(const PerChannel &a, const PerChannel &b, F f) {
  PerChannel c(std::max(a.size(), b.size()));
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = f(at(a, i), at(b, i));
  return c;
}

/// Whether all elements are the same.
inline bool isOneValue(const Tensor &t) { return t.size() == 1 || t.isSplat(); }

/// A scalar of a map's body that is known per position of one dimension of the space; None where it
/// is not. `dim` is −1 until a tensor settles it.
llvm::Optional<PerChannel> constantScalar(Operation &map, Value *scalar, int64_t &dim);

/// dequantize(q, scale, zero) as a whole tensor.
struct Dequantized {
  Value *q = nullptr;
  PerChannel scale, zero; // known at compile time
  int64_t axis = -1;      // of the channels; −1: one scale and zero point for all
  bool perTensor() const { return axis < 0; }
};

/// Reads `v` as a dequantised tensor; None when it is something else or its parameters are known
/// only at run time.
llvm::Optional<Dequantized> matchDequantized(Value *v);

/// An integer tensor in a sum: coefficient · (tensor − zero), or the product of two tensors
/// with 24 bits together: coefficient · (tensor − zero) · (factor − factorZero).
struct IntegerTerm {
  /// Integers; or the f32 result of a conv, matmul, pool or reduce of dequantised tensors, which
  /// then stands for the integer sum in its place.
  Value *tensor = nullptr;
  IndexMap map;                 // of the tensor over the quantised map's space
  PerChannel coefficient, zero; // a product's zero is one number
  Value *factor = nullptr;
  IndexMap factorMap;
  int64_t factorZero = 0;
  bool isSum() const { return isFloat(tensor->type().element()); }
};

/// clamp(Σ terms + constant, low, high).
struct IntegerSum {
  std::vector<IntegerTerm> terms;
  PerChannel constant{0.0};
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  int64_t axis = -1, channels = 1; // the space's dimension that coefficients may follow
  Location nodes;                  // of the maps between
  bool clamped() const { return low > -HUGE_VAL || high < HUGE_VAL; }
};

/// A map that quantises such a sum.
struct QuantizedSum {
  IntegerSum sum;
  double scale = 1;
  int64_t zero = 0;
};

/// Reads `map` as a quantised sum; None with the reason in `why`, empty when it quantises nothing.
llvm::Optional<QuantizedSum> matchQuantizedSum(Operation &map, std::string &why);

/// The operands of a contraction of dequantised tensors, ready to become an integer one.
struct IntegerContraction {
  Dequantized x, w;
  PerChannel coefficient; // of its sums; along the output channels where it has several entries
};
llvm::Optional<IntegerContraction> matchIntegerContraction(Operation &op, std::string &why);

/// The number of elements that each result of a pool or reduce sums up or averages over, when it is
/// the same for all and the operand is dequantised with one scale; None with the reason otherwise.
llvm::Optional<int64_t> matchIntegerReduction(Operation &op, Dequantized &x, std::string &why);

/// The output channel of a contraction's result.
inline int64_t outputChannel(const Operation &op) {
  return op.is(Op::MatMul) ? int64_t(op.result()->type().rank()) - 1 : 1;
}

} // namespace tenon
