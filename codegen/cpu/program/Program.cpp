// Implements the writing of C++ files: sections in the order a compiler needs them (head, system
// headers, runtime, weights, steps, program table, C interface).
#include "codegen/cpu/program/Program.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/program/EntryPoints.h"
#include "codegen/cpu/program/GraphText.h"
#include "codegen/emit/Amalgamate.h"
#include "codegen/emit/CppHeader.h"
#include "codegen/emit/DecoderText.h"
#include "codegen/emit/Header.h"
#include "codegen/emit/TextTables.h"
#include "codegen/memory/Pools.h"
#include "ir/BornExtents.h"
#include "ir/Entries.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {
namespace {

class CppProgram {
public:
  CppProgram(Module &module, std::vector<std::unique_ptr<ScheduledGraph>> scheduled,
             std::shared_ptr<const WeightImage> weights, const Target &target,
             const CompileOptions &options, CompileSummary &summary, Diagnostics &diagnostics)
      : module_(module), weights_(std::move(weights)), target_(target), options_(options),
        summary_(summary), diagnostics_(diagnostics), dims_(module),
        graphs_(textsOf(std::move(scheduled))), info_(describeInterface(graph_, options)) {}

  bool write(std::vector<CompiledFile> &files) {
    if (!hosted_ && dims_.symbols().size() > 16) {
      diagnostics_.error("expected at most 16 run-time dimensions on a microcontroller, found " +
                         std::to_string(dims_.symbols().size()) + "; bind some with --bind");
      return false;
    }
    if (!hosted_ && info_.decoder) {
      diagnostics_.error("--decoder is for processors and GPUs; target " + target_.name +
                         " has no memory to allocate");
      return false;
    }
    steps();
    summarize();
    const bool inlined =
        options_.weights == CompileOptions::Inline || !hosted_ ||
        (options_.weights == CompileOptions::Auto && summary_.weightBytes <= 1 << 20);
    const bool incbin = options_.weights == CompileOptions::Incbin;
    summary_.weightsMode = inlined ? "inline" : incbin ? "incbin" : "file";
    const bool any = summary_.weightBytes > 0;
    if (!inlined && !incbin && any)
      info_.weightsFile = options_.stem + ".weights";

    SourceWriter w;
    const std::string command = level_.compiler.str() + " -std=c++17 " +
                                buildFlags(level_, options_.size) + " -ffp-contract=off" +
                                (threaded_ ? " -pthread" : "");
    const bool embedded = options_.runtime == CompileOptions::Embed;
    w.raw(fileHead(module_, target_, options_, command));
    w.raw(contents());
    w.line("");
    if (embedded)
      w.raw(beginOfGuard("__cplusplus >= 201703L && !defined(__FAST_MATH__)" +
                             (level_.flagsGiven.empty() ? "" : " && " + level_.flagsGiven.str()),
                         target_, options_, command));
    w.line("#define TENON_SIMD_WIDTH " + std::to_string(level_.simdWidth));
    if (threaded_) {
      w.line("#ifndef TENON_THREADS");
      w.line("#define TENON_THREADS");
      w.line("#endif");
    }
    if (!hosted_) {
      if (!embedded)
        w.line("#include <stdint.h>");
      w.line("#define TENON_NO_HEAP");
      w.line("#define TENON_INDEX int32_t");
      if (!sumMembers(module_, dims_).empty())
        w.line("#define TENON_DIM_SUMS");
    }
    if (!pools_.empty())
      w.line("#define TENON_POOL_BOUNDS {" + poolBounds() + "}");
    w.line("");
    runtime(w);
    w.line(beginSpace());
    w.line("");
    w.line("using namespace tenon;");
    w.line("using tenon::cpu::frame;");
    w.line("namespace rt = tenon::cpu;");
    w.line("");
    weights(w, inlined, incbin);
    texts(w);
    table_.write(w);
    if (!pools_.empty())
      pools(w);
    for (const std::string &s : stepTexts_)
      w.raw(s).line("");
    table(w, inlined || incbin || !any);
    w.line("} // namespace " + space_);
    w.line("");
    writeCppEntryPoints(w, info_, dims_, pools_, space_, hosted_);
    if (embedded)
      w.raw(endOfGuard());
    files.push_back(textAroundHash(".cpp", std::move(beforeHash_), w.take(), weights_));
    files.push_back({".h", writeHeader(module_, info_, target_, dims_, options_, summary_)});
    files.push_back({".hpp", writeCppHeader(module_, info_, options_, dims_, /*queue=*/false)});
    if (!inlined && any)
      files.push_back({".weights", "", [image = weights_](auto &os) { image->write(os); }});
    return !diagnostics_.hasErrors();
  }

private:
  /// As text, the first one first.
  std::vector<std::unique_ptr<GraphText>>
  textsOf(std::vector<std::unique_ptr<ScheduledGraph>> scheduled) {
    const bool alone = scheduled.size() == 1;
    std::vector<std::unique_ptr<GraphText>> texts;
    for (auto &s : scheduled) {
      const std::string entry = isEntry(s->graph) ? s->graph.name : "";
      texts.push_back(
          std::make_unique<GraphText>(std::move(s), dims_, table_, entry, /*lifetimes=*/alone));
    }
    return texts;
  }
  const GraphText &first() const { return *graphs_.front(); }

