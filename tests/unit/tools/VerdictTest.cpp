// Tests of what a report makes of comparisons that there are, and of none.
#include "tools/Check.h"

#include <gtest/gtest.h>

using namespace tenon;

TEST(Verdict, NothingToCompareFailsWhereItWasAskedFor) {
  RunReport report;
  report.target = "cpu:generic";
  EXPECT_EQ(report.verdict(), Verdict::Nothing);
  EXPECT_EQ(report.verdictLine(),
            "nothing was compared; give --data with outputs, or --against=interpreter");
  report.target = "interpreter"; // which is no comparison for itself
  EXPECT_EQ(report.verdictLine(),
            "nothing was compared; give --data with outputs, or --reference=MODEL");
  report.asked = true;
  EXPECT_EQ(report.verdict(), Verdict::Fail);
  EXPECT_EQ(report.verdictLine(), "FAIL");
  EXPECT_EQ(report.reason(),
            "nothing could be compared: no output and no value of a group has a counterpart");
}
