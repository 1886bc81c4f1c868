// Tests of how amounts of memory are written.
#include "codegen/core/Bytes.h"

#include <gtest/gtest.h>

using namespace tenon;

TEST(Bytes, UnitsChangeWhereTheNextIsReached) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(10239), "10239 B");
  EXPECT_EQ(formatBytes(10240), "10 KiB");
  EXPECT_EQ(formatBytes(10241), "10.0 KiB");
  EXPECT_EQ(formatBytes(1047000), "1022.5 KiB");
  EXPECT_EQ(formatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(formatBytes(1 << 20), "1 MiB");
  EXPECT_EQ(formatBytes(3 << 19), "1.5 MiB");
  EXPECT_EQ(formatBytes(int64_t(10) << 30), "10 GiB");
  EXPECT_EQ(formatBytes(int64_t(1) << 43), "8192 GiB");
}
