// Implements the views of a compilation.
#include "tools/Inspection.h"

#include "tools/RangeReport.h"
#include "tools/Report.h"
#include "tools/StepGraph.h"

#include "codegen/core/Work.h"
#include "codegen/memory/Scheduled.h"
#include "ir/Entries.h"
#include "ir/Names.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cstring>

namespace tenon {

/// tools/report/page.html, put here by the build.
extern const char *const kReportPage;

namespace {

std::string opTitle(const Operation &op) {
  const Attribute *a = op.find("schedule");
  const Schedule *s = a ? a->get<Schedule>() : nullptr;
  return s ? s->tactic : op.name().str();
}

/// Multiply-adds, flash and RAM of one step.
struct Layer {
  const Step *step;
  Work work;
  int64_t flash = 0, ram = 0;
};

std::string codeText(const Footprint &footprint, const Step &step) {
  auto it = footprint.code.find(step.number);
  return it == footprint.code.end() ? "shared" : std::to_string(it->second);
}
std::string cyclesText(const Footprint &footprint, const Step &step) {
  auto it = footprint.cycles.find(step.number);
  return it == footprint.cycles.end() ? "-" : std::to_string(int64_t(it->second));
}
std::string flashText(const Footprint &f) {
  return "code: " + std::to_string(f.codeBytes()) + " bytes, " + std::to_string(f.rest) +
         " of them for no single layer; " +
         (f.measured ? "measured, without the compiler's libraries"
                     : "estimated, for the target's compiler is not here") +
         "; cycles are estimated";
}

std::vector<Layer> layers(const Plan &plan) {
  std::vector<Layer> out;
  for (const Step &s : plan.steps) {
    Layer l{&s, workOf(*s.op), 0, s.scratchBytes + plan.liveBytes(s.number)};
    for (Value *v : s.op->operands())
      if (auto it = plan.placements.find(v);
          it != plan.placements.end() && it->second.home == Home::Weights)
        l.flash += plan.buffers[it->second.buffer].bytes;
    out.push_back(l);
  }
  return out;
}

} // namespace

void Inspection::lookAtModel(Module &module) {
  facts_ = module.facts;
  for (Dim s : module.symbols) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << s.symbol() << " in " << s.lower() << ".." << s.upper();
    symbols_.push_back(os.str());
  }
  Graph &g = module.graph();
  for (unsigned i = 0; i < g.inputNames.size(); ++i)
    inputs_.push_back({g.inputNames[i], toString(g.body().argument(i)->type())});
  for (unsigned i = 0; i < g.outputNames.size(); ++i)
    outputs_.push_back({g.outputNames[i], toString(g.returnOp()->operand(i)->type())});
  g.body().walk([&](Operation *op) {
    if (!op->isTerminator() && !(op->info().traits & OpTrait::Scalar))
      ++operations_[op->name().str()];
  });
}

void Inspection::printText(llvm::raw_ostream &os, Compiler &compiler) const {
  Module &module = compiler.module();
  os << "model '" << escaped(module.name) << "'\n";
  for (auto &[key, value] : facts_)
    os << "  " << llvm::left_justify(key, 12) << ' ' << escaped(value) << '\n';
  for (const Port &p : inputs_)
    os << "  input  '" << escaped(p.name) << "' " << p.type << '\n';
  for (const Port &p : outputs_)
    os << "  output '" << escaped(p.name) << "' " << p.type << '\n';
  for (const std::string &s : symbols_)
    os << "  symbol " << s << '\n';
  if (scheduled) {
    printLayers(os, module);
    printReport(os, ReportKind::Memory, compiler);
  }
  os << "operations as imported\n ";
  for (auto &[name, count] : operations_)
    os << ' ' << name << ' ' << count;
  os << '\n';
  printReport(os, ReportKind::Fusion, compiler);
  printReport(os, ReportKind::Passes, compiler);
  if (scheduled && compiler.overflows())
    printOverflows(os, *compiler.overflows());
}

