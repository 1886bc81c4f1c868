// Prices schedules under constants that scripts/fit-costs tries.
//
//   estimates FAMILY TARGET PASSES MODULES.tn
//
// MODULES.tn has one problem after another, each a module that begins with a line `module "…" …`.
// Every schedule of every group of each is listed on standard output, a problem's behind a line
// `problem`; and legal ones that are not tried, where a line `// schedule …` of the module asks for
// them:
//
//   problem
//   + expand_depthwise_sm80<tile_h=4, …>        of the family, which the constants price
//   = expand_depthwise_sm80<tile_h=4, …>        the same, asked for
//   - contract_mma_sm80<tile_m=64, …>           of another
//   - apart                                     of a chain: the kernels of its parts
//
// Then come a line `constants` with the family's own, and an empty line. From then on each line of
// standard input that names as many constants is answered by two doubles for each schedule:
// microseconds, and the rank by which the compiler compares them.
#include "codegen/Codegen.h"
#include "codegen/core/GroupForm.h"
#include "codegen/core/Tactic.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/memory/Alignment.h"
#include "codegen/schedule/Chains.h"
#include "codegen/schedule/Legalize.h"
#include "ir/Context.h"
#include "ir/Text.h"
#include "passes/PassManager.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <list>
#include <sstream>

using namespace tenon;

namespace {

[[noreturn]] void fail(const std::string &message) {
  llvm::errs() << "estimates: " << message << "\n";
  std::exit(1);
}

/// One module, its groups and all of their choices, which refer to each other.
struct Problem {
  std::unique_ptr<Module> module;
  std::unique_ptr<Alignment> alignment;
  std::list<GroupForm> forms;
  Choices choices;
  size_t tried = 0; // choices before this one are
  double apart = 0; // of a chain: its parts, with what each adds to a run
};

class Problems {
public:
  Problems(const Target &target, const Pipeline &pipeline)
      : target_(target), level_(*target.levels.front()), pipeline_(pipeline) {}

  void add(llvm::StringRef text) {
    auto grouped = read(text);
    Problem &p = all_.emplace_back();
    p.module = std::move(grouped);
    Graph &graph = p.module->graph();
    ScheduleOptions options;
    bool chained = false;
    options.takeChain = [&](const ChainOffer &offer) {
      p.apart = offer.apart;
      return chained = true;
    };
    joinChains(graph, level_, options,
               [&](Operation &group, const Tactic *tactic, const Alignment &alignment) {
                 return cheapest(group, tactic, alignment);
               });
    p.alignment = std::make_unique<Alignment>(graph);
    graph.body().walk([&](Operation *op) {
      if (op->is(Op::Group))
        addChoices(*op, p);
    });
    if (p.choices.empty())
      fail("no schedules for\n" + text.str());
    p.tried = p.choices.size();
    addAsked(text, p);
  }

  void print(llvm::StringRef family) const {
    for (const Problem &p : all_) {
      llvm::outs() << "problem\n";
      for (size_t i = 0; i < p.choices.size(); ++i) {
        const Choice &c = *p.choices[i];
        llvm::outs() << (c.tactic.info.costs.family != family ? "- "
                         : i < p.tried                        ? "+ "
                                                              : "= ")
                     << toString(c.text()) << "\n";
      }
      if (p.apart > 0)
        llvm::outs() << "- apart\n";
    }
  }

  void price(llvm::StringRef family, llvm::ArrayRef<double> costs, std::vector<double> &out) const {
    out.clear();
    for (const Problem &p : all_) {
      for (const auto &c : p.choices) {
        const Price price = c->tactic.info.costs.family == family ? c->price(costs) : c->price();
        out.push_back(price.microseconds);
        out.push_back(price.rank);
      }
      if (p.apart > 0)
        out.insert(out.end(), 2, p.apart);
    }
  }

private:
  std::unique_ptr<Module> read(llvm::StringRef text) {
    Diagnostics diagnostics;
    auto buffer = llvm::MemoryBuffer::getMemBuffer(text, "problem.tn", false);
    auto module = parseModule(context_, *buffer, "", diagnostics);
    PassContext passes(diagnostics);
    passes.target = traitsOf(target_);
    if (!module || !PassManager(passes).run(*module, pipeline_) ||
        !legalizeForEmission(module->graph(), diagnostics)) {
      diagnostics.print(llvm::errs());
      fail("no groups of\n" + text.str());
    }
    return module;
  }

