// Defines `recurrent`: all steps of a recurrent layer in one launch (sm_80 and up; several blocks
// from sm_90 on).
//
//   for t in steps:
//     gates0[row, g, u] = sum over k of weights0[g * hidden + u, k] * state0[row, k]
//     between[row, u]   = before(inputs..., gates0..., states..., extras...)    with two products
//     gates1[row, g, u] = sum over k of weights1[g * hidden + u, k] * between[row, k]
//     states[row, u]    = cell(inputs..., gates0..., gates1..., states..., extras...)
//     outs[t, row, u]   = body(states that are kept..., ins[t, row, u]...)
//
// with inputs[i] = x[t, row, i * hidden + u] and extras[i] = extra[i][u]. With `reverse` x, outs
// and ins are read and written from the last step to the first.
//
// Algorithm: a cluster of blocks has up to eight rows of the batch for all steps, each block some
// units and all weights of their gates: in registers, as tiles of mma.sync, and in shared memory
// what these have no room for. The rows are the columns of the product, so that eight take no
// longer than one. The warps share rows and terms of the weights, their sums meet in shared memory,
// and a thread for each row and unit computes its states, of which the one that is multiplied goes
// to all blocks of the cluster: words that report themselves to a barrier of the receiver, into one
// of two buffers in turn. A block that sends for the step after next has the whole of the next one,
// so everybody is done with what it overwrites. Products of fp16 and bf16 by Tensor Cores, of fp32
// by fused multiply-adds; sums in fp32; states are rounded to the elements' type in each step.
//
// Config: steps, batch (extents); hidden, inputs (of the input's share), states, products, gates0,
// gates1, reverse, kept (a bit for each state that is a result). Schedule: threads, blocks (of the
// cluster, a power of two up to 8), rows (of the batch, up to 8), splits0, splits1 (powers of two
// that divide the warps).
#ifndef TENON_RUNTIME_CUDA_RECURRENT_KERNEL_CUH
#define TENON_RUNTIME_CUDA_RECURRENT_KERNEL_CUH

#include "cuda/base/operands.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/elect.cuh"
#include "cuda/recurrent/geometry.h"
#include "cuda/tile/tensor_cores_sm80.cuh"

namespace tenon {
namespace cuda {

namespace detail {
/// f(a[0], ..., a[N - 1]), of lanes of one.
template <int N, class F, int Count, class... Got>
TENON_DEVICE auto call_spread(const F &f, const float (&a)[Count], Got... got) {
  if constexpr (int(sizeof...(Got)) == N)
    return f(scalar_lanes{}, got...);
  else
    return call_spread<N>(f, a, got..., a[sizeof...(Got)]);
}
/// The values of a body's results; one comes bare.
template <int Count> TENON_DEVICE void take_results(float (&)[Count], int, arguments<>) {}
template <int Count, class R, class... Rs>
TENON_DEVICE void take_results(float (&to)[Count], int at, const results<R, Rs...> &r) {
  to[at] = r.head;
  take_results(to, at + 1, r.tail);
}
template <int Count> TENON_DEVICE void take_results(float (&to)[Count], int at, float r) {
  to[at] = r;
}
/// to[at + i] = element of view i.
template <int Count, class Index, int Rank>
TENON_DEVICE void take_elements(float (&)[Count], int, arguments<>, const Index (&)[Rank]) {}
template <int Count, class View, class... Rest, class Index, int Rank>
TENON_DEVICE void take_elements(float (&to)[Count], int at, const arguments<View, Rest...> &views,
                                const Index (&place)[Rank]) {
  to[at] = load_one(views.head, place);
  take_elements(to, at + 1, views.tail, place);
}
} // namespace detail

template <class Config, class T, class X, class States, class Extras, class Before, class Cell,
          class Outs, class Ins, class Body>
struct recurrent_kernel {
  Config cfg;
  X x;
  const T *weights0, *weights1;
  States initial;
  Extras extras;
  Before before;
  Cell cell;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int threads = Config::threads, blocks_per_sm = 1;
  static constexpr int cluster_blocks = Config::blocks; // neighbours along x
  static constexpr recurrent_geometry shape = {Config::hidden, Config::rows,       Config::gates0,
                                               Config::gates1, index_t(sizeof(T)), Config::threads,
                                               Config::blocks, Config::splits0,    Config::splits1};
  static constexpr int hidden = Config::hidden, rows = Config::rows, units = shape.units(),
                       pitch = shape.pitch(), warps = shape.warps();
  static constexpr int inputs = Config::inputs, states = States::count, extra = Extras::count,
                       products = shape.products();
  static constexpr int gates0 = Config::gates0, gates1 = Config::gates1;
  static constexpr int tiles = shape.tiles(), held = shape.held();
  static constexpr int pairs = rows * units, items = ceil_div(pairs, threads);
  static constexpr int kept = Outs::count == 0 ? 0 : Config::kept;
  static constexpr bool halves = sizeof(T) == 2;
  static_assert(detail::is_power_of_two(cluster_blocks) && cluster_blocks <= 8,
                "a cluster has 8 blocks at most");
  static_assert(rows <= shape.most_rows, "rows are the columns of one tile");
  static_assert(warps % Config::splits0 == 0 && (products == 1 || warps % Config::splits1 == 0),
                "splits divide the warps");
  static_assert(shape.shared_bytes() <= 227 * 1024, "a block has no more shared memory");

