// Tests cpu::bordered: every element against where a plain walk over the border finds it.
#include "cpu/bordered.h"
#include "Support.h"

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

struct Sum {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

/// One step at a time towards the inside.
template <class Border> index_t walk(index_t i, index_t n) {
  while (i < 0 || i >= n) {
    if constexpr (std::is_same_v<Border, border_edge>)
      i += i < 0 ? 1 : -1;
    else if constexpr (std::is_same_v<Border, border_wrap>)
      i += i < 0 ? n : -n;
    else if (n == 1)
      return 0;
    else
      i = i < 0 ? -i : 2 * n - 2 - i;
  }
  return i;
}

/// rows x columns with `above` rows and `before` columns in front, to `height` x `width`; columns
/// of x are `step` elements apart.
template <class Border, bool Neighbours>
void check(index_t rows, index_t columns, index_t above, index_t before, index_t height,
           index_t width) {
  const index_t step = Neighbours ? 1 : 3;
  const auto x = randomFloats(rows * columns * step, 1), bias = randomFloats(width, 2);
  std::vector<float> y(size_t(height * width));
  pool workers(2);
  using Step = typename tenon::detail::choose_type<Neighbours, fixed<1>, dyn>::type;
  Step columnStep{};
  if constexpr (!Neighbours)
    columnStep = dyn(step);
  bordered(dims<dyn, dyn>(dyn(height), dyn(width)),
           make_bordered_view<Border>(x.data(), dims<dyn, Step>(dyn(columns * step), columnStep),
                                      dims<dyn, dyn>(dyn(above), dyn(before)),
                                      dims<dyn, dyn>(dyn(rows), dyn(columns))),
           pack(make_view(y.data(), dims<dyn, fixed<1>>(dyn(width), {}))),
           pack(make_view(bias.data(), extents<0, 1>())), Sum{}, workers);
  for (index_t i = 0; i < height; ++i)
    for (index_t j = 0; j < width; ++j) {
      const index_t from =
          (walk<Border>(i - above, rows) * columns + walk<Border>(j - before, columns)) * step;
      ASSERT_EQ(y[size_t(i * width + j)], x[size_t(from)] + bias[size_t(j)])
          << "row " << i << " column " << j << " of " << height << " x " << width;
    }
}

template <class Border> void checkAll() {
  check<Border, true>(5, 2 * 16 + 3, 2, 3, 9, 2 * 16 + 9);
  check<Border, false>(5, 2 * 16 + 3, 2, 3, 9, 2 * 16 + 9);
  check<Border, true>(3, 4, 7, 40, 20, 83);    // borders beyond the tensor's own extent
  check<Border, true>(1, 1, 1, 2, 3, 70);      // one element
  check<Border, true>(4, 50, 0, 0, 4, 50);     // none
  check<Border, true>(2, 5000, 1, 9, 3, 9000); // rows that are shared
}

TEST(Bordered, Edge) { checkAll<border_edge>(); }
TEST(Bordered, Reflect) { checkAll<border_reflect>(); }
TEST(Bordered, Wrap) { checkAll<border_wrap>(); }

} // namespace
