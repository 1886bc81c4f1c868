// Defines how a request of the library (compiler/tenon.h) becomes options.
#pragma once

#include "compiler/Options.h"
#include "compiler/tenon.h"

namespace tenon {

/// The options that a request stands for. They refer to its bytes.
struct RequestOptions {
  ModelOptions model;
  PipelineOptions passes;
  CodeOptions code;
  InMemory bytes; // of the model, where it is no file
};

/// False after reporting each setting that has no such value, with what it may be.
bool readRequest(const Request &request, RequestOptions &out, Diagnostics &diagnostics);

} // namespace tenon
