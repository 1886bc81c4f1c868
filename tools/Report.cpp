// Implements the summary of a compilation and the reports on fusion, kernels and passes.
#include "tools/Report.h"

#include "tools/MemoryReport.h"
#include "tools/RangeReport.h"

#include "codegen/core/Bytes.h"
#include "codegen/core/Work.h"
#include "codegen/memory/Plan.h"
#include "tools/Compare.h"
#include "tools/DecoderReport.h"

#include "ir/Entries.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tenon {

std::string escaped(llvm::StringRef text) {
  std::string s;
  llvm::raw_string_ostream os(s);
  os.write_escaped(text);
  return os.str();
}

namespace {

std::string joined(llvm::ArrayRef<std::string> nodes, size_t most = 3) {
  std::string s;
  for (size_t i = 0; i < nodes.size() && i < most; ++i)
    s += (i ? ", '" : "'") + shortName(nodes[i]) + "'";
  if (nodes.size() > most)
    s += " and " + std::to_string(nodes.size() - most) + " more";
  return s;
}

std::string scheduleText(const Schedule &s) { return s.params.empty() ? s.tactic : toString(s); }

std::string scheduleText(const Operation &op) {
  const Attribute *a = op.find("schedule");
  const Schedule *s = a ? a->get<Schedule>() : nullptr;
  if (!s)
    return op.is(Op::Group) ? "unscheduled" : op.name().str();
  return scheduleText(*s);
}

double lostMicroseconds(const ScheduleLog &log) {
  double lost = 0;
  for (const ScheduleLog::Loss &l : log.losses)
    lost += l.microseconds;
  return lost;
}

std::string resultTypes(const Operation &op) {
  std::string s;
  for (Value *v : op.results())
    s += (s.empty() ? "" : ", ") + toString(v->type());
  return s;
}

void strings(llvm::json::OStream &json, llvm::StringRef key, llvm::ArrayRef<std::string> list) {
  json.attributeArray(key, [&] {
    for (const std::string &s : list)
      json.value(llvm::json::fixUTF8(s));
  });
}

/// Rejected fusions, the costliest first; each reason and pair of nodes once.
std::vector<const FusionDecision *> rejected(llvm::ArrayRef<FusionDecision> fusions) {
  std::vector<const FusionDecision *> out;
  std::set<std::tuple<std::string, std::string, Location>> seen; // of entries the same once
  for (const FusionDecision &f : fusions)
    if (!f.accepted && seen.insert({f.id, f.reason, f.nodes}).second)
      out.push_back(&f);
  std::stable_sort(out.begin(), out.end(), [](const FusionDecision *a, const FusionDecision *b) {
    return a->bytesSaved > b->bytesSaved;
  });
  return out;
}

std::vector<std::string> variantNames(const Module &module) {
  std::vector<std::string> names;
  for (auto &g : module.graphs)
    names.push_back(g->target.empty()      ? g->name
                    : runTitle(*g).empty() ? g->target
                                           : g->target + ", runs of " + runTitle(*g));
  return names;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Behind the bytes: what the decision took one kernel and several to need.
void printTimes(llvm::raw_ostream &os, const FusionDecision &f) {
  if (f.apart > 0)
    os << llvm::format(", %.2f us for %.2f apart", f.together, f.apart);
  if (!f.variant.empty())
    os << ", " << f.variant;
}

void printFusion(llvm::raw_ostream &os, llvm::ArrayRef<FusionDecision> fusions) {
  int64_t saved = 0;
  size_t accepted = 0;
  for (const FusionDecision &f : fusions)
    if (f.accepted) {
      ++accepted;
      saved += f.bytesSaved;
    }
  os << "fusion: " << accepted << " accepted, " << fusions.size() - accepted << " rejected, "
     << formatBytes(saved) << " of memory traffic saved\n";
  for (const FusionDecision &f : fusions)
    if (f.accepted) {
      os << "  + " << llvm::left_justify(f.id, 24) << ' ' << escaped(joined(f.nodes)) << ", "
         << formatBytes(f.bytesSaved);
      printTimes(os, f);
      os << '\n';
    }
  for (const FusionDecision *f : rejected(fusions)) {
    os << "  - " << llvm::left_justify(f->id, 24) << ' ' << escaped(joined(f->nodes)) << ": "
       << f->reason << " (" << formatBytes(f->bytesSaved);
    printTimes(os, *f);
    os << ")\n";
  }
}

void printKernels(llvm::raw_ostream &os, Graph &graph, llvm::StringRef variant,
                  const ScheduleLog &log) {
  const Plan plan = planMemory(graph);
  os << "kernels of " << variant << '\n';
  for (const Step &s : plan.steps) {
    const Work work = workOf(*s.op);
    os << llvm::format("  %3d ", s.number) << llvm::left_justify(scheduleText(*s.op), 36) << ' '
       << formatCount(work.flops) << "FLOP " << formatBytes(work.bytes) << "  "
       << resultTypes(*s.op) << "  " << escaped(joined(s.op->loc()));
    if (auto it = log.measured.find(s.op); it != log.measured.end())
      os << llvm::format("  measured %.2f us (the cost model's choice %.2f)",
                         it->second.microseconds, it->second.heuristicMicroseconds);
    os << '\n';
  }
}

/// What --workspace cost, the largest loss first.
void printLosses(llvm::raw_ostream &os, const ScheduleLog &log) {
  if (log.losses.empty())
    return;
  std::vector<const ScheduleLog::Loss *> losses;
  for (const ScheduleLog::Loss &l : log.losses)
    losses.push_back(&l);
  llvm::stable_sort(losses, [](const ScheduleLog::Loss *a, const ScheduleLog::Loss *b) {
    return a->microseconds > b->microseconds;
  });
  os << llvm::format("--workspace costs %.2f us by the estimate\n", lostMicroseconds(log));
  for (const ScheduleLog::Loss *l : losses)
    os << llvm::format("  %8.2f us  ", l->microseconds) << scheduleText(l->wanted) << " needs "
       << l->bytes << " bytes; " << scheduleText(l->taken) << " runs " << escaped(joined(l->nodes))
       << '\n';
}

/// Whether --disable reaches an id. What code generation relies on is no optimisation: at -O0 the
/// report of passes is empty.
bool isOptional(llvm::StringRef id) {
  const PassInfo *row = findRow(id);
  return !row || !row->required;
}

std::vector<PassRun> optionalRuns(Compiler &compiler) {
  std::vector<PassRun> runs = compiler.passRuns();
  llvm::erase_if(runs, [](const PassRun &r) { return !isOptional(r.id); });
  return runs;
}

std::vector<std::pair<std::string, int64_t>> optionalFirings(Compiler &compiler) {
  std::vector<std::pair<std::string, int64_t>> firings;
  for (auto &[id, count] : compiler.passContext().counts)
    if (isOptional(id))
      firings.push_back({id, count});
  return firings;
}

void printPasses(llvm::raw_ostream &os, Compiler &compiler) {
  os << "passes\n";
  for (const PassRun &r : optionalRuns(compiler))
    os << llvm::format("  %-22s %8.2f ms  %s\n", r.id.c_str(), r.seconds * 1e3,
                       r.changed ? "changed" : "no change");
  for (auto &[id, count] : optionalFirings(compiler))
    os << "  " << llvm::left_justify(id, 40) << ' ' << count << '\n';
  for (auto &[id, value] : compiler.passContext().statistics)
    os << "  " << llvm::left_justify(id, 40) << ' ' << value << '\n';
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

void writeFusion(llvm::json::OStream &json, llvm::ArrayRef<FusionDecision> fusions) {
  json.attributeArray("fusion", [&] {
    for (const FusionDecision &f : fusions)
      json.object([&] {
        json.attribute("id", f.id);
        json.attribute("accepted", f.accepted);
        strings(json, "nodes", f.nodes);
        json.attribute("bytes_saved", f.bytesSaved);
        if (!f.accepted)
          json.attribute("reason", llvm::json::fixUTF8(f.reason));
        if (!f.variant.empty())
          json.attribute("variant", f.variant);
        if (f.apart > 0) {
          json.attribute("together_us", f.together);
          json.attribute("apart_us", f.apart);
        }
      });
  });
}

void writeKernels(llvm::json::OStream &json, Module &module, const ScheduleLog &log) {
  json.attributeArray("kernels", [&] {
    for (auto &graph : module.graphs)
      for (const Step &s : planMemory(*graph).steps) {
        const Work work = workOf(*s.op);
        json.object([&] {
          json.attribute("variant", graph->target);
          if (isEntry(*graph))
            json.attribute("entry", graph->name);
          json.attribute("step", s.number);
          json.attribute("schedule", scheduleText(*s.op));
          json.attribute("results", resultTypes(*s.op));
          strings(json, "nodes", s.op->loc());
          json.attribute("flops", work.flops);
          json.attribute("bytes", work.bytes);
          json.attribute("scratch_bytes", s.scratchBytes);
          if (auto it = log.measured.find(s.op); it != log.measured.end()) {
            json.attribute("measured_us", it->second.microseconds);
            json.attribute("heuristic_us", it->second.heuristicMicroseconds);
          }
        });
      }
  });
  json.attributeArray("workspace_losses", [&] {
    for (const ScheduleLog::Loss &l : log.losses)
      json.object([&] {
        strings(json, "nodes", l.nodes);
        json.attribute("wanted", scheduleText(l.wanted));
        json.attribute("taken", scheduleText(l.taken));
        json.attribute("scratch_bytes", l.bytes);
        json.attribute("estimated_us", l.microseconds);
      });
  });
}

void writePasses(llvm::json::OStream &json, Compiler &compiler) {
  json.attributeArray("passes", [&] {
    for (const PassRun &r : optionalRuns(compiler))
      json.object([&] {
        json.attribute("id", r.id);
        json.attribute("changed", r.changed);
        json.attribute("ms", r.seconds * 1e3);
      });
  });
  json.attributeObject("firings", [&] {
    for (auto &[id, count] : optionalFirings(compiler))
      json.attribute(id, count);
  });
  json.attributeObject("statistics", [&] {
    for (auto &[id, value] : compiler.passContext().statistics)
      json.attribute(id, value);
  });
}

} // namespace

llvm::StringRef name(ReportKind kind) {
  switch (kind) {
  case ReportKind::Fusion: return "fusion";
  case ReportKind::Memory: return "memory";
  case ReportKind::Kernels: return "kernels";
  case ReportKind::Passes: return "passes";
  }
  return "";
}

std::vector<ReportKind> reportKinds(llvm::ArrayRef<std::string> words) {
  std::vector<ReportKind> out;
  for (const std::string &word : listItems(words))
    for (ReportKind k :
         {ReportKind::Fusion, ReportKind::Memory, ReportKind::Kernels, ReportKind::Passes})
      if (word == name(k) && !llvm::is_contained(out, k))
        out.push_back(k);
  return out;
}

std::string shortName(llvm::StringRef name) {
  constexpr size_t kLongest = 60, kHead = 29, kTail = 28; // and three dots
  if (name.size() <= kLongest)
    return name.str();
  // Never in the middle of a character.
  auto inside = [&](size_t at) { return (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80; };
  size_t head = kHead, tail = name.size() - kTail;
  while (head > 0 && inside(head))
    --head;
  while (tail < name.size() && inside(tail))
    ++tail;
  return (name.take_front(head) + "..." + name.drop_front(tail)).str();
}

std::string nodesText(llvm::ArrayRef<std::string> nodes) {
  constexpr size_t kMost = 3;
  std::string s;
  for (size_t i = 0; i < nodes.size() && i < kMost; ++i)
    s += (i ? ", " : "") + shortName(nodes[i]);
  if (nodes.size() > kMost)
    s += " +" + std::to_string(nodes.size() - kMost);
  return s;
}

void printSummary(llvm::raw_ostream &os, Compiler &compiler, const Target &target,
                  const CompileSummary &summary, llvm::ArrayRef<std::string> files) {
  const Module &module = compiler.module();
  os << "model    " << escaped(module.name);
  if (summary.nodes)
    os << ", " << summary.nodes << " nodes";
  os << "\ntarget   " << target.name << "\nkernels  " << summary.kernels;
  if (module.graphs.size() > 1)
    os << " in " << module.graphs.size() << " variants";
  if (summary.sharingSteps)
    os << ", " << summary.sharingSteps << " of them by " << summary.sharedKernels
       << " that take extents as parameters (--kernels)";
  os << "\nweights  " << formatBytes(summary.weightBytes) << ", " << summary.weightsMode
     << "\narena    " << summary.arenaBytes << " bytes";
  if (const std::string text = formatBytes(summary.arenaBytes);
      !llvm::StringRef(text).endswith(" B"))
    os << " (" << text << ')';
  os << ", lower bound " << summary.boundBytes;
  if (summary.boundBytes > 0)
    os << llvm::format(" (+%.1f %%)", 100.0 * double(summary.arenaBytes - summary.boundBytes) /
                                          double(summary.boundBytes));
  if (summary.scratchBytes)
    os << ", scratch " << summary.scratchBytes;
  os << '\n';
  if (compiler.decoder())
    printDecoder(os, *compiler.decoder(), compiler.module(), summary);
  if (auto patches = module.facts.find("patches"); patches != module.facts.end())
    os << "patches  " << patches->second << '\n';
  if (summary.estimatedMicroseconds > 0) {
    os << llvm::format("estimate %.3g ms a run", summary.estimatedMicroseconds / 1e3);
    if (const double clock = summary.megahertz)
      os << llvm::format(" at %.0f MHz (%.3g million cycles)", clock,
                         summary.estimatedMicroseconds * clock / 1e6);
    os << '\n';
  }
  if (compiler.overflows())
    os << "fp16     " << escaped(overflowLine(*compiler.overflows())) << '\n';
  const ScheduleLog &log = compiler.scheduleLog();
  if (!log.measured.empty() || log.unmeasured)
    os << "tuning   " << log.measured.size() << " kernels measured, " << log.unmeasured
       << " by the cost model\n";
  if (!log.losses.empty())
    os << "workspace bound: " << log.losses.size()
       << llvm::format(" kernels gave way to others, %.2f us by the estimate\n",
                       lostMicroseconds(log));
  const std::vector<FusionDecision> fusions = compiler.fusions();
  const auto refused = rejected(fusions);
  const size_t most = 5;
  if (!refused.empty())
    os << "not fused\n";
  for (size_t i = 0; i < refused.size() && i < most; ++i)
    os << "  " << escaped(joined(refused[i]->nodes, 2)) << ": " << refused[i]->reason << '\n';
  if (refused.size() > most)
    os << "  and " << refused.size() - most << " more (--report=fusion)\n";
  for (const std::string &f : files)
    os << "wrote    " << f << '\n';
}

void writeSummary(llvm::json::OStream &json, Compiler &compiler, const Target &target,
                  const CompileSummary &summary, llvm::ArrayRef<std::string> files) {
  json.attribute("model", llvm::json::fixUTF8(compiler.module().name));
  json.attribute("target", target.name);
  strings(json, "variants", variantNames(compiler.module()));
  if (compiler.decoder())
    writeDecoder(json, *compiler.decoder(), compiler.module(), summary);
  json.attribute("nodes", summary.nodes);
  json.attribute("kernels", summary.kernels);
  json.attribute("sharing_steps", summary.sharingSteps);
  json.attribute("shared_kernels", summary.sharedKernels);
  json.attribute("weight_bytes", summary.weightBytes);
  json.attribute("weights", summary.weightsMode);
  json.attribute("arena_bytes", summary.arenaBytes);
  json.attribute("bound_bytes", summary.boundBytes);
  json.attribute("scratch_bytes", summary.scratchBytes);
  const auto &facts = compiler.module().facts;
  if (auto patches = facts.find("patches"); patches != facts.end())
    json.attribute("patches", patches->second);
  json.attribute("estimated_us", summary.estimatedMicroseconds);
  if (summary.megahertz)
    json.attribute("megahertz", summary.megahertz);
  if (compiler.overflows())
    writeOverflows(json, *compiler.overflows());
  strings(json, "files", files);
}

void printReport(llvm::raw_ostream &os, ReportKind kind, Compiler &compiler) {
  Module &module = compiler.module();
  const std::vector<std::string> variants = variantNames(module);
  switch (kind) {
  case ReportKind::Fusion: printFusion(os, compiler.fusions()); break;
  case ReportKind::Memory:
    for (size_t i = 0; i < variants.size(); ++i)
      printMemory(os, *module.graphs[i], variants[i]);
    break;
  case ReportKind::Kernels:
    for (size_t i = 0; i < variants.size(); ++i)
      printKernels(os, *module.graphs[i], variants[i], compiler.scheduleLog());
    printLosses(os, compiler.scheduleLog());
    break;
  case ReportKind::Passes: printPasses(os, compiler); break;
  }
}

void writeReport(llvm::json::OStream &json, ReportKind kind, Compiler &compiler) {
  switch (kind) {
  case ReportKind::Fusion: writeFusion(json, compiler.fusions()); break;
  case ReportKind::Memory: writeMemory(json, compiler.module()); break;
  case ReportKind::Kernels: writeKernels(json, compiler.module(), compiler.scheduleLog()); break;
  case ReportKind::Passes: writePasses(json, compiler); break;
  }
}

} // namespace tenon
