// Defines `scan`: running folds along the last dimension of a space.
//
//   fold(i) = combine(... combine(x[..., 0], x[..., 1]) ..., x[..., i])
//   outs[..., i] = body(fold(i), ins[..., i]...)
//
// Algorithm: the threads of a group go along a line in pieces of `each` elements a thread. A thread
// folds its piece, the group scans the pieces' folds in shared memory, and each thread goes over
// its piece once more. One pass over memory; work in proportion to the elements.
// Config: space (dims; the last is scanned, at least one before it), exclusive (fold(i) leaves out
// element i), reverse (folds begin at the end). Schedule: lanes (threads per line, a power of two
// up to 256), across (neighbouring threads take neighbouring lines). x, outs, ins: over space; a
// result may be written over x where both lie alike. combine: associative up to rounding, with
// identity(L).
#ifndef TENON_RUNTIME_CUDA_SCAN_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SCAN_KERNEL_CUH

#include "common/scalar.h"
#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Combine, class Outs, class Ins, class Body>
struct scan_kernel {
  Config cfg;
  X x;
  Combine combine;
  Outs outs;
  Ins ins;
  Body body;

  using L = scalar_lanes;
  using index = index_of<Config>;
  using value = detail::bare<decltype(Combine{}.identity(L{}))>;
  static constexpr int threads = 256, blocks_per_sm = 1, each = 4;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static_assert(last > 0, "absent dimensions have the extent 1");
  using group = lane_group<threads, Config::lanes, Config::across>;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return Config::lanes > 1 ? threads * int(sizeof(value)) : 0; }
  grid blocks() const { return {ceil_div(lines(), index_t(group::results)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *shared) const {
    const index line = index(block_x()) * group::results + group::result();
    const bool mine = line < index(lines());
    const index n = index(index_t(cfg.space.template get<last>()));
    index at[rank] = {};
    if (mine)
      unravel<last>(cfg.space, line, at);
    value before = combine.identity(L{}); // of the elements of all pieces so far
    for (index start = 0; start < n; start += each * Config::lanes) {
      const index first = start + index(group::lane()) * each;
      value own[each], sum = combine.identity(L{});
      TENON_UNROLL
      for (int k = 0; k < each; ++k) {
        own[k] = combine.identity(L{});
        if (mine && first + k < n) {
          at[last] = place(first + k, n);
          own[k] = load_one(x, at);
        }
        sum = combine(L{}, sum, own[k]);
      }
      value sofar = before;
      before = combine(L{}, before, scan_group(sum, sofar, shared));
      TENON_UNROLL
      for (int k = 0; k < each; ++k) {
        const value with = combine(L{}, sofar, own[k]);
        if (mine && first + k < n) {
          at[last] = place(first + k, n);
          const value given[1] = {Config::exclusive ? sofar : with};
          apply_body<last>(body, outs, ins, at, 1, given);
        }
        sofar = with;
      }
    }
  }

private:
  TENON_FN index_t lines() const {
    const index_t n = cfg.space.template get<last>();
    return n ? volume(cfg.space) / n : 0;
  }
  TENON_FN static index place(index i, index n) { return Config::reverse ? n - 1 - i : i; }

  /// The fold of all lanes' values; `sofar` is combined with those of the lanes before this one.
  TENON_DEVICE value scan_group(value mine, value &sofar, unsigned char *shared) const {
    if constexpr (Config::lanes == 1) {
      return mine;
    } else {
      constexpr int step = Config::across ? group::results : 1;
      value *own = reinterpret_cast<value *>(shared) +
                   group::result() * (Config::across ? 1 : Config::lanes);
      const int lane = group::lane();
      sync_block(); // what was in `shared` has been read
      own[lane * step] = mine;
      TENON_UNROLL
      for (int by = 1; by < Config::lanes; by *= 2) {
        sync_block();
        if (lane >= by)
          mine = combine(L{}, own[(lane - by) * step], mine);
        sync_block();
        own[lane * step] = mine;
      }
      sync_block();
      if (lane > 0)
        sofar = combine(L{}, sofar, own[(lane - 1) * step]);
      return own[(Config::lanes - 1) * step];
    }
  }
};

template <class Config, class X, class Combine, class Outs, class Ins, class Body>
scan_kernel<Config, X, Combine, Outs, Ins, Body> scan(Config cfg, X x, Combine combine, Outs outs,
                                                      Ins ins, Body body) {
  return {cfg, x, combine, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
