// Defines what every kernel and every generated file starts from: extents that are either
// compile-time constants or run-time values, and views of memory; beside common/arithmetic.h.
//
// Only C headers are used: firmware toolchains ship no <cstdint> or <tuple>.
#ifndef TENON_RUNTIME_COMMON_BASE_H
#define TENON_RUNTIME_COMMON_BASE_H

#include "common/arithmetic.h"

#include <stddef.h>
#include <stdint.h>

namespace tenon {

/// An extent or stride known when the file was written.
template <index_t N> struct fixed {
  static constexpr bool is_fixed = true;
  static constexpr index_t value = N;
  TENON_FN constexpr fixed() {}
  TENON_FN constexpr operator index_t() const { return N; }
};

/// An extent or stride known only when the context is prepared.
struct dyn {
  static constexpr bool is_fixed = false;
  index_t held = 0;
  TENON_FN constexpr dyn() {}
  TENON_FN constexpr dyn(index_t v) : held(v) {}
  TENON_FN constexpr operator index_t() const { return held; }
};

/// a * b, constant when both are (or one is zero): keeps strides in types.
template <class A, class B> TENON_FN constexpr auto product(A a, B b) {
  if constexpr (A::is_fixed && B::is_fixed)
    return fixed<A::value * B::value>{};
  else
    return dyn(index_t(a) * index_t(b));
}

/// A fixed-length list of extents or strides, each `fixed` or `dyn`: dims<fixed<1>, dyn, fixed<3>>.
template <class... Ds> struct dims;
template <> struct dims<> { static constexpr int rank = 0; };
template <class D, class... Rest> struct dims<D, Rest...> {
  static constexpr int rank = 1 + int(sizeof...(Rest));
  D head;
  dims<Rest...> tail;
  TENON_FN constexpr dims() {}
  TENON_FN constexpr dims(D h, Rest... r) : head(h), tail(r...) {}
  /// The i-th entry, keeping whether it is constant in its type.
  template <int I> TENON_FN constexpr auto get() const {
    if constexpr (I == 0)
      return head;
    else
      return tail.template get<I - 1>();
  }
};

/// Shorthand for all-constant lists: extents<1, 64, 56, 56>.
template <index_t... Ns> using extents = dims<fixed<Ns>...>;

namespace detail {
template <int I, class Ds> TENON_FN constexpr index_t dot(const Ds &, const index_t *) { return 0; }
template <int I, class D, class... R>
TENON_FN constexpr index_t dot(const dims<D, R...> &s, const index_t *at) {
  return index_t(s.head) * at[I] + dot<I + 1>(s.tail, at);
}
} // namespace detail

/// Bits of an element that shares its byte with neighbours (common/packed.h specialises it); 0 for
/// all others.
template <class T> inline constexpr int packed_bits = 0;
template <class T> inline constexpr int packed_bits<const T> = packed_bits<T>;

namespace detail {
template <class T> struct byte_of { using type = unsigned char; };
template <class T> struct byte_of<const T> { using type = const unsigned char; };
/// Absent unless To is const From, which From is not.
template <class From, class To> struct adds_const {};
template <class T> struct adds_const<T, const T> { using type = int; };
template <class T> struct adds_const<const T, const T> {};
} // namespace detail

/// Where a packed element is: a byte and the number of elements from its lowest bits on.
template <class T> struct packed_pointer {
  typename detail::byte_of<T>::type *bytes;
  index_t at;
  TENON_FN constexpr packed_pointer operator+(index_t n) const { return {bytes, at + n}; }
  TENON_FN constexpr packed_pointer operator-(index_t n) const { return {bytes, at - n}; }
  template <class To, typename detail::adds_const<T, To>::type = 0>
  TENON_FN constexpr operator packed_pointer<To>() const {
    return {bytes, at};
  }
};

namespace detail {
template <class T, bool Packed> struct pointer_to { using type = T *; };
template <class T> struct pointer_to<T, true> { using type = packed_pointer<T>; };
} // namespace detail
/// What addresses elements of type T: kernels add offsets to it and hand it to load_element,
/// store_element, load_strided and store_strided; those that do more with it take whole bytes only.
template <class T>
using element_pointer = typename detail::pointer_to<T, (packed_bits<T> > 0)>::type;

/// The element that starts at a byte.
template <class T, class Byte> TENON_FN element_pointer<T> element_at(Byte *byte) {
  if constexpr (packed_bits < T >> 0)
    return {byte, 0};
  else
    return reinterpret_cast<T *>(byte);
}

/// A tensor as one kernel sees it: base pointer and, for each dimension of the kernel's iteration
/// space in order, the distance in elements between neighbours (0 where the tensor is broadcast).
template <class T, class Strides> struct view {
  using element = T;
  using strides_type = Strides;
  static constexpr int rank = Strides::rank;
  element_pointer<T> data;
  Strides strides;
  /// Element offset of the iteration point `at` (one index per dimension).
  TENON_FN constexpr index_t offset(const index_t *at) const { return detail::dot<0>(strides, at); }
};

template <class T, class S> TENON_FN constexpr view<T, S> make_view(T *data, S strides) {
  return view<T, S>{data, strides};
}
template <class T, class S> TENON_FN constexpr view<T, S> make_view(packed_pointer<T> data, S s) {
  return view<T, S>{data, s};
}

/// Heterogeneous argument list for a kernel's outputs and inputs: pack(view, view, ...).
template <class... Ts> struct arguments;
template <> struct arguments<> { static constexpr int count = 0; };
template <class T, class... Rest> struct arguments<T, Rest...> {
  static constexpr int count = 1 + int(sizeof...(Rest));
  T head;
  arguments<Rest...> tail;
  template <int I> TENON_FN constexpr const auto &get() const {
    if constexpr (I == 0)
      return head;
    else
      return tail.template get<I - 1>();
  }
};
TENON_FN constexpr arguments<> pack() { return {}; }
template <class T, class... Rest>
TENON_FN constexpr arguments<T, Rest...> pack(T head, Rest... rest) {
  return {head, pack(rest...)};
}

namespace detail {
template <int I> TENON_FN constexpr bool within(const dims<> &, const dims<> &, const index_t *) {
  return true;
}
template <int I, class A, class... As, class B, class... Bs>
TENON_FN constexpr bool within(const dims<A, As...> &lo, const dims<B, Bs...> &hi,
                               const index_t *at) {
  return at[I] >= index_t(lo.head) && at[I] < index_t(hi.head) &&
         within<I + 1>(lo.tail, hi.tail, at);
}
} // namespace detail

/// A view that exists only where lo <= index < hi in every dimension and reads as `fill` elsewhere.
/// `data` is the address of iteration point 0, whether or not that lies inside.
template <class T, class Strides, class Lo, class Hi, class Fill> struct padded_view {
  using element = T;
  using strides_type = Strides;
  static constexpr int rank = Strides::rank;
  element_pointer<T> data;
  Strides strides;
  Lo lo;
  Hi hi;
  Fill fill;
  TENON_FN constexpr index_t offset(const index_t *at) const { return detail::dot<0>(strides, at); }
  TENON_FN constexpr bool inside(const index_t *at) const { return detail::within<0>(lo, hi, at); }
};
template <class T, class S, class Lo, class Hi, class Fill>
TENON_FN constexpr padded_view<T, S, Lo, Hi, Fill> make_padded_view(T *data, S strides, Lo lo,
                                                                    Hi hi, Fill fill) {
  return {data, strides, lo, hi, fill};
}
template <class T, class S, class Lo, class Hi, class Fill>
TENON_FN constexpr padded_view<T, S, Lo, Hi, Fill>
make_padded_view(packed_pointer<T> data, S strides, Lo lo, Hi hi, Fill fill) {
  return {data, strides, lo, hi, fill};
}

/// An input that is no tensor: at each point it reads as the index along dimension D, in type T.
template <class T, int D> struct index_view { using element = const T; };

/// An input read through indices: at each point, element `indices[point]` of an axis of `data`.
/// Both views are over the iteration space (stride 0 in the dimensions they do not have); a
/// negative index counts from the end, and one out of range reads the nearest element.
template <class Data, class Indices, class Stride, class Extent> struct gathered_view {
  using element = typename Data::element;
  static constexpr int rank = Data::rank;
  Data data;
  Indices indices;
  Stride stride; // of the axis, in elements
  Extent extent; // of the axis
  TENON_FN constexpr index_t offset(const index_t *at) const {
    index_t i = index_t(indices.data[indices.offset(at)]);
    const index_t n = extent;
    i = i < 0 ? i + n : i;
    i = i < 0 ? 0 : i >= n ? n - 1 : i;
    return data.offset(at) + i * index_t(stride);
  }
};
template <class Data, class Indices, class Stride, class Extent>
TENON_FN constexpr gathered_view<Data, Indices, Stride, Extent>
make_gathered_view(Data data, Indices indices, Stride stride, Extent extent) {
  return {data, indices, stride, extent};
}

/// 0, 1, ... N-1 as a parameter pack: what a kernel expands an argument list with.
template <int... I> struct indices {};
namespace detail {
template <int N, int... I> struct count_up : count_up<N - 1, N - 1, I...> {};
template <int... I> struct count_up<0, I...> { using type = indices<I...>; };
} // namespace detail
template <int N> using indices_to = typename detail::count_up<N>::type;

/// What a body with several results returns; one result is returned bare.
template <class... Ts> using results = arguments<Ts...>;

} // namespace tenon

#endif
