// Architectures: 900a
//
// Tests of strip_sm80 and strip_sm90: 1 to 16 rows of halves with weights of 16, 8 and 4 bits,
// scales of blocks and of outputs, ragged sizes, strips shared by two blocks, two matrices, rows
// that the kernel normalises; results of one row equal in every bit what it gives beside others.
#include "cuda/base/computed.cuh"
#include "cuda/strip/kernel.cuh"
#include "shared/harness.h"

using namespace test;

namespace {

enum class norm_kind { none, rms, layer };

struct add_bias {
  template <class L, class V> TENON_FN V operator()(L, V x, V bias) const { return x + bias; }
};
struct gate {
  template <class L, class V> TENON_FN V operator()(L, V x, V y, V bias) const {
    return x * y + bias;
  }
};
struct scaled {
  template <class L, class V> TENON_FN V operator()(L, V x, V by) const { return x * by; }
};

/// Weights [n][k], packed as the kernel has them, and what they mean; scales by blocks, or one Each
/// of each output.
template <class W, class T, class Each> struct packed_weights {
  using stored = cuda::strip_weights<W, T, Each>;
  static constexpr int bits = packed_bits<W> > 0 ? packed_bits<W> : 8 * int(sizeof(W));
  static constexpr int depth = 256 / bits, blocks = stored::scales_blocks ? depth / 32 : 0;
  static constexpr bool is_f8 = detail::is_same<W, f8e4m3>;
  int tiles;
  std::vector<double> value;
  buffer<uint8_t> w;
  buffer<typename stored::scale_type> scale;

  packed_weights(int n, int k)
      : tiles((k + 2 * depth - 1) / (2 * depth) * 2), value(size_t(n) * size_t(k)),
        w(index_t((n + 15) / 16) * tiles * 512),
        scale(max_of(n, (n + 15) / 16 * tiles * 16 * blocks)) {
    const uint8_t filler = bits == 16 || is_f8 ? 0 : bits == 8 ? 128 : 0x88;
    w.fill(filler);
    scale.fill(0.0f);
    for (int o = 0; o < n; ++o)
      for (int i = 0; i < k; ++i)
        put(o, i, value[size_t(o) * size_t(k) + size_t(i)]);
    w.upload();
    scale.upload();
  }
  static int max_of(int a, int b) { return a > b ? a : b; }

  void put(int o, int i, double &meant) {
    const int row = o % 16, in = i % 32, t = in / 8, s = in % 8 / 4, h = in % 2;
    const int r = row / 8 + 2 * (in % 4 / 2), g = row % 8;
    const index_t tile = index_t(o / 16) * tiles + (bits == 16 ? i / 32 * 2 + s : i / depth);
    const index_t lane = tile * 512 + (4 * g + t) * 16;
    if constexpr (bits == 16) {
      T stored;
      store_element(&stored, random_float());
      meant = double(load_element(&stored));
      uint8_t bytes[2];
      memcpy(bytes, static_cast<const void *>(&stored), 2);
      for (int b = 0; b < 2; ++b)
        w.set(lane + 4 * r + 2 * h + b, bytes[b]);
    } else {
      const int block = i % depth / 32;
      const index_t of = blocks ? ((tile * 8 + g) * blocks + block) * 2 + row / 8 : o;
      if (blocks ? in == 0 : i == 0)
        scale.set(of, (0.02f + 0.1f * fabsf(random_float())) / (is_f8 ? 64 : 1));
      double q;
      if constexpr (is_f8) {
        const int code = random_int(0, 126) | random_int(0, 1) << 7, at = code & 127;
        q = (at < 8 ? at / 512.0 : ldexp(8 + at % 8, at / 8 - 10)) * (code > 127 ? -1 : 1);
        const index_t place = lane + 8 * s + r / 2 * 4 + 2 * h;
        const int old = int(w.get(place)) | int(w.get(place + 1)) << 8,
                  bits_of = r % 2 ? code >> 7 << 15 | at << 7 : code >> 7 << 14 | at;
        w.set(place, uint8_t(old | bits_of));
        w.set(place + 1, uint8_t((old | bits_of) >> 8));
      } else if (bits == 8) {
        const int eight = random_int(-128, 127);
        w.set(lane + 8 * s + 2 * r + h, uint8_t(eight + 128));
        q = eight;
      } else {
        const int four = random_int(-8, 7), nibble = 4 * h + r;
        const index_t byte = lane + 4 * (2 * block + s) + nibble / 2;
        const int old = int(w.get(byte)), shift = nibble % 2 * 4;
        w.set(byte, uint8_t((old & ~(15 << shift)) | (four + 8) << shift));
        q = four;
      }
      meant = q * double(scale.get(of));
    }
  }
  const stored of() { return {w.device(), scale.device()}; }
};

/// What the kernel is told of how rows lie, with and without a norm.
template <bool Aligned, bool Norm> struct lies { static constexpr bool aligned = Aligned; };
template <bool Aligned> struct lies<Aligned, true> { static constexpr bool whole = Aligned; };
template <class M, int Rows, int N, int K, class Lies, class Schedule>
struct config : Schedule, Lies {
  M m;
  static constexpr int rows = Rows, n = N, k = K;
};

template <class W, class T, int N, int K, int Count, norm_kind Norm, class Schedule,
          class Each = void>
struct strip_case {
  packed_weights<W, T, Each> first{N, K}, second{Count > 1 ? N : 1, Count > 1 ? K : 1};
  buffer<T> bias{N}, gamma{K};

