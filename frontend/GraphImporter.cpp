// Implements the walk over nodes: operands by name, dispatch through the operator table, inlining
// of model-local functions.
#include "frontend/GraphImporter.h"

#include "frontend/Agreement.h"
#include "frontend/onnx/Attributes.h"
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Table.h"
#include "ir/BornExtents.h"
#include "ir/Entries.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"

namespace tenon::frontend {

//===----------------------------------------------------------------------===//
// ModelImport
//===----------------------------------------------------------------------===//

std::string functionKey(llvm::StringRef domain, llvm::StringRef name, llvm::StringRef overload) {
  std::string key = canonicalDomain(domain).str();
  key += '\0';
  key += name;
  key += '\0';
  key += overload;
  return key;
}

ModelImport::ModelImport(const onnx::ModelProto &model, const ExternalFolder &folder,
                         const ImportOptions &options, Diagnostics &diagnostics)
    : model(model), folder(folder), options(options), diagnostics_(diagnostics) {
  for (const auto &set : model.opset_import())
    opsets.insert({canonicalDomain(set.domain()).str(), set.version()});
  for (const auto &f : model.functions())
    functions.insert({functionKey(f.domain(), f.name(), f.overload()), &f});
}

void ModelImport::flush(llvm::StringRef id, llvm::StringRef op) {
  for (const Diagnostic &d : pending.list()) {
    if (d.severity == Severity::Error && failed_)
      continue;
    Diagnostic &out = diagnostics_.report(d.severity, d.message);
    if (!id.empty())
      out.nodes = {id.str()};
    out.op = op.str();
    out.notes = d.notes;
    failed_ |= d.severity == Severity::Error;
  }
  pending.clear();
}

void ModelImport::error(std::string message, llvm::StringRef id, llvm::StringRef op) {
  pending.error(std::move(message));
  flush(id, op);
}

void ModelImport::warning(std::string message) { diagnostics_.warning(std::move(message)); }

void ModelImport::note(std::string text) {
  for (Diagnostic &d : llvm::reverse(diagnostics_.list()))
    if (d.severity == Severity::Error) {
      d.notes.push_back(std::move(text));
      return;
    }
}

std::vector<std::string> ModelImport::inputsOf(Value *v) const {
  std::vector<std::string> found;
  llvm::SmallVector<Value *, 8> open{v};
  llvm::SmallPtrSet<Value *, 16> seen{v};
  while (!open.empty()) {
    Value *next = open.pop_back_val();
    if (const Operation *op = next->def()) {
      for (Value *operand : op->operands())
        if (seen.insert(operand).second)
          open.push_back(operand);
      continue;
    }
    const auto name = llvm::find_if(names, [&](const auto &n) { return n.second == next; });
    if (name != names.end())
      found.push_back(name->first);
  }
  llvm::sort(found);
  return found;
}

Dim ModelImport::newSymbol(Context &context, llvm::StringRef base, int64_t lower, int64_t upper,
                           llvm::StringRef entry) {
  const std::string stem = base.empty() ? "dim" : base.str();
  std::string name = stem;
  for (int suffix = 2; !symbolNames_.insert(name).second; ++suffix)
    name = stem + "_" + std::to_string(suffix);
  symbols.push_back(context.symbol(entry.empty() ? name : entrySymbol(name, entry), lower, upper));
  return symbols.back();
}

bool ModelImport::isBorn(Dim d) const {
  return mentions(d, llvm::makeArrayRef(symbols).drop_front(inputSymbols));
}

//===----------------------------------------------------------------------===//
// GraphImporter
//===----------------------------------------------------------------------===//

GraphImporter::GraphImporter(ModelImport &state, Builder &builder, std::string path,
                             const Opsets &opsets, const AttributeScope *attributes, int depth)
    : state(state), b(builder), opsets(opsets), attributes(attributes), path_(std::move(path)),
      depth_(depth) {}

llvm::SmallVector<Value *, 8> flattened(llvm::ArrayRef<TensorOrSequence> items) {
  llvm::SmallVector<Value *, 8> values;
  for (const TensorOrSequence &item : items)
    values.append(item.values().begin(), item.values().end());
  return values;
}

llvm::Optional<TensorOrSequence> GraphImporter::find(llvm::StringRef name) const {
  auto it = items_.find(name);
  if (it == items_.end())
    return llvm::None;
  if (Value *v = it->second.tensor())
    return TensorOrSequence(state.pinned(v));
  return it->second;
}

llvm::Optional<Tensor> GraphImporter::tensor(const onnx::TensorProto &data) {
  std::string error;
  auto t = toTensor(data, state.folder, error);
  if (!t)
    state.pending.error(std::move(error));
  return t;
}

bool GraphImporter::importGraph(const onnx::GraphProto &graph) {
  importInitializers(graph);
  std::vector<std::string> wanted;
  for (const auto &output : graph.output())
    wanted.push_back(output.name());
  return !state.failed() && importNodes(graph.node(), std::move(wanted));
}

void GraphImporter::importInitializers(const onnx::GraphProto &graph) {
  // Weights that nothing uses stay in the file.
  llvm::StringSet<> used;
  for (const auto &node : graph.node()) {
    for (const std::string &input : node.input())
      used.insert(input);
    for (const auto &a : node.attribute()) {
      if (a.has_g())
        for (const std::string &name : state.freeNames.of(a.g()))
          used.insert(name);
      for (const auto &g : a.graphs())
        for (const std::string &name : state.freeNames.of(g))
          used.insert(name);
    }
  }
  for (const auto &output : graph.output())
    used.insert(output.name());

  llvm::StringSet<> seen;
  auto add = [&](const std::string &name, auto &&read) {
    if (state.failed() || name.empty() || !used.count(name))
      return;
    if (!seen.insert(name).second)
      return state.error("initialiser " + quoted(name) + " is defined twice");
    std::string error;
    auto t = read(error);
    if (!t)
      return state.error(std::move(error));
    Value *v = b.constant(*t, name);
    state.flush("", "");
    define(name, v);
    if (atTop())
      state.names.push_back({name, v});
  };
  b.location = {};
  for (const auto &t : graph.initializer())
    add(t.name(), [&](std::string &error) { return toTensor(t, state.folder, error); });
  for (const auto &t : graph.sparse_initializer())
    add(t.values().name(), [&](std::string &error) { return toTensor(t, state.folder, error); });
}

bool GraphImporter::importNodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                                std::vector<std::string> wanted) {
  state.nodes += nodes.size();
  if (state.nodes > kNodeLimit) {
    state.error("the model has more than " + std::to_string(kNodeLimit) +
                " nodes after functions are expanded");
    return false;
  }
  const std::vector<std::string> ids = state.ids.assign(nodes, path_);
  llvm::StringMap<int> definer;
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i].output()) {
      if (output.empty())
        continue;
      auto [it, isNew] = definer.insert({output, i});
      if (!isNew || items_.count(output)) {
        state.error("result " + quoted(output) + " is also " +
                        (isNew ? "an input or initializer of the graph"
                               : "a result of node " + quoted(ids[size_t(it->second)])) +
                        "; give it another name",
                    ids[size_t(i)], nodes[i].op_type());
        return false;
      }
    }

  std::vector<const onnx::NodeProto *> list;
  for (const auto &node : nodes)
    list.push_back(&node);
  std::vector<int> cycle;
  const std::vector<int> order = sortNodes(list, state.freeNames, cycle);
  if (!cycle.empty()) {
    std::string names;
    for (size_t i = 0; i < cycle.size() && i < 8; ++i)
      names += (i ? ", " : "") + quoted(ids[size_t(cycle[i])]);
    state.error("nodes depend on each other in a cycle: " + names +
                (cycle.size() > 8 ? " and " + std::to_string(cycle.size() - 8) + " more" : ""));
    return false;
  }
  for (int i : order)
    remaining_.push_back({&nodes[i], ids[size_t(i)]});
  wanted_ = std::move(wanted);
  return importRemaining();
}

