// Defines lane_group: how the threads of a block share results that each need a fold over many
// elements (reductions, softmax).
//
// `Lanes` threads fold one result, every Lanes-th element each; their partial values are combined
// in a fixed order: plain numbers of neighbouring threads by shuffles within a warp, then in shared
// memory across warps; all others in shared memory. Results per block: Threads / Lanes. With
// Across, neighbouring threads work on neighbouring results (right when those are contiguous in
// memory), otherwise on neighbouring elements of one.
#ifndef TENON_RUNTIME_CUDA_BASE_LANE_GROUP_CUH
#define TENON_RUNTIME_CUDA_BASE_LANE_GROUP_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

template <int Threads, int Lanes, bool Across> struct lane_group {
  static_assert(detail::is_power_of_two(Lanes) && Lanes <= Threads && Threads % Lanes == 0,
                "a power of two of threads folds one result");
  static constexpr int results = Threads / Lanes;

  /// Which result of the block, and which share of it, this thread works on.
  TENON_DEVICE static int result() { return Across ? thread() % results : thread() / Lanes; }
  TENON_DEVICE static int lane() { return Across ? thread() / results : thread() % Lanes; }

  /// Whether a warp's values are combined in registers; combining must commute exactly then.
  template <class T>
  static constexpr bool shuffles = !Across && Lanes > 1 &&
                                   (detail::is_same<T, float> || detail::is_same<T, double>);

  template <class T> TENON_FN static constexpr int shared_bytes() {
    if (shuffles<T>)
      return Lanes > 32 ? Threads / 32 * int(sizeof(T)) : 0;
    return Lanes > 1 ? Threads * int(sizeof(T)) : 0;
  }
  /// Combines the lanes' values; all lanes receive the whole. Every thread of the block takes part.
  template <class T, class Combine>
  TENON_DEVICE static T combine(T mine, unsigned char *shared, Combine combine) {
    if constexpr (shuffles<T>) {
      TENON_UNROLL
      for (int mask = (Lanes < 32 ? Lanes : 32) / 2; mask > 0; mask /= 2)
        mine = combine(mine, shuffle_xor(mine, mask));
      if constexpr (Lanes > 32) {
        constexpr int warps = Lanes / 32;
        T *values = reinterpret_cast<T *>(shared);
        sync_block(); // what was in `shared` has been read
        if (thread() % 32 == 0)
          values[warp()] = mine;
        sync_block();
        const T *own = values + result() * warps;
        mine = own[0];
        TENON_UNROLL
        for (int w = 1; w < warps; ++w)
          mine = combine(mine, own[w]);
      }
    } else if constexpr (Lanes > 1) {
      T *values = reinterpret_cast<T *>(shared);
      const int place = Across ? 1 : Lanes, step = Across ? results : 1;
      T *own = values + result() * place;
      sync_block(); // what was in `shared` has been read
      own[lane() * step] = mine;
      TENON_UNROLL
      for (int half = Lanes / 2; half > 0; half /= 2) {
        sync_block();
        if (lane() < half)
          own[lane() * step] = combine(own[lane() * step], own[(lane() + half) * step]);
      }
      sync_block();
      mine = own[0];
    }
    return mine;
  }
};

} // namespace cuda
} // namespace tenon

#endif
