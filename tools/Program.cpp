// Implements the building and running of programs. The file formats are those of
// runtime/harness/main.cpp; what images report in the place of times stands in emulated.cpp.
#include "tools/Program.h"

#include "codegen/EmbeddedRuntime.h"
#include "codegen/cuda/Program.h"
#include "codegen/emit/CppText.h"
#include "compiler/CodeOptions.h"
#include "tools/Emulator.h"
#include "tools/Physical.h"
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

bool Program::writeFiles(llvm::ArrayRef<CompiledFile> files) {
  OutputFiles out(diagnostics());
  if (!makeFolder(folder_.file("harness"), diagnostics()))
    return false;
  for (const CompiledFile &f : files)
    if (!out.add(folder_.file("model" + f.suffix), f.bytes))
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
  if (!native || target.family != Family::Cpu || level.simdWidth <= 1 ||
      native->name == target.name || diagnostics.list().empty())
    return;
  diagnostics.list().back().notes.push_back(
      "this machine's processor is of " + native->name + ", the code is for " + target.name +
      "; what runs here is --target=cpu:native" +
      (level.name == "armv8" ? ", or name a cross compiler in CXX" : ""));
}

llvm::Optional<BuildCommand> buildCommand(const Target &target, const CodeOptions &code,
                                          const ModelOptions &model, Diagnostics &diagnostics) {
  if (target.levels.front()->isCross()) {
    diagnostics.error(target.name + " code cannot be timed here: it runs in a firmware image "
                                    "(`tenon run` builds one for an emulator); "
                                    "--target=mcu:generic runs the same graph on this machine");
    return llvm::None;
  }
  const bool cuda = target.family == Family::Cuda;
  BuildCommand command;
  if (cuda) {
    command.compiler = findNvcc();
    command.words = nvccOptions(target);
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
  const bool cuda = target_.family == Family::Cuda;
  if (cuda)
    words.push_back("-DTENON_HARNESS_CUDA");
  if (target_.family == Family::Mcu)
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
  words.push_back(folder_.file(cuda ? "model.cu" : "model.cpp"));
  words.insert(words.end(), {"-o", folder_.file("program")});
  const bool built = execute(command->compiler, words, "building the generated code");
  if (!built)
    noteProcessor(target_, diagnostics());
  return built;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

class Numbers {
public:
  void add(int64_t v) { bytes_.append(reinterpret_cast<const char *>(&v), sizeof v); }
  llvm::StringRef bytes() const { return bytes_; }

private:
  std::string bytes_;
};

/// Reads what the program wrote; reports once when it is too short.
class ResultReader {
public:
  explicit ResultReader(llvm::StringRef bytes) : bytes_(bytes) {}
  bool take(void *to, size_t size) {
    if (size > bytes_.size())
      return good_ = false;
    memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.drop_front(size);
    return good_;
  }
  int64_t number() {
    int64_t v = 0;
    take(&v, sizeof v);
    return v;
  }
  double real() {
    double v = 0;
    take(&v, sizeof v);
    return v;
  }
  std::string text(int64_t size) {
    if (size < 0 || size > int64_t(bytes_.size()))
      good_ = false;
    std::string s = good_ ? bytes_.take_front(size_t(size)).str() : "";
    bytes_ = bytes_.drop_front(s.size());
    return s;
  }
  bool good() const { return good_; }

private:
  llvm::StringRef bytes_;
  bool good_ = true;
};

std::string bytesText(llvm::ArrayRef<uint8_t> bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

/// Text as DATA and RESULTS have it: the lengths of `count` elements, those beyond the tensor's
/// empty, then the bytes.
std::string textData(const Tensor &t, int64_t count) {
  Numbers lengths;
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    lengths.add(i < t.size() ? int64_t(t.stringValues()[size_t(i)].size()) : 0);
    bytes += i < t.size() ? t.stringValues()[size_t(i)] : "";
  }
  return lengths.bytes().str() + bytes;
}

/// The tensor of such text; null when it is cut short.
Tensor readText(ResultReader &reader, llvm::ArrayRef<int64_t> shape, int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count && reader.good(); ++i)
    lengths.push_back(reader.number());
  Strings values;
  for (int64_t length : lengths)
    values.push_back(reader.text(length));
  return reader.good() ? Tensor::strings(shape, std::move(values)) : Tensor();
}

int64_t upperBytes(Type t) { return byteSize(t.element(), t.upperElements()); }

} // namespace

