// Implements the observation of values by the interpreter.
#include "passes/quantize/Statistics.h"

#include "ir/Interpreter.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

/// Sums and magnitudes of a contraction's input along its channels, and how many values each has.
struct ChannelSums {
  int64_t axis = -1;
  std::vector<double> sums, most;
  double count = 0;
};

class Gatherer {
public:
  Gatherer(Graph &graph, llvm::ArrayRef<QuantizableLayer> layers)
      : graph_(graph), numbers_(graph), wanted_(numbers_.size()), sums_(numbers_.size()) {
    for (const QuantizableLayer &l : layers) {
      want(l.result);
      for (Value *v : l.inputs)
        want(v);
      if (l.isContraction()) {
        const int n = numbers_.of(l.anchor->operand(0));
        const auto rank = int64_t(l.anchor->operand(0)->type().rank());
        if (n >= 0)
          sums_[size_t(n)].axis = l.anchor->is(Op::Conv) ? 1 : rank - 1;
      }
    }
  }

  bool run(llvm::ArrayRef<Sample> samples, Statistics &out, const Progress &progress,
           Diagnostics &diagnostics) {
    out.assign(numbers_.size(), {});
    auto pass = [&](double from, void (Gatherer::*see)(ValueStatistics &, size_t, const Tensor &)) {
      auto observe = [&](Value *v, const Tensor &t) {
        const int n = numbers_.of(v);
        if (n >= 0 && t.element() == Element::F32)
          (this->*see)(out[size_t(n)], size_t(n), t);
      };
      for (size_t i = 0; i < samples.size(); ++i) {
        for (unsigned k = 0; k < graph_.body().numArguments(); ++k)
          observe(graph_.body().argument(k), samples[i][k]);
        InterpreterOptions options;
        options.observe = observe;
        std::vector<Tensor> outputs;
        if (!interpret(graph_, samples[i], outputs, diagnostics, options))
          return false;
        progress(from + 0.5 * double(i + 1) / double(samples.size()));
      }
      return true;
    };
    if (!pass(0, &Gatherer::seeExtremes))
      return false;
    for (size_t n = 0; n < out.size(); ++n) {
      out[n].histogram.low = out[n].low;
      out[n].histogram.high = out[n].high;
      if (wanted_[n])
        out[n].histogram.counts.assign(Histogram::kBins, 0);
    }
    if (!pass(0.5, &Gatherer::seeDistribution))
      return false;
    for (size_t n = 0; n < out.size(); ++n) {
      for (double sum : sums_[n].sums)
        out[n].channelMeans.push_back(sum / sums_[n].count);
      out[n].channelMagnitudes = sums_[n].most;
    }
    return true;
  }

private:
  void want(const Value *v) {
    if (const int n = numbers_.of(v); n >= 0)
      wanted_[size_t(n)] = true;
  }
  void seeExtremes(ValueStatistics &s, size_t n, const Tensor &t) {
    if (wanted_[n])
      for (float v : t.as<float>())
        if (std::isfinite(v)) {
          s.low = std::min(s.low, double(v));
          s.high = std::max(s.high, double(v));
        }
    ChannelSums &sums = sums_[n];
    if (sums.axis < 0 || t.size() == 0)
      return;
    const int64_t channels = t.shape()[size_t(sums.axis)];
    int64_t inner = 1;
    for (size_t d = size_t(sums.axis) + 1; d < t.rank(); ++d)
      inner *= t.shape()[d];
    sums.sums.resize(size_t(channels));
    sums.most.resize(size_t(channels));
    for (int64_t i = 0; i < t.size(); ++i) {
      const auto c = size_t(i / inner % channels);
      const auto v = double(t.as<float>()[size_t(i)]);
      sums.sums[c] += v;
      sums.most[c] = std::max(sums.most[c], std::fabs(v));
    }
    sums.count += double(t.size()) / double(channels);
  }
  void seeDistribution(ValueStatistics &s, size_t n, const Tensor &t) {
    const double width = s.histogram.width();
    if (!wanted_[n] || width == 0)
      return;
    for (float v : t.as<float>())
      if (std::isfinite(v) && v != 0) {
        const int bin = int((double(v) - s.histogram.low) / width);
        s.histogram.counts[size_t(std::clamp(bin, 0, Histogram::kBins - 1))] += 1;
      }
  }

  Graph &graph_;
  ValueNumbers numbers_;
  std::vector<bool> wanted_;
  std::vector<ChannelSums> sums_;
};

} // namespace

bool gatherStatistics(Graph &graph, llvm::ArrayRef<QuantizableLayer> layers,
                      llvm::ArrayRef<Sample> samples, Statistics &out, const Progress &progress,
                      Diagnostics &diagnostics) {
  return Gatherer(graph, layers).run(samples, out, progress, diagnostics);
}

} // namespace tenon
