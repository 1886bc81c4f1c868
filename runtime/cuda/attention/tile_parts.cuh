// Defines `tile_parts`: what a thread has of an attention's parts (common/attention_part.h) while
// tiles of keys pass, where scores lie as wgmma leaves them: columns 8 * j + 2 * (lane % 4) and the
// next of rows lane / 4 and lane / 4 + 8 of a warp's 16.
//
// How a part is had follows from its step and extent (attention_part_geometry):
//   steady   a tile is whole periods: what belongs to the thread's columns stays in registers
//   coarse   runs of columns have one coordinate: a number for each run, loaded with the tile
//   staged   else: the warp's rows wait in shared memory, where every score finds its own
#ifndef TENON_RUNTIME_CUDA_ATTENTION_TILE_PARTS_CUH
#define TENON_RUNTIME_CUDA_ATTENTION_TILE_PARTS_CUH

#include "common/attention_part.h"
#include "cuda/attention/geometry.h"
#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {
namespace detail {

/// One of them; nothing of a bias.
template <int Keys, class Added> struct tile_part {
  static constexpr index_t words = 0, held = 0;
  template <class RowAt> TENON_DEVICE void begin(const Added &, RowAt, unsigned *) {}
  template <class Index> TENON_DEVICE void prepare(const Added &, Index) {}
  template <bool First, class Index> TENON_DEVICE void add(float (&)[2], int, int, Index) const {}
};

template <int Keys, int Step, int Extent, class View>
struct tile_part<Keys, attention_part<Step, Extent, View>> {
  using part = attention_part<Step, Extent, View>;
  using element = bare<typename View::element>;
  static constexpr attention_part_geometry shape = {Step, Extent, sizeof(element)};
  static constexpr bool steady = shape.is_steady(Keys), coarse = shape.is_coarse(Keys);
  static constexpr index_t words = shape.staged_words(Keys), held = shape.held(Keys);
  static constexpr int periods = steady ? Extent / 8 : 1, runs = coarse ? shape.runs(Keys) : 1;
  static constexpr int pitch = int(words) * 4 / int(sizeof(element)); // elements

  const element *row[2];
  unsigned pair[periods][2][sizeof(element) / 2]; // two elements, as ptxas would not pack them
  float run[2][runs];

  TENON_DEVICE static index_t stride(const part &from) {
    return index_t(from.view.strides.template get<View::rank - 1>());
  }
  /// row_at(view, n): where row n of the warp's begins.
  template <class RowAt> TENON_DEVICE void begin(const part &from, RowAt row_at, unsigned *shared) {
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      row[r] = row_at(from.view, lane() / 4 + 8 * r);
      if constexpr (steady) {
        TENON_UNROLL
        for (int j = 0; j < periods; ++j) {
          const element *const at = row[r] + (8 * j + 2 * (lane() % 4)) * stride(from);
          const element two[2] = {at[0], at[stride(from)]};
          memcpy(pair[j][r], static_cast<const void *>(two), sizeof(two));
        }
      }
    }
    if constexpr (words > 0) {
      element *const to = reinterpret_cast<element *>(shared);
      TENON_NO_UNROLL
      for (int n = lane(); n < 16 * Extent; n += 32)
        to[n / Extent * pitch + n % Extent] =
            row_at(from.view, n / Extent)[n % Extent * stride(from)];
      TENON_UNROLL
      for (int r = 0; r < 2; ++r)
        row[r] = to + (lane() / 4 + 8 * r) * pitch;
    }
  }
  /// Before the tile whose first key this is.
  template <class Index> TENON_DEVICE void prepare(const part &from, Index first) {
    if constexpr (coarse) {
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        TENON_UNROLL
        for (int n = 0; n < runs; ++n)
          run[r][n] = load_element(row[r] + part::coordinate(first + n * Step) * stride(from));
      }
    }
  }
  /// What belongs to columns 8 * j + 2 * (lane % 4) and the next of row r.
  template <bool First, class Index>
  TENON_DEVICE void add(float (&two)[2], int r, int j, Index first) const {
    element both[2];
    if constexpr (steady)
      memcpy(static_cast<void *>(both), pair[j % periods][r], sizeof(both));
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      float x;
      if constexpr (steady)
        x = load_element(both + i);
      else if constexpr (coarse)
        x = run[r][runs == 1 ? 0 : 8 * j / Step];
      else
        x = load_element(row[r] + part::coordinate(first + 8 * j + 2 * (lane() % 4) + i));
      two[i] = First ? x : two[i] + x;
    }
  }
};

} // namespace detail

/// Those of a pack of what is added.
template <int Keys, class Pack> struct tile_parts {
  static constexpr index_t words = 0, held = 0;
  template <class RowAt> TENON_DEVICE void begin(const Pack &, RowAt, unsigned *) {}
  template <class Index> TENON_DEVICE void prepare(const Pack &, Index) {}
  template <bool First, class Index> TENON_DEVICE void add(float (&)[2], int, int, Index) const {}
};
template <int Keys, class Added, class... More> struct tile_parts<Keys, arguments<Added, More...>> {
  using own_part = detail::tile_part<Keys, Added>;
  using other_parts = tile_parts<Keys, arguments<More...>>;
  using pack_type = arguments<Added, More...>;
  /// Of a row in shared memory; registers of a thread.
  static constexpr index_t words = own_part::words + other_parts::words;
  static constexpr index_t held = own_part::held + other_parts::held;
  own_part own;
  other_parts others;

  /// `shared`: 16 rows of each part that is staged; the warp waits for itself afterwards.
  template <class RowAt>
  TENON_DEVICE void begin(const pack_type &from, RowAt row_at, unsigned *shared) {
    own.begin(from.head, row_at, shared);
    others.begin(from.tail, row_at, shared + 16 * own_part::words);
  }
  template <class Index> TENON_DEVICE void prepare(const pack_type &from, Index first) {
    own.prepare(from.head, first);
    others.prepare(from.tail, first);
  }
  /// First: nothing is in `two` yet.
  template <bool First, class Index>
  TENON_DEVICE void add(float (&two)[2], int r, int j, Index first) const {
    own.template add<First>(two, r, j, first);
    others.template add<First && !added_to_scores<Added>::is_part>(two, r, j, first);
  }
};

} // namespace cuda
} // namespace tenon

#endif
