// Stands in for runtime/cuda/ptx/words.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_WORDS_CUH
#define TENON_RUNTIME_CUDA_PTX_WORDS_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// `p`, of a word of Bytes in shared memory.
template <int Bytes> unsigned char *checked(shared_place p) {
  if (p.address % Bytes)
    emulator::machine::fail("misaligned word in shared memory");
  return p.pointer();
}

struct global_words {
  static word16 load_if(bool there, const void *p) {
    word16 w = {};
    if (there && uintptr_t(p) % sizeof(w))
      emulator::machine::fail("misaligned word in global memory");
    if (there)
      memcpy(&w, p, sizeof(w));
    return w;
  }
};

struct shared_words {
  static void store(shared_place p, const word16 &w) { memcpy(checked<16>(p), &w, sizeof(w)); }
  template <class T> static void store(shared_place p, T first, T second) {
    const T pair[] = {first, second};
    memcpy(checked<8>(p), pair, sizeof(pair));
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
