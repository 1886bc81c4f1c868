// Implements the extension module tenon._native, which the Python code of the package stands on.
#include "module.h"

NB_MODULE(_native, m) {
  // torch keeps what torch.compile made until the process ends, which is no leak of ours.
  nanobind::set_leak_warnings(false);
  m.doc() = "The compiler in process, compiled models, and the memory of arrays.";
  tenon::python::bindCompiler(m);
  tenon::python::bindPrograms(m);
  tenon::python::bindArrays(m);
}
