// Defines what of a CUDA program the host issues step by step because its sizes, or its turn,
// depend on data (runtime/cuda/host/host_part.h): everything from the first `nonzero`, `if` or
// `loop` on.
#pragma once

#include "codegen/emit/StepWriter.h"

namespace tenon {

/// Control flow that depends on data is a step without a kernel.
inline bool isControlFlow(const Operation &op) { return op.isAny(Op::If, Op::Loop); }

class HostContinuation {
public:
  HostContinuation(const Plan &plan, const Places &places, const DimSpelling &dims);

  /// Whether there is any.
  bool exists() const { return exists_; }
  /// The steps before, which the program's graph holds. A `nonzero` at its end is one of them.
  int captured() const { return captured_; }
  /// The statements of `status finish(cuda::host_part &h)`, behind the definition of the frame `f`;
  /// of the steps behind the graph's operations (what is carried to the next run) there are `more`.
  void write(SourceWriter &w, int more) const;

private:
  void region(SourceWriter &w, Region &r) const;
  void group(SourceWriter &w, Operation &op) const;
  void branch(SourceWriter &w, Operation &op) const;
  void loop(SourceWriter &w, Operation &op) const;
  void copy(SourceWriter &w, Value *to, Value *from, const std::string &plus = "") const;
  const Step &stepOf(const Operation &op) const;

  const Plan &plan_;
  const Places &places_;
  const DimSpelling &dims_;
  int captured_;
  bool exists_;
};

} // namespace tenon
