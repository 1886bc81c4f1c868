// Implements the report of a decoder's interface.
#include "tools/DecoderReport.h"

#include "codegen/core/Bytes.h"
#include "codegen/memory/Plan.h"
#include "codegen/schedule/PackedConstants.h"
#include "ir/Entries.h"
#include "tools/Report.h"

#include "llvm/Support/Format.h"

namespace tenon {
namespace {

llvm::StringRef meaning(Following what) {
  switch (what) {
  case Following::Mask: return "every key, none later than the query";
  case Following::Positions: return "length, length + 1, ...";
  case Following::Length: return "the length";
  case Following::Total: return "the length with the new tokens";
  case Following::LastPosition: return "the last position";
  case Following::CacheBranch: return "there are caches";
  case Following::KeptLogits: return "all";
  }
  return "";
}

std::string pair(const ImportState &s) { return s.input + " = " + s.output; }

/// One of the graphs of which each run takes one.
struct Run {
  int64_t tokens = 0; // at most
  double microseconds = 0;
  int64_t copiedBytes = 0; // of weights that no graph before reads, or none in this form
  int64_t arenaBytes = 0;
};

/// The graphs of a program with entries, those for few tokens first, on its first level.
std::vector<Run> runsOf(Module &module, const CompileSummary &summary) {
  std::vector<Run> runs;
  const auto levels = size_t(
      llvm::count_if(module.graphs, [](const std::unique_ptr<Graph> &g) { return !isEntry(*g); }));
  if (levels == module.graphs.size() || summary.steps.empty())
    return runs;
  const std::string level = summary.steps.front().level;
  PackedConstants packed;
  for (const size_t i : orderOfWeights(module, levels)) {
    if (i % levels != 0)
      continue;
    Graph &graph = *module.graphs[i];
    Run run;
    run.tokens = tokensOf(graph).upper();
    run.arenaBytes = planMemory(graph).arenaBytes;
    for (const StepSummary &step : summary.steps)
      if (step.level == (isEntry(graph) ? level + "_" + graph.name : level))
        run.microseconds += step.estimatedMicroseconds;
    const int64_t fresh = packed.add(graph);
    run.copiedBytes = runs.empty() ? 0 : fresh;
    runs.push_back(run);
  }
  llvm::sort(runs, [](const Run &a, const Run &b) { return a.tokens < b.tokens; });
  return runs;
}

void printRuns(llvm::raw_ostream &os, llvm::ArrayRef<Run> runs) {
  for (const Run &run : runs) {
    os << (&run == runs.begin() ? "  runs      of " : "            of ");
    if (run.tokens == 1)
      os << "1 token";
    else
      os << "up to " << run.tokens << " tokens";
    os << llvm::format(", estimated %.3g ms", run.microseconds / 1e3) << ", "
       << formatBytes(run.arenaBytes) << " of activations";
    if (run.copiedBytes > 0)
      os << ", " << formatBytes(run.copiedBytes) << " of weights once more in another form";
    os << '\n';
  }
}

/// What a context carries from run to run: caches, and what is replaced.
int64_t carriedBytes(Module &module) {
  Graph &graph = module.graph();
  int64_t bytes = 0;
  for (const State &s : graph.states) {
    const Type t = graph.returnOp()->operand(s.output)->type();
    bytes += byteSize(t.element(), t.upperElements());
  }
  return bytes;
}

/// What was chosen where nobody said it.
void printPrefill(llvm::raw_ostream &os, const DecoderRequest &request) {
  if (!request.prefillChosen || request.prefill.empty())
    return;
  std::string lengths;
  for (int64_t rows : request.prefill)
    lengths += (lengths.empty() ? "" : ":") + std::to_string(rows);
  os << "  prefill   " << lengths << " chosen for " << request.capacity
     << " tokens; prefill=none leaves it out\n";
}

} // namespace

void printDecoder(llvm::raw_ostream &os, const DecoderInterface &d, Module &module,
                  const CompileSummary &summary) {
  os << "decoder  up to " << d.request.capacity
     << " tokens, one sequence without padding, logits of "
     << (d.request.lastLogits ? "the last token" : "every token") << " of a run\n"
     << "  tokens    " << escaped(d.tokens);
  if (!d.count.empty())
    os << ", " << escaped(d.count) << " of them";
  os << "\n  length    " << escaped(d.length) << '\n';
  const std::vector<Run> runs = runsOf(module, summary);
  printRuns(os, runs);
  if (!runs.empty())
    printPrefill(os, d.request);
  const size_t most = 2;
  for (bool grows : {true, false}) {
    std::vector<const ImportState *> caches;
    for (const ImportState &s : d.caches)
      if (s.appendAxis.hasValue() == grows)
        caches.push_back(&s);
    for (size_t i = 0; i < caches.size() && i < most; ++i) {
      os << (i       ? "            "
             : grows ? "  caches    "
                     : "  replaced  ")
         << escaped(pair(*caches[i]));
      if (grows)
        os << ", axis " << *caches[i]->appendAxis;
      os << '\n';
    }
    if (caches.size() > most)
      os << "            and " << caches.size() - most << " more\n";
  }
  if (d.text)
    os << "  text      " << escaped(pair(*d.text)) << ", axis " << *d.text->appendAxis
       << ": no cache grows, the tokens do\n";
  for (size_t i = 0; i < d.given.size() && i < most; ++i)
    os << (i ? "            " : "  given     ") << escaped(d.given[i])
       << (i ? "\n" : ": of an encoder, the same in all runs\n");
  if (d.given.size() > most)
    os << "            and " << d.given.size() - most << " more\n";
  for (const auto &[name, what] : d.following)
    os << "  computed  " << escaped(name) << ": " << meaning(what) << '\n';
  for (const auto &[name, value] : d.bound)
    os << "  bound     " << escaped(name) << " = " << value << '\n';
  os << "  memory    " << formatBytes(carriedBytes(module)) << " of a context for "
     << (llvm::any_of(d.caches, [](const ImportState &c) { return !c.appendAxis; })
             ? (d.text ? "what is replaced and the tokens" : "caches and what is replaced")
             : "caches")
     << "\n";
}

void writeDecoder(llvm::json::OStream &json, const DecoderInterface &d, Module &module,
                  const CompileSummary &summary) {
  auto text = [](llvm::StringRef s) { return llvm::json::fixUTF8(s); };
  json.attributeObject("decoder", [&] {
    json.attribute("capacity", d.request.capacity);
    json.attribute("logits_of", d.request.lastLogits ? "last" : "all");
    json.attribute("tokens", text(d.tokens));
    json.attribute("logits", text(d.logits));
    json.attribute("count", text(d.count));
    json.attribute("length", text(d.length));
    json.attributeArray("caches", [&] {
      for (const ImportState &s : d.caches)
        json.object([&] {
          json.attribute("past", text(s.input));
          json.attribute("present", text(s.output));
          if (s.appendAxis)
            json.attribute("axis", *s.appendAxis);
        });
    });
    if (d.text)
      json.attribute("text", text(d.text->input));
    json.attributeArray("given", [&] {
      for (const std::string &name : d.given)
        json.value(text(name));
    });
    json.attributeArray("prefill", [&] {
      for (int64_t rows : d.request.prefill)
        json.value(rows);
    });
    json.attribute("prefill_chosen", d.request.prefillChosen);
    json.attribute("carried_bytes", carriedBytes(module));
    json.attributeArray("runs", [&] {
      for (const Run &run : runsOf(module, summary))
        json.object([&] {
          json.attribute("tokens", run.tokens);
          json.attribute("estimated_us", run.microseconds);
          json.attribute("copied_weight_bytes", run.copiedBytes);
          json.attribute("arena_bytes", run.arenaBytes);
        });
    });
    json.attributeObject("computed", [&] {
      for (const auto &[name, what] : d.following)
        json.attribute(text(name), meaning(what));
    });
    json.attributeObject("bound", [&] {
      for (const auto &[name, value] : d.bound)
        json.attribute(text(name), value);
    });
  });
}

} // namespace tenon
