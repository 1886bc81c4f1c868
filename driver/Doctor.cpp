// Implements `tenon doctor`: which compilers, instruction sets and GPUs are here.
#include "codegen/Target.h"
#include "driver/Commands.h"
#include "driver/Files.h"
#include "driver/Options.h"
#include "driver/Tools.h"

#include "llvm/Support/Host.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

/// The output of a program, or nothing when it cannot be run or fails.
llvm::Optional<std::string> outputOf(llvm::StringRef program,
                                     llvm::ArrayRef<llvm::StringRef> words) {
  TemporaryFolder folder;
  if (!folder.valid() || program.empty())
    return llvm::None;
  const std::string file = folder.file("out");
  std::vector<llvm::StringRef> all{program};
  all.insert(all.end(), words.begin(), words.end());
  const llvm::Optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(file),
                                                       llvm::StringRef(file)};
  if (llvm::sys::ExecuteAndWait(program, all, llvm::None, redirects, 30) != 0)
    return llvm::None;
  auto buffer = llvm::MemoryBuffer::getFile(file);
  return buffer ? llvm::Optional<std::string>((*buffer)->getBuffer().rtrim().str()) : llvm::None;
}

struct Finding {
  std::string what, found, remedy; // found empty: missing
};

std::vector<Finding> examine() {
  std::vector<Finding> out;
  Diagnostics ignored;
  auto native = parseTarget("cpu:native", ignored);
  out.push_back(
      {"processor",
       llvm::sys::getHostCPUName().str() + ", cpu:native is " + (native ? native->name : "unknown"),
       ""});
  auto firstLine = [](llvm::StringRef text) { return text.split('\n').first.str(); };
  const std::string cxx = findCxx();
  auto version = outputOf(cxx, {"--version"});
  out.push_back({"C++ compiler", version ? cxx + ": " + firstLine(*version) : "",
                 "install g++ (11 or newer) or clang++, or name one in CXX"});
  const std::string nvcc = findNvcc();
  version = outputOf(nvcc, {"--version"});
  std::string release;
  if (version) {
    const size_t at = version->find("release ");
    release = nvcc + ": " +
              (at == std::string::npos ? "" : firstLine(llvm::StringRef(*version).drop_front(at)));
  }
  out.push_back(
      {"CUDA compiler", release, "install the CUDA toolkit (12.2 or newer) for cuda targets"});
  const std::string cuobjdump = findCuobjdump();
  out.push_back({"disassembler", cuobjdump, std::string(kCuobjdumpRemedy)});
  auto smi = llvm::sys::findProgramByName("nvidia-smi");
  auto gpus =
      smi ? outputOf(*smi, {"--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader"})
          : llvm::None;
  llvm::SmallVector<llvm::StringRef, 4> lines;
  if (gpus)
    llvm::StringRef(*gpus).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines)
    out.push_back({"GPU", line.str(), ""});
  if (lines.empty())
    out.push_back({"GPU", "", "cuda targets can be compiled here but not run"});
  return out;
}

int run(const ConsoleOptions &options) {
  const std::vector<Finding> findings = examine();
  if (options.json) {
    llvm::json::OStream json(llvm::outs(), 1);
    json.array([&] {
      for (const Finding &f : findings)
        json.object([&] {
          json.attribute("what", f.what);
          json.attribute("present", !f.found.empty());
          json.attribute(f.found.empty() ? "remedy" : "found",
                         f.found.empty() ? f.remedy : f.found);
        });
    });
    llvm::outs() << '\n';
    return Done;
  }
  for (const Finding &f : findings)
    llvm::outs() << llvm::left_justify(f.what, 14) << ' '
                 << (f.found.empty() ? "none; " + f.remedy : f.found) << '\n';
  return Done;
}

} // namespace

void declareDoctor(CommandLine &app) {
  auto options = std::make_shared<ConsoleOptions>();
  CommandLine sub =
      app.command("doctor", "says which compilers, instruction sets and GPUs are here");
  declare(sub, *options);
  sub.runs([options] { return run(*options); });
}

} // namespace tenon
