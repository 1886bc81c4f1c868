// Defines products of filters with patches of bytes that are widened to pairs of 16-bit integers:
// what conv_pairs does between the widening of inputs and the bodies of its outputs.
//
//   byte_patch               a patch that is widened whenever it is read
//   multiply_patches         filters as bytes or as fields of them (common/weight_fields.h)
//   multiply_joined_patches  pairs of filters side by side (common/joined_weights.h)
//
// Patches are groups of four bytes, each two words: the pair of its bytes 0 and 2, that of 1 and 3.
// Those of neighbouring outputs are interleaved, group by group; for joined filters first the even
// pairs of a group, then the odd ones, so that one instruction loads either.
#ifndef TENON_RUNTIME_CPU_PAIR_PRODUCTS_H
#define TENON_RUNTIME_CPU_PAIR_PRODUCTS_H

#include "common/joined_weights.h"
#include "common/pairs.h"
#include "common/weight_fields.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {
namespace detail {

/// A patch that lies in memory as bytes, widened whenever it is read: for one output at a time,
/// when all weights are read but once, that costs less than room for it.
template <class T> struct byte_patch {
  const T *data;
  uint32_t minus_zero;
  TENON_FN byte_patch &operator+=(index_t words) {
    data += 2 * words;
    return *this;
  }
};
template <int Offset, class T>
TENON_FN void load_words(const byte_patch<T> &x, uint32_t &first, uint32_t &second) {
  const uint32_t bytes = load_word(x.data + 2 * Offset);
  first = widen<T>::even(x.minus_zero, bytes);
  second = widen<T>::odd(x.minus_zero, bytes);
}
template <int Offset>
TENON_FN void load_words(const uint32_t *x, uint32_t &first, uint32_t &second) {
  tenon::load_words<Offset>(x, first, second);
}

/// acc[k][r] += four products of filter k of NR with patch r of MR. `weights(k)` gives four bytes;
/// the words of the patches start Offset words from x.
template <int MR, int NR, int Offset, class Weights, class Source>
TENON_FN void multiply_group(const Weights &weights, const Source &x, int32_t (&acc)[NR][MR]) {
  if constexpr (NR == 1) { // few registers: each patch is loaded when it is needed
    const uint32_t four = weights(fixed<0>{}), even = widen_even(four), odd = widen_odd(four);
    unroll<MR>([&](auto r) TENON_LAMBDA {
      uint32_t x0, x1;
      load_words<Offset + 2 * decltype(r)::value>(x, x0, x1);
      acc[0][r] = multiply_add(acc[0][r], x0, even);
      acc[0][r] = multiply_add(acc[0][r], x1, odd);
    });
  } else {
    uint32_t x0[MR], x1[MR];
    unroll<MR>([&](auto r)
                   TENON_LAMBDA { load_words<Offset + 2 * decltype(r)::value>(x, x0[r], x1[r]); });
    unroll<NR>([&](auto k) TENON_LAMBDA {
      const uint32_t four = weights(k), even = widen_even(four), odd = widen_odd(four);
      unroll<MR>([&](auto r) TENON_LAMBDA {
        acc[k][r] = multiply_add(acc[k][r], x0[r], even);
        acc[k][r] = multiply_add(acc[k][r], x1[r], odd);
      });
    });
  }
}

/// acc[k][r] += the product of filter k of NR with patch r of MR, of Step / 2 that lie interleaved.
template <int MR, int NR, int Step, index_t Depth, int Bits, class Source>
TENON_FN void multiply_patches(const int8_t *w, Source x, int32_t (&acc)[NR][MR]) {
  using fields = weight_fields<Bits, 4>;
  constexpr int at_once = 4; // groups of four between two steps of the pointers
  constexpr index_t row = fields::row_bytes(Depth);
  constexpr index_t groups = Bits == 8 ? Depth / 4 : ceil_div(Depth, 4), rounds = groups / at_once;
  constexpr int rest = int(groups % at_once), tail = Bits == 8 ? int(Depth % 4) : 0;
  const auto some = [&](auto count) TENON_LAMBDA {
    unroll<decltype(count)::value>([&](auto g) TENON_LAMBDA {
      constexpr int word = decltype(g)::value / fields::groups * 4;
      multiply_group<MR, NR, decltype(g)::value * Step>(
          [&](auto k) TENON_LAMBDA {
            return fields::group(load_word(w + int(k) * row + word),
                                 decltype(g)::value % fields::groups);
          },
          x, acc);
    });
    w += 4 * decltype(count)::value / fields::groups;
    x += Step * decltype(count)::value;
  };
  const int8_t *const end = w + rounds * 4 * at_once / fields::groups;
  while (w != end)
    some(fixed<at_once>{});
  if constexpr (rest != 0)
    some(fixed<rest>{});
  if constexpr (tail != 0)
    multiply_group<MR, NR, 0>(
        [&](auto k) TENON_LAMBDA {
          uint32_t bytes = 0;
          for (int i = 0; i < tail; ++i) // the rows of fields have zeros there
            bytes |= uint32_t(uint8_t(w[int(k) * Depth + i])) << 8 * i;
          return bytes;
        },
        x, acc);
  unroll<NR>([&](auto k) TENON_LAMBDA {
    unroll<MR>([&](auto r) TENON_LAMBDA { acc[k][r] = fields::descale(acc[k][r]); });
  });
}

/// The pairs of a group of MR patches for joined filters; Step words make a group.
template <int MR, int Step>
TENON_FN void load_group(const uint32_t *x, uint32_t (&even)[MR], uint32_t (&odd)[MR]) {
  unroll<MR>([&](auto r) TENON_LAMBDA {
    even[r] = x[int(r)];
    odd[r] = x[Step / 2 + int(r)];
  });
}
template <int MR, int Step, class T>
TENON_FN void load_group(const byte_patch<T> &x, uint32_t (&even)[1], uint32_t (&odd)[1]) {
  static_assert(MR == 1, "bytes are read for one output at a time");
  load_words<0>(x, even[0], odd[0]);
}

/// acc[2 p][r] and acc[2 p + 1][r] += four products of pair p of filters with patch r, of both and
/// of the second one alone (common/joined_weights.h). Steps behind the group.
template <int MR, int Pairs, int Step> struct joined_group {
  template <class Source>
  static TENON_FN void multiply(const int8_t *&w, Source &x, int32_t (&acc)[2 * Pairs][MR]) {
    uint32_t pairs[2][MR];
    load_group<MR, Step>(x, pairs[0], pairs[1]);
    unroll<2 * Pairs>([&](auto i) TENON_LAMBDA {
      constexpr int p = decltype(i)::value / 2, half = decltype(i)::value % 2;
      const uint32_t joined = load_word(w + 4 * int(i)), second = widen_even(joined);
      unroll<MR>([&](auto r) TENON_LAMBDA {
        acc[2 * p][r] = multiply_add(acc[2 * p][r], pairs[half][r], joined);
        acc[2 * p + 1][r] = multiply_add(acc[2 * p + 1][r], pairs[half][r], second);
      });
    });
    w += joined_weights<Pairs>::group_bytes;
    x += Step;
  }
};

#if TENON_DSP
// Blocks that fill the registers but one, which may be a frame pointer: 17 instructions for 24
// products, and 14, with the patch's two pairs in registers, for 16. Compilers know neither how to
// load several words at once nor when to widen in place.
template <> struct joined_group<3, 1, 6> {
  static TENON_FN void multiply(const int8_t *&w, const uint32_t *&x, int32_t (&acc)[2][3]) {
    uint32_t even, odd;
    __asm__ volatile("ldrd %[even], %[odd], [%[w]], #8\n\t"
                     "ldmia %[x]!, {r4, r5, r6}\n\t"
                     "smlad %[a0], r4, %[even], %[a0]\n\t"
                     "smlad %[a1], r5, %[even], %[a1]\n\t"
                     "smlad %[a2], r6, %[even], %[a2]\n\t"
                     "sxtb16 %[even], %[even]\n\t"
                     "smlad %[b0], r4, %[even], %[b0]\n\t"
                     "smlad %[b1], r5, %[even], %[b1]\n\t"
                     "smlad %[b2], r6, %[even], %[b2]\n\t"
                     "ldmia %[x]!, {r4, r5, r6}\n\t"
                     "smlad %[a0], r4, %[odd], %[a0]\n\t"
                     "smlad %[a1], r5, %[odd], %[a1]\n\t"
                     "smlad %[a2], r6, %[odd], %[a2]\n\t"
                     "sxtb16 %[odd], %[odd]\n\t"
                     "smlad %[b0], r4, %[odd], %[b0]\n\t"
                     "smlad %[b1], r5, %[odd], %[b1]\n\t"
                     "smlad %[b2], r6, %[odd], %[b2]"
                     : [a0] "+r"(acc[0][0]), [a1] "+r"(acc[0][1]), [a2] "+r"(acc[0][2]),
                       [b0] "+r"(acc[1][0]), [b1] "+r"(acc[1][1]), [b2] "+r"(acc[1][2]),
                       [w] "+r"(w), [x] "+r"(x), [even] "=&r"(even), [odd] "=&r"(odd)
                     :
                     : "r4", "r5", "r6", "memory");
  }
};

template <int Step> struct joined_group<1, 2, Step> {
  template <class Source>
  static TENON_FN void multiply(const int8_t *&w, Source &x, int32_t (&acc)[4][1]) {
    uint32_t even[1], odd[1];
    load_group<1, Step>(x, even, odd);
    __asm__ volatile("ldmia %[w]!, {r4, r5, r6, r8}\n\t"
                     "smlad %[a], r4, %[even], %[a]\n\t"
                     "smlad %[c], r6, %[even], %[c]\n\t"
                     "sxtb16 r4, r4\n\t"
                     "smlad %[b], r4, %[even], %[b]\n\t"
                     "sxtb16 r6, r6\n\t"
                     "smlad %[d], r6, %[even], %[d]\n\t"
                     "smlad %[a], r5, %[odd], %[a]\n\t"
                     "smlad %[c], r8, %[odd], %[c]\n\t"
                     "sxtb16 r5, r5\n\t"
                     "smlad %[b], r5, %[odd], %[b]\n\t"
                     "sxtb16 r8, r8\n\t"
                     "smlad %[d], r8, %[odd], %[d]"
                     : [a] "+r"(acc[0][0]), [b] "+r"(acc[1][0]), [c] "+r"(acc[2][0]),
                       [d] "+r"(acc[3][0]), [w] "+r"(w)
                     : [even] "r"(even[0]), [odd] "r"(odd[0])
                     : "r4", "r5", "r6", "r8", "memory");
    x += Step;
  }
};
#endif

/// How many of so many groups one round of a loop takes: none are left over where that is cheap.
constexpr int groups_at_once(index_t groups) {
  if (groups < 8)
    return int(groups);
  return groups % 4 == 0 ? 4 : groups % 5 == 0 ? 5 : groups % 7 == 0 ? 7 : 4;
}

/// acc[k][r] += the product of filter k of 2 * Pairs with patch r of MR, of Step / 2 that lie
/// interleaved.
template <int MR, int Pairs, int Step, index_t Depth, class Source>
TENON_FN void multiply_joined_patches(const int8_t *w, Source x, int32_t (&acc)[2 * Pairs][MR]) {
  using joined = joined_weights<Pairs>;
  constexpr index_t groups = ceil_div(Depth, 4);
  // Between two comparisons; the few outputs that fill no tile are worth no code.
  constexpr int at_once = Step > 2 * MR ? 1 : groups_at_once(groups);
  const auto some = [&](auto count) TENON_LAMBDA {
    unroll<decltype(count)::value>(
        [&](auto) TENON_LAMBDA { joined_group<MR, Pairs, Step>::multiply(w, x, acc); });
  };
  if constexpr (groups > at_once) {
    const int8_t *const end = w + groups / at_once * at_once * joined::group_bytes;
    while (w != end)
      some(fixed<at_once>{});
    some(fixed<groups % at_once>{});
  } else {
    some(fixed<groups>{});
  }
  unroll<Pairs>([&](auto p) TENON_LAMBDA {
    unroll<MR>([&](auto r) TENON_LAMBDA {
      acc[2 * p][r] = joined::first_sum(acc[2 * p][r], acc[2 * p + 1][r]);
    });
  });
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
