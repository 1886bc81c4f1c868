// Tests of results that lie over an operand: each kernel runs with its result as close before the
// operand as codegen permits, and gives what it gives apart; one byte closer it does not, so that a
// distance that is too small would be seen. Then what the plan makes of them, and its check.
#include "codegen/memory/Overlap.h"
#include "codegen/Codegen.h"
#include "codegen/memory/PlanVerifier.h"
#include "cpu/conv_pairs.h"
#include "cpu/conv_quads.h"
#include "cpu/conv_shared.h"
#include "cpu/depthwise_pairs.h"
#include "ir/Context.h"
#include "ir/Text.h"
#include "passes/PassManager.h"

#include "../runtime/IntegerCases.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

/// A body that keeps the lower byte of sums, so that every byte of x counts.
struct low_byte {
  template <class L> i8<L> operator()(L, i32<L> acc) const { return cast<L, int8_t, int32_t>(acc); }
};

std::string imageType(int64_t c, int64_t h, int64_t w) {
  return "tensor<1x" + std::to_string(c) + "x" + std::to_string(h) + "x" + std::to_string(w) +
         "xi8, nhwc>";
}

/// `count` convolutions of the case after each other, the first of what a map makes of the input.
template <class Cfg> std::string textOf(bool depthwise, int count = 1) {
  const Cfg c{};
  const int64_t filters = depthwise ? c.channels : c.filters, perGroup = depthwise ? 1 : c.channels,
                pad = c.pad_top, stride = c.stride_h;
  const auto n = [](int64_t v) { return std::to_string(v); };
  const std::string x = imageType(c.channels, c.in_h, c.in_w),
                    y = imageType(filters, c.out_h, c.out_w),
                    w = n(filters) + "x" + n(perGroup) + "x" + n(c.kernel_h) + "x" + n(c.kernel_w) +
                        "xi8";
  std::string text = "module \"m\" stage=imported {\n  graph @main (%x \"x\": " + x +
                     ") -> (\"y\") {\n    %a0 = map %x (%p: i8) {\n      %q = add %p, %p : "
                     "i8\n      yield %q\n    } : " +
                     x + "\n";
  for (int i = 0; i < count; ++i) {
    const std::string k = n(i), next = n(i + 1);
    text += "    %w" + k + " = constant {value = splat<" + w + ": 100>} : tensor<" + w + ">\n";
    text += "    %s" + k + " = conv %a" + k + ", %w" + k + " {strides = [" + n(stride) + ", " +
            n(stride) + "], pads = [" + n(pad) + ", " + n(pad) + ", " + n(pad) + ", " + n(pad) +
            "], groups = " + n(depthwise ? c.channels : 1) +
            "} : " + std::string(y).replace(y.find("xi8"), 3, "xi32") + "\n";
    text += "    %a" + next + " = map %s" + k + " (%p" + k + ": i32) {\n      %q" + k +
            " = cast %p" + k + " {to = !i8} : i8\n      yield %q" + k + "\n    } : " + y + "\n";
  }
  // A map of f32 after them takes over nothing.
  text += "    %y = map %a" + n(count) +
          " (%r: i8) {\n      %t = cast %r {to = !f32} : f32\n      "
          "yield %t\n    } : " +
          std::string(y).replace(y.find("xi8"), 3, "xf32") + "\n    return %y\n  }\n}\n";
  return text;
}

struct Scheduled {
  Context context;
  Diagnostics diagnostics;
  std::unique_ptr<Module> module;
  Plan plan;

