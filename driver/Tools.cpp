// Implements the finding and calling of programs.
#include "driver/Tools.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

/// What the environment variable names, else the first of `names` in PATH, else in `folders`.
std::string find(llvm::StringRef variable, llvm::ArrayRef<const char *> names,
                 llvm::ArrayRef<llvm::StringRef> folders = {}) {
  if (auto named = llvm::sys::Process::GetEnv(variable))
    if (auto path = llvm::sys::findProgramByName(*named))
      return *path;
  for (const char *name : names)
    if (auto path = llvm::sys::findProgramByName(name))
      return *path;
  for (const char *name : names)
    if (!folders.empty())
      if (auto path = llvm::sys::findProgramByName(name, folders))
        return *path;
  return "";
}

} // namespace

const char *const kCuobjdumpRemedy =
    "install the CUDA toolkit's, or PyPI's nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm (as "
    "scripts/setup does), or name one in CUOBJDUMP";

std::string findCxx() { return find("CXX", {"c++", "g++", "clang++"}); }
std::string findNvcc() { return find("NVCC", {"nvcc"}, {"/usr/local/cuda/bin"}); }
std::string findCuobjdump() {
  const std::string nvcc = findNvcc();
  llvm::SmallVector<llvm::StringRef, 2> folders;
  if (!nvcc.empty())
    folders.push_back(llvm::sys::path::parent_path(nvcc));
  folders.push_back("/usr/local/cuda/bin");
  return find("CUOBJDUMP", {"cuobjdump"}, folders);
}

bool runTool(const ToolCall &call, llvm::StringRef what, Diagnostics &diagnostics) {
  std::vector<llvm::StringRef> words{call.program};
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  const llvm::StringRef output = call.output.empty() ? call.log : call.output;
  const llvm::Optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), output,
                                                       llvm::StringRef(call.log)};
  std::string error;
  const int status =
      llvm::sys::ExecuteAndWait(call.program, words, llvm::None, redirects, 0, 0, &error);
  if (status == 0)
    return true;
  Diagnostic &d = diagnostics.error(what.str() + " failed" +
                                    (status > 0 ? " with status " + std::to_string(status)
                                                : ": " + (error.empty() ? "it crashed" : error)));
  std::string line = call.program;
  for (const std::string &a : call.arguments)
    line += " " + a;
  d.notes.push_back(line);
  if (auto buffer = llvm::MemoryBuffer::getFile(call.log)) {
    llvm::SmallVector<llvm::StringRef, 32> lines;
    (*buffer)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (size_t i = 0; i < lines.size() && i < 20; ++i)
      d.notes.push_back(lines[i].str());
  }
  return false;
}

} // namespace tenon
