// Implements what runs have in common, and runs on the interpreter.
#include "tools/Runner.h"

#include "tools/Files.h"

#include "compiler/CodeOptions.h"
#include "compiler/NativeTarget.h"
#include "compiler/Npy.h"
#include "compiler/OptionForms.h"
#include "ir/Entries.h"
#include "ir/Names.h"
#include "passes/QuantizedIo.h"
#include "tools/CalibrationSet.h"
#include "tools/Devices.h"
#include "tools/Ports.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

#include <cmath>

namespace tenon {

//===----------------------------------------------------------------------===//
// Loading, inputs
//===----------------------------------------------------------------------===//

bool Runner::aim() {
  if (options.code.target == "interpreter")
    return true;
  target = codeTarget(options.code, diagnostics());
  if (!target)
    return fail(Usage);
  if (!canRunHere(*target, diagnostics()))
    return fail(Failed);
  const std::string &other = options.data.against;
  if (other.empty() || other == "interpreter" || isPrecision(other))
    return true;
  auto theirs = resolveTarget(other, diagnostics());
  if (!theirs)
    return fail(Usage);
  return canRunHere(*theirs, diagnostics()) || fail(Failed);
}

bool Runner::load() {
  report.model = options.model.model;
  report.target = options.code.target;
  if (!compiler.open())
    return fail(compiler.status());
  if (!options.data.data.empty() && !readFirstSample("--data", options.data.data, compiler.inputs(),
                                                     compiler.outputs(), data, diagnostics()))
    return fail(Failed);
  compiler.unfold(data.inputCounts, data.outputCounts);
  if (!givenOnce("--input", options.data.inputs, diagnostics()))
    return fail(Usage);
  if (!readInputFiles(options.data.inputs, compiler.inputs(), data, diagnostics()))
    return fail(Failed);
  return compiler.load(data.inputs) || fail(compiler.status());
}

std::vector<uint64_t> Runner::seeds() const {
  const bool given = llvm::any_of(data.inputs, [](const Tensor &t) { return !t.isNull(); }) ||
                     compiler.inputs().empty();
  std::vector<uint64_t> out{given ? uint64_t(0) : 1};
  if (!compiler.inputs().empty())
    for (uint64_t s = 1; s <= options.data.seeds; ++s)
      if (s != out.front())
        out.push_back(s);
  return out;
}

std::string Runner::setName(uint64_t seed) const {
  return seed ? "seed " + std::to_string(seed) : "data";
}

bool Runner::inputsFor(Graph &graph, uint64_t seed, std::vector<Tensor> &inputs, int64_t tokens) {
  SymbolValues symbols;
  if (const Dim count = tokens ? tokensOf(graph) : Dim(); count && count.isSymbol())
    symbols[count.symbol().str()] = tokens;
  return graphInputs(graph, compiler.inputs(), data.inputs, seed, inputs, diagnostics(), symbols) ||
         fail(Failed);
}

std::unique_ptr<Compiler> loadReference(const Runner &runner, llvm::StringRef path) {
  ModelOptions model = runner.options.model;
  model.model = path.str();
  model.io.push_back(runner.compiler.hasQuantizedIo() ? "quantized" : "float");
  auto c = std::make_unique<Compiler>(runner.host, model, runner.options.passes);
  if (c->open()) {
    c->unfold(runner.data.inputCounts, runner.data.outputCounts);
    if (c->load(runner.data.inputs))
      return c;
  }
  runner.host.report(c->diagnostics());
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

/// `own`: what the network gives in its own types and in fp64, once that is measured.
TensorCheck Runner::checkOutput(const OutputCheck &asked, OracleRun &own, size_t i,
                                const Tensor &actual) const {
  const std::string &name = asked.graph.outputNames[i];
  const Module &module = asked.graph.module();
  const double tolerance = options.data.tolerance;
  const bool fromData = asked.seed == 0 && i < data.outputs.size() && !data.outputs[i].isNull();
  // A state stays in the context: one of an extent that the run found is not read from there.
  const bool unread = actual.isNull() && asked.graph.stateOfOutput(i);
  const std::vector<Tensor> &others = asked.expected.outputs;
  if (unread || (!fromData && (others.empty() || others[i].isNull()))) // null: an unread state
    return describe(name, actual);
  if (!fromData && asked.interpreted) {
    const std::vector<Tensor> &exact = asked.expected.exact;
    TensorCheck c = check(name, actual, others[i], exact.empty() ? Tensor() : exact[i], tolerance);
    if (c.with == kWithInterpreter)
      c.with = asked.with;
    return c;
  }
  const Tensor expected = fromData ? expectedOutput(asked.graph, i) : others[i];
  const Tensor compared = fromData ? asCompared(module, name, actual, expected) : actual;
  const llvm::StringRef with = fromData ? llvm::StringRef(kWithData) : asked.with;
  TensorCheck c = check(name, compared, expected, tolerance, with);
  if (c.difference.same || !asked.measure)
    return c;
  if (own.exact.empty())
    asked.measure(own);
  if (own.exact.empty())
    return c;
  // What is expected was rounded, too.
  const double rounding = roundingError(own.outputs[i], own.exact[i]);
  c = check(name, compared, expected,
            std::max(tolerance, 2 * explainedBy(rounding, own.exact[i].size())), with);
  c.difference.rounding = rounding;
  c.leaveUndecided();
  return c;
}

void Runner::checkOutputs(const OutputCheck &asked, llvm::ArrayRef<Tensor> actual) {
  const bool first = report.outputs.empty();
  if (asked.seed == 0 && !data.outputCounts.empty() && data.outputs.size() != actual.size()) {
    TensorCheck c;
    c.name = "outputs";
    c.set = setName(asked.seed);
    c.compared = true;
    c.difference.same = false;
    c.difference.error = HUGE_VAL;
    c.difference.reason = "the model gives " + std::to_string(actual.size()) +
                          " tensors, the data has " + std::to_string(data.outputs.size());
    report.outputs.push_back(std::move(c));
    return;
  }
  if (asked.interpreted && asked.measure)
    asked.measure(asked.expected);
  OracleRun own;
  for (size_t i = 0; i < actual.size(); ++i) {
    TensorCheck c = checkOutput(asked, own, i, actual[i]);
    c.set = asked.set.empty() ? setName(asked.seed) : asked.set;
    report.outputCoverage.add(c);
    if (first)
      report.outputs.push_back(std::move(c));
    else if (!c.difference.same && report.outputs[i].difference.same)
      report.outputs[i] = std::move(c); // a seed found what the data did not show
  }
}

void Runner::addGroupCheck(TensorCheck c) {
  report.groupCoverage.add(c);
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
  const ValueNames names(compiler.module().graph());
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (auto &[name, value] : compiler.names()) {
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
  Module &module = compiler.module();
  std::unique_ptr<Compiler> other;
  if (!options.data.reference.empty())
    other = loadReference(*this, options.data.reference);
  else if (groups)
    other = loadReference(*this, options.model.model);
  if (!other && (groups || !options.data.reference.empty()))
    return fail(Failed);
  const bool reference = !options.data.reference.empty();
  if (other && !reference && !other->group()) {
    host.report(other->diagnostics());
    return fail(other->status());
  }

  llvm::Optional<CommonNames> common;
  if (other && groups)
    common.emplace(other->module().graph(), module.graph());
  const bool narrow = isNarrow(module);
  for (uint64_t seed : seeds()) {
    host.progress("interpreting " + setName(seed));
    std::vector<Tensor> inputs;
    if (!inputsFor(module.graph(), seed, inputs))
      return false;
    OracleRun mine, theirs;
    OracleOptions keeping;
    if (!options.data.saveAll.empty())
      keeping.keep = [](llvm::StringRef) { return true; };
    else if (groups)
      keeping.keep = [&](llvm::StringRef name) { return common->isInB(name); };
    if (!interpretGraph(module.graph(), inputs, mine, diagnostics(), keeping))
      return fail(Failed);
    report.milliseconds.push_back(mine.milliseconds);
    if (report.outputs.empty()) {
      outputs = mine.outputs;
      if (!options.data.saveAll.empty() && !saveEveryTensor(mine, inputs))
        return fail(Failed);
    }
    const bool ok = !other ? true
                    : groups
                        ? checkGroups(*common, *other, inputs, mine, seed, theirs)
                        : interpretGraph(other->module().graph(), inputs, theirs, diagnostics());
    if (!ok)
      return fail(Failed);
    OutputCheck check{module.graph(), seed,
                      reference ? "the interpreter on the reference" : "the network as imported",
                      theirs};
    check.measure = [&](OracleRun &own) {
      own.outputs = mine.outputs;
      if (narrow)
        interpretWide(module.graph(), inputs, own);
    };
    checkOutputs(check, mine.outputs);
  }
  return true;
}

/// Groups of `other` are compared with the values of the module under test, or with the reference:
/// on the values of the module as imported, so that a difference is seen where it arises and
/// nowhere else. Values are let go once they are compared.
bool Runner::checkGroups(const CommonNames &common, Compiler &other, llvm::ArrayRef<Tensor> inputs,
                         OracleRun &mine, uint64_t seed, OracleRun &theirs) {
  const bool reference = !options.data.reference.empty();
  const bool narrow = isNarrow(other.module());
  const ValueNames names(other.module().graph());
  OracleOptions watching;
  auto imported = [&](llvm::StringRef name) -> const Tensor * {
    auto it = mine.values.find(common.inB(name).str());
    return it == mine.values.end() ? nullptr : &it->second;
  };
  watching.after = [&](const Operation &op, llvm::ArrayRef<Tensor> operands,
                       llvm::ArrayRef<Tensor> results, const SymbolValues &symbols) {
    llvm::SmallVector<Tensor, 2> exact;
    std::string why;
    for (unsigned i = 0; i < op.numResults() && !op.is(Op::Constant); ++i) {
      const std::string name = names[op.result(i)].str();
      const Tensor *own = imported(name), &value = results[i];
      if (!own || own->shape() != value.shape() || own->element() != value.element()) {
        if (seed == seeds().front())
          report.unmatched.push_back(name);
        continue;
      }
      double tolerance = options.data.groupTolerance, rounding = -1;
      const Tensor &actual = reference ? *own : value, &expected = reference ? value : *own;
      const std::string with =
          reference ? "the interpreter on the reference" : "the network as imported";
      TensorCheck c = check(name, actual, expected, tolerance, with);
      if (!c.difference.same && narrow && exact.empty() &&
          !evaluateWide(op, operands, symbols, exact, why))
        exact.assign(op.numResults(), Tensor());
      if (!c.difference.same && narrow && !exact[i].isNull()) {
        rounding = roundingError(value, exact[i]);
        tolerance = std::max(tolerance, 2 * explainedBy(rounding, value.size()));
        c = check(name, actual, expected, tolerance, with);
        c.difference.rounding = rounding;
      }
      c.set = setName(seed);
      addGroupCheck(std::move(c));
      if (reference)
        mine.values.erase(common.inB(name).str());
    }
  };
  Tensor fed;
  if (!reference)
    watching.feed = [&](llvm::StringRef name) -> const Tensor * {
      const Tensor *own = imported(name);
      if (!own)
        return nullptr;
      fed = *own;
      mine.values.erase(common.inB(name).str());
      return &fed;
    };
  return interpretGraph(other.module().graph(), inputs, theirs, diagnostics(), watching);
}

bool Runner::run() {
  report.asked = options.data.check == "groups" || !options.data.against.empty() ||
                 !options.data.reference.empty() ||
                 llvm::any_of(data.outputs, [](const Tensor &t) { return !t.isNull(); });
  bool ok;
  if (options.code.target == "interpreter") {
    if (const std::string &other = options.data.against; !other.empty()) {
      diagnostics().error("--against=" + other +
                          ": the interpreter is what others are compared with; give --target=" +
                          (other == "interpreter" ? "cpu:native" : other) +
                          " --against=interpreter");
      return fail(Usage);
    }
    ok = runOnInterpreter();
  } else {
    if (!options.data.saveAll.empty()) {
      diagnostics().error("--save-all needs --target=interpreter: generated code does not keep "
                          "every tensor");
      return fail(Usage);
    }
    report.target = target->name;
    ok = runCompiled();
  }
  if (!ok)
    return false;
  report.sortGroups();
  if (options.data.save.empty())
    return true;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].isNull()) // a compiled program keeps its states
      tensors.push_back({compiler.module().graph().outputNames[i], outputs[i]});
  return saveTensors(options.data.save, tensors, "output", diagnostics()) || fail(Failed);
}

} // namespace tenon
