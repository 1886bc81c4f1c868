// Defines gathered_view: an operand of `map` that is read through indices.
//
//   value at p = data[p] moved along one axis by index[p] elements of that axis
//
// `data` and `index` are views over the iteration space: data with stride 0 in the dimensions that
// come from the indices, index with stride 0 in those that come from the data. Negative indices
// count from the end; others outside the axis are clamped, so that no input makes a kernel read
// elsewhere.
#ifndef TENON_RUNTIME_CUDA_GATHER_KERNEL_CUH
#define TENON_RUNTIME_CUDA_GATHER_KERNEL_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

template <class Data, class Index, class Stride, class Extent> struct gathered_view {
  using element = typename Data::element;
  using strides_type = typename Data::strides_type;
  static constexpr int rank = Data::rank;
  Data data;
  Index index;
  Stride axis_stride; // elements of data from one index to the next
  Extent axis_extent;
};

template <class Data, class Index, class Stride, class Extent>
TENON_FN gathered_view<Data, Index, Stride, Extent>
make_gathered_view(Data data, Index index, Stride axis_stride, Extent axis_extent) {
  return {data, index, axis_stride, axis_extent};
}

template <int Along, int V, class Data, class Indices, class Stride, class Extent, class Index,
          int Rank>
TENON_DEVICE void load_operand(compute_t<typename Data::element> (&x)[V],
                               const gathered_view<Data, Indices, Stride, Extent> &v,
                               const Index (&at)[Rank], int count) {
  const index_t extent = v.axis_extent;
  compute_t<typename Indices::element> where[V];
  load_operand<Along>(where, v.index, at, count);
  const auto origin = v.data.data + offset(v.data.strides, at);
  const auto stride = v.data.strides.template get<Along>();
  const auto moved = [&](int i) {
    index_t k = index_t(where[i]);
    k = k < 0 ? k + extent : k;
    return origin + min_of(max_of(k, index_t(0)), extent - 1) * index_t(v.axis_stride);
  };
  if constexpr (detail::is_broadcast<decltype(v.index.strides.template get<Along>())>) {
    load_run(x, moved(0), stride, count); // one index for the run
  } else {
    TENON_UNROLL
    for (int i = 0; i < V; ++i)
      x[i] = i < count ? load_element(moved(i) + i * index_t(stride))
                       : compute_t<typename Data::element>{};
  }
}

} // namespace cuda
} // namespace tenon

#endif
