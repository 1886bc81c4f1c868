// Tokens drawn from logits: the largest, those that top_k and top_p leave, ties, numbers that are
// none.
#include "common/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace tenon {
namespace {

struct How {
  float temperature = 1;
  int top_k = 0;
  float top_p = 1;
  unsigned long seed = 1;
};

int draw(const std::vector<float> &logits, const How &how, long position = 0) {
  return draw_token(logits.data(), long(logits.size()), how, position);
}

std::set<int> drawn(const std::vector<float> &logits, How how) {
  std::set<int> tokens;
  for (long position = 0; position < 400; ++position)
    tokens.insert(draw(logits, how, position));
  return tokens;
}

TEST(SamplingTest, LargestWithoutTemperature) {
  How greedy;
  greedy.temperature = 0;
  EXPECT_EQ(draw({-3, -1, -2}, greedy), 1);
  EXPECT_EQ(draw({2, 5, 5, 1}, greedy), 1) << "the first of equal ones";
  EXPECT_EQ(draw({NAN, -7, -INFINITY}, greedy), 1);
}

TEST(SamplingTest, FewLikelyTokens) {
  // Chances 0.4, 0.3, 0.2, 0.1, in another order.
  const std::vector<float> logits{std::log(0.2f), std::log(0.4f), std::log(0.1f), std::log(0.3f)};
  EXPECT_EQ(drawn(logits, {}), (std::set<int>{0, 1, 2, 3}));
  How how;
  how.top_k = 2;
  EXPECT_EQ(drawn(logits, how), (std::set<int>{1, 3}));
  how.top_k = 1;
  EXPECT_EQ(drawn(logits, how), (std::set<int>{1}));
  how.top_k = 0;
  how.top_p = 0.65f;
  EXPECT_EQ(drawn(logits, how), (std::set<int>{1, 3})) << "0.4 is too little, 0.7 enough";
  how.top_p = 0.75f;
  EXPECT_EQ(drawn(logits, how), (std::set<int>{0, 1, 3}));
  how.top_p = 0;
  EXPECT_EQ(drawn(logits, how), (std::set<int>{1}));
  how.top_p = 0.95f; // of what the three largest share
  how.top_k = 3;
  EXPECT_EQ(drawn(logits, how), (std::set<int>{0, 1, 3}));
}

TEST(SamplingTest, ThresholdsOfManyValues) {
  std::vector<float> logits;
  for (int i = 0; i < 3000; ++i)
    logits.push_back(float((i * 7919) % 3000) / 100 - 15);
  for (int k : {1, 7, 2048, 2999}) {
    const uint32_t least = detail::threshold(logits.data(), 3000, uint64_t(k),
                                             [](long, uint32_t) { return uint64_t(1); });
    int kept = 0;
    for (float x : logits)
      kept += detail::ordered_bits(x) >= least;
    EXPECT_EQ(kept, k);
  }
}

TEST(SamplingTest, EqualLogitsStayTogether) {
  How how;
  how.top_k = 2;
  EXPECT_EQ(drawn({1, 3, 3, 3, 0}, how), (std::set<int>{1, 2, 3}));
}

TEST(SamplingTest, ChancesFollowSoftmax) {
  const std::vector<float> logits{0, 1, 2, -40};
  std::map<int, int> counts;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i)
    ++counts[draw(logits, {}, i)];
  const double total = 1 + std::exp(1.0) + std::exp(2.0);
  for (int t = 0; t < 3; ++t)
    EXPECT_NEAR(counts[t], draws * std::exp(double(t)) / total, 5 * std::sqrt(draws * 0.25));
  EXPECT_EQ(counts[3], 0);
}

TEST(SamplingTest, SeedAndPositionDecide) {
  std::vector<float> logits(100, 0.0f);
  How one, other;
  other.seed = 2;
  std::set<int> positions;
  for (long p = 0; p < 20; ++p) {
    EXPECT_EQ(draw(logits, one, p), draw(logits, one, p));
    positions.insert(draw(logits, one, p));
  }
  EXPECT_GT(positions.size(), 10u);
  EXPECT_NE(draw(logits, one, 0), draw(logits, other, 0));
}

} // namespace
} // namespace tenon
