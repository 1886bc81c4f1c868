// Defines `normalize`, with means taken over all r:
//
//   y[k, r] = body((x[k, r] - mean) / sqrt(mean of squared deviations + epsilon), ins[k, r]...)
//
// Algorithm: row_group. A block's part of a row gives a mean and the squares of deviations from it
// (not of values, which cancel); those of several blocks are merged.
// Config: of row_group, and centered (false: the mean is taken as 0). x, outs, ins: over kept, then
// reduced dimensions. Computed in f32, f64 for f64. A result may be written over x where both lie
// alike.
//
// `normalize` is all of it, with blocks of a row, where there are several, as a cluster. Blocks
// that are no cluster take two launches: `normalize_parts` fills `parts`, as many as there are rows
// times blocks, and `normalize_joined` writes the results.
#ifndef TENON_RUNTIME_CUDA_NORMALIZE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_NORMALIZE_KERNEL_CUH

#include "cuda/base/row_group.cuh"
#include "cuda/normalize/moments.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Outs, class Ins, class Body, row_join Join>
struct normalize_kernel : detail::row_cluster<Config::blocks, Join> {
  using T = compute_t<typename X::element>;
  using moments = joined_moments<T, Config::centered>;
  using rows = row_group<Config, X, moments, Join>;

  Config cfg;
  T epsilon;
  X x;
  Outs outs;
  Ins ins;
  Body body;
  moments *parts;

  static constexpr int threads = Config::threads, blocks_per_sm = 1;

  normalize_kernel(Config cfg, T epsilon, X x, Outs outs, Ins ins, Body body, moments *parts)
      : cfg(cfg), epsilon(epsilon), x(x), outs(outs), ins(ins), body(body), parts(parts) {}

  TENON_FN static constexpr bool runs_on(target t) { return rows::runs_on(t); }
  int shared_bytes() const { return rows::shared_bytes(); }
  grid blocks() const { return {rows::grid_blocks(cfg), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *shared) const {
    const auto add = [](T a, T b) { return a + b; };
    rows all(cfg, x, shared);
    moments m = moments::none();
    if constexpr (Join != row_join::load) {
      m.count = T(all.part_length());
      if constexpr (Config::centered)
        m.mean = all.fold(
                     T(0), [](T v) { return v; }, add) /
                 max_of(m.count, T(1));
      m.squares = all.fold(
          T(0), [&](T v) { return (v - m.mean) * (v - m.mean); }, add);
    }
    if constexpr (Join == row_join::store) {
      all.store(m, parts);
    } else {
      m = all.joined(m, parts);
      const T mean = m.mean, factor = T(1) / sqrt<scalar_lanes>(m.squares / m.count + epsilon);
      all.apply(outs, ins, body, [=](T v) { return (v - mean) * factor; });
    }
  }
};

template <class Config, class T, class X, class Outs, class Ins, class Body>
auto normalize(Config cfg, T epsilon, X x, Outs outs, Ins ins, Body body) {
  constexpr row_join join = Config::blocks > 1 ? row_join::cluster : row_join::alone;
  return normalize_kernel<Config, X, Outs, Ins, Body, join>(cfg, epsilon, x, outs, ins, body,
                                                            nullptr);
}
/// `parts`: scratch of sizeof(row_moments<T>) for each of a row's blocks.
template <class Config, class X> auto normalize_parts(Config cfg, X x, void *parts) {
  using kernel =
      normalize_kernel<Config, X, arguments<>, arguments<>, identity_body, row_join::store>;
  return kernel(cfg, 0, x, {}, {}, {}, static_cast<typename kernel::moments *>(parts));
}
template <class Config, class T, class X, class Outs, class Ins, class Body>
auto normalize_joined(Config cfg, T epsilon, X x, Outs outs, Ins ins, Body body, void *parts) {
  using kernel = normalize_kernel<Config, X, Outs, Ins, Body, row_join::load>;
  return kernel(cfg, epsilon, x, outs, ins, body, static_cast<typename kernel::moments *>(parts));
}

} // namespace cuda
} // namespace tenon

#endif
