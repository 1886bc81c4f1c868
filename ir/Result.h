// Defines Result: a value, or why there is none and what to do about it.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

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

} // namespace tenon