  Scheduled(const std::string &text, llvm::StringRef target, bool size = false,
            bool joined = false) {
    auto buffer = llvm::MemoryBuffer::getMemBuffer(text, "test.tn");
    module = parseModule(context, *buffer, "", diagnostics);
    PassContext passes(diagnostics);
    Pipeline pipeline;
    const auto parsed = parseTarget(target, diagnostics);
    ScheduleOptions options;
    options.shareCode = size;
    options.enabled = [&](llvm::ArrayRef<llvm::StringRef> names) {
      return joined || names.front() != kJoinedFilters;
    };
    const bool ok = module && parsed && parsePipeline(groupingPipeline(2), pipeline, diagnostics) &&
                    PassManager(passes).run(*module, pipeline) &&
                    scheduleModule(*module, *parsed, options, diagnostics);
    std::string messages;
    llvm::raw_string_ostream os(messages);
    diagnostics.print(os);
    EXPECT_TRUE(ok) << os.str() << text;
    if (ok)
      plan = planMemory(module->graph());
  }
  /// Of the first group that `tactic` runs.
  llvm::Optional<Overlap> overlap(llvm::StringRef tactic) {
    for (const Step &s : plan.steps)
      if (const Attribute *a = s.op->find("schedule"); a && a->get<Schedule>()->tactic == tactic)
        return overlapOf(*s.op);
    ADD_FAILURE() << "no " << tactic.str();
    return llvm::None;
  }
};

/// Runs `kernel(x, y)` with the result `distance` bytes before the operand; all of the result.
template <class Kernel>
std::vector<int8_t> runAt(int64_t distance, int64_t in, int64_t out, const Kernel &kernel) {
  std::vector<int8_t> memory(size_t(distance + std::max(in, out) + in + 16), 0);
  const auto x = randomBytes<int8_t>(size_t(in), 1);
  std::copy(x.begin(), x.end(), memory.begin() + distance);
  kernel(memory.data() + distance, memory.data());
  return {memory.begin(), memory.begin() + out};
}

/// `tight`: one byte less already harms; not so where a pixel is written while it is read, which
/// counts as if all of it were read at the end.
template <class Cfg, class Kernel>
void check(llvm::StringRef tactic, llvm::StringRef target, bool depthwise, const Kernel &kernel,
           bool tight = true) {
  const Cfg c{};
  const int64_t in = c.channels * c.in_h * c.in_w,
                out = (depthwise ? c.channels : c.filters) * c.out_h * c.out_w;
  Scheduled s(textOf<Cfg>(depthwise), target, tactic.endswith("_shared"), Cfg::joined != 0);
  const auto overlap = s.overlap(tactic);
  ASSERT_TRUE(overlap) << tactic.str();
  const auto apart = runAt(in + out, in, out, kernel);
  for (int k = 0; k < 3; ++k)
    EXPECT_EQ(runAt(overlap->bytes + k * overlap->step, in, out, kernel), apart)
        << tactic.str() << " at " << overlap->bytes << " + " << k << " * " << overlap->step;
  if (tight && overlap->bytes > 0) {
    EXPECT_NE(runAt(overlap->bytes - 1, in, out, kernel), apart)
        << tactic.str() << " at one byte less than " << overlap->bytes;
  }
  if (overlap->step > 1) {
    EXPECT_NE(runAt(overlap->bytes + 1, in, out, kernel), apart)
        << tactic.str() << " between steps";
  }
}

template <class Cfg> auto strides() {
  constexpr index_t C = decltype(Cfg::channels)::value, W = decltype(Cfg::in_w)::value;
  return extents<0, 1, W * C, C>{};
}
template <index_t K> auto resultOf(int8_t *y) { return pack(make_view(y, extents<0, 1, 0, K>{})); }
template <class Cfg, bool Depthwise> std::vector<int8_t> weightsOf() {
  constexpr index_t C = decltype(Cfg::channels)::value, K = decltype(Cfg::filters)::value,
                    taps = decltype(Cfg::kernel_h)::value * decltype(Cfg::kernel_w)::value;
  return randomBytes<int8_t>(size_t(Depthwise ? C * taps : C * K * taps), 2);
}

