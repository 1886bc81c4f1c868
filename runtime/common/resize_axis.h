// Defines resize_axis: which elements a resampled dimension reads, and with what weights, where the
// extents are known only at run time. The rules are those of the IR's resize; where extents are
// constants the compiler computes the same tables.
//
//   resize_axis<Mode, Position, Rounding, Taps> axis;   extents, scale and coefficients
//   axis.row(i, indices, weights)   the Taps elements that output index i adds up; an index of -1
//                                   reads nothing (tf_crop_and_resize outside of the region).
//                                   Weights are float, or double where integers are weighed
#ifndef TENON_RUNTIME_COMMON_RESIZE_AXIS_H
#define TENON_RUNTIME_COMMON_RESIZE_AXIS_H

#include "common/base.h"

namespace tenon {

enum class resize_mode { nearest, linear, cubic };
enum class resize_position {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_crop_and_resize
};
enum class resize_rounding { round_prefer_floor, round_prefer_ceil, floor, ceil };

template <resize_mode Mode, resize_position Position, resize_rounding Rounding, int Taps>
struct resize_axis {
  static constexpr int taps = Taps;
  index_t in, out;
  double scale; // 0: the quotient of the extents
  double cubic_a;
  bool exclude_outside, antialias;
  double roi_start, roi_end;

  TENON_FN double factor() const { return scale > 0 ? scale : double(out) / double(in); }

  /// T is f32 where an ulp would choose another element.
  template <class T> TENON_FN T position(index_t i) const {
    const T x = T(i), s = T(factor()), half = T(0.5);
    if constexpr (Position == resize_position::asymmetric) {
      return x / s;
    } else if constexpr (Position == resize_position::align_corners) {
      return out == 1 ? T(0) : x * T(in - 1) / T(out - 1);
    } else if constexpr (Position == resize_position::pytorch_half_pixel) {
      return out > 1 ? (x + half) / s - half : T(0);
    } else if constexpr (Position == resize_position::half_pixel_symmetric) {
      const T adjustment = T(out) / (s * T(in)), center = T(in) / T(2);
      return center * (T(1) - adjustment) + (x + half) / s - half;
    } else if constexpr (Position == resize_position::tf_crop_and_resize) {
      const T start = T(roi_start), end = T(roi_end), last = T(in - 1);
      return out > 1 ? start * last + x * (end - start) * last / T(out - 1)
                     : half * (start + end) * last;
    } else {
      return (x + half) / s - half;
    }
  }

  template <class Weight> TENON_FN void row(index_t i, int32_t *indices, Weight *weights) const {
    if (Position != resize_position::tf_crop_and_resize && in == out && factor() == 1) {
      for (int t = 0; t < Taps; ++t)
        set(indices, weights, t, i, t == 0);
      return;
    }
    if constexpr (Mode == resize_mode::nearest)
      set(indices, weights, 0, clamp(rounded(double(position<float>(i)))), 1);
    else
      weigh(i, indices, weights);
    if constexpr (Position == resize_position::tf_crop_and_resize) {
      const float p = position<float>(i);
      if (p < 0 || p > float(in - 1))
        indices[0] = -1;
    }
  }

private:
  TENON_FN static double floor_of(double p) {
    const double whole = double(index_t(p));
    return whole > p ? whole - 1 : whole;
  }
  TENON_FN static double rounded(double p) {
    if constexpr (Rounding == resize_rounding::floor)
      return floor_of(p);
    else if constexpr (Rounding == resize_rounding::ceil)
      return -floor_of(-p);
    else if constexpr (Rounding == resize_rounding::round_prefer_ceil)
      return floor_of(p + 0.5);
    else
      return -floor_of(0.5 - p);
  }
  TENON_FN index_t clamp(double p) const {
    return !(p > 0) ? 0 : p >= double(in - 1) ? in - 1 : index_t(p);
  }
  template <class Weight>
  TENON_FN static void set(int32_t *indices, Weight *weights, int tap, index_t index,
                           double weight) {
    indices[tap] = int32_t(index);
    if constexpr (Taps > 1)
      weights[tap] = Weight(weight);
  }

  /// Of the filter, at a distance from its centre.
  TENON_FN double weight(double d) const {
    d = d < 0 ? -d : d;
    if constexpr (Mode == resize_mode::linear) {
      return d < 1 ? 1 - d : 0;
    } else {
      const double a = cubic_a;
      if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
      return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
    }
  }
  TENON_FN double weight(double at, double p, double stretch) const {
    if (exclude_outside && (at < 0 || at > double(in - 1)))
      return 0;
    return weight((at - p) * stretch);
  }

  template <class Weight> TENON_FN void weigh(index_t i, int32_t *indices, Weight *weights) const {
    const double p = position<double>(i), first = floor_of(p) - (Taps / 2 - 1);
    // Shrinking with antialias stretches the filter over the elements it leaves out.
    const double stretch = antialias && factor() < 1 ? factor() : 1;
    double sum = 0;
    for (int t = 0; t < Taps; ++t)
      sum += weight(first + t, p, stretch);
    if (!(exclude_outside || antialias) || sum == 0)
      sum = 1;
    for (int t = 0; t < Taps; ++t)
      set(indices, weights, t, clamp(first + t), weight(first + t, p, stretch) / sum);
  }
};

/// Indices and weights of every output index, for resize_table<Taps>.
template <class Axis, class Weight>
TENON_FN void fill_resize_table(const Axis &axis, int32_t *indices, Weight *weights) {
  for (index_t i = 0; i < axis.out; ++i)
    axis.row(i, indices + i * Axis::taps, Axis::taps > 1 ? weights + i * Axis::taps : weights);
}

} // namespace tenon

#endif
