// Implements the writing of CUDA files: sections in the order a compiler needs them (head, system
// headers, runtime, weights, steps, tables of variants, C interface).
//
// Every graph of the module is one variant, written for one architecture: of the first graph, or of
// an entry. A step is a function template over the architecture, so that variants that agree on a
// step share its text; constants that agree byte for byte share their place in the weights.
#include "codegen/cuda/program/Program.h"

#include "codegen/cuda/Family.h"
#include "codegen/cuda/program/EntryPoints.h"
#include "codegen/cuda/program/HostContinuation.h"
#include "codegen/cuda/program/SharedKernels.h"
#include "codegen/cuda/program/Variant.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/emit/Amalgamate.h"
#include "codegen/emit/CppHeader.h"
#include "codegen/emit/DecoderText.h"
#include "codegen/emit/Header.h"
#include "codegen/emit/StepWriter.h"
#include "codegen/memory/PlanVerifier.h"
#include "codegen/memory/WeightImage.h"
#include "ir/BornExtents.h"
#include "ir/Entries.h"

#include <algorithm>

namespace tenon {
namespace {

class CudaProgram {
public:
  CudaProgram(Module &module, const Target &target, const CompileOptions &options,
              CompileSummary &summary, Diagnostics &diagnostics)
      : module_(module), target_(target), options_(options), summary_(summary),
        diagnostics_(diagnostics), dims_(module),
        info_(describeInterface(module.graph(), options)) {}

  bool write(std::vector<CompiledFile> &files) {
    for (auto &graph : module_.graphs)
      if (!cuda::kFamily.supports(*graph, diagnostics_) || !checkBranches(*graph, diagnostics_))
        return false;
    if (!openVariants())
      return false;
    includes_ = {"cuda/host/host_run.h", "cuda/host/watch.h", "common/scalar.h"};
    if (info_.hasComplex)
      includes_.insert("common/complex.h");
    if (info_.decoder)
      includes_.insert("cuda/host/decoder.h");
    for (auto &v : variants_)
      steps(*v);
    summarize();

    SourceWriter w;
    std::string command = "nvcc";
    for (const std::string &option : nvccOptions(target_))
      command += " " + option;
    if (incbin())
      command += " -I.";
    const bool embedded = options_.runtime == CompileOptions::Embed;
    w.raw(fileHead(module_, target_, options_, command));
    w.raw(contents());
    w.line("");
    if (embedded)
      w.raw(beginOfGuard("(defined(__CUDACC__) || defined(TENON_EMULATED_ARCH)) && __cplusplus >= "
                         "201703L",
                         target_, options_, command));
    runtime(w);
    // A namespace of this model's, so that one translation unit may include many.
    w.line("namespace {");
    w.open("namespace " + space_);
    w.line("");
    w.line("using namespace tenon;");
    w.line("using tenon::cuda::frame;");
    w.line("using tenon::cuda::issue;");
    w.line("using tenon::cuda::status;");
    w.line("");
    weights(w);
    placeTable_.write(w);
    for (const std::string &s : stepTexts_)
      w.raw(s).line("");
    tables(w);
    w.close("} // namespace " + space_);
    w.line("} // namespace");
    w.line("");
    writeCudaEntryPoints(w, info_, dims_, space_ + "::");
    if (embedded)
      w.raw(endOfGuard());
    files.push_back(textAroundHash(".cu", std::move(beforeHash_), w.take(), weights_));
    files.push_back({".h", writeHeader(module_, info_, target_, dims_, options_, summary_)});
    files.push_back({".hpp", writeCppHeader(module_, info_, options_, dims_, /*queue=*/true)});
    if (!inlined() && !weights_->empty())
      files.push_back({".weights", "", [image = weights_](auto &os) { image->writeFile(os); }});
    return true;
  }

private:
  bool openVariants() {
    auto opened = openAllScheduled(module_, target_.levels, *weights_, diagnostics_);
    const bool lifetimes = opened.size() == 1;
    for (auto &scheduled : opened) {
      if (!verifyPlan(scheduled->plan, diagnostics_))
        return false;
      variants_.push_back(
          std::make_unique<Variant>(std::move(scheduled), dims_, placeTable_, lifetimes));
    }
    return !variants_.empty();
  }

