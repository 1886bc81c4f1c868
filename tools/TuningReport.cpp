// Implements the reading and showing of what a tuner measured.
#include "tools/TuningReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <map>

namespace tenon {
namespace {

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

std::string text(const llvm::json::Object &o, llvm::StringRef key) {
  return o.getString(key).getValueOr("").str();
}
double number(const llvm::json::Object &o, llvm::StringRef key) {
  return o.getNumber(key).getValueOr(0);
}

TunedForm readForm(const llvm::json::Object &o) {
  TunedForm f;
  f.key = text(o, "key");
  f.level = text(o, "level");
  f.nodes = text(o, "nodes");
  f.occurrences = o.getInteger("occurrences").getValueOr(0);
  f.chosen = size_t(o.getInteger("chosen").getValueOr(0));
  if (const llvm::json::Array *candidates = o.getArray("candidates"))
    for (const llvm::json::Value &v : *candidates)
      if (const llvm::json::Object *c = v.getAsObject())
        f.candidates.push_back({text(*c, "schedule"), number(*c, "estimated_us"),
                                number(*c, "measured_us"), number(*c, "error_us")});
  return f;
}

} // namespace

bool TuningReport::read(llvm::StringRef path, Diagnostics &diagnostics) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  auto value = buffer ? llvm::json::parse((*buffer)->getBuffer())
                      : llvm::Expected<llvm::json::Value>(nullptr);
  if (!value)
    llvm::consumeError(value.takeError());
  const llvm::json::Object *all = value ? value->getAsObject() : nullptr;
  const llvm::json::Array *list = all ? all->getArray("forms") : nullptr;
  const llvm::json::Array *times = all ? all->getArray("rounds") : nullptr;
  forms.clear();
  rounds.clear();
  if (list)
    for (const llvm::json::Value &v : *list)
      if (const llvm::json::Object *o = v.getAsObject())
        forms.push_back(readForm(*o));
  if (times)
    for (const llvm::json::Value &v : *times)
      rounds.push_back(v.getAsNumber().getValueOr(0));
  const bool good = !rounds.empty() && llvm::all_of(forms, [](const TunedForm &f) {
    return f.chosen < f.candidates.size();
  });
  if (!good) {
    diagnostics.error("the tuner's results cannot be read");
    return false;
  }
  target = text(*all, "target");
  device = text(*all, "device");
  return true;
}

void TuningReport::print(llvm::raw_ostream &os, size_t most) const {
  size_t changed = 0, measured = 0;
  std::map<std::string, std::pair<Ratio, size_t>> tactics; // and how often it is chosen
  for (const TunedForm &f : forms) {
    changed += f.chosen != 0;
    for (const TunedForm::Candidate &c : f.candidates) {
      auto &[ratio, chosen] = tactics[c.schedule.substr(0, c.schedule.find('<'))];
      ratio.add(c.estimated, c.measured);
      measured += c.measured > 0;
      chosen += &c == &f.candidates[f.chosen];
    }
  }
  os << "target   " << target << ", " << device << '\n';
  os << "forms    " << forms.size() << ", " << changed << " changed; " << measured
     << " candidates measured\n";
  os << llvm::format("run      %.4g ms, the cost model's choice %.4g ms (%+.1f %%)\n", tuned / 1e3,
                     heuristic / 1e3, heuristic > 0 ? 100 * (tuned / heuristic - 1) : 0.0);
  os << "tactic                     chosen  measured  estimate/measured  spread\n";
  for (auto &[tactic, row] : tactics)
    os << "  " << llvm::left_justify(tactic, 24)
       << llvm::format(" %6zu  %8d  %17.2f  %6.2f\n", row.second, row.first.count, row.first.mean(),
                       row.first.spread());
  std::vector<const TunedForm *> gains;
  for (const TunedForm &f : forms)
    if (f.chosen)
      gains.push_back(&f);
  auto gain = [](const TunedForm *f) {
    return double(f->occurrences) *
           (f->candidates.front().measured - f->candidates[f->chosen].measured);
  };
  llvm::stable_sort(gains,
                    [&](const TunedForm *a, const TunedForm *b) { return gain(a) > gain(b); });
  if (!gains.empty())
    os << "changed, the largest gains first (microseconds of all occurrences)\n";
  for (size_t i = 0; i < gains.size() && i < most; ++i) {
    const TunedForm &f = *gains[i];
    os << llvm::format("  %8.2f of %8.2f  ", gain(&f),
                       double(f.occurrences) * f.candidates.front().measured)
       << f.candidates.front().schedule << " -> " << f.candidates[f.chosen].schedule << "  ";
    os.write_escaped(f.nodes) << '\n';
  }
}

void TuningReport::write(llvm::json::OStream &json) const {
  json.attribute("target", target);
  json.attribute("device", llvm::json::fixUTF8(device));
  json.attribute("heuristic_us", heuristic);
  json.attribute("tuned_us", tuned);
  json.attributeArray("forms", [&] {
    for (const TunedForm &f : forms)
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
}

} // namespace tenon
