// Implements the activations of recurrent operators.
#include "frontend/onnx/Activation.h"

namespace tenon::frontend {

Value *Activation::operator()(Scalars &s, Value *x) const {
  switch (kind) {
  case Affine: return s(Op::Add, s(Op::Mul, s.c(alpha), x), s.c(beta));
  case Elu:
    return s(Op::Select, s(Op::Less, x, s.c(0)),
             s(Op::Mul, s.c(alpha), s(Op::Sub, s(Op::Exp, x), s.c(1))), x);
  case HardSigmoid: {
    Value *line = s(Op::Add, s(Op::Mul, s.c(alpha), x), s.c(beta));
    return s(Op::Min, s(Op::Max, line, s.c(0)), s.c(1));
  }
  case LeakyRelu: return s(Op::Select, s(Op::Less, x, s.c(0)), s(Op::Mul, s.c(alpha), x), x);
  case Relu: return s(Op::Relu, x);
  case ScaledTanh: return s(Op::Mul, s.c(alpha), s(Op::Tanh, s(Op::Mul, s.c(beta), x)));
  case Sigmoid: return s(Op::Sigmoid, x);
  case Softplus: // log(1 + e^x) without overflow
    return s(Op::Add, s(Op::Relu, x),
             s(Op::Log, s(Op::Add, s.c(1), s(Op::Exp, s(Op::Neg, s(Op::Abs, x))))));
  case Softsign: return s(Op::Div, x, s(Op::Add, s.c(1), s(Op::Abs, x)));
  case Tanh: return s(Op::Tanh, x);
  case ThresholdedRelu: return s(Op::Select, s(Op::Greater, x, s.c(alpha)), x, s.c(0));
  }
  return x;
}

bool readActivations(Node &n, llvm::ArrayRef<const char *> defaults, unsigned directions,
                     llvm::SmallVectorImpl<Activation> &out) {
  struct Row {
    const char *name;
    Activation::Kind kind;
    bool hasAlpha, hasBeta;
    double alpha, beta;
  };
  static const Row kRows[] = {
      {"affine", Activation::Affine, true, true, 1, 0},
      {"elu", Activation::Elu, true, false, 1, 0},
      {"hardsigmoid", Activation::HardSigmoid, true, true, 0.2, 0.5},
      {"leakyrelu", Activation::LeakyRelu, true, false, 0.01, 0},
      {"relu", Activation::Relu, false, false, 0, 0},
      {"scaledtanh", Activation::ScaledTanh, true, true, 1, 1},
      {"sigmoid", Activation::Sigmoid, false, false, 0, 0},
      {"softplus", Activation::Softplus, false, false, 0, 0},
      {"softsign", Activation::Softsign, false, false, 0, 0},
      {"tanh", Activation::Tanh, false, false, 0, 0},
      {"thresholdedrelu", Activation::ThresholdedRelu, true, false, 1, 0},
  };
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
    const Row *row = llvm::find_if(
        kRows, [&](const Row &r) { return llvm::StringRef(r.name).equals_insensitive(name); });
    if (row == std::end(kRows)) {
      n.error("attribute activations: '" + name + "' is no known activation");
      return false;
    }
    Activation a{row->kind, row->alpha, row->beta};
    if (row->hasAlpha && alpha < alphas.size())
      a.alpha = alphas[alpha++];
    if (row->hasBeta && beta < betas.size())
      a.beta = betas[beta++];
    out.push_back(a);
  }
  return true;
}

} // namespace tenon::frontend
