// Implements the proofs that 32 bits suffice.
#include "passes/NarrowRescale.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace tenon {
namespace {

/// Sums stay so far below 2^31 that a zero point can be added to them as well.
constexpr int64_t kMostSum = (int64_t(1) << 31) - (int64_t(1) << 28);
/// Combinations of values to try for one channel, and for all of them.
constexpr int64_t kMostTrials = 1 << 17, kMostTrialsInAll = 1 << 24;

int64_t magnitude(const Range &r) { return std::max(std::abs(r.low), std::abs(r.high)); }

int64_t roundShift(int64_t a, int64_t count) {
  if (count == 0)
    return a;
  const int64_t down = a >> count, rest = a - (down << count), half = int64_t(1) << (count - 1);
  return down + (rest > half || (rest == half && (down & 1)));
}

/// How many combinations of values a channel has; more than kMostTrials: too many.
int64_t trials(const ScaledSum &sum, size_t c) {
  int64_t n = 1;
  for (size_t t = 0; t < sum.terms.size() && n <= kMostTrials; ++t) {
    const Range &r = sum.range(t, c);
    const int64_t values = r.high - r.low + 1;
    n = values > kMostTrials ? kMostTrials + 1 : n * values;
  }
  return n;
}

/// The products of a term's values, whole and their upper halves.
struct Products {
  std::vector<int64_t> whole, upper;
};
Products productsOf(const ScaledSum &sum, size_t term, size_t c, int64_t before) {
  Products p;
  const Range &r = sum.range(term, c);
  const int64_t m = sum.fixed.multiplier(term, c);
  for (int64_t n = r.low; n <= r.high; ++n) {
    p.whole.push_back(n * m);
    p.upper.push_back((n * (int64_t(1) << before) * m) >> 32);
  }
  return p;
}

/// The numbers that `half` may be, so that all combinations of values give the right result; low
/// above high: there is none.
Range halvesByTrial(const ScaledSum &sum, size_t c, int64_t before, int64_t after) {
  std::vector<Products> terms;
  for (size_t t = 0; t < sum.terms.size(); ++t)
    terms.push_back(productsOf(sum, t, c, before));
  const int64_t shift = sum.fixed.shift(c), addend = sum.addendAt(c);
  Range half{-kMostSum, kMostSum};
  std::vector<size_t> at(terms.size(), 0);
  for (;;) {
    int64_t whole = addend, upper = 0;
    for (size_t t = 0; t < terms.size(); ++t) {
      whole += terms[t].whole[at[t]];
      upper += terms[t].upper[at[t]];
    }
    const int64_t y = std::min(std::max(roundShift(whole, shift), sum.low),
                               sum.high); // upper + half ≥ y · 2^after
    if (y > sum.low)
      half.low = std::max(half.low, y * (int64_t(1) << after) - upper);
    if (y < sum.high)
      half.high = std::min(half.high, (y + 1) * (int64_t(1) << after) - 1 - upper);
    size_t t = 0;
    while (t < at.size() && ++at[t] == terms[t].whole.size())
      at[t++] = 0;
    if (t == at.size())
      return half;
  }
}

/// Whether a product of the one term may lie halfway between two results: only if 2^(s − 1) divides
/// it, and n has at most log2 of its bound factors of 2.
bool mayTie(const ScaledSum &sum, size_t c) {
  const int64_t m = sum.fixed.multiplier(0, c), bound = magnitude(sum.range(0, c));
  return m != 0 && bound != 0 &&
         int64_t(llvm::Log2_64(uint64_t(bound))) + int64_t(llvm::countTrailingZeros(uint64_t(m))) >=
             sum.fixed.shift(c) - 1;
}

/// The addition to channel c; None when there is none.
llvm::Optional<int64_t> halfOf(const ScaledSum &sum, size_t c, int64_t before, int64_t after) {
  int64_t upper = 0;
  for (size_t t = 0; t < sum.terms.size(); ++t) {
    const int64_t n = magnitude(sum.range(t, c));
    if (n > int64_t(0x7fffffff) >> before)
      return llvm::None;
    upper += ((n << before) * std::abs(sum.fixed.multiplier(t, c)) >> 32) + 1;
  }
  int64_t half = int64_t(1) << (after - 1);
  if (sum.terms.size() != 1 || sum.addendAt(c) != 0 || mayTie(sum, c)) {
    if (trials(sum, c) > kMostTrials)
      return llvm::None;
    const Range possible = halvesByTrial(sum, c, before, after);
    if (possible.low > possible.high)
      return llvm::None;
    half = std::min(std::max(half, possible.low), possible.high);
  }
  return upper + std::abs(half) <= kMostSum ? half : llvm::Optional<int64_t>();
}

llvm::Optional<HighProducts> tryBefore(const ScaledSum &sum, int64_t before) {
  HighProducts p;
  p.before = before;
  for (int64_t s : sum.fixed.shifts) {
    p.after.push_back(s + before - 32);
    if (p.after.back() < 1 || p.after.back() > 31)
      return llvm::None;
  }
  for (size_t c = 0; c < sum.channels(); ++c) {
    auto half = halfOf(sum, c, before, p.after[p.after.size() == 1 ? 0 : c]);
    if (!half)
      return llvm::None;
    p.half.push_back(*half);
  }
  return p;
}

} // namespace

