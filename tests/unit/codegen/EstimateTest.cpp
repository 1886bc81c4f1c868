// Compares the estimates of contractions with measurements: every layer of the benchmark's networks
// as bench/gemm.cu timed its schedules on one card (bench/gemm/schedules_*.csv). What the estimates
// choose must be close to the fastest.
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

/// The gates of squeeze-and-excitation as bench/cuda/squeeze_excite/h100.csv has them.
std::string gatesText(llvm::ArrayRef<int64_t> numbers) {
  const std::string batch = std::to_string(numbers[0]), channels = std::to_string(numbers[1]),
                    hidden = std::to_string(numbers[2]), side = std::to_string(numbers[3]),
                    means = "tensor<" + batch + "x" + channels + "xf16>",
                    pooled = "tensor<" + batch + "x" + channels + "x1x1xf16>",
                    units = "tensor<" + batch + "x" + hidden + "x1x1xf16>",
                    w1 = hidden + "x" + channels + "x1x1xf16",
                    w2 = channels + "x" + hidden + "x1x1xf16";
  const std::string x =
      "tensor<" + batch + "x" + channels + "x" + side + "x" + side + "xf16, nhwc>";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "module \"gates\" stage=imported {\n  graph @main (%x \"x\": " << x << ") -> (\"z\") {\n"
     << "    %s = reduce %x {axes = [2, 3], init = floats[0.0]} (%0: f16, %1: f16) {\n"
     << "      %2 = add %0, %1 : f16\n      yield %2\n    } : " << means << "\n"
     << "    %r = reshape %s {shape = dims[" << batch << ", " << channels << ", 1, 1]} : " << pooled
     << "\n    %v = constant {value = splat<" << w1 << ": 0.5>} : tensor<" << w1 << ">\n"
     << "    %w = constant {value = splat<" << w2 << ": 0.5>} : tensor<" << w2 << ">\n"
     << "    %h = conv %r, %v : " << units << "\n    %a = map %h (%3: f16) {\n"
     << "      %4 = relu %3 : f16\n      yield %4\n    } : " << units << "\n"
     << "    %z = conv %a, %w : " << pooled << "\n    return %z\n  }\n}\n";
  return os.str();
}

/// A first layer and windows of what it makes as bench/cuda/conv_pool/h100.csv has them.
std::string pooledText(llvm::ArrayRef<int64_t> numbers) {
  auto at = [&](unsigned i) { return std::to_string(numbers[i]); };
  auto image = [&](const std::string &channels, int64_t side) {
    const std::string s = std::to_string(side);
    return "tensor<" + at(0) + "x" + channels + "x" + s + "x" + s + "xf16>";
  };
  auto pads = [](const std::string &p) { return "pads = [" + p + ", " + p + ", " + p + ", " + p; };
  auto pair = [](const std::string &n) { return "[" + n + ", " + n + "]"; };
  const int64_t side = Layer::out(numbers[2], numbers[4], numbers[5], numbers[6], 1),
                windows = Layer::out(side, numbers[7], numbers[8], numbers[9], 1);
  const std::string x = image(at(1), numbers[2]), y = image(at(3), side),
                    w = at(3) + "x" + at(1) + "x" + at(4) + "x" + at(4) + "xf16";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "module \"pooled\" stage=imported {\n  graph @main (%x \"x\": " << x << ") -> (\"z\") {\n"
     << "    %w = constant {value = splat<" << w << ": 0.5>} : tensor<" << w << ">\n"
     << "    %b = constant {value = splat<" << at(3) << "xf16: 0.5>} : tensor<" << at(3)
     << "xf16>\n"
     << "    %c = conv %x, %w {strides = " << pair(at(5)) << ", " << pads(at(6)) << "]} : " << y
     << "\n    %r = map %c, %b[1] (%0: f16, %1: f16) {\n      %2 = add %0, %1 : f16\n"
     << "      %3 = relu %2 : f16\n      yield %3\n    } : " << y << "\n"
     << "    %z = pool %r {kind = max, kernel = " << pair(at(7)) << ", strides = " << pair(at(8))
     << ", " << pads(at(9)) << "]} : " << image(at(3), windows) << "\n    return %z\n  }\n}\n";
  return os.str();
}

