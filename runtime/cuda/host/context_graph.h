// Defines what a context holds and its graph: launch_all captured once, whose nodes get new
// arguments where addresses or run-time dimensions change. Launches under way keep what they have.
#ifndef TENON_RUNTIME_CUDA_HOST_CONTEXT_GRAPH_H
#define TENON_RUNTIME_CUDA_HOST_CONTEXT_GRAPH_H

#include "cuda/host/branches.h"
#include "cuda/host/host_part.h"
#include "cuda/host/host_queue.h"
#include "cuda/host/model.h"
#include <stdlib.h>
#include <string.h>

namespace tenon {
namespace cuda {

struct context {
  const model *owner;
  frame where;
  bool owns_memory;
  bool prepared;
  cudaStream_t stream; // for captures and for inference on host memory
  branch_streams branches;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t *nodes; // by ordinal of the launch; null where a launch was empty
  int *first_launch;      // by step
  int launch_count;
  const void **inputs; // addresses that the graph holds
  void **outputs;
  index_t *dims;              // of the next run, or of the last one while `ran`
  index_t *graph_dims;        // that the graph holds
  bool ran;                   // dimensions that grow have still to advance
  host_queue host;            // what run(), submit() and collect() work with
  void *landing;              // pinned: numbers that the host reads between steps
  index_t *slot_dims;         // by slot of `host`: dims of its inference
  unsigned long long *stamps; // TENON_PROFILE: start and end of each launch
  trace_hook trace;
  unsigned char *decoder; // host memory: what the functions of a decoder remember; null elsewhere
  int *drawn;             // pinned: tokens that the device drew; null before the first
  int *ended;             // on the device: whether a stop token came
};

namespace detail {

/// Issues the graph's steps; with `io_only` just those that touch inputs and outputs.
inline status issue_steps(const context &c, issue &to, bool io_only) {
  const variant_table &v = *c.owner->variant;
  for (int i = 0; i < v.graph_steps(); ++i) {
    if (io_only && !v.steps[i].touches_io)
      continue;
    if (io_only)
      to.set_ordinal(c.first_launch[i]);
    TENON_CHECK(v.steps[i].run(c.where, to));
  }
  return ok;
}

/// Plain launches of the graph's steps, on a stream that is being captured.
inline status launch_all(const context &c, cudaStream_t stream, const frame &where) {
  issue to = issue::launch_on(stream, c.owner->early(), c.stamps);
  return launch_branches(c.branches, *c.owner->variant, to, stream, where);
}

inline void drop_graph(context &c) {
  if (c.executable)
    (void)cudaGraphExecDestroy(c.executable);
  if (c.graph)
    (void)cudaGraphDestroy(c.graph);
  c.executable = nullptr;
  c.graph = nullptr;
  c.prepared = false;
}

/// Finds the captured nodes by the ordinals in their launch tags.
inline status index_nodes(context &c) {
  for (int i = 0; i < c.launch_count; ++i)
    c.nodes[i] = nullptr;
  size_t count = 0;
  TENON_CHECK_CUDA(cudaGraphGetNodes(c.graph, nullptr, &count));
  if (count == 0)
    return ok;
  cudaGraphNode_t *all = static_cast<cudaGraphNode_t *>(calloc(count, sizeof(cudaGraphNode_t)));
  if (!all)
    return out_of_memory;
  status s = from_cuda(cudaGraphGetNodes(c.graph, all, &count));
  for (size_t i = 0; s == ok && i < count; ++i) {
    cudaKernelNodeParams params{};
    s = from_cuda(cudaGraphKernelNodeGetParams(all[i], &params));
    if (s == ok)
      c.nodes[static_cast<const launch_tag *>(params.kernelParams[1])->ordinal] = all[i];
  }
  free(all);
  return s;
}

inline bool keeps_dims(const context &c) {
  return memcmp(c.dims, c.graph_dims, size_t(c.owner->code->dim_count) * sizeof(index_t)) == 0;
}
inline void keep_dims(context &c) {
  memcpy(c.graph_dims, c.dims, size_t(c.owner->code->dim_count) * sizeof(index_t));
}

inline status capture(context &c) {
  TENON_CHECK_CUDA(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeThreadLocal));
  const status issued = launch_all(c, c.stream, c.where);
  const status ended = from_cuda(cudaStreamEndCapture(c.stream, &c.graph));
  TENON_CHECK(issued);
  TENON_CHECK(ended);
  TENON_CHECK(index_nodes(c));
  TENON_CHECK_CUDA(cudaGraphInstantiate(&c.executable, c.graph, 0));
  // The first launch then costs what every other does.
  TENON_CHECK_CUDA(cudaGraphUpload(c.executable, c.stream));
  TENON_CHECK_CUDA(cudaStreamSynchronize(c.stream));
  keep_dims(c);
  return ok;
}

/// Gives the graph's nodes new arguments, all of them or those of inputs and outputs; captures it
/// anew where that is not enough. Launches under way keep what they have.
inline status update_graph(context &c, bool io_only) {
  c.prepared = false; // until all nodes agree
  issue to = issue::update(c.executable, c.nodes, io_only ? nullptr : c.owner->early(), c.stamps);
  status s = issue_steps(c, to, io_only);
  if (s == graph_outgrown) {
    drop_graph(c);
    s = capture(c);
  }
  TENON_CHECK(s);
  keep_dims(c);
  c.prepared = true;
  return ok;
}
} // namespace detail
} // namespace cuda
} // namespace tenon

#endif