  /// The variant of the first graph for the architecture of variant `i`.
  Variant &firstOf(size_t i) const { return *variants_[i % target_.levels.size()]; }

  //===--------------------------------------------------------------------===//
  // Steps
  //===--------------------------------------------------------------------===//

  /// Writes everything once to see which kernels differ in numbers alone.
  SharedKernels sharedKernels(const Variant &v) const {
    SharedKernels shared(options_.kernels);
    for (const Step &step : v.plan.steps) {
      const Choice *choice = v.scheduled->choice(step);
      if (!choice)
        continue;
      KernelShape shape;
      StepWriter writer(v.plan, step, dims_, v.level, "step");
      writer.useShape(shape);
      choice->emit(writer);
      shared.add(step.number, choice->tactic.info.id, shape);
    }
    return shared;
  }

  void steps(Variant &v) {
    const std::vector<std::string> &names = v.names;
    const SharedKernels shared = sharedKernels(v);
    v.capturable = isCapturable(v);
    for (const Step &step : v.plan.steps) {
      const Choice *choice = v.scheduled->choice(step);
      if (!choice) { // control flow
        includes_.insert("cuda/host/host_part.h");
        v.rows.push_back({names[step.number], "", false, 0});
        continue;
      }
      StepSummary summary;
      summary.level = v.name();
      summary.step = step.number;
      summary.estimatedMicroseconds = choice->price().microseconds;
      if (&v == variants_.front().get())
        summary_.estimatedMicroseconds += summary.estimatedMicroseconds;
      const std::string &label = names[step.number];
      Section written = section(v, step, label, [&](StepWriter &writer) {
        KernelShape shape = shared.shapeOf(step.number);
        writer.useShape(shape);
        choice->emit(writer);
      });
      v.rows.push_back(
          {label, written.function, touchesIo(v.plan, *step.op), v.order.branch(step.number)});
      summary.types = std::move(written.types);
      summary_.steps.push_back(std::move(summary));
    }
    const auto [sharing, kernels] = shared.shared();
    summary_.sharingSteps += sharing;
    summary_.sharedKernels += kernels;
    carryStates(v);
  }

  /// Values carried from run to run are copied at the end.
  void carryStates(Variant &v) {
    for (size_t k = 0; k < v.graph.states.size(); ++k) {
      const State &s = v.graph.states[k];
      Value *to = v.graph.body().argument(s.input), *from = v.graph.returnOp()->operand(s.output);
      if (v.plan[to].buffer == v.plan[from].buffer)
        continue; // written in place
      const std::string label = "carry" + std::to_string(k);
      Step step;
      const Section written = section(v, step, label, [&](StepWriter &out) {
        // Elements that share bytes are copied by the byte, to the bound.
        const Type t = from->type();
        Context &c = t.context();
        const bool packed = bitWidth(t.element()) < 8;
        const llvm::StringRef element = packed ? "uint8_t" : cppElement(t.element());
        cuda::emitCopy(out, packed ? c.dim(byteSize(t.element(), t.upperElements())) : t.elements(),
                       v.places.pointer(to, element, false, c.dim(0)),
                       v.places.pointer(from, element, true, c.dim(0)));
      });
      v.rows.push_back({label, written.function, touchesIo(v.plan, {from, to}), 0});
    }
  }

  /// Where a step's text stands.
  struct Section {
    std::string function;
    std::vector<std::string> types;
  };

