// Declares how an output is computed for the last row alone. Internal to the frontend.
#pragma once

#include "ir/Builder.h"

namespace tenon::frontend {

/// Makes output `output` its last element along `axis`. What is used for nothing else is computed
/// for that row alone, as far back as operations keep rows apart: products, norms, bodies. False
/// after an error, which is reported.
bool takeLastRow(Graph &graph, unsigned output, unsigned axis, Diagnostics &diagnostics);

} // namespace tenon::frontend