template <class Cfg> void checkPairs() {
  auto w = weightsOf<Cfg, false>();
  if (Cfg::joined)
    w = joinWeights(w, decltype(Cfg::filters)::value, Cfg::joined);
  std::vector<uint64_t> patches(size_t(cpu::patch_words<Cfg>));
  check<Cfg>("conv_pairs", "mcu:cortex-m4", false, [&](const int8_t *x, int8_t *y) {
    cpu::conv_pairs(Cfg{}, make_view(x, strides<Cfg>()), w.data(), 0,
                    reinterpret_cast<uint32_t *>(patches.data()),
                    resultOf<decltype(Cfg::filters)::value>(y), pack(), low_byte{});
  });
}
TEST(Overlap, ConvPairs) {
  checkPairs<conv_case<1, 8, 8, 8, 16, 1, 1, 1, 1, 0, 4, 1>>(); // grows
  checkPairs<conv_case<1, 8, 8, 16, 8, 1, 1, 1, 1, 0, 4, 1>>(); // shrinks
  checkPairs<conv_case<1, 9, 7, 8, 8, 3, 3, 1, 1, 1, 3, 1>>();
  checkPairs<conv_case<1, 9, 8, 4, 8, 3, 3, 2, 1, 1, 4, 1>>();
  checkPairs<with_pairs<1, conv_case<1, 8, 8, 8, 16, 1, 1, 1, 1, 0, 3, 1>>>();
  checkPairs<with_pairs<1, conv_case<1, 9, 7, 8, 8, 3, 3, 1, 1, 1, 3, 1>>>();
}

template <class Cfg> void checkDepthwisePairs() {
  const auto w = weightsOf<Cfg, true>();
  std::vector<int8_t> plane(size_t(cpu::plane_bytes(Cfg{})));
  check<Cfg>("depthwise_pairs", "mcu:cortex-m4", true, [&](const int8_t *x, int8_t *y) {
    cpu::depthwise_pairs(Cfg{}, make_view(x, strides<Cfg>()), w.data(), 0, plane.data(),
                         resultOf<decltype(Cfg::channels)::value>(y), pack(), low_byte{});
  });
}
/// Height and width change places in the plane.
template <class Case> struct in_turned_plane : Case { static constexpr int turned = 1; };
TEST(Overlap, DepthwisePairs) {
  checkDepthwisePairs<conv_case<1, 9, 8, 8, 1, 3, 3, 1, 1, 1, 1, 1>>();
  checkDepthwisePairs<conv_case<1, 9, 8, 4, 1, 3, 3, 2, 1, 1, 1, 1>>();
  checkDepthwisePairs<in_turned_plane<conv_case<1, 12, 5, 8, 1, 3, 3, 1, 1, 1, 1, 1>>>();
}

template <class Cfg> struct with_vector_body : Cfg { static constexpr bool vector_body = true; };
template <class Case> void checkQuads() {
  using Cfg = with_vector_body<Case>;
  constexpr index_t K = decltype(Cfg::filters)::value, W = decltype(Cfg::out_w)::value;
  const auto w = weightsOf<Cfg, false>();
  std::vector<int8_t> patch(w.size());
  std::vector<int32_t> sums(size_t(K), 0);
  check<Cfg>(
      "conv_quads", "mcu:cortex-m55", false,
      [&](const int8_t *x, int8_t *y) {
        cpu::conv_quads(Cfg{}, make_view(x, strides<Cfg>()), w.data(), 0, patch.data(), sums.data(),
                        pack(make_view(y, extents<0, 1, W * K, K>{})), pack(), low_byte{});
      },
      /*tight=*/decltype(Cfg::kernel_h)::value > 1);
}
TEST(Overlap, ConvQuads) {
  checkQuads<conv_case<1, 6, 5, 16, 32, 1, 1, 1, 1, 0, 1, 1>>();
  checkQuads<conv_case<1, 6, 5, 32, 32, 1, 1, 1, 1, 0, 1, 1>>();
  checkQuads<conv_case<1, 9, 7, 8, 8, 3, 3, 1, 1, 1, 1, 1>>();
}
template <class Cfg> void checkDepthwiseQuads() {
  constexpr index_t C = decltype(Cfg::channels)::value, W = decltype(Cfg::out_w)::value;
  const auto w = weightsOf<Cfg, true>();
  std::vector<int32_t> sums(size_t(C), 0);
  check<Cfg>(
      "depthwise_quads", "mcu:cortex-m55", true,
      [&](const int8_t *x, int8_t *y) {
        cpu::depthwise_quads(Cfg{}, make_view(x, strides<Cfg>()), w.data(), 0, sums.data(),
                             pack(make_view(y, extents<0, 1, W * C, C>{})), pack(), low_byte{});
      },
      /*tight=*/false);
}
TEST(Overlap, DepthwiseQuads) {
  checkDepthwiseQuads<conv_case<1, 9, 8, 8, 1, 3, 3, 1, 1, 1, 1, 1>>();
  checkDepthwiseQuads<conv_case<1, 9, 8, 16, 1, 3, 3, 2, 1, 1, 1, 1>>();
}

