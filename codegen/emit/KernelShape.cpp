// Implements KernelShape.
#include "codegen/emit/KernelShape.h"

#include <algorithm>

namespace tenon {

llvm::Optional<std::string> KernelShape::parameter(int64_t number) {
  const size_t at = numbers_.size();
  numbers_.push_back(number);
  if (!gathers_ && (at >= parameters_.size() || !parameters_[at]))
    return llvm::None;
  // Kernels ask for whole vectors and whole tiles: powers of two, of at most 64 elements.
  const int64_t divisor = number ? std::min<int64_t>(number & -number, 64) : 64;
  return "cuda::multiple<" + std::to_string(divisor) + ">";
}

void KernelShape::add(llvm::StringRef text) {
  if (gathers_)
    kernel_ += text.str() + '\n';
}

} // namespace tenon
