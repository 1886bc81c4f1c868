// Defines the scalar functions that bodies call, each for any lanes L: f<L>(x). This header gathers
// the families; each family's header states its error bounds.
#ifndef TENON_RUNTIME_COMMON_SCALAR_H
#define TENON_RUNTIME_COMMON_SCALAR_H

#include "common/scalar_arith.h"
#include "common/scalar_cast.h"
#include "common/scalar_math.h"

#endif