template <class Cfg, bool Depthwise> void checkShared() {
  const Cfg c{};
  constexpr index_t C = decltype(Cfg::channels)::value,
                    K = Depthwise ? C : decltype(Cfg::filters)::value;
  const auto w = weightsOf<Cfg, Depthwise>();
  const auto n = [](index_t v) { return int16_t(v); };
  const cpu::window_shape s = {1,
                               n(c.in_h),
                               n(c.in_w),
                               n(c.out_h),
                               n(c.out_w),
                               n(K),
                               n(C),
                               n(c.kernel_h),
                               n(c.kernel_w),
                               n(c.stride_h),
                               n(c.stride_w),
                               1,
                               1,
                               n(c.pad_top),
                               n(c.pad_left),
                               0,
                               {0, 1, int32_t(c.in_w * C), int32_t(C)}};
  std::vector<uint64_t> patches(size_t(4 * (C * c.kernel_h * c.kernel_w + 4)));
  check<Cfg>(
      Depthwise ? "depthwise_shared" : "conv_shared", "mcu:cortex-m4", Depthwise,
      [&](const int8_t *x, int8_t *y) {
        const auto out = make_view(y, dims<fixed<0>, fixed<1>, fixed<0>, dyn>{{}, {}, {}, dyn(K)});
        if constexpr (Depthwise)
          cpu::depthwise_shared<8>(s, x, w.data(), low_byte{}, out);
        else
          cpu::conv_shared<4, 8>(s, x, w.data(), reinterpret_cast<uint32_t *>(patches.data()),
                                 low_byte{}, out);
      },
      /*tight=*/!Depthwise);
}
TEST(Overlap, Shared) {
  checkShared<conv_case<1, 8, 8, 8, 16, 1, 1, 1, 1, 0, 4, 1>, false>();
  checkShared<conv_case<1, 9, 7, 8, 8, 3, 3, 1, 1, 1, 4, 1>, false>();
  checkShared<conv_case<1, 9, 8, 8, 1, 3, 3, 1, 1, 1, 1, 1>, true>();
}

using Grows = conv_case<1, 16, 16, 8, 8, 3, 3, 1, 1, 1, 4, 1>;

TEST(Overlap, PlansLayResultsOverOperands) {
  Scheduled s(textOf<Grows>(false, 4), "mcu:cortex-m4");
  const int64_t image = 16 * 16 * 8;
  EXPECT_FALSE(overlaidResults(s.plan).empty());
  EXPECT_LT(s.plan.arenaBytes, 2 * image);
  Diagnostics found;
  EXPECT_TRUE(verifyPlan(s.plan, found));
}
TEST(Overlap, TheCheckSeesResultsThatAreTooClose) {
  Scheduled s(textOf<Grows>(false, 4), "mcu:cortex-m4");
  const auto all = overlaidResults(s.plan);
  ASSERT_FALSE(all.empty());
  const BufferInfo &operand = s.plan.buffers[all[0].operand];
  s.plan.buffers[all[0].result].at = operand.at;
  Diagnostics found;
  EXPECT_FALSE(verifyPlan(s.plan, found));
}
TEST(Overlap, GroupsThatAreToStayApartDo) {
  Scheduled s(textOf<Grows>(false, 4), "mcu:cortex-m4");
  for (const Step &step : s.plan.steps)
    step.op->set("apart", true);
  s.plan = planMemory(s.module->graph());
  EXPECT_TRUE(overlaidResults(s.plan).empty());
  EXPECT_GE(s.plan.arenaBytes, 2 * 16 * 16 * 8);
}

} // namespace
