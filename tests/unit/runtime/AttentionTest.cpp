// Tests cpu::attention against softmax and sums in double: blocks and single queries, several tiles
// of keys, strided operands, hidden keys.
#include "cpu/attention.h"
#include "Support.h"

#include <cmath>

using namespace tenon;
using namespace tenon::cpu;
using namespace tenon::test;

namespace {

constexpr int W = native_lanes::width;
constexpr float kInf = float(INFINITY);

template <int Vectors, int Rows, index_t D, index_t E> struct Config : attention_defaults {
  dyn m, n;
  static constexpr fixed<D> d{};
  static constexpr fixed<E> e{};
  static constexpr int vectors = Vectors, rows = Rows, tile = 4 * Rows;
};
template <class Base> struct ZeroUndefined : Base { static constexpr bool zero_undefined = true; };

template <class Base, index_t Later> struct Causal : Base {
  static constexpr index_t causal = Later;
};

enum class Added { Nothing, OverKeys, Full };

/// Two batches of three heads that lie side by side, as projections leave them: element (b, h, i,
/// j) of an operand with n rows of `width` elements is at ((b * n + i) * 3 + h) * width + j.
struct Case {
  index_t m, n;
  Added added = Added::Nothing;
  /// The queries with an index from here on see no key.
  index_t hidden_from = 1000;
  /// Keys before this one are hidden from all.
  index_t first_key = 0;
};

template <class Cfg> void check(const Case &c) {
  constexpr index_t B = 2, H = 3, D = decltype(Cfg::d)::value, E = decltype(Cfg::e)::value;
  const float scale = 0.3f;
  Cfg cfg;
  cfg.m = c.m, cfg.n = c.n;
  const index_t room = c.n > 0 ? c.n : 1; // no keys are an address, too
  const auto q = randomFloats(B * c.m * H * D, 1), k = randomFloats(B * room * H * D, 2),
             v = randomFloats(B * room * H * E, 3);
  auto bias = randomFloats(c.m * c.n, 4);
  for (index_t i = c.hidden_from; i < c.m; ++i)
    for (index_t j = 0; j < c.n; ++j)
      bias[i * c.n + j] = -kInf;
  for (index_t i = 0; i < c.m; ++i)
    for (index_t j = 0; j < c.first_key; ++j)
      bias[i * c.n + j] = -kInf;
  std::vector<double> want;
  std::vector<float> got(B * c.m * H * E, 99.0f);
  for (index_t b = 0; b < B; ++b)
    for (index_t i = 0; i < c.m; ++i)
      for (index_t h = 0; h < H; ++h) {
        std::vector<double> weights(c.n);
        double sum = 0;
        for (index_t j = 0; j < c.n; ++j) {
          double s = 0;
          for (index_t d = 0; d < D; ++d)
            s += double(q[((b * c.m + i) * H + h) * D + d]) * k[((b * c.n + j) * H + h) * D + d];
          s *= scale;
          if (c.added != Added::Nothing)
            s += bias[(c.added == Added::Full ? i : 0) * c.n + j];
          const bool hidden = Cfg::causal >= 0 && j > i + Cfg::causal;
          sum += weights[j] = hidden ? 0 : std::exp(s);
        }
        for (index_t e = 0; e < E; ++e) {
          double y = 0;
          for (index_t j = 0; j < c.n; ++j)
            y += weights[j] / sum * v[((b * c.n + j) * H + h) * E + e];
          want.push_back(Cfg::zero_undefined && !(sum > 0) && c.n > 0 ? 0 : y);
        }
      }
  const auto heads = [](const auto *data, index_t rows, auto width) {
    constexpr index_t w = decltype(width)::value;
    return make_view(data,
                     dims<dyn, fixed<w>, fixed<3 * w>, fixed<1>>(dyn(rows * 3 * w), {}, {}, {}));
  };
  pool workers(3);
  const auto out = make_view(
      got.data(), dims<dyn, fixed<E>, fixed<3 * E>, fixed<1>>(dyn(c.m * 3 * E), {}, {}, {}));
  const auto run = [&](const auto &added) {
    attention(cfg, extents<B, H>{}, scale, heads(q.data(), c.m, fixed<D>{}),
              heads(k.data(), c.n, fixed<D>{}), heads(v.data(), c.n, fixed<E>{}), added, out,
              workers);
  };
  if (c.added == Added::Nothing)
    run(pack());
  else if (c.added == Added::OverKeys)
    run(pack(make_view(bias.data(), extents<0, 0, 0, 1>())));
  else
    run(pack(
        make_view(bias.data(), dims<fixed<0>, fixed<0>, dyn, fixed<1>>({}, {}, dyn(c.n), {}))));
  // NaN is as it should be, the rest close.
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << "at element " << i;
    if (std::isnan(want[i]))
      got[i] = 0, want[i] = 0;
  }
  expectClose(got, want, 5e-6);
}