size_t ScaledSum::channels() const {
  size_t n = std::max(fixed.shifts.size(), addend.size());
  for (const auto &m : fixed.multipliers)
    n = std::max(n, m.size());
  for (const ChannelRanges &r : terms)
    n = std::max(n, r.size());
  return n;
}

llvm::Optional<HighProducts> toHighProducts(const ScaledSum &sum) {
  int64_t most = 31, inAll = 0;
  for (size_t c = 0; c < sum.channels(); ++c) {
    for (size_t t = 0; t < sum.terms.size(); ++t)
      if (const int64_t n = magnitude(sum.range(t, c)))
        most = std::min(most, 30 - int64_t(llvm::Log2_64(uint64_t(n))));
    inAll += trials(sum, c);
  }
  const int64_t least = std::max<int64_t>(
      0, 33 - *std::min_element(sum.fixed.shifts.begin(), sum.fixed.shifts.end()));
  const bool one = sum.terms.size() == 1 && sum.addend.empty();
  if (most < least || (!one && inAll > kMostTrialsInAll))
    return llvm::None;
  // One term loses nothing whatever comes before; several keep as many bits as there is room for.
  if (one)
    return tryBefore(sum, least);
  for (int64_t before = most; before >= std::max(least, most - 2); --before)
    if (auto p = tryBefore(sum, before))
      return p;
  return llvm::None;
}

llvm::Optional<ShortProducts> toShortProducts(const ScaledSum &sum) {
  int64_t zeros = *std::min_element(sum.fixed.shifts.begin(), sum.fixed.shifts.end());
  auto divisible = [&](int64_t v) {
    if (v != 0)
      zeros = std::min(zeros, int64_t(llvm::countTrailingZeros(uint64_t(v))));
  };
  for (const auto &list : sum.fixed.multipliers)
    llvm::for_each(list, divisible);
  llvm::for_each(sum.addend, divisible);

  ShortProducts p{sum.fixed, {sum.addend.begin(), sum.addend.end()}};
  for (auto &list : p.fixed.multipliers)
    for (int64_t &m : list)
      m >>= zeros;
  for (int64_t &a : p.addend)
    a >>= zeros;
  for (int64_t &s : p.fixed.shifts)
    s -= zeros;
  for (size_t c = 0; c < sum.channels(); ++c) {
    if (p.fixed.shift(c) > 30)
      return llvm::None;
    int64_t most = std::abs(sum.addendAt(c) >> zeros);
    for (size_t t = 0; t < sum.terms.size(); ++t)
      most += magnitude(sum.range(t, c)) * std::abs(p.fixed.multiplier(t, c));
    if (most > kMostSum)
      return llvm::None;
  }
  return p;
}

} // namespace tenon
