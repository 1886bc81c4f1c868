// Tests of conv_bytes with few channels, runs along rows, other layouts, and tile registers.
#include "ConvBytesCases.h"

namespace {
using namespace tenon;

TEST(ConvBytes, FewChannelsAndOtherLayouts) {
  test<int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>(5);
  test<int8_t, conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>(5, false);
  test<int8_t, conv_case<1, 11, 10, 1, 2 * W, 10, 4, 2, 1, 3, 4, 2 * W>>(83);
  test<uint8_t, conv_case<1, 11, 10, 1, 6, 3, 3, 1, 2, 1, 4, W>>(128);
  test<uint8_t, conv_case<1, 6, 5, 4, 3, 3, 3, 1, 1, 1, 2, W>>(0, false);
  test<int8_t, conv_case<2, 6, 5, 18, 3, 3, 3, 1, 1, 1, 2, W>>(-1, false);
}

TEST(ConvBytes, RunsAlongRows) {
  test<int8_t, by_rows<conv_case<1, 9, 7, 3, 4, 3, 3, 2, 1, 1, 4, W>>>(5, false);
  test<uint8_t, by_rows<conv_case<2, 12, 11, 3, W + 2, 7, 7, 2, 1, 3, 4, 2 * W>>>(99, false);
  test<int8_t, by_rows<conv_case<1, 9, 9, 2, 3, 3, 5, 1, 2, 2, 4, W>>>(-128, false);
  test<uint8_t, by_rows<conv_case<1, 6, 5, 4, 3, 3, 3, 1, 1, 1, 2, W>>>(1);
}
#if TENON_TILE_PRODUCTS
TEST(ConvBytes, Tiles) {
  test<int8_t, conv_case<1, 5, 7, 64, 3 * W, 1, 1, 1, 1, 0, 4, 2 * W>>(-128);
  test<uint8_t, conv_case<2, 8, 8, 128, 2 * W, 1, 1, 1, 1, 0, 4, 3 * W>>(7); // in place
  test<int8_t, conv_case<1, 8, 20, 192, W, 1, 1, 2, 1, 0, 6, W>>(1);
  test<uint8_t, conv_case<2, 9, 7, 64, 4 * W, 3, 3, 1, 1, 1, 6, 4 * W>>(255);
  test<int8_t, conv_case<1, 9, 7, 16, W, 5, 4, 2, 1, 2, 6, W>>(-3);
  test<int8_t, conv_case<1, 3, 3, 64, W, 1, 1, 1, 1, 0, 6, W>>(-3); // fewer than one tile
  test<uint8_t, conv_case<1, 14, 14, 24, W + 8, 1, 1, 1, 1, 0, 4, W>>(
      9); // 14 rows, a step of 6 words
  test<int8_t, conv_case<2, 7, 7, 144, 3 * W + 1, 1, 1, 1, 1, 0, 4, W>>(-8); // 13 rows, in place
  test<uint8_t, by_rows<conv_case<1, 19, 20, 3, W + 2, 7, 7, 2, 1, 3, 4, W>>>(99,
                                                                              false); // 14 words
  test<int8_t, conv_case<1, 6, 5, 18, 3, 3, 3, 1, 1, 1, 2, W>>(-1);
  test<uint8_t, conv_case<1, 5, 7, 64, 3 * W, 1, 1, 1, 1, 0, 4, 2 * W>, true>(3);
}
#endif
} // namespace