/// A 1x1 convolution and a depthwise one as bench/cuda/expand_depthwise/h100.csv has them.
std::string expandedText(llvm::ArrayRef<int64_t> numbers) {
  auto at = [&](unsigned i) { return std::to_string(numbers[i]); };
  auto image = [&](const std::string &channels, int64_t side) {
    const std::string s = std::to_string(side);
    return "tensor<" + at(0) + "x" + channels + "x" + s + "x" + s + "xf16, nhwc>";
  };
  auto relu = [](llvm::StringRef from, llvm::StringRef to, const std::string &type) {
    return ("    %" + to + " = map %" + from + ", %b[1] (%" + to + "0: f16, %" + to +
            "1: f16) {\n      %" + to + "2 = add %" + to + "0, %" + to + "1 : f16\n      %" + to +
            "3 = relu %" + to + "2 : f16\n      yield %" + to + "3\n    } : " + type + "\n")
        .str();
  };
  const int64_t pad = numbers[4] / 2, side = Layer::out(numbers[1], numbers[4], numbers[5], pad, 1);
  const std::string x = image(at(2), numbers[1]), made = image(at(3), numbers[1]),
                    y = image(at(3), side), p = std::to_string(pad),
                    w = at(3) + "x" + at(2) + "x1x1xf16",
                    f = at(3) + "x1x" + at(4) + "x" + at(4) + "xf16";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "module \"expanded\" stage=imported {\n  graph @main (%x \"x\": " << x << ") -> (\"z\") {\n"
     << "    %w = constant {value = splat<" << w << ": 0.5>} : tensor<" << w << ">\n"
     << "    %f = constant {value = splat<" << f << ": 0.5>} : tensor<" << f << ">\n"
     << "    %b = constant {value = splat<" << at(3) << "xf16: 0.5>} : tensor<" << at(3)
     << "xf16>\n    %e = conv %x, %w : " << made << "\n"
     << relu("e", "h", made) << "    %d = conv %h, %f {pads = [" << p << ", " << p << ", " << p
     << ", " << p << "], strides = [" << at(5) << ", " << at(5) << "], groups = " << at(3)
     << "} : " << y << "\n"
     << relu("d", "z", y) << "    return %z\n  }\n}\n";
  return os.str();
}

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
  const std::string teams = s.get("teams").getValueOr(1) > 1 ? " t" + at("teams") : "";
  if (s.tactic == "contract_mma_sm80")
    return "mma " + tiles + " p" + at("warp_m") + "x" + at("warp_n") + " st" + at("stages") +
           teams + " sk" + at("splits");
  if (s.tactic == "contract_simt")
    return "simt " + tiles + " p" + at("thread_m") + "x" + at("thread_n") + " st" + at("stages") +
           " t" + at("teams") + " sk" + at("splits");
  if (s.tactic == "conv_patch_simt")
    return "patch " + at("tile_h") + "x" + at("tile_w") + " g" + at("tile_groups") + " n" +
           at("tile_n") + " p" + at("thread_m") + "x" + at("thread_n") + " l" + at("lanes_n") +
           " w" + at("warps");
  if (s.tactic == "depthwise")
    return "depthwise v" + at("vector") + " c" + at("columns");
  if (s.tactic == "squeeze_excite")
    return "gates t" + at("threads") + " c" + at("channel_parts") + " p" + at("pixel_parts") +
           (s.get("staged").getValueOr(0) ? "" : " unstaged");
  if (s.tactic == "expand_depthwise_sm80")
    return "expand " + at("tile_h") + "x" + at("tile_w") + " c" + at("chunk") + " p" + at("parts") +
           " w" + at("warps") + (s.get("widened").getValueOr(0) ? " widened" : "");
  if (s.tactic == "conv_pool_sm90a")
    return "pool h" + at("tile_h") + " c" + at("consumers");
  if (s.tactic == "depthwise_mma_sm80")
    return "depthwise mma";
  if (s.tactic == "conv_winograd")
    return "winograd " + at("tile_t") + "x" + at("tile_n") + "x" + at("tile_c") + " w" +
           at("warps") + rest;
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

