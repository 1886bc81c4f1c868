// Defines how the next token is drawn from logits: the largest one, or at random among the likely
// ones.
//
//   score(i) = logit(i) / temperature + Gumbel noise      the largest of these falls on i with the
//                                                         probability that softmax gives it
//
// The noise is a function of seed, position and token (the generator of docs/random.md). The k
// largest logits are those from a threshold up, which three histograms of its bits find (11, 11 and
// 10 of them); so are the fewest whose probabilities together reach p, by histograms of masses in
// fixed point, whose sums have no order. Logits that equal the threshold stay. GPUs do the same in
// parallel (cuda/sampling/kernel.cuh).
#ifndef TENON_RUNTIME_COMMON_SAMPLING_H
#define TENON_RUNTIME_COMMON_SAMPLING_H

#include "common/lanes.h"

#include <math.h>

namespace tenon {
namespace detail {

TENON_FN uint64_t mix_bits(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

/// Standard Gumbel noise of token `i`, drawn behind `position` tokens.
TENON_FN double token_noise(uint32_t seed, uint64_t position, uint64_t i) {
  constexpr uint64_t step = 0x9e3779b97f4a7c15ull;
  const uint64_t bits = mix_bits(mix_bits(position * step + mix_bits(seed)) + (i + 1) * step);
  const double u = (double(bits >> 11) + 0.5) * 0x1p-53;
  return -::log(-::log(u));
}
/// No noise exceeds this: u is at most 1 - 2^-54.
constexpr double most_noise = 37.5;

/// An integer that is larger where `x` is; NaN counts as the lowest.
TENON_FN uint32_t ordered_bits(float x) {
  if (x != x)
    return 0;
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/// What a token of `key` weighs where the fewest that reach a probability are looked for; tokens
/// below `least` are out of the question.
TENON_FN uint64_t token_mass(float logit, uint32_t key, uint32_t least, float largest,
                             double temperature) {
  const double x = (double(logit) - double(largest)) / temperature;
  return key < least || !(x > -28) ? uint64_t(0) : uint64_t(::exp(x) * 0x1p40);
}
/// How much of all mass the likely tokens make at least.
TENON_FN uint64_t wanted_mass(uint64_t all, float top_p) {
  const double wanted = double(all) * (top_p > 0 ? double(top_p) : 0);
  return wanted > 1 ? uint64_t(wanted) : uint64_t(1);
}

/// The largest threshold such that the weights of the keys from there up make `wanted` at least,
/// or all of them; `weight(i, key)` is what an element weighs. Keys are those of `logits`.
template <class Logit, class Weight>
uint32_t threshold(const Logit *logits, long count, uint64_t wanted, Weight weight) {
  uint32_t prefix = 0;
  int fixed = 0; // leading bits of the threshold that are known
  uint64_t above = 0;
  constexpr int widths[] = {11, 11, 10};
  for (const int width : widths) {
    const int shift = 32 - fixed - width;
    uint64_t sums[2048] = {};
    for (long i = 0; i < count; ++i) {
      const uint32_t key = ordered_bits(float(load_element(logits + i)));
      if (fixed == 0 || key >> (32 - fixed) == prefix)
        sums[key >> shift & ((1u << width) - 1)] += weight(i, key);
    }
    int bin = (1 << width) - 1;
    for (; bin > 0 && above + sums[bin] < wanted; --bin)
      above += sums[bin];
    prefix = prefix << width | uint32_t(bin);
    fixed += width;
  }
  return prefix;
}

} // namespace detail

/// A token by `how` (temperature, top_k, top_p, seed) from `count` logits, behind `position`
/// tokens.
template <class Logit, class Sampling>
int draw_token(const Logit *logits, long count, const Sampling &how, long position) {
  auto logit = [&](long i) { return float(load_element(logits + i)); };
  long best = 0;
  uint32_t top = detail::ordered_bits(logit(0));
  for (long i = 1; i < count; ++i)
    if (const uint32_t key = detail::ordered_bits(logit(i)); key > top) {
      top = key;
      best = i;
    }
  const double temperature = double(how.temperature);
  if (!(temperature > 0))
    return int(best);
  const float largest = logit(best);
  uint32_t least = 0;
  if (how.top_k > 0 && how.top_k < count)
    least = detail::threshold(logits, count, uint64_t(how.top_k),
                              [](long, uint32_t) { return uint64_t(1); });
  if (how.top_p < 1) {
    auto mass = [&](long i, uint32_t key) {
      return detail::token_mass(logit(i), key, least, largest, temperature);
    };
    uint64_t all = 0;
    for (long i = 0; i < count; ++i)
      all += mass(i, detail::ordered_bits(logit(i)));
    const uint32_t likely =
        detail::threshold(logits, count, detail::wanted_mass(all, how.top_p), mass);
    least = likely > least ? likely : least;
  }
  const uint32_t seed = uint32_t(how.seed);
  double highest =
      double(largest) / temperature + detail::token_noise(seed, uint64_t(position), uint64_t(best));
  for (long i = 0; i < count; ++i) {
    const double x = double(logit(i)) / temperature;
    if (detail::ordered_bits(logit(i)) < least || !(x + detail::most_noise > highest))
      continue;
    const double score = x + detail::token_noise(seed, uint64_t(position), uint64_t(i));
    if (score > highest || (score == highest && i < best)) {
      highest = score;
      best = i;
    }
  }
  return int(best);
}

} // namespace tenon

#endif
