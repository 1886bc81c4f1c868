// Implements the checks of a user operator's declaration. Nothing in the file is ignored: what has
// no meaning there may be a slip for something that has.
#include "frontend/UserDeclaration.h"

#include "ir/Suggestion.h"
#include "ir/UserFunction.h"

#include <set>

namespace tenon {
namespace {

class DeclarationCheck {
public:
  DeclarationCheck(const Module &module, const TextPlaces &places, Diagnostics &diagnostics)
      : module_(module), places_(places), diagnostics_(diagnostics) {}

  void run() {
    checkName();
    if (module_.stage != Stage::Imported)
      error(places_.stage,
            "expected stage=imported, found stage=" + tenon::name(module_.stage).str());
    checkFacts();
    checkGraph();
    checkSymbols();
  }

private:
  void error(llvm::SMLoc where, std::string message) {
    diagnostics_.error(std::move(message)).where = where;
  }

  void checkName() {
    llvm::StringRef domain, type; // named: clang 14 captures no structured bindings
    std::tie(domain, type) = llvm::StringRef(module_.name).rsplit("::");
    if (domain.empty() || type.empty())
      error(places_.name, "expected the module's name to be DOMAIN::OPERATOR, such as "
                          "com.example::Scale, or ai.onnx::Relu in place of an operator of the "
                          "standard; found '" +
                              module_.name + "'");
  }

  /// What the importer notes about a model: a declaration may come from one.
  static bool isAboutSource(llvm::StringRef key) {
    return key == "sha256" || key == "nodes" || key == "ir_version" || key == "producer" ||
           key == "opset" || key.startswith("opset.");
  }

  void checkFacts() {
    static const llvm::StringRef kFacts[] = {"function", "header"};
    for (const auto &[key, value] : module_.facts) {
      const llvm::SMLoc where = places_.facts.at(key);
      if (key == "function")
        mayStand(where, key, whyNoFunctionName(value));
      else if (key == "header")
        mayStand(where, key, whyNoHeaderName(value));
      else if (!isAboutSource(key))
        error(where,
              "unknown fact '" + key + "': expected " + oneOf(kFacts) + didYouMean(key, kFacts));
    }
    auto function = module_.facts.find("function"), header = module_.facts.find("header");
    const auto end = module_.facts.end();
    if (header != end && function == end && !diagnostics_.hasErrors())
      error(places_.facts.at("header"),
            "fact 'header' needs a fact 'function', which names what the header declares; without "
            "both, the body is what is compiled");
    if (function != end && header == end && llvm::StringRef(function->second).contains("::") &&
        !diagnostics_.hasErrors())
      error(places_.facts.at("function"),
            "'" + function->second +
                "' is declared by no header: expected a fact 'header', or the "
                "name of a C function");
  }

  void mayStand(llvm::SMLoc where, const std::string &key, const std::string &why) {
    if (!why.empty())
      error(where, "fact '" + key + "': " + why);
  }

  void checkGraph() {
    if (module_.graphs.size() > 1)
      error(places_.graphs[1], "expected one graph, the operator's reference body; found " +
                                   std::to_string(module_.graphs.size()));
    const Graph &graph = module_.graph();
    const llvm::SMLoc where = places_.graphs.front();
    if (graph.outputNames.size() != 1)
      error(where, "expected one output, found " + std::to_string(graph.outputNames.size()));
    if (!graph.states.empty())
      error(where, "expected no state: an operator keeps nothing between runs");
    if (!graph.target.empty())
      error(where, "expected no target: the body serves every one");
    std::set<std::string> names;
    for (unsigned i = 0; i < graph.inputNames.size(); ++i) {
      const std::string &name = graph.inputNames[i];
      const Type type = graph.body().argument(i)->type();
      if (name.empty() || !names.insert(name).second)
        error(places_.inputs[i], "expected a name of its own for input " + std::to_string(i) +
                                     ", found '" + name + "'");
      if (!type.isTensor())
        error(places_.inputs[i],
              "input '" + name + "': expected a tensor, found " + toString(type) +
                  (type.isScalar() ? "; a single number is tensor<" + toString(type) + ">" : ""));
      else if (!type.layout().isRowMajor())
        error(places_.inputs[i],
              "input '" + name + "': expected a dense row-major tensor, found " + toString(type));
      else
        checkPointer(places_.inputs[i], "input '" + name + "'", type);
    }
    if (const Operation *end = module_.graph().returnOp(); end->numOperands() > 0)
      checkPointer(where, "output", end->operand(0)->type());
  }

  void checkPointer(llvm::SMLoc where, const std::string &what, Type type) {
    const Element e = type.element();
    if (module_.facts.count("function") && bitWidth(e) < 8 && !isBool(e))
      error(where, what + ": elements of type " + tenon::name(e).str() +
                       " lie several to a byte and have no pointers, which the fact 'function' "
                       "promises: leave it out, or expect i8");
  }

  void checkSymbols() {
    std::set<std::string> declared, given;
    for (Dim s : module_.symbols)
      declared.insert(s.symbol().str());
    for (const Value *a : module_.graph().body().arguments())
      if (a->type().isTensor())
        for (Dim d : a->type().shape())
          if (d.isSymbol())
            given.insert(d.symbol().str());
    const std::vector<llvm::StringRef> known(declared.begin(), declared.end());
    for (const auto &[name, where] : places_.symbols)
      if (!declared.count(name))
        error(where, "symbol " + name + " is not declared: expected a line `symbol " + name +
                         " = LOWER..UPPER` before the graph" + didYouMean(name, known));
      else if (!given.count(name))
        error(where, "symbol " + name +
                         " is the extent of no input: expected an input with an "
                         "extent {" +
                         name + "}, from which its value follows");
  }

  const Module &module_;
  const TextPlaces &places_;
  Diagnostics &diagnostics_;
};

} // namespace

void checkUserDeclaration(const Module &module, const TextPlaces &places,
                          Diagnostics &diagnostics) {
  DeclarationCheck(module, places, diagnostics).run();
}

} // namespace tenon
