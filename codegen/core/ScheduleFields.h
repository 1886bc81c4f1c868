// Defines the fields of schedules: what stands between the text of a schedule, which people edit
// and tuning files keep, and the struct that a tactic works with.
//
// A tactic's schedule is a plain struct of numbers with a static table `fields()`:
//
//   struct HaloSchedule {
//     int64_t tileM, tileN;
//     // {"tile_n", &HaloSchedule::tileN, oneOf(32, 64, 128)}, …
//     static llvm::ArrayRef<Field<HaloSchedule>> fields();
//   };
//
// `parseSchedule<S>` refuses unknown, repeated and missing keys and forbidden values,
// `printSchedule<S>` writes what it reads, in the order of the table.
#pragma once

#include "ir/Attribute.h"
#include "ir/Result.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tenon {

/// A schedule as it stands in modules and tuning files: the id of a tactic and keys with numbers.
using ScheduleText = Schedule;
/// As in the IR: `conv<mr=14, nr=32>`.
std::string toString(const ScheduleText &schedule);
llvm::Optional<ScheduleText> parseSchedule(llvm::StringRef text);

/// The values that a key may have: those listed, or all from `least` to `most`.
struct AllowedValues {
  llvm::SmallVector<int64_t, 6> listed;
  int64_t least = 0, most = 0;

  bool contains(int64_t value) const;
  /// "one of 32, 64, 128", "from 1 to 16".
  std::string text() const;
};
template <class... Values> AllowedValues oneOf(Values... values) {
  return {{int64_t(values)...}, 0, 0};
}
AllowedValues between(int64_t least, int64_t most);

/// What there is to say of a key without its struct.
struct FieldRules {
  llvm::StringRef key;
  AllowedValues allowed;
  /// The value of a key that is left out, and so is not written; none: the key is required.
  llvm::Optional<int64_t> absent = llvm::None;
  /// What earlier versions call the key; read, not written.
  llvm::StringRef formerKey = {};

  bool names(llvm::StringRef text) const {
    return text == key || (!formerKey.empty() && text == formerKey);
  }
};

template <class S> struct Field {
  llvm::StringRef key;
  int64_t S::*member;
  AllowedValues allowed;
  llvm::Optional<int64_t> absent = llvm::None;
  llvm::StringRef formerKey = {};
};

/// The schedule of a tactic that has nothing to choose.
struct NoSchedule {
  static llvm::ArrayRef<Field<NoSchedule>> fields() { return {}; }
};

/// Keys with values that follow from a group and its schedule.
using KeyValues = std::vector<std::pair<std::string, int64_t>>;

/// The values of the keys of `text` in the order of `rules`. What `text` states beyond them is left
/// in `others`, for the tactic to judge.
Result<llvm::SmallVector<int64_t, 8>> valuesOf(const ScheduleText &text,
                                               llvm::ArrayRef<FieldRules> rules, KeyValues &others);

template <class S> llvm::SmallVector<FieldRules, 8> rulesOf() {
  llvm::SmallVector<FieldRules, 8> rules;
  for (const Field<S> &f : S::fields())
    rules.push_back({f.key, f.allowed, f.absent, f.formerKey});
  return rules;
}

template <class S> Result<S> parseSchedule(const ScheduleText &text, KeyValues &others) {
  auto values = valuesOf(text, rulesOf<S>(), others);
  if (!values)
    return std::move(values).refusal();
  S schedule{};
  for (size_t i = 0; i < S::fields().size(); ++i)
    schedule.*(S::fields()[i].member) = (*values)[i];
  return schedule;
}

/// Keys and values in the order of the table, less keys at what they are when absent.
template <class S> KeyValues printedOf(const S &schedule) {
  KeyValues printed;
  for (const Field<S> &f : S::fields())
    if (!f.absent || schedule.*(f.member) != *f.absent)
      printed.emplace_back(f.key.str(), schedule.*(f.member));
  return printed;
}
template <class S> ScheduleText printSchedule(llvm::StringRef tactic, const S &schedule) {
  return {tactic.str(), printedOf(schedule)};
}

/// All keys of a schedule with their values, then what follows from it: what a kernel's
/// configuration holds.
template <class S> KeyValues membersOf(const S &schedule, const KeyValues &computed = {}) {
  KeyValues members;
  for (const Field<S> &f : S::fields())
    members.emplace_back(f.key.str(), schedule.*(f.member));
  members.insert(members.end(), computed.begin(), computed.end());
  return members;
}

/// What a schedule of an earlier version is called now: the schedules of `oldId` in which `key` is
/// 1 are those of `newId` without it. The old id also switches the new one.
struct ScheduleAlias {
  llvm::StringRef oldId, key, newId;
};
/// The schedule under today's names.
ScheduleText withoutAliases(ScheduleText text, llvm::ArrayRef<ScheduleAlias> aliases);

/// Of a schedule that the kernel could not run for this group: `reason` says what is wrong with it,
/// or what is allowed.
Refusal impossible(const ScheduleText &schedule, const std::string &reason);

/// Refused where `text` is none of `possible`, with those that have most keys in common with it.
Result<> isAmong(const ScheduleText &text, std::vector<ScheduleText> possible);

/// Whether what `stated` has beyond a tactic's keys is true: each key is one of `computed`, with
/// its value.
Result<> checkStated(llvm::StringRef tactic, const KeyValues &stated, const KeyValues &computed,
                     llvm::ArrayRef<FieldRules> rules);

} // namespace tenon
