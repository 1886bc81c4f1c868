// Tests of conv_bytes with channels in a run, over ragged shapes, strides and paddings.
#include "ConvBytesCases.h"

namespace {
using namespace tenon;

TEST(ConvBytes, Pointwise) {
  test<int8_t, conv_case<1, 5, 5, 64, 7, 1, 1, 1, 1, 0, 4, W>>(-128);
  test<int8_t, conv_case<2, 3, 3, 20, 3 * W + 1, 1, 1, 1, 1, 0, 2, 2 * W>>(3);
  test<uint8_t, conv_case<1, 4, 3, 6, 4 * W, 1, 1, 2, 1, 0, 3, 2 * W>>(255);
  test<int8_t, conv_case<1, 1, 1, 130, 5 * W - 1, 1, 1, 1, 1, 0, 1, 4 * W>>(-7);
  test<uint8_t, conv_case<1, 1, 90, 640, W, 1, 1, 1, 1, 0, 6, W>>(0); // several chunks
}
TEST(ConvBytes, Windows) {
  test<int8_t, conv_case<1, 7, 6, 16, 5, 3, 3, 1, 1, 1, 4, W>>(-128);
  test<int8_t, conv_case<1, 7, 6, 16, W + 3, 3, 3, 2, 1, 1, 4, 2 * W>>(0);
  test<uint8_t, conv_case<2, 9, 8, 4, 3, 5, 3, 2, 1, 2, 3, W>>(7);
  test<int8_t, conv_case<1, 9, 9, 8, 2 * W, 3, 3, 1, 2, 2, 5, W>>(127);
  test<uint8_t, conv_case<1, 3, 2, 100, W, 3, 3, 1, 1, 1, 6, W>>(255);
}
TEST(ConvBytes, OneZeroOfAllWeights) {
  test<int8_t, conv_case<2, 3, 3, 20, 3 * W + 1, 1, 1, 1, 1, 0, 2, 2 * W>, true>(3);
  test<uint8_t, conv_case<1, 9, 8, 4, 3, 5, 3, 2, 1, 2, 3, W>, true>(7);
}
} // namespace