/// What most come for, so that it stands first: what each layer costs.
void Inspection::printLayers(llvm::raw_ostream &os, Module &module) const {
  for (auto &graph : module.graphs) {
    const Plan plan = planMemory(*graph);
    const std::string run = runTitle(*graph);
    const std::vector<Layer> rows = layers(plan);
    size_t widest = std::strlen("kernel");
    for (const Layer &l : rows)
      widest = std::max(widest, opTitle(*l.step->op).size());
    os << "layers of " << graph->target << (run.empty() ? "" : ", runs of " + run)
       << ", weights and RAM in bytes\n   step       MACs    weights        RAM"
       << (footprint ? "       code      cycles" : "") << "  "
       << llvm::left_justify("kernel", widest) << "  nodes\n";
    double macs = 0;
    for (const Layer &l : rows) {
      macs += l.work.flops / 2;
      os << llvm::format("  %5d %10.0f %10lld %10lld", l.step->number, l.work.flops / 2,
                         static_cast<long long>(l.flash), static_cast<long long>(l.ram));
      if (footprint)
        os << llvm::right_justify(codeText(*footprint, *l.step), 11)
           << llvm::right_justify(cyclesText(*footprint, *l.step), 12);
      os << "  " << llvm::left_justify(opTitle(*l.step->op), widest) << "  "
         << escaped(nodesText(l.step->op->loc())) << '\n';
    }
    os << llvm::format("  total %10.0f %10lld %10lld", macs,
                       static_cast<long long>(plan.weightBytes),
                       static_cast<long long>(plan.arenaBytes));
    if (footprint)
      os << llvm::format(" %10lld %11.0f", static_cast<long long>(footprint->codeBytes()),
                         footprint->totalCycles());
    os << '\n';
  }
  if (footprint)
    os << flashText(*footprint) << '\n';
}

void Inspection::printJson(llvm::raw_ostream &os, Compiler &compiler) const {
  Module &module = compiler.module();
  llvm::json::OStream json(os, 1);
  auto ports = [&](llvm::StringRef key, const std::vector<Port> &list) {
    json.attributeArray(key, [&] {
      for (const Port &p : list)
        json.object([&] {
          json.attribute("name", llvm::json::fixUTF8(p.name));
          json.attribute("type", p.type);
        });
    });
  };
  json.object([&] {
    json.attribute("model", llvm::json::fixUTF8(module.name));
    json.attribute("file", llvm::json::fixUTF8(model));
    json.attribute("target", target);
    for (auto &[key, text] : {std::pair("profile", &profile), {"tensor_cores", &tensorCores}})
      if (!text->empty()) {
        json.attributeBegin(key);
        json.rawValue(*text);
        json.attributeEnd();
      }
    json.attributeObject("facts", [&] {
      for (auto &[key, value] : facts_)
        json.attribute(key, llvm::json::fixUTF8(value));
    });
    ports("inputs", inputs_);
    ports("outputs", outputs_);
    json.attributeArray("symbols", [&] {
      for (const std::string &s : symbols_)
        json.value(s);
    });
    if (compiler.overflows())
      writeOverflows(json, *compiler.overflows());
    json.attributeObject("operations", [&] {
      for (auto &[name, count] : operations_)
        json.attribute(name, count);
    });
    writeReport(json, ReportKind::Passes, compiler);
    writeReport(json, ReportKind::Fusion, compiler);
    if (!scheduled)
      return;
    writeReport(json, ReportKind::Kernels, compiler);
    writeReport(json, ReportKind::Memory, compiler);
    if (footprint)
      json.attributeObject("flash", [&] {
        json.attribute("code_bytes", footprint->codeBytes());
        json.attribute("measured", footprint->measured);
        json.attribute("weight_bytes", planMemory(module.graph()).weightBytes);
      });
    auto level = [&](size_t i) { return levels.empty() ? nullptr : levels[i % levels.size()]; };
    json.attributeArray("variants", [&] {
      for (size_t i = 0; i < module.graphs.size(); ++i)
        json.object([&] {
          writeVariant(json, *module.graphs[i], planMemory(*module.graphs[i]), level(i));
        });
    });
    json.attributeArray("layers", [&] {
      for (size_t i = 0; i < module.graphs.size(); ++i)
        writeLayers(json, *module.graphs[i], planMemory(*module.graphs[i]), level(i));
    });
  });
  os << '\n';
}

void Inspection::writeVariant(llvm::json::OStream &json, Graph &graph, const Plan &plan,
                              const TargetLevel *level) const {
  json.attribute("name", graph.target);
  if (const std::string run = runTitle(graph); !run.empty())
    json.attribute("runs", run);
  if (isEntry(graph))
    json.attribute("entry", graph.name);
  json.attribute("weight_bytes", plan.weightBytes);
  json.attribute("arena_bytes", plan.arenaBytes);
  json.attribute("bound_bytes", plan.boundBytes);
  if (level)
    json.attributeObject("machine", [&] {
      json.attribute("peak_gflops", level->peakGflops);
      json.attribute("tensor_tflops", level->tensorTflops);
      json.attribute("bandwidth_gbs", level->bandwidthGBs);
      json.attribute("megahertz", level->megahertz);
    });
  const StepGraph steps(graph, plan);
  json.attributeArray("outputs", [&] {
    for (unsigned i = 0; i < graph.outputNames.size(); ++i)
      json.object([&] {
        json.attribute("name", llvm::json::fixUTF8(graph.outputNames[i]));
        steps.write(json, "from", {graph.returnOp()->operand(i)});
      });
  });
}

