// Implements the text of tuner programs.
#include "codegen/emit/TunerWriter.h"

#include "codegen/core/TargetFamily.h"
#include "codegen/emit/Amalgamate.h"
#include "codegen/emit/CppText.h"
#include "codegen/emit/Interface.h"
#include "codegen/emit/SourceWriter.h"

namespace tenon {
namespace {

std::string fileOf(const TunerRound &round, llvm::StringRef suffix) {
  for (const CompiledFile &f : round.files)
    if (f.suffix == suffix)
      return f.text();
  return "";
}

const char *filling(Element e) {
  switch (e) {
  case Element::F16: return "f16";
  case Element::BF16: return "bf16";
  case Element::F32: return "f32";
  case Element::F64: return "f64";
  case Element::Bool:
  case Element::I8:
  case Element::U8: return "i8";
  case Element::I16:
  case Element::U16: return "i16";
  case Element::I32:
  case Element::U32: return "i32";
  case Element::I64:
  case Element::U64: return "i64";
  default: return "zero";
  }
}

class Glue {
public:
  Glue(const TunerProgram &program, Module &module, const SymbolValues &symbols)
      : program_(program), module_(module), symbols_(symbols), dims_(module),
        cuda_(program.target->family->facts.device) {}

  void write(SourceWriter &w) {
    declarations(w);
    tables(w);
    main(w);
  }

private:
  /// What headers leave out: functions that exist for those who watch.
  void declarations(SourceWriter &w) {
    w.open("extern \"C\"");
    for (const TunerRound &r : program_.rounds) {
      const std::string context = r.name + "_context";
      if (cuda_) {
        w.line("int " + r.name + "_start_profile(" + context + " *context);");
        w.line("int " + r.name + "_read_profile(" + context +
               " *context, unsigned long long *times);");
      } else {
        w.line("void " + r.name + "_set_trace(" + context +
               " *context, void (*hook)(void *, int, int, unsigned char *, unsigned char *), "
               "void *user);");
      }
    }
    w.close("} // extern \"C\"");
    w.line("");
  }

  void tables(SourceWriter &w) {
    w.line("namespace tables {");
    w.line("");
    w.comment("Forms of steps: key, level, nodes, candidates.");
    w.line("const std::vector<tuner::form> forms = {");
    for (const TunerForm &f : program_.forms)
      w.line("    {\"" + f.key + "\", \"" + f.level + "\", \"" + stringSafe(f.nodes) + "\", " +
             std::to_string(f.first) + ", " + std::to_string(f.count) + "},");
    w.line("};");
    w.comment("Candidates: schedule, microseconds by the cost model.");
    w.line("const std::vector<tuner::candidate> candidates = {");
    for (const TunerProgram::Entry &e : program_.candidates)
      w.line("    {\"" + toString(e.schedule) + "\", " + std::to_string(e.estimate) + "},");
    w.line("};");
    w.comment("Rounds: the candidate of each step.");
    for (const TunerRound &r : program_.rounds) {
      std::string list;
      for (int c : r.candidates)
        list += std::to_string(c) + ", ";
      w.line("const int " + r.name + "[] = {" + list + "-1};");
    }
    w.line("");
    w.line("} // namespace tables");
    w.line("");
  }

  void main(SourceWriter &w) {
    Graph &graph = module_.graph();
    CompileOptions options;
    const InterfaceInfo info = describeInterface(graph, options);
    auto tensors = [&](const std::vector<Port> &ports) {
      std::string s;
      for (const Port &p : ports)
        s += (s.empty() ? "{" : ", {") +
             std::to_string(byteSize(p.type.element(), p.type.upperElements())) +
             ", tuner::filling::" + filling(p.type.element()) + "}";
      return s;
    };
    std::string dims;
    for (size_t i = 0; i < dims_.symbols().size(); ++i)
      if (auto it = symbols_.find(dims_.symbols()[i].symbol().str()); it != symbols_.end())
        dims += (dims.empty() ? "{" : ", {") + std::to_string(i) + ", " +
                std::to_string(it->second) + "}";
    w.open("int main(int argc, char **argv)");
    w.line("tuner::plan plan;");
    w.line("plan.version = \"" TENON_VERSION "\";");
    w.line("plan.target = \"" + program_.target->name + "\";");
    w.line("plan.file = \"" + stringSafe(program_.file) + "\";");
    w.line("plan.forms = tables::forms;");
    w.line("plan.candidates = tables::candidates;");
    w.line("plan.inputs = {" + tensors(info.inputs) + "};");
    w.line("plan.outputs = {" + tensors(info.outputs) + "};");
    w.line("plan.dims = {" + dims + "};");
    w.line(std::string("plan.assembled = ") + (program_.assembled ? "true;" : "false;"));
    for (const TunerRound &r : program_.rounds)
      round(w, r);
    w.line("return tuner::run(argc, argv, plan);");
    w.close();
  }

