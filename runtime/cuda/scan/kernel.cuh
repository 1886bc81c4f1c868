// Defines `scan`: running folds along the last dimension of a space.
//
//   fold(i) = combine(... combine(x[..., 0], x[..., 1]) ..., x[..., i])
//   outs[..., i] = body(fold(i), ins[..., i]...)
//
// Algorithm: the threads of a group go along a line in runs of `each` elements a thread. A thread
// folds its run, the group scans the runs' folds (by shuffles within a warp where lanes are
// neighbours), and each thread goes over its run once more. One pass over memory; work in
// proportion to the elements. Few long lines are shared by `blocks` blocks each, a contiguous part
// for each of them, in two launches: `scan_parts` folds the parts but the last, `scan_joined`
// begins with the fold of those before. `scan` is for one block a line.
// Config: space (dims; the last is scanned, at least one before it), exclusive (fold(i) leaves out
// element i), reverse (folds begin at the end). Schedule: lanes (threads per line, a power of two
// up to 256), across (neighbouring threads take neighbouring lines), each, whole (runs have `each`
// elements or none, and those of unit stride are aligned), blocks (of a line, at most `lanes`). x,
// outs, ins: over space; a result may be written over x where both lie alike. combine: associative
// up to rounding, with identity(L). parts: as many as there are lines times blocks.
#ifndef TENON_RUNTIME_CUDA_SCAN_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SCAN_KERNEL_CUH

#include "common/scalar.h"
#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {

enum class scan_pass { all, parts, joined };

template <class Config, class X, class Combine, class Outs, class Ins, class Body, scan_pass Pass>
struct scan_kernel {
  using L = scalar_lanes;
  using index = index_of<Config>;
  using value = detail::bare<decltype(Combine{}.identity(L{}))>;

  Config cfg;
  X x;
  Combine combine;
  Outs outs;
  Ins ins;
  Body body;
  value *parts;

  static constexpr int threads = 256, blocks_per_sm = 1, each = Config::each;
  static constexpr int shares = Pass == scan_pass::all ? 1 : Config::blocks;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static_assert(last > 0, "absent dimensions have the extent 1");
  static_assert(Config::blocks <= Config::lanes || Pass == scan_pass::all, "a lane for each part");
  using group = lane_group<threads, Config::lanes, Config::across>;

  int shared_bytes() const { return Config::lanes > 1 ? threads * int(sizeof(value)) : 0; }
  grid blocks() const { return {ceil_div(lines(), index_t(group::results)) * shares, 1, 1}; }

  TENON_DEVICE void run(unsigned char *shared) const {
    const index line = index(block_x() / shares) * group::results + group::result();
    const bool mine = line < index(lines());
    const index n = index(index_t(cfg.space.template get<last>()));
    const int share = block_x() % shares;
    index begin = 0, end = n;
    if constexpr (shares > 1) {
      constexpr int turn = Config::lanes * each;
      const index part = (n - 1) / (shares * turn) * turn + turn;
      begin = min_of(index(share) * part, n);
      end = min_of(begin + part, n);
    }
    index at[rank] = {};
    if (mine)
      unravel<last>(cfg.space, line, at);
    value before = combine.identity(L{}); // of the elements of all runs so far
    if constexpr (Pass == scan_pass::joined) {
      value given = combine.identity(L{}), sofar = given;
      if (mine && group::lane() < share)
        given = parts[line * shares + group::lane()];
      before = scan_group(given, sofar, shared);
    }
    for (index start = begin; start < end; start += each * Config::lanes) {
      const index first = start + index(group::lane()) * each;
      const int count = mine ? int(max_of(index(0), min_of(end - first, index(each)))) : 0;
      // Where the run begins in memory, which it goes along backwards for folds from the end.
      at[last] = count == 0 ? 0 : Config::reverse ? n - first - count : first;
      fetched_run<each, X> run;
      run.template fetch<last, Config::whole>(x, at, count);
      value own[each], sum = combine.identity(L{});
      TENON_UNROLL
      for (int k = 0; k < each; ++k) {
        own[k] = combine.identity(L{});
        TENON_UNROLL
        for (int m = 0; m < each; ++m) // a place in registers is a constant
          if (k < count && m == (Config::reverse ? count - 1 - k : k))
            own[k] = value(run[m]);
        sum = combine(L{}, sum, own[k]);
      }
      value sofar = before;
      before = combine(L{}, before, scan_group(sum, sofar, shared));
      if constexpr (Pass != scan_pass::parts) {
        value given[each] = {};
        TENON_UNROLL
        for (int k = 0; k < each; ++k) {
          const value with = combine(L{}, sofar, own[k]);
          TENON_UNROLL
          for (int m = 0; m < each; ++m)
            if (m == (Config::reverse ? count - 1 - k : k))
              given[m] = Config::exclusive ? sofar : with;
          sofar = with;
        }
        if (count > 0) {
          operand_runs<each, Ins> operands;
          operands.template load<last, operand_part::all, Config::whole>(ins, at, count);
          apply_to_runs<last, Config::whole>(body, outs, operands, at, count, given);
        }
      }
    }
    if constexpr (Pass == scan_pass::parts)
      if (mine && group::lane() == 0)
        parts[line * shares + share] = before;
  }

private:
  TENON_FN index_t lines() const {
    const index_t n = cfg.space.template get<last>();
    return n ? volume(cfg.space) / n : 0;
  }

