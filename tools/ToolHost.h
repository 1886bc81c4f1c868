// Defines ToolHost: what the tools around the compiler say while they work, and what becomes of a
// compiler that crashes: the process goes on, and a reproducer is written into the working folder.
#pragma once

#include "compiler/Host.h"

namespace tenon {

class ToolHost : public CompilerHost {
public:
  /// Says what a compiler beside the command's own has met.
  virtual void report(const Diagnostics &diagnostics) = 0;

  llvm::Optional<int> survive(llvm::function_ref<void()> step) override;
  void keep(const Module &module, llvm::StringRef path, llvm::StringRef command,
            Diagnostics &diagnostics) override;
  void keepModel(llvm::StringRef path, Diagnostics &diagnostics) override;
};

} // namespace tenon
