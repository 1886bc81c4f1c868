// Tests how schedules are read and written: every refusal, keys with a value when absent, and keys
// that follow from something else.
#include "codegen/core/ScheduleFields.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {

struct Sample {
  int64_t rows, columns, bits;

  static llvm::ArrayRef<Field<Sample>> fields() {
    static const Field<Sample> kFields[] = {
        {"rows", &Sample::rows, oneOf(2, 4)},
        {"columns", &Sample::columns, between(1, 8)},
        {"bits", &Sample::bits, oneOf(4, 8), 8},
    };
    return kFields;
  }
};

std::string refusalOf(KeyValues params) {
  KeyValues others;
  const Result<Sample> s = parseSchedule<Sample>({"sample", std::move(params)}, others);
  return s ? "" : s.refusal().reason;
}

TEST(ScheduleFields, ReadsWhatItWrites) {
  for (const Sample &s : {Sample{2, 1, 8}, Sample{4, 8, 4}}) {
    KeyValues others;
    const Result<Sample> again = parseSchedule<Sample>(printSchedule("sample", s), others);
    ASSERT_TRUE(bool(again));
    EXPECT_EQ(again->rows, s.rows);
    EXPECT_EQ(again->columns, s.columns);
    EXPECT_EQ(again->bits, s.bits);
    EXPECT_TRUE(others.empty());
  }
}

TEST(ScheduleFields, WritesNoKeyAtWhatItIsWhenAbsent) {
  const KeyValues plain = {{"rows", 2}, {"columns", 1}},
                  narrow = {{"rows", 2}, {"columns", 1}, {"bits", 4}};
  EXPECT_EQ(printSchedule("sample", Sample{2, 1, 8}).params, plain);
  EXPECT_EQ(printSchedule("sample", Sample{2, 1, 4}).params, narrow);
  EXPECT_EQ(membersOf(Sample{2, 1, 8}, {{"blocks", 3}}),
            (KeyValues{{"rows", 2}, {"columns", 1}, {"bits", 8}, {"blocks", 3}}));
}

TEST(ScheduleFields, Refuses) {
  EXPECT_EQ(refusalOf({{"rows", 2}, {"columns", 8}}), "");
  EXPECT_EQ(refusalOf({{"columns", 8}, {"rows", 2}}), ""); // in any order
  EXPECT_EQ(refusalOf({{"rows", 3}, {"columns", 8}}), "sample: rows=3 is not one of 2, 4");
  EXPECT_EQ(refusalOf({{"rows", 2}, {"columns", 9}}), "sample: columns=9 is not from 1 to 8");
  EXPECT_EQ(refusalOf({{"rows", 2}, {"columns", 0}}), "sample: columns=0 is not from 1 to 8");
  EXPECT_EQ(refusalOf({{"rows", 2}}), "sample: columns is missing");
  EXPECT_EQ(refusalOf({{"rows", 2}, {"rows", 2}, {"columns", 8}}), "sample: rows is given twice");
  EXPECT_EQ(refusalOf({{"rows", 2}, {"columns", 8}, {"bits", 2}}),
            "sample: bits=2 is not one of 4, 8");
}

TEST(ScheduleFields, LeavesUnknownKeysToTheTactic) {
  KeyValues stated;
  ASSERT_TRUE(bool(
      parseSchedule<Sample>({"sample", {{"rows", 2}, {"blocks", 3}, {"columns", 8}}}, stated)));
  EXPECT_EQ(stated, (KeyValues{{"blocks", 3}}));
  const auto rules = rulesOf<Sample>();
  EXPECT_TRUE(bool(checkStated("sample", stated, {{"blocks", 3}}, rules)));
  const Result<> wrong = checkStated("sample", stated, {{"blocks", 4}}, rules);
  ASSERT_FALSE(bool(wrong));
  EXPECT_EQ(wrong.refusal().reason,
            "sample: blocks=3, but 4 follows from the group, its schedule and the machine");
  const Result<> unknown = checkStated("sample", stated, {}, rules);
  ASSERT_FALSE(bool(unknown));
  EXPECT_EQ(unknown.refusal().reason, "sample has no key blocks");
  EXPECT_EQ(unknown.refusal().remedy, "its keys are rows, columns, bits");
}

} // namespace
