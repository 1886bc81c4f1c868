// Implements the choice of ranges. Methods other than min-max look for a share of the whole range:
// values beyond it saturate, those within get finer steps.
#include "passes/quantize/RangeMethods.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

using Ends = std::pair<double, double>;

/// The share of values that may saturate by percentile, at each end.
constexpr double kTail = 5e-5;

Ends minMax(const ValueStatistics &s) { return {s.low, s.high}; }

Ends percentile(const ValueStatistics &s) {
  const Histogram &h = s.histogram;
  double total = 0;
  for (double n : h.counts)
    total += n;
  Ends ends{s.low, s.high};
  double seen = 0;
  for (int i = 0; i < int(h.counts.size()) && seen + h.counts[size_t(i)] <= total * kTail; ++i) {
    seen += h.counts[size_t(i)];
    ends.first = h.low + (i + 1) * h.width();
  }
  seen = 0;
  for (int i = int(h.counts.size()) - 1; i >= 0 && seen + h.counts[size_t(i)] <= total * kTail;
       --i) {
    seen += h.counts[size_t(i)];
    ends.second = h.low + i * h.width();
  }
  return {std::min(ends.first, 0.0), std::max(ends.second, 0.0)};
}

/// The range, shrunk by 0 to 70 %, of the least loss.
template <class Loss> Ends leastLoss(const ValueStatistics &s, Loss loss) {
  Ends best{s.low, s.high};
  double least = std::numeric_limits<double>::infinity();
  for (int percent = 100; percent >= 30; --percent) {
    const Ends ends{s.low * percent / 100, s.high * percent / 100};
    if (const double v = loss(s.histogram, ends); v < least) {
      least = v;
      best = ends;
    }
  }
  return best;
}

double squaredError(const Histogram &h, Ends ends) {
  const ByteScale b = byteScale(ends);
  double sum = 0;
  for (int i = 0; i < int(h.counts.size()); ++i) {
    if (h.counts[size_t(i)] == 0)
      continue;
    const double x = h.middle(i);
    const double q = std::clamp(std::nearbyint(x / double(b.scale)) + double(b.zero), -128., 127.);
    const double error = (q - double(b.zero)) * double(b.scale) - x;
    sum += h.counts[size_t(i)] * error * error;
  }
  return sum;
}

/// Kullback-Leibler divergence of the distribution in 256 steps from the one in all bins, where
/// what lies outside counts at the ends.
double divergence(const Histogram &h, Ends ends) {
  constexpr int steps = 256, bins = Histogram::kBins;
  if (h.counts.empty() || !(h.width() > 0))
    return 0;
  const int first = std::clamp(int((ends.first - h.low) / h.width()), 0, bins - 1);
  const int last = std::clamp(int(std::ceil((ends.second - h.low) / h.width())), first + 1, bins);
  std::vector<double> p(h.counts.begin() + first, h.counts.begin() + last), q(p.size(), 0);
  const std::vector<double> inside = p;
  for (int i = 0; i < bins; ++i)
    if (i < first || i >= last)
      (i < first ? p.front() : p.back()) += h.counts[size_t(i)];
  const double perStep = double(p.size()) / steps;
  for (int step = 0; step < steps; ++step) {
    const auto begin = size_t(step * perStep),
               end = std::min(p.size(), std::max(begin + 1, size_t((step + 1) * perStep)));
    double sum = 0, used = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += inside[i];
      used += inside[i] != 0;
    }
    for (size_t i = begin; i < end; ++i)
      if (inside[i] != 0)
        q[i] = sum / used;
  }
  double sumP = 0, sumQ = 0, result = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    sumP += p[i];
    sumQ += q[i];
  }
  if (sumP == 0 || sumQ == 0)
    return std::numeric_limits<double>::infinity();
  constexpr double least = 1e-9; // a bin that saturated values alone fill
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] != 0)
      result += p[i] / sumP * std::log(p[i] / sumP / std::max(q[i] / sumQ, least));
  return result;
}

Ends entropy(const ValueStatistics &s) { return leastLoss(s, divergence); }
Ends meanSquare(const ValueStatistics &s) { return leastLoss(s, squaredError); }

const RangeMethod kMethods[] = {
    {"min-max", "from the smallest value seen to the largest", minMax},
    {"percentile", "one value in 20,000 may saturate at each end", percentile},
    {"entropy", "least divergence of the quantised distribution (Kullback-Leibler)", entropy},
    {"mse", "least mean square error", meanSquare},
};

} // namespace

llvm::ArrayRef<RangeMethod> rangeMethods() { return kMethods; }

const RangeMethod *findRangeMethod(llvm::StringRef name) {
  for (const RangeMethod &m : kMethods)
    if (m.name == name)
      return &m;
  return nullptr;
}

ByteScale byteScale(Ends range) {
  ByteScale b;
  const double width = range.second - range.first;
  if (width > 0 && std::isfinite(width))
    b.scale = float(std::max(width / 255, 1e-30));
  b.zero = int64_t(std::clamp(std::nearbyint(-128 - range.first / double(b.scale)), -128., 127.));
  return b;
}

} // namespace tenon
