// Implements what is known of the generated interface, and the parts that C++ and CUDA files share.
#include "codegen/emit/Interface.h"

#include "codegen/core/Bytes.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/core/Work.h"
#include "codegen/emit/SourceWriter.h"
#include "codegen/memory/Packing.h"
#include "ir/DecoderPorts.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <cstring>
#include <set>

namespace tenon {
std::vector<Growth> growthsOf(Graph &graph) {
  std::vector<Growth> out;
  for (const State &s : graph.states) {
    if (s.appendAxis < 0)
      continue;
    const auto axis = unsigned(s.appendAxis);
    const Growth g{graph.body().argument(s.input)->type().dim(axis),
                   graph.returnOp()->operand(s.output)->type().dim(axis)};
    if (llvm::none_of(out, [&](const Growth &known) { return known.length == g.length; }))
      out.push_back(g);
  }
  return out;
}

bool spellsText(Graph &graph) {
  bool spells = false;
  graph.body().walk([&](Operation *op) {
    spells |= op->is(Op::TextMap) && op->result()->type().element() == Element::String;
  });
  return spells;
}

std::string advanceFunction(llvm::ArrayRef<Growth> growths, const DimSpelling &dims) {
  SourceWriter w;
  w.comment("Lengths of what is carried, after a run.");
  w.open("static void advance(index_t *dims)");
  auto next = [&](const Growth &g) {
    return "next_" + std::to_string(dims.indexOf(g.length.symbol()));
  };
  for (const Growth &g : growths)
    w.line("const index_t " + next(g) + " = " + dims.value(g.next, "dims") + ";");
  for (const Growth &g : growths)
    w.line("dims[" + std::to_string(dims.indexOf(g.length.symbol())) + "] = " + next(g) + ";");
  w.close();
  w.line("");
  return w.take();
}

/// None where the module is no decoder's.
static llvm::Optional<DecoderInfo> describeDecoder(Graph &graph, const InterfaceInfo &info) {
  const auto ports = decoderPorts(graph.module());
  auto find = [](const std::vector<Port> &list, const std::string &name) {
    return size_t(llvm::find_if(list, [&](const Port &p) { return p.name == name; }) -
                  list.begin());
  };
  if (!ports)
    return llvm::None;
  DecoderInfo d;
  d.tokens = unsigned(find(info.inputs, ports->tokens));
  const size_t output = find(info.outputs, ports->logits);
  if (d.tokens == info.inputs.size() || output == info.outputs.size())
    return llvm::None;
  d.length = graph.module().context().symbol(ports->length);
  d.count = info.inputs[d.tokens].type.dim(1);
  d.capacity = ports->capacity;
  const Type logits = info.outputs[output].type;
  d.vocabulary = logits.dim(2).constant();
  d.token = info.inputs[d.tokens].type.element();
  d.logit = logits.element();
  d.lastLogits = ports->lastLogits;
  d.shortens = llvm::all_of(graph.states, [](const State &s) { return s.appendAxis >= 0; });
  return d;
}

InterfaceInfo describeInterface(Graph &graph, const CompileOptions &options) {
  InterfaceInfo info;
  info.prefix = cIdentifier(options.prefix);
  info.upper = llvm::StringRef(info.prefix).upper();
  info.states = !graph.states.empty();
  graph.body().walk([&](Operation *op) {
    info.followsData |= op->isAny(Op::NonZero, Op::TextSplit, Op::If, Op::Loop);
    for (Value *v : op->results())
      info.hasComplex |= v->type().isTensor() && isComplex(v->type().element());
  });
  for (const Growth &g : growthsOf(graph))
    info.lengths.push_back(g.length.symbol().str());
  // Stems of the header's other macros.
  std::set<std::string> used = {"INPUT", "OUTPUT",  "DIM",   "ARENA", "WEIGHT",
                                "STATE", "CONTEXT", "LAYER", "POOL"};
  if (spellsText(graph))
    used.insert("TEXT");
  auto add = [&](std::vector<Port> &ports, const std::string &name, Type type) {
    Port p;
    p.name = name;
    p.type = type;
    p.quantization = portQuantization(graph.module(), name);
    p.own = portForm(graph.module(), name);
    std::string base = llvm::StringRef(cIdentifier(name)).upper(), id = base;
    for (int n = 1; !used.insert(id).second; ++n)
      id = base + "_" + std::to_string(n);
    p.identifier = id;
    info.hasText |= type.element() == Element::String;
    info.hasComplex |= isComplex(type.element());
    ports.push_back(p);
  };
  for (unsigned i = 0; i < graph.inputNames.size(); ++i)
    if (!graph.stateOfInput(i))
      add(info.inputs, graph.inputNames[i], graph.body().argument(i)->type());
  for (unsigned i = 0; i < graph.outputNames.size(); ++i)
    if (!graph.stateOfOutput(i))
      add(info.outputs, graph.outputNames[i], graph.returnOp()->operand(i)->type());
  info.decoder = describeDecoder(graph, info);
  return info;
}

void writeHandles(SourceWriter &w, const InterfaceInfo &info, const std::string &runtime) {
  w.comment("The interface's handles are the runtime's own structs.");
  w.open("namespace");
  for (const char *kind : {"model", "context"})
    for (const char *constant : {"", "const "}) {
      const std::string to = constant + runtime + kind + " *";
      w.line("[[maybe_unused]] inline " + to + "opened(" + constant + info.prefix + "_" + kind +
             " *handle) { return reinterpret_cast<" + to + ">(handle); }");
    }
  w.close("} // namespace").line();
}

std::string errorMessage(const InterfaceInfo &info, const std::string &unreadable,
                         const std::string &message) {
  if (info.weightsFile.empty())
    return message;
  return "code == " + unreadable + " ? \"the weights file, " + stringSafe(info.weightsFile) +
         ", cannot be read: " + info.prefix +
         "_options.weights_path says where it is\" : " + message;
}

/// As a shell reads it, quoted where it must be.
static std::string shellWord(const std::string &text) {
  if (llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || strchr("_-+./,:=@%", c); }))
    return text;
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// The whole command for the file.
static std::string buildLine(const Target &target, const CompileOptions &options,
                             const std::string &buildCommand) {
  const std::string source =
      !options.source.empty() ? options.source : options.stem + target.family->suffix.str();
  return buildCommand + " -c " + shellWord(source);
}

