// Defines Result: a value, or why there is none and what to do about it; and FusionDecision, what
// came of the question whether one kernel is to compute several operations.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

/// Why something is not possible, for people: a clause without capital and full stop, and what they
/// can do (may be empty).
struct Refusal {
  std::string reason, remedy;
};

/// What a Result holds that has nothing to say but yes.
struct Accepted {};

template <class T = Accepted> class [[nodiscard]] Result {
public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Refusal refusal) : held_(std::in_place_index<1>, std::move(refusal)) {}

  explicit operator bool() const { return held_.index() == 0; }
  /// Of a result that is true. Anything else is a defect of the caller and ends the program.
  T &operator*() & { return std::get<0>(held_); }
  const T &operator*() const & { return std::get<0>(held_); }
  T &&operator*() && { return std::get<0>(std::move(held_)); }
  /// The next of several conditions: what `next` says where this one holds, else its refusal.
  template <class Next> auto andThen(Next next) const -> decltype(next()) {
    static_assert(std::is_same_v<T, Accepted>, "a value would be lost");
    if (!*this)
      return refusal();
    return next();
  }

  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

  /// Of one that is false.
  const Refusal &refusal() const & { return std::get<1>(held_); }
  Refusal &&refusal() && { return std::get<1>(std::move(held_)); }

private:
  std::variant<T, Refusal> held_;
};

/// Whether one kernel computes several operations, kept whether accepted or not.
struct FusionDecision {
  bool accepted = false;
  std::string id;
  /// Source nodes of all sides, producer first.
  std::vector<std::string> nodes;
  /// Why not; empty when accepted.
  std::string reason;
  /// Memory traffic that the fusion saves (or would have saved) for one run at upper bounds.
  int64_t bytesSaved = 0;
  /// Of what was priced: the variant that it is for, and microseconds of one kernel and of several.
  std::string variant = {};
  double together = 0, apart = 0;
};

} // namespace tenon
