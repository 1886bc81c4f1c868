// Declares the check of a node's attributes against the tables of what operators have.
#pragma once

#include "frontend/onnx/Node.h"

namespace tenon::frontend {

/// Every attribute of the node is one that its operator has in the model's version of the operator
/// set, of the type that it has there, with a value that the importer honours; reports the first
/// that is not.
bool checkAttributes(const Node &n);

} // namespace tenon::frontend
