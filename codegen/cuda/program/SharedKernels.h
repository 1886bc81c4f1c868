// Defines SharedKernels: which steps of a program run one kernel for layers of several shapes.
#pragma once

#include "codegen/emit/KernelShape.h"

#include <map>
#include <utility>

namespace tenon {

/// Kernels have the extents of their layers as constants, which is what makes them fast, until
/// there are so many that the CUDA compiler takes long over them. Beyond `most` kernels, those that
/// differ in extents and strides alone become one, with what they differ in as parameters; what
/// they agree in stays constant.
class SharedKernels {
public:
  explicit SharedKernels(int64_t most) : most_(most) {}

  /// A step's shape as gathered, and the tactic that wrote it.
  void add(int step, llvm::StringRef tactic, const KernelShape &shape);
  /// Once every step is added: the shape to write a step with.
  KernelShape shapeOf(int step) const;

  /// Kernels when every step has a constant shape.
  int64_t constantKernels() const;
  /// Steps that run a kernel with parameters, and how many kernels these are.
  std::pair<int, int> shared() const;

private:
  struct Kernel {
    std::map<int, std::vector<int64_t>> numbers; // by step
    /// Whether steps disagree, by the place of the number.
    std::vector<bool> varying() const;
    bool varies() const;
  };
  bool shares() const { return constantKernels() > most_; }

  int64_t most_;
  std::map<std::string, Kernel> kernels_;
  std::map<int, const Kernel *> kernelOf_;
};

} // namespace tenon
