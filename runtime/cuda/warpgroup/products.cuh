// Defines how a warpgroup multiplies the steps of a tile from a ring of buffers (tensor_ring.cuh)
// by wgmma: `tile_products`, `promoted_products` and `fragment_products`. Each has
//
//   multiply(sum, at, part, m_offset, n_offset)   adds the products of rows m_offset and following,
//                                                 and of columns n_offset and following, to sums
//                                                 that begin at zero
//
// `ring_products` makes one of them. Once: the ring is filled for one part, and a buffer that it
// needs no more is not released.
//
// Mma: see ptx/wgmma.cuh. A thread has Blocks * Mma::n / 2 sums, those of 64 rows after the others.
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_PRODUCTS_CUH
#define TENON_RUNTIME_CUDA_WARPGROUP_PRODUCTS_CUH

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/wgmma_int8.cuh"
#include "cuda/tile/fragment_prologue.cuh"
#include "cuda/tile/tensor_cores_fp8.cuh"
#include "cuda/tile/tf32.cuh"
#include "cuda/warpgroup/tensor_ring.cuh"

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

/// Both operands of a tile in the ring's buffers, rows of A from m_offset on and columns of B from
/// n_offset on.
template <class Ring, class Mma, int Blocks, int TileK> class shared_operands {
public:
  TENON_DEVICE shared_operands(const Ring &ring, int m_offset, int n_offset)
      : a_(tile_of_a::advance(a_tile::descriptor(ring.a(0)), a_tile::offset(m_offset, 0))),
        b_(tile_of_b::advance(b_tile::descriptor(ring.b(0)), b_tile::offset(n_offset, 0))) {}

  /// Starts the multiplications of a stage, as one group; `add`: to what the sums hold.
  TENON_DEVICE void multiply(warpgroup_sums<Mma, Blocks> &sum, int stage, bool add) const {
    const uint64_t a = tile_of_a::advance(a_, stage * a_tile::bytes);
    const uint64_t b = tile_of_b::advance(b_, stage * b_tile::bytes);
    ptx::wgmma_group::fence();
    TENON_UNROLL
    for (int k = 0; k < TileK; k += Mma::k) {
      TENON_UNROLL
      for (int i = 0; i < Blocks; ++i)
        Mma::multiply(sum.block(i), tile_of_a::advance(a, a_tile::offset(64 * i, k)),
                      tile_of_b::advance(b, b_tile::offset(0, k)), k > 0 || add);
    }
    ptx::wgmma_group::commit();
  }

private:
  using a_tile = typename Ring::a_tile;
  using b_tile = typename Ring::b_tile;
  using tile_of_a = ptx::wgmma_tile<a_tile::span>;
  using tile_of_b = ptx::wgmma_tile<b_tile::span>;
  uint64_t a_, b_;
};

