// Tests what every build of the compiler has to have on.
#include <gtest/gtest.h>

#include <vector>

namespace tenon::test {
namespace {

TEST(Build, TheLibraryChecksIndices) {
  const std::vector<int> none;
  const volatile size_t index = 0;
  EXPECT_DEATH((void)(none[index] + 1), "__n < this->size()");
}

} // namespace
} // namespace tenon::test
