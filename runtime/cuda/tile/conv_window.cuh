// Defines `conv_window`: which pixels the window of a convolution's output covers.
#ifndef TENON_RUNTIME_CUDA_TILE_CONV_WINDOW_CUH
#define TENON_RUNTIME_CUDA_TILE_CONV_WINDOW_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {

/// A place in an image, or beyond its border; z: in volumes.
struct pixel {
  int image, z, y, x;
};

/// Config: as of conv_problem (contraction.cuh). Volume: in three dimensions.
template <class Config, bool Volume> struct conv_window {
  TENON_FN static int plane(const Config &cfg) { return int(cfg.out_h * cfg.out_w); }
  /// Outputs of an image.
  TENON_FN static int pixels(const Config &cfg) {
    if constexpr (Volume)
      return int(index_t(cfg.out_d)) * plane(cfg);
    else
      return plane(cfg);
  }
  TENON_FN static int taps(const Config &cfg) {
    if constexpr (Volume)
      return int(cfg.kernel_d * cfg.kernel_h * cfg.kernel_w);
    else
      return int(cfg.kernel_h * cfg.kernel_w);
  }

  /// Output number m.
  TENON_DEVICE static pixel output(const Config &cfg, int m) {
    const int w = int(index_t(cfg.out_w)), image = m / pixels(cfg), rest = m - image * pixels(cfg);
    int z = 0, in_plane = rest;
    if constexpr (Volume) {
      z = rest / plane(cfg);
      in_plane = rest - z * plane(cfg);
    }
    return {image, z, in_plane / w, in_plane % w};
  }
  /// What its window's first tap covers.
  TENON_DEVICE static pixel corner(const Config &cfg, int m) {
    pixel p = output(cfg, m);
    if constexpr (Volume)
      p.z = p.z * int(index_t(cfg.stride_d)) - int(index_t(cfg.pad_front));
    p.y = p.y * int(index_t(cfg.stride_h)) - int(index_t(cfg.pad_top));
    p.x = p.x * int(index_t(cfg.stride_w)) - int(index_t(cfg.pad_left));
    return p;
  }
  /// How far from the first tap number `tap` lies.
  TENON_DEVICE static pixel offset(const Config &cfg, int tap) {
    const int kernel_w = int(index_t(cfg.kernel_w));
    int z = 0, in_plane = tap;
    if constexpr (Volume) {
      const int window = int(cfg.kernel_h * cfg.kernel_w);
      z = tap / window;
      in_plane = tap - z * window;
      z *= int(index_t(cfg.dilation_d));
    }
    return {0, z, in_plane / kernel_w * int(index_t(cfg.dilation_h)),
            in_plane % kernel_w * int(index_t(cfg.dilation_w))};
  }
  /// Whether the pixel `by` away from p lies in the image.
  TENON_DEVICE static bool is_inside(const Config &cfg, const pixel &p, const pixel &by) {
    bool inside = unsigned(p.y + by.y) < unsigned(index_t(cfg.in_h)) &&
                  unsigned(p.x + by.x) < unsigned(index_t(cfg.in_w));
    if constexpr (Volume)
      inside = inside && unsigned(p.z + by.z) < unsigned(index_t(cfg.in_d));
    return inside;
  }

private:
  template <class Extent> TENON_FN static constexpr int at_most() {
    if constexpr (Extent::is_fixed)
      return int(Extent::value);
    else
      return 64;
  }
  TENON_FN static constexpr int most_taps() {
    int taps = at_most<decltype(Config::kernel_h)>() * at_most<decltype(Config::kernel_w)>();
    if constexpr (Volume)
      taps *= at_most<decltype(Config::kernel_d)>();
    return taps;
  }
  struct bits {
    unsigned inside;
    TENON_DEVICE bits() : inside(0) {}
    TENON_DEVICE bits(const Config &cfg, const pixel &first) : inside(0) {
      TENON_UNROLL
      for (int tap = 0; tap < most_taps(); ++tap)
        inside |= unsigned(is_inside(cfg, first, offset(cfg, tap))) << tap;
    }
    TENON_DEVICE bool covers(const Config &, int tap, const pixel &) const {
      return (inside >> tap & 1) != 0;
    }
  };
  struct place {
    pixel first;
    TENON_DEVICE place() : first{0, 0, -(1 << 28), 0} {}
    TENON_DEVICE place(const Config &, const pixel &p) : first(p) {}
    TENON_DEVICE bool covers(const Config &cfg, int, const pixel &by) const {
      return is_inside(cfg, first, by);
    }
  };

public:
  /// Which taps of a window lie in the image, by its first tap; none by default. A bit of each
  /// where they are known to be few. covers(cfg, tap, offset of tap).
  using cover = typename detail::choose_type<(most_taps() <= 32), bits, place>::type;
};

} // namespace cuda
} // namespace tenon

#endif
