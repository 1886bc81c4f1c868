// Defines Activation: the functions that recurrent operators name in their attributes.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

struct Activation {
  enum Kind : uint8_t {
    Affine,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    ScaledTanh,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu
  } kind;
  double alpha = 0, beta = 0;

  Value *operator()(Scalars &s, Value *x) const;
};

/// The activations that attribute `activations` names, or `defaults`, for each direction. Values of
/// activation_alpha and activation_beta go, in order, to those that have such parameters. False
/// after an error.
bool readActivations(Node &n, llvm::ArrayRef<const char *> defaults, unsigned directions,
                     llvm::SmallVectorImpl<Activation> &out);

} // namespace tenon::frontend
