// Defines topk: the k largest (or smallest) elements along one dimension, in order, with their
// indices.
//
//   topk<Largest>(space, n, k, x, outs, ins, body, places, workers)
//     outs[p, r] = body(x[p, i], i, ins[p, r]...) where i is the index of the r-th element
//
// Equal elements keep the lower index first; NaN counts as largest. A heap of the k best indices so
// far has the worst of them on top, with which four vectors are compared at once; sorting it at the
// end gives the order. Up to 16 stand in their order from the first, with their values: moving a
// few is cheaper than a heap's branches, which are not predicted. space: dims<...> of the other
// dimensions. n, k: extents (`fixed` or `dyn`), k <= n. x: view or computed_view over (space...,
// n); outs, ins: over (space..., k). places: k index_t of scratch; so one thread works.
#ifndef TENON_RUNTIME_CPU_TOPK_H
#define TENON_RUNTIME_CPU_TOPK_H

#include "common/math_vector.h"
#include "cpu/map.h"

namespace tenon {
namespace cpu {
namespace detail {

/// Whether a comes before b by value alone.
template <bool Largest, class T> TENON_FN bool precedes(T a, T b) {
  const bool a_nan = a != a, b_nan = b != b;
  if constexpr (Largest)
    return a_nan ? !b_nan : a > b;
  else
    return b_nan ? !a_nan : a < b;
}

/// The lanes of x that come before `than`.
template <bool Largest, class L, class T, class V> TENON_FN b1<L> preceding(V x, T than) {
  if constexpr (!holds_float<V>)
    return Largest ? as_mask<L>(x > than) : as_mask<L>(x < than);
  else if constexpr (Largest) // NaN, too, unless `than` is one
    return than != than ? b1<L>{} : logical_not<L>(as_mask<L>(x <= than));
  else
    return than != than ? as_mask<L>(x == x) : as_mask<L>(x < than);
}

/// Restores the heap below `i`: no child comes after its parent.
template <class Before>
void sift_down(index_t *heap, index_t size, index_t i, const Before &before) {
  for (index_t child; (child = 2 * i + 1) < size; i = child) {
    if (child + 1 < size && before(heap[child], heap[child + 1]))
      ++child;
    if (!before(heap[i], heap[child]))
      return;
    const index_t moved = heap[i];
    heap[i] = heap[child];
    heap[child] = moved;
  }
}

} // namespace detail

template <bool Largest, class Space, class N, class K, class X, class Outs, class Ins, class Body>
void topk(const Space &space, N n, K k, const X &x, const Outs &outs, const Ins &ins,
          const Body &body, index_t *places, pool &) {
  using namespace detail;
  constexpr int rank = Space::rank;
  if (index_t(k) == 0)
    return;
  odometer<rank> it;
  fill_extents<0>(space, it.extents);
  const index_t rows = it.size();
  for (index_t row = 0; row < rows; ++row, it.step()) {
    index_t at[rank + 1];
    for (int d = 0; d < rank; ++d)
      at[d] = it.at[d];
    const auto element = [&](index_t i) {
      at[rank] = i;
      return load_at<scalar_lanes, rank>(x, at, fixed<1>{});
    };
    const auto before = [&](index_t a, index_t b) {
      const auto u = element(a), v = element(b);
      return precedes<Largest>(u, v) || (!precedes<Largest>(v, u) && a < b);
    };
    using T = compute_t<typename X::element>;
    using L = lanes_for<T>;
    constexpr int vectors = 4, width = vectors * L::width;
    constexpr index_t few = 16;
    const bool ordered = index_t(k) <= few;
    T values[few];
    // Puts element i behind those of the first `size` that do not come after it.
    const auto insert = [&](index_t i, index_t size) {
      const T value = element(i);
      for (; size > 0 && precedes<Largest>(value, values[size - 1]); --size) {
        values[size] = values[size - 1];
        places[size] = places[size - 1];
      }
      values[size] = value;
      places[size] = i;
    };
    if (ordered) {
      for (index_t i = 0; i < index_t(k); ++i)
        insert(i, i);
    } else {
      for (index_t i = 0; i < index_t(k); ++i)
        places[i] = i;
      for (index_t i = k / 2; i-- > 0;)
        sift_down(places, k, i, before);
    }
    T worst = ordered ? values[k - 1] : element(places[0]);
    // Later elements come before the worst by value alone.
    const auto meet = [&](index_t i) {
      if (!precedes<Largest>(element(i), worst))
        return;
      if (ordered) {
        insert(i, k - 1);
        worst = values[k - 1];
        return;
      }
      places[0] = i;
      sift_down(places, k, 0, before);
      worst = element(places[0]);
    };
    index_t i = k;
    if constexpr (L::width > 1) {
      const auto better = [&](index_t from) TENON_LAMBDA {
        at[rank] = from;
        return preceding<Largest, L>(load_at<L, rank>(x, at, fixed<L::width>{}), worst);
      };
      const auto meet_vector = [&](index_t from) {
        if (any_lane<L>(better(from)))
          for (index_t j = from; j < from + L::width; ++j)
            meet(j);
      };
      for (; i + width <= index_t(n); i += width) {
        b1<L> any = b1<L>{};
        unroll<vectors>([&](auto v) TENON_LAMBDA { any = any | better(i + int(v) * L::width); });
        if (any_lane<L>(any))
          for (int v = 0; v < vectors; ++v)
            meet_vector(i + v * L::width);
      }
      for (; i + L::width <= index_t(n); i += L::width)
        meet_vector(i);
    }
    for (; i < index_t(n); ++i)
      meet(i);
    for (index_t size = ordered ? 0 : index_t(k); size > 1;) {
      --size;
      const index_t last = places[0];
      places[0] = places[size];
      places[size] = last;
      sift_down(places, size, 0, before);
    }
    for (index_t r = 0; r < index_t(k); ++r) {
      const auto value = element(places[r]);
      at[rank] = r;
      apply_body<scalar_lanes, rank>(body, outs, ins, at, fixed<1>{}, value, int64_t(places[r]));
    }
  }
}

} // namespace cpu
} // namespace tenon

#endif
