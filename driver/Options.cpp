// Implements the declaration and interpretation of the shared options.
#include "driver/Options.h"

#include "driver/Npy.h"
#include "driver/OptionForms.h"
#include "frontend/Extents.h"
#include "frontend/UserOperator.h"

#include <set>

namespace tenon {
namespace {

constexpr const char *kModelGroup = "Model", *kPassGroup = "Passes", *kCodeGroup = "Code",
                     *kDataGroup = "Data", *kConsoleGroup = "Output";

} // namespace

void declare(CommandLine &app, ConsoleOptions &o) {
  app.flag("-q,--quiet", o.quiet, "print errors and what was asked for only").group(kConsoleGroup);
  app.flag("-v,--verbose", o.verbose, "print more").group(kConsoleGroup);
  app.flag("--json", o.json, "one JSON document on standard output").group(kConsoleGroup);
  app.option("--color", o.color, "auto, always or never")
      .oneOf({"auto", "always", "never"})
      .type("WHEN")
      .group(kConsoleGroup);
}

void declare(CommandLine &app, ModelOptions &o) {
  app.option("MODEL", o.model, "an .onnx file, or a .tn file of any stage").required().type("");
  app.option("--bind", o.bind,
             "value of a symbolic dimension, also by others (total=past+1), or NAME=@FILE (.npy, "
             ".pb): makes an input a constant")
      .type("N=1,…")
      .group(kModelGroup)
      .check(bindForm);
  app.option("--shape", o.shape, "the whole shape of an input")
      .type("NAME=1,3,224,224")
      .group(kModelGroup)
      .check(keyValueForm("NAME=1,3,224,224"));
  app.option("--range", o.range,
             "keeps a dimension dynamic within bounds, or bounds an integer that decides one")
      .type("N=1..32")
      .group(kModelGroup)
      .check(dimensionRange);
  app.option("--state", o.state,
             "the output is carried to the next run's input; caches: IN=OUT:append@AXIS")
      .type("IN=OUT,…")
      .group(kModelGroup)
      .check(stateForm);
  app.option("--io", o.io,
             "element type and order of dimensions of an input or output; `quantized` (default of "
             "mcu targets): those that the model quantises are integers; `float`: they are not")
      .type("NAME=f16,nhwc")
      .group(kModelGroup);
  app.option("--input-range", o.inputRange,
             "values that an input takes, for finding what may overflow in fp16")
      .type("NAME=-1..1")
      .group(kModelGroup)
      .check(keyValueForm("NAME=-1..1"))
      .check(valueRangeForm);
  app.option("--op", o.op, "declares a user's operator").type("FILE.tn").group(kModelGroup);
}

void declare(CommandLine &app, PassOptions &o) {
  app.option("-O", o.level, "optimisation level; -O0 runs no pass, -O3 may search harder")
      .range(0, 3)
      .type("0|1|2|3")
      .showDefault()
      .group(kPassGroup);
  app.option("--disable", o.disable, "switches passes, patterns and fusions off (ids or globs)")
      .type("ID,…")
      .group(kPassGroup);
  app.option("--only", o.only, "switches all others of its kind (passes, kernels) off")
      .type("ID,…")
      .group(kPassGroup);
  app.option("--print-after", o.printAfter, "prints the module after these passes (globs)")
      .type("ID,…")
      .group(kPassGroup);
  app.flag("--print-after-change", o.printAfterChange,
           "prints the module after each pass that changed it")
      .group(kPassGroup);
  app.flag("--verify-each", o.verifyEach, "verifies after every pass").group(kPassGroup);
  app.option("--debug-counter", o.debugCounter,
             "suppresses the first firings of an id, and all after COUNT more")
      .type("ID=SKIP[+COUNT]")
      .group(kPassGroup)
      .check(keyValueForm("fold=3 or fold=3+1"));
  app.flag("--time-passes", o.timePasses, "prints the time of each pass").group(kPassGroup);
}

void declare(CommandLine &app, CodeOptions &o) {
  app.option("--target", o.target, "what to compile for; `tenon targets` lists them")
      .type("T")
      .showDefault()
      .group(kCodeGroup);
  app.option("--precision", o.precision,
             "precision of the contractions of floats: fp32, tf32x3, tf32, fp16 or bf16; nodes may "
             "have "
             "their own, as in 'fp16,/head/*=fp32'")
      .type("P")
      .check(precisionForm)
      .showDefault()
      .group(kCodeGroup);
  app.option("--search", o.search,
             "how schedules are chosen: none, heuristic, or exhaustive (measured here)")
      .oneOf({"none", "heuristic", "exhaustive"})
      .type("M")
      .showDefault()
      .group(kCodeGroup);
  app.option("--workspace", o.workspace, "drops kernels that need more scratch memory")
      .nonNegative()
      .type("BYTES")
      .group(kCodeGroup);
  app.option("--tuning", o.tuning, "measured schedules, written by `tenon tune`")
      .type("FILE,…")
      .group(kCodeGroup);
  app.option("--weights", o.weights, "inline, incbin or file; auto: inline up to 1 MiB, else file")
      .oneOf({"auto", "inline", "incbin", "file"})
      .type("M")
      .showDefault()
      .group(kCodeGroup);
  app.option("--runtime", o.runtime, "embed the runtime's headers, or include them")
      .oneOf({"embed", "include"})
      .type("M")
      .showDefault()
      .group(kCodeGroup);
  app.option("--text-bytes", o.textBytes,
             "room in a context for the text that one run spells (joined, in other letters)")
      .nonNegative()
      .type("BYTES")
      .showDefault()
      .group(kCodeGroup);
  app.option("--kernels", o.kernels,
             "CUDA: beyond so many kernels, layers that differ in extents alone share one")
      .nonNegative()
      .type("N")
      .showDefault()
      .group(kCodeGroup);
  app.option("--prefix", o.prefix, "C identifier before every name of the interface")
      .check(identifierForm)
      .type("NAME")
      .group(kCodeGroup);
  app.option("--threads", o.threads, "worker threads of generated CPU code")
      .range(1, 1024)
      .type("N")
      .showDefault()
      .group(kCodeGroup);
  app.option("--report", o.report, "fusion, memory, kernels, passes")
      .type("KIND,…")
      .group(kCodeGroup)
      .check(reportForm);
  app.option("--optimize", o.optimize, "firmware: speed (default), or size: layers share code")
      .oneOf({"size", "speed"})
      .type("M")
      .group(kCodeGroup);
  app.option(
         "--ram-limit", o.ramLimit,
         "firmware: bound on the arena; first layers are computed in strips where it needs that")
      .nonNegative()
      .type("BYTES")
      .group(kCodeGroup);
  app.option("--pool", o.pool, "firmware: memories that the arena is split over, the fastest first")
      .type("NAME=BYTES")
      .group(kCodeGroup)
      .check(keyValueForm("sram=262144"));
  app.flag("--self-test{seeded}", o.selfTest,
           "compile: also writes a C file with one set of inputs, the outputs that the "
           "interpreter computes, and a function that compares, to run on the device; "
           "--self-test=DIR takes the inputs of a test data set")
      .type("DIR")
      .group(kCodeGroup);
  app.flag("--hooks", o.hooks, "compile: calls functions of yours before and after each layer")
      .group(kCodeGroup);
}

void declare(CommandLine &app, DataOptions &o) {
  app.option("--data", o.data, "a test data set: input_K.pb, and output_K.pb to compare with")
      .type("DIR")
      .group(kDataGroup);
  app.option("--input", o.inputs, "value of one input (.npy or .pb)")
      .type("NAME=FILE")
      .group(kDataGroup)
      .check(keyValueForm("image=cat.npy"));
  app.option("--check", o.check, "outputs, or every group's output, too")
      .oneOf({"outputs", "groups"})
      .type("WHAT")
      .showDefault()
      .group(kDataGroup);
  app.option("--against", o.against,
             "target or precision whose outputs are expected: interpreter, cpu:generic, fp32 …")
      .type("T")
      .group(kDataGroup);
  app.option("--reference", o.reference,
             "the interpreter computes what is expected from this model instead")
      .type("MODEL")
      .group(kDataGroup);
  app.option("--tolerance", o.tolerance,
             "largest error of a float output, relative to its largest value")
      .nonNegative()
      .type("E")
      .showDefault()
      .group(kDataGroup);
  app.option("--group-tolerance", o.groupTolerance, "the same for values between groups")
      .nonNegative()
      .type("E")
      .showDefault()
      .group(kDataGroup);
  app.option("--seeds", o.seeds, "seeded inputs beside the data set with --check=groups")
      .type("N")
      .showDefault()
      .group(kDataGroup);
  app.option("--save", o.save, "writes each output as .npy, and names.json")
      .type("DIR")
      .group(kDataGroup);
  app.option("--save-all", o.saveAll, "interpreter: writes every named tensor of the model, too")
      .type("DIR")
      .group(kDataGroup);
  app.flag("--keep", o.keep, "keeps the folder with generated code and program").group(kDataGroup);
}

std::vector<std::pair<std::string, std::string>> keyValues(llvm::ArrayRef<std::string> words) {
  std::vector<std::pair<std::string, std::string>> out;
  for (llvm::StringRef word : words) {
    bool first = true;
    llvm::SmallVector<llvm::StringRef, 4> items;
    word.split(items, ',');
    for (llvm::StringRef item : items) {
      if (!first && !item.contains('=')) {
        out.back().second += "," + item.str();
        continue;
      }
      // Names may hold '=': a file begins at "=@", everything else after the last '='.
      const size_t file = item.find("=@");
      auto [key, value] = file != llvm::StringRef::npos
                              ? std::pair(item.take_front(file), item.drop_front(file + 1))
                              : item.rsplit('=');
      out.push_back({key.str(), value.str()});
      first = false;
    }
  }
  return out;
}

std::vector<std::string> listItems(llvm::ArrayRef<std::string> words) {
  std::vector<std::string> out;
  for (llvm::StringRef word : words) {
    llvm::SmallVector<llvm::StringRef, 4> items;
    word.split(items, ',', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef item : items)
      out.push_back(item.trim().str());
  }
  return out;
}

namespace {

/// The path in a value, which begins at `start`, keeps its last part.
void addOption(std::string &text, llvm::StringRef name, llvm::StringRef value,
               size_t start = llvm::StringRef::npos) {
  const size_t slash = value.rfind('/');
  text += (text.empty() ? "" : " ") + name.str() + "=";
  if (slash != llvm::StringRef::npos && start <= slash)
    text += value.take_front(start).str() + value.drop_front(slash + 1).str();
  else
    text += value.str();
}

void addOptions(std::string &text, llvm::StringRef name, llvm::ArrayRef<std::string> values) {
  for (const std::string &value : values)
    addOption(text, name, value);
}

} // namespace

std::string optionText(const ModelOptions &options) {
  std::string text;
  for (const auto &[key, value] : keyValues(options.bind))
    addOption(text, "--bind", key + "=" + value,
              value[0] == '@' ? key.size() + 2 : std::string::npos);
  addOptions(text, "--shape", options.shape);
  addOptions(text, "--range", options.range);
  addOptions(text, "--state", options.state);
  for (const std::string &path : options.op)
    addOption(text, "--op", path, 0);
  return text;
}

std::string optionText(const PassOptions &options) {
  std::string text;
  if (options.level != PassOptions().level)
    text = "-O" + std::to_string(options.level);
  addOptions(text, "--disable", options.disable);
  addOptions(text, "--only", options.only);
  addOptions(text, "--debug-counter", options.debugCounter);
  return text;
}

bool inputRanges(const ModelOptions &options, std::map<std::string, Interval> &ranges,
                 Diagnostics &diagnostics) {
  for (const auto &[name, text] : keyValues(options.inputRange)) {
    auto [low, high] = llvm::StringRef(text).split("..");
    Interval r;
    if (low.getAsDouble(r.low) || high.getAsDouble(r.high) || !(r.low <= r.high)) {
      diagnostics.error("--input-range " + name + ": expected LOW..HIGH such as -1..1, found '" +
                        text + "'");
      return false;
    }
    ranges[name] = r;
  }
  return true;
}

bool portRequests(const ModelOptions &options, std::vector<PortRequest> &ports,
                  llvm::Optional<bool> &quantized, Diagnostics &diagnostics) {
  bool ok = true;
  for (const auto &[name, text] : keyValues(options.io)) {
    if (text.empty() && (name == "quantized" || name == "float")) {
      if (quantized && *quantized != (name == "quantized")) {
        diagnostics.error("--io: expected quantized or float, found both");
        ok = false;
      }
      quantized = name == "quantized";
      continue;
    }
    if (name.empty() || text.empty()) {
      diagnostics.error("--io: expected a form such as NAME=f16,nhwc, quantized or float, found '" +
                        name + (text.empty() ? "" : "=" + text) + "'");
      ok = false;
      continue;
    }
    ports.emplace_back();
    ok = parsePortRequest(name, text, ports.back(), diagnostics) && ok;
  }
  return ok;
}

llvm::Optional<Tensor> readTensorFile(llvm::StringRef path, Diagnostics &diagnostics) {
  if (path.endswith(".npy"))
    return readNpy(path, diagnostics);
  if (path.endswith(".pb"))
    return readTensorProto(path, diagnostics);
  diagnostics.error("cannot read '" + path.str() + "': expected a .npy or .pb file");
  return llvm::None;
}

/// Whether no key stands in the words of both options; reports the first that does.
static bool givenApart(llvm::StringRef one, llvm::ArrayRef<std::string> words,
                       llvm::StringRef other, llvm::ArrayRef<std::string> others,
                       Diagnostics &diagnostics) {
  std::set<std::string> seen;
  for (const auto &entry : keyValues(words))
    seen.insert(entry.first);
  for (const auto &entry : keyValues(others))
    if (seen.count(entry.first)) {
      diagnostics.error(one.str() + " and " + other.str() + " both name '" + entry.first +
                        "': give one of them");
      return false;
    }
  return true;
}

bool givenOnce(const ModelOptions &options, Diagnostics &diagnostics) {
  return givenOnce("--bind", options.bind, diagnostics) &&
         givenOnce("--shape", options.shape, diagnostics) &&
         givenOnce("--range", options.range, diagnostics) &&
         givenOnce("--state", options.state, diagnostics) &&
         givenApart("--bind", options.bind, "--range", options.range, diagnostics);
}

bool givenOnce(llvm::StringRef option, llvm::ArrayRef<std::string> words,
               Diagnostics &diagnostics) {
  std::set<std::string> seen;
  for (const auto &[key, value] : keyValues(words))
    if (!seen.insert(key).second) {
      diagnostics.error(option.str() + ": '" + key + "' is given twice");
      return false;
    }
  return true;
}

bool importOptions(const ModelOptions &options, ImportOptions &out, Diagnostics &diagnostics) {
  for (const auto &[key, value] : keyValues(options.bind)) {
    llvm::StringRef text(value);
    if (text.consume_front("@")) {
      auto tensor = readTensorFile(text, diagnostics);
      if (!tensor)
        return false;
      out.constants[key] = *tensor;
      continue;
    }
    int64_t v;
    if (!text.getAsInteger(10, v)) {
      out.bindDims[key] = v;
    } else if (frontend::parseExtent(text)) {
      out.bindExtents[key] = value;
    } // others are refused by the command line already
  }
  for (const std::string &path : options.op)
    if (!readUserOperator(path, out, diagnostics))
      return false;
  for (const auto &[key, value] : keyValues(options.shape)) {
    llvm::SmallVector<llvm::StringRef, 6> extents;
    llvm::StringRef(value).split(extents, ',');
    for (llvm::StringRef e : extents)
      out.shapes[key].push_back(e.trim().str());
  }
  for (const auto &[key, value] : keyValues(options.range)) {
    auto [low, high] = llvm::StringRef(value).split("..");
    ImportRange r;
    if (low.getAsInteger(10, r.lower) || high.getAsInteger(10, r.upper))
      continue; // refused by the command line already
    out.ranges[key] = r;
  }
  for (const auto &[key, value] : keyValues(options.state)) {
    auto [name, mode] = llvm::StringRef(value).rsplit(":append@");
    ImportState s{key, name.str(), llvm::None};
    if (!mode.empty()) {
      int64_t axis;
      if (mode.getAsInteger(10, axis))
        continue; // refused by the command line already
      s.appendAxis = axis;
    }
    out.states.push_back(std::move(s));
  }
  return true;
}

} // namespace tenon
