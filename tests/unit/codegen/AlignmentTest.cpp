// Tests what is known of where an element of a value lies when places follow from dimensions.
#include "codegen/memory/Alignment.h"
#include "ir/Context.h"

#include <gtest/gtest.h>

using namespace tenon;

namespace {
/// Bytes behind, or -1 where they are unknown.
int64_t behind(const Placement &at, Dim offset, Element element, int64_t bytes) {
  return bytesBehind(at, offset, element, bytes).getValueOr(-1);
}
} // namespace

TEST(Alignment, MultiplesOfADimension) {
  Context context;
  const Dim past = context.symbol("past"), none;
  Placement at;
  EXPECT_EQ(behind(at, none, Element::F16, 16), 0);
  EXPECT_EQ(behind(at, context.dim(12), Element::F16, 16), 8);
  EXPECT_EQ(behind(at, past * 32, Element::F16, 16), 0);
  EXPECT_EQ(behind(at, past * 32 + 4, Element::F32, 64), 16);
  EXPECT_EQ(behind(at, past * 4, Element::F16, 16), -1);
  EXPECT_EQ(behind(at, context.dim(3), Element::I4, 16), -1); // within a byte
  // A part of a table from the row on that a dimension names.
  at.start = past * 8;
  EXPECT_EQ(behind(at, none, Element::F16, 16), 0);
  EXPECT_EQ(behind(at, past * 8 + 1, Element::F16, 16), 2);
  EXPECT_EQ(behind(at, past, Element::F16, 16), -1);
}
