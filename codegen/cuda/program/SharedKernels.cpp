// Implements SharedKernels.
#include "codegen/cuda/program/SharedKernels.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

namespace tenon {

void SharedKernels::add(int step, llvm::StringRef tactic, const KernelShape &shape) {
  Kernel &k = kernels_[tactic.str() + '\n' + std::to_string(shape.numbers().size()) + '\n' +
                       shape.kernel()];
  k.numbers[step] = shape.numbers();
  kernelOf_[step] = &k;
}

std::vector<bool> SharedKernels::Kernel::varying() const {
  const std::vector<int64_t> &first = numbers.begin()->second;
  std::vector<bool> v(first.size());
  for (const auto &[step, mine] : numbers)
    for (size_t i = 0; i < mine.size(); ++i)
      v[i] = v[i] || mine[i] != first[i];
  return v;
}

bool SharedKernels::Kernel::varies() const { return llvm::is_contained(varying(), true); }

int64_t SharedKernels::constantKernels() const {
  int64_t count = 0;
  for (const auto &[key, kernel] : kernels_) {
    std::set<std::vector<int64_t>> distinct;
    for (const auto &[step, mine] : kernel.numbers)
      distinct.insert(mine);
    count += int64_t(distinct.size());
  }
  return count;
}

KernelShape SharedKernels::shapeOf(int step) const {
  auto it = kernelOf_.find(step);
  return KernelShape(it != kernelOf_.end() && shares() ? it->second->varying()
                                                       : std::vector<bool>());
}

std::pair<int, int> SharedKernels::shared() const {
  std::pair<int, int> count = {0, 0};
  for (const auto &[key, kernel] : kernels_)
    if (shares() && kernel.varies()) {
      count.first += int(kernel.numbers.size());
      ++count.second;
    }
  return count;
}

} // namespace tenon