  TENON_FN static constexpr bool runs_on(target t) {
    return t.arch >= (cluster_blocks > 1 ? 900 : 800);
  }
  int shared_bytes() const { return int(shape.shared_bytes()); }
  grid blocks() const {
    return {index_t(cfg.steps) > 0 ? ceil_div(index_t(cfg.batch), index_t(rows)) * cluster_blocks
                                   : 0,
            1, 1};
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    begin(shared);
    const int from = uniform_warp();
    unsigned own[held][4];
    load_weights<0>(own, shared, from);
    if constexpr (products == 2)
      load_weights<1>(own, shared, from);
    float now[items][states], given[items][inputs];
    [[maybe_unused]] float more[items][extra + 1];
    TENON_UNROLL
    for (int i = 0; i < items; ++i) {
      TENON_UNROLL
      for (int s = 0; s < states; ++s)
        now[i][s] = 0;
      TENON_UNROLL
      for (int s = 0; s < inputs; ++s)
        given[i][s] = 0;
      if (!is_mine(i))
        continue;
      const int at[2] = {row_of(i), unit_of(i)}, unit[1] = {unit_of(i)};
      detail::take_elements(now[i], 0, initial, at);
      detail::take_elements(more[i], 0, extras, unit);
    }
    const int steps = int(index_t(cfg.steps));
    load_inputs(given, 0);
    if constexpr (cluster_blocks > 1)
      ptx::cluster::wait(); // all have begun
    sync_block();
    int turn = 0; // products so far
    TENON_NO_UNROLL
    for (int step = 0; step < steps; ++step) {
      float value[items][inputs + gates0 + gates1 + states + extra];
      TENON_UNROLL
      for (int i = 0; i < items; ++i) {
        TENON_UNROLL
        for (int s = 0; s < inputs; ++s)
          value[i][s] = given[i][s];
        TENON_UNROLL
        for (int s = 0; s < states; ++s)
          value[i][state_at + s] = now[i][s];
        TENON_UNROLL
        for (int s = 0; s < extra; ++s)
          value[i][state_at + states + s] = more[i][s];
      }
      if (step + 1 < steps)
        load_inputs(given, step + 1);
      multiply<0>(own, shared, from, turn);
      sync_block();
      take_sums<0>(value, shared, turn);
      if constexpr (products == 2) {
        float between[items];
        TENON_UNROLL
        for (int i = 0; i < items; ++i)
          between[i] = is_mine(i) ? call_before(value[i]) : 0.0f;
        hand_on(between, shared, turn);
        receive(shared, turn++);
        multiply<1>(own, shared, from, turn);
        sync_block();
        take_sums<1>(value, shared, turn);
      }
      float next[items];
      TENON_UNROLL
      for (int i = 0; i < items; ++i) {
        if (is_mine(i))
          detail::take_results(now[i], 0, detail::call_spread<arity>(cell, value[i]));
        TENON_UNROLL
        for (int s = 0; s < states; ++s)
          now[i][s] = rounded(now[i][s]);
        next[i] = now[i][0];
      }
      const bool last = step + 1 == steps;
      if (!last)
        hand_on(next, shared, turn);
      store(now, step);
      if (!last)
        receive(shared, turn++);
    }
  }

private:
  static constexpr int state_at = inputs + gates0 + gates1, arity = state_at + states + extra;

