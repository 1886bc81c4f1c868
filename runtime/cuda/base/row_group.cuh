// Defines row_group: how threads and blocks share rows that are folded to a statistic and then
// written again (softmax, normalize).
//
// A row is what lies along the `reduced` dimensions of a space, and it has a place in the `kept`
// ones. `lanes` threads of a block go along it, in runs of `vector` neighbouring elements, every
// lanes-th run each. Up to `held` runs a thread are fetched together and kept as they came from
// memory; with held = 0 they are fetched for each pass, a few at a time.
//
// Few long rows are shared by `blocks` blocks each, a contiguous part for each of them. What a
// block knows of its part is joined in a fixed order, the same in all of them (row_join):
//   alone    one block has the row
//   cluster  a row's blocks are one cluster and send each other what they know (sm_90 and up)
//   store    the statistics of parts go to memory; nothing else is computed
//   load     a later launch over the same parts, which reads them
//
// Config: kept, reduced (dims; both of rank 1 at least); threads, lanes (a power of two up to
// threads), across (neighbouring threads take neighbouring rows), vector, held, blocks, whole (runs
// have `vector` elements or none, and those of unit stride are aligned).
#ifndef TENON_RUNTIME_CUDA_BASE_ROW_GROUP_CUH
#define TENON_RUNTIME_CUDA_BASE_ROW_GROUP_CUH

#include "cuda/base/lane_group.cuh"
#include "cuda/ptx/cluster.cuh"

