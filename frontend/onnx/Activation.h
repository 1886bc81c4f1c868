// Defines Activation: a function that an operator names in its attributes, as recurrent operators
// and those that ONNX Runtime fuses do; and the curves that importers share.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

/// log(1 + e^x), exact where either term vanishes.
Value *softplus(Scalars &s, Value *x);
/// x/2 · (1 + erf(x/√2)), or its approximation by tanh.
Value *gelu(Scalars &s, Value *x, bool tanh);
/// x · sigmoid(alpha · x)
Value *swish(Scalars &s, Value *x, double alpha);

struct Activation {
  enum Kind : uint8_t {
    Identity,
    Affine,
    Clip,
    Elu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Relu,
    ScaledTanh,
    Selu,
    Sigmoid,
    Silu,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu
  } kind = Identity;
  /// What its formula calls alpha and beta; the bounds of Clip; alpha and gamma of Selu.
  double alpha = 0, beta = 0;

  Value *operator()(Scalars &s, Value *x) const;
  /// Applied to a tensor; null for null.
  Value *operator()(Builder &b, Value *x) const;
};

/// The activations that attribute `activations` names, or `defaults`, for each direction. Values of
/// activation_alpha and activation_beta go, in order, to those that have such parameters. False
/// after an error.
bool readActivations(Node &n, llvm::ArrayRef<const char *> defaults, unsigned directions,
                     llvm::SmallVectorImpl<Activation> &out);

/// The activation of a fused operator: attribute `activation` names it, none is the identity. Its
/// parameters stand in the list `activation_params`, or one by one in activation_alpha, _beta and
/// _gamma. None after an error.
llvm::Optional<Activation> readFusedActivation(Node &n);

} // namespace tenon::frontend
