// Implements what runs have in common, and runs on the interpreter.
#include "driver/Runner.h"

#include "driver/NativeTarget.h"
#include "driver/Npy.h"
#include "driver/Ports.h"
#include "ir/Names.h"
#include "passes/QuantizedIo.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <cmath>

namespace tenon {

//===----------------------------------------------------------------------===//
// Loading, inputs
//===----------------------------------------------------------------------===//

bool Runner::load() {
  report.model = options.model.model;
  report.target = options.code.target;
  if (!compilation.open())
    return fail(compilation.status());
  if (!options.data.data.empty() && !readDataSet("--data", options.data.data, compilation.inputs(),
                                                 compilation.outputs(), data, diagnostics()))
    return fail(Failed);
  compilation.unfold(data.inputCounts, data.outputCounts);
  if (!givenOnce("--input", options.data.inputs, diagnostics()))
    return fail(Usage);
  if (!readInputFiles(options.data.inputs, compilation.inputs(), data, diagnostics()))
    return fail(Failed);
  return compilation.load(data.inputs) || fail(compilation.status());
}

std::vector<uint64_t> Runner::seeds() const {
  const bool given = llvm::any_of(data.inputs, [](const Tensor &t) { return !t.isNull(); }) ||
                     compilation.inputs().empty();
  std::vector<uint64_t> out{given ? uint64_t(0) : 1};
  if (options.data.check == "groups" && !compilation.inputs().empty())
    for (uint64_t s = 1; s <= options.data.seeds; ++s)
      if (s != out.front())
        out.push_back(s);
  return out;
}

std::string Runner::setName(uint64_t seed) const {
  return seed ? "seed " + std::to_string(seed) : "data";
}

bool Runner::inputsFor(Graph &graph, uint64_t seed, std::vector<Tensor> &inputs) {
  return graphInputs(graph, compilation.inputs(), data.inputs, seed, inputs, diagnostics()) ||
         fail(Failed);
}

std::unique_ptr<Compilation> loadReference(const Runner &runner, llvm::StringRef path) {
  ModelOptions model = runner.options.model;
  model.model = path.str();
  model.io.push_back(runner.compilation.hasQuantizedIo() ? "quantized" : "float");
  auto c = std::make_unique<Compilation>(runner.console, model, runner.options.passes);
  if (c->open()) {
    c->unfold(runner.data.inputCounts, runner.data.outputCounts);
    if (c->load(runner.data.inputs))
      return c;
  }
  runner.console.report(c->diagnostics());
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// In the model's type where what is expected has that.
static Tensor asCompared(const Module &module, const std::string &port, const Tensor &actual,
                         const Tensor &expected) {
  return actual.element() == expected.element() ? actual : toModel(module, port, actual);
}

/// The data's output in the form that --io gave it; integers are compared in the model's type.
Tensor Runner::expectedOutput(Graph &graph, size_t i) const {
  const std::string &port = graph.outputNames[i];
  const Tensor &own = data.outputs[i];
  const auto form = portForm(graph.module(), port);
  if (!form)
    return own;
  return portTensor(own, *form,
                    portQuantization(graph.module(), port)
                        ? own.element()
                        : graph.returnOp()->operand(unsigned(i))->type().element());
}

TensorCheck Runner::checkData(Graph &graph, size_t i, const Tensor &actual) const {
  const std::string &name = graph.outputNames[i];
  const Tensor expected = expectedOutput(graph, i);
  return check(name, asCompared(graph.module(), name, actual, expected), expected,
               options.data.tolerance);
}

void Runner::checkOutputs(Graph &graph, llvm::ArrayRef<Tensor> actual, const OracleRun *expected,
                          uint64_t seed) {
  const bool first = report.outputs.empty();
  if (seed == 0 && !data.outputCounts.empty() && data.outputs.size() != actual.size()) {
    TensorCheck c;
    c.name = "outputs";
    c.set = setName(seed);
    c.compared = true;
    c.difference.same = false;
    c.difference.error = HUGE_VAL;
    c.difference.reason = "the model gives " + std::to_string(actual.size()) +
                          " tensors, the data has " + std::to_string(data.outputs.size());
    report.outputs.push_back(std::move(c));
    return;
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    const std::string &name = graph.outputNames[i];
    TensorCheck c;
    // A state stays in the context: one of an extent that the run found is not read from there.
    if (actual[i].isNull() &&
        llvm::any_of(graph.states, [&](const State &s) { return s.output == i; }))
      c = describe(name, actual[i]);
    else if (seed == 0 && i < data.outputs.size() && !data.outputs[i].isNull())
      c = checkData(graph, i, actual[i]);
    else if (expected && !expected->outputs[i].isNull()) // null: a state of another program
      c = check(name, actual[i], expected->outputs[i], options.data.tolerance);
    else
      c = describe(name, actual[i]);
    c.set = setName(seed);
    if (first)
      report.outputs.push_back(std::move(c));
    else if (!c.difference.same && report.outputs[i].difference.same)
      report.outputs[i] = std::move(c); // a seed found what the data did not show
  }
}

void Runner::addGroupCheck(TensorCheck c) {
  auto [it, added] = groupIndex_.insert({c.name, report.groups.size()});
  if (added) {
    report.groups.push_back(std::move(c));
    return;
  }
  TensorCheck &kept = report.groups[it->second];
  if (!(c.difference.error <= kept.difference.error))
    kept = std::move(c);
}

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

bool saveTensors(llvm::StringRef folder, llvm::ArrayRef<std::pair<std::string, Tensor>> tensors,
                 llvm::StringRef stem, Diagnostics &diagnostics) {
  if (!makeFolder(folder, diagnostics))
    return false;
  OutputFiles files(diagnostics);
  llvm::StringSet<> taken;
  std::string index;
  llvm::raw_string_ostream os(index);
  llvm::json::OStream json(os, 1);
  bool ok = true;
  size_t k = 0;
  json.objectBegin();
  for (auto &[name, tensor] : tensors) {
    // A name that is no safe file name gives way to a number.
    const bool plain =
        !name.empty() && name.size() < 100 && name[0] != '.' && llvm::all_of(name, [](char c) {
          return isalnum(static_cast<unsigned char>(c)) || strchr("._-", c);
        });
    std::string file = plain ? name : (stem + "_" + llvm::Twine(k)).str();
    if (!taken.insert(llvm::StringRef(file).lower()).second) {
      file = (stem + "_" + llvm::Twine(k) + "_").str();
      taken.insert(llvm::StringRef(file).lower());
    }
    file += ".npy";
    json.attribute(llvm::json::fixUTF8(name), file);
    ok = ok && files.add((folder + "/" + file).str(), npyBytes(tensor));
    ++k;
  }
  json.objectEnd();
  os << '\n';
  return ok && files.add((folder + "/names.json").str(), os.str()) && files.commit();
}

bool Runner::saveEveryTensor(const OracleRun &run, llvm::ArrayRef<Tensor> inputs) {
  const ValueNames names(compilation.module().graph());
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (auto &[name, value] : compilation.names()) {
    Tensor t;
    if (value->argumentOf())
      t = inputs[value->index()];
    else if (auto it = run.values.find(names[value].str()); it != run.values.end())
      t = it->second;
    else if (const Attribute *a = value->def()->find("value"); a && a->get<Literal>())
      t = **a->get<Literal>();
    if (!t.isNull())
      tensors.push_back({name, std::move(t)});
  }
  return saveTensors(options.data.saveAll, tensors, "tensor", diagnostics());
}

//===----------------------------------------------------------------------===//
// Interpreter
//===----------------------------------------------------------------------===//

/// The model as imported; its groups are those of the optimised module, whose values are compared
/// with the imported module's of the same name and shape.
bool Runner::runOnInterpreter() {
  const bool groups = options.data.check == "groups";
  Module &module = compilation.module();
  std::unique_ptr<Compilation> other;
  if (!options.data.reference.empty())
    other = loadReference(*this, options.data.reference);
  else if (groups)
    other = loadReference(*this, options.model.model);
  if (!other && (groups || !options.data.reference.empty()))
    return fail(Failed);
  const bool reference = !options.data.reference.empty();
  if (other && !reference && !other->group()) {
    console.report(other->diagnostics());
    return fail(other->status());
  }

  llvm::Optional<CommonNames> common;
  if (other && groups)
    common.emplace(other->module().graph(), module.graph());
  for (uint64_t seed : seeds()) {
    console.progress("interpreting " + setName(seed));
    std::vector<Tensor> inputs;
    if (!inputsFor(module.graph(), seed, inputs))
      return false;
    OracleRun mine, theirs;
    const bool everyValue = groups || !options.data.saveAll.empty();
    if (!interpretModule(module, inputs, everyValue, mine, diagnostics()))
      return fail(Failed);
    report.milliseconds.push_back(mine.milliseconds);
    if (report.outputs.empty()) {
      outputs = mine.outputs;
      if (!options.data.saveAll.empty() && !saveEveryTensor(mine, inputs))
        return fail(Failed);
    }
    // Groups are compared on the values of the module as imported, so that a difference is seen
    // where it arises and nowhere else.
    auto imported = [&](llvm::StringRef name) -> const Tensor * {
      auto it = mine.values.find(common->inB(name).str());
      return it == mine.values.end() ? nullptr : &it->second;
    };
    if (other && !interpretModule(other->module(), inputs, groups, theirs, diagnostics(),
                                  groups && !reference ? ValueSource(imported) : ValueSource()))
      return fail(Failed);
    checkOutputs(module.graph(), mine.outputs, other ? &theirs : nullptr, seed);
    for (auto &[name, value] : theirs.values) {
      auto it = mine.values.find(common->inB(name).str());
      if (it == mine.values.end() || it->second.shape() != value.shape() ||
          it->second.element() != value.element()) {
        if (seed == seeds().front())
          report.unmatched.push_back(name);
        continue;
      }
      TensorCheck c = reference ? check(name, it->second, value, options.data.groupTolerance)
                                : check(name, value, it->second, options.data.groupTolerance);
      c.set = setName(seed);
      addGroupCheck(std::move(c));
    }
  }
  return true;
}

bool Runner::run() {
  bool ok;
  if (options.code.target == "interpreter") {
    if (!options.data.against.empty() && options.data.against != "interpreter") {
      diagnostics().error("--against=" + options.data.against +
                          ": the interpreter is what others are compared with; give --target=" +
                          options.data.against + " --against=interpreter");
      return fail(Usage);
    }
    ok = runOnInterpreter();
  } else {
    if (!options.data.saveAll.empty()) {
      diagnostics().error("--save-all needs --target=interpreter: generated code does not keep "
                          "every tensor");
      return fail(Usage);
    }
    auto target = resolveTarget(options.code.target, diagnostics());
    if (!target)
      return fail(Usage);
    report.target = target->name;
    ok = runCompiled(*target);
  }
  if (!ok)
    return false;
  report.sortGroups();
  if (options.data.save.empty())
    return true;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].isNull()) // a compiled program keeps its states
      tensors.push_back({compilation.module().graph().outputNames[i], outputs[i]});
  return saveTensors(options.data.save, tensors, "output", diagnostics()) || fail(Failed);
}

} // namespace tenon
