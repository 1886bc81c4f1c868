// Implements `tenon debug`: the first group whose error against the interpreter exceeds a bound.
// The groups are those of the compiled program: fusion stays as it is.
#include "driver/Commands.h"
#include "driver/Runner.h"

#include "llvm/Support/Format.h"

namespace tenon {
namespace {

int run(const RunOptions &options) {
  Console console(options.console);
  Runner runner(options, console);
  if (options.code.target == "interpreter") {
    console.error(
        "`tenon debug` compares a compiled program with the interpreter; name another target");
    return Usage;
  }
  const bool ok = runner.load() && runner.run();
  console.report(runner.diagnostics());
  if (!ok)
    return runner.status == Done ? int(Failed) : runner.status;
  RunReport &report = runner.report;
  if (console.json()) {
    report.printJson(llvm::outs());
    return report.pass() ? Done : Failed;
  }
  std::vector<const TensorCheck *> order;
  for (const TensorCheck &c : report.groups)
    order.push_back(&c);
  std::stable_sort(order.begin(), order.end(),
                   [](const TensorCheck *a, const TensorCheck *b) { return a->step < b->step; });
  const TensorCheck *first = nullptr;
  for (const TensorCheck *c : order) {
    if (!c->difference.same && !first)
      first = c;
    if (!console.verbose())
      continue;
    llvm::outs() << llvm::format("%5d  %8.2g  ", c->step, c->difference.error)
                 << (c->difference.same ? "     " : "FAIL ") << c->name << '\n';
  }
  if (!first) {
    llvm::outs() << report.groups.size() << " group values are within "
                 << llvm::format("%g", options.data.groupTolerance)
                 << " of the interpreter's\nPASS\n";
    return report.pass() ? Done : Failed;
  }
  llvm::outs() << "first difference: step " << first->step << ", value '" << first->name << "' ("
               << first->set << ")\n  " << first->difference.reason
               << llvm::format("\n  error %.2g, bound %g\n  nodes", first->difference.error,
                               options.data.groupTolerance);
  for (const std::string &n : first->nodes)
    llvm::outs().write_escaped((" '" + n + "'"));
  llvm::outs() << "\nFAIL\n";
  return Failed;
}

} // namespace

void declareDebug(CommandLine &app) {
  auto options = std::make_shared<RunOptions>();
  options->data.check = "groups";
  options->data.seeds = 0;
  CommandLine sub = app.command("debug", "finds the first group whose numbers are wrong");
  sub.option("--data", options->data.data, "a test data set whose inputs are used").type("DIR");
  sub.option("--bound", options->data.groupTolerance,
             "largest error, relative to the tensor's largest value")
      .nonNegative()
      .type("E")
      .showDefault();
  sub.option("--seeds", options->data.seeds, "seeded inputs beside the data set")
      .type("N")
      .showDefault();
  sub.option("--reference", options->data.reference,
             "the interpreter computes what is expected from this model instead")
      .type("MODEL");
  declare(sub, options->model);
  declare(sub, options->code);
  declare(sub, options->passes);
  declare(sub, options->console);
  sub.runs([options] { return run(*options); });
}

} // namespace tenon
