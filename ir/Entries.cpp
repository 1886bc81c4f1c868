// Implements entries.
#include "ir/Entries.h"

#include "ir/DecoderPorts.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <numeric>

namespace tenon {
namespace {
constexpr llvm::StringLiteral kSuffix = ".rows";
} // namespace

Graph &addCopy(Module &module, const Graph &from) {
  Graph &to = module.addGraph(from.name);
  to.target = from.target;
  to.inputNames = from.inputNames;
  to.outputNames = from.outputNames;
  to.states = from.states;
  std::map<const Value *, Value *> map;
  for (Value *a : from.body().arguments())
    map[a] = to.body().addArgument(a->type(), a->hint());
  for (Operation &op : const_cast<Region &>(from.body()))
    to.body().push_back(op.clone(map));
  return to;
}

bool isEntry(const Graph &graph) { return graph.name != graph.module().graph().name; }

/// Whether a symbol is called after an entry of the module.
static bool isNamedAfterEntry(const Module &module, Dim symbol) {
  const llvm::StringRef name = symbol.symbol(), first = firstSymbol(name);
  return first != name && llvm::any_of(module.graphs, [&](const std::unique_ptr<Graph> &g) {
           return isEntry(*g) && name.substr(first.size() + 1) == g->name;
         });
}

void dropEntries(Module &module) {
  llvm::erase_if(module.symbols, [&](Dim d) { return isNamedAfterEntry(module, d); });
  module.graphs.resize(1);
}

std::string entrySymbol(llvm::StringRef symbol, llvm::StringRef entry) {
  return (symbol + "." + entry).str();
}

llvm::StringRef firstSymbol(llvm::StringRef symbol) {
  const size_t at = symbol.rfind(kSuffix);
  if (at == llvm::StringRef::npos)
    return symbol;
  const llvm::StringRef rows = symbol.substr(at + kSuffix.size());
  return !rows.empty() && llvm::all_of(rows, llvm::isDigit) ? symbol.take_front(at) : symbol;
}

bool isOfEntry(const Module &module, Dim symbol) {
  const llvm::StringRef first = firstSymbol(symbol.symbol());
  return isNamedAfterEntry(module, symbol) &&
         llvm::any_of(module.symbols, [&](Dim d) { return d.symbol() == first; });
}

Dim tokensOf(const Graph &graph) {
  const auto ports = decoderPorts(graph.module());
  const auto input = llvm::find(graph.inputNames, ports->tokens) - graph.inputNames.begin();
  return graph.body().argument(unsigned(input))->type().dim(1);
}

std::vector<size_t> orderOfWeights(const Module &module, size_t levels) {
  std::vector<size_t> order(module.graphs.size());
  std::iota(order.begin(), order.end(), size_t(0));
  if (order.size() == levels)
    return order;
  const auto rank = [&](size_t i) {
    const int64_t tokens = tokensOf(*module.graphs[i]).upper();
    return tokens <= kStepTokens ? -tokens : tokens;
  };
  llvm::stable_sort(order, [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return order;
}

/// Entries of the first level, that of the fewest tokens first.
static std::vector<Graph *> entriesOf(const Module &module) {
  std::vector<Graph *> entries;
  for (auto &g : module.graphs)
    if (isEntry(*g) && (entries.empty() || entries.back()->name != g->name))
      entries.push_back(g.get());
  return entries;
}

Graph &graphOfRun(Module &module, int64_t tokens) {
  for (Graph *g : entriesOf(module))
    if (tokens <= tokensOf(*g).upper())
      return *g;
  return module.graph();
}

std::unique_ptr<Module> aloneForRun(const Module &module, int64_t tokens) {
  std::unique_ptr<Module> alone = module.clone();
  const Graph *taken = &graphOfRun(*alone, tokens);
  std::swap(alone->graphs.front(),
            *llvm::find_if(alone->graphs, [&](const auto &g) { return g.get() == taken; }));
  alone->graphs.resize(1);
  forgetDecoder(*alone);
  return alone;
}

std::vector<int64_t> tokensOfRuns(const Module &module) {
  std::vector<int64_t> fewest;
  const std::vector<Graph *> entries = entriesOf(module);
  fewest.reserve(entries.size() + 1);
  for (Graph *g : entries)
    fewest.push_back(fewest.empty() ? tokensOf(*g).lower()
                                    : tokensOf(*entries[fewest.size() - 1]).upper() + 1);
  if (!entries.empty())
    fewest.push_back(tokensOf(*entries.back()).upper() + 1);
  return fewest;
}

std::string runTitle(const Graph &graph) {
  if (entriesOf(graph.module()).empty())
    return "";
  const int64_t most = tokensOf(graph).upper();
  return (most == 1 ? std::string("1 token") : "up to " + std::to_string(most) + " tokens") +
         (isEntry(graph) ? " (" + graph.name + ")" : "");
}

/// Whether an entry has the same interface as the first graph.
static bool isAlike(const Graph &entry, const Graph &first) {
  const auto sameState = [](const State &a, const State &b) {
    return a.input == b.input && a.output == b.output && a.appendAxis == b.appendAxis;
  };
  return entry.inputNames == first.inputNames && entry.outputNames == first.outputNames &&
         std::equal(entry.states.begin(), entry.states.end(), first.states.begin(),
                    first.states.end(), sameState);
}

bool verifyEntries(const Module &module, Diagnostics &diagnostics) {
  const auto ports = decoderPorts(module);
  for (auto &graph : module.graphs) {
    if (!isEntry(*graph))
      continue;
    if (!ports || !llvm::is_contained(module.graph().inputNames, ports->tokens)) {
      diagnostics.error("module holds graph '" + graph->name + "' beside '" + module.graph().name +
                        "' and is no decoder's: expected one graph");
      return false;
    }
    if (!isAlike(*graph, module.graph())) {
      diagnostics.error("graph '" + graph->name + "' has other inputs, outputs or states than '" +
                        module.graph().name + "', of which it is an entry");
      return false;
    }
    const Dim count = tokensOf(module.graph()), own = tokensOf(*graph);
    if (!count.isSymbol() || own.upper() >= count.upper()) {
      diagnostics.error("graph '" + graph->name + "' takes up to " + std::to_string(own.upper()) +
                        " tokens: expected fewer than the " + std::to_string(count.upper()) +
                        " of '" + module.graph().name + "'");
      return false;
    }
  }
  return true;
}

} // namespace tenon
