// Defines how a tactic is written: a struct of static functions over a typed problem and a typed
// schedule, and what makes a Tactic and its Choices of it.
//
//   struct Halo {
//     static constexpr llvm::StringLiteral id = "contract_halo_sm90a", summary = "…";
//     struct Problem { GroupQuery in; … };  // all that later functions need of the group
//     using Schedule = HaloSchedule;        // codegen/core/ScheduleFields.h
//     static Result<Problem> match(const GroupQuery &);
//     // Best guess first; none where the schedule is NoSchedule.
//     static void candidates(const Problem &, std::vector<Schedule> &);
//     static double microseconds(const Problem &, const Schedule &);    // by the clock
//     // or, where constants of it are made of measurements (PricedBy, docs/tuning.md):
//     static double microseconds(const Problem &, const Schedule &, const Costs &);
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
//   const Tactic &kHalo = kTacticOf<Halo>;
//
// For sources of codegen/ only: it needs C++20.
#pragma once

#include "codegen/core/Tactic.h"

#include <array>
#include <bit>

namespace tenon {

/// What a tactic derives from whose prices have constants: an aggregate of doubles, and of such
/// aggregates, which `C` is and `Family::costs` has values of. scripts/fit-costs makes them of
/// measurements (docs/tuning.md).
///
///   struct HaloCosts {
///     double step, tile;
///     static constexpr llvm::StringLiteral family = "contract_halo"; // codegen/cuda/contract_halo
///   };
///   constexpr HaloCosts kCosts = {
///   #include "codegen/cuda/contract_halo/costs.inc"
///   };
///   struct Halo : PricedBy<kCosts> {
template <const auto &Values> struct PricedBy {
  using Costs = std::remove_cvref_t<decltype(Values)>;
  using Numbers = std::array<double, sizeof(Costs) / sizeof(double)>;
  static_assert(sizeof(Numbers) == sizeof(Costs));

  static constexpr const Costs &costs = Values;
  static constexpr Numbers numbers = std::bit_cast<Numbers>(Values);
  static Costs costsOf(llvm::ArrayRef<double> values) {
    Numbers n;
    assert(values.size() == n.size());
    llvm::copy(values, n.begin());
    return std::bit_cast<Costs>(n);
  }
};
template <class T>
concept Priced = requires {
  typename T::Costs;
};

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

/// A problem and a schedule that is legal for it.
template <class T> class ChoiceOf final : public Choice {
public:
  using Problem = typename T::Problem;
  using S = typename T::Schedule;

  ChoiceOf(const Tactic &tactic, std::shared_ptr<const Problem> problem, const S &schedule)
      : Choice(tactic), problem_(std::move(problem)), schedule_(schedule) {}

  ScheduleText text() const override { return printSchedule(T::id, schedule_); }

  Price price() const override {
    if constexpr (Priced<T>)
      return priceBy(T::costs);
    else
      return priceBy();
  }
  Price price(llvm::ArrayRef<double> costs) const override {
    if constexpr (Priced<T>)
      return priceBy(T::costsOf(costs));
    else
      return priceBy();
  }

  int64_t scratch() const override {
    if constexpr (requires { &T::scratch; })
      return T::scratch(*problem_, schedule_);
    return 0;
  }
  int64_t zeroed() const override {
    if constexpr (requires { &T::zeroed; })
      return T::zeroed(*problem_, schedule_);
    return 0;
  }
  void pack(llvm::SmallVectorImpl<Packing> &out) const override {
    if constexpr (requires { &T::pack; })
      T::pack(*problem_, schedule_, out);
  }
  llvm::Optional<Overlap> overlap() const override {
    if constexpr (requires { &T::overlap; })
      return T::overlap(*problem_, schedule_);
    return llvm::None;
  }
  void emit(StepWriter &out) const override { T::emit(*problem_, schedule_, out); }

private:
  template <class... Costs> Price priceBy(const Costs &...costs) const {
    Price price;
    if constexpr (requires { &T::microseconds; })
      price.rank = price.microseconds = T::microseconds(*problem_, schedule_, costs...);
    if constexpr (requires { &T::rank; })
      price.rank = T::rank(*problem_, schedule_, costs...);
    if constexpr (requires { &T::weightBits; })
      price.weightBits = T::weightBits(schedule_);
    return price;
  }

  const std::shared_ptr<const Problem> problem_; // of all choices that came with this one
  const S schedule_;
};

template <class T> class TacticOf final : public Tactic {
public:
  constexpr TacticOf() : Tactic(infoOf()) {}

  bool forTensorCores(const GroupQuery &in) const override {
    if constexpr (requires { &T::forTensorCores; })
      return T::forTensorCores(in);
    return false;
  }

  Result<Choices> choices(const GroupQuery &in) const override {
    const Result<Shared> problem = read(in);
    if (!problem)
      return problem.refusal();
    Choices all;
    for (const S &s : candidates(**problem))
      all.push_back(std::make_unique<ChoiceOf<T>>(*this, *problem, s));
    return {std::move(all)};
  }

  Result<std::unique_ptr<Choice>> choice(const GroupQuery &in,
                                         const ScheduleText &text) const override {
    const Result<Shared> problem = read(in);
    if (!problem)
      return Refusal{T::id.str() + ": " + problem.refusal().reason,
                     "without its schedule the group gets one that is possible"};
    KeyValues stated;
    const Result<S> schedule = parseSchedule<S>(text, stated);
    if (!schedule)
      return schedule.refusal();
    const Result<> fits = legal(**problem, *schedule).andThen([&] {
      return checkStated(T::id, stated, computed(**problem, *schedule), rulesOf<S>());
    });
    if (!fits)
      return fits.refusal();
    return {std::make_unique<ChoiceOf<T>>(*this, *problem, *schedule)};
  }

private:
  using Problem = typename T::Problem;
  using S = typename T::Schedule;
  using Shared = std::shared_ptr<const Problem>;

  static constexpr TacticInfo infoOf() {
    TacticInfo info{T::id, T::summary};
    if constexpr (Priced<T>)
      info.costs = {T::Costs::family, T::numbers};
    if constexpr (requires { T::takesPacked; })
      info.takesPacked = T::takesPacked;
    if constexpr (requires { T::sharesCode; })
      info.sharesCode = T::sharesCode;
    if constexpr (requires { T::chains; })
      info.chains = T::chains;
    return info;
  }

  /// Groups with as many anchors as the tactic takes are its to match.
  Result<Shared> read(const GroupQuery &in) const {
    if (!info.takes(in.form))
      return Refusal{
          !info.chains.empty() ? "one anchor alone" : "several anchors, one after another", ""};
    Result<Problem> problem = T::match(in);
    if (!problem)
      return std::move(problem).refusal();
    return {std::make_shared<const Problem>(*std::move(problem))};
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

/// The tactic that `T` is written for.
template <class T> inline constexpr TacticOf<T> kTacticOf;

} // namespace tenon
