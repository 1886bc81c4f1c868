// Implements the import of subgraphs: explicit captures, regions, and what follows a node where its
// branches go different ways.
#include "frontend/GraphImporter.h"

#include "frontend/onnx/Node.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon::frontend {

ImportTrial::ImportTrial(ModelImport &state)
    : state_(state), symbols_(state.symbols.size()), ids_(state.ids.taken()),
      ranges_(state.valueRanges), pinned_(state.pinned_), draws_(state.draws) {}

void ImportTrial::undo() {
  for (size_t i = symbols_; i < state_.symbols.size(); ++i) {
    std::string name;
    llvm::raw_string_ostream(name) << state_.symbols[i];
    state_.symbolNames_.erase(name);
  }
  state_.symbols.resize(symbols_);
  state_.ids.release(ids_);
  state_.valueRanges = ranges_;
  state_.pinned_ = pinned_;
  state_.draws = draws_;
}

namespace {
/// Values called `names` in `importer`, each once.
void addCaptures(const GraphImporter &importer, llvm::ArrayRef<std::string> names,
                 llvm::StringSet<> &seen, std::vector<Capture> &list) {
  for (const std::string &name : names)
    if (seen.insert(name).second)
      if (auto item = importer.find(name)) // an unknown name is reported where it is used
        list.push_back({name, *item});
}

/// Names that the node and its subgraphs use.
std::vector<std::string> usedNames(const onnx::NodeProto &node, FreeNames &freeNames) {
  std::vector<std::string> names(node.input().begin(), node.input().end());
  auto add = [&](const onnx::GraphProto &graph) {
    const std::vector<std::string> &free = freeNames.of(graph);
    names.insert(names.end(), free.begin(), free.end());
  };
  for (const onnx::AttributeProto &a : node.attribute()) {
    if (a.has_g())
      add(a.g());
    llvm::for_each(a.graphs(), add);
  }
  return names;
}
} // namespace

std::vector<Capture> GraphImporter::captures(llvm::ArrayRef<const onnx::GraphProto *> graphs) {
  std::vector<Capture> list;
  llvm::StringSet<> seen;
  for (const onnx::GraphProto *g : graphs)
    addCaptures(*this, state.freeNames.of(*g), seen, list);
  if (const auto run = find(kRandomRun))
    if (llvm::any_of(graphs, [&](const onnx::GraphProto *g) { return state.drawsRandom(*g); }))
      list.push_back({kRandomRun.str(), *run});
  return list;
}

std::vector<Capture> GraphImporter::captures(llvm::ArrayRef<const onnx::GraphProto *> graphs,
                                             const Node &n, const Continuation &rest) {
  std::vector<Capture> list = captures(graphs);
  llvm::StringSet<> seen;
  for (const Capture &c : list)
    seen.insert(c.name);
  llvm::StringSet<> own; // what the node and its continuation define
  for (const std::string &output : n.proto.output())
    own.insert(output);
  for (const PendingNode &p : rest.nodes) {
    std::vector<std::string> names = usedNames(*p.node, state.freeNames);
    llvm::erase_if(names, [&](const std::string &name) { return name.empty() || own.count(name); });
    addCaptures(*this, names, seen, list);
    for (const std::string &output : p.node->output())
      own.insert(output);
  }
  if (find(kRandomRun))
    addCaptures(*this, {kRandomRun.str()}, seen, list);
  return list;
}

Continuation GraphImporter::takeContinuation(const Node &n) {
  llvm::StringSet<> own;
  for (const std::string &output : n.proto.output())
    own.insert(output);
  own.erase("");
  Continuation rest;
  std::deque<PendingNode> others;
  for (PendingNode &p : remaining_) {
    const auto used = usedNames(*p.node, state.freeNames);
    if (llvm::none_of(used, [&](const std::string &name) { return own.count(name) != 0; })) {
      others.push_back(std::move(p));
      continue;
    }
    for (const std::string &output : p.node->output())
      if (!output.empty())
        own.insert(output);
    rest.nodes.push_back(std::move(p));
  }
  for (const std::string &name : wanted_)
    if (own.count(name) && !llvm::is_contained(rest.results, name))
      rest.results.push_back(name);
  remaining_ = std::move(others);
  const Location here = b.location;
  importRemaining();
  b.location = here;
  return rest;
}