/// Both operands from shared memory. The last step's multiplications, or more where buffers are not
/// released, may be under way on return: its buffer is the caller's to release.
template <class Ring, class Mma, int Blocks, int TileK, bool Once = false> struct tile_products {
  static constexpr bool releases_last = false;
  Ring ring;

  TENON_DEVICE void multiply(warpgroup_sums<Mma, Blocks> &sum, typename Ring::position &at,
                             const block_part &part, int m_offset, int n_offset = 0) const {
    const shared_operands<Ring, Mma, Blocks, TileK> operands(ring, m_offset, n_offset);
    int before = 0;
    TENON_NO_UNROLL
    for (int step = part.first; step < part.end; ++step) {
      ring.all().full[at.stage].wait(at.parity);
      operands.multiply(sum, at.stage, step > part.first);
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

/// Both operands from shared memory, of elements whose sums are to leave the Tensor Cores after
/// each step (is_promoted). While a warpgroup adds up, another one multiplies.
template <class Ring, class Mma, int Blocks, int TileK> struct promoted_products {
  static constexpr bool releases_last = true;
  static_assert(TileK <= 128, "few products before a promotion");
  Ring ring;

  TENON_DEVICE void multiply(warpgroup_sums<Mma, Blocks> &sum, typename Ring::position &at,
                             const block_part &part, int m_offset, int n_offset = 0) const {
    const shared_operands<Ring, Mma, Blocks, TileK> operands(ring, m_offset, n_offset);
    sum.clear();
    TENON_NO_UNROLL
    for (int step = part.first; step < part.end; ++step, at.next()) {
      ring.all().full[at.stage].wait(at.parity);
      warpgroup_sums<Mma, Blocks> products;
      operands.multiply(products, at.stage, false);
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(products.of);
      ring.release(at.stage);
      TENON_UNROLL
      for (int e = 0; e < sum.count; ++e)
        sum.of[e] += products.of[e];
    }
  }
};

/// A from registers: where a prologue is applied to it, and floats, which are rounded to tf32 or
/// split in two parts (tf32.cuh). A warp loads its fragments of a step and makes each ready while
/// those before it multiply. A step ends before the next one begins: ptxas follows registers that
/// are being read through straight code only.
///
/// In two parts, B's small ones behind its big ones: small * big, big * small and big * big. Tensor
/// Cores cut off what they add, where fp32 rounds: sums of one step begin at zero and are added to
/// the fp32 sums in registers, with what was cut off on the average.
template <class Ring, class Mma, int Blocks, int TileK, class Problem, class Prologue,
          class PrologueIns>
struct fragment_products {
  static constexpr bool releases_last = true;
  using a_tile = typename Ring::a_tile;
  using b_tile = typename Ring::b_tile;
  using element = typename Problem::element;
  using staged = staged_channels<PrologueIns>;
  static constexpr bool has_prologue = !detail::is_same<Prologue, no_prologue>;
  static constexpr bool is_float = detail::is_same<element, float>, is_exact = Ring::parts == 2;
  static constexpr int runs = TileK / Mma::k; // along K, 32 bytes each
  using on_the_way = fragment_prologue<element, Problem::template may_be_vector<TileK>(), Prologue,
                                       typename staged::views>;
  using from_registers = ptx::wgmma_registers<element, Mma::n, !b_tile::k_major>;
  using tile_of_b = ptx::wgmma_tile<b_tile::span>;
  using fragments = unsigned[runs][Blocks][4];
  static_assert(a_tile::k_major && (!has_prologue || Problem::on_fragments),
                "fragments take a prologue");

  Ring ring;
  const Problem &problem;
  const Prologue &prologue;
  typename staged::views channels;

  TENON_DEVICE void multiply(warpgroup_sums<Mma, Blocks> &sum, typename Ring::position &at,
                             const block_part &part, int m_offset, int n_offset = 0) const {
    if constexpr (is_exact)
      sum.clear();
    TENON_NO_UNROLL
    for (int step = part.first; step < part.end; ++step, at.next())
      multiply_step(sum, at, part, step, m_offset, n_offset);
  }

private:
  TENON_DEVICE void multiply_step(warpgroup_sums<Mma, Blocks> &sum,
                                  const typename Ring::position &at, const block_part &part,
                                  int step, int m_offset, int n_offset) const {
    [[maybe_unused]] on_the_way on_way[runs];
    if constexpr (has_prologue) {
      TENON_UNROLL
      for (int r = 0; r < runs; ++r) {
        const int first = step * TileK + r * Mma::k;
        on_way[r].load(channels, problem.channel(problem.make_column(first), part.slice),
                       problem.depth() - first);
      }
    }
    ring.all().full[at.stage].wait(at.parity);
    const unsigned char *tile = ring.a(at.stage);
    fragments a;
    TENON_UNROLL
    for (int r = 0; r < runs; ++r) {
      TENON_UNROLL
      for (int i = 0; i < Blocks; ++i) {
        const int row = m_offset + 64 * i + 16 * (warp() % 4) + lane() % 16;
        ptx::ldmatrix_x4::load(a[r][i], tile + a_tile::run_at(row, 2 * r + lane() / 16));
      }
    }
    const uint64_t b =
        tile_of_b::advance(b_tile::descriptor(ring.b(at.stage)), b_tile::offset(n_offset, 0));
    auto ready = [&](int r, int i) {
      if constexpr (has_prologue)
        on_way[r].apply(prologue, a[r][i]);
    };
    if constexpr (is_exact) {
      if constexpr (Ring::splits)
        ring.all().split[at.stage].wait(at.parity);
      warpgroup_sums<Mma, Blocks> products;
      multiply_parts(products, a, b, ready);
      ring.release(at.stage);
      TENON_UNROLL
      for (int e = 0; e < sum.count; ++e)
        sum.of[e] += with_lost_part<TileK>(products.of[e]);
    } else {
      TENON_UNROLL
      for (int r = 0; r < runs; ++r) {
        TENON_UNROLL
        for (int i = 0; i < Blocks; ++i) {
          ready(r, i);
          if constexpr (is_float) {
            TENON_UNROLL
            for (unsigned &x : a[r][i])
              x = rounded_to_tf32(x);
          }
        }
        multiply_run(sum, a[r], b, r, r > 0 || step > part.first);
        ptx::wgmma_group::commit();
      }
      ptx::wgmma_group::wait<0>();
      ring.release(at.stage);
    }
  }

  template <class Ready>
  TENON_DEVICE static void multiply_parts(warpgroup_sums<Mma, Blocks> &products, fragments &a,
                                          uint64_t b, const Ready &ready) {
    fragments small;
    TENON_UNROLL
    for (int r = 0; r < runs; ++r) {
      TENON_UNROLL
      for (int i = 0; i < Blocks; ++i) {
        ready(r, i);
        TENON_UNROLL
        for (int e = 0; e < 4; ++e) {
          const tf32_pair p(a[r][i][e]);
          a[r][i][e] = p.big;
          small[r][i][e] = p.small;
        }
      }
      multiply_run(products, small[r], b, r, r > 0);
    }
    TENON_UNROLL
    for (int r = 0; r < runs; ++r)
      multiply_run(products, a[r], tile_of_b::advance(b, b_tile::bytes), r, true);
    TENON_UNROLL
    for (int r = 0; r < runs; ++r)
      multiply_run(products, a[r], b, r, true);
    ptx::wgmma_group::commit();
    ptx::wgmma_group::wait<0>();
    ptx::wgmma_group::pin(products.of);
  }

  /// The products of 32 bytes along K.
  TENON_DEVICE static void multiply_run(warpgroup_sums<Mma, Blocks> &sum, unsigned (&a)[Blocks][4],
                                        uint64_t b, int r, bool accumulate) {
    TENON_UNROLL
    for (int i = 0; i < Blocks; ++i)
      ptx::wgmma_group::pin(a[i]);
    ptx::wgmma_group::fence();
    TENON_UNROLL
    for (int i = 0; i < Blocks; ++i)
      from_registers::multiply(sum.block(i), a[i],
                               tile_of_b::advance(b, b_tile::offset(0, r * Mma::k)), accumulate);
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
  using staged = staged_channels<PrologueIns>;
  constexpr bool has_prologue = !detail::is_same<Prologue, no_prologue>;
  if constexpr (is_promoted<typename Problem::element>) {
    static_assert(!has_prologue, "a prologue makes no floats of 8 bits");
    return promoted_products<Ring, Mma, Blocks, TileK>{ring};
  } else if constexpr (!has_prologue && !detail::is_same<typename Problem::element, float>) {
    return tile_products<Ring, Mma, Blocks, TileK, Once>{ring};
  } else {
    [[maybe_unused]] const int count = problem.prologue_channels();
    if constexpr (has_prologue) {
      staged::copy(ins, channels, count, thread(), team);
      ptx::cp_async_group::commit();
      ptx::cp_async_group::wait<0>();
      ptx::named_barrier::sync(1 + team / 128, team);
    }
    return fragment_products<Ring, Mma, Blocks, TileK, Problem, Prologue, PrologueIns>{
        ring, problem, prologue, staged::at(channels, count)};
  }
}

} // namespace cuda
} // namespace tenon

#endif