  void summarize() {
    summary_.kernels = int(stepTexts_.size());
    summary_.weightBytes = int64_t(weights_->size());
    summary_.stateBytes = plan_.stateBytes;
    // All run in the same memory.
    for (const auto &g : graphs_) {
      summary_.arenaBytes = std::max(summary_.arenaBytes, g->plan().arenaBytes);
      summary_.boundBytes = std::max(summary_.boundBytes, g->plan().boundBytes);
      summary_.scratchBytes = std::max(summary_.scratchBytes, g->plan().scratchBytes);
      if (spellsText(g->graph()))
        summary_.textBytes = options_.textBytes;
    }
  }

  std::string contents() const {
    FileContents c;
    c.interfaceFile = options_.stem + ".h";
    c.runtimeEmbedded = options_.runtime == CompileOptions::Embed;
    c.weights = std::to_string(summary_.weightBytes) + " bytes, " +
                (summary_.weightsMode == "inline" ? std::string("in this file")
                                                  : "in " + options_.stem + ".weights");
    c.memory = memoryText(summary_);
    for (const Step &s : plan_.steps)
      c.steps.push_back(contentsLine(s, first().name(s)));
    return contentsComment(c);
  }

  //===--------------------------------------------------------------------===//
  // Pools
  //===--------------------------------------------------------------------===//

  /// Where each pool ends in the arena.
  std::string poolBounds() const {
    std::string text;
    for (const Pool &p : pools_)
      text += (text.empty() ? "" : ", ") + std::to_string(p.begin + p.bytes);
    return text;
  }

  /// The pools' sizes, and memory for those that the build gives a section.
  void pools(SourceWriter &w) {
    w.line("#if TENON_POOLS");
    std::string sizes;
    for (size_t i = 0; i < pools_.size(); ++i) {
      const int64_t bytes = std::max<int64_t>(poolUse_[i], 1);
      sizes += (i ? ", " : "") + std::to_string(poolUse_[i]);
      const std::string name = cIdentifier(pools_[i].name),
                        section = "TENON_POOL_" + llvm::StringRef(name).upper() + "_SECTION";
      w.line("#if defined(" + section + ")");
      w.line("alignas(64) " + section + " static unsigned char pool_" + name + "[" +
             std::to_string(bytes) + "];");
      w.line("#else");
      w.line("static unsigned char *const pool_" + name + " = nullptr;");
      w.line("#endif");
    }
    w.line("constexpr size_t pool_bytes[] = {" + sizes + "};");
    w.line("#endif");
    w.line("");
  }

  //===--------------------------------------------------------------------===//
  // Steps
  //===--------------------------------------------------------------------===//

  void steps() {
    includes_.insert("cpu/program.h");
    includes_.insert("common/scalar.h");
    if (info_.hasText || !plan_.texts.empty())
      includes_.insert("common/text.h");
    if (info_.hasComplex)
      includes_.insert("common/complex.h");
    if (info_.decoder)
      includes_.insert("common/decoder.h");
    for (const auto *ports : {&info_.inputs, &info_.outputs})
      for (const Port &port : *ports)
        if (port.quantization)
          includes_.insert("cpu/quantized_io.h");
    findAlike();
    for (const auto &g : graphs_)
      for (const Step &step : g->plan().steps) {
        if (step.op->is(Op::Loop))
          includes_.insert("cpu/repeat.h");
        if (const Choice *choice = g->choice(step)) {
          StepSummary summary;
          summary.level = level_.name.str() + (g->entry().empty() ? "" : "_" + g->entry());
          summary.step = step.number;
          summary.estimatedMicroseconds = choice->price().microseconds;
          if (g->entry().empty())
            summary_.estimatedMicroseconds += summary.estimatedMicroseconds;
          summary_.steps.push_back(std::move(summary));
          g->setFunction(step, section(*g, step, *choice));
        }
      }
  }

