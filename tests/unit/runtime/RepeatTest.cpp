// Tests cpu::repeat: what ends a loop, and what it says of it.
#include "cpu/repeat.h"

#include <gtest/gtest.h>

using namespace tenon::cpu;

namespace {

TEST(Repeat, EndsWithTripsOrCondition) {
  int64_t count = -1, sum = 0;
  EXPECT_EQ(repeat(4, true, any_number, count,
                   [&](int64_t i, bool &) {
                     sum += i;
                     return int(ok);
                   }),
            ok);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(repeat(4, true, any_number, count,
                   [&](int64_t i, bool &going) {
                     going = i < 1;
                     return int(ok);
                   }),
            ok);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(repeat(4, false, 0, count, [&](int64_t, bool &) { return int(state_full); }), ok);
  EXPECT_EQ(count, 0);
}

TEST(Repeat, StopsAtTheRoomAndAtErrors) {
  int64_t count = 0;
  auto fine = [](int64_t, bool &) { return int(ok); };
  EXPECT_EQ(repeat(3, true, 3, count, fine), ok);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(repeat(4, true, 3, count, fine), dimension_out_of_range);
  EXPECT_EQ(repeat(4, true, any_number, count,
                   [](int64_t i, bool &) { return i == 2 ? int(state_full) : int(ok); }),
            state_full);
}

} // namespace
