// Defines `fragment_prologue`: the K-indexed prologue of a contraction (scale, shift, activation of
// A) on the fragments that a warp multiplies, so that A itself travels to shared memory as it is.
//
// What the prologue reads beside A lies in shared memory, too (`staged_channels`): every step along
// K needs other elements, and would wait for them.
//
// For problems without padding only: a fragment does not know which elements lie outside, but for
// those beyond the last k, which stay zero.
#ifndef TENON_RUNTIME_CUDA_TILE_FRAGMENT_PROLOGUE_CUH
#define TENON_RUNTIME_CUDA_TILE_FRAGMENT_PROLOGUE_CUH

#include "cuda/ptx/cp_async.cuh"
#include "cuda/tile/contraction.cuh"

namespace tenon {
namespace cuda {

namespace detail {
template <class First, class Rest> struct prepended;
template <class First, class... Rest> struct prepended<First, arguments<Rest...>> {
  using type = arguments<First, Rest...>;
};
} // namespace detail

/// The operands of a prologue in shared memory, one after the other, each `pitch` elements: as many
/// as there are channels, then zeros for the rest of a step.
template <class Ins> struct staged_channels;
template <> struct staged_channels<arguments<>> {
  using views = arguments<>;
  TENON_FN static constexpr int bytes(int) { return 0; }
  TENON_DEVICE static void copy(arguments<>, unsigned char *, int, int, int) {}
  TENON_DEVICE static views at(const unsigned char *, int) { return {}; }
};
template <class T, class S, class... Rest> struct staged_channels<arguments<view<T, S>, Rest...>> {
  using element = detail::bare<T>;
  using rest = staged_channels<arguments<Rest...>>;
  using staged = view<const element, extents<1>>;
  using views = typename detail::prepended<staged, typename rest::views>::type;

  static constexpr int run = 16 / int(sizeof(element));
  static constexpr bool may_whole =
      has_async_copy && detail::is_unit<decltype(S{}.template get<0>())>;
  /// A step is 64 elements at most; the last may begin anywhere.
  TENON_FN static constexpr int pitch(int channels) { return (channels + 127) / 64 * 64; }
  TENON_FN static constexpr int bytes(int channels) {
    return pitch(channels) * int(sizeof(element)) + rest::bytes(channels);
  }
  /// Begins to copy, by threads 0 <= rank < team: all is there when their cp.async groups are, and
  /// they have met.
  TENON_DEVICE static void copy(const arguments<view<T, S>, Rest...> &ins, unsigned char *to,
                                int channels, int rank, int team) {
    const T *from = ins.head.data;
    const auto stride = ins.head.strides.head;
    const bool whole = may_whole && detail::is_aligned<16>(from);
    auto *tile = reinterpret_cast<element *>(to);
    for (int c = rank * run; c < pitch(channels); c += team * run) {
      const int left = channels - c;
      if (whole && (left >= run || left <= 0)) {
        ptx::cp_async<16>::copy(tile + c, left > 0 ? from + c : from, left > 0);
      } else {
        TENON_UNROLL
        for (int e = 0; e < run; ++e)
          tile[c + e] = e < left ? from[(c + e) * index_t(stride)] : element{};
      }
    }
    rest::copy(ins.tail, to + pitch(channels) * int(sizeof(element)), channels, rank, team);
  }
  TENON_DEVICE static views at(const unsigned char *from, int channels) {
    return {{reinterpret_cast<const element *>(from), {}},
            rest::at(from + pitch(channels) * int(sizeof(element)), channels)};
  }
};

/// What a lane needs for 32 bytes along K of A, elements T: its fragment (ptx/ldmatrix.cuh, four
/// matrices: rows 0 to 7 and 8 to 15 of the low half, then of the high) has 4 bytes of each half,
/// at 4 * (lane % 4). Ins are views of staged channels. Whole: K is known to end with such a step.
template <class T, bool Whole, class Prologue, class Ins> struct fragment_prologue {
  /// For the elements that begin at channel `first`, `left` of which there are.
  TENON_DEVICE void load(const Ins &ins, int first, int left) {
    left_ = left - own * (lane() % 4);
    TENON_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int at[1] = {first + half * h + own * (lane() % 4)};
      operands_[h].template load<0, operand_part::all, true>(ins, at, own);
    }
  }
  TENON_DEVICE void apply(const Prologue &prologue, unsigned (&fragment)[4]) const {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      T x[own];
      memcpy(x, &fragment[i], sizeof(x));
      TENON_UNROLL
      for (int e = 0; e < own; ++e) {
        const compute_t<T> y = operands_[i / 2].call(prologue, e, load_element(&x[e]));
        store_element(&x[e], Whole || half * (i / 2) + e < left_ ? y : compute_t<T>{});
      }
      memcpy(&fragment[i], x, sizeof(x));
    }
  }

private:
  static constexpr int half = 16 / int(sizeof(T)), own = 4 / int(sizeof(T));
  operand_runs<own, Ins> operands_[2];
  int left_; // elements from this lane's first one on
};

} // namespace cuda
} // namespace tenon

#endif
