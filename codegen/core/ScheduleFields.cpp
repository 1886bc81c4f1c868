// Implements the reading of schedules' keys, and what is said of those that are wrong.
#include "codegen/core/ScheduleFields.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tenon {

std::string toString(const Schedule &schedule) {
  std::string text = schedule.tactic + "<";
  const char *comma = "";
  for (const auto &[key, value] : schedule.params) {
    text += comma + key + "=" + std::to_string(value);
    comma = ", ";
  }
  return text + ">";
}

llvm::Optional<Schedule> parseSchedule(llvm::StringRef text) {
  text = text.trim();
  if (!text.consume_back(">"))
    return llvm::None;
  auto [tactic, list] = text.split('<');
  if (tactic.empty() || tactic.size() == text.size())
    return llvm::None;
  Schedule s;
  s.tactic = tactic.str();
  llvm::SmallVector<llvm::StringRef, 8> items;
  list.split(items, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef item : items) {
    auto [key, number] = item.trim().split('=');
    int64_t value;
    if (key.empty() || number.getAsInteger(10, value))
      return llvm::None;
    s.params.emplace_back(key.str(), value);
  }
  return s;
}

bool AllowedValues::contains(int64_t value) const {
  return listed.empty() ? value >= least && value <= most : llvm::is_contained(listed, value);
}

std::string AllowedValues::text() const {
  if (listed.empty())
    return "from " + std::to_string(least) + " to " + std::to_string(most);
  auto numbers = llvm::map_range(listed, [](int64_t v) { return std::to_string(v); });
  return (listed.size() == 1 ? "" : "one of ") + llvm::join(numbers, ", ");
}

AllowedValues between(int64_t least, int64_t most) { return {{}, least, most}; }

namespace {

std::string keysText(llvm::ArrayRef<FieldRules> rules) {
  if (rules.empty())
    return "it has no keys";
  auto keys = llvm::map_range(rules, [](const FieldRules &r) { return r.key.str(); });
  return "its keys are " + llvm::join(keys, ", ");
}

} // namespace

Result<llvm::SmallVector<int64_t, 8>>
valuesOf(const ScheduleText &text, llvm::ArrayRef<FieldRules> rules, KeyValues &others) {
  llvm::SmallVector<llvm::Optional<int64_t>, 8> given(rules.size());
  for (const auto &param : text.params) { // named: clang 14 captures no structured bindings
    const std::string &key = param.first;
    const int64_t value = param.second;
    const auto *rule = llvm::find_if(rules, [&](const FieldRules &r) { return r.names(key); });
    if (rule == rules.end()) {
      others.emplace_back(key, value);
      continue;
    }
    llvm::Optional<int64_t> &place = given[size_t(rule - rules.begin())];
    if (place)
      return Refusal{text.tactic + ": " + rule->key.str() + " is given twice",
                     "leave one of them out"};
    if (!rule->allowed.contains(value))
      return Refusal{text.tactic + ": " + key + "=" + std::to_string(value) + " is not " +
                         rule->allowed.text(),
                     ""};
    place = value;
  }
  llvm::SmallVector<int64_t, 8> values;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!given[i] && !rules[i].absent)
      return Refusal{text.tactic + ": " + rules[i].key.str() + " is missing",
                     "give it a value, " + rules[i].allowed.text()};
    values.push_back(given[i] ? *given[i] : *rules[i].absent);
  }
  return values;
}

Refusal impossible(const ScheduleText &schedule, const std::string &reason) {
  return {toString(schedule) + " is not possible here: " + reason, ""};
}

Result<> isAmong(const ScheduleText &text, std::vector<ScheduleText> possible) {
  if (llvm::is_contained(possible, text))
    return Accepted{};
  constexpr size_t kShown = 4;
  auto inCommon = [&](const ScheduleText &t) {
    return llvm::count_if(
        t.params, [&](const auto &param) { return llvm::is_contained(text.params, param); });
  };
  llvm::stable_sort(possible, [&](const ScheduleText &a, const ScheduleText &b) {
    return inCommon(a) > inCommon(b);
  });
  std::string others;
  for (size_t i = 0; i < std::min(possible.size(), kShown); ++i)
    others += (i == 0 ? "possible are " : "; ") + toString(possible[i]);
  if (possible.size() > kShown)
    others += "; and " + std::to_string(possible.size() - kShown) + " more";
  return Refusal{toString(text) + " is not possible here", others};
}

Result<> checkStated(llvm::StringRef tactic, const KeyValues &stated, const KeyValues &computed,
                     llvm::ArrayRef<FieldRules> rules) {
  for (const auto &param : stated) {
    const std::string &key = param.first;
    const int64_t value = param.second;
    const auto its = llvm::find_if(computed, [&](const auto &c) { return c.first == key; });
    if (its == computed.end())
      return Refusal{tactic.str() + " has no key " + key, keysText(rules)};
    if (its->second != value)
      return Refusal{tactic.str() + ": " + key + "=" + std::to_string(value) + ", but " +
                         std::to_string(its->second) +
                         " follows from the group, its schedule and the machine",
                     "leave " + key + " out"};
  }
  return Accepted{};
}

ScheduleText withoutAliases(ScheduleText text, llvm::ArrayRef<ScheduleAlias> aliases) {
  for (const ScheduleAlias &alias : aliases) {
    if (text.tactic != alias.oldId)
      continue;
    const auto its =
        llvm::find_if(text.params, [&](const auto &param) { return param.first == alias.key; });
    if (its == text.params.end() || (its->second != 0 && its->second != 1))
      continue;
    const bool isNew = its->second == 1;
    text.params.erase(its);
    if (isNew) {
      text.tactic = alias.newId.str();
      break;
    }
  }
  return text;
}

} // namespace tenon
