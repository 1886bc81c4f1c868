// Implements the declaration of the shared options.
#include "driver/Options.h"

#include "compiler/OptionForms.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

namespace tenon {

/// Extents are integers, names, or sums and products of both.
static std::string extentsForm(const std::string &text) {
  llvm::SmallVector<llvm::StringRef, 6> extents;
  llvm::StringRef(text).split('=').second.split(extents, ',');
  for (llvm::StringRef e : extents) {
    e = e.trim();
    if (!e.empty() && llvm::isDigit(e[0]) && !llvm::all_of(e, llvm::isDigit) && !e.contains('*') &&
        !e.contains('+'))
      return "expected extents parted by commas, as in NAME=1,3,224,224, found '" + e.str() + "'";
  }
  return "";
}

void declare(CommandLine &app, ConsoleOptions &o) {
  CommandOption quiet = app.flag("-q,--quiet", o.quiet, "print errors and what was asked for only");
  quiet.group(kConsoleGroup);
  app.flag("-v,--verbose", o.verbose, "print more").group(kConsoleGroup).excludes(quiet);
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
      .check(keyValueForm("NAME=1,3,224,224"))
      .check(extentsForm);
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
  app.option("--decoder", o.decoder,
             "a language model: finds its caches, lengths and masks, and keeps up to MAX tokens")
      .type("MAX[,prefill=128:512|none][,logits=last|all]")
      .group(kModelGroup)
      .check(decoderForm);
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

void declare(CommandLine &app, PipelineOptions &o) {
  app.option("-O", o.level,
             "optimisation level; -O0 runs no pass, -O3 also those whose gain on the target was "
             "not measured")
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
  app.option("--threads", o.threads, "threads of generated CPU code, the calling one included")
      .range(1, 64)
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
  app.option("--pool", o.pool,
             "firmware: memories that the arena is split over, the fastest first; of a chip's "
             "memories the name is enough")
      .type("NAME[=BYTES]")
      .group(kCodeGroup)
      .check([form = keyValueForm("sram=262144 or the name of a chip's memory")](
                 const std::string &word) {
        return word.empty() || llvm::StringRef(word).contains('=') ? form(word) : "";
      });
  app.flag("--self-test{seeded}", o.selfTest,
           "compile: also writes a C file with one set of inputs, the outputs that the "
           "interpreter computes, and a function that compares, to run on the device; "
           "--self-test=DIR takes the inputs of a test data set")
      .type("DIR")
      .group(kCodeGroup);
  app.flag("--hooks", o.hooks, "compile: calls functions of yours before and after each layer")
      .group(kCodeGroup);
}

std::vector<IdleOption> idleInterface() {
  std::vector<IdleOption> options;
  for (const char *name : {"--prefix", "--self-test", "--hooks"})
    options.push_back(
        {name, true, "shapes the files that `tenon compile` and `tenon pack` leave behind"});
  return options;
}

IdleOption idleReport() {
  return {"--report", true, "is printed by `tenon compile`, `run` and `bench`"};
}

std::vector<IdleOption> idleOutputs() {
  auto options = idleInterface();
  options.push_back(idleReport());
  return options;
}

void declare(CommandLine &app, DataOptions &o) {
  app.option(
         "--data", o.data,
         "a test data set: a folder with input_K.pb or .npy, and output_K to compare with, a .npz "
         "file, or a folder of such, or of files of the one input; the first is used")
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
  app.option("--seeds", o.seeds,
             "seeded inputs beside the data set (default: 8 with --check=groups, else 0)")
      .type("N")
      .group(kDataGroup);
  app.option("--save", o.save, "writes each output as .npy, and names.json")
      .type("DIR")
      .writesFolder()
      .group(kDataGroup);
  app.option("--save-all", o.saveAll, "interpreter: writes every named tensor of the model, too")
      .type("DIR")
      .writesFolder()
      .group(kDataGroup);
  app.flag("--keep", o.keep, "keeps the folder with generated code and program").group(kDataGroup);
}

} // namespace tenon
