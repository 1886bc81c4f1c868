// Imports com.microsoft's MoE and QMoE: for each token the k experts with the largest router
// scores, small networks of two or three products, whose results are added with the router's
// weights.
#include "frontend/onnx/Activation.h"
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Quantize.h"

#include <cmath>

namespace tenon::frontend {
namespace {

constexpr unsigned kAbsent = ~0u;

/// Operands of one product of the experts: weights [experts, out, in], and what belongs to them.
struct Projection {
  unsigned weights, bias, scales = kAbsent, zeros = kAbsent;
  const char *bits = nullptr; // the attribute that overrides expert_weight_bits
};

/// One node. Products are batched: over all experts, each for all tokens, with a weight of zero
/// where the router did not choose it; or, when tokens choose fewer experts than there are (the
/// steps of a decoder), over the chosen ones, whose weights are gathered.
class Experts {
public:
  Experts(Node &n, bool quantised)
      : n_(n), quantised_(quantised),
        k_(n.intAttr("k", 1)), first_{2, quantised ? 4u : 3u, 3, 11, "fc1_expert_weight_bits"},
        second_{quantised ? 5u : 4u, quantised ? 7u : 5u, 6, 12, "fc2_expert_weight_bits"},
        third_{quantised ? 8u : 6u, quantised ? 10u : 7u, 9, 13, "fc3_expert_weight_bits"} {}

  void run() {
    if (!check())
      return;
    Value *x = n_.b.reshape(n_.input(0), {tokens_, n_.type(0).dim(n_.rank(0) - 1)});
    if (!x || !route())
      return;
    x = perExpert(x);
    Value *hidden = x ? activated(x) : nullptr;
    Value *y = hidden ? project(hidden, second_) : nullptr;
    y = y ? joined(y) : nullptr;
    n_.set(0, y ? n_.b.reshape(n_.b.cast(y, n_.element(0)), n_.type(0).shape()) : nullptr);
  }

private:
  bool fail(const std::string &what) {
    n_.error(what);
    return false;
  }

  bool check() {
    enum { X, Router };
    if (!n_.has(second_.weights))
      return fail("operand " + std::to_string(second_.weights) +
                  " (the weights of the second product) is missing: expected it in this operator; "
                  "write it");
    if (!n_.checkRank(X, 2, 3) || !n_.checkFloat(X) || !n_.checkRank(Router, 2, 2) ||
        !n_.checkFloat(Router))
      return false;
    tokens_ = product(n_.context(), n_.type(X).shape().drop_back());
    const Dim experts = n_.type(Router).dim(1);
    if (!experts.isConstant() || n_.type(Router).dim(0) != tokens_ || k_ < 1 ||
        k_ > experts.constant())
      return fail("expected router scores [" + text({tokens_}, "") +
                  ", experts] and 1 to experts in attribute k, "
                  "found " +
                  toString(n_.type(Router)) + " and " + std::to_string(k_));
    experts_ = experts.constant();
    for (const Projection *p : {&first_, &second_, &third_}) {
      if (!n_.has(p->weights))
        continue;
      if (!n_.checkRank(p->weights, 3, 3))
        return false;
      if (n_.type(p->weights).dim(0) != experts)
        return fail("operand " + n_.inputName(p->weights) + ": expected weights of " +
                    std::to_string(experts_) + " experts, found " + toString(n_.type(p->weights)));
    }
    for (unsigned i = quantised_ ? 15 : 8; i < n_.numInputs(); ++i)
      if (n_.has(i))
        return fail("operand " + n_.inputName(i) + " is not supported: expected integer weights");
    return true;
  }

  /// What the router says: weights [tokens, k] and the experts they belong to, in one of two forms.
  bool route() {
    Value *scores = n_.b.cast(n_.input(1), computeType(n_.element(1)));
    const bool renormalised = n_.boolAttr("normalize_routing_weights", false), apart = n_.has(14);
    auto softmax = [&](Value *v) {
      return v ? n_.b.value(Op::Softmax, {v}, {{"axis", int64_t(1)}}) : nullptr;
    };
    // Over the chosen experts alone, or over all before they are chosen. ONNX Runtime's QMoE on a
    // CPU takes the former whatever the attribute says.
    const bool overChosen = renormalised || quantised_;
    if (!apart && !overChosen)
      scores = softmax(scores);
    Operation *top = scores ? n_.b.create(Op::TopK, {scores},
                                          {{"k", Dims{n_.dim(k_)}},
                                           {"axis", int64_t(1)},
                                           {"largest", true},
                                           {"sorted", true}})
                            : nullptr;
    if (!top)
      return false;
    Value *weights = top->result(0), *chosen = top->result(1);
    if (apart) {
      weights = picked(n_.b.cast(n_.input(14), scores->type().element()), chosen);
      Value *total = weights && renormalised ? sum(n_.b, weights, {1}) : nullptr;
      if (total)
        weights =
            pointwise(n_.b, {weights, total}, {identityMap(2), {0}}, weights->type().shape(),
                      [](Scalars &s, llvm::ArrayRef<Value *> a) { return s(Op::Div, a[0], a[1]); });
    } else if (overChosen) {
      weights = softmax(weights);
    }
    if (!weights)
      return false;
    const bool few = tokens_.isConstant() && tokens_.constant() * k_ < experts_;
    if (few) {
      slots_ = n_.b.reshape(chosen, {tokens_ * k_});
      weights_ = n_.b.reshape(weights, {tokens_ * k_, n_.dim(1)});
      return slots_ && weights_;
    }
    // [experts, tokens]: the sum over a token's choices, of which one at most is this expert.
    Value *all = pointwise(n_.b, {weights, chosen}, {{1, 2}, {1, 2}},
                           {n_.dim(experts_), tokens_, n_.dim(k_)},
                           [](Scalars &s, llvm::ArrayRef<Value *> a) {
                             Value *is = s(Op::Equal, s.cast(a[1], Element::I64), s.index(0));
                             return s(Op::Select, is, a[0], s.c(0));
                           });
    weights_ = all ? sum(n_.b, all, {2}) : nullptr;
    return weights_ != nullptr;
  }

