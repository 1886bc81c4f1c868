// Defines cp.async.bulk.tensor loads (sm_90 and up): the copy engine brings a box of a tensor, as a
// tensor map describes it, into shared memory and reports its bytes to an mbarrier. Elements
// outside the tensor become zero. One thread issues it.
//
//   tiled    at[0] is the coordinate along the fastest dimension
//   im2col   at = {channel, x[, y[, z]], image} is the first pixel of a column of pixels, which
//            runs over the bounding box of the tensor map; the offsets say which tap of the window
#ifndef TENON_RUNTIME_CUDA_PTX_TENSOR_COPY_CUH
#define TENON_RUNTIME_CUDA_PTX_TENSOR_COPY_CUH

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/tensor_map.h"

namespace tenon {
namespace cuda {
namespace ptx {

/// Brings the tensor map itself near.
struct prefetch_tensor_map {
  TENON_DEVICE static void hint(const tensor_map &map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#else
    (void)map;
#endif
  }
};

struct tensor_copy_tiled {
  TENON_DEVICE static void load(void *to, const tensor_map &map, mbarrier &done,
                                const int (&at)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3,%4}], [%2];" ::"r"(shared_address(to)),
                 "l"(&map), "r"(shared_address(&done)), "r"(at[0]), "r"(at[1])
                 : "memory");
#else
    (void)to, (void)map, (void)done, (void)at;
#endif
  }
  TENON_DEVICE static void load(void *to, const tensor_map &map, mbarrier &done,
                                const int (&at)[3]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3,%4,%5}], [%2];" ::"r"(shared_address(to)),
                 "l"(&map), "r"(shared_address(&done)), "r"(at[0]), "r"(at[1]), "r"(at[2])
                 : "memory");
#else
    (void)to, (void)map, (void)done, (void)at;
#endif
  }
  TENON_DEVICE static void load(void *to, const tensor_map &map, mbarrier &done,
                                const int (&at)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3,%4,%5,%6}], [%2];" ::"r"(shared_address(to)),
                 "l"(&map), "r"(shared_address(&done)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                 "r"(at[3])
                 : "memory");
#else
    (void)to, (void)map, (void)done, (void)at;
#endif
  }
  TENON_DEVICE static void load(void *to, const tensor_map &map, mbarrier &done,
                                const int (&at)[5]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3,%4,%5,%6,%7}], [%2];" ::"r"(shared_address(to)),
                 "l"(&map), "r"(shared_address(&done)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                 "r"(at[3]), "r"(at[4])
                 : "memory");
#else
    (void)to, (void)map, (void)done, (void)at;
#endif
  }
};

struct tensor_copy_im2col {
  TENON_DEVICE static void load(void *to, const tensor_map &map, mbarrier &done, const int (&at)[3],
                                const unsigned short (&offset)[1]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3,%4,%5}], [%2], {%6};" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&done)), "r"(at[0]), "r"(at[1]), "r"(at[2]), "h"(offset[0])
        : "memory");
#else
    (void)to, (void)map, (void)done, (void)at, (void)offset;
#endif
  }
  TENON_DEVICE static void load(void *to, const tensor_map &map, mbarrier &done, const int (&at)[4],
                                const unsigned short (&offset)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3,%4,%5,%6}], [%2], {%7,%8};" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&done)), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
        "h"(offset[0]), "h"(offset[1])
        : "memory");
#else
    (void)to, (void)map, (void)done, (void)at, (void)offset;
#endif
  }
  TENON_DEVICE static void load(void *to, const tensor_map &map, mbarrier &done, const int (&at)[5],
                                const unsigned short (&offset)[3]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3,%4,%5,%6,%7}], [%2], {%8,%9,%10};" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&done)), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
        "r"(at[4]), "h"(offset[0]), "h"(offset[1]), "h"(offset[2])
        : "memory");
#else
    (void)to, (void)map, (void)done, (void)at, (void)offset;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
