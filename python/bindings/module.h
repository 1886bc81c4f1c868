// Defines the parts of the extension module tenon._native.
#pragma once

#include <nanobind/nanobind.h>

namespace tenon::python {

/// The compiler in process: requests, settings, results, messages; models on the interpreter.
void bindCompiler(nanobind::module_ &m);
/// Compiled models: shared libraries with the generated C interface.
void bindPrograms(nanobind::module_ &m);
/// Where arrays of any library lie, and memory of a GPU as one.
void bindArrays(nanobind::module_ &m);

} // namespace tenon::python