  /// Writes a step's section unless another variant has the same.
  Section section(Variant &v, const Step &step, const std::string &label,
                  llvm::function_ref<void(StepWriter &)> emit) {
    for (const std::string &name : {label, label + "_" + v.name()}) {
      StepWriter writer(v.plan, step, dims_, v.level, name, &v.placeNames, &types_);
      emit(writer);
      SourceWriter w;
      if (step.op)
        w.raw(stepHeading(step));
      else
        w.comment("A value carried to the next run.");
      w.raw(writer.declarations().take());
      const bool live = v.capturable && isLive(v, step, writer.code().text());
      w.open("template <class V> status " + name + "(const frame &f, issue &" +
             (live ? "given)" : "to)"));
      if (live)
        w.line("cuda::live_issue to(given);");
      w.lines(writer.code().text());
      w.close();
      includes_.insert(writer.includes().begin(), writer.includes().end());
      auto [it, fresh] = sections_.emplace(name, w.text());
      if (!fresh && it->second != w.text())
        continue;
      if (fresh) {
        stepTexts_.push_back(w.take());
        types_.insert(writer.declared().begin(), writer.declared().end());
      }
      return {name, writer.types()};
    }
    return {label, {}}; // not reached: the second name is this variant's own
  }

  /// The length of the caches of a decoder, in steps' text; empty where there is none.
  std::string lengthText() const { return info_.decoder ? dims_.value(info_.decoder->length) : ""; }

  /// Whether a run of few tokens may be captured by the caller.
  bool isCapturable(const Variant &v) const {
    return info_.decoder && tokensOf(v.graph).upper() <= kStepTokens &&
           growthsOf(module_.graph()).size() == 1 &&
           !HostContinuation(v.plan, v.places, dims_).exists();
  }
  /// Whether the arguments of a step follow from the length, or it writes what is carried.
  bool isLive(const Variant &v, const Step &step, llvm::StringRef code) const {
    const auto carried = [&](Value *r) {
      auto it = v.plan.placements.find(r);
      return it != v.plan.placements.end() && it->second.home == Home::State;
    };
    return code.contains(lengthText()) || !step.op || llvm::any_of(step.op->results(), carried);
  }

  static bool touchesIo(const Plan &plan, llvm::ArrayRef<Value *> values) {
    return llvm::any_of(values, [&](Value *v) {
      auto it = plan.placements.find(v);
      return it != plan.placements.end() &&
             (it->second.home == Home::Input || it->second.home == Home::Output);
    });
  }
  static bool touchesIo(const Plan &plan, const Operation &op) {
    return touchesIo(plan, op.operands()) || touchesIo(plan, op.results());
  }

  //===--------------------------------------------------------------------===//
  // Weights
  //===--------------------------------------------------------------------===//

  bool inlined() const {
    return options_.weights == CompileOptions::Inline ||
           (options_.weights == CompileOptions::Auto && weights_->size() <= 1 << 20);
  }
  bool incbin() const { return options_.weights == CompileOptions::Incbin && !weights_->empty(); }
  std::string incbinSymbol() const { return info_.prefix + "_weight_bytes"; }

  void weights(SourceWriter &w) {
    if (weights_->empty())
      return;
    if (inlined()) {
      w.comment("Weights, packed as the kernels read them.");
      w.raw(weightLiteral("weight_bytes", weights_->bytes())).line("");
    } else if (incbin()) {
      w.comment("Weights, included by the assembler without the file's head; build with -I of the "
                "folder of " +
                options_.stem + ".weights.");
      w.line("#if !defined(__CUDA_ARCH__)");
      w.line("__asm__(\".section .rodata\\n.balign 64\\n" + incbinSymbol() + ":\\n.incbin \\\"" +
             options_.stem + ".weights\\\", " + std::to_string(WeightImage::kHeaderBytes) +
             "\\n.previous\\n\");");
      w.line("#endif");
      w.line("extern \"C\" const unsigned char " + incbinSymbol() + "[];");
      w.line("");
    }
  }

  //===--------------------------------------------------------------------===//
  // Other sections
  //===--------------------------------------------------------------------===//

