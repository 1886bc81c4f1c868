// Compares the estimates of products by warpgroups with measurements, until scripts/fit-costs makes
// their constants, too: every layer of the benchmark's networks as bench/gemm.cu timed its
// schedules on one card. What the estimates choose must be close to the fastest.
#include "codegen/Codegen.h"
#include "codegen/core/TargetFamily.h"
#include "ir/Context.h"
#include "ir/Text.h"
#include "passes/PassManager.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace tenon;

namespace {

/// A shape as bench/gemm/layers.csv has it, at a batch.
struct Layer {
  int64_t batch, channels, height, width, filters, kernelH, kernelW, strideH, strideW, padH, padW,
      dilationH, dilationW, groups;

  explicit Layer(llvm::ArrayRef<int64_t> n)
      : batch(n[0]), channels(n[1]), height(n[2]), width(n[3]), filters(n[4]), kernelH(n[5]),
        kernelW(n[6]), strideH(n[7]), strideW(n[8]), padH(n[9]), padW(n[10]), dilationH(n[11]),
        dilationW(n[12]), groups(n[13]) {}

  bool isProduct() const {
    return kernelH * kernelW * strideH * strideW * groups == 1 && padH + padW == 0;
  }
  static int64_t out(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  }
  /// The layer between two maps, so that its tensors lie in the arena. `precision`: of the
  /// attribute; empty: none.
  std::string text(const std::string &element, const std::string &precision) const {
    auto list = [](llvm::ArrayRef<int64_t> numbers, const char *separator) {
      return llvm::join(llvm::map_range(numbers, [](int64_t n) { return std::to_string(n); }),
                        separator);
    };
    auto image = [&](int64_t c, int64_t h, int64_t w) {
      return "tensor<" + list({batch, c, h, w}, "x") + "x" + element + ", nhwc>";
    };
    const std::string x = image(channels, height, width),
                      y = image(filters, out(height, kernelH, strideH, padH, dilationH),
                                out(width, kernelW, strideW, padW, dilationW)),
                      w = list({filters, channels / groups, kernelH, kernelW}, "x") + "x" + element;
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "module \"layer\" stage=imported {\n  graph @main (%x \"x\": " << x << ") -> (\"z\") {\n"
       << "    %a = map %x (%0: " << element << ") {\n      %1 = tanh %0 : " << element
       << "\n      yield %1\n    } : " << x << "\n    %w = constant {value = splat<" << w
       << ": 0.5>} : tensor<" << w << ">\n"
       << "    %y = conv %a, %w {strides = [" << list({strideH, strideW}, ", ") << "], pads = ["
       << list({padH, padW, padH, padW}, ", ") << "], dilations = ["
       << list({dilationH, dilationW}, ", ") << "], groups = " << groups
       << (precision.empty() ? "" : ", precision = " + precision) << "} : " << y
       << "\n    %z = map %y (%2: " << element << ") {\n      %3 = tanh %2 : " << element
       << "\n      yield %3\n    } : " << y << "\n    return %z\n  }\n}\n";
    return os.str();
  }
};

constexpr llvm::StringLiteral kHalo = " halo";

/// A schedule as bench/gemm.cu calls it; empty for tactics that it does not time.
std::string nameInBench(const Schedule &s) {
  auto at = [&](llvm::StringRef member) { return std::to_string(s.get(member).getValueOr(0)); };
  const std::string tiles = at("tile_m") + "x" + at("tile_n") + "x" + at("tile_k"),
                    rest = " st" + at("stages") + " sk" + at("splits");
  if (s.tactic == "contract_halo_sm90a")
    return "wgmma " + tiles + " c" + at("consumers") + kHalo.str();
  if (s.tactic == "contract_wgmma_sm90a" || s.tactic == "contract_tf32x3_sm90a")
    return "wgmma " + tiles + " c" + at("consumers") + rest;
  if (s.tactic == "contract_cluster_sm90a" || s.tactic == "contract_cluster_tf32x3_sm90a")
    return "wgmma " + tiles + " c" + at("consumers") + rest + " cl";
  return "";
}

/// The schedule that the estimates choose among those of some tactics, divided by commas (empty: of
/// any that has a name), as bench/gemm.cu calls it, and its microseconds by the clock.
struct Chosen {
  std::string name;
  double microseconds = 0;
};
/// `chains`: whether all are taken, not only those that are estimated to be faster.
Chosen chosen(const std::string &text, llvm::StringRef passNames, llvm::StringRef tactics,
              bool chains = true) {
  llvm::SmallVector<llvm::StringRef, 4> asked;
  tactics.split(asked, ',', -1, false);
  Context context;
  Diagnostics diagnostics;
  auto buffer = llvm::MemoryBuffer::getMemBuffer(text, "layer.tn");
  auto module = parseModule(context, *buffer, "", diagnostics);
  if (!module) {
    ADD_FAILURE() << text;
    diagnostics.print(llvm::errs());
    return {};
  }
  auto target = parseTarget("cuda:sm_90a", diagnostics);
  PassContext passes(diagnostics);
  passes.target = traitsOf(*target);
  Pipeline pipeline;
  if (!parsePipeline(passNames, pipeline, diagnostics) ||
      !PassManager(passes).run(*module, pipeline))
    return {"no groups"};
  module->stage = Stage::Optimized;
  Chosen choice;
  ScheduleOptions options;
  if (chains)
    options.takeChain = [](const ChainOffer &) { return true; };
  options.pick = [&](const Operation &, const std::string &, llvm::ArrayRef<Candidate> candidates) {
    for (const Candidate &c : candidates)
      if (choice.name.empty() && (asked.empty() || llvm::is_contained(asked, c.tactic().info.id)))
        choice = {nameInBench(c.schedule()), c.price.microseconds};
    return size_t(0);
  };
  if (!scheduleModule(*module, *target, options, diagnostics))
    return {"not scheduled"};
  return choice;
}

struct Measured {
  llvm::SmallVector<int64_t, 14> numbers;
  std::map<std::string, double> microseconds; // of each kernel those within kListed times its best,
                                              // or more
};
constexpr double kListed = 1.5;

std::vector<Measured> measured(const char *path) {
  std::vector<Measured> all;
  auto file = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(bool(file)) << path;
  llvm::SmallVector<llvm::StringRef, 0> lines;
  if (file)
    (*file)->getBuffer().split(lines, '\n', -1, false);
  for (llvm::StringRef line : lines) {
    llvm::SmallVector<llvm::StringRef, 16> fields;
    line.split(fields, ';');
    if (line.startswith("#") || line.startswith("batch"))
      continue;
    if (line.startswith("  ")) { // a schedule of the layer before
      double us = 0;
      fields[1].getAsDouble(us);
      all.back().microseconds[fields[0].trim().str()] = us;
      continue;
    }
    Measured &m = all.emplace_back();
    for (llvm::StringRef field : fields)
      field.getAsInteger(10, m.numbers.emplace_back());
  }
  return all;
}

/// Geometric means over all layers: of the choice's time over the fastest, and of its estimate over
/// its time.
struct Means {
  double loss, estimate;
};
/// A choice that is not listed counts as a loss of kListed; tiles with their halo where a table has
/// none of them do not count.
/// `choose` takes the numbers of a row.
Means means(const char *path, llvm::StringRef kernel, int least,
            llvm::function_ref<Chosen(llvm::ArrayRef<int64_t>)> choose) {
  double loss = 0, estimate = 0;
  int listed = 0;
  int count = 0;
  for (const Measured &m : measured(path)) {
    double best = 1e30;
    for (const auto &[schedule, us] : m.microseconds)
      if (llvm::StringRef(schedule).startswith(kernel))
        best = std::min(best, us);
    const Chosen choice = best < 1e30 ? choose(m.numbers) : Chosen();
    const std::string &name = choice.name;
    if (name.empty()) // not timed, or refused
      continue;
    // The benchmark times products in whole steps of 64 channels only, however few they have.
    if (kernel == "wgmma " && Layer(m.numbers).isProduct() && Layer(m.numbers).channels <= 32)
      continue;
    const auto time = m.microseconds.find(name);
    const bool hasHalos = llvm::any_of(
        m.microseconds, [](const auto &t) { return llvm::StringRef(t.first).endswith(kHalo); });
    if (time == m.microseconds.end() && !hasHalos && llvm::StringRef(name).endswith(kHalo))
      continue;
    loss += std::log(time == m.microseconds.end() ? kListed : time->second / best);
    ++count;
    if (time == m.microseconds.end())
      continue;
    estimate += std::log(choice.microseconds / time->second);
    ++listed;
  }
  EXPECT_GT(count, least);
  return {std::exp(loss / count), std::exp(estimate / listed)};
}
Means means(const char *path, const std::string &element, llvm::StringRef tactic,
            llvm::StringRef kernel, int least) {
  const std::string precision = tactic.contains("tf32x3") ? "tf32x3" : "";
  return means(path, kernel, least, [&](llvm::ArrayRef<int64_t> numbers) {
    return chosen(Layer(numbers).text(element, precision), "isolate", tactic);
  });
}
/// What is chosen must be close to the fastest, and estimates, which users are told, by the clock.
void expectFastAndRight(const Means &m, double mostLoss) {
  EXPECT_LT(m.loss, mostLoss);
  EXPECT_GT(m.estimate, 0.85);
  EXPECT_LT(m.estimate, 1.15);
}

constexpr llvm::StringLiteral kWarpgroups =
    "contract_wgmma_sm90a,contract_halo_sm90a,contract_cluster_sm90a";

TEST(Estimates, OfWgmma) {
  expectFastAndRight(means(TENON_MEASURED_SCHEDULES, "f16", kWarpgroups, "wgmma ", 100), 1.05);
}
TEST(Estimates, OfHalos) {
  expectFastAndRight(means(TENON_MEASURED_HALO_SCHEDULES, "f16", kWarpgroups, "wgmma ", 30), 1.08);
}
TEST(Estimates, OfTf32x3) {
  expectFastAndRight(means(TENON_MEASURED_TF32X3_SCHEDULES, "f32",
                           "contract_tf32x3_sm90a,contract_cluster_tf32x3_sm90a", "wgmma ", 100),
                     1.05);
}
} // namespace