  /// Finds the steps that differ from others in constants alone, such as a quantised network's
  /// layers in their scales: most of the time of the C++ compiler would go to kernels for each of
  /// them.
  void findAlike() {
    if (!level_.variableShifts)
      return;
    struct Alike {
      std::vector<std::string> first; // constants of the first of the steps
      std::vector<bool> differ;       // whether those of any other do
      std::vector<const Step *> steps;
    };
    std::map<std::string, Alike> byTypes;
    for (const auto &g : graphs_)
      for (const Step &step : g->plan().steps)
        if (const Choice *choice = g->choice(step)) {
          StepWriter writer(g->plan(), step, dims_, level_, "step");
          writer.takeConstantsOut({});
          choice->emit(writer);
          const std::vector<std::string> &constants = writer.constants();
          std::string types = choice->tactic.info.id.str();
          for (const auto &[text, name] : writer.declared())
            types += "\n" + text;
          Alike &alike = byTypes.try_emplace(types, Alike{constants, {}, {}}).first->second;
          alike.steps.push_back(&step);
          alike.differ.resize(constants.size());
          for (size_t i = 0; i < constants.size(); ++i)
            if (constants[i] != alike.first[i])
              alike.differ[i] = true;
        }
    for (const auto &[types, alike] : byTypes)
      if (llvm::is_contained(alike.differ, true))
        for (const Step *step : alike.steps)
          differing_.insert({step, alike.differ});
  }

  /// Writes a step unless another graph has the same; what it is called.
  std::string section(const GraphText &g, const Step &step, const Choice &choice) {
    const std::string &label = g.name(step);
    for (const std::string &name : {label, label + "_" + g.entry()}) {
      StepWriter writer(g.plan(), step, dims_, level_, name, &g.placeNames(), &declared_);
      if (auto it = differing_.find(&step); it != differing_.end())
        writer.takeConstantsOut(it->second);
      choice.emit(writer);
      includes_.insert(writer.includes().begin(), writer.includes().end());
      userIncludes_.insert(writer.userIncludes().begin(), writer.userIncludes().end());
      SourceWriter w;
      w.raw(stepHeading(step));
      w.raw(writer.declarations().take());
      // One frame of the stack at a time, and a symbol for each layer.
      const bool apart = !hosted_;
      w.open((apart ? "TENON_APART static void " : "static void ") + name + "(const frame &f)");
      w.lines(writer.code().text());
      w.close();
      const auto [it, fresh] = sections_.emplace(name, w.text());
      if (!fresh && it->second != w.text())
        continue;
      if (fresh) {
        stepTexts_.push_back(w.take());
        declared_.insert(writer.declared().begin(), writer.declared().end());
      }
      return name;
    }
    return label; // not reached: the second name is this graph's own
  }

  //===--------------------------------------------------------------------===//
  // Sections
  //===--------------------------------------------------------------------===//

  /// Opens the namespace of all that is not the interface.
  std::string beginSpace() const { return "namespace " + kHidden.str() + space_ + " {"; }

  /// Of strict compilers: g++ takes the extent of each array in a template, an int, for a
  /// conversion to size_t (clang warns of those that are), and ISO C++ asks for string literals up
  /// to 65,536.
  void silenceWarnings(SourceWriter &w) {
    w.line("#if defined(__clang__)");
    w.line("#pragma clang diagnostic ignored \"-Woverlength-strings\"");
    w.line("#elif defined(__GNUC__)");
    w.line("#pragma GCC diagnostic ignored \"-Wsign-conversion\"");
    w.line("#endif");
    w.line("");
  }

  void interfaceIncludes(SourceWriter &w) {
    w.line("#include \"" + options_.stem + ".h\"");
    for (const std::string &header : userIncludes_)
      w.line("#include \"" + header + "\"");
  }

