// Implements the reports of comparisons.
#include "tools/Check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <cmath>

namespace tenon {

TensorCheck describe(llvm::StringRef name, const Tensor &tensor) {
  TensorCheck c;
  c.name = name.str();
  if (tensor.isNull())
    return c;
  c.element = tensor.element();
  c.shape = tensor.shape().vec();
  c.hasRange = valueRange(tensor, c.low, c.high);
  c.size = tensor.size();
  c.notFinite = countNotFinite(tensor);
  return c;
}

TensorCheck check(llvm::StringRef name, const Tensor &actual, const Tensor &expected,
                  double tolerance, llvm::StringRef with) {
  TensorCheck c = describe(name, actual);
  c.compared = true;
  c.with = with.str();
  c.difference = compareTensors(actual, expected, tolerance);
  return c;
}

TensorCheck check(llvm::StringRef name, const Tensor &actual, const Tensor &typed,
                  const Tensor &exact, double tolerance) {
  if (exact.isNull())
    return check(name, actual, typed, tolerance, kWithInterpreter);
  TensorCheck c = describe(name, actual);
  c.compared = true;
  c.difference = compareWithExact(actual, typed, exact, tolerance);
  c.with = c.difference.rounding < 0 ? kWithInterpreter.str() : kWithExact.str();
  c.leaveUndecided();
  return c;
}

void TensorCheck::leaveUndecided() {
  if (difference.rounding < 0 || explainedBy(difference.rounding, size) < 1 ||
      !std::isfinite(difference.error))
    return;
  compared = false;
  difference.same = true;
}

void Coverage::add(const TensorCheck &c) {
  if (!c.compared)
    return;
  ++values;
  elements += c.size;
  for (auto [list, word] : {std::make_pair(&sets, &c.set), std::make_pair(&with, &c.with)})
    if (!llvm::is_contained(*list, *word))
      list->push_back(*word);
}

Verdict RunReport::verdict() const {
  auto good = [](const TensorCheck &c) { return c.difference.same; };
  if (!llvm::all_of(outputs, good) || !llvm::all_of(groups, good))
    return Verdict::Fail;
  if (outputCoverage.values + groupCoverage.values > 0)
    return Verdict::Pass;
  return asked ? Verdict::Fail : Verdict::Nothing;
}

std::string RunReport::verdictLine() const {
  switch (verdict()) {
  case Verdict::Pass: return "PASS";
  case Verdict::Fail: return "FAIL";
  case Verdict::Nothing: break;
  }
  return std::string("nothing was compared; give --data with outputs, or ") +
         (target == "interpreter" ? "--reference=MODEL" : "--against=interpreter");
}

double RunReport::maxError() const {
  double worst = 0;
  for (const auto *list : {&outputs, &groups})
    for (const TensorCheck &c : *list)
      worst = std::max(worst, c.difference.error);
  return worst;
}

double RunReport::medianMilliseconds() const {
  if (milliseconds.empty())
    return 0;
  std::vector<double> sorted = milliseconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

void RunReport::sortGroups() {
  std::stable_sort(groups.begin(), groups.end(), [](const TensorCheck &a, const TensorCheck &b) {
    if (a.difference.same != b.difference.same)
      return !a.difference.same;
    return a.difference.error > b.difference.error;
  });
}

std::string RunReport::reason() const {
  for (const auto *list : {&groups, &outputs})
    for (const TensorCheck &c : *list)
      if (!c.difference.same)
        return (list == &groups ? "group value '" : "output '") + c.name + "' (" + c.set +
               "): " + c.difference.reason;
  if (verdict() == Verdict::Fail)
    return "nothing could be compared: no output and no value of a group has a counterpart";
  return "";
}

namespace {

void line(llvm::raw_ostream &os, const TensorCheck &c) {
  os << "  '";
  os.write_escaped(c.name) << "' " << name(c.element) << ' ' << shapeText(c.shape);
  if (c.hasRange)
    os << llvm::format(" in [%.6g, %.6g]", c.low, c.high);
  if (c.notFinite)
    os << ", " << c.notFinite << " of " << c.size << " elements infinite or NaN";
  if (c.compared)
    os << llvm::format(", error %.2g", c.difference.error);
  if (c.difference.rounding >= 0)
    os << llvm::format(c.compared ? " (the network's own rounding %.2g)"
                                  : ", not compared: the network's own rounding of %.2g explains "
                                    "any difference",
                       c.difference.rounding);
  if (c.compared)
    os << " (" << c.set << ")" << (c.difference.same ? "" : ": ") << c.difference.reason;
  os << '\n';
}

void object(llvm::json::OStream &json, const TensorCheck &c, bool group) {
  json.object([&] {
    json.attribute("name", llvm::json::fixUTF8(c.name));
    if (group)
      json.attribute("step", c.step);
    json.attribute("type", name(c.element));
    json.attributeArray("shape", [&] {
      for (int64_t d : c.shape)
        json.value(d);
    });
    if (c.hasRange) {
      json.attribute("min", c.low);
      json.attribute("max", c.high);
    }
    if (c.notFinite)
      json.attribute("not_finite", c.notFinite);
    if (!c.compared)
      return;
    json.attribute("set", c.set);
    json.attribute("same", c.difference.same);
    // JSON has no infinity: an error without bound is left out.
    if (std::isfinite(c.difference.error))
      json.attribute("error", c.difference.error);
    if (c.difference.rounding >= 0)
      json.attribute("rounding", c.difference.rounding);
    json.attribute("with", c.with);
    if (!c.difference.same)
      json.attribute("reason", llvm::json::fixUTF8(c.difference.reason));
    if (group)
      json.attributeArray("nodes", [&] {
        for (const std::string &n : c.nodes)
          json.value(llvm::json::fixUTF8(n));
      });
  });
}

std::string listed(llvm::ArrayRef<std::string> words) {
  return words.empty() ? ""
                       : llvm::join(words.drop_back(), ", ") + (words.size() > 1 ? " and " : "") +
                             words.back();
}

/// `outputs     2 of 2 compared with the data set, 24 elements`; sets where there are several.
void line(llvm::raw_ostream &os, llvm::StringRef what, const Coverage &c,
          llvm::ArrayRef<TensorCheck> checks, size_t unmatched) {
  const auto compared = llvm::count_if(checks, [](const TensorCheck &t) { return t.compared; });
  if (compared == 0)
    return;
  os << what << compared << " of " << checks.size() + unmatched << " compared with "
     << listed(c.with) << ", " << c.elements << " elements";
  if (c.sets.size() > 1)
    os << " in " << c.sets.size() << " sets of inputs";
  os << '\n';
}

void object(llvm::json::OStream &json, const Coverage &c) {
  json.object([&] {
    json.attribute("values", c.values);
    json.attribute("elements", c.elements);
    for (auto [key, words] : {std::make_pair("sets", &c.sets), std::make_pair("with", &c.with)})
      json.attributeArray(key, [&, words = words] {
        for (const std::string &w : *words)
          json.value(w);
      });
  });
}

} // namespace

void RunReport::print(llvm::raw_ostream &os, bool verbose) const {
  if (!groups.empty()) {
    const auto failed =
        llvm::count_if(groups, [](const TensorCheck &c) { return !c.difference.same; });
    os << groups.size() << " group values compared, " << failed << " differ\n";
    size_t shown = 0;
    for (const TensorCheck &c : groups) {
      if (c.difference.same && !verbose)
        break;
      if (++shown > 10 && !verbose) {
        os << "  …\n";
        break;
      }
      line(os, c);
    }
  }
  if (!unmatched.empty())
    os << unmatched.size() << " group values have no counterpart and were not compared\n";
  os << "outputs\n";
  for (const TensorCheck &c : outputs)
    line(os, c);
  if (!milliseconds.empty())
    os << llvm::format("median %.4g ms of %zu run%s\n", medianMilliseconds(), milliseconds.size(),
                       milliseconds.size() == 1 ? "" : "s");
  if (instructions > 0)
    os << llvm::format("%.4g million instructions, executed by an emulator of %s\n",
                       instructions / 1e6, target.c_str());
  line(os, "outputs: ", outputCoverage, outputs, 0);
  line(os, "groups: ", groupCoverage, groups, unmatched.size());
  os << verdictLine() << '\n';
}

void RunReport::printJson(llvm::raw_ostream &os,
                          llvm::function_ref<void(llvm::json::OStream &)> more) const {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attribute("model", llvm::json::fixUTF8(model));
    json.attribute("target", target);
    if (verdict() == Verdict::Nothing)
      json.attribute("pass", nullptr);
    else
      json.attribute("pass", verdict() == Verdict::Pass);
    json.attributeBegin("compared");
    json.object([&] {
      for (auto [key, c] :
           {std::make_pair("outputs", &outputCoverage), std::make_pair("groups", &groupCoverage)}) {
        json.attributeBegin(key);
        object(json, *c);
        json.attributeEnd();
      }
    });
    json.attributeEnd();
    const double worst = maxError();
    if (std::isfinite(worst))
      json.attribute("max_error", worst);
    else
      json.attribute("max_error", nullptr);
    if (!milliseconds.empty())
      json.attribute("median_ms", medianMilliseconds());
    if (instructions > 0)
      json.attribute("instructions", instructions);
    if (const std::string why = reason(); !why.empty())
      json.attribute("reason", llvm::json::fixUTF8(why));
    json.attributeArray("outputs", [&] {
      for (const TensorCheck &c : outputs)
        object(json, c, false);
    });
    json.attributeArray("groups", [&] {
      for (const TensorCheck &c : groups)
        object(json, c, true);
    });
    json.attribute("unmatched", int64_t(unmatched.size()));
    if (more)
      more(json);
  });
  os << '\n';
}

} // namespace tenon
