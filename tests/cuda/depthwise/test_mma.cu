// Architectures: 800
//
// Tests of depthwise_mma_sm80.
#include "common/scalar.h"
#include "cuda/depthwise/mma.cuh"
#include "shared/harness.h"

using namespace test;

namespace {

/// relu(acc + bias), plus a residual.
struct bias_relu_add {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias, f32<L> residual) const {
    return relu<L>(acc + bias) + residual;
  }
};

template <index_t C, index_t KH, index_t KW, bool Whole> struct band_case : cuda::window_defaults {
  static constexpr bool whole_runs = Whole;
  dyn batch, in_h, in_w, out_h, out_w, pad_top, pad_left;
  static constexpr fixed<C> channels{};
  static constexpr fixed<KH> kernel_h{};
  static constexpr fixed<KW> kernel_w{};
};

/// A convolution of random operands, NHWC, and its reference.
template <class T, index_t C, index_t KH, index_t KW, bool Whole = true> class layer {
public:
  layer(index_t n, index_t h, index_t w, index_t pad)
      : n_(n), h_(h), w_(w), pad_(pad), oh_(h + 2 * pad - KH + 1), ow_(w + 2 * pad - KW + 1),
        x_(n * h * w * C), y_(n * oh_ * ow_ * C), residual_(n * oh_ * ow_ * C),
        weights_(C * KH * (KW + 1) * 2), bias_(C) {
    x_.fill_random();
    residual_.fill_random();
    bias_.fill_random();
    weights_.fill(0);
    for (index_t row = 0; row < C * KH; ++row)
      for (index_t kx = 0; kx < KW; ++kx) {
        const index_t at = (row * (KW + 1) + kx) * 2 + 1;
        weights_.set(at, random_float());
        weights_.set(at + 1, weights_.get(at));
      }
    weights_.upload();
  }
  index_t size() const { return n_ * oh_ * ow_ * C; }
  /// Whether the window of output i covers a pixel.
  bool covers(index_t i, index_t image, index_t channel, index_t y, index_t x) const {
    const index_t ky = y + pad_ - i / C / ow_ % oh_, kx = x + pad_ - i / C % ow_;
    return i / C / ow_ / oh_ == image && i % C == channel && ky >= 0 && ky < KH && kx >= 0 &&
           kx < KW;
  }
  std::vector<double> want() {
    std::vector<double> all;
    for (index_t i = 0; i < size(); ++i) {
      const index_t c = i % C, ox = i / C % ow_, oy = i / C / ow_ % oh_, b = i / C / ow_ / oh_;
      double sum = double(bias_.get(c));
      for (index_t ky = 0; ky < KH; ++ky)
        for (index_t kx = 0; kx < KW; ++kx) {
          const index_t iy = oy - pad_ + ky, ix = ox - pad_ + kx;
          if (iy >= 0 && iy < h_ && ix >= 0 && ix < w_)
            sum += double(x_.get(((b * h_ + iy) * w_ + ix) * C + c)) *
                   double(weights_.get(((c * KH + ky) * (KW + 1) + kx) * 2 + 1));
        }
      all.push_back((sum > 0 ? sum : 0) + double(residual_.get(i)));
    }
    return all;
  }
  void run() {
    band_case<C, KH, KW, Whole> cfg;
    cfg.batch = n_, cfg.in_h = h_, cfg.in_w = w_, cfg.out_h = oh_, cfg.out_w = ow_;
    cfg.pad_top = pad_, cfg.pad_left = pad_;
    using pitch = cuda::multiple<8>;
    using image = dims<pitch, fixed<1>, pitch, fixed<C>>;
    const image in(h_ * w_ * C, {}, w_ * C, {}), out(oh_ * ow_ * C, {}, ow_ * C, {});
    launch(cuda::depthwise_mma_sm80(
        cfg, make_view<const T>(x_.device(), in), static_cast<const T *>(weights_.device()),
        pack(make_view(y_.device(), out)),
        pack(make_view<const float>(bias_.device(), extents<0, 1, 0, 0>{}),
             make_view<const T>(residual_.device(), out)),
        bias_relu_add{}));
  }
  buffer<T> &x() { return x_; }
  buffer<T> &y() { return y_; }

private:
  index_t n_, h_, w_, pad_, oh_, ow_;
  buffer<T> x_, y_, residual_, weights_;
  buffer<float> bias_;
};

template <class T, index_t C, index_t KH, index_t KW, bool Whole = true>
void depthwise(index_t n, index_t h, index_t w, index_t pad) {
  name_case("n%ld %ldx%ld c%ld k%ldx%ld p%ld%s", long(n), long(h), long(w), long(C), long(KH),
            long(KW), long(pad), Whole ? "" : ", runs that may be split");
  layer<T, C, KH, KW, Whole> l(n, h, w, pad);
  l.run();
  expect_close(l.y(), l.want(), rounding<T>() + 1e-6);
}

/// A pixel that is infinite: it goes to the outputs whose windows cover it, and to no others.
template <class T> void infinite() {
  name_case("an infinite pixel");
  constexpr index_t C = 40, K = 7, n = 2, h = 19, w = 21;
  layer<T, C, K, K> l(n, h, w, 3);
  const index_t image = 1, y = 8, x = 10, channel = 37;
  const std::vector<double> want = l.want();
  l.x().set(((image * h + y) * w + x) * C + channel, INFINITY);
  l.x().upload();
  l.run();
  l.y().download();
  index_t wrong = 0, infinities = 0;
  for (index_t i = 0; i < l.size(); ++i) {
    const double got = double(l.y().get(i));
    if (!l.covers(i, image, channel, y, x)) {
      wrong += !(std::fabs(got - want[size_t(i)]) <= 3 * (rounding<T>() + 1e-6) * 10);
    } else if (std::isinf(got)) { // relu makes the other half of them zero
      ++infinities;
    } else {
      wrong += !(std::fabs(got) < 2);
    }
  }
  char text[80];
  snprintf(text, sizeof(text), "%ld wrong, %ld infinite", long(wrong), long(infinities));
  record(wrong == 0 && infinities > 5 && infinities < 45, text);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  depthwise<f16, 32, 7, 7>(1, 16, 16, 3);
  depthwise<f16, 8, 7, 7>(1, 5, 6, 3);
  depthwise<f16, 40, 7, 7>(2, 17, 35, 3);
  depthwise<f16, 72, 7, 7>(3, 18, 15, 3);
  depthwise<f16, 96, 5, 5>(1, 33, 20, 2);
  depthwise<f16, 32, 9, 9>(1, 12, 19, 4);
  depthwise<f16, 16, 3, 9>(1, 20, 9, 0);
  depthwise<f16, 24, 1, 5>(2, 1, 50, 2);
  depthwise<bf16, 64, 7, 7>(1, 14, 14, 3);
  infinite<f16>();
  infinite<bf16>();
#endif
  depthwise<f16, 40, 7, 7, false>(1, 17, 9, 1);
  depthwise<bf16, 32, 8, 6>(2, 10, 23, 2);
  return finish();
}