  /// Steps as the first architecture has them; others may have kernels of their own.
  std::string contents() const {
    const Variant &v = *variants_.front();
    FileContents c;
    c.interfaceFile = options_.stem + ".h";
    c.runtimeEmbedded = options_.runtime == CompileOptions::Embed;
    c.weights = std::to_string(summary_.weightBytes) + " bytes, " +
                (inlined() ? std::string("in this file") : "in " + options_.stem + ".weights");
    c.memory = memoryText(summary_);
    for (const Step &s : v.plan.steps)
      c.steps.push_back(contentsLine(s, v.rows[size_t(s.number)].label));
    return contentsComment(c);
  }

  void summarize() {
    summary_.kernels = int(stepTexts_.size());
    summary_.weightBytes = int64_t(weights_->size());
    summary_.weights = weights_->pieces();
    summary_.weightsMode = inlined() ? "inline" : incbin() ? "incbin" : "file";
    if (!inlined() && !incbin() && !weights_->empty())
      info_.weightsFile = options_.stem + ".weights";
    for (auto &v : variants_) {
      summary_.arenaBytes = std::max(summary_.arenaBytes, v->plan.arenaBytes);
      summary_.boundBytes = std::max(summary_.boundBytes, v->plan.boundBytes);
      summary_.scratchBytes = std::max(summary_.scratchBytes, v->plan.scratchBytes);
    }
  }

  void runtime(SourceWriter &w) {
    if (options_.runtime == CompileOptions::Include) {
      for (const std::string &i : includes_)
        w.line("#include \"" + i + "\"");
      w.line("#include \"" + options_.stem + ".h\"");
      w.line("");
      return;
    }
    Amalgamation a = amalgamate(includes_);
    w.raw(a.systemIncludes).line("");
    w.line("#include \"" + options_.stem + ".h\"");
    w.line("");
    w.line("#if defined(__CUDACC__)");
    w.line("#pragma nv_diag_suppress 177 // templates have members that not every kernel uses");
    w.line("#endif");
    w.line("");
    w.comment(
        "The runtime: launching, the context, and the kernels that the steps below instantiate.");
    // Two generated files may be linked together whatever their settings: nothing leaves this one.
    w.line("namespace {");
    w.line("");
    w.raw(a.text);
    w.line("} // namespace");
    w.line("");
  }

  /// An array of rows and the two initialisers, pointer and count, that name it.
  static std::string array(SourceWriter &w, const std::string &type, const std::string &name,
                           llvm::ArrayRef<std::string> rows) {
    if (rows.empty())
      return "nullptr, 0";
    w.line("constexpr " + type + " " + name + "[] = {");
    for (const std::string &r : rows)
      w.line("    {" + r + "},");
    w.line("};");
    return name + ", " + std::to_string(rows.size());
  }

  /// The rest of a program's row where steps run side by side or by what data says, and where it
  /// draws tokens and has entries.
  std::string branches(SourceWriter &w, const Variant &v, const std::string &entries) const {
    std::vector<std::string> rows;
    for (const StepOrder::Edge &e : v.edges())
      rows.push_back(std::to_string(e.from) + ", " + std::to_string(e.to));
    const HostContinuation part(v.plan, v.places, dims_);
    const bool draws = info_.decoder && v.isFirst();
    if (rows.empty() && !part.exists() && !draws && entries.empty() && !v.capturable)
      return "";
    std::string row = ", " + std::to_string(v.order.branches()) + ", " +
                      array(w, "cuda::step_edge", "edges_" + v.name(), rows);
    if (part.exists()) {
      w.comment("What the host issues behind the graph: sizes or conditions depend on data.");
      w.open("status finish_" + v.name() + "(cuda::host_part &h)");
      w.line("[[maybe_unused]] const frame &f = h.where();");
      part.write(w, int(v.rows.size() - v.plan.steps.size()));
      w.close();
    }
    if (!part.exists() && !draws && entries.empty() && !v.capturable)
      return row;
    row += part.exists() ? ", finish_" + v.name() + ", " + std::to_string(part.captured())
                         : ", nullptr, 0";
    if (!draws && entries.empty() && !v.capturable)
      return row;
    row += (draws ? ", draw<" + v.level.name.str() + ">" : ", nullptr") + entries;
    return !v.capturable ? row
                         : row + (entries.empty() ? ", nullptr, 0" : "") + ", begin<" +
                               v.level.name.str() + ">";
  }