  TENON_DEVICE static int rank() { return block_x() % cluster_blocks; }
  /// Item i of a thread: a row of the batch and a unit.
  TENON_DEVICE static int pair_of(int i) { return thread() + i * threads; }
  TENON_DEVICE static int row_of(int i) {
    return block_x() / cluster_blocks * rows + pair_of(i) / units;
  }
  TENON_DEVICE static int unit_of(int i) { return rank() * units + pair_of(i) % units; }
  TENON_DEVICE bool is_mine(int i) const {
    return pair_of(i) < pairs && unit_of(i) < hidden && row_of(i) < int(index_t(cfg.batch));
  }
  TENON_DEVICE int place_of(int step) const {
    return Config::reverse ? int(index_t(cfg.steps)) - 1 - step : step;
  }
  TENON_DEVICE static T *state(unsigned char *shared, int turn) {
    return reinterpret_cast<T *>(shared + shape.states_at + (turn & 1) * shape.states_bytes());
  }
  TENON_DEVICE static ptx::mbarrier &received(unsigned char *shared, int turn) {
    return reinterpret_cast<ptx::mbarrier *>(shared)[turn & 1];
  }
  TENON_DEVICE static float *sums(unsigned char *shared, int turn) {
    return reinterpret_cast<float *>(shared + shape.sums_at() +
                                     (turn & 1) * shape.most_sums_bytes());
  }
  TENON_DEVICE static float rounded(float v) {
    T element;
    store_element(&element, v);
    return load_element(&element);
  }
  TENON_DEVICE float call_before(const float (&value)[arity]) const {
    if constexpr (products == 2) {
      float given[arity - gates1], result[1];
      TENON_UNROLL
      for (int a = 0; a < arity - gates1; ++a)
        given[a] = value[a < inputs + gates0 ? a : a + gates1];
      detail::take_results(result, 0, detail::call_spread<arity - gates1>(before, given));
      return result[0];
    } else {
      return 0;
    }
  }

  /// The first state of all units, zeros where there is none; barriers.
  TENON_DEVICE void begin(unsigned char *shared) const {
    const int first = block_x() / cluster_blocks * rows;
    for (int i = thread(); i < rows * pitch; i += threads) {
      const int row = first + i / pitch, k = i % pitch;
      float v = 0;
      if (k < hidden && row < int(index_t(cfg.batch))) {
        const int at[2] = {row, k};
        v = load_one(initial.head, at);
      }
      store_element(state(shared, 0) + i, v);
      store_element(state(shared, 1) + i, 0.0f);
    }
    if constexpr (cluster_blocks > 1) {
      if (thread() == 0) {
        received(shared, 0).init(1);
        received(shared, 1).init(1);
        ptx::mbarrier::fence_init();
        expect(shared, 0);
        expect(shared, 1);
      }
      sync_block();
      ptx::cluster::arrive(); // its barriers are ready, and its states will not be written again
    }
  }
  TENON_DEVICE static void expect(unsigned char *shared, int turn) {
    received(shared, turn).arrive_expecting(cluster_blocks * int(shape.staged_bytes()));
  }

  /// Inputs of this thread's items in a step.
  TENON_DEVICE void load_inputs(float (&given)[items][inputs], int step) const {
    TENON_UNROLL
    for (int i = 0; i < items; ++i)
      if (is_mine(i)) {
        TENON_UNROLL
        for (int s = 0; s < inputs; ++s) {
          const int at[3] = {place_of(step), row_of(i), s * hidden + unit_of(i)};
          given[i][s] = load_one(x, at);
        }
      }
  }

