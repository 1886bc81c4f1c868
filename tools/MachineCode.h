// Defines the machine code of a built CUDA file: what `cuobjdump -sass` prints, read into one row a
// kernel, and which of the rows are those of a step.
#pragma once

#include "codegen/core/Target.h"

#include "llvm/ADT/SmallVector.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenon {

/// One kernel for one machine.
struct KernelCode {
  std::string machine; // "sm_90a"
  std::string name;    // as the linker knows it
  unsigned instructions = 0;
  /// Tensor Core instructions by mnemonic, which has the shape (HGMMA.64x128x16.F32), and how often
  /// the code has each.
  std::map<std::string, unsigned> tensorCore;

  unsigned tensorInstructions() const;
};

/// The kernels in the text, in its order.
std::vector<KernelCode> parseSass(llvm::StringRef text);

/// Finds kernels by the types that their steps declare: configurations and functors stand in the
/// names of the instances that they make.
class MachineCode {
public:
  /// `stepTypes`: all that the steps of the file declare.
  MachineCode(std::vector<KernelCode> kernels, const std::set<std::string> &stepTypes);

  /// The kernels of the variant for `level` that a step with these types may run: those with the
  /// most of its types and none of another's. Several when kernels differ in strides alone.
  llvm::SmallVector<const KernelCode *, 2> kernelsOf(const TargetLevel &level,
                                                     llvm::ArrayRef<std::string> types) const;

private:
  struct Row {
    KernelCode code;
    std::string spelling; // as in C++
    std::set<std::string> types;
  };
  std::vector<Row> rows_;
};

} // namespace tenon