  strip_case() {
    bias.fill_random();
    gamma.fill_random();
  }

  /// `m`: fixed or dyn, Rows at most.
  template <bool CopyEngine, int Rows, bool Aligned, class M> void run(T *x, T *y, M m) {
    config<M, Rows, N, K, lies<Aligned, Norm != norm_kind::none>, Schedule> cfg{};
    cfg.m = m;
    cuda::strip_matrices<Count, W, T, Each> matrices{};
    matrices.of[0] = first.of();
    if (Count > 1)
      matrices.of[Count - 1] = second.of();
    const auto rows = make_view(static_cast<const T *>(x), dims<dyn, fixed<1>>(K, {}));
    const auto outs = pack(make_view(y, dims<dyn, fixed<1>>(N, {})));
    const auto ins =
        pack(make_view(static_cast<const T *>(bias.device()), dims<fixed<0>, fixed<1>>({}, {})));
    const auto by =
        pack(make_view(static_cast<const T *>(gamma.device()), dims<fixed<0>, fixed<1>>({}, {})));
    const auto go = [&](auto norm) {
      typename std::conditional<Count == 1, add_bias, gate>::type body;
      if constexpr (CopyEngine)
        launch(cuda::strip_sm90(cfg, rows, matrices, outs, ins, body, norm));
      else
        launch(cuda::strip_sm80(cfg, rows, matrices, outs, ins, body, norm));
    };
    if constexpr (Norm == norm_kind::none)
      go(cuda::no_norm{});
    else
      go(cuda::make_row_norm<Norm == norm_kind::layer, K % 3 != 0>(1e-5f, by, scaled{}));
  }