  // --- weights ---

  /// Tile n of product P: its place among the tiles of the block, from the warp's number.
  template <int P> TENON_DEVICE static int row_tile(int from, int n) {
    return from / int(shape.splits(P)) +
           n % int(shape.own_rows(P)) * (warps / int(shape.splits(P)));
  }
  template <int P> TENON_DEVICE static int term_tile(int from, int n) {
    return from % int(shape.splits(P)) + n / int(shape.own_rows(P)) * int(shape.splits(P));
  }
  TENON_DEVICE static word16 *rest(unsigned char *shared, int n) {
    return reinterpret_cast<word16 *>(shared + shape.rest_at()) + (n - held) * threads + thread();
  }

  template <int P>
  TENON_DEVICE void load_weights(unsigned (&own)[held][4], unsigned char *shared, int from) const {
    constexpr int before_it = P == 0 ? 0 : int(shape.own_tiles(0));
    TENON_UNROLL
    for (int n = 0; n < int(shape.own_tiles(P)); ++n) {
      unsigned words[4];
      load_tile<P>(words, row_tile<P>(from, n) * 16,
                   term_tile<P>(from, n) * int(shape.tile_terms()));
      if (before_it + n < held) {
        TENON_UNROLL
        for (int r = 0; r < 4; ++r)
          own[before_it + n < held ? before_it + n : 0][r] = words[r];
      } else {
        *rest(shared, before_it + n) = {{words[0], words[1], words[2], words[3]}};
      }
    }
  }
  /// This thread's weights of a tile, as mma.sync wants them of A (ptx/mma_sm80.cuh).
  template <int P> TENON_DEVICE void load_tile(unsigned (&words)[4], int row, int term) const {
    const T *const weights = P == 0 ? weights0 : weights1;
    TENON_UNROLL
    for (int r = 0; r < 4; ++r) {
      const int m = row + lane() / 4 + (r & 1) * 8, unit = rank() * units + m % units;
      const bool there = m < int(shape.gates(P)) * units && unit < hidden;
      const T *const from = weights + index_t(m / units * hidden + unit) * hidden;
      words[r] = 0;
      if constexpr (halves) {
        const int k = term + lane() % 4 * 2 + (r >> 1) * 8;
        if constexpr (hidden % 2 == 0) {
          if (there && k < hidden)
            words[r] = *reinterpret_cast<const unsigned *>(from + k);
        } else {
          T both[2] = {};
          if (there && k < hidden)
            both[0] = from[k];
          if (there && k + 1 < hidden)
            both[1] = from[k + 1];
          memcpy(&words[r], static_cast<const void *>(both), 4);
        }
      } else {
        const int k = term + lane() % 4 + (r >> 1) * 4;
        if (there && k < hidden)
          memcpy(&words[r], from + k, 4);
      }
    }
  }
  template <int P, class Each>
  TENON_DEVICE void each_tile(const unsigned (&own)[held][4], unsigned char *shared, int n,
                              Each each) const {
    constexpr int before_it = P == 0 ? 0 : int(shape.own_tiles(0));
    if (before_it + n < held) {
      each(own[before_it + n < held ? before_it + n : 0]);
    } else {
      const uint4 bits = rest(shared, before_it + n)->bits;
      const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
      each(words);
    }
  }

  // --- products ---