bool GraphImporter::importRemaining() {
  while (!remaining_.empty()) {
    const PendingNode next = std::move(remaining_.front());
    remaining_.pop_front();
    if (!importNode(*next.node, next.id))
      return false;
  }
  return true;
}

namespace {
void checkSize(Node &n, const std::string &name, Value *v) {
  int64_t elements = 1;
  for (Dim d : v->type().shape())
    if (elements == 0 || d.upper() == 0)
      elements = 0;
    else if (d.upper() < 0 || d.upper() > kElementLimit / elements) {
      n.error("result " + quoted(name) + " of type " + toString(v->type()) +
              " has more elements than any machine holds");
      return;
    } else
      elements *= d.upper();
}

/// Whether there is text or a complex number among the operands; reports those that `takes`
/// excludes.
bool checkOperands(Node &n, Operands takes) {
  bool opaque = false;
  for (unsigned i = 0; i < n.numInputs(); ++i) {
    if ((n.item(i).elements() || n.item(i).stack()) && takes != Operands::Anything) {
      n.error("operand " + n.inputName(i) + " is a sequence: expected a tensor");
      return false;
    }
    if (!n.has(i) || !isOpaque(n.element(i)))
      continue;
    opaque = true;
    const bool text = n.element(i) == Element::String;
    if (takes == Operands::Numbers || (takes == Operands::Text && !text)) {
      n.error("operand " + n.inputName(i) + " of type " + toString(n.type(i)) +
              " is not supported: expected a tensor of " +
              (takes == Operands::Text ? "real numbers, booleans or text"
                                       : "real numbers or booleans"));
      return false;
    }
  }
  return opaque;
}
} // namespace

