// Defines what decode_attention knows of keys and values that are new: `appended_rows`, and
// `joined_columns`, an operand whose columns come from several (the halves of a rotation).
#ifndef TENON_RUNTIME_CUDA_DECODE_ATTENTION_CACHE_CUH
#define TENON_RUNTIME_CUDA_DECODE_ATTENTION_CACHE_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

/// All keys and values lie where k and v say.
struct no_appended_rows {
  static constexpr bool appends = false, moves = false, early = false, whole = false;
};
/// Those that k and v have are `past` (fixed or dyn) rows; behind them stand those of new_k and
/// new_v, operands over (batch..., group, row, column), the same for all of a group. Moves: all
/// rows are written to present_k and present_v, views likewise, apart from k and v. Otherwise the
/// new ones alone are, from row 0 of these views on: the cache stays where it is, and they lie
/// behind its old rows. Early: k and v are inputs of the program, which may be read before the
/// dependency wait. Whole: what queries and new rows are computed of lies in aligned runs of eight.
template <bool Moves, bool Early, bool Whole, class Past, class NewK, class NewV, class PresentK,
          class PresentV>
struct appended_rows {
  static constexpr bool appends = true, moves = Moves, early = Early, whole = Whole;
  Past past;
  NewK new_k;
  NewV new_v;
  PresentK present_k;
  PresentV present_v;
};
template <bool Moves, bool Early, bool Whole = false, class Past, class NewK, class NewV,
          class PresentK, class PresentV>
TENON_FN appended_rows<Moves, Early, Whole, Past, NewK, NewV, PresentK, PresentV>
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

} // namespace cuda
} // namespace tenon

#endif
