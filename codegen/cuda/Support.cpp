// Implements the check for what CUDA targets cannot run.
#include "codegen/cuda/Program.h"

namespace tenon {

bool checkCudaSupport(Graph &graph, Diagnostics &diagnostics) {
  bool ok = true;
  graph.body().walk([&](Operation *op) {
    const char *what = op->isAny(Op::If, Op::Loop) ? "control flow that depends on data is"
                       : op->is(Op::NonZero)       ? "results whose size depends on data are"
                       : op->is(Op::User)          ? "functions of users are"
                                                   : nullptr;
    if (!what)
      return;
    ok = false;
    diagnostics.error(*op, op->name().str() + ": " + what +
                               " not supported on cuda targets in this version; " +
                               (op->is(Op::User) ? "leave the fact 'function' out of the "
                                                   "declaration, or use a cpu target"
                                                 : "use a cpu target"));
  });
  return ok;
}

} // namespace tenon
