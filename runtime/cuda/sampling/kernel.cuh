// Defines `draw_token`: the next token of a decoder, drawn from logits on the device and handed to
// the run that appends it, so that the host need not wait for either.
//
// Algorithm: that of common/sampling.h, step by step, by one block: the logits lie in the
// second-level cache, and a pass over those of 128,256 tokens takes a few microseconds, so that
// nothing has to be told between blocks. Sums of histograms are of integers, and the best of all
// scores has no order either: the token is the one that the host would draw (f64 functions may
// differ in their last bit).
//
// A stop token ends the drawing: it is not handed on, and later launches do nothing. `record` and
// `made` may be memory that the host sees.
#ifndef TENON_RUNTIME_CUDA_SAMPLING_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SAMPLING_KERNEL_CUH

#include "common/sampling.h"
#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {

/// How tokens are drawn (common/sampling.h), and which end the drawing.
struct draw_rules {
  static constexpr int most_stops = 16;
  float temperature;
  int top_k;
  float top_p;
  uint32_t seed;
  int stops[most_stops], stop_count;
};

/// One draw: what no kernel's type depends on.
struct draw_call {
  draw_rules how;
  const void *logits; // [vocabulary]
  long vocabulary, position;
  void *next;  // the token of the run that follows
  int *ended;  // 1 once a stop token came
  int *record; // the tokens that are handed on
  int *made;   // how many
  int index;   // of this one
};

template <class Token, class Logit> struct draw_kernel {
  draw_call call;

  static constexpr int threads = 1024, blocks_per_sm = 1;
  TENON_FN static constexpr bool runs_on(target) { return true; }
  grid blocks() const { return {1, 1, 1}; }
  int shared_bytes() const { return int(sizeof(memory)); }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *shared) const {
    if (*call.ended) // written behind barriers that all threads pass
      return;
    memory &m = *reinterpret_cast<memory *>(shared);
    const int best = largest(m);
    hand_on(call.how.temperature > 0 ? draw(m, best) : best);
  }

private:
  using sum = unsigned long long;
  static constexpr int bins = 2048, bins_of_part = 32;
  struct scored {
    double score;
    int token;
  };
  struct memory {
    sum sums[bins], parts[bins / bins_of_part];
    union {
      sum sums_of_threads[threads];
      scored scores_of_threads[threads];
      unsigned char folded[1];
    };
    sum above;
    int bin;
  };
  using group = lane_group<threads, threads, false>;
  static_assert(group::template shared_bytes<scored>() <= int(sizeof(scored) * threads),
                "a value of each thread");

  TENON_DEVICE float logit(int i) const {
    return float(load_element(static_cast<const Logit *>(call.logits) + i));
  }
  /// f(token, logit, key) for this thread's.
  template <class F> TENON_DEVICE void each(F f) const {
    TENON_UNROLL_BY(8)
    for (int i = thread(); i < int(call.vocabulary); i += threads) {
      const float x = logit(i);
      f(i, x, tenon::detail::ordered_bits(x));
    }
  }

  /// The first of the largest logits.
  TENON_DEVICE int largest(memory &m) const {
    sum mine = 0;
    each([&](int i, float, uint32_t key) {
      const sum here = sum(key) << 32 | uint32_t(~i);
      mine = here > mine ? here : mine;
    });
    const sum top = group::combine(mine, m.folded, [](sum a, sum b) { return a > b ? a : b; });
    return int(~uint32_t(top));
  }

  /// detail::threshold of common/sampling.h.
  template <class Weight>
  TENON_DEVICE uint32_t threshold(memory &m, sum wanted, Weight weight) const {
    uint32_t prefix = 0;
    sum above = 0;
    TENON_NO_UNROLL
    for (int fixed = 0; fixed < 32; fixed += 11) {
      const int width = fixed < 22 ? 11 : 10, shift = 32 - fixed - width;
      for (int b = thread(); b < bins; b += threads)
        m.sums[b] = 0;
      sync_block();
      each([&](int, float x, uint32_t key) {
        if (fixed == 0 || key >> (32 - fixed) == prefix)
          if (const sum w = weight(x, key))
            atomic_add(&m.sums[key >> shift & ((1u << width) - 1)], w);
      });
      sync_block();
      for (int p = thread(); p < bins / bins_of_part; p += threads) {
        sum all = 0;
        for (int b = 0; b < bins_of_part; ++b)
          all += m.sums[p * bins_of_part + b];
        m.parts[p] = all;
      }
      sync_block();
      if (thread() == 0) {
        int part = bins / bins_of_part - 1;
        for (; part > 0 && above + m.parts[part] < wanted; --part)
          above += m.parts[part];
        int bin = (part + 1) * bins_of_part - 1;
        for (; bin > part * bins_of_part && above + m.sums[bin] < wanted; --bin)
          above += m.sums[bin];
        m.bin = bin, m.above = above;
      }
      sync_block();
      prefix = prefix << width | uint32_t(m.bin);
      above = m.above;
      sync_block();
    }
    return prefix;
  }

  /// draw_token of common/sampling.h, behind the search for the largest.
  TENON_DEVICE int draw(memory &m, int best) const {
    const draw_rules &how = call.how;
    const double temperature = double(how.temperature);
    const float largest = logit(best);
    uint32_t least = 0;
    if (how.top_k > 0 && how.top_k < call.vocabulary)
      least = threshold(m, sum(how.top_k), [](float, uint32_t) { return sum(1); });
    if (how.top_p < 1) {
      const auto mass = [&](float x, uint32_t key) {
        return sum(tenon::detail::token_mass(x, key, least, largest, temperature));
      };
      sum mine = 0;
      each([&](int, float x, uint32_t key) { mine += mass(x, key); });
      const sum all = group::combine(mine, m.folded, [](sum a, sum b) { return a + b; });
      const uint32_t likely = threshold(m, sum(tenon::detail::wanted_mass(all, how.top_p)), mass);
      least = likely > least ? likely : least;
    }
    const auto noise = [&](int i) {
      return tenon::detail::token_noise(how.seed, uint64_t(call.position), uint64_t(i));
    };
    scored mine = {double(largest) / temperature + noise(best), best};
    each([&](int i, float logit, uint32_t key) {
      const double x = double(logit) / temperature;
      if (key < least || !(x + tenon::detail::most_noise > mine.score))
        return;
      const scored here = {x + noise(i), i};
      mine = better(here, mine);
    });
    return group::combine(mine, m.folded, better).token;
  }
  TENON_DEVICE static scored better(const scored &a, const scored &b) {
    return a.score > b.score || (a.score == b.score && a.token < b.token) ? a : b;
  }

  TENON_DEVICE void hand_on(int token) const {
    if (thread() != 0)
      return;
    for (int i = 0; i < call.how.stop_count; ++i)
      if (call.how.stops[i] == token) {
        *call.ended = 1;
        return;
      }
    *static_cast<Token *>(call.next) = Token(token);
    call.record[call.index] = token;
    *call.made = call.index + 1;
  }
};

template <class Token, class Logit> draw_kernel<Token, Logit> draw_token(const draw_call &call) {
  return {call};
}

} // namespace cuda
} // namespace tenon

#endif
