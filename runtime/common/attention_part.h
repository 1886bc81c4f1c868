// Defines `attention_part`: what is added to an attention's scores by a coordinate of their key.
#ifndef TENON_RUNTIME_COMMON_ATTENTION_PART_H
#define TENON_RUNTIME_COMMON_ATTENTION_PART_H

#include "common/base.h"

namespace tenon {

/// A view over (batch..., m, coordinate), where key n has the coordinate n / Step mod Extent:
/// positions along one side of an image whose places are the keys, say.
template <int Step, int Extent, class View> struct attention_part {
  using element = typename View::element;
  View view;

  static constexpr int step = Step, extent = Extent;
  template <class Index> TENON_FN static constexpr Index coordinate(Index key) {
    return key / Index(Step) % Index(Extent);
  }
};

template <int Step, int Extent, class View>
TENON_FN constexpr attention_part<Step, Extent, View> make_attention_part(View view) {
  return {view};
}

/// How one of a pack of what is added is read: its view, and the column that belongs to a key.
template <class T> struct added_to_scores {
  static constexpr bool is_part = false;
  TENON_FN static const T &view(const T &x) { return x; }
  template <class Index> TENON_FN static Index column(Index key) { return key; }
};
template <int Step, int Extent, class View>
struct added_to_scores<attention_part<Step, Extent, View>> {
  static constexpr bool is_part = true;
  using part = attention_part<Step, Extent, View>;
  TENON_FN static const View &view(const part &x) { return x.view; }
  template <class Index> TENON_FN static Index column(Index key) { return part::coordinate(key); }
};
/// Whether a pack of what is added has one number for each score, which comes first.
template <class Pack> constexpr bool starts_with_bias = false;
template <class First, class... More>
constexpr bool starts_with_bias<arguments<First, More...>> = !added_to_scores<First>::is_part;

} // namespace tenon

#endif