bool GraphImporter::importNode(const onnx::NodeProto &node, llvm::StringRef id) {
  b.location = {id.str()};
  const std::string op = qualifiedName(node.domain(), node.op_type());
  TensorsOrSequences inputs;
  for (int i = 0; i < node.input_size(); ++i) {
    const std::string &name = node.input(i);
    auto v = name.empty() ? llvm::Optional<TensorOrSequence>(TensorOrSequence()) : find(name);
    if (!v) {
      state.error("operand " + std::to_string(i) + " " + quoted(name) +
                      " is defined nowhere: expected an input, an initialiser or a node's result",
                  id, op);
      return false;
    }
    inputs.push_back(*v);
  }
  const std::string domain = canonicalDomain(node.domain()).str();
  auto version = opsets.find(domain);
  Node n(*this, node, id, version == opsets.end() ? 1 : version->second, inputs);

  auto function = state.functions.find(functionKey(node.domain(), node.op_type(), node.overload()));
  auto user = state.options.userOperators.find((domain.empty() ? "ai.onnx" : domain) +
                                               "::" + node.op_type());
  if (user != state.options.userOperators.end()) { // also in place of the model's own function
    for (int i = 1; i < node.output_size(); ++i)
      if (!node.output(i).empty())
        n.error("result " + std::to_string(i) + " " + quoted(node.output(i)) +
                ": expected one result, as '" + user->second.path + "' declares it");
    const NamedAttributes values = n.plainAttributes();
    auto results = state.failed() ? llvm::SmallVector<Value *, 2>()
                                  : user->second.build(b, n.inputs(), values);
    for (unsigned i = 0; i < results.size(); ++i)
      n.set(i, results[i]);
  } else if (function != state.functions.end()) {
    importFunction(n, *function->second);
  } else if (const OperatorRow *row = findOperator(domain, node.op_type(), n.opset)) {
    const bool opaque = checkAttributes(n) && checkOperands(n, row->takes);
    for (unsigned i = 0; i < row->required && !state.failed(); ++i)
      if (!n.has(i) && !(row->takes == Operands::Anything && i < n.numInputs()))
        n.error("operand " + std::to_string(i) + " is missing: expected at least " +
                std::to_string(row->required) + " operands, found " +
                std::to_string(node.input_size()));
    if (!state.failed() && opaque && row->takes == Operands::Placed)
      importByPosition(n, row->import);
    else if (!state.failed())
      row->import(n);
  } else {
    n.error("operator is not supported in opset " + std::to_string(n.opset));
  }
  b.location = {id.str()};

  for (int i = 0; i < node.output_size() && !state.failed(); ++i) {
    const std::string &name = node.output(i);
    if (name.empty())
      continue;
    const llvm::Optional<TensorOrSequence> item = n.output(unsigned(i));
    if (!item) {
      n.error("result " + std::to_string(i) + " " + quoted(name) +
              " is not supported with these operands: expected a node without it; take away what "
              "reads it");
      break;
    }
    for (Value *v : item->values()) {
      checkSize(n, name, v);
      if (v->hint().empty())
        v->setHint(name);
    }
    define(name, *item);
    if (atTop() && item->tensor())
      state.names.push_back({name, item->tensor()});
  }
  state.flush(id, op);
  if (!state.failed())
    return true;
  if (std::string remedy = agreement(state, inputs); !remedy.empty())
    state.note(std::move(remedy));
  return false;
}

