// Defines `softmax`, or with `log` its logarithm:
//
//   y[k, r] = body(e^(x[k, r] - max) / sum over r of e^(x[k, r] - max), ins[k, r]...)
//
// Algorithm: row_group: the maximum of a block's part of a row and the sum of exponentials less
// that maximum; those of several blocks are merged. The exponential is computed once more for the
// results, since what is held is x.
// Config: of row_group, with one reduced dimension, and log (bool). x, outs, ins: over kept, then
// the reduced dimension. Computed in f32, f64 for f64. A result may be written over x where both
// lie alike.
//
// `softmax` is all of it, with blocks of a row, where there are several, as a cluster. Blocks that
// are none take two launches: `softmax_parts` fills `parts`, as many as there are rows times
// blocks, and `softmax_joined` writes the results.
#ifndef TENON_RUNTIME_CUDA_SOFTMAX_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SOFTMAX_KERNEL_CUH

#include "common/scalar.h"
#include "cuda/base/row_group.cuh"

namespace tenon {
namespace cuda {

namespace detail {
template <class T, bool IsNarrow = sizeof(T) <= 2> struct lanes_of_result {
  using type = scalar_lanes;
};
template <class T> struct lanes_of_result<T, true> { using type = narrowed<scalar_lanes>; };
/// Lanes of values that are stored as T.
template <class T> using lanes_beside = typename lanes_of_result<bare<T>>::type;
} // namespace detail

/// The largest of some values, and the sum of e^(value - largest).
template <class T> struct exponentials {
  T largest, sum;

  TENON_DEVICE static exponentials none() { return {-T(INFINITY), 0}; }
  TENON_DEVICE exponentials joined(const exponentials &b) const {
    const T most = max<scalar_lanes>(largest, b.largest);
    return {most, moved(most) + b.moved(most)};
  }

private:
  TENON_DEVICE T moved(T most) const {
    return largest == most ? sum : sum * exp<scalar_lanes>(largest - most);
  }
};

template <class Config, class X, class Outs, class Ins, class Body, row_join Join>
struct softmax_kernel : detail::row_cluster<Config::blocks, Join> {
  using T = compute_t<typename X::element>;
  /// The result has the type of x, whatever is made of it.
  using L = detail::lanes_beside<typename X::element>;
  using rows = row_group<Config, X, exponentials<T>, Join>;

  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;
  exponentials<T> *parts;

  static constexpr int threads = Config::threads, blocks_per_sm = 1;

  softmax_kernel(Config cfg, X x, Outs outs, Ins ins, Body body, exponentials<T> *parts)
      : cfg(cfg), x(x), outs(outs), ins(ins), body(body), parts(parts) {}

  TENON_FN static constexpr bool runs_on(target t) { return rows::runs_on(t); }
  int shared_bytes() const { return rows::shared_bytes(); }
  grid blocks() const { return {rows::grid_blocks(cfg), 1, 1}; }

  TENON_DEVICE void run(unsigned char *shared) const {
    rows all(cfg, x, shared);
    exponentials<T> e = exponentials<T>::none();
    if constexpr (Join != row_join::load) {
      e.largest = all.fold(
          e.largest, [](T v) { return v; }, [](T a, T b) { return max<L>(a, b); });
      // A part may be nothing but -inf where the row is not.
      const T shift = e.largest == -T(INFINITY) ? T(0) : e.largest;
      e.sum = all.fold(
          T(0), [&](T v) { return exp<L>(v - shift); }, [](T a, T b) { return a + b; });
    }
    if constexpr (Join == row_join::store) {
      all.store(e, parts);
    } else {
      e = all.joined(e, parts);
      const T largest = e.largest, factor = Config::log ? log<L>(e.sum) : T(1) / e.sum;
      all.apply(outs, ins, body, [=](T v) {
        return Config::log ? v - largest - factor : exp<L>(v - largest) * factor;
      });
    }
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
auto softmax(Config cfg, X x, Outs outs, Ins ins, Body body) {
  constexpr row_join join = Config::blocks > 1 ? row_join::cluster : row_join::alone;
  return softmax_kernel<Config, X, Outs, Ins, Body, join>(cfg, x, outs, ins, body, nullptr);
}
/// `parts`: scratch of sizeof(exponentials<T>) for each of a row's blocks.
template <class Config, class X> auto softmax_parts(Config cfg, X x, void *parts) {
  using kernel =
      softmax_kernel<Config, X, arguments<>, arguments<>, identity_body, row_join::store>;
  return kernel(cfg, x, {}, {}, {}, static_cast<exponentials<typename kernel::T> *>(parts));
}
template <class Config, class X, class Outs, class Ins, class Body>
auto softmax_joined(Config cfg, X x, Outs outs, Ins ins, Body body, void *parts) {
  using kernel = softmax_kernel<Config, X, Outs, Ins, Body, row_join::load>;
  return kernel(cfg, x, outs, ins, body, static_cast<exponentials<typename kernel::T> *>(parts));
}

} // namespace cuda
} // namespace tenon

#endif
