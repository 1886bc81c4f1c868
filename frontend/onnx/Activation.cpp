// Implements the activations that attributes name.
#include "frontend/onnx/Activation.h"

#include <cfloat>
#include <cmath>

namespace tenon::frontend {

Value *softplus(Scalars &s, Value *x) {
  // log(1 + e^x) = max(x, 0) + log(1 + e^−|x|), which cannot overflow. What rounding takes from
  // u = 1 + e goes into the quotient: log(1 + e) = log(u) * e / (u - 1), and e where u is 1.
  Value *e = s(Op::Exp, s(Op::Neg, s(Op::Abs, x))), *u = s(Op::Add, s.c(1), e);
  Value *kept = s(Op::Sub, u, s.c(1));
  Value *tail = s(Op::Div, s(Op::Mul, s(Op::Log, u), e), kept);
  return s(Op::Add, s(Op::Relu, x), s(Op::Select, s(Op::Equal, kept, s.c(0)), e, tail));
}

Value *gelu(Scalars &s, Value *x, bool tanh) {
  Value *inner;
  if (tanh) { // x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))
    Value *cube = s(Op::Mul, s(Op::Mul, x, x), x);
    Value *t = s(Op::Add, x, s(Op::Mul, cube, s.c(0.044715)));
    inner = s(Op::Tanh, s(Op::Mul, t, s.c(std::sqrt(2 / M_PI))));
  } else { // x/2 · (1 + erf(x/√2))
    inner = s(Op::Erf, s(Op::Mul, x, s.c(std::sqrt(0.5))));
  }
  return s(Op::Mul, s(Op::Mul, x, s.c(0.5)), s(Op::Add, inner, s.c(1)));
}

Value *swish(Scalars &s, Value *x, double alpha) {
  return s(Op::Mul, x, s(Op::Sigmoid, alpha == 1 ? x : s(Op::Mul, x, s.c(alpha))));
}

namespace {
Value *exponential(Scalars &s, Value *x, double alpha) { // below 0
  Value *curve = s(Op::Mul, s.c(alpha), s(Op::Sub, s(Op::Exp, x), s.c(1)));
  return s(Op::Select, s(Op::Less, x, s.c(0)), curve, x);
}
Value *unitLine(Scalars &s, Value *x, double slope, double offset) { // held to [0, 1]
  Value *line = s(Op::Add, s(Op::Mul, s.c(slope), x), s.c(offset));
  return s(Op::Min, s(Op::Max, line, s.c(0)), s.c(1));
}
} // namespace

Value *Activation::operator()(Scalars &s, Value *x) const {
  switch (kind) {
  case Identity: return x;
  case Affine: return s(Op::Add, s(Op::Mul, s.c(alpha), x), s.c(beta));
  case Clip: return s(Op::Clamp, x, s.c(alpha), s.c(beta));
  case Elu: return exponential(s, x, alpha);
  case HardSigmoid: return unitLine(s, x, alpha, beta);
  case HardSwish: return s(Op::Mul, x, unitLine(s, x, 1.0 / 6, 0.5));
  case LeakyRelu: return s(Op::Select, s(Op::Less, x, s.c(0)), s(Op::Mul, s.c(alpha), x), x);
  case Relu: return s(Op::Relu, x);
  case ScaledTanh: return s(Op::Mul, s.c(alpha), s(Op::Tanh, s(Op::Mul, s.c(beta), x)));
  case Selu: return s(Op::Mul, s.c(beta), exponential(s, x, alpha));
  case Sigmoid: return s(Op::Sigmoid, x);
  case Silu: return swish(s, x, 1);
  case Softplus: return softplus(s, x);
  case Softsign: return s(Op::Div, x, s(Op::Add, s.c(1), s(Op::Abs, x)));
  case Tanh: return s(Op::Tanh, x);
  case ThresholdedRelu: return s(Op::Select, s(Op::Greater, x, s.c(alpha)), x, s.c(0));
  }
  return x;
}

Value *Activation::operator()(Builder &b, Value *x) const {
  if (!x || kind == Identity)
    return x;
  return pointwise(b, {x}, [&](Scalars &s, llvm::ArrayRef<Value *> a) { return (*this)(s, a[0]); });
}

namespace {

struct Row {
  const char *name;
  Activation::Kind kind;
  /// What its parameters are called behind "activation_"; null: it has none.
  const char *first, *second;
  double alpha, beta; // where they are not given
  bool recurrent;     // RNN, GRU and LSTM know it
};
constexpr Row kRows[] = {
    {"Affine", Activation::Affine, "alpha", "beta", 1, 0, true},
    {"Clip", Activation::Clip, "alpha", "beta", -FLT_MAX, FLT_MAX, false},
    {"Elu", Activation::Elu, "alpha", nullptr, 1, 0, true},
    {"HardSigmoid", Activation::HardSigmoid, "alpha", "beta", 0.2, 0.5, true},
    {"HardSwish", Activation::HardSwish, nullptr, nullptr, 0, 0, false},
    {"LeakyRelu", Activation::LeakyRelu, "alpha", nullptr, 0.01, 0, true},
    {"Relu", Activation::Relu, nullptr, nullptr, 0, 0, true},
    {"ScaledTanh", Activation::ScaledTanh, "alpha", "beta", 1, 1, true},
    {"Selu", Activation::Selu, "alpha", "gamma", 1.67326319217681884765625,
     1.05070102214813232421875, false},
    {"Sigmoid", Activation::Sigmoid, nullptr, nullptr, 0, 0, true},
    {"Silu", Activation::Silu, nullptr, nullptr, 0, 0, false},
    {"Softplus", Activation::Softplus, nullptr, nullptr, 0, 0, true},
    {"Softsign", Activation::Softsign, nullptr, nullptr, 0, 0, true},
    {"Tanh", Activation::Tanh, nullptr, nullptr, 0, 0, true},
    {"ThresholdedRelu", Activation::ThresholdedRelu, "alpha", nullptr, 1, 0, true},
};

} // namespace

bool readActivations(Node &n, llvm::ArrayRef<const char *> defaults, unsigned directions,
                     llvm::SmallVectorImpl<Activation> &out) {
  Strings names = n.stringsAttr("activations");
  if (names.empty())
    for (unsigned d = 0; d < directions; ++d)
      names.insert(names.end(), defaults.begin(), defaults.end());
  if (names.size() != directions * defaults.size()) {
    n.error("attribute activations: expected " + std::to_string(directions * defaults.size()) +
            " names, found " + std::to_string(names.size()));
    return false;
  }
  const Floats alphas = n.floatsAttr("activation_alpha"), betas = n.floatsAttr("activation_beta");
  size_t alpha = 0, beta = 0;
  for (const std::string &name : names) {
    const Row *row = llvm::find_if(kRows, [&](const Row &r) {
      return r.recurrent && llvm::StringRef(r.name).equals_insensitive(name);
    });
    if (row == std::end(kRows)) {
      n.error("attribute activations: '" + name + "' is no known activation");
      return false;
    }
    Activation a{row->kind, row->alpha, row->beta};
    if (row->first && alpha < alphas.size())
      a.alpha = alphas[alpha++];
    if (row->second && beta < betas.size())
      a.beta = betas[beta++];
    out.push_back(a);
  }
  return true;
}

llvm::Optional<Activation> readFusedActivation(Node &n) {
  const std::string name = n.stringAttr("activation", "");
  if (name.empty())
    return Activation();
  const Row *row = llvm::find_if(kRows, [&](const Row &r) { return name == r.name; });
  if (row == std::end(kRows)) {
    std::string known;
    for (const Row &r : kRows)
      known += (known.empty() ? "" : ", ") + std::string(r.name);
    n.error("attribute activation: expected one of " + known + ", found '" + name +
            "'; save the model with graph_optimization_level ORT_ENABLE_BASIC, which leaves "
            "activations nodes of their own");
    return llvm::None;
  }
  Activation a{row->kind, row->alpha, row->beta};
  if (n.hasAttr("activation_params")) {
    const Floats given = n.floatsAttr("activation_params");
    const size_t wanted = !row->first ? 0 : row->second ? 2 : 1;
    if (given.size() != wanted) {
      n.error("attribute activation_params: expected " + std::to_string(wanted) + " numbers for " +
              name + ", found " + std::to_string(given.size()));
      return llvm::None;
    }
    a.alpha = wanted > 0 ? given[0] : a.alpha;
    a.beta = wanted > 1 ? given[1] : a.beta;
    return a;
  }
  if (row->first)
    a.alpha = n.floatAttr(std::string("activation_") + row->first, a.alpha);
  if (row->second)
    a.beta = n.floatAttr(std::string("activation_") + row->second, a.beta);
  return a;
}

} // namespace tenon::frontend