  /// Calls `take` with the choices of every tactic that runs the group.
  void eachTactic(const GroupQuery &in, llvm::function_ref<void(Choices &&)> take) const {
    for (const Tactic *t : level_.family->tactics())
      if (auto choices = t->choices(in); choices && !t->info.sharesCode)
        take(*std::move(choices));
  }

  Result<GroupPrice> cheapest(Operation &group, const Tactic *tactic,
                              const Alignment &alignment) const {
    auto form = analyzeGroup(group);
    if (!form)
      return std::move(form).refusal();
    const Choice *best = nullptr;
    Price least;
    std::vector<Choices> kept;
    eachTactic({*form, level_, &alignment}, [&](Choices &&choices) {
      for (const auto &c : choices)
        if (const Price p = c->price();
            (!tactic || &c->tactic == tactic) && (!best || p.rank < least.rank)) {
          best = c.get();
          least = p;
        }
      kept.push_back(std::move(choices));
    });
    if (!best)
      return Refusal{"no kernel", ""};
    return GroupPrice{least.microseconds, llvm::None, {}};
  }

  /// Maps before and after the layer are no part of the problem.
  void addChoices(Operation &group, Problem &p) const {
    auto form = analyzeGroup(group);
    if (!form)
      fail(form.refusal().reason);
    if (!form->anchor && !form->isChain())
      return;
    p.forms.push_back(*std::move(form));
    eachTactic({p.forms.back(), level_, p.alignment.get()},
               [&](Choices &&choices) { llvm::move(choices, std::back_inserter(p.choices)); });
  }

  void addAsked(llvm::StringRef text, Problem &p) const {
    llvm::SmallVector<llvm::StringRef, 0> lines;
    text.split(lines, '\n', -1, false);
    for (llvm::StringRef line : lines) {
      const auto asked = line.consume_front("// schedule ") ? parseSchedule(line) : llvm::None;
      if (!asked || llvm::any_of(p.choices, [&](const auto &c) { return c->text() == *asked; }))
        continue;
      for (const GroupForm &form : p.forms)
        if (const auto tactic = findTactic(level_, asked->tactic))
          if (auto choice = (*tactic)->choice({form, level_, p.alignment.get()}, *asked))
            p.choices.push_back(*std::move(choice));
    }
  }

  const Target &target_;
  const TargetLevel &level_;
  const Pipeline &pipeline_;
  Context context_;
  std::list<Problem> all_;
};

CostTable tableOf(const Target &target, llvm::StringRef family) {
  for (const Tactic *t : target.family->tactics())
    if (t->info.costs.family == family)
      return t->info.costs;
  fail("no tactic of family " + family.str() + " has constants");
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 5)
    fail("FAMILY TARGET PASSES MODULES.tn");
  Diagnostics diagnostics;
  const auto target = parseTarget(argv[2], diagnostics);
  Pipeline pipeline;
  if (!target || !parsePipeline(argv[3], pipeline, diagnostics)) {
    diagnostics.print(llvm::errs());
    return 1;
  }
  const llvm::StringRef family = argv[1];
  const CostTable table = tableOf(*target, family);
  auto file = llvm::MemoryBuffer::getFile(argv[4]);
  if (!file)
    fail(argv[4] + std::string(": ") + file.getError().message());

  Problems problems(*target, pipeline);
  constexpr llvm::StringLiteral kBegin = "module \"";
  for (llvm::StringRef rest = (*file)->getBuffer(); !rest.empty();) {
    const size_t next = rest.find(("\n" + kBegin).str());
    problems.add(rest.take_front(next == llvm::StringRef::npos ? next : next + 1));
    rest = next == llvm::StringRef::npos ? "" : rest.drop_front(next + 1);
  }
  problems.print(family);
  llvm::outs() << "constants";
  for (double c : table.values)
    llvm::outs() << llvm::format(" %.17g", c);
  llvm::outs() << "\n\n";
  llvm::outs().flush();

  std::vector<double> costs(table.values.size()), prices;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream numbers(line);
    for (double &c : costs)
      if (!(numbers >> c))
        fail("expected " + std::to_string(costs.size()) + " constants: " + line);
    problems.price(family, costs, prices);
    std::fwrite(prices.data(), sizeof(double), prices.size(), stdout);
    std::fflush(stdout);
  }
}
