// Defines what warp-wide multiplications are made of: the operands' elements and fragments. A Cores
// type (tensor_cores_sm75.cuh and its like) has
//
//   runs_on(target)     machines
//   element<Stored>     what operands stored so are multiplied as, in shared memory: B
//   element_of_a<A, B>  the same of A, by what both are stored as
//   sum                 the type of sums: float or int
//   steps               how many steps of 32 bytes along K one multiplication takes
//   fragment<Count>     Count registers of a lane: 4 of A, 2 of B for each step. set(i, bits) takes
//                       what ldmatrix gives for register i
//   as_loaded           registers `r` of a fragment hold just that
//   multiply<Element>(d, a, b)   D += A * B of 16 x 8 x (32 bytes * steps), Element being A's;
//                       operands and sums lie as for mma.sync (ptx/mma_sm80.cuh)
#ifndef TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_CUH
#define TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {

/// The type of 16 bits that operands stored as Stored are multiplied as.
template <class Stored> struct half_for { using type = f16; };
template <> struct half_for<bf16> { using type = bf16; };

/// Operands of 16 bits, multiplied as they are.
struct cores_of_halves {
  using sum = float;
  template <class Stored> using element = typename half_for<Stored>::type;
  template <class A, class B> using element_of_a = element<B>;
  static constexpr int steps = 1;
  static constexpr bool as_loaded = true;
  template <int Count> struct fragment {
    unsigned r[Count];
    TENON_DEVICE void set(int i, unsigned bits) { r[i] = bits; }
  };
};

/// Operands of 8 bits, multiplied as they are stored.
template <class Sum> struct cores_of_bytes {
  using sum = Sum;
  template <class A, class B> using element_of_a = A;
  template <class B> using element = B;
  static constexpr int steps = 1;
  static constexpr bool as_loaded = true;
  template <int Count> struct fragment {
    unsigned r[Count];
    TENON_DEVICE void set(int i, unsigned bits) { r[i] = bits; }
  };
};

} // namespace cuda
} // namespace tenon

#endif
