// Defines how a tactic is written: a struct of static functions over a typed problem and a typed
// schedule, and what makes a row of the tactics' table of it.
//
//   struct Halo {
//     static constexpr llvm::StringLiteral id = "contract_halo_sm90a", summary = "…";
//     struct Problem { GroupQuery in; … };  // all that later functions need of the group
//     using Schedule = HaloSchedule;        // codegen/core/ScheduleFields.h
//     static Result<Problem> match(const GroupQuery &);
//     // Best guess first; none where the schedule is NoSchedule.
//     static void candidates(const Problem &, std::vector<Schedule> &);
//     static double microseconds(const Problem &, const Schedule &);    // by the clock
//     static void emit(const Problem &, const Schedule &, StepWriter &);
//
//     // Optional. Estimates on the scale of the tactics that compete, where that is not the clock;
//     // who has neither is never compared.
//     static double rank(const Problem &, const Schedule &);
//     // Without it a schedule must be among the candidates.
//     static Result<> legal(const Problem &, const Schedule &);
//     // Keys that texts need not state.
//     static KeyValues computed(const Problem &, const Schedule &);
//     static int64_t scratch(const Problem &, const Schedule &);
//     static int64_t zeroed(const Problem &, const Schedule &);
//     static void pack(const Problem &, const Schedule &, llvm::SmallVectorImpl<Packing> &);
//     static llvm::Optional<Overlap> overlap(const Problem &, const Schedule &);
//     static int64_t weightBits(const Schedule &);
//     // Asked even where match refuses.
//     static bool forTensorCores(const GroupQuery &);
//     static constexpr bool takesPacked = true, sharesCode = true;
//     static constexpr Chain chains[] = {…};
//   };
//   const Tactic kHalo = tacticOf<Halo>();
//
// For sources of codegen/ only: it needs C++20.
#pragma once

#include "codegen/core/ScheduleFields.h"
#include "codegen/core/Tactic.h"

namespace tenon {

using GroupQuery = TacticInput;

template <class T>
Refusal impossible(const typename T::Schedule &schedule, const std::string &reason) {
  return impossible(printSchedule(T::id, schedule), reason);
}

/// Refused where no schedule of `possible` is this one, with those that have most in common with
/// it.
template <class T>
Result<> isAmong(const typename T::Schedule &schedule,
                 llvm::ArrayRef<typename T::Schedule> possible) {
  std::vector<ScheduleText> others;
  for (const auto &s : possible)
    others.push_back(printSchedule(T::id, s));
  return isAmong(printSchedule(T::id, schedule), std::move(others));
}

/// The functions of a table's row, over text. What was read of a group is read again by each of
/// them until steps hold their problem (docs/architecture.md).
template <class T> struct TacticOf {
  using Problem = typename T::Problem;
  using S = typename T::Schedule;

  static Result<> match(const GroupQuery &in) {
    Result<Problem> problem = T::match(in);
    if (!problem)
      return std::move(problem).refusal();
    return Accepted{};
  }

  static void enumerate(const GroupQuery &in, llvm::SmallVectorImpl<ScheduleText> &out) {
    for (const S &s : candidates(*T::match(in)))
      out.push_back(printSchedule(T::id, s));
  }

  static Result<ScheduleText> check(const GroupQuery &in, const ScheduleText &text) {
    const Problem problem = *T::match(in);
    KeyValues stated;
    Result<S> schedule = parseSchedule<S>(text, stated);
    if (!schedule)
      return std::move(schedule).refusal();
    if (Result<> allowed = legal(problem, *schedule); !allowed)
      return std::move(allowed).refusal();
    if (Result<> fits = checkStated(T::id, stated, computed(problem, *schedule), rulesOf<S>());
        !fits)
      return std::move(fits).refusal();
    return printSchedule(T::id, *schedule);
  }

  static double rank(const GroupQuery &in, const ScheduleText &text) {
    return T::rank(*T::match(in), read(text));
  }
  static double microseconds(const GroupQuery &in, const ScheduleText &text) {
    return T::microseconds(*T::match(in), read(text));
  }
  static void pack(const GroupQuery &in, const ScheduleText &text,
                   llvm::SmallVectorImpl<Packing> &out) {
    if constexpr (requires { &T::pack; })
      T::pack(*T::match(in), read(text), out);
  }
  static int64_t scratch(const GroupQuery &in, const ScheduleText &text) {
    if constexpr (requires { &T::scratch; })
      return T::scratch(*T::match(in), read(text));
    return 0;
  }
  static int64_t zeroed(const GroupQuery &in, const ScheduleText &text) {
    if constexpr (requires { &T::zeroed; })
      return T::zeroed(*T::match(in), read(text));
    return 0;
  }
  static llvm::Optional<Overlap> overlap(const GroupQuery &in, const ScheduleText &text) {
    return T::overlap(*T::match(in), read(text));
  }
  static int64_t weightBits(const ScheduleText &text) { return T::weightBits(read(text)); }
  static void emit(const GroupQuery &in, const ScheduleText &text, StepWriter &out) {
    T::emit(*T::match(in), read(text), out);
  }

private:
  /// Of a text that `check` wrote.
  static S read(const ScheduleText &text) {
    KeyValues stated;
    return *parseSchedule<S>(text, stated);
  }

  static std::vector<S> candidates(const Problem &problem) {
    std::vector<S> found;
    if constexpr (std::is_same_v<S, NoSchedule>)
      found.emplace_back();
    else
      T::candidates(problem, found);
    return found;
  }

  static KeyValues computed(const Problem &problem, const S &schedule) {
    if constexpr (requires { &T::computed; })
      return T::computed(problem, schedule);
    return {};
  }

  static Result<> legal(const Problem &problem, const S &schedule) {
    if constexpr (requires { &T::legal; })
      return T::legal(problem, schedule);
    else
      return isAmong<T>(schedule, candidates(problem));
  }
};

/// The row of `T`.
template <class T> constexpr Tactic tacticOf() {
  using Of = TacticOf<T>;
  Tactic t = {T::id,    T::summary,  Of::match, Of::enumerate, nullptr,
              Of::pack, Of::scratch, Of::emit,  Of::zeroed};
  // clang-format off: version 14 takes a requires-expression here for a constraint
  constexpr bool hasRank = requires { &T::rank; };
  constexpr bool hasClock = requires { &T::microseconds; };
  // clang-format on
  if constexpr (hasRank)
    t.cost = Of::rank;
  else if constexpr (hasClock)
    t.cost = Of::microseconds;
  if constexpr (hasRank && hasClock)
    t.clock = Of::microseconds;
  if constexpr (requires { &T::forTensorCores; })
    t.usesTensorCores = T::forTensorCores;
  if constexpr (requires { T::takesPacked; })
    t.takesPacked = T::takesPacked;
  if constexpr (requires { T::sharesCode; })
    t.sharesCode = T::sharesCode;
  if constexpr (requires { T::chains; })
    t.chains = T::chains;
  if constexpr (requires { &T::overlap; })
    t.overlap = Of::overlap;
  if constexpr (requires { &T::weightBits; })
    t.weightBits = Of::weightBits;
  t.check = Of::check;
  return t;
}

} // namespace tenon
