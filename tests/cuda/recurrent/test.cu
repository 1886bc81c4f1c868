// Architectures: 800 900a
//
// Tests of recurrent: cells of one product and of two, in one block and in clusters.
#include "common/scalar.h"
#include "cuda/recurrent/kernel.cuh"
#include "shared/harness.h"

#include <cmath>

using namespace test;

namespace {

/// Inputs, gates, states, extras in the order in which bodies take them.
struct lstm_cell {
  static constexpr int inputs = 4, gates0 = 4, gates1 = 0, states = 2, extras = 1;
  template <class L>
  TENON_FN auto operator()(L, f32<L> x0, f32<L> x1, f32<L> x2, f32<L> x3, f32<L> g0, f32<L> g1,
                           f32<L> g2, f32<L> g3, f32<L>, f32<L> c, f32<L> peephole) const {
    const f32<L> next = sigmoid<L>(x2 + g2) * c + sigmoid<L>(x0 + g0) * tanh<L>(x3 + g3);
    return pack(sigmoid<L>(x1 + g1 + peephole * next) * tanh<L>(next), next);
  }
  static void step(const double *x, const double *g, double *s, double p) {
    const auto sig = [](double v) { return 1 / (1 + std::exp(-v)); };
    s[1] = sig(x[2] + g[2]) * s[1] + sig(x[0] + g[0]) * std::tanh(x[3] + g[3]);
    s[0] = sig(x[1] + g[1] + p * s[1]) * std::tanh(s[1]);
  }
};
struct tanh_cell {
  static constexpr int inputs = 1, gates0 = 1, gates1 = 0, states = 1, extras = 0;
  template <class L> TENON_FN auto operator()(L, f32<L> x, f32<L> g, f32<L>) const {
    return tanh<L>(x + g);
  }
  static void step(const double *x, const double *g, double *s, double) {
    s[0] = std::tanh(x[0] + g[0]);
  }
};
/// Resets the state before its second product.
struct gru_cell {
  static constexpr int inputs = 3, gates0 = 2, gates1 = 1, states = 1, extras = 0;
  template <class L>
  TENON_FN auto operator()(L, f32<L> x0, f32<L>, f32<L> x2, f32<L> g0, f32<L>, f32<L> h,
                           f32<L> state) const {
    const f32<L> z = sigmoid<L>(x0 + g0);
    return (1.0f - z) * tanh<L>(x2 + h) + z * state;
  }
};
struct gru_reset {
  template <class L>
  TENON_FN auto operator()(L, f32<L>, f32<L> x1, f32<L>, f32<L>, f32<L> g1, f32<L> state) const {
    return sigmoid<L>(x1 + g1) * state;
  }
};
struct no_body {};
struct plus {
  template <class L, class... V> TENON_FN auto operator()(L, f32<L> h, V... rest) const {
    return add(h, rest...);
  }
  TENON_FN static float add(float h, float y) { return h + y; }
  TENON_FN static auto add(float h, float c, float y) { return pack(h + y, c); }
};

template <class Cell, int Hidden, int Threads, int Blocks, int Rows, int Splits0, int Splits1,
          bool Reverse>
struct recurrent_case {
  dyn steps, batch;
  static constexpr int hidden = Hidden, inputs = Cell::inputs, gates0 = Cell::gates0,
                       gates1 = Cell::gates1, threads = Threads, blocks = Blocks, rows = Rows,
                       splits0 = Splits0, splits1 = Splits1;
  static constexpr int kept = (1 << Cell::states) - 1;
  static constexpr bool reverse = Reverse;
};

template <class T> double rounded(double v) {
  T e;
  store_element(&e, float(v));
  return double(load_element(&e));
}

template <class T, class Cell, int Hidden, int Threads, int Blocks, int Rows, int Splits0,
          int Splits1 = 1, bool Reverse = false>
void layer(index_t steps, index_t batch) {
  name_case("recurrent inputs %d gates %d+%d bytes %d hidden %d threads %d blocks %d rows %d "
            "splits %d,%d reverse %d, "
            "%ld steps of %ld",
            Cell::inputs, Cell::gates0, Cell::gates1, int(sizeof(T)), Hidden, Threads, Blocks, Rows,
            Splits0, Splits1, int(Reverse), long(steps), long(batch));
  constexpr int H = Hidden, S = Cell::states;
  recurrent_case<Cell, Hidden, Threads, Blocks, Rows, Splits0, Splits1, Reverse> cfg;
  cfg.steps = dyn(steps);
  cfg.batch = dyn(batch);
  buffer<T> x(steps * batch * Cell::inputs * H), w0(Cell::gates0 * H * H),
      w1(Cell::gates1 * H * H + 1), h(batch * H), c(batch * H), extra(H), y(steps * batch * H),
      yc(steps * batch * H), added(steps * batch * H);
  for (auto *b : {&x, &h, &c, &extra, &added})
    b->fill_random();
  for (auto *b : {&w0, &w1}) {
    for (index_t i = 0; i < b->size(); ++i)
      b->set(i, random_float() / std::sqrt(float(H)));
    b->upload();
  }
  std::vector<double> want(size_t(y.size())), want_c(size_t(y.size()));
  for (index_t row = 0; row < batch; ++row) {
    std::vector<double> state(size_t(S) * H), next(state);
    for (int u = 0; u < H; ++u) {
      state[size_t(u)] = double(h.get(row * H + u));
      if (S > 1)
        state[size_t(H + u)] = double(c.get(row * H + u));
    }
    const auto product = [&](const buffer<T> &w, const std::vector<double> &v, int gate, int u) {
      double sum = 0;
      for (int k = 0; k < H; ++k)
        sum += double(w.get((gate * index_t(H) + u) * H + k)) * v[size_t(k)];
      return sum;
    };
    for (index_t step = 0; step < steps; ++step) {
      const index_t t = Reverse ? steps - 1 - step : step, at = (t * batch + row) * H;
      const auto in = [&](int i, int u) {
        return double(x.get(((t * batch + row) * Cell::inputs + i) * H + u));
      };
      if constexpr (Cell::gates1 > 0) {
        const auto sig = [](double v) { return 1 / (1 + std::exp(-v)); };
        std::vector<double> kept(H);
        for (int u = 0; u < H; ++u)
          kept[size_t(u)] = rounded<T>(sig(in(1, u) + product(w0, state, 1, u)) * state[size_t(u)]);
        for (int u = 0; u < H; ++u) {
          const double z = sig(in(0, u) + product(w0, state, 0, u));
          next[size_t(u)] = rounded<T>((1 - z) * std::tanh(in(2, u) + product(w1, kept, 0, u)) +
                                       z * state[size_t(u)]);
        }
      } else {
        for (int u = 0; u < H; ++u) {
          double given[Cell::inputs], gates[Cell::gates0], s[S];
          for (int i = 0; i < Cell::inputs; ++i)
            given[i] = in(i, u);
          for (int g = 0; g < Cell::gates0; ++g)
            gates[g] = product(w0, state, g, u);
          for (int i = 0; i < S; ++i)
            s[i] = state[size_t(i * H + u)];
          Cell::step(given, gates, s, double(extra.get(u)));
          for (int i = 0; i < S; ++i)
            next[size_t(i * H + u)] = rounded<T>(s[i]);
        }
      }
      state = next;
      for (int u = 0; u < H; ++u) {
        want[size_t(at + u)] = state[size_t(u)] + double(added.get(at + u));
        if (S > 1)
          want_c[size_t(at + u)] = state[size_t(H + u)];
      }
    }
  }
  const dims<dyn, dyn, fixed<1>> dense(batch * H, H, {}),
      wide(batch * H * Cell::inputs, H * Cell::inputs, {});
  const dims<dyn, fixed<1>> flat(H, {});
  const auto in = make_view<const T>(x.device(), wide);
  const auto state = make_view<const T>(h.device(), flat),
             cell = make_view<const T>(c.device(), flat);
  const T *const first = w0.device(), *const second = Cell::gates1 > 0 ? w1.device() : nullptr;
  const auto ins = pack(make_view<const T>(added.device(), dense));
  const auto out = make_view(y.device(), dense), out_c = make_view(yc.device(), dense);
  if constexpr (Cell::extras > 0)
    launch(cuda::recurrent(cfg, in, first, second, pack(state, cell),
                           pack(make_view<const T>(extra.device(), dims<fixed<1>>{})), no_body{},
                           Cell{}, pack(out, out_c), ins, plus{}));
  else if constexpr (Cell::gates1 > 0)
    launch(cuda::recurrent(cfg, in, first, second, pack(state), pack(), gru_reset{}, Cell{},
                           pack(out), ins, plus{}));
  else
    launch(cuda::recurrent(cfg, in, first, second, pack(state), pack(), no_body{}, Cell{},
                           pack(out), ins, plus{}));
  // Steps round their states, now and then to another neighbour than the reference's.
  const double tolerance = sizeof(T) == 4 ? 4e-6 : 4 * rounding<T>();
  expect_close(y, want, tolerance);
  if (S > 1)
    expect_close(yc, want_c, tolerance);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  layer<f16, tanh_cell, 128, 512, 1, 1, 2>(7, 1);
  layer<f16, lstm_cell, 72, 256, 1, 8, 4>(5, 11);
  layer<f16, gru_cell, 40, 128, 1, 3, 1, 4>(4, 7);
  layer<float, lstm_cell, 33, 256, 1, 4, 2>(6, 5);
  layer<float, gru_cell, 64, 512, 1, 1, 8, 16, true>(6, 2);
  layer<f16, lstm_cell, 31, 128, 1, 2, 1, 1, true>(3, 3); // odd rows of weights
  layer<f16, tanh_cell, 8, 32, 1, 1, 1>(1, 1);
  layer<f16, lstm_cell, 128, 256, 1, 1, 2>(3, 1); // weights that registers have no room for
#if defined(TENON_TEST_ON_DEVICE) || TENON_EMULATED_SPECIFIC
  layer<f16, lstm_cell, 128, 128, 8, 8, 2>(6, 13);
  layer<bf16, gru_cell, 100, 256, 4, 5, 4, 8>(5, 9);
  layer<f16, tanh_cell, 20, 64, 8, 1, 2>(9, 2); // blocks without units
  layer<f16, lstm_cell, 256, 512, 4, 8, 1, 1, true>(3, 8);
  layer<float, lstm_cell, 96, 256, 2, 1, 8>(5, 3);
  layer<float, gru_cell, 48, 256, 4, 8, 4, 8>(4, 8);
#endif
#endif
  layer<f16, lstm_cell, 64, 256, 1, 1, 2>(4, 1);
  layer<float, tanh_cell, 24, 128, 1, 2, 4>(4, 3);
#if defined(TENON_TEST_ON_DEVICE) || TENON_EMULATED_SPECIFIC
  layer<bf16, gru_cell, 64, 256, 2, 2, 4, 4>(4, 3);
#endif
  return finish();
}
