// Defines what a file given by --op has to be, beyond IR text that the verifier takes.
#pragma once

#include "ir/Text.h"

namespace tenon {

/// Reports, with their places, all that keeps `module` from declaring an operator.
void checkUserDeclaration(const Module &module, const TextPlaces &places, Diagnostics &diagnostics);

} // namespace tenon
