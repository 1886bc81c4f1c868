// Defines the loops over K of contraction kernels: tiles of A and B pass through buffers of shared
// memory, which the loaders of tile_loader.cuh fill ahead of their use.
#ifndef TENON_RUNTIME_CUDA_TILE_TILE_PIPELINE_CUH
#define TENON_RUNTIME_CUDA_TILE_TILE_PIPELINE_CUH

#include "cuda/tile/tile_loader.cuh"

namespace tenon {
namespace cuda {

/// Weights of the first tiles, on their way before the dependency wait.
template <int Stages, class BLoader, class TileOf>
TENON_DEVICE void prefetch_weights(const BLoader &b, const block_part &part, TileOf tile_of) {
  if constexpr (BLoader::is_weights) {
    TENON_UNROLL
    for (int s = 0; s < Stages - 1; ++s)
      if (part.first + s < part.end)
        b.issue(tile_of(s), part.first + s);
  }
}

/// The first tiles, on their way or in their places. prefetch_weights() has run.
template <int Stages, class ALoader, class BLoader, class TileOfA, class TileOfB>
TENON_DEVICE void start_pipeline(ALoader &a, BLoader &b, const block_part &part, TileOfA tile_of_a,
                                 TileOfB tile_of_b) {
  static_assert(Stages >= 2, "two buffers at least");
  TENON_UNROLL
  for (int s = 0; s < Stages - 1; ++s) {
    if (part.first + s < part.end) {
      a.issue(tile_of_a(s), part.first + s);
      if constexpr (!BLoader::is_weights)
        b.issue(tile_of_b(s), part.first + s);
    }
    ptx::cp_async_group::commit();
  }
  if (part.first < part.end) {
    a.fetch(part.first);
    b.fetch(part.first);
    a.put(tile_of_a(0), part.first);
    b.put(tile_of_b(0), part.first);
  }
}

/// The loop over K: tiles pass through Stages buffers. multiply(stage, kt) consumes one; tile_of_a
/// and tile_of_b give a stage's memory. prefetch_weights() has run.
template <int Stages, class ALoader, class BLoader, class TileOfA, class TileOfB, class Multiply>
TENON_DEVICE void pipeline(ALoader &a, BLoader &b, const block_part &part, TileOfA tile_of_a,
                           TileOfB tile_of_b, Multiply multiply) {
  start_pipeline<Stages>(a, b, part, tile_of_a, tile_of_b);
  int stage = 0;
  TENON_NO_UNROLL
  for (int kt = part.first; kt < part.end; ++kt) {
    ptx::cp_async_group::wait<Stages - 2>();
    sync_block();
    const int ahead = stage == 0 ? Stages - 1 : stage - 1,
              next = stage + 1 == Stages ? 0 : stage + 1;
    if (kt + Stages - 1 < part.end) {
      a.issue(tile_of_a(ahead), kt + Stages - 1);
      b.issue(tile_of_b(ahead), kt + Stages - 1);
    }
    ptx::cp_async_group::commit();
    if (kt + 1 < part.end) {
      a.fetch(kt + 1);
      b.fetch(kt + 1);
    }
    multiply(stage, kt);
    if (kt + 1 < part.end) {
      a.put(tile_of_a(next), kt + 1);
      b.put(tile_of_b(next), kt + 1);
    }
    stage = next;
  }
  ptx::cp_async_group::wait<0>();
  sync_block();
}

namespace detail {
/// The state of pipeline_ahead().
template <int Stages, int Steps, bool Branches, class Fragments, class ALoader, class BLoader,
          class TileOfA, class TileOfB, class Load, class Multiply>
struct loop_ahead {
  ALoader &a;
  BLoader &b;
  const block_part &part;
  TileOfA tile_of_a;
  TileOfB tile_of_b;
  Load load;
  Multiply multiply;

  TENON_DEVICE void run() {
    Fragments f[2];
    start_pipeline<Stages>(a, b, part, tile_of_a, tile_of_b);
    ptx::cp_async_group::wait<Stages - 2>();
    sync_block();
    if (part.first < part.end)
      load(f[0], 0, part.first, 0);
    int stage = 0;
    TENON_NO_UNROLL
    for (int kt = part.first; kt < part.end; ++kt) {
      if (kt + 1 < part.end) {
        a.fetch(kt + 1);
        b.fetch(kt + 1);
      }
      take_step<0>(f, stage, kt);
      if constexpr (Steps % 2 == 1)
        f[0] = f[1];
      stage = stage + 1 == Stages ? 0 : stage + 1;
    }
    ptx::cp_async_group::wait<0>();
    sync_block();
  }
  /// Step S of tile `kt` and those behind it; f[S % 2] is loaded. A template, since registers want
  /// constant places even where a compiler would rather not unroll.
  template <int S> TENON_DEVICE void take_step(Fragments (&f)[2], int stage, int kt) {
    constexpr bool last = S + 1 == Steps;
    if constexpr (!last)
      load(f[(S + 1) % 2], stage, kt, S + 1);
    if constexpr (!last || Steps == 1) {
      const int coming = kt + Stages - 1, free = stage == 0 ? Stages - 1 : stage - 1;
      constexpr int parts = Steps > 1 ? Steps - 1 : 1;
      if (coming < part.end) {
        a.template issue<S, parts>(tile_of_a(free), coming);
        b.template issue<S, parts>(tile_of_b(free), coming);
      }
    }
    if constexpr (last) {
      const int next = stage + 1 == Stages ? 0 : stage + 1;
      ptx::cp_async_group::commit();
      if (!Branches || kt + 1 < part.end) {
        if (kt + 1 < part.end) {
          a.put(tile_of_a(next), kt + 1);
          b.put(tile_of_b(next), kt + 1);
        }
        ptx::cp_async_group::wait<Stages - 2>();
        sync_block();
        load(f[(S + 1) % 2], next, min_of(kt + 1, part.end - 1), 0);
      }
    }
    multiply(f[S % 2]);
    if constexpr (!last)
      take_step<S + 1>(f, stage, kt);
  }
};
} // namespace detail

/// The same with what is multiplied loaded a step ahead, from the next tile, too: load(fragments,
/// stage, kt, step) while multiply(fragments) works on those before. A tile has Steps steps. Copies
/// for later tiles go out in between, some at a time: all at once they would keep every warp's
/// fragments waiting behind each barrier.
///
/// Branches: the next tile's first fragments are loaded in a branch, so that ptxas leaves the last
/// step's multiplications behind it. That is right for steps of few: all of them would move before
/// the barrier. Many hide the loads better without: behind the last tile it is done in vain.
template <int Stages, int Steps, bool Branches, class Fragments, class ALoader, class BLoader,
          class TileOfA, class TileOfB, class Load, class Multiply>
TENON_DEVICE void pipeline_ahead(ALoader &a, BLoader &b, const block_part &part, TileOfA tile_of_a,
                                 TileOfB tile_of_b, Load load, Multiply multiply) {
  detail::loop_ahead<Stages, Steps, Branches, Fragments, ALoader, BLoader, TileOfA, TileOfB, Load,
                     Multiply>{a, b, part, tile_of_a, tile_of_b, load, multiply}
      .run();
}

} // namespace cuda
} // namespace tenon

#endif
