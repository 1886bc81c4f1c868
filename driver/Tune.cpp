// Implements `tenon tune`: measures candidate schedules and writes the fastest to a file, or writes
// the program that measures them on another machine.
#include "driver/Commands.h"
#include "driver/Runner.h"
#include "driver/Tuner.h"

#include <CLI/CLI.hpp>

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <cmath>

namespace tenon {
namespace {

struct TuneOptions : RunOptions {
  std::string output, program;
  TunerSettings tuner;
};

/// Estimate over measurement, as geometric mean and spread (a factor).
struct Ratio {
  void add(double estimated, double measured) {
    if (estimated <= 0 || measured <= 0)
      return;
    const double v = std::log(estimated / measured);
    ++count;
    sum += v;
    squares += v * v;
  }
  double mean() const { return count ? std::exp(sum / count) : 0; }
  double spread() const {
    return count ? std::exp(std::sqrt(std::max(0.0, squares / count - std::pow(sum / count, 2))))
                 : 0;
  }
  int count = 0;
  double sum = 0, squares = 0;
};

class Tune {
public:
  Tune(const TuneOptions &options, Console &console)
      : options_(options), runner_(options, console), console_(console) {}

  int run() {
    const bool ok = tune();
    console_.endProgress();
    console_.report(runner_.diagnostics());
    if (!ok)
      return runner_.status != Done                ? runner_.status
             : runner_.compilation.status() != Done ? runner_.compilation.status()
                                                    : Failed;
    if (options_.program.empty())
      console_.json() ? printJson() : console_.quiet() ? void() : printText();
    else if (!console_.quiet() && !console_.json())
      llvm::outs() << "wrote    " << options_.program << '\n';
    return Done;
  }

private:
  bool tune() {
    Diagnostics &diagnostics = runner_.diagnostics();
    if (options_.output.empty() == options_.program.empty()) {
      diagnostics.error("name the tuning file with -o FILE, or with --program=FILE the program that "
                        "writes it on another machine");
      return runner_.fail(Usage);
    }
    if (!refuseUnavailable(options_.model, options_.code, diagnostics))
      return false;
    auto target = codeTarget(options_.code, diagnostics);
    if (!target)
      return runner_.fail(Usage);
    target_ = *target;
    Compilation &c = runner_.compilation;
    ScheduleOptions schedule;
    if (!runner_.load() ||
        !scheduleOptions(options_.code, target_, c.passContext(), schedule, diagnostics))
      return false;
    Tuner tuner(console_, c, target_, options_.code, schedule, options_.tuner);
    if (!options_.program.empty())
      return tuner.writeProgram(options_.program);
    Tuning tuning;
    OutputFiles files(diagnostics);
    return tuner.measure(runner_.data.inputs, tuning, report_) &&
           files.add(options_.output, tuning.text()) && files.commit();
  }

