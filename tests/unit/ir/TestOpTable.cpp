// Tests the table of operations: it is complete, and names are unique and found.
#include "Support.h"

#include <set>

namespace tenon::test {
namespace {

TEST(OpTable, RowsStandInOrderUnderUniqueNames) {
  std::set<std::string> names;
  unsigned expected = 0;
  for (Op op : allOps()) {
    EXPECT_EQ(unsigned(op), expected++);
    const OpInfo &info = opInfo(op);
    EXPECT_TRUE(names.insert(info.name.str()).second) << info.name.str();
    EXPECT_FALSE(info.summary.empty()) << info.name.str();
    EXPECT_TRUE(info.infer) << info.name.str();
    ASSERT_TRUE(parseOp(info.name).hasValue());
    EXPECT_EQ(*parseOp(info.name), op);
    std::set<std::string> attributes;
    for (const AttrInfo &a : info.attributes) {
      EXPECT_TRUE(attributes.insert(a.name.str()).second) << info.name.str();
      EXPECT_FALSE(a.summary.empty()) << info.name.str() << "." << a.name.str();
    }
    if (!(info.traits & (OpTrait::Scalar | OpTrait::Terminator))) {
      EXPECT_TRUE(info.evaluate) << info.name.str();
    }
  }
  EXPECT_GT(expected, 60u);
  EXPECT_FALSE(parseOp("no_such_op").hasValue());
}

TEST(OpTable, MatchesTheEnumeration) {
  EXPECT_EQ(opInfo(Op::Conv).name, "conv");
  EXPECT_EQ(opInfo(Op::Return).name, "return");
  EXPECT_EQ(opInfo(Op::Add).name, "add");
  EXPECT_EQ(opInfo(Op::Index).name, "index");
}

} // namespace
} // namespace tenon::test