  /// Fewer rows: of what `Most` rows give.
  template <bool CopyEngine, int Most, int... Fewer> void check(const char *name) {
    constexpr bool aligned = K % 8 == 0;
    name_case("%s%s %d bits n%d k%d m%d x%d norm %d tiles %d strips %d stages %d splits %d", name,
              CopyEngine ? "_sm90" : "_sm80", packed_weights<W, T, Each>::bits, N, K, Most, Count,
              int(Norm), Schedule::tiles, Schedule::strips, Schedule::stages, Schedule::splits);
    buffer<T> x(Most * K), y(Most * N);
    x.fill_random();
    run<CopyEngine, Most, aligned>(x.device(), y.device(), fixed<Most>{});
    std::vector<double> want;
    for (int m = 0; m < Most; ++m) {
      std::vector<double> row;
      for (int i = 0; i < K; ++i)
        row.push_back(double(x.get(m * K + i)));
      normalize(row);
      for (int o = 0; o < N; ++o) {
        double sum[2] = {};
        for (int c = 0; c < Count; ++c)
          for (int i = 0; i < K; ++i)
            sum[c] +=
                row[size_t(i)] * (c ? second : first).value[size_t(o) * size_t(K) + size_t(i)];
        want.push_back(Count > 1 ? sum[0] * sum[1] + double(bias.get(o))
                                 : sum[0] + double(bias.get(o)));
      }
    }
    expect_close(y, want, rounding<T>() * (Norm == norm_kind::none ? 1 : 2) + 1e-5);
    (check_rows<CopyEngine, Fewer, aligned>(x.device(), y, fixed<Fewer>{}), ...);
    if constexpr (Most > 1) { // of as many as there may be
      check_rows<CopyEngine, Most, aligned>(x.device(), y, dyn(Most));
      check_rows<CopyEngine, Most, aligned>(x.device(), y, dyn(1));
    }
#if defined(TENON_TEST_ON_DEVICE)
    for (int i = 0; i < 50; ++i) // each time the same bits
      check_rows<CopyEngine, Most, aligned>(x.device(), y, fixed<Most>{});
#endif
  }
  template <bool CopyEngine, int Rows, bool Aligned, class M>
  void check_rows(T *x, buffer<T> &whole, M m) {
    const index_t count = index_t(m), written = count * N;
    buffer<T> y(Rows * N);
    y.fill(compute_t<T>(-7));
    run<CopyEngine, Rows, Aligned>(x, y.device(), m);
    const std::string rows = std::to_string(count) + " rows";
    expect_same(
        y, [&](index_t i) { return i < written ? whole.get(i) : compute_t<T>(-7); },
        (rows + " differ from the first of more, or others were written").c_str());
  }
  void normalize(std::vector<double> &row) {
    if (Norm == norm_kind::none)
      return;
    double mean = 0, squares = 0;
    for (double v : row)
      mean += Norm == norm_kind::layer ? v / K : 0;
    for (double v : row)
      squares += (v - mean) * (v - mean) / K;
    for (int i = 0; i < K; ++i)
      row[size_t(i)] = (row[size_t(i)] - mean) / sqrt(squares + 1e-5) * double(gamma.get(i));
  }
};

using cuda::strip_schedule; // tiles, strips, stages, splits, blocks
constexpr auto none = norm_kind::none, rms = norm_kind::rms, layer = norm_kind::layer;

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  // Every number of rows.
  strip_case<f16, f16, 200, 544, 1, none, strip_schedule<2, 4, 4, 1, 5>>{}
      .check<true, 8, 1, 2, 3, 4, 5, 6, 7>("strip");
  strip_case<f16, f16, 200, 544, 1, none, strip_schedule<2, 2, 4, 1, 5>>{}
      .check<true, 16, 1, 8, 9, 10, 11, 12, 13, 14, 15>("strip");
  strip_case<f16, f16, 200, 544, 1, none, strip_schedule<4, 4, 3, 1, 5>>{}.check<false, 8, 1>(
      "strip");
  // Ragged depths and outputs, one strip, more blocks than strips.
  strip_case<bf16, bf16, 37, 1100, 1, none, strip_schedule<2, 4, 4, 1, 132>>{}.check<true, 3, 1>(
      "strip");
  strip_case<bf16, bf16, 37, 1100, 1, none, strip_schedule<4, 2, 2, 1, 2>>{}.check<false, 16, 1>(
      "strip");
  strip_case<f16, f16, 5, 3, 1, none, strip_schedule<2, 1, 2, 1, 4>>{}.check<true, 2, 1>("strip");
  // Rows that are brought in several parts, once a pass.
  strip_case<f16, f16, 80, 4608, 1, none, strip_schedule<4, 2, 4, 1, 2>>{}.check<true, 8, 1>(
      "strip");
  // Strips shared by two blocks.
  strip_case<f16, f16, 200, 1056, 1, none, strip_schedule<2, 4, 4, 2, 8>>{}.check<true, 8, 1>(
      "strip");
  // Two matrices.
  strip_case<f16, f16, 120, 512, 2, none, strip_schedule<2, 4, 4, 1, 3>>{}.check<true, 8, 1>(
      "strip");
  strip_case<f16, f16, 120, 512, 2, rms, strip_schedule<2, 2, 4, 2, 6>>{}.check<true, 1>("strip");
  strip_case<bf16, bf16, 72, 520, 2, rms, strip_schedule<2, 4, 3, 1, 3>>{}.check<false, 5, 1>(
      "strip");
  // Normalised rows.
  strip_case<f16, f16, 100, 2056, 1, rms, strip_schedule<4, 4, 4, 1, 3>>{}.check<true, 9, 1>(
      "strip");
  // Integers with scales.
  strip_case<int8_t, f16, 200, 608, 1, none, strip_schedule<2, 4, 4, 1, 5>>{}.check<true, 8, 1>(
      "strip");
  strip_case<int4_t, f16, 200, 1088, 1, none, strip_schedule<2, 4, 4, 1, 5>>{}.check<true, 8, 1, 4>(
      "strip");
  strip_case<int4_t, f16, 200, 2080, 1, none, strip_schedule<2, 2, 4, 2, 8>>{}.check<true, 16, 1>(
      "strip");
  strip_case<int4_t, bf16, 72, 352, 1, none, strip_schedule<2, 4, 4, 1, 3>>{}.check<true, 8, 1>(
      "strip");
  // One scale for each output.
  strip_case<f8e4m3, f16, 200, 608, 1, none, strip_schedule<2, 4, 4, 1, 5>, float>{}
      .check<true, 8, 1, 3>("strip");
  strip_case<f8e4m3, f16, 100, 2056, 2, rms, strip_schedule<4, 4, 4, 2, 6>, f16>{}
      .check<true, 16, 1>("strip");
  strip_case<f8e4m3, f16, 72, 320, 1, none, strip_schedule<2, 2, 4, 1, 3>>{}.check<true, 8, 1>(
      "strip");
  strip_case<int8_t, f16, 72, 517, 1, layer, strip_schedule<2, 4, 4, 1, 3>, float>{}
      .check<false, 9, 1>("strip");
#if defined(TENON_TEST_ON_DEVICE)
  // Layers of a decoder, as many blocks as a machine has: too large for the emulator.
  strip_case<f16, f16, 3072, 2048, 1, rms, strip_schedule<4, 4, 2, 2, 132>>{}.check<true, 16, 1>(
      "strip");
  strip_case<f16, f16, 2048, 2048, 1, none, strip_schedule<4, 4, 3, 1, 132>>{}.check<true, 16, 1>(
      "strip");
  strip_case<f16, f16, 2048, 2048, 2, rms, strip_schedule<2, 2, 3, 1, 132>>{}.check<true, 16, 1>(
      "strip");
  strip_case<f16, f16, 2048, 8192, 1, none, strip_schedule<4, 4, 3, 2, 132>>{}.check<true, 16, 1>(
      "strip");
#endif
#endif
  strip_case<f16, f16, 20, 40, 1, none, strip_schedule<4, 4, 4, 2, 4>>{}.check<true, 1>("strip");
  strip_case<f16, f16, 100, 517, 1, layer, strip_schedule<2, 4, 4, 1, 3>>{}.check<true, 4, 1>(
      "strip");
  strip_case<int8_t, f16, 72, 320, 1, none, strip_schedule<2, 2, 4, 1, 3>>{}.check<false, 16, 1>(
      "strip");
  strip_case<int4_t, f16, 72, 320, 2, rms, strip_schedule<2, 4, 4, 1, 3>>{}.check<true, 1>("strip");
  strip_case<int4_t, f16, 72, 352, 1, none, strip_schedule<4, 4, 3, 1, 3>>{}.check<false, 8, 1>(
      "strip");
  strip_case<f8e4m3, f16, 72, 352, 1, none, strip_schedule<4, 4, 3, 1, 3>, float>{}
      .check<false, 8, 1>("strip");
  return finish();
}