  /// Sums of this warp's rows over its terms, into shared memory.
  template <int P>
  TENON_DEVICE void multiply(const unsigned (&own)[held][4], unsigned char *shared, int from,
                             int turn) const {
    if constexpr (halves)
      multiply_tiles<P>(own, shared, from, turn);
    else
      multiply_floats<P>(own, shared, from, turn);
  }
  template <int P>
  TENON_DEVICE void multiply_tiles(const unsigned (&own)[held][4], unsigned char *shared, int from,
                                   int turn) const {
    constexpr int own_rows = int(shape.own_rows(P)), own_terms = int(shape.own_terms(P));
    constexpr int chains = own_rows == 1 ? 2 : 1; // of products that wait for each other
    float sum[own_rows][chains][4] = {};
    const T *const column = state(shared, turn) + lane() / 4 * pitch + lane() % 4 * 2;
    TENON_UNROLL
    for (int k = 0; k < own_terms; ++k) {
      const int term = term_tile<P>(from, k * own_rows);
      unsigned b[2] = {};
      if (lane() / 4 < rows && term < int(shape.term_tiles())) {
        b[0] = *reinterpret_cast<const unsigned *>(column + term * 16);
        b[1] = *reinterpret_cast<const unsigned *>(column + term * 16 + 8);
      }
      TENON_UNROLL
      for (int m = 0; m < own_rows; ++m)
        each_tile<P>(own, shared, k * own_rows + m, [&](const unsigned(&a)[4]) {
          float(&d)[4] = sum[m][k % chains];
          if constexpr (detail::is_same<T, bf16>)
            ptx::mma_m16n8k16_bf16::sum(d, a, b[0], b[1], d);
          else
            ptx::mma_m16n8k16_f16::sum(d, a, b[0], b[1], d);
        });
    }
    float *const to =
        sums(shared, turn) + from % int(shape.splits(P)) * rows * int(shape.sums_pitch(P));
    TENON_UNROLL
    for (int m = 0; m < own_rows; ++m) {
      const int tile = row_tile<P>(from, m);
      if (tile >= int(shape.row_tiles(P)))
        continue;
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int column_of = lane() % 4 * 2 + (i & 1);
        if (column_of < rows)
          to[column_of * int(shape.sums_pitch(P)) + tile * 16 + lane() / 4 + (i >> 1) * 8] =
              chains == 2 ? sum[m][0][i] + sum[m][chains - 1][i] : sum[m][0][i];
      }
    }
  }
  template <int P>
  TENON_DEVICE void multiply_floats(const unsigned (&own)[held][4], unsigned char *shared, int from,
                                    int turn) const {
    constexpr int own_rows = int(shape.own_rows(P)), own_terms = int(shape.own_terms(P));
    float sum[own_rows][2][rows] = {};
    const T *const column = state(shared, turn) + lane() % 4;
    TENON_UNROLL
    for (int k = 0; k < own_terms; ++k) {
      const int term = term_tile<P>(from, k * own_rows);
      float b[2][rows] = {};
      if (term < int(shape.term_tiles())) {
        TENON_UNROLL
        for (int n = 0; n < rows; ++n) {
          b[0][n] = load_element(column + n * pitch + term * 8);
          b[1][n] = load_element(column + n * pitch + term * 8 + 4);
        }
      }
      TENON_UNROLL
      for (int m = 0; m < own_rows; ++m)
        each_tile<P>(own, shared, k * own_rows + m, [&](const unsigned(&a)[4]) {
          TENON_UNROLL
          for (int r = 0; r < 4; ++r) {
            float w;
            memcpy(&w, &a[r], 4);
            TENON_UNROLL
            for (int n = 0; n < rows; ++n)
              sum[m][r & 1][n] = mul_add(w, b[r >> 1][n], sum[m][r & 1][n]);
          }
        });
    }
    float *const to =
        sums(shared, turn) + from % int(shape.splits(P)) * rows * int(shape.sums_pitch(P));
    TENON_UNROLL
    for (int m = 0; m < own_rows; ++m) {
      const int tile = row_tile<P>(from, m);
      TENON_UNROLL
      for (int half = 0; half < 2; ++half) {
        TENON_UNROLL
        for (int n = 0; n < rows; ++n) {
          float all = sum[m][half][n];
          all += shuffle_xor(all, 1);
          all += shuffle_xor(all, 2);
          if (lane() % 4 == n % 4 && tile < int(shape.row_tiles(P)))
            to[n * int(shape.sums_pitch(P)) + tile * 16 + lane() / 4 + half * 8] = all;
        }
      }
    }
  }
  /// What the warps summed for this thread's items.
  template <int P>
  TENON_DEVICE void take_sums(float (&value)[items][arity], unsigned char *shared, int turn) const {
    TENON_UNROLL
    for (int i = 0; i < items; ++i) {
      if (pair_of(i) >= pairs)
        continue;
      const float *const at =
          sums(shared, turn) + pair_of(i) / units * int(shape.sums_pitch(P)) + pair_of(i) % units;
      TENON_UNROLL
      for (int g = 0; g < int(shape.gates(P)); ++g) {
        float sum = at[g * units];
        TENON_UNROLL
        for (int s = 1; s < int(shape.splits(P)); ++s)
          sum += at[s * rows * int(shape.sums_pitch(P)) + g * units];
        value[i][inputs + (P == 0 ? 0 : gates0) + g] = sum;
      }
    }
  }