  /// Elements [tokens, k] of v [tokens, experts].
  Value *picked(Value *v, Value *chosen) {
    Value *all =
        pointwise(n_.b, {v, chosen}, {{0, 2}, {0, 1}}, {tokens_, n_.dim(k_), n_.dim(experts_)},
                  [](Scalars &s, llvm::ArrayRef<Value *> a) {
                    Value *is = s(Op::Equal, s.cast(a[1], Element::I64), s.index(2));
                    return s(Op::Select, is, a[0], s.c(0));
                  });
    return all ? sum(n_.b, all, {2}) : nullptr;
  }

  /// Tokens [tokens, in] as [batch, rows, in], the batch of the products.
  Value *perExpert(Value *x) {
    const Dim in = x->type().dim(1);
    if (!slots_)
      return pointwise(n_.b, {x}, {{1, 2}}, {n_.dim(experts_), tokens_, in},
                       [](Scalars &, llvm::ArrayRef<Value *> a) { return a[0]; });
    Value *each = pointwise(n_.b, {x}, {{0, 2}}, {tokens_, n_.dim(k_), in},
                            [](Scalars &, llvm::ArrayRef<Value *> a) { return a[0]; });
    return each ? n_.b.reshape(each, {tokens_ * k_, n_.dim(1), in}) : nullptr;
  }

  /// The experts' part of a tensor [experts, …]: all, or those that are chosen.
  Value *ofChosen(Value *v) {
    return v && slots_ ? n_.b.value(Op::Gather, {v, slots_}, {{"axis", int64_t(0)}}) : v;
  }

  /// Weights [experts, out, in] of a product with `in` inputs, of the chosen experts.
  Value *weightsOf(const Projection &p, Dim in) {
    if (!quantised_)
      return ofChosen(n_.input(p.weights));
    const int64_t bits = n_.intAttr(p.bits, n_.intAttr("expert_weight_bits", 4));
    const Dim out = n_.type(p.weights).dim(1);
    if ((bits != 2 && bits != 4 && bits != 8) || !out.isConstant() || !in.isConstant() ||
        !n_.has(p.scales))
      return n_.error("operand " + n_.inputName(p.weights) +
                      ": expected weights of 2, 4 or 8 bits with scales and "
                      "extents that are known, found " +
                      std::to_string(bits) + " bits and " + toString(n_.type(p.weights)));
    const int64_t rows = experts_ * out.constant(), columns = in.constant();
    const int64_t size = n_.intAttr("block_size", 0), block = size > 0 ? size : columns;
    const int64_t blocks = columns / block;
    auto units = unpacked(n_, p.weights, bits, rows);
    if (!units)
      return nullptr;
    if (columns % block || units->shape()[1] != columns ||
        !n_.type(p.scales).elements().isConstant(rows * blocks))
      return n_.error("operand " + n_.inputName(p.weights) + ": expected rows of " +
                      std::to_string(columns) + " weights in blocks of " + std::to_string(block) +
                      " with a scale each, found " + toString(n_.type(p.weights)) + " and " +
                      toString(n_.type(p.scales)));
    const Dim e = n_.dim(experts_), nBlocks = n_.dim(blocks);
    Value *zeros = nullptr;
    if (n_.has(p.zeros)) {
      // Packed along the blocks of a row, or, where a row has one, along the rows.
      auto packed = unpacked(n_, p.zeros, bits, size > 0 ? rows : experts_);
      if (!packed)
        return nullptr;
      Value *some =
          sliceAlong(n_.b, n_.b.constant(*packed), 1, n_.dim(0), size > 0 ? nBlocks : out, 1);
      if (!(zeros = some ? ofChosen(n_.b.reshape(some, {e, out, nBlocks})) : nullptr))
        return nullptr;
    }
    Value *w = dequantizedBlocks(
        n_.b, ofChosen(n_.b.constant(units->reshaped({experts_, out.constant(), blocks, block}))),
        ofChosen(n_.b.reshape(n_.input(p.scales), {e, out, nBlocks})), zeros);
    return w ? n_.b.reshape(w, {w->type().dim(0), out, in}) : nullptr;
  }

