// Defines how the steps of a program go to several streams: a stream for each branch, events where
// a step waits for another branch. In a capture, streams and events leave nothing but the graph's
// edges.
#ifndef TENON_RUNTIME_CUDA_HOST_BRANCHES_H
#define TENON_RUNTIME_CUDA_HOST_BRANCHES_H

#include "cuda/host/program.h"
#include <stdlib.h>

namespace tenon {
namespace cuda {

/// What a context holds for its branches: nothing where there is but one.
struct branch_streams {
  cudaStream_t streams[max_branches]; // of branches 1 and up
  cudaEvent_t *events;                // by step + 1; null where no other branch waits for the step
  cudaEvent_t ends[max_branches];     // where the graph ends before the steps do
};

namespace detail {

inline void close_branches(branch_streams &b, const variant_table &v) {
  for (cudaStream_t s : b.streams)
    if (s)
      (void)cudaStreamDestroy(s);
  for (int i = 0; b.events && i <= v.step_count; ++i)
    if (b.events[i])
      (void)cudaEventDestroy(b.events[i]);
  for (cudaEvent_t e : b.ends)
    if (e)
      (void)cudaEventDestroy(e);
  free(b.events);
}

inline status open_branches(branch_streams &b, const variant_table &v) {
  if (v.branches <= 1)
    return ok;
  for (int i = 1; i < v.branches; ++i)
    TENON_CHECK_CUDA(cudaStreamCreateWithFlags(&b.streams[i], cudaStreamNonBlocking));
  b.events = static_cast<cudaEvent_t *>(calloc(size_t(v.step_count) + 1, sizeof(cudaEvent_t)));
  if (!b.events)
    return out_of_memory;
  for (int i = 0; i < v.edge_count; ++i) {
    cudaEvent_t &e = b.events[v.edges[i].from + 1];
    if (!e)
      TENON_CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  }
  for (int i = 1; v.finish && i < v.branches; ++i)
    TENON_CHECK_CUDA(cudaEventCreateWithFlags(&b.ends[i], cudaEventDisableTiming));
  return ok;
}

/// Issues the graph's steps, branch 0 on `stream`. Whatever comes on `stream` afterwards waits for
/// all of them.
inline status launch_branches(const branch_streams &b, const variant_table &v, issue &to,
                              cudaStream_t stream, const frame &where) {
  // Whether a branch's next launch waits for nothing but the one before.
  bool chained[max_branches] = {};
  const step_edge *edge = v.edges, *const end = v.edges + v.edge_count;
  if (b.events && b.events[0])
    TENON_CHECK_CUDA(cudaEventRecord(b.events[0], stream));
  const int count = v.graph_steps();
  bool used[max_branches] = {};
  for (int i = 0; i <= count; ++i) {
    const int branch = i < count ? v.steps[i].branch : 0;
    const cudaStream_t mine = branch == 0 ? stream : b.streams[branch];
    for (; edge != end && edge->to == i; ++edge) {
      TENON_CHECK_CUDA(cudaStreamWaitEvent(mine, b.events[edge->from + 1], 0));
      chained[branch] = false;
    }
    if (i == count)
      break;
    used[branch] = true;
    to.go_on(mine, chained[branch]);
    TENON_CHECK(v.steps[i].run(where, to));
    chained[branch] = to.has_launched();
    if (b.events && b.events[i + 1])
      TENON_CHECK_CUDA(cudaEventRecord(b.events[i + 1], mine));
  }
  for (int k = 1; v.finish && k < v.branches; ++k)
    if (used[k]) {
      TENON_CHECK_CUDA(cudaEventRecord(b.ends[k], b.streams[k]));
      TENON_CHECK_CUDA(cudaStreamWaitEvent(stream, b.ends[k], 0));
    }
  return ok;
}

} // namespace detail
} // namespace cuda
} // namespace tenon

#endif
