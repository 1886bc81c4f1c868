// Defines `tensor_ring`: the buffers in shared memory through which tiles of A and B pass from the
// producer of a contraction to the warpgroups that multiply, and their barriers; and
// `tensor_operands`: what the kernels that have one say of their operands.
//
// Shared memory: A [stages][tile_m x tile_k], B [stages][parts][tile_k x tile_n] as swizzled tiles
// (ptx/wgmma.cuh), then the barriers.
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_TENSOR_RING_CUH
#define TENON_RUNTIME_CUDA_WARPGROUP_TENSOR_RING_CUH

#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/tile/tensor_cores_fp8.cuh"
#include "cuda/warpgroup/tensor_loader.cuh"
#include "cuda/warpgroup/tile_order.cuh"

namespace tenon {
namespace cuda {

/// A and B: loaders (tensor_loader.cuh). Parts: of B, big and small where it is to be as exact as
/// fp32 (tf32.cuh). Where they do not land so, they are split in their buffers.
template <class A, class B, int Stages, int Parts> struct tensor_ring {
  using a_tile = typename A::tile;
  using b_tile = typename B::tile;
  using position = detail::ring_position<Stages>;
  static constexpr int stages = Stages, parts = Parts;
  static constexpr bool splits = Parts > B::parts;
  static constexpr int landing = a_tile::bytes + B::parts * b_tile::bytes; // in a buffer

  struct barriers {
    ptx::mbarrier full[Stages];  // the buffer's bytes have landed
    ptx::mbarrier empty[Stages]; // all who multiply from it are done
    ptx::mbarrier split[splits ? Stages : 1];
    ptx::mbarrier turn[2]; // of consumers that take turns
    ptx::mbarrier sent;    // what the cluster's blocks send has landed; for who initialises it
    int finished[2];       // for split-K
  };
  static constexpr int barriers_at = Stages * (a_tile::bytes + Parts * b_tile::bytes),
                       bytes = barriers_at + ceil_div(int(sizeof(barriers)), 16) * 16;

  unsigned char *shared; // ptx::opaque

  TENON_DEVICE unsigned char *a(int stage) const { return shared + stage * a_tile::bytes; }
  TENON_DEVICE unsigned char *b(int stage) const {
    return shared + Stages * a_tile::bytes + stage * Parts * b_tile::bytes;
  }
  TENON_DEVICE barriers &all() const { return *reinterpret_cast<barriers *>(shared + barriers_at); }

  /// By one thread, before the block meets: `readers` and `splitters` warps say that they are done
  /// with a buffer.
  TENON_DEVICE void init(int readers, int splitters) const {
    barriers &bar = all();
    TENON_UNROLL
    for (int s = 0; s < Stages; ++s) {
      bar.full[s].init(1);
      bar.empty[s].init(readers);
      if constexpr (splits)
        bar.split[s].init(splitters);
    }
    bar.turn[0].init(4);
    bar.turn[1].init(4);
    ptx::mbarrier::fence_init();
  }
  /// By each warp that has read it.
  TENON_DEVICE void release(int stage) const {
    if (lane() == 0)
      all().empty[stage].arrive();
  }
};

/// The operands of a contraction by wgmma in such a ring, and what is done with them before the
/// dependency wait. TileK: elements of a step.
template <class Problem, class B, int TileM, int TileN, int TileK, int Stages, int Parts = 1>
struct tensor_operands {
  using loader_of_a = tensor_a<Problem, TileM, TileK>;
  using loader_of_b = tensor_b<Problem, B, TileN, TileK>;
  using element = typename Problem::element;
  using weight = typename loader_of_b::element;
  static constexpr int parts = max_of(Parts, loader_of_b::parts), products = loader_of_b::products;
  /// Columns of the result, to each of which as many sums belong as there are products.
  static constexpr int columns = TileN / products;
  using map_of_b = typename detail::choose_type<products == 1, tensor_map, tensor_map_pair>::type;
  /// How many times as many sums as there are of the tile a thread holds while it multiplies.
  static constexpr int sums_held = is_promoted<element> ? 2 : parts;
  using ring = tensor_ring<loader_of_a, loader_of_b, Stages, parts>;
  static_assert(parts == 1 || detail::is_same<element, float>, "floats have two parts");
  static_assert(detail::is_same<element, weight> ||
                    (sizeof(element) == 1 && detail::is_same<weight, int8_t>),
                "operands of one type, or bytes by signed ones");
  static_assert(Problem::zero == 0, "padding is zero");

  /// What is known before the wait: the block's first part, and where its tiles of A lie.
  struct begun {
    block_part part;
    loader_of_a from_a;
  };
  TENON_DEVICE static begun begin(const Problem &problem, const block_part &part) {
    return {part, {problem, part.m0, part.slice, part.first}};
  }

  static status encode(tensor_map &map_a, map_of_b &map_b, const Problem &problem, const B &b) {
    TENON_CHECK(loader_of_a::encode(map_a, problem));
    return loader_of_b::encode(map_b, problem, b);
  }
  /// Steps of a block's first part that need no buffer's release.
  TENON_DEVICE static int ahead(const block_part &part) {
    return min_of(part.end - part.first, Stages);
  }
  /// By the thread that has initialised the barriers: brings the maps near, and the weights of the
  /// steps ahead on their way.
  TENON_DEVICE static void prefetch(ring buffers, const Problem &problem, const B &b,
                                    const tensor_map &map_a, const map_of_b &map_b, begun &first) {
    ptx::proxy_fence::shared();
    ptx::prefetch_tensor_map::hint(map_a);
    if constexpr (products == 1) {
      ptx::prefetch_tensor_map::hint(map_b);
    } else {
      ptx::prefetch_tensor_map::hint(map_b.of[0]);
      ptx::prefetch_tensor_map::hint(map_b.of[1]);
    }
    if constexpr (loader_of_b::is_weights) {
      const block_part &part = first.part;
      loader_of_b from_b(problem, b, part.n0, part.slice, part.first);
      TENON_NO_UNROLL
      for (int s = 0; s < ahead(part); ++s) {
        ptx::mbarrier &full = buffers.all().full[s];
        full.arrive_expecting(ring::landing);
        from_b.load(buffers.b(s), map_b, full);
      }
    }
    first.from_a.settle();
  }
};

} // namespace cuda
} // namespace tenon

#endif