  /// x [batch, rows, in] · weightsᵀ + bias.
  Value *project(Value *x, const Projection &p) {
    Value *w = weightsOf(p, x->type().dim(2));
    w = w ? n_.b.cast(w, x->type().element()) : nullptr;
    Value *y = w ? n_.b.value(Op::MatMul, {x, w}, {{"trans_b", true}}) : nullptr;
    if (!y || !n_.has(p.bias))
      return y;
    Value *bias = ofChosen(n_.input(p.bias));
    return bias ? pointwise(n_.b, {y, bias}, {identityMap(3), {0, 2}}, y->type().shape(),
                            [](Scalars &s, llvm::ArrayRef<Value *> a) {
                              return s(Op::Add, a[0], s.cast(a[1], s.type));
                            })
                : nullptr;
  }

  /// What the second product takes: an activation of the first, times a gated part.
  Value *activated(Value *x) {
    const std::string kind = n_.stringAttr("activation_type", "relu");
    const int64_t fusion = n_.intAttr("swiglu_fusion", 0);
    const bool gated = kind == "swiglu" || kind == "geglu";
    Value *gate = project(x, first_), *linear = nullptr;
    if (!gate)
      return nullptr;
    if (gated && fusion != 0) {
      const Type t = gate->type();
      const Dim half = floorDiv(t.dim(2), n_.dim(2));
      // Interleaved, or one half behind the other.
      linear = sliceAlong(n_.b, gate, 2, fusion == 1 ? n_.dim(1) : half, half, fusion == 1 ? 2 : 1);
      gate = sliceAlong(n_.b, gate, 2, n_.dim(0), half, fusion == 1 ? 2 : 1);
    } else if (n_.has(third_.weights)) {
      linear = project(x, third_);
    } else if (gated) {
      return n_.error("attribute swiglu_fusion: expected 1 or 2 where " + kind +
                      " has no third product, found 0");
    }
    if (!gate || (n_.has(third_.weights) && !linear))
      return nullptr;
    const double alpha = n_.floatAttr("activation_alpha", 1),
                 beta = n_.floatAttr("activation_beta", 0);
    const double limit = kind == "swiglu" ? n_.floatAttr("swiglu_limit", INFINITY) : INFINITY;
    llvm::SmallVector<Value *, 2> operands{gate};
    if (linear)
      operands.push_back(linear);
    bool known = true;
    Value *y = pointwise(n_.b, operands, [&](Scalars &s, llvm::ArrayRef<Value *> a) {
      Value *g = a[0], *l = linear ? a[1] : nullptr;
      if (std::isfinite(limit)) {
        g = s(Op::Min, g, s.c(limit));
        l = l ? s(Op::Clamp, l, s.c(-limit), s.c(limit)) : nullptr;
      }
      if (kind == "swiglu") {
        g = swish(s, g, alpha);
        l = l && beta != 0 ? s(Op::Add, l, s.c(beta)) : l;
      } else if (kind == "silu") {
        g = swish(s, g, 1);
      } else if (kind == "gelu" || kind == "geglu") {
        g = gelu(s, g, /*tanh=*/true); // ONNX Runtime approximates both
      } else if (kind == "relu" || kind == "relu2") {
        g = s(Op::Relu, g);
        g = kind == "relu2" ? s(Op::Mul, g, g) : g;
      } else {
        known = kind == "identity";
      }
      return l ? s(Op::Mul, g, l) : g;
    });
    if (!known)
      return n_.error("attribute activation_type: expected relu, relu2, gelu, geglu, silu, swiglu "
                      "or identity, found '" +
                      kind + "'");
    return y;
  }

  /// The weighted sum of the experts' results [batch, rows, out], in the type of the weights.
  Value *joined(Value *y) {
    Value *parts = pointwise(n_.b, {weights_, y}, {{0, 1}, identityMap(3)}, y->type().shape(),
                             [](Scalars &s, llvm::ArrayRef<Value *> a) {
                               return s(Op::Mul, a[0], s.cast(a[1], s.type));
                             });
    if (!parts)
      return nullptr;
    if (!slots_)
      return sum(n_.b, parts, {0});
    parts = n_.b.reshape(parts, {tokens_, n_.dim(k_), y->type().dim(2)});
    return parts ? sum(n_.b, parts, {1}) : nullptr;
  }

  Node &n_;
  const bool quantised_;
  const int64_t k_;
  const Projection first_, second_, third_;
  int64_t experts_ = 0;
  Dim tokens_;
  Value *slots_ = nullptr;   // [tokens · k]: the experts whose weights are gathered; null: all
  Value *weights_ = nullptr; // [experts, tokens], or [tokens · k, 1]
};

} // namespace

void importMoE(Node &n) { Experts(n, false).run(); }
void importQMoE(Node &n) { Experts(n, true).run(); }

} // namespace tenon::frontend
