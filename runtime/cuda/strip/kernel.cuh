// Defines `strip_sm80` and `strip_sm90`: up to 16 rows times constant weights (decoding language
// models), bound by reading the weights once, on Tensor Cores by mma.m16n8k16.
//
//   y[m, n] = body(sum over k of x[m, k] * w[n, k], ins[m, n]...)
//
// Algorithm: weights are A of the multiplication, rows are B, so that one row costs no more than
// eight. 16 outputs are a strip; a block computes every grid-th strip. Its weights go, in the order
// in which they are multiplied, through a ring of shared memory that is filled as far ahead as it
// reaches: weights do not change, so the ring fills before the dependency wait. strip_sm90 has a
// warp that fills it by the copy engine, a few stages at a time until it is full for the first
// time; in strip_sm80 each lane copies what it will read itself. A stage is a chunk of one strip,
// of which each warp multiplies `tiles` tiles. A warp thus has the same part of k in all strips,
// and keeps that part of the rows in registers while `strips` strips pass. Then the warps' sums are
// added in their order through shared memory. So neither the number of rows, known to the compiler
// or not, nor what other rows hold changes the bits of a row.
//
// The blocks of a cluster may share each strip along k (`splits`): the warps of each send their
// sums to the block that owns the strip's outputs, and that one adds them in their order.
//
// Two matrices (a gate and what it multiplies) give the body two sums of the same place. Rows may
// be normalised on their way (row_norm): each block takes the statistics of whole rows itself.
//
// Weights, as they lie and as they are multiplied: cuda/strip/weights.cuh.
//
// Config: m (fixed or dyn), rows (the most that m is, 16 at most), n, k (numbers); aligned (x is
// 16-byte aligned, and k a multiple of 8), or, with a norm, whole (x and what the norm reads lie in
// aligned runs of eight). Schedule: tiles, strips, stages, splits, blocks; see geometry.h. x over
// (m, k); outs and ins over (m, n).
#ifndef TENON_RUNTIME_CUDA_STRIP_KERNEL_CUH
#define TENON_RUNTIME_CUDA_STRIP_KERNEL_CUH

#include "common/scalar.h"
#include "cuda/base/operands.cuh"
#include "cuda/ptx/bulk_copy.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/mma_sm80.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/ptx/round_pair.cuh"
#include "cuda/strip/geometry.h"
#include "cuda/strip/weights.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from. `Blocks` bounds the grid.
template <int Tiles, int Strips, int Stages, int Splits, int Blocks> struct strip_schedule {
  static constexpr int tiles = Tiles, strips = Strips, stages = Stages, splits = Splits,
                       blocks = Blocks;
};

/// x as it is.
struct no_norm {
  static constexpr bool normalizes = false, centered = false, constant = true;
  arguments<> ins;
};
/// Rows with zero mean (where Centered) and unit variance, of which body(value, ins[m, k]...) makes
/// what is multiplied. Constant: ins are weights or inputs of the program, the same for all rows.
template <bool Centered, bool Constant, class Ins, class Body> struct row_norm {
  static constexpr bool normalizes = true, centered = Centered, constant = Constant;
  float epsilon;
  Ins ins;
  Body body;
};
template <bool Centered, bool Constant = false, class Ins, class Body>
TENON_FN row_norm<Centered, Constant, Ins, Body> make_row_norm(float epsilon, Ins ins, Body body) {
  return {epsilon, ins, body};
}

template <bool CopyEngine, class Config, class X, class Matrices, class Outs, class Ins, class Body,
          class Norm>
struct strip_kernel;

template <bool CopyEngine, class Config, class X, int Count, class W, class T, class Each,
          class Outs, class Ins, class Body, class Norm>
struct strip_kernel<CopyEngine, Config, X, strip_matrices<Count, W, T, Each>, Outs, Ins, Body,
                    Norm> {
  Config cfg;
  X x;
  strip_matrices<Count, W, T, Each> matrices; // multiplied as T
  Outs outs;
  Ins ins;
  Body body;
  Norm norm;

  using weights = strip_weights<W, T, Each>;
  using tile = detail::strip_tile<W, T, weights::scales_blocks>;
  static constexpr int rows = Config::rows;
  static constexpr int tiles = Config::tiles, strips = Config::strips, stages = Config::stages,
                       splits = Config::splits;
  static constexpr strip_geometry shape = {
      rows,   Config::n, Config::k,      tile::bits, weights::scales_blocks, Count, tiles, strips,
      stages, splits,    Config::blocks, CopyEngine, Norm::normalizes};
  static constexpr int threads = int(shape.threads()), blocks_per_sm = 2;
  static constexpr int cluster_blocks = splits; // neighbours along x
  static constexpr bool lets_next_begin = true;
  static_assert(rows >= 1 && rows <= 16, "one or two tiles of rows");
  static_assert(tiles % 2 == 0 && strips % Count == 0, "pairs of tiles, whole sets of strips");
  static_assert(CopyEngine || splits == 1, "clusters are for machines with a copy engine");

  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= (CopyEngine ? 900 : 800); }
  int shared_bytes() const { return int(shape.shared_bytes()); }
  grid blocks() const { return {shape.groups() * splits, 1, 1}; }

  TENON_DEVICE auto prefetch(unsigned char *shared) const {
    fill(shared);
    norm_runs ahead;
    if constexpr (fetches_ahead)
      fetch_norm(ahead);
    return ahead;
  }

  template <class Ahead> TENON_DEVICE void run(unsigned char *shared, const Ahead &ahead) const {
    if (CopyEngine && warp() == warps) {
      if (lane() == 0)
        produce(shared);
    } else {
      consume(shared, ahead);
    }
  }

