// Tests the choice of chains: against estimates, against measured times, as a tuner asks for it,
// and what it leaves behind.
#include "codegen/Codegen.h"
#include "ir/Context.h"
#include "ir/Text.h"
#include "passes/PassManager.h"

#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

/// A 1x1 convolution and a depthwise one, which are faster in one kernel.
constexpr const char *kExpanded = R"(module "expanded" stage=imported {
  graph @main (%x "x": tensor<8x16x112x112xf16, nhwc>) -> ("z") {
    %w = constant {value = splat<96x16x1x1xf16: 0.5>} : tensor<96x16x1x1xf16>
    %f = constant {value = splat<96x1x3x3xf16: 0.5>} : tensor<96x1x3x3xf16>
    %e = conv %x, %w : tensor<8x96x112x112xf16, nhwc> loc("expand")
    %z = conv %e, %f {pads = [1, 1, 1, 1], strides = [2, 2], groups = 96} : tensor<8x96x56x56xf16, nhwc> loc("depthwise")
    return %z
  }
}
)";

class Chains : public ::testing::Test {
protected:
  /// Schedules the module; the tactics of its groups, and `log`.
  std::vector<std::string> schedule(ScheduleOptions options) {
    Context context;
    auto buffer = llvm::MemoryBuffer::getMemBuffer(kExpanded, "expanded.tn");
    auto module = parseModule(context, *buffer, "", diagnostics);
    auto target = parseTarget("cuda:sm_90a", diagnostics);
    PassContext passes(diagnostics);
    Pipeline pipeline;
    EXPECT_TRUE(module && parsePipeline("fuse,isolate", pipeline, diagnostics) &&
                PassManager(passes).run(*module, pipeline));
    module->stage = Stage::Optimized;
    log = std::make_shared<ScheduleLog>();
    options.log = log;
    EXPECT_TRUE(scheduleModule(*module, *target, options, diagnostics));
    std::vector<std::string> found;
    for (Operation &op : module->graph().body())
      if (const Attribute *a = op.find("schedule"))
        if (const std::string &tactic = a->get<Schedule>()->tactic; tactic.find("map") != 0)
          found.push_back(tactic);
    return found;
  }
  /// The chain that is offered, with keys.
  ChainOffer offer() {
    ChainOffer found;
    ScheduleOptions options;
    options.pick = [](const Operation &, const std::string &, llvm::ArrayRef<Candidate>) {
      return size_t(0);
    };
    options.takeChain = [&](const ChainOffer &o) {
      found = o;
      return true;
    };
    EXPECT_EQ(schedule(options), kTogether);
    return found;
  }

  const std::vector<std::string> kTogether = {"expand_depthwise_sm80"};
  std::shared_ptr<ScheduleLog> log;
  Diagnostics diagnostics;
};

TEST_F(Chains, AreTakenWhereTheyAreFaster) {
  EXPECT_EQ(schedule({}), kTogether);
  ASSERT_EQ(log->fusions.size(), 1u);
  const FusionDecision &d = log->fusions[0];
  EXPECT_TRUE(d.accepted);
  EXPECT_EQ(d.id, "fuse.expand-depthwise");
  EXPECT_EQ(d.variant, "cuda:sm_90a");
  EXPECT_EQ(d.nodes, (std::vector<std::string>{"expand", "depthwise"}));
  EXPECT_EQ(d.bytesSaved, int64_t(2) * 2 * 8 * 96 * 112 * 112);
  EXPECT_GT(d.together, 0);
  EXPECT_LT(d.together, d.apart);
}

TEST_F(Chains, KeysAreThoseOfTheGroups) {
  const ChainOffer found = offer();
  std::vector<std::string> keys;
  ScheduleOptions options;
  options.pick = [&](const Operation &, const std::string &key, llvm::ArrayRef<Candidate>) {
    keys.push_back(key);
    return size_t(0);
  };
  (void)schedule(options);
  EXPECT_TRUE(llvm::is_contained(keys, found.key));
  keys.clear();
  options.takeChain = [](const ChainOffer &) { return false; };
  EXPECT_EQ(schedule(options).size(), 2u);
  ASSERT_EQ(found.parts.size(), 2u);
  for (const std::string &part : found.parts)
    EXPECT_TRUE(llvm::is_contained(keys, part));
  EXPECT_FALSE(llvm::is_contained(keys, found.key));
}

/// Measured times decide where all of them are there; else estimates do.
TEST_F(Chains, OfMeasuredTimes) {
  const ChainOffer found = offer();
  std::map<std::string, Schedule> schedules; // by key
  ScheduleOptions options;
  for (bool together : {true, false}) {
    options.takeChain = [=](const ChainOffer &) { return together; };
    options.pick = [&](const Operation &, const std::string &key,
                       llvm::ArrayRef<Candidate> candidates) {
      schedules[key] = candidates.front().schedule();
      return size_t(0);
    };
    (void)schedule(options);
  }
  auto choose = [&](double together, bool all) {
    auto tuning = std::make_shared<Tuning>();
    auto add = [&](const std::string &key, double microseconds) {
      TuningEntry entry;
      entry.schedule = schedules.at(key);
      entry.microseconds = microseconds;
      tuning->add("sm_90a", key, entry);
    };
    add(found.key, together);
    add(found.parts[0], 1);
    if (all)
      add(found.parts[1], 1);
    ScheduleOptions measured;
    measured.tuning = tuning;
    return schedule(measured).size();
  };
  EXPECT_EQ(choose(1.9, true), 1u);
  EXPECT_EQ(log->fusions[0].together, 1.9);
  EXPECT_EQ(log->fusions[0].apart, 2);
  EXPECT_EQ(choose(2.1, true), 2u);
  EXPECT_FALSE(log->fusions[0].accepted);
  EXPECT_EQ(choose(2.1, false), 1u);
}

TEST_F(Chains, AskTheControls) {
  std::vector<std::string> asked, begun;
  ScheduleOptions options;
  options.restart = [&](llvm::StringRef id) { begun.push_back(id.str()); };
  options.fire = [&](llvm::StringRef id, const Operation &op) {
    asked.push_back(id.str() + "@" + op.loc()[0]);
    return false;
  };
  EXPECT_EQ(schedule(options).size(), 2u);
  EXPECT_EQ(asked, std::vector<std::string>{"fuse.expand-depthwise@depthwise"});
  EXPECT_TRUE(llvm::is_contained(begun, "fuse.expand-depthwise"));
  EXPECT_EQ(log->fusions[0].reason, "switched off");
}

TEST_F(Chains, AreNotLookedForWithoutSearch) {
  ScheduleOptions options;
  options.search = ScheduleOptions::None;
  EXPECT_EQ(schedule(options).size(), 2u);
  EXPECT_TRUE(log->fusions.empty());
}

/// What is impossible is no news while prices are compared, only where a group gets its schedule.
TEST_F(Chains, PricingSaysNothing) {
  const ChainOffer found = offer();
  auto tuning = std::make_shared<Tuning>();
  TuningEntry entry;
  entry.schedule.tactic = "of_another_version";
  entry.microseconds = 0.001;
  for (const std::string &part : found.parts)
    tuning->add("sm_90a", part, entry);
  ScheduleOptions options;
  options.tuning = tuning;
  EXPECT_EQ(schedule(options), kTogether);
  EXPECT_TRUE(diagnostics.list().empty());
  options.takeChain = [](const ChainOffer &) { return false; };
  EXPECT_EQ(schedule(options).size(), 2u);
  EXPECT_EQ(diagnostics.list().size(), 2u);
}

} // namespace
