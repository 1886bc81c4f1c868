// Defines what decode_attention knows of keys and values that are new: `appended_rows`; and of
// operands that it computes: `joined_columns`, whose columns come from several (the halves of a
// rotation), and `normed_columns`, which are computed of normalised rows (the norm of a head).
#ifndef TENON_RUNTIME_CUDA_DECODE_ATTENTION_CACHE_CUH
#define TENON_RUNTIME_CUDA_DECODE_ATTENTION_CACHE_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

/// All keys and values lie where k and v say.
struct no_appended_rows {
  static constexpr bool appends = false, moves = false, early = false, whole = false;
  static constexpr int most = 1;
  using new_keys = view<const f16, dims<>>;
  using new_values = new_keys;
};
/// Those that k and v have are `past` (fixed or dyn) rows; behind them stand those of new_k and
/// new_v, operands over (batch..., group, row, column), the same for all of a group. Moves: all
/// rows are written to present_k and present_v, views likewise, apart from k and v. Otherwise the
/// new ones alone are, from row 0 of these views on: the cache stays where it is, and they lie
/// behind its old rows. Early: k and v are inputs of the program, which may be read before the
/// dependency wait. Whole: these, and what queries and new rows are computed of, lie in aligned
/// runs of eight. Most: new rows.
template <bool Moves, bool Early, bool Whole, int Most, class Past, class NewK, class NewV,
          class PresentK, class PresentV>
struct appended_rows {
  static constexpr int most = Most;
  static constexpr bool appends = true, moves = Moves, early = Early, whole = Whole;
  using new_keys = NewK;
  using new_values = NewV;
  Past past;
  NewK new_k;
  NewV new_v;
  PresentK present_k;
  PresentV present_v;
};
template <bool Moves, bool Early, bool Whole = false, int Most = 16, class Past, class NewK,
          class NewV, class PresentK, class PresentV>
TENON_FN appended_rows<Moves, Early, Whole, Most, Past, NewK, NewV, PresentK, PresentV>
make_appended_rows(Past past, NewK new_k, NewV new_v, PresentK present_k, PresentV present_v) {
  return {past, new_k, new_v, present_k, present_v};
}

/// The first Columns columns are those of an operand, the others those of `rest`.
template <int Columns, class First, class Rest> struct joined_columns {
  using element = typename Rest::element;
  First first;
  Rest rest;
};
template <int Columns, class First, class Rest>
TENON_FN joined_columns<Columns, First, Rest> make_joined_columns(First first, Rest rest) {
  static_assert(Columns % 8 == 0, "no run has columns of both");
  return {first, rest};
}

/// What is computed of rows of x, a view over (batch..., group, row, column), that are normalised
/// over Depth neighbouring columns: (x - mean) / sqrt(variance + epsilon), or without Centered by
/// the root of the mean square. `from` has it as its operands that are a normed_view.
template <int Depth, bool Centered, class X, class From> struct normed_columns {
  using element = typename From::element;
  X x;
  float epsilon;
  From from;
};
template <int Depth, bool Centered, class X, class From>
TENON_FN normed_columns<Depth, Centered, X, From> make_normed_columns(X x, float epsilon,
                                                                      From from) {
  static_assert(Depth <= 256, "a warp has a run of each lane");
  return {x, epsilon, from};
}

/// Of a row.
struct row_statistics {
  float mean = 0, factor = 1;
};
/// Elements of rows that are normalised when they are looked at.
template <class View> struct normed_view { View x; };
template <class View> TENON_FN normed_view<View> make_normed_view(View x) { return {x}; }

template <int V, class View> struct fetched_run<V, normed_view<View>> {
  fetched_run<V, View> run;
  row_statistics of;

  template <int Along, bool Whole = false, class Index, int Rank>
  TENON_DEVICE void fetch(const normed_view<View> &v, const Index (&at)[Rank], int count) {
    run.template fetch<Along, Whole>(v.x, at, count);
  }
  TENON_DEVICE float operator[](int i) const { return (float(run[i]) - of.mean) * of.factor; }
};
/// Says of which row the runs of normed views are.
template <int V>
TENON_DEVICE void set_statistics(operand_runs<V, arguments<>> &, const row_statistics &) {}
template <int V, class View, class... Rest>
TENON_DEVICE void set_statistics(operand_runs<V, arguments<View, Rest...>> &runs,
                                 const row_statistics &of) {
  set_statistics(runs.tail, of);
}
template <int V, class View, class... Rest>
TENON_DEVICE void set_statistics(operand_runs<V, arguments<normed_view<View>, Rest...>> &runs,
                                 const row_statistics &of) {
  runs.head.of = of;
  set_statistics(runs.tail, of);
}

} // namespace cuda
} // namespace tenon

#endif