  /// The row of a variant in its table; `entries`: what ends it.
  std::string program(SourceWriter &w, const Variant &v, const std::string &entries) const {
    const std::string level = v.level.name.str();
    std::vector<std::string> rows;
    for (const Variant::Row &r : v.rows)
      rows.push_back("\"" + r.label + "\", " +
                     (r.function.empty() ? "cuda::no_launch" : r.function + "<" + level + ">") +
                     ", " + (r.touchesIo ? "true" : "false") +
                     (r.branch ? ", " + std::to_string(r.branch) : ""));
    const std::string steps = array(w, "cuda::step", "steps_" + v.name(), rows);
    // Entries run in the memory of the first graph.
    int64_t arena = v.plan.arenaBytes, zeroed = v.plan.zeroedBytes;
    for (size_t i = 0; i < variants_.size(); ++i)
      if (v.isFirst() && &firstOf(i) == &v) {
        arena = std::max(arena, variants_[i]->plan.arenaBytes);
        zeroed = std::max(zeroed, variants_[i]->plan.zeroedBytes);
      }
    return std::to_string(v.level.sm * 10) + ", " + (v.level.archSpecific ? "true" : "false") +
           (&v.level == target_.ptxLevel() ? ", true" : ", false") + ", cuda::check_build<" +
           level + ">, " + steps + ", " + std::to_string(arena) + ", " + std::to_string(zeroed) +
           ", " + std::to_string(v.plan.stateBytes) + branches(w, v, entries);
  }

  /// The table of the entries of a first graph's variant, that of the fewest tokens first.
  std::string entriesOf(SourceWriter &w, const Variant &first) const {
    std::vector<std::string> rows;
    for (size_t i = target_.levels.size(); i < variants_.size(); ++i) {
      const Variant &v = *variants_[i];
      if (&firstOf(i) != &first)
        continue;
      const Dim tokens = tokensOf(v.graph);
      rows.push_back(std::to_string(dims_.indexOf(tokensOf(first.graph).symbol())) + ", " +
                     std::to_string(tokens.lower()) + ", " + std::to_string(tokens.upper()) +
                     ", {" + program(w, v, "") + "}");
    }
    if (rows.empty())
      return "";
    return ", " + array(w, "cuda::entry_table", "entries_" + first.name(), rows);
  }