  void printText() {
    llvm::raw_ostream &os = llvm::outs();
    size_t changed = 0, measured = 0;
    std::map<std::string, std::pair<Ratio, size_t>> tactics; // and how often it is chosen
    for (const TunedForm &f : report_.forms) {
      changed += f.chosen != 0;
      for (const TunedForm::Candidate &c : f.candidates) {
        auto &[ratio, chosen] = tactics[c.schedule.substr(0, c.schedule.find('<'))];
        ratio.add(c.estimated, c.measured);
        measured += c.measured > 0;
        chosen += &c == &f.candidates[f.chosen];
      }
    }
    os << "target   " << target_.name << ", " << report_.device << '\n';
    os << "forms    " << report_.forms.size() << ", " << changed << " changed; " << measured
       << " candidates measured\n";
    os << llvm::format("run      %.4g ms, the cost model's choice %.4g ms (%+.1f %%)\n",
                       report_.tuned / 1e3, report_.heuristic / 1e3,
                       report_.heuristic > 0 ? 100 * (report_.tuned / report_.heuristic - 1) : 0.0);
    os << "tactic                     chosen  measured  estimate/measured  spread\n";
    for (auto &[tactic, row] : tactics)
      os << "  " << llvm::left_justify(tactic, 24)
         << llvm::format(" %6zu  %8d  %17.2f  %6.2f\n", row.second, row.first.count,
                         row.first.mean(), row.first.spread());
    std::vector<const TunedForm *> gains;
    for (const TunedForm &f : report_.forms)
      if (f.chosen)
        gains.push_back(&f);
    auto gain = [](const TunedForm *f) {
      return double(f->occurrences) *
             (f->candidates.front().measured - f->candidates[f->chosen].measured);
    };
    llvm::stable_sort(gains, [&](const TunedForm *a, const TunedForm *b) {
      return gain(a) > gain(b);
    });
    if (!gains.empty())
      os << "changed, the largest gains first (microseconds of all occurrences)\n";
    for (size_t i = 0; i < gains.size() && i < (console_.verbose() ? gains.size() : 10); ++i) {
      const TunedForm &f = *gains[i];
      os << llvm::format("  %8.2f of %8.2f  ", gain(&f),
                         double(f.occurrences) * f.candidates.front().measured)
         << f.candidates.front().schedule << " -> " << f.candidates[f.chosen].schedule << "  ";
      os.write_escaped(f.nodes) << '\n';
    }
    os << "wrote    " << options_.output << '\n';
  }

  void printJson() {
    llvm::json::OStream json(llvm::outs(), 1);
    json.object([&] {
      json.attribute("model", llvm::json::fixUTF8(options_.model.model));
      json.attribute("target", target_.name);
      json.attribute("device", llvm::json::fixUTF8(report_.device));
      json.attribute("heuristic_us", report_.heuristic);
      json.attribute("tuned_us", report_.tuned);
      json.attributeArray("forms", [&] {
        for (const TunedForm &f : report_.forms)
          json.object([&] {
            json.attribute("key", f.key);
            json.attribute("level", f.level);
            json.attribute("nodes", llvm::json::fixUTF8(f.nodes));
            json.attribute("occurrences", f.occurrences);
            json.attribute("chosen", int64_t(f.chosen));
            json.attributeArray("candidates", [&] {
              for (const TunedForm::Candidate &c : f.candidates)
                json.object([&] {
                  json.attribute("schedule", c.schedule);
                  json.attribute("estimated_us", c.estimated);
                  json.attribute("measured_us", c.measured);
                  json.attribute("error_us", c.error);
                });
            });
          });
      });
    });
    llvm::outs() << '\n';
  }

  const TuneOptions &options_;
  Runner runner_;
  Console &console_;
  Target target_;
  TuningReport report_;
};

} // namespace

void declareTune(CLI::App &app, Command &command) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App *sub = app.add_subcommand("tune", "times candidate schedules on the target");
  sub->add_option("-o,--output", options->output,
                  "the tuning file to write; `compile --tuning=FILE` uses it")
      ->type_name("FILE");
  sub->add_option("--program", options->program,
                  "writes the program (.cpp or .cu) that measures on another machine instead; "
                  "building and running it there writes the tuning file")
      ->type_name("FILE");
  sub->add_option("--candidates", options->tuner.candidates, "at most so many for each kind of layer")
      ->check(CLI::Range(1, 64))
      ->type_name("N")
      ->capture_default_str();
  sub->add_option("--seconds", options->tuner.seconds, "how long to measure")
      ->check(CLI::PositiveNumber)
      ->type_name("S")
      ->capture_default_str();
  sub->add_option("--jobs", options->tuner.jobs, "compilers at a time (default: one a processor)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  sub->add_option("--data", options->data.data, "a test data set whose inputs are used")
      ->type_name("DIR");
  declare(*sub, options->model);
  declare(*sub, options->code);
  declare(*sub, options->passes);
  declare(*sub, options->console);
  sub->callback([options, &command] {
    command = [options] {
      Console console(options->console);
      return Tune(*options, console).run();
    };
  });
}

} // namespace tenon
