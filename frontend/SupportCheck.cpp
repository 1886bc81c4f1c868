// Implements the check of operators.
#include "frontend/SupportCheck.h"

#include "frontend/onnx/Table.h"

#include "llvm/ADT/StringExtras.h"

namespace tenon::frontend {
namespace {

/// What to do where operators are missing that ONNX Runtime wrote while it optimised the model for
/// one machine or provider; null where there are none.
const char *optimisedFile(const std::map<std::string, std::vector<std::string>> &missing) {
  bool fused = false;
  for (const auto &[op, nodes] : missing) {
    if (llvm::StringRef(op).startswith("com.microsoft.nchwc."))
      return "com.microsoft.nchwc holds weights in the layout of the machine that saved the file: "
             "save it with graph_optimization_level ORT_ENABLE_EXTENDED or lower, or compile the "
             "model from before";
    fused |= llvm::StringRef(op).startswith("com.microsoft.") ||
             llvm::StringRef(op).startswith("com.ms.internal.nhwc.");
  }
  return fused ? "where ONNX Runtime wrote these operators as it optimised the model, save it with "
                 "graph_optimization_level ORT_ENABLE_BASIC, or compile the model from before"
               : nullptr;
}

/// What to do where operators are missing that run a decoder until its text is done.
const char *generation(const std::map<std::string, std::vector<std::string>> &missing) {
  for (const char *op : {"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"})
    if (missing.count(std::string("com.microsoft.") + op))
      return "an operator that generates runs the graph in its attribute decoder: save that graph "
             "as a model of its own and compile it with --decoder=MAX, whose program draws tokens "
             "one by one (docs/language-models.md)";
  return nullptr;
}

class SupportCheck {
public:
  explicit SupportCheck(ModelImport &state) : state_(state) {}

  bool run() {
    visit(state_.model.graph().node(), state_.opsets, "");
    for (const auto &[name, op] : state_.options.userOperators)
      if (!usedOperators_.count(name))
        state_.warning("no node of the model is '" + name + "', which '" + op.path + "' declares");
    if (missing_.empty())
      return true;
    std::string message = "operators are not supported: ";
    bool first = true;
    for (const auto &[op, nodes] : missing_) {
      message += (first ? "" : ", ") + op + " ×" + std::to_string(nodes.size());
      first = false;
    }
    Diagnostic &d = state_.pending.error(message);
    for (const auto &[op, nodes] : missing_) {
      std::string note = op + ": ";
      for (size_t i = 0; i < nodes.size() && i < 8; ++i)
        note += (i ? ", " : "") + quoted(nodes[i]);
      if (nodes.size() > 8)
        note += " and " + std::to_string(nodes.size() - 8) + " more";
      d.notes.push_back(note);
    }
    if (const char *remedy = generation(missing_))
      d.notes.push_back(remedy);
    else if (const char *remedy = optimisedFile(missing_))
      d.notes.push_back(remedy);
    d.notes.push_back("`tenon ops` lists what is supported; an operator of your own is declared "
                      "with --op FILE.tn");
    state_.flush("", "");
    return false;
  }

private:
  void visit(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes, const Opsets &opsets,
             const std::string &path) {
    const std::vector<std::string> ids = ids_.assign(nodes, path);
    for (int i = 0; i < nodes.size(); ++i) {
      const onnx::NodeProto &node = nodes[i];
      check(node, opsets, ids[size_t(i)]);
      for (const auto &a : node.attribute()) {
        if (a.has_g())
          visit(a.g().node(), opsets, ids[size_t(i)] + "/" + a.name());
        for (const auto &g : a.graphs())
          visit(g.node(), opsets, ids[size_t(i)] + "/" + a.name());
      }
    }
  }

  void check(const onnx::NodeProto &node, const Opsets &opsets, const std::string &id) {
    const std::string domain = canonicalDomain(node.domain()).str();
    const std::string declared = (domain.empty() ? "ai.onnx" : domain) + "::" + node.op_type();
    if (state_.options.userOperators.count(declared)) {
      usedOperators_.insert(declared);
      return;
    }
    auto function =
        state_.functions.find(functionKey(node.domain(), node.op_type(), node.overload()));
    if (function != state_.functions.end()) {
      if (!visited_.insert(function->first()).second)
        return;
      Opsets inner = opsets;
      for (const auto &set : function->second->opset_import())
        inner[canonicalDomain(set.domain()).str()] = set.version();
      visit(function->second->node(), inner, id);
      return;
    }
    auto version = opsets.find(domain);
    const int64_t opset = version == opsets.end() ? 1 : version->second;
    if (findOperator(domain, node.op_type(), opset))
      return;
    std::string name = qualifiedName(node.domain(), node.op_type());
    if (name.empty() || llvm::any_of(name, [](char c) { return !llvm::isPrint(c); }))
      name = quoted(name);
    for (const OperatorRow &row : operatorTable())
      if (row.domain == domain && row.name == node.op_type()) {
        name += " of opset " + std::to_string(opset);
        break;
      }
    missing_[name].push_back(id);
  }

  ModelImport &state_;
  NodeIds ids_;
  llvm::StringSet<> visited_;
  llvm::StringSet<> usedOperators_;
  std::map<std::string, std::vector<std::string>> missing_;
};

} // namespace

bool checkSupport(ModelImport &state) { return SupportCheck(state).run(); }

} // namespace tenon::frontend