  void tables(SourceWriter &w) {
    if (info_.decoder) {
      w.comment("Draws a token.");
      w.open("template <class V> status draw(const cuda::draw_call &call, issue &to)");
      w.line("return to.launch<V>(cuda::draw_token<" + cppElement(info_.decoder->token).str() +
             ", " + cppElement(info_.decoder->logit).str() + ">(call));");
      w.close().line();
      w.comment("Begins a run that the caller has captured.");
      w.open("template <class V> status begin(const cuda::begin_call &call, issue &to)");
      w.line("return to.launch<V>(cuda::begin_run{call});");
      w.close().line();
    }
    w.comment("The programs, one per architecture, and what they share.");
    std::vector<std::string> programs, inputs, outputs, ranges;
    for (size_t i = 0; i < target_.levels.size(); ++i) {
      const Variant &v = *variants_[i];
      const std::string arch = std::to_string(v.level.sm * 10);
      w.line("using " + v.name() + " = cuda::variant<" + arch + ", " + arch +
             (v.level.archSpecific ? ", true>;" : ">;"));
      programs.push_back(program(w, v, entriesOf(w, v)));
    }
    const std::string variants = array(w, "cuda::variant_table", "variants", programs);
    const bool entries = llvm::any_of(module_.graphs, [](const auto &g) { return isEntry(*g); });
    auto size = [&](const Port &p) {
      return std::to_string(byteSize(p.type.element(), p.type.upperElements())) +
             (p.type.hasStaticShape() && !entries ? ", true" : "");
    };
    for (const Port &p : info_.inputs)
      inputs.push_back(size(p));
    for (const Port &p : info_.outputs)
      outputs.push_back(size(p));
    const std::vector<Growth> growths = growthsOf(module_.graph());
    for (Dim d : dims_.symbols()) {
      const bool grows = llvm::any_of(growths, [&](const Growth &g) { return g.length == d; });
      ranges.push_back(std::to_string(d.lower()) + ", " + std::to_string(d.upper()) +
                       (grows                        ? ", cuda::grows"
                        : isBorn(module_.graph(), d) ? ", cuda::born"
                                                     : ""));
    }
    if (!growths.empty())
      w.raw(advanceFunction(growths, dims_));
    const std::string in = array(w, "cuda::tensor_size", "input_sizes", inputs);
    const std::string out = array(w, "cuda::tensor_size", "output_sizes", outputs);
    const std::string dims = array(w, "cuda::dim_range", "dim_ranges", ranges);
    const std::vector<std::string> sums = sumMembers(module_, dims_);
    const std::string sumTable = array(w, "cuda::dim_sum", "dim_sums", sums);
    const std::string pointer = weights_->empty() ? "nullptr"
                                : inlined()       ? "weight_bytes"
                                : incbin()        ? incbinSymbol()
                                                  : "nullptr";
    w.line("const cuda::program the_program = {");
    w.begin("    " + variants + ", " + pointer + ", " + std::to_string(weights_->size()) + ", ");
    beforeHash_ = w.take();
    w.raw("ull,\n");
    w.line("    " + in + ", " + out + ", " + dims + (growths.empty() ? "" : ", advance") +
           (info_.decoder  ? decoderMembers(*info_.decoder)
            : sums.empty() ? ""
                           : std::string(growths.empty() ? ", nullptr" : "") + ", 0, -1, -1, 0") +
           (sums.empty() ? "" : ", " + sumTable) + "};");
    w.line("");
    if (info_.decoder)
      writeDecoderForm(w, info_, dims_);
    w.open("long output_extent([[maybe_unused]] const index_t *dims, int output, int axis)");
    w.open("switch (output * 16 + axis)");
    w.lines(outputDimCases(info_, dims_));
    w.line("default: return -1;");
    w.close();
    w.close();
    w.line("");
  }

  /// What ends a program's table.
  std::string decoderMembers(const DecoderInfo &d) const {
    const auto index = [&](Dim symbol) { return std::to_string(dims_.indexOf(symbol.symbol())); };
    return ", " + std::to_string(decoderBytes(d)) + ", " + index(d.length) + ", " +
           (d.count.isSymbol() ? index(d.count) : "-1") + ", " + std::to_string(d.capacity);
  }

  Module &module_;
  const Target &target_;
  const CompileOptions &options_;
  CompileSummary &summary_;
  Diagnostics &diagnostics_;
  DimSpelling dims_;
  InterfaceInfo info_;
  std::string space_ = info_.prefix + "_code";
  std::shared_ptr<WeightImage> weights_ = std::make_shared<WeightImage>();
  std::string beforeHash_; // the file up to the weights' hash
  PlaceTable placeTable_;
  std::vector<std::unique_ptr<Variant>> variants_;
  std::vector<std::string> stepTexts_;
  std::map<std::string, std::string> sections_; // by name
  DeclaredTypes types_;                         // of the sections so far
  std::set<std::string> includes_;
};

} // namespace

bool emitCuda(Module &module, const Target &target, const CompileOptions &options,
              std::vector<CompiledFile> &files, CompileSummary &summary, Diagnostics &diagnostics) {
  return CudaProgram(module, target, options, summary, diagnostics).write(files);
}

} // namespace tenon
