// Implements the check for what CUDA targets cannot run.
#include "codegen/cuda/Program.h"

namespace tenon {

bool checkCudaSupport(Graph &graph, Diagnostics &diagnostics) {
  bool ok = true;
  graph.body().walk([&](Operation *op) {
    if (!op->is(Op::User))
      return;
    ok = false;
    diagnostics.error(*op, op->name().str() +
                               ": functions of users are not supported on cuda targets in this "
                               "version; leave the fact 'function' out of the declaration, or use "
                               "a cpu target");
  });
  return ok;
}

} // namespace tenon