private:
  TENON_DEVICE void fill(unsigned char *shared) const {
    if constexpr (CopyEngine) {
      if (thread() == 32 * warps) {
        TENON_UNROLL
        for (int i = 0; i < stages; ++i)
          full(shared)[i].init(1), empty(shared)[i].init(32 * warps);
        if constexpr (splits > 1) {
          for (int i = 0; i < passes; ++i)
            sent(shared)[i].init(1);
        }
        ptx::mbarrier::fence_init();
        if constexpr (splits > 1)
          expect_sums(shared);
      }
      if constexpr (splits > 1)
        ptx::cluster::arrive(); // its barriers are ready
      sync_block();
      // The other warps go on to their wait. What is on its way is bounded: the rows, which they
      // then wait for, queue behind it in memory.
      if (thread() == 32 * warps) {
        constexpr int ahead = int(shape.stages_ahead());
        const share mine;
        walk at;
        TENON_NO_UNROLL
        for (int s = 0; s < stages && at.more(mine); ++s, at.next(mine)) {
          if (s >= ahead)
            full(shared)[s - ahead].wait(0);
          copy(shared, mine, at, s);
        }
      }
    } else {
      const share mine;
      walk at;
      TENON_NO_UNROLL
      for (int s = 0; s < stages; ++s) {
        if (at.more(mine)) {
          copy(shared, mine, at, s);
          at.next(mine);
        }
        ptx::cp_async_group::commit();
      }
    }
  }

  /// Rows that there are.
  TENON_DEVICE int present() const { return int(index_t(cfg.m)); }

  static constexpr int warps = strip_geometry::warps;
  static constexpr int depth = Config::k, columns = int(shape.columns()), runs = int(shape.runs());
  static constexpr int stage_tiles = int(shape.stage_tiles()), passes = int(shape.passes());
  static constexpr int stage_bytes = int(shape.stage_bytes()),
                       scale_bytes = int(shape.scale_bytes());
  static constexpr int parts = splits * warps; // of a sum
  /// Whether a block may have more than the ring holds.
  static constexpr bool refills = shape.slots() * shape.chunks() > stages;
  static constexpr int row_lanes = int(shape.lanes_with_rows());

  // --- what a block has ---

  TENON_DEVICE static int rank() { return splits > 1 ? block_x() % splits : 0; }
  /// The strips of this block: slot i is one of matrix i % Count; of each, `tiles` tiles from
  /// `begin` on.
  struct share {
    int first, slots, begin, tiles;
    TENON_DEVICE share() {
      constexpr int all = int(shape.all_strips()), groups = int(shape.groups());
      first = block_x() / splits;
      slots = ((all - first - 1) / groups + 1) * Count;
      constexpr int part = int(shape.part_tiles());
      begin = rank() * part;
      tiles = max_of(0, min_of(part, int(shape.row_tiles()) - begin));
    }
    TENON_DEVICE int strip(int slot) const { return first + slot / Count * int(shape.groups()); }
  };
  /// Stages in the order in which they are multiplied: passes, chunks along k, strips of a pass.
  struct walk {
    int base = 0, first = 0, slot = 0; // the pass's first slot, the chunk's first tile
    TENON_DEVICE bool more(const share &of) const { return base < of.slots && of.tiles > 0; }
    TENON_DEVICE void next(const share &of) {
      if (++slot < min_of(base + strips, of.slots))
        return;
      slot = base;
      if ((first += stage_tiles) < of.tiles)
        return;
      first = 0;
      slot = base += strips;
    }
  };

  // --- the ring ---

  TENON_DEVICE static ptx::mbarrier *full(unsigned char *shared) {
    return reinterpret_cast<ptx::mbarrier *>(shared + shape.barriers_at());
  }
  TENON_DEVICE static ptx::mbarrier *empty(unsigned char *shared) { return full(shared) + stages; }
  TENON_DEVICE static ptx::mbarrier *sent(unsigned char *shared) {
    return full(shared) + 2 * stages;
  }
  /// Begins to copy one stage to place `s`: all of it by one thread, or a lane's own part.
  TENON_DEVICE void copy(unsigned char *shared, const share &mine, const walk &at, int s) const {
    const weights &m = matrices.of[Count > 1 ? at.slot % Count : 0];
    const size_t from =
        size_t(mine.strip(at.slot)) * size_t(shape.row_tiles()) + size_t(mine.begin + at.first);
    const auto *const stored = static_cast<const unsigned char *>(m.w) + from * 512;
    const auto *const scales =
        reinterpret_cast<const unsigned char *>(m.scale) + from * size_t(scale_bytes);
    unsigned char *const to = shared + s * stage_bytes;
    unsigned char *const to_scales = to + stage_tiles * 512;
    const int count = min_of(stage_tiles, mine.tiles - at.first);
    if constexpr (CopyEngine) {
      full(shared)[s].arrive_expecting(count * (512 + scale_bytes));
      ptx::bulk_copy::load_once(to, stored, count * 512, full(shared)[s]);
      if constexpr (scale_bytes > 0)
        ptx::bulk_copy::load_once(to_scales, scales, count * scale_bytes, full(shared)[s]);
    } else {
      TENON_UNROLL
      for (int j = 0; j < tiles; ++j) {
        const int t = warp() * tiles + j;
        if (t < count) {
          const int at_word = t * 512 + lane() * 16;
          ptx::cp_async<16>::copy(to + at_word, stored + at_word, true);
          if constexpr (scale_bytes > 0) {
            constexpr int each = scale_bytes / 8;
            const int at_scale = t * scale_bytes + lane() * each;
            if (lane() < 8)
              ptx::cp_async<each>::copy(to_scales + at_scale, scales + at_scale, true);
          }
        }
      }
    }
  }
  TENON_DEVICE void produce(unsigned char *shared) const {
    const share mine;
    walk at;
    TENON_NO_UNROLL
    for (int s = 0; s < stages && at.more(mine); ++s)
      at.next(mine);
    int stage = 0, turn = 0;
    TENON_NO_UNROLL
    for (; at.more(mine); at.next(mine)) {
      empty(shared)[stage].wait(turn);
      copy(shared, mine, at, stage);
      if (++stage == stages)
        stage = 0, turn ^= 1;
    }
  }
  /// Where in the ring this warp reads, and, where lanes copy, what comes a ring's length later.
  struct reader {
    int stage = 0, turn = 0;
    walk ahead;
  };
  TENON_DEVICE void load_stage(tile (&w)[tiles], unsigned char *shared, const share &mine,
                               reader &at) const {
    unsigned char *const from = shared + at.stage * stage_bytes;
    if constexpr (CopyEngine) {
      full(shared)[at.stage].wait(at.turn);
    } else {
      ptx::cp_async_group::template wait<stages - 1>();
      sync_warp(); // scales were copied by other lanes
    }
    TENON_UNROLL
    for (int j = 0; j < tiles; ++j) {
      const int t = warp() * tiles + j;
      w[j].load(from + t * 512, from + stage_tiles * 512 + t * scale_bytes);
    }
    if constexpr (CopyEngine) {
      if constexpr (refills) {
        // A barrier alone does not order loads before what the copy engine writes.
        ptx::proxy_fence::shared();
        empty(shared)[at.stage].arrive();
      }
    } else {
      sync_warp();
      if (at.ahead.more(mine)) {
        copy(shared, mine, at.ahead, at.stage);
        at.ahead.next(mine);
      }
      ptx::cp_async_group::commit();
    }
    if (++at.stage == stages)
      at.stage = 0, at.turn ^= 1;
  }

  // --- rows ---

  // Those of outputs g and g + 8 differ by a power of two: half of them are kept where registers
  // are few.
  static constexpr int sums_of_lane = rows > 8 ? 2 : 4;
  static constexpr bool biased = tile::bias != 0;
  using bases = float[columns][biased ? runs : 1][sums_of_lane];
  struct statistics {
    float mean, factor;
  };

  TENON_DEVICE static statistics *statistics_of(unsigned char *shared) {
    return reinterpret_cast<statistics *>(shared + shape.statistics_at());
  }
  /// Whether rows, and what a norm reads, lie in aligned runs of eight.
  TENON_FN static constexpr bool is_whole() {
    if constexpr (Norm::normalizes)
      return Config::whole;
    else
      return Config::aligned;
  }
  /// Up to eight floats of a row from k on; those beyond the row are 0.
  TENON_DEVICE void load_row(float (&v)[8], int row, int k) const {
    const int at[2] = {row, k};
    fetched_run<8, X> run;
    run.template fetch<1, is_whole()>(x, at, min_of(depth - k, 8));
    TENON_UNROLL
    for (int i = 0; i < 8; ++i)
      v[i] = run[i];
  }
  /// Eight elements of a row from k on, as they are multiplied.
  TENON_DEVICE word16 load_run(int row, int k, const statistics &of) const {
    constexpr bool as_it_lies = !Norm::normalizes && is_whole();
    const bool there = row < present() && k < depth;
    if constexpr (as_it_lies) {
      const int at[2] = {row, k};
      return ptx::global_words::load_if(there, x.data + offset(x.strides, at));
    } else {
      word16 w = {};
      if (there) {
        float v[8];
        load_row(v, row, k);
        if constexpr (Norm::normalizes) {
          const int at[2] = {row, k};
          operand_runs<8, decltype(norm.ins)> operands;
          operands.template load<1, operand_part::all, is_whole()>(norm.ins, at,
                                                                   min_of(depth - k, 8));
          TENON_UNROLL
          for (int i = 0; i < 8; ++i)
            v[i] = k + i < depth ? float(operands.call(norm.body, i, (v[i] - of.mean) * of.factor))
                                 : 0.0f;
        }
        unsigned pairs[4];
        TENON_UNROLL
        for (int i = 0; i < 4; ++i)
          pairs[i] = ptx::round_pair<T>::of(v[2 * i], v[2 * i + 1]);
        memcpy(static_cast<void *>(&w), pairs, sizeof(w));
      }
      return w;
    }
  }
  /// Leaves what `sum` comes to over all multiplying warps in every thread of them, for the first
  /// `count` rows. `turn`: which of two places in shared memory is free.
  TENON_DEVICE static void add_over_warps(float (&sum)[rows], int count, int turn,
                                          unsigned char *shared) {
    float *const sums =
        reinterpret_cast<float *>(shared + shape.statistics_at()) + turn * warps * rows;
    TENON_UNROLL
    for (int r = 0; r < rows; ++r) {
      if (r >= count)
        continue;
      TENON_UNROLL
      for (int mask = 16; mask > 0; mask /= 2)
        sum[r] += shuffle_xor(sum[r], mask);
      if (lane() == 0)
        sums[warps * r + warp()] = sum[r];
    }
    ptx::named_barrier::sync(1, 32 * warps);
    TENON_UNROLL
    for (int r = 0; r < rows; ++r) {
      sum[r] = 0;
      if (r >= count)
        continue;
      float parts_of_sum[warps];
      detail::load_words(parts_of_sum, sums + warps * r);
      TENON_UNROLL
      for (int w = 0; w < warps; ++w)
        sum[r] += parts_of_sum[w];
    }
  }
  /// Of all rows: value_of(row, i, v) leaves the eight elements from column 8 * (thread + 256 * i)
  /// on in v.
  template <class ValueOf>
  TENON_DEVICE void take_statistics(statistics (&of)[rows], unsigned char *shared,
                                    ValueOf value_of) const {
    const auto sum_of = [&](float(&sum)[rows], auto f) {
      TENON_UNROLL
      for (int r = 0; r < rows; ++r) {
        sum[r] = 0;
        if (r >= present())
          continue;
        TENON_UNROLL
        for (int i = 0; i < thread_runs; ++i) {
          const int k = 8 * (thread() + 32 * warps * i);
          if (k >= depth)
            continue;
          float v[8];
          value_of(r, i, v);
          TENON_UNROLL
          for (int j = 0; j < 8; ++j)
            sum[r] += k + j < depth ? f(v[j] - of[r].mean) : 0.0f;
        }
      }
    };
    float sum[rows];
    TENON_UNROLL
    for (int r = 0; r < rows; ++r)
      of[r].mean = 0;
    if constexpr (Norm::centered) {
      sum_of(sum, [](float v) { return v; });
      add_over_warps(sum, present(), 1, shared);
      TENON_UNROLL
      for (int r = 0; r < rows; ++r)
        of[r].mean = sum[r] / float(depth);
    }
    sum_of(sum, [](float v) { return v * v; });
    add_over_warps(sum, present(), 0, shared);
    TENON_UNROLL
    for (int r = 0; r < rows; ++r)
      of[r].factor = 1.0f / sqrt<scalar_lanes>(sum[r] / float(depth) + norm.epsilon);
  }
  /// Of rows that are loaded again to be multiplied, to shared memory.
  TENON_DEVICE void share_statistics(unsigned char *shared) const {
    statistics of[rows];
    take_statistics(of, shared, [&](int r, int i, float(&v)[8]) {
      load_row(v, r, 8 * (thread() + 32 * warps * i));
    });
    ptx::named_barrier::sync(1, 32 * warps); // sums have been read
    TENON_UNROLL
    for (int r = 0; r < rows; ++r)
      if (thread() == r)
        statistics_of(shared)[r] = of[r];
    ptx::named_barrier::sync(1, 32 * warps);
  }

  // --- rows that are normalised where they are loaded, all of them at once ---

  /// Runs of eight elements of a row that a thread has, also those of the last tiles behind it.
  static constexpr int padded = int(shape.row_tiles()) * tile::depth,
                       thread_runs = ceil_div(padded, 8 * 32 * warps);
  static constexpr bool holds_rows =
      Norm::normalizes && shape.staged_chunks() == shape.chunks() && rows * thread_runs <= 16;
  static constexpr bool fetches_ahead = holds_rows && Norm::constant;
  struct runs_of_norm {
    operand_runs<8, decltype(norm.ins)> of[thread_runs];
  };
  struct no_runs {};
  using norm_runs = typename detail::choose_type<fetches_ahead, runs_of_norm, no_runs>::type;

  TENON_DEVICE static int count_from(int k) { return max_of(0, min_of(8, depth - k)); }
  TENON_DEVICE void fetch_norm(runs_of_norm &to, int row = 0) const {
    TENON_UNROLL
    for (int i = 0; i < thread_runs; ++i) {
      const int at[2] = {row, 8 * (thread() + 32 * warps * i)};
      to.of[i].template load<1, operand_part::all, is_whole()>(
          norm.ins, at, thread() < 32 * warps ? count_from(at[1]) : 0);
    }
  }
  template <class Ahead>
  TENON_DEVICE void normalize_rows(unsigned char *shared, const share &mine,
                                   const Ahead &ahead) const {
    fetched_run<8, X> held[rows][thread_runs];
    TENON_UNROLL
    for (int r = 0; r < rows; ++r) {
      TENON_UNROLL
      for (int i = 0; i < thread_runs; ++i) {
        const int at[2] = {r, 8 * (thread() + 32 * warps * i)};
        held[r][i].template fetch<1, is_whole()>(x, at, r < present() ? count_from(at[1]) : 0);
      }
    }
    statistics of[rows];
    take_statistics(of, shared, [&](int r, int i, float(&v)[8]) {
      TENON_UNROLL
      for (int j = 0; j < 8; ++j)
        v[j] = held[r][i][j];
    });
    runs_of_norm own;
    TENON_UNROLL
    for (int r = 0; r < rows; ++r) {
      if constexpr (!fetches_ahead)
        fetch_norm(own, min_of(r, present() - 1));
      TENON_UNROLL
      for (int i = 0; i < thread_runs; ++i) {
        const int k = 8 * (thread() + 32 * warps * i);
        const int at = k - mine.begin * tile::depth; // in this block's part
        if (at < 0 || at >= mine.tiles * tile::depth)
          continue;
        unsigned pairs[4];
        TENON_UNROLL
        for (int j = 0; j < 8; j += 2) {
          float v[2];
          TENON_UNROLL
          for (int h = 0; h < 2; ++h) {
            const float one = (held[r][i][j + h] - of[r].mean) * of[r].factor;
            if constexpr (fetches_ahead)
              v[h] = float(ahead.of[i].call(norm.body, j + h, one));
            else
              v[h] = float(own.of[i].call(norm.body, j + h, one));
            v[h] = r < present() && k + j + h < depth ? v[h] : 0.0f;
          }
          pairs[j / 2] = ptx::round_pair<T>::of(v[0], v[1]);
        }
        word16 w;
        memcpy(static_cast<void *>(&w), pairs, sizeof(w));
        constexpr int of_warp = tiles * tile::depth, of_chunk = of_warp * warps;
        const int chunk = at / of_chunk, owner = at % of_chunk / of_warp, run = at % of_warp / 32,
                  c = r / 8;
        rows_of_warp(
            shared,
            owner)[((chunk * columns + c) * runs + run) * row_lanes + 4 * (r % 8) + at % 32 / 8] =
            w;
      }
    }
    ptx::named_barrier::sync(1, 32 * warps);
  }

  /// This warp's rows of the chunks from tile `first` on, to its own shared memory.
  TENON_DEVICE void stage_rows(unsigned char *shared, const share &mine, int first) const {
    constexpr int staged = int(shape.staged_chunks()), words = int(shape.chunk_words());
    word16 *const to = rows_of_warp(shared, warp());
    sync_warp();
    // Several loads are on their way at a time.
    constexpr int all = staged * words, each = Norm::normalizes ? 2 : 8;
    TENON_NO_UNROLL
    for (int base = 0; base < all; base += 32 * each) {
      word16 w[each];
      TENON_UNROLL
      for (int i = 0; i < each; ++i) {
        const int at = base + 32 * i + lane();
        if (base + 32 * i < all) {
          const int l = at % row_lanes, run = at / row_lanes % runs,
                    c = at / row_lanes / runs % columns, chunk = at / words;
          const int tile_of_part = first + chunk * stage_tiles + warp() * tiles;
          const int within = tile_of_part * tile::depth + 32 * run + 8 * (l % 4);
          const int row = 8 * c + l / 4;
          const bool there = at < all && within < mine.tiles * tile::depth;
          w[i] =
              load_run(there ? row : rows, mine.begin * tile::depth + within,
                       Norm::normalizes && row < rows ? statistics_of(shared)[row] : statistics{});
        }
      }
      TENON_UNROLL
      for (int i = 0; i < each; ++i) {
        const int at = base + 32 * i + lane();
        if (at < all)
          to[at] = w[i];
      }
    }
    sync_warp();
  }
  TENON_DEVICE static word16 *rows_of_warp(unsigned char *shared, int warp) {
    return reinterpret_cast<word16 *>(shared + shape.rows_at()) +
           warp * int(shape.staged_chunks() * shape.chunk_words());
  }
  /// A warp's part of a chunk's rows: in registers, or, of two tiles of rows, where it lies.
  struct part {
    static constexpr bool held = columns == 1;
    word16 word[held ? runs : 1];
    const word16 *from;

    TENON_DEVICE void take(unsigned char *shared, int chunk) {
      from = rows_of_warp(shared, warp()) + chunk * int(shape.chunk_words()) + lane();
      if constexpr (held) {
        TENON_UNROLL
        for (int i = 0; i < runs; ++i) {
          word[i] = {};
          if (row_lanes == 32 || lane() < row_lanes)
            word[i] = from[i * row_lanes];
        }
      }
    }
    /// Of 32 k: row 8 * c + g, k 32 * i + 8 * t ...
    TENON_DEVICE uint4 of(int c, int i) const {
      if constexpr (held)
        return word[i].bits;
      else
        return from[(c * runs + i) * row_lanes].bits;
    }
  };

  // --- products ---

  TENON_DEVICE static void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                               const float (&c)[4]) {
    if constexpr (detail::is_same<T, bf16>)
      ptx::mma_m16n8k16_bf16::sum(d, a, b0, b1, c);
    else
      ptx::mma_m16n8k16_f16::sum(d, a, b0, b1, c);
  }
  /// What the sums of blocks of 32 k start from: less bias times the sum of x.
  TENON_DEVICE static void start(bases &base, const part &p) {
    if constexpr (biased) {
      const unsigned ones[4] = {tile::ones, tile::ones, tile::ones, tile::ones};
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        TENON_UNROLL
        for (int i = 0; i < runs; ++i) {
          float sum[4] = {};
          const uint4 of = p.of(c, i);
          mma(sum, ones, of.x, of.y, sum);
          mma(sum, ones, of.z, of.w, sum);
          TENON_UNROLL
          for (int j = 0; j < sums_of_lane; ++j)
            base[c][i][j] = sum[j] * (-tile::bias / (j < 2 ? tile::low : tile::high));
        }
      }
    }
  }
  /// Adds tile `at` of a warp's chunk.
  TENON_DEVICE static void multiply(float (&sum)[columns][4], const tile &w, const part &p,
                                    const bases &base, int at) {
    if constexpr (tile::runs == 0) {
      unsigned a[4];
      w.fragment(a, 0);
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        const uint4 of = p.of(c, at / 2);
        mma(sum[c], a, at % 2 ? of.z : of.x, at % 2 ? of.w : of.y, sum[c]);
      }
    } else {
      TENON_UNROLL
      for (int block = 0; block < tile::runs; ++block) {
        unsigned a[2][4];
        w.fragment(a[0], 2 * block);
        w.fragment(a[1], 2 * block + 1);
        const int run = at * tile::runs + block;
        TENON_UNROLL
        for (int c = 0; c < columns; ++c) {
          float from[4] = {};
          if constexpr (biased) {
            TENON_UNROLL
            for (int i = 0; i < 4; ++i)
              from[i] =
                  base[c][run][i % sums_of_lane] * (i < sums_of_lane ? 1 : tile::low / tile::high);
          }
          const uint4 of = p.of(c, run);
          if constexpr (weights::scales_blocks) {
            float d[4];
            mma(d, a[0], of.x, of.y, from);
            mma(d, a[1], of.z, of.w, d);
            TENON_UNROLL
            for (int i = 0; i < 4; ++i)
              if (rows > 1 || i % 2 == 0)
                sum[c][i] = mul_add(d[i], load_element(&w.scale[block][i / 2]), sum[c][i]);
          } else {
            if constexpr (biased) {
              TENON_UNROLL
              for (int i = 0; i < 4; ++i)
                sum[c][i] += from[i];
            }
            mma(sum[c], a[0], of.x, of.y, sum[c]);
            mma(sum[c], a[1], of.z, of.w, sum[c]);
          }
        }
      }
    }
  }

  template <class Ahead>
  TENON_DEVICE void consume(unsigned char *shared, const Ahead &ahead) const {
    const share mine;
    if constexpr (holds_rows)
      normalize_rows(shared, mine, ahead);
    else if constexpr (Norm::normalizes)
      share_statistics(shared);
    constexpr int staged = int(shape.staged_chunks()) * stage_tiles; // tiles
    const bool restage = mine.tiles > staged, several = mine.tiles > stage_tiles;
    reader at;
    if constexpr (!CopyEngine) {
      for (int s = 0; s < stages && at.ahead.more(mine); ++s)
        at.ahead.next(mine);
    }
    part p;
    bases base_of;
    for (int base = 0, pass = 0; base < mine.slots; base += strips, ++pass) {
      const int count = min_of(strips, mine.slots - base);
      float sum[strips][columns][4] = {};
      for (int first = 0; first < mine.tiles; first += stage_tiles) {
        if constexpr (!holds_rows)
          if (first % staged == 0 && (restage || base == 0))
            stage_rows(shared, mine, first);
        if (several || base == 0) {
          p.take(shared, first % staged / stage_tiles);
          start(base_of, p);
          if (base == 0 && first == 0)
            ptx::griddepcontrol::launch_dependents();
        }
        TENON_UNROLL
        for (int i = 0; i < strips; ++i) {
          if (i < count) {
            tile w[tiles];
            load_stage(w, shared, mine, at);
            TENON_UNROLL
            for (int j = 0; j < tiles; j += 2)
              if (first + warp() * tiles + j < mine.tiles) {
                multiply(sum[i], w[j], p, base_of, j);
                multiply(sum[i], w[j + 1], p, base_of, j + 1);
              }
          }
        }
      }
      join(sum, shared, mine, base, count, pass);
    }
  }

  // --- sums ---

  /// Room for the sums of this block's `strip`-th own strip (or its matrices'), from warp `part`.
  TENON_DEVICE static float *room(unsigned char *shared, int area, int strip, int part) {
    return reinterpret_cast<float *>(shared + shape.sums_at() + area * int(shape.area_bytes())) +
           (strip * parts + part) * int(shape.sums_of_strip());
  }
  /// How many of a pass's `count` slots this block finishes.
  TENON_DEVICE static int owned(int count) {
    return (count / Count - rank() + splits - 1) / splits * Count;
  }
  TENON_DEVICE static void expect_sums(unsigned char *shared) {
    const share mine;
    for (int pass = 0; pass < passes; ++pass) {
      const int count = max_of(0, min_of(strips, mine.slots - pass * strips));
      sent(shared)[pass].arrive_expecting(owned(count) * parts * int(shape.sums_of_strip()) * 4);
    }
  }
  /// Adds the warps' sums of `count` slots from `base` on, in the order of four threads each, and
  /// finishes those that this block owns.
  TENON_DEVICE void join(const float (&sum)[strips][columns][4], unsigned char *shared,
                         const share &mine, int base, int count, int pass) const {
    const int area = pass % int(shape.areas());
    if constexpr (splits == 1 && rows > 1) {
      if (pass > 0)
        ptx::named_barrier::sync(1, 32 * warps); // those before have been read
    }
    if constexpr (splits > 1) {
      if (pass == 0)
        ptx::cluster::wait(); // all have begun
    }
    TENON_UNROLL
    for (int i = 0; i < strips; ++i)
      if (i < count) {
        const int strip = i / Count / splits * Count + i % Count;
        hand_over(sum[i], room(shared, area, strip, rank() * warps + warp()), sent(shared)[pass],
                  i / Count % splits);
      }
    const int mine_of_pass = owned(count);
    constexpr int unit = rows == 1 ? 16 : 32 * columns; // items of a strip
    const int items = mine_of_pass / Count * unit, first = 8 * warp() + lane() % 8;
    // What the body reads is fetched while the warps meet.
    operand_runs<1, Ins> operands;
    float by[Count];
    if (first < items)
      fetch(operands, by, mine, base, first);
    if constexpr (splits > 1) {
      if (mine_of_pass == 0)
        return;
      sent(shared)[pass].wait_for_cluster(0);
    } else {
      ptx::named_barrier::sync(1, 32 * warps);
    }
    for (int item = first; item < items; item += 8 * warps) {
      if (item != first)
        fetch(operands, by, mine, base, item);
      float value[Count][1];
      TENON_UNROLL
      for (int m = 0; m < Count; ++m) {
        value[m][0] = added(room(shared, area, item / unit * Count + m, 0), item % unit);
        if constexpr (weights::scales_outputs)
          value[m][0] *= by[m];
      }
      const place to(mine, base, item);
      if (to.there(present())) {
        const int at[2] = {to.row, to.output};
        if constexpr (Count == 1)
          apply_to_runs<1>(body, outs, operands, at, 1, value[0]);
        else
          apply_to_runs<1>(body, outs, operands, at, 1, value[0], value[1]);
      }
    }
  }
  /// One warp's sums of a strip, to `to` in block `rank`.
  TENON_DEVICE static void hand_over(const float (&sum)[columns][4], float *to, ptx::mbarrier &done,
                                     int rank) {
    const auto put = [&](float *at, const float(&four)[4]) {
      word16 w;
      memcpy(static_cast<void *>(&w), four, sizeof(w));
      if constexpr (splits > 1)
        ptx::cluster::send(reinterpret_cast<word16 *>(at), done, rank, w);
      else
        *reinterpret_cast<word16 *>(at) = w;
      (void)done, (void)rank;
    };
    if constexpr (rows == 1) {
      // Outputs 4 * i ... of thread i: of lanes 16 * (i % 2) + 4 * j, their first or third sum.
      float four[4];
      TENON_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int from = 16 * (lane() % 2) + 4 * j;
        const float low = shuffle(sum[0][0], from), high = shuffle(sum[0][2], from);
        four[j] = lane() < 2 ? low * tile::low : high * tile::high;
      }
      if (lane() < 4)
        put(to + 4 * lane(), four);
    } else {
      TENON_UNROLL
      for (int c = 0; c < columns; ++c) {
        const float four[4] = {sum[c][0] * tile::low, sum[c][1] * tile::low, sum[c][2] * tile::high,
                               sum[c][3] * tile::high};
        put(to + 4 * (32 * c + lane()), four);
      }
    }
  }
  /// The sum over all parts that item `at` of a strip is, or, of several rows, one of its four:
  /// four threads call for each.
  TENON_DEVICE static float added(const float *from, int at) {
    constexpr int pitch = int(shape.sums_of_strip());
    const int quarter = lane() / 8;
    if constexpr (rows == 1) {
      float all = 0;
      TENON_UNROLL
      for (int w = 0; w < parts; w += 4)
        all += from[(w + quarter) * pitch + at];
      all += shuffle_xor(all, 16);
      return all + shuffle_xor(all, 8);
    } else {
      float all[4] = {};
      TENON_UNROLL
      for (int w = 0; w < parts; w += 4) {
        float more[4];
        detail::load_words(more, from + (w + quarter) * pitch + 4 * at);
        TENON_UNROLL
        for (int i = 0; i < 4; ++i)
          all[i] += more[i];
      }
      const bool upper = quarter >= 2, odd = quarter % 2;
      float low = upper ? all[2] : all[0], high = upper ? all[3] : all[1];
      low += shuffle_xor(upper ? all[0] : all[2], 16);
      high += shuffle_xor(upper ? all[1] : all[3], 16);
      return (odd ? high : low) + shuffle_xor(odd ? low : high, 8);
    }
  }
  /// Where this thread's value of an item goes.
  struct place {
    int output, row;
    TENON_DEVICE place(const share &mine, int base, int item) {
      constexpr int unit = rows == 1 ? 16 : 32 * columns;
      const int quarter = lane() / 8;
      const int strip = base / Count + item / unit * splits + rank();
      output = 16 * (mine.first + strip * int(shape.groups()));
      if (rows == 1) {
        output += item % 16;
        row = quarter == 0 ? 0 : rows; // one of the four
      } else {
        output += item % 32 / 4 + 8 * (quarter / 2);
        row = 8 * (item % unit / 32) + item % 4 * 2 + quarter % 2;
      }
    }
    /// Of so many rows.
    TENON_DEVICE bool there(int count) const { return output < Config::n && row < count; }
  };
  /// What the body reads of an item, and what its sums are multiplied by.
  TENON_DEVICE void fetch(operand_runs<1, Ins> &operands, float (&by)[Count], const share &mine,
                          int base, int item) const {
    const place of(mine, base, item);
    const int at[2] = {of.row, of.output};
    if (!of.there(present()))
      return;
    operands.template load<1>(ins, at, 1);
    if constexpr (weights::scales_outputs) {
      TENON_UNROLL
      for (int m = 0; m < Count; ++m)
        by[m] = load_element(matrices.of[m].scale + of.output);
    }
  }
};

template <class Config, class X, class Matrices, class Outs, class Ins, class Body,
          class Norm = no_norm>
strip_kernel<false, Config, X, Matrices, Outs, Ins, Body, Norm>
strip_sm80(Config cfg, X x, Matrices matrices, Outs outs, Ins ins, Body body, Norm norm = {}) {
  return {cfg, x, matrices, outs, ins, body, norm};
}
template <class Config, class X, class Matrices, class Outs, class Ins, class Body,
          class Norm = no_norm>
strip_kernel<true, Config, X, Matrices, Outs, Ins, Body, Norm>
strip_sm90(Config cfg, X x, Matrices matrices, Outs outs, Ins ins, Body body, Norm norm = {}) {
  return {cfg, x, matrices, outs, ins, body, norm};
}

} // namespace cuda
} // namespace tenon

#endif