void Inspection::writeLayers(llvm::json::OStream &json, Graph &graph, const Plan &plan,
                             const TargetLevel *level) const {
  const StepGraph steps(graph, plan);
  // Estimates are those of the choices; a module whose schedules no longer fit has none.
  Diagnostics unsaid;
  const auto opened = level ? openScheduled(graph, *level, unsaid) : nullptr;
  for (const Layer &l : layers(plan))
    json.object([&] {
      const Operation &op = *l.step->op;
      json.attribute("variant", graph.target);
      if (isEntry(graph))
        json.attribute("entry", graph.name);
      json.attribute("step", l.step->number);
      json.attribute("kernel", opTitle(op));
      if (const Attribute *a = op.find("schedule"))
        json.attribute("schedule", toString(*a->get<Schedule>()));
      if (const Choice *choice = opened ? opened->choice(*l.step) : nullptr)
        json.attribute("estimated_us", choice->price().microseconds);
      json.attribute("macs", l.work.flops / 2);
      json.attribute("traffic_bytes", l.work.bytes);
      json.attribute("flash_bytes", l.flash);
      json.attribute("ram_bytes", l.ram);
      if (footprint) {
        auto code = footprint->code.find(l.step->number);
        json.attribute("code_bytes", code == footprint->code.end() ? 0 : code->second);
        if (auto it = footprint->cycles.find(l.step->number); it != footprint->cycles.end())
          json.attribute("cycles", it->second);
      }
      json.attributeArray("nodes", [&] {
        for (const std::string &node : op.loc())
          json.value(llvm::json::fixUTF8(node));
      });
      if (op.is(Op::Group))
        json.attributeArray("operations", [&] {
          for (Operation &inner : op.region())
            if (!inner.isTerminator() && !inner.is(Op::Constant))
              json.value(inner.name());
        });
      steps.write(json, "reads", op.operands());
      json.attributeArray("results", [&] {
        for (Value *v : op.results())
          json.value(toString(v->type()));
      });
    });
}

void Inspection::printDot(llvm::raw_ostream &os, Compiler &compiler) const {
  Graph &graph = compiler.module().graph();
  llvm::DenseMap<const Value *, std::string> makers; // looked up only
  auto quoted = [](llvm::StringRef text) {
    std::string s = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\')
        s += '\\';
      s += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
    return s + "\"";
  };
  os << "digraph " << quoted(graph.name) << " {\n  node [shape=box, fontname=monospace];\n";
  for (unsigned i = 0; i < graph.body().numArguments(); ++i) {
    const std::string id = "in" + std::to_string(i);
    makers[graph.body().argument(i)] = id;
    os << "  " << id << " [shape=ellipse, label=" << quoted(graph.inputNames[i]) << "];\n";
  }
  unsigned next = 0;
  auto edges = [&](const Operation &op, llvm::StringRef id) {
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (auto it = makers.find(op.operand(i)); it != makers.end())
        os << "  " << it->second << " -> " << id
           << " [label=" << quoted(toString(op.operand(i)->type())) << "];\n";
  };
  for (Operation &op : graph.body()) {
    if (op.is(Op::Constant))
      continue;
    if (op.isTerminator()) {
      for (unsigned i = 0; i < op.numOperands(); ++i) {
        os << "  out" << i << " [shape=ellipse, label=" << quoted(graph.outputNames[i]) << "];\n";
        if (auto it = makers.find(op.operand(i)); it != makers.end())
          os << "  " << it->second << " -> out" << i << ";\n";
      }
      continue;
    }
    const std::string id = "n" + std::to_string(next++);
    for (Value *v : op.results())
      makers[v] = id;
    os << "  " << id << " [label=" << quoted(opTitle(op) + " | " + nodesText(op.loc())) << "];\n";
    edges(op, id);
  }
  os << "}\n";
}

void Inspection::printHtml(llvm::raw_ostream &os, Compiler &compiler) const {
  std::string data;
  llvm::raw_string_ostream json(data);
  printJson(json, compiler);
  const auto [before, after] = llvm::StringRef(kReportPage).split("@DATA@");
  os << before;
  // Nothing in a name ends the script that the data stands in.
  for (char c : json.str())
    if (c == '<')
      os << "\\u003c";
    else
      os << c;
  os << after;
}

} // namespace tenon
