// Defines complex numbers as elements: real and imaginary part side by side. They are moved, and no
// function takes them.
#ifndef TENON_RUNTIME_COMMON_COMPLEX_H
#define TENON_RUNTIME_COMMON_COMPLEX_H

#include "common/lanes.h"

namespace tenon {

struct complex64 {
  float real, imaginary;
};
struct complex128 {
  double real, imaginary;
};

namespace detail {
template <> constexpr int lane_bytes<complex64> = 16;
}

template <class L> using c64 = typename L::template of<complex64>;
template <class L> using c128 = typename L::template of<complex128>;

} // namespace tenon

#endif