void GraphImporter::defineResult(Node &n, llvm::StringRef name, TensorOrSequence item) {
  for (unsigned i = 0; i < n.numOutputs(); ++i)
    if (n.proto.output(int(i)) == name)
      return n.set(i, item); // becomes known with the node
  if (atTop() && item.tensor())
    state.names.push_back({name.str(), item.tensor()});
  define(name, std::move(item));
}

bool GraphImporter::importContinuation(const Node &n, Region &region, llvm::StringRef name,
                                       llvm::ArrayRef<Capture> captures, const Continuation &rest,
                                       TensorsOrSequences &results) {
  Builder inner(region, state.pending);
  inner.location = b.location;
  GraphImporter importer(state, inner, n.id + "/" + name.str(), opsets, attributes, depth_ + 1);
  for (const Capture &c : captures)
    importer.define(c.name, c.item);
  for (int i = 0; i < n.proto.output_size(); ++i)
    importer.define(n.proto.output(i), results[size_t(i)]);
  importer.remaining_.assign(rest.nodes.begin(), rest.nodes.end());
  importer.wanted_ = rest.results;
  results.clear();
  return importer.importRemaining() && importer.results(results);
}

bool isRepeatable(Value *v) { return v && knownTensor(v).hasValue(); }

bool GraphImporter::importRegion(const Node &n, const onnx::GraphProto &graph, llvm::StringRef name,
                                 Region &region, llvm::ArrayRef<Type> arguments,
                                 llvm::ArrayRef<Capture> captures, TensorsOrSequences &results,
                                 RegionInputs inputs, std::vector<Capture> *captured) {
  if (depth_ >= kGraphDepth) {
    n.error("subgraphs are nested more than " + std::to_string(kGraphDepth) + " deep");
    return false;
  }
  llvm::SmallVector<Value *, 8> given;
  for (Type t : arguments)
    given.push_back(region.addArgument(t));
  Builder inner(region, state.pending);
  inner.location = b.location;
  GraphImporter importer(state, inner, n.id + "/" + name.str(), opsets, attributes, depth_ + 1);
  auto inside = [&](Value *v, const std::string &hint) -> Value * {
    if (!isRepeatable(v))
      return region.addArgument(v->type(), hint);
    Literal literal = constantValue(v);
    if (!literal)
      literal = std::make_shared<const Tensor>(*knownTensor(v));
    return inner.constant(std::move(literal), hint);
  };
  for (const Capture &c : captures) {
    llvm::SmallVector<Value *, 4> values;
    for (Value *v : c.item.values())
      values.push_back(inside(v, c.name));
    llvm::ArrayRef<Value *> rest = values;
    const TensorOrSequence item = c.item.with(rest);
    importer.define(c.name, item);
    if (captured)
      captured->push_back({c.name, item});
  }
  if (const auto run = importer.find(kRandomRun); run && (n.op() == "Loop" || n.op() == "Scan"))
    importer.define(kRandomRun, runOfIteration(inner, run->tensor(), region.argument(0)));
  const TensorsOrSequences items =
      inputs ? inputs(inner, given) : TensorsOrSequences(given.begin(), given.end());
  if (size_t(graph.input_size()) != items.size()) {
    n.error("attribute " + name.str() + ": expected a graph of " + std::to_string(items.size()) +
            " inputs, found " + std::to_string(graph.input_size()));
    return false;
  }
  for (size_t i = 0; i < items.size() && items[i]; ++i) {
    if (Value *v = items[i].tensor(); v && v->hint().empty())
      v->setHint(graph.input(int(i)).name());
    importer.define(graph.input(int(i)).name(), items[i]);
  }
  // What the graph itself defines comes last and shadows the rest.
  return importer.importGraph(graph) && importer.results(results);
}

bool GraphImporter::importInline(const Node &n, const onnx::GraphProto &graph, llvm::StringRef name,
                                 llvm::ArrayRef<TensorOrSequence> arguments,
                                 TensorsOrSequences &results) {
  if (depth_ >= kGraphDepth) {
    n.error("subgraphs are nested more than " + std::to_string(kGraphDepth) + " deep");
    return false;
  }
  const Location outer = b.location;
  GraphImporter importer(state, b, n.id + "/" + name.str(), opsets, attributes, depth_ + 1);
  for (const Capture &c : captures({&graph}))
    importer.define(c.name, c.item);
  for (size_t i = 0; i < arguments.size() && int(i) < graph.input_size(); ++i)
    importer.define(graph.input(int(i)).name(), arguments[i]);
  const bool ok = importer.importGraph(graph) && importer.results(results);
  b.location = outer;
  return ok;
}

} // namespace tenon::frontend
