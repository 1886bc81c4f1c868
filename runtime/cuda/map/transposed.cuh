// Defines `map_transposed`: a map whose results are contiguous along the last dimension while some
// operands are contiguous along another one, `across` (transposes, layout changes).
//
// Algorithm: a block computes a 32 x 32 tile of (across, last). Operands contiguous along `across`
// come through shared memory, read with neighbouring threads along `across`; the others are read in
// place. Row pitch 33 keeps both directions free of bank conflicts.
// Config: space (dims), across (dimension number, not the last), large (optional).
#ifndef TENON_RUNTIME_CUDA_MAP_TRANSPOSED_CUH
#define TENON_RUNTIME_CUDA_MAP_TRANSPOSED_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {
namespace detail {

constexpr int transpose_tile = 32, transpose_rows = 8;

/// Whether an operand goes through shared memory: contiguous along Across and not along Last.
template <int Across, int Last, class View> struct is_staged {
  static constexpr bool value = false;
};
template <int Across, int Last, class T, class S> struct is_staged<Across, Last, view<T, S>> {
  static constexpr bool value = is_unit<decltype(S{}.template get<Across>())> &&
                                !is_unit<decltype(S{}.template get<Last>())> &&
                                !is_broadcast<decltype(S{}.template get<Last>())>;
};

/// The tiles of a pack's staged operands, one after another in shared memory.
template <int Across, int Last, class Views> struct staged_tiles;
template <int Across, int Last> struct staged_tiles<Across, Last, arguments<>> {
  static constexpr int bytes = 0;
  template <class Index, int Rank>
  TENON_DEVICE static void fill(unsigned char *, arguments<>, Index (&)[Rank], Index, Index) {}
  template <class Body, class Index, int Rank, class... Got>
  TENON_DEVICE static auto call(const unsigned char *, const Body &body, arguments<>,
                                const Index (&)[Rank], int, int, Got... got) {
    return body(scalar_lanes{}, got...);
  }
};
template <int Across, int Last, class View, class... Rest>
struct staged_tiles<Across, Last, arguments<View, Rest...>> {
  using tail = staged_tiles<Across, Last, arguments<Rest...>>;
  using value = compute_t<typename View::element>;
  static constexpr bool staged = is_staged<Across, Last, View>::value;
  static constexpr int pitch = transpose_tile + 1;
  // A multiple of 8, so that whatever follows is aligned.
  static constexpr int own = staged ? (transpose_tile * pitch * int(sizeof(value)) + 7) / 8 * 8 : 0;
  static constexpr int bytes = own + tail::bytes;

  /// Reads this block's tiles; `at` is the tile's origin, `across` and `last` the extents.
  template <class Index, int Rank>
  TENON_DEVICE static void fill(unsigned char *shared, const arguments<View, Rest...> &views,
                                Index (&at)[Rank], Index across, Index last) {
    if constexpr (staged) {
      value *tile = reinterpret_cast<value *>(shared);
      const int x = thread() % transpose_tile;
      const auto origin = views.head.data + offset(views.head.strides, at);
      const index_t pitch_last = views.head.strides.template get<Last>();
      for (int y = thread() / transpose_tile; y < transpose_tile; y += transpose_rows)
        if (at[Across] + x < across && at[Last] + y < last)
          tile[x * pitch + y] = load_element(origin + x + y * pitch_last);
    }
    tail::fill(shared + own, views.tail, at, across, last);
  }
  /// body(got..., this pack's elements...) at point `at`, which is (y, x) of the tile.
  template <class Body, class Index, int Rank, class... Got>
  TENON_DEVICE static auto call(const unsigned char *shared, const Body &body,
                                const arguments<View, Rest...> &views, const Index (&at)[Rank],
                                int y, int x, Got... got) {
    value v[1];
    if constexpr (staged)
      v[0] = reinterpret_cast<const value *>(shared)[y * pitch + x];
    else
      load_operand<Last>(v, views.head, at, 1);
    return tail::call(shared + own, body, views.tail, at, y, x, got..., v[0]);
  }
};
} // namespace detail

template <class Config, class Outs, class Ins, class Body> struct map_transposed_kernel {
  Config cfg;
  Outs outs;
  Ins ins;
  Body body;

  using index = index_of<Config>;
  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int last = rank - 1, across = Config::across;
  static constexpr int tile = detail::transpose_tile, rows = detail::transpose_rows;
  static constexpr int threads = tile * rows, blocks_per_sm = 1;
  static_assert(across < last, "`across` is a dimension before the last");
  using tiles = detail::staged_tiles<across, last, Ins>;

  int shared_bytes() const { return tiles::bytes; }
  /// All tiles along x: the other dimensions have no bound of 65,535.
  grid blocks() const {
    const index_t a = cfg.space.template get<across>(), l = cfg.space.template get<last>();
    const index_t others = a && l ? volume(cfg.space) / a / l : 0;
    return {others * ceil_div(a, index_t(tile)) * ceil_div(l, index_t(tile)), 1, 1};
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const index a = index(index_t(cfg.space.template get<across>()));
    const index l = index(index_t(cfg.space.template get<last>()));
    const index tiles_a = ceil_div(a, index(tile)), tiles_l = ceil_div(l, index(tile));
    index at[rank];
    const index n = index(block_x());
    const index others = n / (tiles_a * tiles_l), in_plane = n - others * tiles_a * tiles_l;
    unravel_others(cfg.space, others, at);
    at[across] = in_plane / tiles_l * tile;
    at[last] = in_plane % tiles_l * tile;
    tiles::fill(shared, ins, at, a, l);
    sync_block();

    const index origin = at[across];
    const int x = thread() % tile;
    at[last] += x;
    for (int y = thread() / tile; y < tile; y += rows) {
      at[across] = origin + y;
      if (at[across] < a && at[last] < l) {
        result_runs<1, Outs> stored;
        stored.set(0, tiles::call(shared, body, ins, at, y, x));
        stored.template store<last>(outs, at, 1);
      }
    }
  }

private:
  /// Coordinates of `n` in the dimensions other than `across` and the last.
  template <int I = 0, class Space>
  TENON_DEVICE static index unravel_others(const Space &space, index n, index (&at)[rank]) {
    if constexpr (I == last) {
      return n;
    } else {
      const index rest = unravel_others<I + 1>(space.tail, n, at);
      if constexpr (I == across) {
        return rest;
      } else {
        const index extent = index(index_t(space.head));
        at[I] = rest % extent;
        return rest / extent;
      }
    }
  }
};

template <class Config, class Outs, class Ins, class Body>
map_transposed_kernel<Config, Outs, Ins, Body> map_transposed(Config cfg, Outs outs, Ins ins,
                                                              Body body) {
  return {cfg, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