bool Program::isState(unsigned input) const {
  return llvm::any_of(compiler_.module().graph().states,
                      [&](const State &s) { return s.input == input; });
}
bool Program::isCarried(unsigned output) const {
  return llvm::any_of(compiler_.module().graph().states,
                      [&](const State &s) { return s.output == output; });
}

bool Program::run(ProgramRun &run) {
  Module &module = compiler_.module();
  Graph &graph = module.graph();
  Numbers manifest;
  std::string data;
  for (int64_t v : {int64_t(threads_), run.runs, run.warmup, run.budgetMilliseconds,
                    int64_t(run.profileSteps), int64_t(run.contexts)})
    manifest.add(v);

  SymbolValues symbols;
  if (!bindInputs(graph, run.inputs, symbols, diagnostics()))
    return false;
  const DimSpelling dims(module);
  Numbers settings;
  int64_t settable = 0;
  for (size_t i = 0; i < dims.symbols().size(); ++i) {
    auto it = symbols.find(dims.symbols()[i].symbol().str());
    if (it == symbols.end())
      continue; // born in the graph
    settings.add(int64_t(i));
    settings.add(it->second);
    ++settable;
  }
  manifest.add(settable);
  std::string head = manifest.bytes().str() + settings.bytes().str();

  Numbers rest;
  int64_t inputCount = 0, outputCount = 0;
  Numbers inputs, outputs;
  for (unsigned i = 0; i < run.inputs.size(); ++i) {
    if (isState(i))
      continue;
    ++inputCount;
    // Buffers have the size of the largest extents, as the interface asks.
    const Type t = graph.body().argument(i)->type();
    const bool isText = t.element() == Element::String;
    std::string bytes = isText ? textData(run.inputs[i], t.upperElements())
                               : physicalBytes(run.inputs[i], t, symbols);
    if (!isText)
      bytes.resize(size_t(std::max<int64_t>(upperBytes(t), int64_t(bytes.size()))));
    inputs.add(int64_t(bytes.size()));
    inputs.add(isText ? t.upperElements() : -1);
    data += bytes;
  }
  Operation *end = graph.returnOp();
  for (unsigned i = 0; i < end->numOperands(); ++i) {
    if (isCarried(i))
      continue;
    ++outputCount;
    const Type t = end->operand(i)->type();
    outputs.add(upperBytes(t));
    outputs.add(t.rank());
    outputs.add(t.element() == Element::String ? t.upperElements() : -1);
  }
  rest.add(inputCount);
  head += rest.bytes().str() + inputs.bytes().str();
  Numbers tail;
  tail.add(outputCount);
  head += tail.bytes().str() + outputs.bytes().str();
  Numbers transfers;
  transfers.add(int64_t(run.transfers.size()));
  for (const Transfer &t : run.transfers) {
    const bool indexed = t.place.home == Home::Input || t.place.home == Home::Output;
    const int home = t.place.home == Home::Input    ? 1
                     : t.place.home == Home::Output ? 2
                     : t.place.home == Home::State  ? 3
                                                    : 0;
    for (int64_t v : {int64_t(t.step), int64_t(t.read), int64_t(t.read), int64_t(home), t.place.at,
                      indexed ? t.place.offset : 0, int64_t(t.form.segments().size())})
      transfers.add(v);
    for (const Segment &s : t.form.segments()) {
      transfers.add(s.offset);
      transfers.add(s.bytes);
    }
    if (!t.read)
      data += bytesText(t.bytes);
  }
  head += transfers.bytes().str();

  const std::string number = std::to_string(runNumber_++);
  const std::string stem = folder_.file(number), manifestFile = stem + ".manifest",
                    dataFile = stem + ".data", resultFile = stem + ".results";
  OutputFiles files(diagnostics());
  if (!files.add(manifestFile, head) || !files.add(dataFile, data) || !files.commit())
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
  if (auto with = llvm::sys::Process::GetEnv("TENON_RUN_WITH")) {
    llvm::SmallVector<llvm::StringRef, 8> parts;
    llvm::StringRef(*with).split(parts, ' ', -1, /*KeepEmpty=*/false);
    if (auto path = llvm::sys::findProgramByName(parts.empty() ? "" : parts.front())) {
      std::vector<std::string> all;
      for (llvm::StringRef part : llvm::makeArrayRef(parts).drop_front())
        all.push_back(part.str());
      all.push_back(program);
      all.insert(all.end(), words.begin(), words.end());
      words = std::move(all);
      program = *path;
    } else {
      diagnostics().error("TENON_RUN_WITH: no program '" + *with + "'");
      return false;
    }
  }
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
  ResultReader reader((*buffer)->getBuffer());
  std::vector<llvm::SmallVector<int64_t, 6>> shapes(end->numOperands());
  for (unsigned i = 0; i < end->numOperands(); ++i)
    for (unsigned d = 0; !isCarried(i) && d < end->operand(i)->type().rank(); ++d)
      shapes[i].push_back(reader.number());
  run.outputs.assign(end->numOperands(), Tensor());
  for (unsigned i = 0; i < end->numOperands(); ++i) {
    if (isCarried(i))
      continue;
    const Type t = end->operand(i)->type();
    int64_t elements = 1;
    for (int64_t d : shapes[i])
      elements *= d;
    if (elements < 0 || byteSize(t.element(), elements) > upperBytes(t)) {
      diagnostics().error("output '" + graph.outputNames[i] +
                          "': the generated code reports an "
                          "extent beyond its bound");
      return false;
    }
    if (t.element() == Element::String) {
      run.outputs[i] = readText(reader, shapes[i], elements);
      continue;
    }
    std::vector<uint8_t> bytes(size_t(upperBytes(t)));
    if (!reader.take(bytes.data(), bytes.size()))
      break;
    bytes.resize(size_t(byteSize(t.element(), elements)));
    run.outputs[i] = Tensor(t.element(), shapes[i], std::move(bytes));
  }
  for (Transfer &t : run.transfers)
    if (t.read) {
      t.done = reader.number();
      t.bytes.resize(size_t(t.form.bytes()));
      reader.take(t.bytes.data(), t.bytes.size());
    }
  run.createNanoseconds = reader.real();
  run.firstNanoseconds = reader.real();
  const int64_t times = reader.number(), profiled = reader.number(), steps = reader.number();
  run.nanoseconds.clear();
  for (int64_t i = 0; i < times && reader.good(); ++i)
    run.nanoseconds.push_back(reader.real());
  run.stepNanoseconds.clear();
  for (int64_t i = 0; i < steps && reader.good(); ++i)
    run.stepNanoseconds.push_back(reader.real() / double(std::max<int64_t>(profiled, 1)));
  if (run.contexts > 1) {
    run.oneContextNanoseconds = reader.real();
    run.allContextsNanoseconds = reader.real();
  }
  if (board) {
    run.instructions = run.firstNanoseconds;
    run.firstNanoseconds = 0;
    run.stepInstructions = std::move(run.stepNanoseconds);
    run.stepNanoseconds.clear();
  }
  for (const std::string &f : {manifestFile, dataFile, resultFile})
    llvm::sys::fs::remove(f);
  if (!reader.good())
    diagnostics().error("the results of the generated code are cut short");
  return reader.good();
}

} // namespace tenon
