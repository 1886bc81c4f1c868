// Implements `tenon debug`: the first group whose error against the interpreter exceeds a bound.
// The groups are those of the compiled program: fusion stays as it is.
#include "driver/Commands.h"
#include "driver/Console.h"
#include "driver/Options.h"
#include "tools/Runner.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

namespace tenon {
namespace {

struct DebugOptions : RunOptions {
  ConsoleOptions console;
};

int run(const CommandLine &sub, const DebugOptions &options) {
  Console console(options.console);
  console.warn(sub.givenInVain(idleOutputs()));
  Runner runner(options, console);
  if (options.code.target == "interpreter") {
    console.error(
        "`tenon debug` compares a compiled program with the interpreter; name another target");
    return Usage;
  }
  const bool ok = runner.aim() && runner.load() && runner.run();
  console.report(runner.diagnostics());
  if (!ok)
    return runner.status == Done ? int(Failed) : runner.status;
  RunReport &report = runner.report;
  const int status = report.verdict() == Verdict::Pass ? Done : Failed;
  if (console.json()) {
    report.printJson(llvm::outs());
    if (status == Failed)
      console.error(report.reason());
    return status;
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
    // An output may be wrong where no group is: the data set says so.
    if (report.groups.empty())
      llvm::outs() << "no group value was compared\n";
    else
      llvm::outs() << report.groups.size() << " group values (" << report.groupCoverage.elements
                   << " elements in " << report.groupCoverage.sets.size()
                   << (report.groupCoverage.sets.size() == 1 ? " set" : " sets")
                   << " of inputs) are within " << llvm::format("%g", options.data.groupTolerance)
                   << " of " << llvm::join(report.groupCoverage.with, " or ") << '\n';
    llvm::outs() << report.verdictLine() << '\n';
    if (status == Failed)
      console.error(report.reason());
    if (status == Failed && !report.groups.empty())
      console.note("each kernel computes what its nodes say: small errors add up, or the expected "
                   "outputs are another model's; --reference=MODEL compares each value with that "
                   "model's");
    return status;
  }
  const double rounding = first->difference.rounding;
  llvm::outs() << "first difference: step " << first->step << ", value '" << first->name << "' ("
               << first->set << ")\n  " << first->difference.reason
               << llvm::format("\n  error %.2g, bound %g", first->difference.error,
                               options.data.groupTolerance);
  if (rounding >= 0)
    llvm::outs() << llvm::format(" or what the network's own rounding of %.2g explains", rounding);
  llvm::outs() << "\n  nodes";
  for (const std::string &n : first->nodes)
    llvm::outs().write_escaped((" '" + n + "'"));
  llvm::outs() << "\nFAIL\n";
  return Failed;
}

} // namespace

void declareDebug(CommandLine &app) {
  auto options = std::make_shared<DebugOptions>();
  options->data.check = "groups";
  options->data.seeds = kGroupSeeds;
  CommandLine sub = app.command("debug", "finds the first group whose numbers are wrong");
  sub.option("--data", options->data.data, "a test data set whose inputs are used, as for `run`")
      .type("DIR");
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
  sub.runs([options, sub] { return run(sub, *options); });
}

} // namespace tenon