std::string beginOfGuard(const std::string &condition, const Target &target,
                         const CompileOptions &options, const std::string &buildCommand) {
  return "#if !(" + condition + ")\n#error \"wrong or missing flags; build this file by: " +
         stringSafe(buildLine(target, options, buildCommand)) + "\"\n#else\n\n";
}

std::string endOfGuard() { return "#endif // the flags of the first line\n"; }

std::string contentsLine(const Step &step, const std::string &name) {
  std::string kernel;
  if (const Attribute *a = step.op->find("schedule"))
    if (const Schedule *s = a->get<Schedule>())
      kernel = " | " + toString(*s).substr(0, toString(*s).find('<'));
  std::string nodes = describe(step.op->loc());
  constexpr size_t longest = 72;
  if (nodes.size() > longest)
    nodes = nodes.substr(0, longest / 2) + "..." + nodes.substr(nodes.size() - longest / 2);
  return name + kernel + (nodes.empty() ? "" : " | " + commentSafe(nodes));
}

std::string memoryText(const CompileSummary &summary) {
  return std::to_string(summary.arenaBytes) + " bytes in the arena" +
         (summary.stateBytes ? ", " + std::to_string(summary.stateBytes) + " bytes of states"
                             : "") +
         "; namespace `at` says what stands where";
}

std::string contentsComment(const FileContents &contents) {
  SourceWriter w;
  w.line("//");
  w.line("// Contents");
  w.line("//   interface  " + contents.interfaceFile + "; defined at the end of this file");
  w.line(std::string("//   runtime    ") +
         (contents.runtimeEmbedded ? "the templates that the steps instantiate" : "included"));
  w.line("//   weights    " + contents.weights);
  w.line("//   memory     " + contents.memory);
  w.line("//   steps      function | kernel | nodes of the model, in the order in which they run");
  for (const std::string &s : contents.steps)
    w.line("//     " + s);
  return w.take();
}

std::string fileHead(const Module &module, const Target &target, const CompileOptions &options,
                     const std::string &buildCommand) {
  SourceWriter w;
  w.line("// " + buildLine(target, options, buildCommand)); // one line, to be copied
  w.line("//");
  w.comment("Generated by tenon " TENON_VERSION " for " + target.name + " from '" +
            commentSafe(module.name) + "'.");
  auto sha = module.facts.find("sha256");
  if (sha != module.facts.end())
    w.comment("Model SHA-256: " + sha->second);
  if (!options.commandLine.empty())
    w.comment("Options: " + commentSafe(options.commandLine));
  w.line("// SPDX-License-Identifier: Apache-2.0");
  w.comment("This file belongs to its user; the embedded runtime is Apache-2.0.");
  return w.take();
}

std::vector<std::string> stepNames(const Plan &plan) {
  std::vector<std::string> names;
  for (const Step &s : plan.steps) {
    std::string stem;
    if (!s.op->loc().empty()) {
      llvm::StringRef last = s.op->loc().front();
      if (last.contains('/'))
        last = last.rsplit('/').second.empty() ? last : llvm::StringRef(last);
      stem = sanitizedStem(last);
    }
    names.push_back("step" + std::to_string(s.number) + (stem.empty() ? "" : "_" + stem));
  }
  return names;
}

std::string stepHeading(const Step &step) {
  SourceWriter w;
  const Operation &op = *step.op;
  std::string title = describe(op.loc());
  if (const Attribute *a = op.find("schedule"))
    if (const Schedule *s = a->get<Schedule>())
      title += " | " + toString(*s);
  w.comment(title);
  std::string facts;
  for (Value *v : op.results())
    facts += (facts.empty() ? "" : ", ") + describe(v->type());
  const Work work = workOf(op);
  facts += "; " + formatCount(work.flops) + "FLOP, " + formatBytes(work.bytes);
  w.comment(facts);
  return w.take();
}

std::string outputDimCases(const InterfaceInfo &info, const DimSpelling &dims) {
  SourceWriter w;
  for (size_t i = 0; i < info.outputs.size(); ++i)
    for (unsigned d = 0; d < info.outputs[i].type.rank(); ++d)
      w.line("case " + std::to_string(i * 16 + d) + ": return " +
             dims.value(info.outputs[i].type.dim(d), "dims") + ";");
  return w.take();
}

std::string weightLiteral(const std::string &name, llvm::StringRef bytes) {
  std::string s = "alignas(64) static const unsigned char " + name + "[" +
                  std::to_string(bytes.size() + 1) + "] =\n    \"";
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (column > 90) {
      s += "\"\n    \"";
      column = 0;
    }
    const size_t before = s.size();
    const bool digitNext = i + 1 < bytes.size() && bytes[i + 1] >= '0' && bytes[i + 1] <= '7';
    if (c >= 32 && c < 127 && c != '"' && c != '\\' && c != '?') {
      s += char(c);
    } else {
      char text[8];
      // Octal escapes take up to three digits: all three when a digit follows.
      snprintf(text, sizeof text, digitNext ? "\\%03o" : "\\%o", unsigned(c));
      s += text;
    }
    column += s.size() - before;
  }
  return s + "\";\n";
}

} // namespace tenon
