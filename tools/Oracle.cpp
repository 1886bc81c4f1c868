// Implements runs of the interpreter and the choice of inputs.
#include "tools/Oracle.h"

#include "ir/Names.h"
#include "passes/PortForm.h"
#include "passes/QuantizedIo.h"
#include "tools/Compare.h"
#include "tools/MemoryImage.h"
#include "tools/Ports.h"

#include <chrono>

namespace tenon {
namespace {

/// A value for each symbol of an extent that has none yet: the lower bound, at least 1.
void choose(Dim d, SymbolValues &symbols) {
  if (d.isSymbol())
    symbols.insert({d.symbol().str(), std::max<int64_t>(d.lower(), 1)});
  else if (!d.isConstant()) {
    if (d.node()->lhs)
      choose(Dim(d.node()->lhs), symbols);
    if (d.node()->rhs)
      choose(Dim(d.node()->rhs), symbols);
  }
}

/// Data of the model's own form as the graph's input takes it.
Tensor asPort(Graph &graph, unsigned input, const Tensor &own, Diagnostics *diagnostics) {
  const std::string &port = graph.inputNames[input];
  const auto form = portForm(graph.module(), port);
  if (!form)
    return own;
  int64_t changed = 0;
  // Quantising comes after this.
  const Element element = portQuantization(graph.module(), port)
                              ? own.element()
                              : graph.body().argument(input)->type().element();
  Tensor t = portTensor(own, *form, element, &changed);
  if (changed && diagnostics)
    diagnostics->warning("input '" + port + "': " + std::to_string(changed) + " of " +
                         std::to_string(own.size()) + " values of the data are no " +
                         name(element).str() + " and were rounded to it");
  return t;
}

/// Results of operations at graph level, constants left out.
void forEachComputed(Graph &graph, llvm::function_ref<void(Value *)> visit) {
  for (Operation &op : graph.body())
    if (!op.is(Op::Constant))
      for (Value *v : op.results())
        visit(v);
}

/// Names by hint, of hints that one value alone has.
llvm::StringMap<std::string> namesByHint(Graph &graph, const ValueNames &names) {
  llvm::StringMap<unsigned> uses;
  forEachComputed(graph, [&](Value *v) { ++uses[v->hint()]; });
  llvm::StringMap<std::string> out;
  forEachComputed(graph, [&](Value *v) {
    if (!v->hint().empty() && uses.lookup(v->hint()) == 1)
      out[sanitizeName(v->hint())] = names[v].str();
  });
  return out;
}

} // namespace

CommonNames::CommonNames(Graph &a, Graph &b) {
  const ValueNames namesA(a), namesB(b);
  std::vector<std::string> allA, allB;
  forEachComputed(a, [&](Value *v) { allA.push_back(namesA[v].str()); });
  forEachComputed(b, [&](Value *v) { allB.push_back(namesB[v].str()); });
  if (allA == allB) {
    for (const std::string &name : allA)
      names_[name] = name, inB_.insert(name);
    return;
  }
  const llvm::StringMap<std::string> hintsB = namesByHint(b, namesB);
  for (const auto &entry : namesByHint(a, namesA))
    if (auto it = hintsB.find(entry.getKey()); it != hintsB.end())
      names_[entry.getValue()] = it->getValue(), inB_.insert(it->getValue());
}

llvm::StringRef CommonNames::inB(llvm::StringRef name) const {
  auto it = names_.find(name);
  return it == names_.end() ? llvm::StringRef() : llvm::StringRef(it->getValue());
}

bool interpretGraph(Graph &graph, llvm::ArrayRef<Tensor> inputs, OracleRun &run,
                    Diagnostics &diagnostics, const OracleOptions &options) {
  InterpreterOptions interpreter;
  interpreter.after = options.after;
  llvm::Optional<ValueNames> names;
  if (options.keep || options.feed) {
    names.emplace(graph);
    interpreter.observe = [&](Value *v, Tensor &t) {
      if (!v->def() || v->def()->is(Op::Constant))
        return;
      const std::string name = (*names)[v].str();
      if (options.keep && options.keep(name))
        run.values[name] = t;
      const Tensor *fed = options.feed ? options.feed(name) : nullptr;
      if (fed && fed->shape() == t.shape() && fed->element() == t.element())
        t = *fed;
    };
  }
  const auto start = std::chrono::steady_clock::now();
  const bool ok = interpret(graph, inputs, run.outputs, diagnostics, interpreter);
  run.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return ok;
}

bool isNarrow(Module &module) {
  bool narrow = false;
  module.graph().body().walk([&](Operation *op) {
    narrow |= op->wordAttr("precision") == "tf32" || op->has("a_bits");
    for (Value *v : op->results())
      narrow |= v->type().isTensor() && isFloat(v->type().element()) &&
                bitWidth(v->type().element()) == 16;
  });
  return narrow;
}

void interpretWide(Graph &graph, llvm::ArrayRef<Tensor> inputs, OracleRun &run) {
  InterpreterOptions options;
  options.wide = true;
  Diagnostics unsaid;
  if (!interpret(graph, inputs, run.exact, unsaid, options))
    run.exact.clear();
}

namespace {
/// Input i is a state that the model does not declare: the number of the run. It begins at zero.
bool isHiddenState(const Graph &graph, llvm::ArrayRef<DeclaredTensor> declared, unsigned i) {
  return graph.stateOfInput(i) && llvm::none_of(declared, [&](const DeclaredTensor &d) {
           return d.name == graph.inputNames[i];
         });
}
} // namespace

bool graphInputs(Graph &graph, llvm::ArrayRef<DeclaredTensor> declared, llvm::ArrayRef<Tensor> data,
                 uint64_t seed, std::vector<Tensor> &inputs, Diagnostics &diagnostics,
                 SymbolValues symbols) {
  const unsigned count = graph.body().numArguments();
  std::vector<Tensor> given(count);
  for (unsigned i = 0; i < count; ++i)
    for (size_t k = 0; k < declared.size() && k < data.size(); ++k)
      if (declared[k].name == graph.inputNames[i] && !data[k].isNull()) {
        given[i] = asPort(graph, i, data[k], seed == 0 ? &diagnostics : nullptr);
        bindSymbols(graph.body().argument(i)->type(), given[i].shape(), symbols);
      }
  inputs.clear();
  for (unsigned i = 0; i < count; ++i) {
    const Type type = graph.body().argument(i)->type();
    const std::string &name = graph.inputNames[i];
    if (!given[i].isNull() && seed == 0) {
      inputs.push_back(toInterface(graph.module(), name, type.element(), given[i]));
      continue;
    }
    if (!type.isTensor()) {
      diagnostics.error("input '" + graph.inputNames[i] + "' of type " + toString(type) +
                        " has no seeded values; give it with --input or --data");
      return false;
    }
    llvm::SmallVector<int64_t, 6> shape;
    int64_t elements = 1;
    for (Dim d : type.shape()) {
      choose(d, symbols);
      const auto v = valueOf(d, symbols);
      elements *= v ? std::max<int64_t>(*v, 1) : 1;
      if (!v || *v > (int64_t(1) << 32) || elements > (int64_t(1) << 32)) {
        diagnostics.error("input '" + graph.inputNames[i] + "': no extent can be chosen for " +
                          toString(type) + "; give it with --bind, --shape or --data");
        return false;
      }
      shape.push_back(*v);
    }
    if (seed == 0 && isHiddenState(graph, declared, i)) {
      inputs.emplace_back(type.element(), shape);
      continue;
    }
    // The same values of the model's, whatever its interface.
    const Element own = portQuantization(graph.module(), name) ? Element::F32 : type.element();
    const Tensor value = randomTensor(own, shape, given[i], seed * 1000003 + i + 1);
    inputs.push_back(toInterface(graph.module(), name, type.element(), value));
  }
  return true;
}

SymbolValues symbolValues(Graph &graph, llvm::ArrayRef<Tensor> inputs) {
  SymbolValues symbols;
  for (int round = 0; round < 2; ++round) // one input's extents may follow from another's
    for (unsigned i = 0; i < graph.body().numArguments() && i < inputs.size(); ++i)
      if (graph.body().argument(i)->type().isTensor())
        bindSymbols(graph.body().argument(i)->type(), inputs[i].shape(), symbols);
  return symbols;
}

} // namespace tenon
