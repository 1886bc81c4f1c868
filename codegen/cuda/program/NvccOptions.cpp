// Implements the options that nvcc needs for a target's files.
#include "codegen/core/Target.h"
#include "codegen/cuda/program/Program.h"

namespace tenon {
namespace {
std::string architecture(const TargetLevel &level) { return level.name.drop_front(3).str(); }
} // namespace

std::vector<std::string> nvccOptions(const Target &target) {
  // The level is the host compiler's: its part only issues kernels, which have nvcc's own level.
  // Bodies round as the interpreter does: multiply-adds are fused where a kernel says so.
  std::vector<std::string> options = {"-std=c++17", "-O1", "-fmad=false"};
  auto generate = [&](const std::string &arch, const std::string &code) {
    options.push_back("-gencode");
    options.push_back("arch=compute_" + arch + ",code=" + code);
  };
  for (const TargetLevel *l : target.levels)
    generate(architecture(*l), l->name.str());
  if (const TargetLevel *l = target.ptxLevel())
    generate(architecture(*l), "compute_" + architecture(*l));
  // Machine code shrinks to a quarter; creating a model takes as long as before.
  options.push_back("-Xfatbin=-compress-all");
  // All cores, within an architecture and over several.
  options.insert(options.end(), {"-split-compile", "0"});
  if (llvm::count(options, "-gencode") > 1)
    options.insert(options.end(), {"-t", "0"});
  return options;
}

} // namespace tenon
