// Defines how a warpgroup multiplies the steps of a tile from a ring of buffers (tensor_ring.cuh)
// by wgmma: `tile_products`, `fragment_products` and `split_products`. Each has
//
//   multiply(sum, at, part, m_offset, n_offset)   adds the products of rows m_offset and following,
//   and
//                                                 of columns n_offset and following, to sums that
//                                                 begin at zero
//
// `ring_products` makes the first or the second of them. Once: the ring is filled for one part, and
// a buffer that it needs no more is not released.
//
// Mma: see ptx/wgmma.cuh. A thread has Blocks * Mma::n / 2 sums, those of 64 rows after the others.
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_PRODUCTS_CUH
#define TENON_RUNTIME_CUDA_WARPGROUP_PRODUCTS_CUH

#include "cuda/fragment_prologue.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/wgmma_int8.cuh"
#include "cuda/tensor_ring.cuh"
#include "cuda/tf32.cuh"

namespace tenon {
namespace cuda {

/// The sums of one thread.
template <class Mma, int Blocks> struct warpgroup_sums {
  using type = typename Mma::sum;
  static constexpr int each = Mma::n / 2, count = Blocks * each;
  type of[count];

  /// Those of 64 rows.
  TENON_DEVICE type (&block(int i))[each] { return reinterpret_cast<type(&)[each]>(of[i * each]); }
  TENON_DEVICE void clear() {
    TENON_UNROLL
    for (int e = 0; e < count; ++e)
      of[e] = 0;
  }
};

/// Both operands from shared memory. The last step's multiplications, or more where buffers are not
/// released, may be under way on return: its buffer is the caller's to release.
template <class Ring, class Mma, int Blocks, int TileK, bool Once = false> struct tile_products {
  static constexpr bool releases_last = false;
  using a_tile = typename Ring::a_tile;
  using b_tile = typename Ring::b_tile;
  Ring ring;

  TENON_DEVICE void multiply(warpgroup_sums<Mma, Blocks> &sum, typename Ring::position &at,
                             const block_part &part, int m_offset, int n_offset = 0) const {
    using tile_of_a = ptx::wgmma_tile<a_tile::span>;
    using tile_of_b = ptx::wgmma_tile<b_tile::span>;
    const uint64_t first =
        tile_of_a::advance(a_tile::descriptor(ring.a(0)), a_tile::offset(m_offset, 0));
    const uint64_t first_b =
        tile_of_b::advance(b_tile::descriptor(ring.b(0)), b_tile::offset(n_offset, 0));
    int before = 0;
    TENON_NO_UNROLL
    for (int step = part.first; step < part.end; ++step) {
      ring.all().full[at.stage].wait(at.parity);
      const uint64_t a = tile_of_a::advance(first, at.stage * a_tile::bytes);
      const uint64_t b = tile_of_b::advance(first_b, at.stage * b_tile::bytes);
      ptx::wgmma_group::fence();
      TENON_UNROLL
      for (int k = 0; k < TileK; k += Mma::k) {
        TENON_UNROLL
        for (int i = 0; i < Blocks; ++i)
          Mma::multiply(sum.block(i), tile_of_a::advance(a, a_tile::offset(64 * i, k)),
                        tile_of_b::advance(b, b_tile::offset(0, k)), k > 0 || step > part.first);
      }
      ptx::wgmma_group::commit();
      if constexpr (Once) {
        if (step > part.first && step <= part.end - Ring::stages) {
          ptx::wgmma_group::wait<1>();
          ring.release(before);
        }
      } else {
        ptx::wgmma_group::wait<1>();
        if (step > part.first)
          ring.release(before);
      }
      before = at.stage;
      at.next();
    }
  }
};

/// A from registers, where a prologue is applied to it: a warp loads its fragments of a step and
/// applies the prologue to each while those before it multiply. A step ends before the next one
/// begins: ptxas follows registers that are being read through straight code only.
template <class Ring, class Mma, int Blocks, int TileK, class Problem, class Prologue,
          class PrologueIns>
struct fragment_products {
  static constexpr bool releases_last = true;
  using a_tile = typename Ring::a_tile;
  using b_tile = typename Ring::b_tile;
  using element = typename Problem::element;
  using staged = staged_channels<PrologueIns>;
  using on_the_way = fragment_prologue<element, Problem::template may_be_vector<TileK>(), Prologue,
                                       typename staged::views>;
  using from_registers = ptx::wgmma_registers<element, Mma::n, !b_tile::k_major>;
  static_assert(sizeof(element) == 2 && a_tile::k_major && Problem::on_fragments,
                "fragments take a prologue");

  Ring ring;
  const Problem &problem;
  const Prologue &prologue;
  typename staged::views channels;

