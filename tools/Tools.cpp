// Implements the finding and calling of programs.
#include "tools/Tools.h"

#include "tools/Files.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

llvm::Optional<std::string> named(llvm::StringRef variable) {
  auto value = llvm::sys::Process::GetEnv(variable);
  return value && !value->empty() ? value : llvm::None;
}

/// What the environment variable names, else the first of `names` in PATH, else in `folders`.
std::string find(llvm::StringRef variable, llvm::ArrayRef<const char *> names,
                 llvm::ArrayRef<llvm::StringRef> folders = {}) {
  if (auto name = named(variable)) {
    auto path = llvm::sys::findProgramByName(*name); // takes a name with a slash as it is
    return path && llvm::sys::fs::can_execute(*path) ? *path : ""; // never another one
  }
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

std::string whyMissing(llvm::StringRef variable, llvm::StringRef otherwise) {
  auto name = named(variable);
  return name ? variable.str() + " names '" + *name + "', which is no program" : otherwise.str();
}

namespace {

/// Whether a program that wrote this log, in a folder that is perhaps full itself, had no room
/// left.
bool ranOutOfSpace(llvm::StringRef log, llvm::StringRef text) {
  constexpr uint64_t kNothing = 64 << 10;
  const auto space = llvm::sys::fs::disk_space(llvm::sys::path::parent_path(log));
  return text.contains("No space left on device") || (space && space->available < kNothing);
}

/// Starts it; a process that could not start has no id, and `error` says why.
llvm::sys::ProcessInfo start(const ToolCall &call, std::string &error) {
  std::vector<llvm::StringRef> words{call.program};
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  const llvm::StringRef output = call.output.empty() ? call.log : call.output;
  const llvm::Optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), output,
                                                       llvm::StringRef(call.log)};
  bool failed = false;
  return llvm::sys::ExecuteNoWait(call.program, words, llvm::None, redirects, 0, &error, &failed);
}

bool finish(const ToolCall &call, const llvm::sys::ProcessInfo &process, std::string error,
            llvm::StringRef what, Diagnostics &diagnostics) {
  int status = -1;
  if (process.Pid != llvm::sys::ProcessInfo::InvalidPid)
    status = llvm::sys::Wait(process, 0, /*WaitUntilTerminates=*/true, &error, nullptr).ReturnCode;
  if (status == 0)
    return true;
  Diagnostic &d = diagnostics.error(what.str() + " failed" +
                                    (status > 0 ? " with status " + std::to_string(status)
                                                : ": " + (error.empty() ? "it crashed" : error)));
  std::string line = call.program;
  for (const std::string &a : call.arguments)
    line += " " + a;
  d.notes.push_back(line);
  auto buffer = llvm::MemoryBuffer::getFile(call.log);
  const llvm::StringRef text = buffer ? (*buffer)->getBuffer() : "";
  llvm::SmallVector<llvm::StringRef, 32> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (size_t i = 0; i < lines.size() && i < 20; ++i)
    d.notes.push_back(lines[i].str());
  if (ranOutOfSpace(call.log, text))
    d.notes.push_back(("there is no room left in '" + llvm::sys::path::parent_path(call.log) +
                       "': " + kFullPlaceRemedy)
                          .str());
  return false;
}

} // namespace

bool runTool(const ToolCall &call, llvm::StringRef what, Diagnostics &diagnostics) {
  return runTools(call, 1, what, diagnostics).front();
}

std::vector<bool> runTools(llvm::ArrayRef<ToolCall> calls, unsigned jobs, llvm::StringRef what,
                           Diagnostics &diagnostics) {
  struct Running {
    llvm::sys::ProcessInfo process;
    std::string error;
  };
  std::vector<Running> running(calls.size());
  std::vector<bool> good(calls.size());
  size_t started = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    for (; started < calls.size() && started < i + std::max(jobs, 1u); ++started)
      running[started].process = start(calls[started], running[started].error);
    good[i] = finish(calls[i], running[i].process, running[i].error, what, diagnostics);
  }
  return good;
}

} // namespace tenon