  void runtime(SourceWriter &w) {
    if (options_.runtime == CompileOptions::Include) {
      for (const std::string &i : includes_)
        w.line("#include \"" + i + "\"");
      interfaceIncludes(w);
      w.line("");
      return;
    }
    Amalgamation a = amalgamate(includes_);
    w.raw(a.systemIncludes).line("");
    interfaceIncludes(w);
    w.line("");
    silenceWarnings(w);
    w.comment("The runtime: the templates that the steps below instantiate.");
    // Two generated files may be linked together whatever their settings: nothing leaves this one.
    w.line(beginSpace());
    w.line("");
    w.raw(a.text);
    w.line("} // namespace " + space_);
    w.line("");
  }

  void weights(SourceWriter &w, bool inlined, bool incbin) {
    if (summary_.weightBytes == 0)
      return;
    if (inlined) {
      w.comment("Weights, packed as the kernels read them.");
      if (!hosted_) {
        w.line("#ifndef TENON_WEIGHTS_SECTION");
        w.line("#define TENON_WEIGHTS_SECTION");
        w.line("#endif");
        w.line("TENON_WEIGHTS_SECTION");
      }
      w.raw(weightLiteral("weight_bytes", weights_->bytes())).line("");
    } else if (incbin) {
      const std::string symbol = info_.prefix + "_weight_bytes";
      w.comment("Weights, included by the assembler; build with -I of the folder of " +
                options_.stem + ".weights.");
      w.line("__asm__(\".section .rodata\\n.balign 64\\n" + symbol + ":\\n.incbin \\\"" +
             options_.stem + ".weights\\\"\\n.previous\\n\");");
      w.line("extern \"C\" const unsigned char " + symbol + "[];");
      w.line("");
    }
  }

  void texts(SourceWriter &w) {
    std::map<std::string, const Value *> texts; // of entries once
    for (const auto &g : graphs_)
      for (const Value *v : g->plan().texts)
        texts.insert({g->placeNames().of(v), v});
    if (texts.empty())
      return;
    w.comment("Constants of text.");
    w.line("namespace at {");
    for (const auto &[name, v] : texts)
      writeTextArray(w, llvm::StringRef(name).drop_front(strlen("at::")),
                     storedElements(*v->def()).stringValues());
    w.line("} // namespace at");
    w.line("");
  }

  /// Writes which ports are never empty; gives the table's member.
  static std::string neededPorts(SourceWriter &w, const std::string &name,
                                 llvm::ArrayRef<Port> ports) {
    if (ports.empty())
      return "{nullptr, 0}";
    std::string list;
    for (const Port &p : ports) {
      const bool never = llvm::all_of(p.type.shape(), [](Dim d) { return d.lower() > 0; });
      list += (list.empty() ? "" : ", ") + std::string(never ? "true" : "false");
    }
    w.line("constexpr bool needed_" + name + "[] = {" + list + "};");
    return "{needed_" + name + ", " + std::to_string(ports.size()) + "}";
  }

  /// The function that runs the program: the graph of the fewest tokens that takes those of the
  /// run.
  void runs(SourceWriter &w) {
    const std::string hooks = options_.hooks ? info_.prefix : "";
    const bool alone = graphs_.size() == 1;
    for (const auto &g : graphs_)
      g->writeRun(w,
                  alone                ? "run_all"
                  : g->entry().empty() ? "run_most"
                                       : "run_" + g->entry(),
                  hooks);
    if (alone)
      return;
    const std::string tokens =
        "f.dims[" + std::to_string(dims_.indexOf(tokensOf(graph_).symbol())) + "]";
    w.open("static int run_all(const frame &f)");
    for (const auto &g : llvm::makeArrayRef(graphs_).drop_front())
      w.line("if (" + tokens + " <= " + std::to_string(tokensOf(g->graph()).upper()) +
             ") return run_" + g->entry() + "(f);");
    w.line("return run_most(f);");
    w.close();
    w.line("");
  }