  void round(SourceWriter &w, const TunerRound &r) {
    const std::string &p = r.name;
    const bool settable = !dims_.symbols().empty();
    const std::string setDim = settable ? p + "_set_dim" : "nullptr";
    const std::string functions = cuda_ ? "{" + p + "_model_open, " + p + "_context_create, " + p +
                                              "_enqueue, " + p + "_start_profile, " + p +
                                              "_read_profile, " + setDim + ", " +
                                              (settable ? p + "_prepare" : "nullptr") + "}"
                                        : "{" + p + "_model_open, " + p + "_context_create, " + p +
                                              "_run, " + p + "_set_trace, " + setDim + "}";
    w.line("tuner::build<" + p + "_model, " + p + "_context, " + p + "_options> " + p + "(\"" + p +
           "\", tables::" + p + ", " + std::to_string(r.candidates.size()) + ", " +
           (r.weightsInFile ? "true" : "false") + ", " + functions + ");");
    w.line("plan.rounds.push_back(&" + p + ");");
  }

  const TunerProgram &program_;
  Module &module_;
  const SymbolValues &symbols_;
  DimSpelling dims_;
  bool cuda_;
};

/// A generated file that includes the runtime, taken apart.
struct Parts {
  std::vector<std::string> defines;
  std::set<std::string> runtime;
  std::string body;
};

Parts takeApart(llvm::StringRef text, llvm::StringRef header) {
  Parts parts;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    if (line.startswith("#define "))
      parts.defines.push_back(line.str());
    if (!line.consume_front("#include \""))
      continue;
    const llvm::StringRef path = line.split('"').first;
    if (path == header)
      break;
    parts.runtime.insert(path.str());
  }
  parts.body = text.str();
  return parts;
}

} // namespace

std::string tunerMain(const TunerProgram &program, Module &module, const SymbolValues &symbols) {
  SourceWriter w;
  for (const TunerRound &r : program.rounds)
    w.line("#include \"" + r.name + ".h\"");
  w.line("#include \"harness/tuner.inc\"");
  w.line("");
  Glue(program, module, symbols).write(w);
  return w.take();
}

std::string tunerFile(const TunerProgram &program, Module &module, const SymbolValues &symbols,
                      llvm::StringRef buildCommand) {
  const bool cuda = program.target->family->facts.device;
  std::vector<Parts> rounds;
  std::set<std::string> runtime{"harness/tuner.inc"};
  for (const TunerRound &r : program.rounds) {
    rounds.push_back(takeApart(fileOf(r, program.target->family->suffix), r.name + ".h"));
    runtime.insert(rounds.back().runtime.begin(), rounds.back().runtime.end());
  }
  const Amalgamation a = amalgamate(runtime);
  SourceWriter w;
  w.line("// " + buildCommand.str());
  w.line("//");
  w.line("// SPDX-License-Identifier: Apache-2.0");
  w.line("// Generated by tenon " TENON_VERSION " for " + program.target->name + " from '" +
         commentSafe(module.name) + "': times");
  w.line(
      "// candidate schedules on this machine. Run it with the path of the tuning file to write;");
  w.line("// `tenon compile --tuning=FILE` uses that.");
  w.line("");
  w.line(cuda ? "#define TENON_PROFILE" : "#define TENON_TRACE");
  for (const std::string &define : rounds.front().defines)
    w.line(define);
  w.line("");
  w.raw(a.systemIncludes).line("");
  if (cuda) {
    w.line("#if defined(__CUDACC__)");
    w.line("#pragma nv_diag_suppress 177 // templates have members that not every kernel uses");
    w.line("#endif");
  }
  // A program of its own: nothing has to be hidden.
  w.raw(a.text).line("");
  for (size_t i = 0; i < rounds.size(); ++i) {
    const TunerRound &r = program.rounds[i];
    w.comment("Round " + std::to_string(i) + ".");
    w.raw(fileOf(r, ".h")).line("");
    // Files for CUDA call what is inside by the same names in every round.
    if (cuda)
      w.line("namespace " + r.name + "_code {").line("");
    w.raw(rounds[i].body);
    if (cuda)
      w.line("} // namespace " + r.name + "_code");
    w.line("");
  }
  Glue(program, module, symbols).write(w);
  return w.take();
}

} // namespace tenon