namespace tenon {
namespace cuda {

enum class row_join { alone, cluster, store, load };

namespace detail {
/// Blocks that are one cluster.
template <int Blocks, row_join Join> struct row_cluster {};
template <int Blocks> struct row_cluster<Blocks, row_join::cluster> {
  static constexpr int cluster_blocks = Blocks;
};
TENON_FN constexpr int power_of_two_from(int n) {
  int p = 1;
  while (p < n)
    p *= 2;
  return p;
}
} // namespace detail

/// Statistic: of a row's part, with  static Statistic none()  and
/// Statistic joined(const Statistic &) const , trivial.
template <class Config, class X, class Statistic, row_join Join> class row_group {
public:
  using index = index_of<Config>;
  using element = typename X::element;
  static constexpr int lanes = Config::lanes, vector = Config::vector, held = Config::held,
                       blocks = Config::blocks;
  static constexpr int kept_rank = decltype(Config::kept)::rank,
                       reduced_rank = decltype(Config::reduced)::rank;
  static constexpr int rank = kept_rank + reduced_rank, last = rank - 1;
  static_assert(kept_rank > 0 && reduced_rank > 0, "absent dimensions have the extent 1");
  static_assert((Join == row_join::alone) == (blocks == 1), "several blocks join what they know");
  using group = lane_group<Config::threads, lanes, Config::across>;
  using value = compute_t<element>;

  TENON_FN static constexpr bool runs_on(target t) {
    return Join != row_join::cluster || t.arch >= 900;
  }
  TENON_FN static index_t grid_blocks(const Config &cfg) {
    return ceil_div(volume(cfg.kept), index_t(group::results)) * blocks;
  }
  static constexpr int shared_bytes() { return join_bytes + group::template shared_bytes<value>(); }

  /// Fetches what is held. `shared`: shared_bytes().
  TENON_DEVICE row_group(const Config &cfg, const X &x, unsigned char *shared)
      : cfg_(cfg), x_(x), shared_(shared) {
    row_ = index(block_x() / blocks) * group::results + group::result();
    mine_ = row_ < index(volume(cfg.kept));
    n_ = mine_ ? index(volume(cfg.reduced)) : 0;
    if (mine_)
      unravel<kept_rank>(cfg.kept, row_, at_);
    begin_ = 0;
    end_ = n_;
    if constexpr (blocks > 1) {
      constexpr int turn = lanes * vector;
      const index part = held > 0 ? index(held * turn) : (n_ - 1) / (blocks * turn) * turn + turn;
      begin_ = min_of(index(part_of_row()) * part, n_);
      end_ = min_of(begin_ + part, n_);
    }
    if constexpr (Join == row_join::cluster) {
      if (thread() == 0) {
        received().init(1);
        ptx::mbarrier::fence_init();
      }
      sync_warp(); // racecheck takes the first use for another thread's
      if (thread() == 0)
        received().arrive_expecting(blocks * group::results * int(sizeof(slot)));
      ptx::cluster::arrive(); // its barrier is ready
    }
    if constexpr (held > 0)
      fetch(begin_);
  }

  /// Elements of a row, and of this block's part of it; 0 beyond the last row.
  TENON_DEVICE index length() const { return n_; }
  TENON_DEVICE index part_length() const { return end_ - begin_; }

  /// combine(... f(element)) over the part, `zero` where there is none; all lanes receive it.
  template <class F, class Combine> TENON_DEVICE value fold(value zero, F f, Combine combine) {
    value sum = zero;
    each_run([&](const auto &run, index, int count) {
      TENON_UNROLL
      for (int i = 0; i < vector; ++i)
        sum = i < count ? combine(sum, f(value(run[i]))) : sum;
    });
    return group::combine(sum, shared_ + join_bytes, combine);
  }

  /// The statistic of the row, of those of its parts. Every thread of the block takes part; `mine`
  /// is the same in all lanes. `parts`: of all rows, one after the other, in memory.
  TENON_DEVICE Statistic joined(const Statistic &mine, const Statistic *parts) const {
    slot *const own = reinterpret_cast<slot *>(shared_ + 16), *const all = own + group::results;
    if constexpr (Join == row_join::cluster) {
      if (group::lane() == 0)
        own[group::result()].statistic = mine;
      ptx::cluster::wait(); // all have begun
      sync_block();
      constexpr int words = int(sizeof(slot)) / 16, to_one = group::results * words;
      for (int i = thread(); i < blocks * to_one; i += Config::threads) {
        const int block = i / to_one, result = i % to_one / words, word = i % words;
        word16 *const there = reinterpret_cast<word16 *>(all + result * blocks + part_of_row());
        ptx::cluster::send(there + word, received(), block,
                           reinterpret_cast<const word16 *>(own + result)[word]);
      }
      received().wait_for_cluster(0);
      Statistic s = all[group::result() * blocks].statistic;
      TENON_UNROLL
      for (int b = 1; b < blocks; ++b)
        s = s.joined(all[group::result() * blocks + b].statistic);
      return s;
    } else if constexpr (Join == row_join::load) {
      for (int i = thread(); i < group::results * width; i += Config::threads) {
        const int part = i % width;
        const index row = row_ - group::result() + i / width;
        all[i].statistic = part < blocks && row < index(volume(cfg_.kept))
                               ? parts[row * blocks + part]
                               : Statistic::none();
      }
      TENON_UNROLL
      for (int half = width / 2; half > 0; half /= 2) {
        sync_block();
        for (int i = thread(); i < group::results * half; i += Config::threads) {
          Statistic *s = &all[i / half * width + i % half].statistic;
          *s = s->joined(all[i / half * width + i % half + half].statistic);
        }
      }
      sync_block();
      return all[group::result() * width].statistic;
    } else {
      return mine;
    }
  }
  TENON_DEVICE void store(const Statistic &mine, Statistic *parts) const {
    if (mine_ && group::lane() == 0)
      parts[row_ * blocks + part_of_row()] = mine;
  }
  /// outs[at + i] = body(f(element i), ins[at + i]...) for all of the part.
  template <class Outs, class Ins, class Body, class F>
  TENON_DEVICE void apply(const Outs &outs, const Ins &ins, const Body &body, F f) {
    each_run([&](const auto &run, index first, int count) {
      value y[vector];
      TENON_UNROLL
      for (int i = 0; i < vector; ++i)
        y[i] = f(value(run[i]));
      seek(first);
      operand_runs<vector, Ins> operands;
      operands.template load<last, operand_part::all, Config::whole>(ins, at_, count);
      apply_to_runs<last, Config::whole>(body, outs, operands, at_, count, y);
    });
  }

private:
  static constexpr int ahead = held > 0 ? held : 4; // runs that are fetched together
  static constexpr int width = detail::power_of_two_from(blocks);
  /// A statistic as it is sent.
  struct alignas(16) slot {
    Statistic statistic;
  };
  static constexpr int join_bytes = Join == row_join::cluster || Join == row_join::load
                                        ? 16 + group::results * (1 + width) * int(sizeof(slot))
                                        : 0;
  /// The barrier that counts what others have sent.
  TENON_DEVICE ptx::mbarrier &received() const {
    return *reinterpret_cast<ptx::mbarrier *>(shared_);
  }

  TENON_DEVICE static int part_of_row() { return blocks > 1 ? block_x() % blocks : 0; }
  TENON_DEVICE static index first_of(index base, int r) {
    return base + (index(r) * lanes + group::lane()) * vector;
  }
  TENON_DEVICE int count_of(index first) const {
    return int(max_of(index(0), min_of(end_ - first, index(vector))));
  }
  TENON_DEVICE void seek(index element) {
    index inner[reduced_rank];
    unravel<reduced_rank>(cfg_.reduced, element, inner);
    TENON_UNROLL
    for (int d = 0; d < reduced_rank; ++d)
      at_[kept_rank + d] = inner[d];
  }
  TENON_DEVICE void fetch(index base) {
    TENON_UNROLL
    for (int r = 0; r < ahead; ++r) {
      const index first = first_of(base, r);
      const int count = count_of(first);
      seek(count > 0 ? first : 0);
      runs_[r].template fetch<last, Config::whole>(x_, at_, count);
    }
  }
  /// f(run, its first element, how many of it belong to the part)
  template <class F> TENON_DEVICE void each_run(F f) {
    if constexpr (held > 0) {
      each_fetched(begin_, f);
    } else {
      for (index base = begin_; base < end_; base += ahead * lanes * vector) {
        fetch(base);
        each_fetched(base, f);
      }
    }
  }
  template <class F> TENON_DEVICE void each_fetched(index base, F f) {
    TENON_UNROLL
    for (int r = 0; r < ahead; ++r) {
      const index first = first_of(base, r);
      if (first < end_)
        f(runs_[r], first, count_of(first));
    }
  }

  const Config &cfg_;
  const X &x_;
  unsigned char *shared_;
  bool mine_;
  index row_, n_, begin_, end_;
  index at_[rank] = {};
  fetched_run<vector, X> runs_[ahead];
};

} // namespace cuda
} // namespace tenon

#endif