using Ragged = Config<2, 6, 13, 2 * W + 3>;
using Large = Config<3, 4, 64, 64>;

TEST(Attention, BlocksOfQueries) {
  for (index_t m : {index_t(W), index_t(2 * W), index_t(5 * W + 1)})
    for (index_t n : {1, 7, 24, 61}) {
      check<Ragged>({m, n});
      check<Large>({m, n, Added::OverKeys});
      check<Ragged>({m, n, Added::Full});
    }
}

TEST(Attention, FewQueries) {
  using Tall = Config<1, 8, 5, 9 * W + 1>; // more elements than registers
  for (index_t m = 1; 2 * m <= W || m == 1; ++m)
    for (index_t n : {1, 7, 40, 61}) {
      check<Large>({m, n});
      check<Tall>({m, n, Added::OverKeys});
      check<Ragged>({m, n, Added::Full});
    }
}

TEST(Attention, QueriesThatSeeNothing) {
  for (index_t m : {index_t(2), index_t(2 * W + 1)}) {
    check<Ragged>({m, 30, Added::Full, 1});
    check<ZeroUndefined<Ragged>>({m, 30, Added::Full, 1});
    check<Ragged>({m, 0});
  }
}

TEST(Attention, LaterKeysAreHidden) {
  for (index_t m : {index_t(2), index_t(W), index_t(5 * W + 1)})
    for (index_t n : {index_t(1), index_t(30), index_t(5 * W + 1), index_t(5 * W + 90)}) {
      check<Causal<Ragged, 0>>({m, n});
      check<Causal<Large, 0>>({m, n, Added::OverKeys});
      check<Causal<Ragged, 29>>({m, n, Added::Full});
      check<Causal<Ragged, 7>>({m, n, Added::Full, 1000, std::min<index_t>(5, n - 1)});
    }
}

TEST(Attention, TilesWithoutVisibleKeys) {
  for (index_t m : {index_t(2), index_t(2 * W + 1)}) {
    check<Ragged>({m, 61, Added::Full, 1000, 30});
    check<Ragged>({m, 61, Added::Full, 1, 50});
  }
}

/// Scores that grow from tile to tile: what was summed before shrinks to nothing.
TEST(Attention, LargerScoresComeLater) {
  using Small = Config<1, 4, 1, 1>;
  for (index_t m : {index_t(1), index_t(W + 1)}) {
    const index_t n = 50;
    Small cfg;
    cfg.m = m, cfg.n = n;
    std::vector<float> q(m, 1.0f), k(n), v(n), y(m);
    for (index_t j = 0; j < n; ++j)
      k[j] = float(40 * j) - 1000, v[j] = float(j);
    pool workers(1);
    const auto column = [](auto *data) { return make_view(data, extents<1, 1>()); };
    attention(cfg, extents<>{}, 1.0f, column(q.data()), column(k.data()), column(v.data()), pack(),
              column(y.data()), workers);
    for (float x : y)
      EXPECT_FLOAT_EQ(x, 49.0f);
  }
}

TEST(Attention, SixteenBits) {
  using Half = Config<2, 6, 16, 24>;
  const index_t m = 2 * W + 3, n = 19;
  const auto narrow = [](const std::vector<float> &values) {
    std::vector<f16> out(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      store_element(&out[i], values[i]);
    return out;
  };
  const auto q = narrow(randomFloats(m * 16, 1)), k = narrow(randomFloats(n * 16, 2)),
             v = narrow(randomFloats(n * 24, 3));
  std::vector<f16> y(m * 24);
  std::vector<double> want;
  for (index_t i = 0; i < m; ++i) {
    std::vector<double> weights(n);
    double sum = 0;
    for (index_t j = 0; j < n; ++j) {
      double s = 0;
      for (index_t d = 0; d < 16; ++d)
        s += double(load_element(&q[i * 16 + d])) * load_element(&k[j * 16 + d]);
      sum += weights[j] = std::exp(s);
    }
    for (index_t e = 0; e < 24; ++e) {
      double x = 0;
      for (index_t j = 0; j < n; ++j)
        x += weights[j] / sum * load_element(&v[j * 24 + e]);
      want.push_back(x);
    }
  }
  Half cfg;
  cfg.m = m, cfg.n = n;
  pool workers(2);
  attention(cfg, extents<>{}, 1.0f, make_view(q.data(), extents<16, 1>()),
            make_view(k.data(), extents<16, 1>()), make_view(v.data(), extents<24, 1>()), pack(),
            make_view(y.data(), extents<24, 1>()), workers);
  std::vector<float> got;
  for (const f16 &x : y)
    got.push_back(load_element(&x));
  expectClose(got, want, 1e-3);
}

} // namespace
