// Implements the footprint: sizes of the symbols in an object file, as nm lists them.
#include "tools/Footprint.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/memory/Scheduled.h"
#include "compiler/CodeOptions.h"
#include "tools/Files.h"
#include "tools/Tools.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

namespace tenon {
namespace {

// What a contraction and any other step come to on a Cortex-M4, about; and the rest of a file.
constexpr int64_t kContractionBytes = 700, kStepBytes = 300, kRestBytes = 600;

/// The last step whose types or function a symbol's name mentions: the one that it is there for.
int stepOf(llvm::StringRef symbol) {
  int step = -1;
  for (size_t at = symbol.find("step"); at != llvm::StringRef::npos;
       at = symbol.find("step", at + 1)) {
    llvm::StringRef digits = symbol.drop_front(at + 4).take_while(llvm::isDigit);
    int number;
    if (!digits.getAsInteger(10, number))
      step = std::max(step, number);
  }
  return step;
}

/// Lines "address size type name", as `nm --print-size --radix=d` writes them.
void addSymbols(llvm::StringRef text, Footprint &out) {
  llvm::SmallVector<llvm::StringRef, 64> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    llvm::SmallVector<llvm::StringRef, 4> words;
    line.split(words, ' ', 3, /*KeepEmpty=*/false);
    int64_t size;
    // Data that is written does not count; weights are counted from the plan.
    if (words.size() != 4 || words[1].getAsInteger(10, size) ||
        llvm::StringRef("tTwWrRvV").find(words[2]) == llvm::StringRef::npos ||
        words[3].contains("weight_bytes"))
      continue;
    const int step = stepOf(words[3]);
    (step < 0 ? out.rest : out.code[step]) += size;
  }
}

bool measure(ToolHost &host, Compiler &compiler, const Target &target, const CodeOptions &code,
             llvm::StringRef builder, llvm::StringRef nm, Footprint &out) {
  Diagnostics &diagnostics = compiler.diagnostics();
  CompileOptions options = compileOptions(code, "model");
  options.runtime = CompileOptions::Embed;
  std::vector<CompiledFile> files;
  CompileSummary summary;
  TemporaryFolder folder;
  if (!folder.valid()) {
    diagnostics.error(folder.whyNot());
    return false;
  }
  if (!compiler.emit(target, options, files, summary))
    return false;
  OutputFiles written(diagnostics);
  if (!written.add(files, [&](const CompiledFile &f) { return folder.file("model" + f.suffix); }) ||
      !written.commit())
    return false;
  host.progress("building");
  std::vector<std::string> words{"-std=c++17", "-ffp-contract=off"};
  llvm::SmallVector<llvm::StringRef, 8> flags;
  const std::string level = buildFlags(*target.levels.front(), options.size);
  llvm::StringRef(level).split(flags, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef f : flags)
    words.push_back(f.str());
  const std::string object = folder.file("model.o"), symbols = folder.file("symbols.txt");
  words.insert(words.end(), {"-c", folder.file("model.cpp"), "-o", object});
  if (!runTool({builder.str(), words, folder.file("log.txt"), ""}, "building the generated code",
               diagnostics) ||
      !runTool({nm.str(), {"--print-size", "--radix=d", object}, folder.file("nm.txt"), symbols},
               "listing symbols", diagnostics))
    return false;
  auto buffer = llvm::MemoryBuffer::getFile(symbols);
  if (!buffer) {
    diagnostics.error("cannot read what nm wrote: " + buffer.getError().message());
    return false;
  }
  addSymbols((*buffer)->getBuffer(), out);
  return out.measured = true;
}

} // namespace

int64_t Footprint::codeBytes() const {
  int64_t sum = rest;
  for (auto &[step, bytes] : code)
    sum += bytes;
  return sum;
}

double Footprint::totalCycles() const {
  double sum = 0;
  for (auto &[step, value] : cycles)
    sum += value;
  return sum;
}

bool takeFootprint(ToolHost &host, Compiler &compiler, const Target &target,
                   const CodeOptions &code, Footprint &out) {
  const TargetLevel &level = *target.levels.front();
  const auto scheduled = openScheduled(compiler.module().graph(), level, compiler.diagnostics());
  if (!scheduled)
    return false;
  for (const Step &s : scheduled->plan.steps) {
    const ScheduledGroup *group = scheduled->groups[size_t(s.number)].get();
    const double microseconds = group ? group->choice->price().microseconds : 0;
    if (microseconds > 0 && level.megahertz > 0)
      out.cycles[s.number] = microseconds * level.megahertz;
    out.code[s.number] = group && group->form.anchor ? kContractionBytes : kStepBytes;
  }
  out.rest = kRestBytes;
  const auto builder =
      level.isCross() ? llvm::sys::findProgramByName(level.compiler) : std::error_code();
  const auto nm = level.isCross()
                      ? llvm::sys::findProgramByName((level.compiler.drop_back(3) + "nm").str())
                      : std::error_code();
  if (!level.isCross() || !builder || !nm)
    return true;
  out.code.clear();
  out.rest = 0;
  return measure(host, compiler, target, code, *builder, *nm, out);
}

} // namespace tenon