  // --- states on their way ---

  /// This thread's items of what is multiplied next go to all blocks.
  TENON_DEVICE void hand_on(const float (&value)[items], unsigned char *shared, int turn) const {
    T *const to = state(shared, turn + 1);
    if constexpr (cluster_blocks == 1) {
      TENON_UNROLL
      for (int i = 0; i < items; ++i)
        if (pair_of(i) < pairs)
          store_element(to + pair_of(i) / units * pitch + pair_of(i) % units, value[i]);
    } else {
      constexpr int run = 16 / int(sizeof(T)), words = 32 / run; // of a warp
      T *const staged = reinterpret_cast<T *>(shared + shape.staged_at());
      TENON_UNROLL
      for (int i = 0; i < items; ++i) {
        if (pair_of(i) < pairs)
          store_element(staged + pair_of(i), value[i]);
        sync_warp();
        TENON_UNROLL
        for (int j = 0; j < words * cluster_blocks; j += 32) {
          const int n = j + lane(), first = i * threads + warp() * 32 + n % words * run;
          if (n < words * cluster_blocks && first < pairs)
            ptx::cluster::send(reinterpret_cast<word16 *>(to + first / units * pitch +
                                                          rank() * units + first % units),
                               received(shared, turn), n / words,
                               *reinterpret_cast<const word16 *>(staged + first));
        }
      }
    }
  }
  /// All that was handed on in this turn is there.
  TENON_DEVICE void receive(unsigned char *shared, int turn) const {
    if constexpr (cluster_blocks == 1) {
      sync_block();
    } else {
      received(shared, turn).wait_for_cluster((turn >> 1) & 1);
      if (uniform_warp() == 0 && ptx::elect::one())
        expect(shared, turn + 2);
    }
  }

  /// The results of a step.
  TENON_DEVICE void store(const float (&now)[items][states], int step) const {
    TENON_UNROLL
    for (int i = 0; i < items; ++i) {
      if (!is_mine(i))
        continue;
      const int at[3] = {place_of(step), row_of(i), unit_of(i)};
      operand_runs<1, Ins> operands;
      operands.template load<2>(ins, at, 1);
      result_runs<1, Outs> stored;
      stored.set(0, call_body<0>(operands, now[i]));
      stored.template store<2>(outs, at, 1);
    }
  }
  template <int S, class... Got>
  TENON_DEVICE auto call_body(const operand_runs<1, Ins> &operands, const float (&now)[states],
                              Got... got) const {
    if constexpr (S == states)
      return operands.call(body, 0, got...);
    else if constexpr ((Config::kept >> S & 1) != 0)
      return call_body<S + 1>(operands, now, got..., now[S]);
    else
      return call_body<S + 1>(operands, now, got...);
  }
};

/// x: over (step, row, inputs * hidden). weights0, weights1 [gates * hidden][hidden], row-major;
/// weights1 null with one product. initial: views of the states over (row, unit), the one that is
/// multiplied first. extras: views over (unit). outs, ins: over (step, row, unit).
template <class Config, class T, class X, class States, class Extras, class Before, class Cell,
          class Outs, class Ins, class Body>
recurrent_kernel<Config, T, X, States, Extras, Before, Cell, Outs, Ins, Body>
recurrent(Config cfg, X x, const T *weights0, const T *weights1, States initial, Extras extras,
          Before before, Cell cell, Outs outs, Ins ins, Body body) {
  return {cfg, x, weights0, weights1, initial, extras, before, cell, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