bool GraphImporter::importFunction(Node &n, const onnx::FunctionProto &function) {
  // A function that reaches itself ends here too.
  if (depth_ >= kGraphDepth) {
    n.error("functions are nested more than " + std::to_string(kGraphDepth) +
            " deep: expected functions that do not call themselves");
    return false;
  }
  if (n.numInputs() > unsigned(function.input_size()) ||
      n.numOutputs() > unsigned(function.output_size())) {
    n.error("function takes " + std::to_string(function.input_size()) + " operands and gives " +
            std::to_string(function.output_size()) + " results, found " +
            std::to_string(n.numInputs()) + " and " + std::to_string(n.numOutputs()));
    return false;
  }
  AttributeScope scope;
  for (const auto &a : function.attribute_proto())
    scope[a.name()] = &a;
  for (const auto &a : n.proto.attribute())
    if (!scope.count(a.name()) && !llvm::is_contained(function.attribute(), a.name())) {
      n.error("attribute " + quoted(a.name()) +
              " is unknown to the function: expected one of its " +
              std::to_string(function.attribute_size() + function.attribute_proto_size()) +
              " attributes; correct the name or take it away");
      return false;
    }
  for (const auto &a : n.proto.attribute())
    if (const onnx::AttributeProto *resolved = n.attr(a.name()))
      scope[a.name()] = resolved;
  Opsets versions = opsets;
  for (const auto &set : function.opset_import())
    versions[canonicalDomain(set.domain()).str()] = set.version();

  const Location outer = b.location;
  GraphImporter inner(state, b, n.id, versions, &scope, depth_ + 1);
  for (int i = 0; i < function.input_size(); ++i)
    inner.define(function.input(i),
                 unsigned(i) < n.numInputs() ? n.item(unsigned(i)) : TensorOrSequence());
  if (const auto run = find(kRandomRun))
    inner.define(kRandomRun, *run);
  TensorsOrSequences results;
  if (inner.importNodes(function.node(), {function.output().begin(), function.output().end()}))
    inner.results(results);
  b.location = outer;
  for (unsigned i = 0; i < results.size(); ++i)
    n.set(i, results[i]);
  return !state.failed();
}

bool GraphImporter::results(TensorsOrSequences &items) {
  for (const std::string &name : wanted_) {
    auto item = find(name);
    if (!item) {
      state.error("output " + quoted(name) + " is defined nowhere" +
                  (path_.empty() ? "" : " in " + quoted(path_)));
      return false;
    }
    items.push_back(*item);
  }
  return true;
}

} // namespace tenon::frontend
