// Implements `tenon doctor`: which compilers, instruction sets, GPUs and emulators are here.
#include "codegen/core/Target.h"
#include "compiler/NativeTarget.h"
#include "compiler/ProgramOutput.h"
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Files.h"
#include "tools/Tools.h"

#include "llvm/Support/Host.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

struct Finding {
  std::string what, found, remedy; // found empty: missing
};

std::string firstLine(llvm::StringRef text) { return text.split('\n').first.str(); }

/// A program's path and what it says of its version; `from` is where that begins.
std::string described(llvm::StringRef path, llvm::StringRef from = "") {
  auto version = outputOf(path, {"--version"});
  if (!version)
    return "";
  const size_t at = llvm::StringRef(*version).find(from);
  return path.str() + ": " +
         firstLine(llvm::StringRef(*version).drop_front(at == llvm::StringRef::npos ? 0 : at));
}

std::string inPath(llvm::StringRef name) {
  auto path = llvm::sys::findProgramByName(name);
  return path ? *path : "";
}

std::vector<Finding> examine() {
  std::vector<Finding> out;
  Diagnostics ignored;
  auto native = parseTarget("cpu:native", ignored);
  out.push_back(
      {"processor",
       llvm::sys::getHostCPUName().str() + ", cpu:native is " + (native ? native->name : "unknown"),
       ""});
  if (TemporaryFolder folder; !folder.valid()) { // nothing else can be asked
    out.push_back({"temporary", "", folder.whyNot()});
    return out;
  }
  const std::string cxxRemedy = "install g++ (11 or newer) or clang++, or name one in CXX";
  out.push_back({"C++ compiler", described(findCxx()), whyMissing("CXX", cxxRemedy)});
  out.push_back({"CUDA compiler", described(findNvcc(), "release "),
                 whyMissing("NVCC", "install the CUDA toolkit (12.2 or newer) for cuda targets")});
  out.push_back({"disassembler", findCuobjdump(), whyMissing("CUOBJDUMP", kCuobjdumpRemedy)});
  const std::vector<std::string> gpus = describeGpus();
  for (const std::string &gpu : gpus)
    out.push_back({"GPU", gpu, ""});
  if (gpus.empty())
    out.push_back({"GPU", "", "cuda targets can be compiled here but not run"});
  else if (auto gpu = resolveTarget("cuda:native", ignored))
    out.back().found += ", cuda:native is " + gpu->name;
  out.push_back({"Arm compiler", described(inPath("arm-none-eabi-g++")),
                 "install gcc-arm-none-eabi and libnewlib-arm-none-eabi to measure and run code of "
                 "mcu targets"});
  out.push_back({"Arm emulator", described(inPath("qemu-system-arm")),
                 "install qemu-system-arm to run code of mcu targets"});
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
      app.command("doctor", "says which compilers, instruction sets, GPUs and emulators are here");
  declare(sub, *options);
  sub.runs([options] { return run(*options); });
}

} // namespace tenon
