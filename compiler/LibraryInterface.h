// Defines what the functions of compiler/tenon.h have in common: internal structures as that header
// has them.
#pragma once

#include "compiler/tenon.h"
#include "ir/Diagnostics.h"
#include "ir/IR.h"

namespace tenon {

/// What a program of this graph takes and gives.
Interface interfaceOf(Graph &graph);

void addMessages(const Diagnostics &diagnostics, std::vector<Message> &messages);
/// Puts the diagnostics of `from` behind those of `to`.
void moveDiagnostics(Diagnostics &from, Diagnostics &to);

} // namespace tenon