TEST(Estimates, OfMma) {
  expectFastAndRight(means(TENON_MEASURED_MMA_SCHEDULES, "f16", "contract_mma_sm80", "mma ", 30),
                     1.06);
}
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
TEST(Estimates, OfSimt) {
  expectFastAndRight(means(TENON_MEASURED_FP32_SCHEDULES, "f32", "contract_simt", "simt ", 80),
                     1.08);
}
TEST(Estimates, OfWinograd) {
  expectFastAndRight(means(TENON_MEASURED_FP32_SCHEDULES, "f32", "conv_winograd", "winograd ", 25),
                     1.05);
}
TEST(Estimates, OfConvPatchSimt) {
  expectFastAndRight(means(TENON_MEASURED_CONV_PATCH_SIMT, "f32", "conv_patch_simt", "patch ", 19),
                     1.13);
}
/// In fp32 by whatever kernel.
TEST(Estimates, OfFewChannels) {
  expectFastAndRight(means(TENON_MEASURED_CONV_PATCH_SIMT, "f32", "", "", 19), 1.12);
}
/// Both of CUDA cores and of Tensor Cores.
TEST(Estimates, OfDepthwise) {
  expectFastAndRight(means(TENON_MEASURED_DEPTHWISE, "f16", "", "depthwise ", 29), 1.08);
}
TEST(Estimates, OfSqueezeExcite) {
  auto choose = [](llvm::ArrayRef<int64_t> numbers) {
    return chosen(gatesText(numbers), "fuse,isolate", "squeeze_excite");
  };
  expectFastAndRight(means(TENON_MEASURED_SQUEEZE_EXCITE, "gates ", 38, choose), 1.05);
}
TEST(Estimates, OfConvPool) {
  auto choose = [](llvm::ArrayRef<int64_t> numbers) {
    return chosen(pooledText(numbers), "assign-layout,fuse,isolate", "conv_pool_sm90a");
  };
  expectFastAndRight(means(TENON_MEASURED_CONV_POOL, "pool ", 17, choose), 1.02);
}

Chosen chooseExpanded(llvm::ArrayRef<int64_t> numbers, bool chains) {
  return chosen(expandedText(numbers), "fuse,isolate", "expand_depthwise_sm80", chains);
}
TEST(Estimates, OfExpandDepthwise) {
  auto choose = [](llvm::ArrayRef<int64_t> numbers) { return chooseExpanded(numbers, true); };
  expectFastAndRight(means(TENON_MEASURED_EXPAND_DEPTHWISE, "expand ", 25, choose), 1.08);
}
/// One kernel where that is estimated to be faster, else those of its parts, whose times are listed
/// as `apart`: how much is lost to the better of the two.
struct Decisions {
  double loss;
  int together, count;
};
Decisions decide(const char *path, llvm::StringRef apart,
                 llvm::function_ref<Chosen(llvm::ArrayRef<int64_t>)> choose) {
  Decisions d{};
  for (const Measured &m : measured(path)) {
    const auto parts = m.microseconds.find(apart.str());
    if (parts == m.microseconds.end())
      continue;
    double best = parts->second;
    for (const auto &[schedule, us] : m.microseconds)
      best = std::min(best, us);
    const Chosen choice = choose(m.numbers);
    const auto time = m.microseconds.find(choice.name);
    d.together += !choice.name.empty();
    d.loss += std::log((choice.name.empty()            ? parts->second
                        : time == m.microseconds.end() ? kListed * best
                                                       : time->second) /
                       best);
    ++d.count;
  }
  d.loss = std::exp(d.loss / d.count);
  return d;
}
TEST(Estimates, OfExpandDepthwiseOrTwoKernels) {
  const Decisions d =
      decide(TENON_MEASURED_EXPAND_DEPTHWISE, "two kernels",
             [](llvm::ArrayRef<int64_t> numbers) { return chooseExpanded(numbers, false); });
  EXPECT_EQ(d.count, 54);
  EXPECT_GT(d.together, 25);
  EXPECT_LT(d.together, 40);
  EXPECT_LT(d.loss, 1.06);
}
TEST(Estimates, OfConvPoolOrTwoKernels) {
  const Decisions d =
      decide(TENON_MEASURED_CONV_POOL, "two kernels", [](llvm::ArrayRef<int64_t> numbers) {
        return chosen(pooledText(numbers), "assign-layout,fuse,isolate", "conv_pool_sm90a", false);
      });
  EXPECT_EQ(d.count, 18);
  EXPECT_LT(d.loss, 1.06);
}
TEST(Estimates, OfSqueezeExciteOrThreeKernels) {
  const Decisions d =
      decide(TENON_MEASURED_SQUEEZE_EXCITE, "three kernels", [](llvm::ArrayRef<int64_t> numbers) {
        return chosen(gatesText(numbers), "fuse,isolate", "squeeze_excite", false);
      });
  EXPECT_EQ(d.count, 20);
  EXPECT_GT(d.together, 8);
  EXPECT_LT(d.together, 18);
  EXPECT_LT(d.loss, 1.06);
}

} // namespace