  /// Whether neighbouring lanes hand over values in registers.
  static constexpr bool shuffles =
      !Config::across && (detail::is_same<value, float> || detail::is_same<value, double> ||
                          detail::is_same<value, int32_t> || detail::is_same<value, int64_t>);

  /// The fold of all lanes' values; `sofar` is combined with those of the lanes before this one.
  TENON_DEVICE value scan_group(value mine, value &sofar, unsigned char *shared) const {
    if constexpr (Config::lanes == 1) {
      return mine;
    } else if constexpr (shuffles) {
      constexpr int width = Config::lanes < 32 ? Config::lanes : 32;
      const int lane = group::lane() % width, base = thread() % 32 - lane;
      value sum = mine;
      TENON_UNROLL
      for (int by = 1; by < width; by *= 2) {
        const value other = shuffle(sum, base + (lane < by ? lane : lane - by));
        if (lane >= by)
          sum = combine(L{}, other, sum);
      }
      const value one_before = shuffle(sum, base + (lane > 0 ? lane - 1 : 0));
      value all = shuffle(sum, base + width - 1);
      if constexpr (Config::lanes > 32) {
        constexpr int warps = Config::lanes / 32;
        value *totals = reinterpret_cast<value *>(shared) + group::result() * warps;
        sync_block(); // what was in `shared` has been read
        if (lane == 0)
          totals[group::lane() / 32] = all;
        sync_block();
        all = combine.identity(L{});
        TENON_UNROLL
        for (int w = 0; w < warps; ++w) {
          if (w < group::lane() / 32)
            sofar = combine(L{}, sofar, totals[w]);
          all = combine(L{}, all, totals[w]);
        }
      }
      if (lane > 0)
        sofar = combine(L{}, sofar, one_before);
      return all;
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
scan_kernel<Config, X, Combine, Outs, Ins, Body, scan_pass::all>
scan(Config cfg, X x, Combine combine, Outs outs, Ins ins, Body body) {
  return {cfg, x, combine, outs, ins, body, nullptr};
}
/// `parts`: scratch of 16 bytes at most for each of a line's blocks.
template <class Config, class X, class Combine>
auto scan_parts(Config cfg, X x, Combine combine, void *parts) {
  using kernel =
      scan_kernel<Config, X, Combine, arguments<>, arguments<>, identity_body, scan_pass::parts>;
  return kernel{cfg, x, combine, {}, {}, {}, static_cast<typename kernel::value *>(parts)};
}
template <class Config, class X, class Combine, class Outs, class Ins, class Body>
auto scan_joined(Config cfg, X x, Combine combine, Outs outs, Ins ins, Body body, void *parts) {
  using kernel = scan_kernel<Config, X, Combine, Outs, Ins, Body, scan_pass::joined>;
  return kernel{cfg, x, combine, outs, ins, body, static_cast<typename kernel::value *>(parts)};
}

} // namespace cuda
} // namespace tenon

#endif
