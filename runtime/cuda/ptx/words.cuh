// Defines loads and stores of whole words by one instruction each, wherever they are written. Plain
// ones the CUDA compiler splits into elements, searches for others that they may meet, and merges
// again: a tenth of its time, where kernels are unrolled, for the same instructions.
#ifndef TENON_RUNTIME_CUDA_PTX_WORDS_CUH
#define TENON_RUNTIME_CUDA_PTX_WORDS_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// Words in global memory, at multiples of their size.
struct global_words {
  /// The word where `there`, else zero; no branch.
  TENON_DEVICE static word16 load_if(bool there, const void *p) {
    word16 w = {};
#if defined(__CUDA_ARCH__)
    asm volatile("{\n"
                 " .reg .pred there;\n"
                 " setp.ne.s32 there, %5, 0;\n"
                 " @there ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "+r"(w.bits.x), "+r"(w.bits.y), "+r"(w.bits.z), "+r"(w.bits.w)
                 : "l"(__cvta_generic_to_global(p)), "r"(int(there)));
#else
    if (there)
      w = *static_cast<const word16 *>(p);
#endif
    return w;
  }
};

/// Words in shared memory, at multiples of their size.
struct shared_words {
  TENON_DEVICE static void store(shared_place p, const word16 &w) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(p.address), "r"(w.bits.x),
                 "r"(w.bits.y), "r"(w.bits.z), "r"(w.bits.w)
                 : "memory");
#else
    (void)p, (void)w;
#endif
  }
  TENON_DEVICE static void store(shared_place p, float first, float second) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(p.address), "f"(first), "f"(second)
                 : "memory");
#else
    (void)p, (void)first, (void)second;
#endif
  }
  TENON_DEVICE static void store(shared_place p, int first, int second) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(p.address), "r"(first), "r"(second)
                 : "memory");
#else
    (void)p, (void)first, (void)second;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