  void table(SourceWriter &w, bool resident) {
    runs(w);
    const std::vector<Growth> growths = growthsOf(graph_);
    if (!growths.empty())
      w.raw(advanceFunction(growths, dims_));
    std::string ranges;
    for (Dim d : dims_.symbols()) {
      const bool grows = llvm::any_of(growths, [&](const Growth &g) { return g.length == d; });
      ranges += (ranges.empty() ? "" : ", ") +
                ("{" + std::to_string(d.lower()) + ", " + std::to_string(d.upper()) + ", rt::");
      ranges += grows ? "grows}" : isBorn(graph_, d) ? "born}" : "settable}";
    }
    const size_t count = dims_.symbols().size();
    if (count)
      w.line("constexpr rt::dim_range dim_ranges[] = {" + ranges + "};");
    const std::vector<std::string> sums = sumMembers(module_, dims_);
    if (!sums.empty())
      w.line("constexpr rt::dim_sum dim_sums[] = {{" + llvm::join(sums, "}, {") + "}};");
    const std::string pointer = summary_.weightBytes == 0 || !resident ? "nullptr"
                                : options_.weights == CompileOptions::Incbin
                                    ? info_.prefix + "_weight_bytes"
                                    : "weight_bytes";
    // Firmware is without the check: its callers are few, its bytes dear.
    const bool checked = hosted_;
    const std::string inputs = checked ? neededPorts(w, "inputs", info_.inputs) : "";
    const std::string outputs = checked ? neededPorts(w, "outputs", info_.outputs) : "";
    w.begin("static const rt::program the_program = {run_all, " +
            std::to_string(summary_.arenaBytes) + ", " + std::to_string(plan_.stateBytes) + ", " +
            std::to_string(summary_.weightBytes) + ", ");
    beforeHash_ = w.take();
    w.raw("ull, " + pointer + ", " + (count ? "dim_ranges, " : "nullptr, ") +
          std::to_string(count) + (growths.empty() ? ", nullptr" : ", advance") +
          (inputs.empty()
               ? ""
               : ", " + inputs + ", " + outputs + ", " + std::to_string(summary_.textBytes) + ", " +
                     std::to_string(options_.threads) +
                     (info_.decoder  ? ", " + std::to_string(decoderBytes(*info_.decoder))
                      : sums.empty() ? ""
                                     : ", 0")) +
          (sums.empty() ? "" : ", dim_sums, " + std::to_string(sums.size())) + "};\n");
    w.line("");
    if (info_.decoder)
      writeDecoderForm(w, info_, dims_);
    w.open("static long output_extent([[maybe_unused]] const index_t *dims, int output, int axis)");
    w.open("switch (output * 16 + axis)");
    w.lines(outputDimCases(info_, dims_));
    w.line("default: return -1;");
    w.close();
    w.close();
    w.line("");
  }

  Module &module_;
  const std::shared_ptr<const WeightImage> weights_;
  std::string beforeHash_; // the file up to the weights' hash
  const Target &target_;
  const bool hosted_ = target_.family->facts.hosted;
  const CompileOptions &options_;
  const bool threaded_ = hosted_ && options_.threads > 1;
  CompileSummary &summary_;
  Diagnostics &diagnostics_;
  DimSpelling dims_;
  PlaceTable table_;
  const std::vector<std::unique_ptr<GraphText>> graphs_;
  /// The first one.
  Graph &graph_ = first().graph();
  const Plan &plan_ = first().plan();
  const TargetLevel &level_ = first().level();
  const std::vector<Pool> pools_ = poolsOf(module_);
  const std::vector<int64_t> poolUse_ =
      pools_.empty() ? std::vector<int64_t>() : poolUse(plan_, pools_);
  InterfaceInfo info_;
  /// Everything but the interface is in this namespace, runtime included.
  std::string space_ = info_.prefix + "_code";
  /// Of steps that are alike otherwise: which constants of their bodies differ. Looked up only.
  std::map<const Step *, std::vector<bool>> differing_;
  std::vector<std::string> stepTexts_;
  std::map<std::string, std::string> sections_; // by name
  std::set<std::string> includes_, userIncludes_;
  DeclaredTypes declared_;
};

} // namespace

bool emitCpp(Module &module, const Target &target, const CompileOptions &options,
             std::vector<CompiledFile> &files, CompileSummary &summary, Diagnostics &diagnostics) {
  std::shared_ptr<WeightImage> weights;
  std::vector<std::unique_ptr<ScheduledGraph>> scheduled;
  if (module.graphs.size() == 1) { // its plan says where constants stand
    if (auto only = openScheduled(module.graph(), *target.levels.front(), diagnostics)) {
      weights = std::make_shared<WeightImage>(only->plan);
      scheduled.push_back(std::move(only));
    }
  } else {
    weights = std::make_shared<WeightImage>();
    scheduled = openAllScheduled(module, target.levels, *weights, diagnostics);
  }
  return !scheduled.empty() &&
         CppProgram(module, std::move(scheduled), weights, target, options, summary, diagnostics)
             .write(files);
}

} // namespace tenon
