// Implements what becomes of compilers that crash.
#include "tools/ToolHost.h"

#include "tools/Files.h"
#include "tools/LostPages.h"

#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace tenon {

llvm::Optional<int> ToolHost::survive(llvm::function_ref<void()> step) {
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext recovery;
  bool survived = false;
  {
    const LostPagesReport lostPages; // no crash
    survived = recovery.RunSafely(step);
  }
  llvm::CrashRecoveryContext::Disable();
  return survived ? llvm::None : llvm::Optional<int>(recovery.RetCode);
}

void ToolHost::keepModel(llvm::StringRef path, Diagnostics &diagnostics) {
  const std::string copy =
      (llvm::sys::path::stem(path) + ".reproducer" + llvm::sys::path::extension(path)).str();
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  OutputFiles files(diagnostics);
  if (buffer && files.add(copy, (*buffer)->getBuffer()) && files.commit())
    diagnostics.error("wrote reproducer '" + copy + "', a copy of the model");
}

void ToolHost::keep(const Module &module, llvm::StringRef model, llvm::StringRef command,
                    Diagnostics &diagnostics) {
  const std::string path = (llvm::sys::path::stem(model) + ".reproducer.tn").str();
  std::string line = command.str();
  if (const size_t at = line.find("FILE"); at != std::string::npos)
    line.replace(at, 4, path);
  Diagnostics trouble;
  OutputFiles files(trouble);
  if (addModule(files, module, path,
                "// tenon " TENON_VERSION " failed here; see it again with\n//   " + line + "\n") &&
      files.commit())
    diagnostics.error("wrote reproducer '" + path + "'; `tenon reduce` shrinks it");
  else
    for (const Diagnostic &d : trouble.list())
      diagnostics.error(d.message);
}

} // namespace tenon
