// Defines KernelShape: which extents and strides of a step its kernel takes as parameters.
#pragma once

#include "llvm/ADT/Optional.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

/// The extents and strides of one step that may be parameters of its kernel, in the order in which
/// a StepWriter asks for them. A new one makes all of them parameters and gathers what else the
/// kernel is made of; two steps for which that is the same differ in nothing but these numbers.
class KernelShape {
public:
  KernelShape() = default;
  /// Makes those parameters for which `parameters` says so; the rest stay constants.
  explicit KernelShape(std::vector<bool> parameters)
      : gathers_(false), parameters_(std::move(parameters)) {}

  /// The C++ type of the next number as a parameter; none: it is a constant.
  llvm::Optional<std::string> parameter(int64_t number);
  /// Adds to what the kernel is made of.
  void add(llvm::StringRef text);

  const std::string &kernel() const { return kernel_; }
  const std::vector<int64_t> &numbers() const { return numbers_; }

private:
  bool gathers_ = true;
  std::string kernel_;
  std::vector<int64_t> numbers_;
  std::vector<bool> parameters_;
};

} // namespace tenon