  TENON_DEVICE void multiply(warpgroup_sums<Mma, Blocks> &sum, typename Ring::position &at,
                             const block_part &part, int m_offset, int n_offset = 0) const {
    TENON_NO_UNROLL
    for (int step = part.first; step < part.end; ++step)
      multiply_step(sum, at, part, step, m_offset, n_offset);
  }

private:
  TENON_DEVICE void multiply_step(warpgroup_sums<Mma, Blocks> &sum, typename Ring::position &at,
                                  const block_part &part, int step, int m_offset,
                                  int n_offset) const {
    using tile_of_b = ptx::wgmma_tile<b_tile::span>;
    on_the_way on_way[TileK / 16];
    TENON_UNROLL
    for (int k = 0; k < TileK; k += 16) {
      const int first = step * TileK + k;
      on_way[k / 16].load(channels, problem.channel(problem.make_column(first), part.slice),
                          problem.depth() - first);
    }
    ring.all().full[at.stage].wait(at.parity);
    const unsigned char *tile = ring.a(at.stage);
    unsigned a[TileK / 16][Blocks][4];
    TENON_UNROLL
    for (int k = 0; k < TileK; k += 16) {
      TENON_UNROLL
      for (int i = 0; i < Blocks; ++i) {
        const int row = m_offset + 64 * i + 16 * (warp() % 4) + lane() % 16;
        ptx::ldmatrix_x4::load(a[k / 16][i], tile + a_tile::run_at(row, k / 8 + lane() / 16));
      }
    }
    const uint64_t b =
        tile_of_b::advance(b_tile::descriptor(ring.b(at.stage)), b_tile::offset(n_offset, 0));
    TENON_UNROLL
    for (int k = 0; k < TileK; k += 16) {
      TENON_UNROLL
      for (int i = 0; i < Blocks; ++i) {
        on_way[k / 16].apply(prologue, a[k / 16][i]);
        ptx::wgmma_group::pin(a[k / 16][i]);
      }
      ptx::wgmma_group::fence();
      TENON_UNROLL
      for (int i = 0; i < Blocks; ++i)
        from_registers::multiply(sum.block(i), a[k / 16][i],
                                 tile_of_b::advance(b, b_tile::offset(0, k)),
                                 k > 0 || step > part.first);
      ptx::wgmma_group::commit();
    }
    ptx::wgmma_group::wait<0>();
    ring.release(at.stage);
    at.next();
  }
};

/// tf32x3: operands in two parts, big and small (tf32.cuh), the small ones behind the big ones'
/// tile once `split` says so: small * big, big * small and big * big. Tensor Cores cut off what
/// they add, where fp32 rounds: sums of one step begin at zero and are added to the fp32 sums in
/// registers, with what was cut off on the average.
template <class Ring, class Mma, int Blocks, int TileK> struct split_products {
  static constexpr bool releases_last = true;
  using a_tile = typename Ring::a_tile;
  using b_tile = typename Ring::b_tile;
  Ring ring;

  TENON_DEVICE void multiply(warpgroup_sums<Mma, Blocks> &sum, typename Ring::position &at,
                             const block_part &part, int m_offset) const {
    using tile = ptx::wgmma_tile<a_tile::span>;
    sum.clear();
    const uint64_t first_a =
        tile::advance(a_tile::descriptor(ring.a(0)), a_tile::offset(m_offset, 0));
    const uint64_t first_b = b_tile::descriptor(ring.b(0));
    TENON_NO_UNROLL
    for (int step = part.first; step < part.end; ++step) {
      ring.all().split[at.stage].wait(at.parity);
      const uint64_t a = tile::advance(first_a, at.stage * Ring::parts * a_tile::bytes);
      const uint64_t b = tile::advance(first_b, at.stage * Ring::parts * b_tile::bytes);
      warpgroup_sums<Mma, Blocks> products;
      ptx::wgmma_group::fence();
      TENON_UNROLL
      for (int p = 0; p < 3; ++p) { // small * big, big * small, big * big
        TENON_UNROLL
        for (int k = 0; k < TileK; k += Mma::k) {
          TENON_UNROLL
          for (int i = 0; i < Blocks; ++i)
            Mma::multiply(
                products.block(i),
                tile::advance(a, (p == 0 ? a_tile::bytes : 0) + a_tile::offset(64 * i, k)),
                tile::advance(b, (p == 1 ? b_tile::bytes : 0) + b_tile::offset(0, k)),
                p > 0 || k > 0);
        }
      }
      ptx::wgmma_group::commit();
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(products.of);
      ring.release(at.stage);
      at.next();
      TENON_UNROLL
      for (int e = 0; e < sum.count; ++e)
        sum.of[e] += with_lost_part<TileK>(products.of[e]);
    }
  }
};

/// By the `team` threads that multiply: what the prologue reads is in shared memory at `channels`
/// afterwards.
template <class Mma, int Blocks, int TileK, bool Once, class Ring, class Problem, class Prologue,
          class PrologueIns>
TENON_DEVICE auto
ring_products(Ring ring, [[maybe_unused]] unsigned char *channels,
              [[maybe_unused]] const Problem &problem, [[maybe_unused]] const Prologue &prologue,
              [[maybe_unused]] const PrologueIns &ins, [[maybe_unused]] int team) {
  if constexpr (detail::is_same<Prologue, no_prologue>) {
    return tile_products<Ring, Mma, Blocks, TileK, Once>{ring};
  } else {
    using staged = staged_channels<PrologueIns>;
    const int count = problem.prologue_channels();
    staged::copy(ins, channels, count, thread(), team);
    ptx::cp_async_group::commit();
    ptx::cp_async_group::wait<0>();
    ptx::named_barrier::sync(1 + team / 128, team);
    return fragment_products<Ring, Mma, Blocks, TileK, Problem, Prologue, PrologueIns>{
        ring, problem, prologue, staged::at(channels, count)};
  }
}

} // namespace cuda
} // namespace tenon

#endif
