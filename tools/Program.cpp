// Implements the building and running of programs. What images report in the place of times stands
// in emulated.cpp.
#include "tools/Program.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/emit/CppText.h"
#include "codegen/emit/EmbeddedRuntime.h"
#include "compiler/CodeOptions.h"
#include "tools/Emulator.h"
#include "tools/MemoryImage.h"
#include "tools/Tools.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

#include <chrono>
#include <cstring>

namespace tenon {

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

bool Program::writeFiles(const std::vector<CompiledFile> &files) {
  OutputFiles out(diagnostics());
  if (!makeFolder(folder_.file("harness"), diagnostics()))
    return false;
  if (!out.add(files, [&](const CompiledFile &f) { return folder_.file("model" + f.suffix); }))
    return false;
  for (size_t i = 0; i < kEmbeddedRuntimeCount; ++i) {
    const EmbeddedFile &f = kEmbeddedRuntime[i];
    if (llvm::StringRef(f.path).startswith("harness/") &&
        !out.add(folder_.file(f.path), llvm::StringRef(f.data, f.size)))
      return false;
  }
  return out.commit();
}

bool Program::execute(llvm::StringRef program, llvm::ArrayRef<std::string> arguments,
                      llvm::StringRef what) {
  return runTool({program.str(), arguments.vec(), folder_.file("log.txt"), ""}, what,
                 diagnostics());
}

/// Where the headers of the user's operators are.
static std::vector<std::string> userHeaderOptions(const ModelOptions &model) {
  std::vector<std::string> words;
  for (llvm::StringRef path : model.op) {
    llvm::StringRef folder = llvm::sys::path::parent_path(path);
    words.push_back("-I" + (folder.empty() ? "." : folder.str()));
  }
  return words;
}

/// What the processor is, as a note on an error of code for another one.
static void noteProcessor(const Target &target, Diagnostics &diagnostics) {
  Diagnostics ignored;
  auto native = parseTarget("cpu:native", ignored);
  const TargetLevel &level = *target.levels.front();
  if (!native || target.family->facts.device || level.simdWidth <= 1 ||
      native->name == target.name || diagnostics.list().empty())
    return;
  diagnostics.list().back().notes.push_back(
      "this machine's processor is of " + native->name + ", the code is for " + target.name +
      "; what runs here is --target=cpu:native" +
      (level.name.startswith("armv8") ? ", or name a cross compiler in CXX" : ""));
}

llvm::Optional<BuildCommand> buildCommand(const Target &target, const CodeOptions &code,
                                          const ModelOptions &model, Diagnostics &diagnostics) {
  if (target.levels.front()->isCross()) {
    diagnostics.error(target.name + " code cannot be timed here: it runs in a firmware image "
                                    "(`tenon run` builds one for an emulator); "
                                    "--target=mcu:generic runs the same graph on this machine");
    return llvm::None;
  }
  const bool cuda = target.family->facts.device;
  BuildCommand command;
  if (cuda) {
    command.compiler = findNvcc();
    command.words = target.family->compilerOptions(target);
    command.words.insert(command.words.end(), {"-x", "cu"});
  } else {
    command.compiler = findCxx();
    command.words = {"-std=c++17"};
    llvm::SmallVector<llvm::StringRef, 8> flags;
    const std::string level = buildFlags(*target.levels.front(), code.optimize == "size");
    llvm::StringRef(level).split(flags, ' ', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef f : flags)
      if (f != "-ffreestanding") // the harness is hosted
        command.words.push_back(f.str());
    command.words.push_back("-ffp-contract=off");
    if (code.threads > 1)
      command.words.insert(command.words.end(), {"-DTENON_THREADS", "-pthread"});
  }
  if (command.compiler.empty()) {
    diagnostics.error(
        cuda ? whyMissing("NVCC", "no nvcc was found in PATH or /usr/local/cuda/bin; install the "
                                  "CUDA toolkit, or name it in NVCC")
             : whyMissing("CXX", "no C++ compiler was found; install g++ or name one in CXX"));
    return llvm::None;
  }
  for (std::string &w : userHeaderOptions(model))
    command.words.push_back(std::move(w));
  return command;
}

/// The image for an emulated board.
bool Program::buildImage(const CodeOptions &code, Watch watch) {
  auto tools = findEmulatorTools(target_, diagnostics());
  if (!tools)
    return false;
  std::vector<std::string> words =
      imageOptions(target_, code.optimize == "size", folder_.file("harness/emulated.ld"));
  if (watch != Watch::Nothing)
    words.push_back("-DTENON_TRACE");
  if (!DimSpelling(compiler_.module()).symbols().empty())
    words.push_back("-DTENON_HARNESS_DIMS");
  for (const std::string &w : userHeaderOptions(compiler_.modelOptions()))
    words.push_back(w);
  words.push_back("-I" + folder_.path().str());
  words.push_back(folder_.file("harness/emulated.cpp"));
  words.push_back(folder_.file("model.cpp"));
  words.insert(words.end(), {"-lm", "-lc", "-lgcc", "-o", folder_.file("program")});
  return execute(tools->compiler, words, "building the firmware image");
}

bool Program::build(const CodeOptions &code, Watch watch, bool contexts) {
  if (!folder_.valid()) {
    diagnostics().error(folder_.whyNot());
    return false;
  }
  CompileOptions options = compileOptions(code, "model");
  options.prefix = "model";
  std::vector<CompiledFile> files;
  if (!compiler_.emit(target_, options, files, summary_) || !writeFiles(files))
    return false;
  threads_ = code.threads;
  host_.progress("building");
  const auto start = std::chrono::steady_clock::now();
  const bool ok =
      emulatedBoard(target_) ? buildImage(code, watch) : buildProgram(code, watch, contexts);
  buildSeconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return ok;
}

bool Program::buildProgram(const CodeOptions &code, Watch watch, bool contexts) {
  auto command = buildCommand(target_, code, compiler_.modelOptions(), diagnostics());
  if (!command)
    return false;
  std::vector<std::string> words = std::move(command->words);
  const bool cuda = target_.family->facts.device;
  if (cuda)
    words.push_back("-DTENON_HARNESS_CUDA");
  if (!target_.family->facts.hosted)
    words.push_back("-DTENON_HARNESS_MCU");
  if (watch == Watch::Profile && cuda)
    words.push_back("-DTENON_PROFILE"); // stamps on the device, which keep overlap
  else if (watch != Watch::Nothing)
    words.push_back("-DTENON_TRACE");
  if (contexts)
    words.push_back("-DTENON_HARNESS_CONTEXTS");
  if (contexts && !cuda)
    words.push_back("-pthread");
  if (!DimSpelling(compiler_.module()).symbols().empty())
    words.push_back("-DTENON_HARNESS_DIMS");
  words.push_back("-I" + folder_.path().str());
  words.push_back(folder_.file("harness/main.cpp"));
  words.push_back(folder_.file("model" + target_.family->suffix.str()));
  words.insert(words.end(), {"-o", folder_.file("program")});
  const bool built = execute(command->compiler, words, "building the generated code");
  if (!built)
    noteProcessor(target_, diagnostics());
  return built;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// Puts the command in TENON_RUN_WITH before the program.
static bool runUnderWrapper(std::string &program, std::vector<std::string> &words,
                            Diagnostics &diagnostics) {
  const auto with = llvm::sys::Process::GetEnv("TENON_RUN_WITH");
  if (!with)
    return true;
  llvm::SmallVector<llvm::StringRef, 8> parts;
  llvm::StringRef(*with).split(parts, ' ', -1, /*KeepEmpty=*/false);
  const auto path = llvm::sys::findProgramByName(parts.empty() ? "" : parts.front());
  if (!path) {
    diagnostics.error("TENON_RUN_WITH: no program '" + *with + "'");
    return false;
  }
  std::vector<std::string> all;
  for (llvm::StringRef part : llvm::makeArrayRef(parts).drop_front())
    all.push_back(part.str());
  all.push_back(program);
  all.insert(all.end(), words.begin(), words.end());
  words = std::move(all);
  program = *path;
  return true;
}

bool Program::run(ProgramRun &run) {
  std::string manifest, data;
  if (!describeRun(compiler_, run, threads_, manifest, data))
    return false;
  const std::string stem = folder_.file(std::to_string(runNumber_++));
  const std::string manifestFile = stem + ".manifest", dataFile = stem + ".data",
                    resultFile = stem + ".results";
  OutputFiles files(diagnostics());
  if (!files.add(manifestFile, manifest) || !files.add(dataFile, data) || !files.commit())
    return false;
  std::vector<std::string> words{manifestFile, dataFile, resultFile};
  if (summary_.weightsMode == "file" && summary_.weightBytes)
    words.push_back(folder_.file("model.weights"));
  std::string program = folder_.file("program");
  const EmulatedBoard *board = emulatedBoard(target_);
  if (board) {
    auto tools = findEmulatorTools(target_, diagnostics());
    if (!tools)
      return false;
    words = emulatorOptions(*board, program, stem);
    program = tools->emulator;
  }
  if (!runUnderWrapper(program, words, diagnostics()))
    return false;
  if (!execute(program, words, "running the generated code")) {
    noteProcessor(target_, diagnostics());
    return false;
  }
  auto buffer =
      llvm::MemoryBuffer::getFile(resultFile, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    diagnostics().error("cannot read the results of the generated code: " +
                        buffer.getError().message());
    return false;
  }
  if (!readResults(compiler_, (*buffer)->getBuffer(), run))
    return false;
  if (board) {
    run.instructions = run.firstNanoseconds;
    run.firstNanoseconds = 0;
    run.stepInstructions = std::move(run.stepNanoseconds);
    run.stepNanoseconds.clear();
  }
  for (const std::string &f : {manifestFile, dataFile, resultFile})
    llvm::sys::fs::remove(f);
  return true;
}

} // namespace tenon
