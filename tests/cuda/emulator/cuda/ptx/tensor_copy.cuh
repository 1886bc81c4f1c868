// Stands in for runtime/cuda/ptx/tensor_copy.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_TENSOR_COPY_CUH
#define TENON_RUNTIME_CUDA_PTX_TENSOR_COPY_CUH

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/tensor_map.h"

namespace tenon {
namespace cuda {
namespace ptx {

struct prefetch_tensor_map {
  static void hint(const tensor_map &) {}
};

/// What both kinds of load share: rows of a box, one after the other.
class emulated_tensor_copy {
public:
  emulated_tensor_copy(void *to, const tensor_map &map, mbarrier &done)
      : map_(&map), done_(&done), shared_(emulator::machine::instance().shared()),
        to_(shared_address(to)) {
    if (to_ % unsigned(8 * box().span))
      emulator::machine::fail("a box begins within a pattern of its swizzle");
  }
  const tensor_box &box() const { return map_->columns.tensor; }
  const tensor_columns &columns() const { return map_->columns; }

  /// Row `r` of the box is box[0] elements from coordinates `at`; zero where outside.
  void row(int r, const index_t (&at)[5]) const {
    const tensor_box &t = box();
    bool inside = true;
    index_t offset = 0;
    for (int i = 1; i < t.rank; ++i) {
      inside = inside && at[i] >= 0 && at[i] < t.extent[i];
      offset += t.extent[i] == 1 ? 0 : at[i] * t.stride[i];
    }
    for (int c = 0; c < t.box[0]; ++c) {
      unsigned char *to = shared_ + swizzled(to_ + unsigned(r * t.span + c * t.size()), t.span);
      const index_t x = at[0] + c;
      if (inside && x >= 0 && x < t.extent[0])
        memcpy(to, static_cast<const unsigned char *>(t.base) + offset + x * t.size(),
               size_t(t.size()));
      else
        memset(to, 0, size_t(t.size()));
    }
  }
  void finish(int rows) const { done_->land(rows * box().span); }

private:
  const tensor_map *map_;
  mbarrier *done_;
  unsigned char *shared_; // of the block that issues it
  unsigned to_;
};

struct tensor_copy_tiled {
  template <int Rank>
  static void load(void *to, const tensor_map &map, mbarrier &done, const int (&at)[Rank]) {
    const emulated_tensor_copy copy(to, map, done);
    if (map.is_columns || copy.box().rank != Rank)
      emulator::machine::fail("a tensor map of another kind");
    index_t first[5] = {};
    for (int i = 0; i < Rank; ++i)
      first[i] = at[i];
    emulator::machine::instance().start_copy([=] {
      int rows = 1;
      for (int i = 1; i < Rank; ++i)
        rows *= copy.box().box[i];
      for (int r = 0; r < rows; ++r) {
        index_t p[5];
        p[0] = first[0];
        for (int i = 1, rest = r; i < Rank; rest /= copy.box().box[i], ++i)
          p[i] = first[i] + rest % copy.box().box[i];
        copy.row(r, p);
      }
      copy.finish(rows);
    });
  }
};

struct tensor_copy_im2col {
  template <int Rank>
  static void load(void *to, const tensor_map &map, mbarrier &done, const int (&at)[Rank],
                   const unsigned short (&offset)[Rank - 2]) {
    const emulated_tensor_copy copy(to, map, done);
    if (!map.is_columns || copy.box().rank != Rank)
      emulator::machine::fail("a tensor map of another kind");
    index_t first[5] = {}, tap[5] = {};
    for (int i = 0; i < Rank; ++i)
      first[i] = at[i];
    for (int i = 0; i < Rank - 2; ++i) {
      tap[i + 1] = offset[i];
      if (offset[i] >= (Rank == 3 ? 1 << 16 : Rank == 4 ? 1 << 8 : 1 << 5))
        emulator::machine::fail("a tap beyond what an im2col load can name");
    }
    emulator::machine::instance().start_copy([=] {
      const tensor_columns &c = copy.columns();
      index_t p[5];
      memcpy(p, first, sizeof(p));
      for (int r = 0; r < c.pixels; ++r) {
        index_t read[5];
        for (int i = 0; i < 5; ++i)
          read[i] = p[i] + tap[i];
        copy.row(r, read);
        for (int i = 1; i < Rank; ++i) {
          if (i == Rank - 1) {
            ++p[i];
            break;
          }
          p[i] += c.step[i - 1];
          if (p[i] < c.tensor.extent[i] + c.upper[i - 1])
            break;
          p[i] = c.lower[i - 1];
        }
      }
      copy.finish(c.pixels);
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
