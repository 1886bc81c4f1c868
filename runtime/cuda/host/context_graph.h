// Defines what a context holds and its graphs: launch_all captured once, whose nodes get new
// arguments where addresses or run-time dimensions change. Launches under way keep what they have.
// A program with entries has a graph of each; all work in the same memory.
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

/// The arguments of live kernels for runs of so many tokens, in one block on the device.
struct live_set {
  live_set *next;
  index_t tokens;
  const void **io; // inputs and outputs of these runs, where live kernels have them; else null
  live_slot *slots;
  size_t bytes; // of the arguments
  unsigned char *device;
  int words;

  // In the block: whether the run goes on, the arguments, the words that change, columns.
  int *going() const { return reinterpret_cast<int *>(device); }
  unsigned char *arguments() const { return device + detail::live_alignment; }
  live_word *changes() const { return reinterpret_cast<live_word *>(arguments() + bytes); }
  unsigned long long *columns() const {
    return reinterpret_cast<unsigned long long *>(changes() + words);
  }
};

/// One graph of a context: of the program's steps, or of an entry's.
struct run_graph {
  const variant_table *variant;
  frame where; // its addresses of inputs and outputs are those that the graph holds
  const void **inputs;
  void **outputs;
  index_t *dims; // that the graph holds
  branch_streams branches;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t *nodes; // by ordinal of the launch; null where a launch was empty
  int *first_launch;      // by step
  int launch_count;
  live_set *live; // of runs that were captured by the caller
};

struct context {
  const model *owner;
  unsigned char *memory; // arena, then zeroed scratch, then states
  bool owns_memory;
  bool prepared;
  cudaStream_t stream; // for captures and for inference on host memory
  run_graph *graphs;   // of the program, then of its entries
  int graph_count;
  run_graph *now;       // what the next run is
  index_t *dims;        // of the next run, or of the last one while `ran`
  bool ran;             // dimensions that grow have still to advance
  host_queue host;      // what run(), submit() and collect() work with
  unsigned char *apart; // device memory for tensors of the caller that lie where no step takes
                        // them; null until there is one
  void *landing;        // pinned: numbers that the host reads between steps
  index_t *slot_dims;   // by slot of `host`: dims of its inference
  unsigned long long *stamps; // TENON_PROFILE: start and end of each launch
  trace_hook trace;
  unsigned char *decoder; // host memory: what the functions of a decoder remember; null elsewhere
  int *drawn;             // pinned: tokens that the device drew; null before the first
  int *ended;             // on the device: whether a stop token came
  live_length *live;      // on the device; null until a caller captures a run
  bool alone;             // nothing is replayed meanwhile
};

namespace detail {

/// The graph of the dimensions of the next run: of the first entry that takes them.
inline run_graph *graph_for(const context &c) {
  const variant_table &v = *c.owner->variant;
  for (int i = 0; i < v.entry_count; ++i)
    if (v.entries[i].takes(c.dims))
      return c.graphs + 1 + i;
  return c.graphs;
}

/// Issues the graph's steps; with `io_only` just those that touch inputs and outputs.
inline status issue_steps(const run_graph &g, issue &to, bool io_only) {
  const variant_table &v = *g.variant;
  for (int i = 0; i < v.graph_steps(); ++i) {
    if (io_only && !v.steps[i].touches_io)
      continue;
    if (io_only)
      to.set_ordinal(g.first_launch[i]);
    TENON_CHECK(v.steps[i].run(g.where, to));
  }
  return ok;
}

/// Plain launches of the graph's steps, on a stream that is being captured.
inline status launch_all(const context &c, cudaStream_t stream, const frame &where) {
  issue to = issue::launch_on(stream, c.owner->early(), c.stamps);
  return launch_branches(c.now->branches, *c.now->variant, to, stream, where);
}

inline void drop_graph(run_graph &g) {
  if (g.executable)
    (void)cudaGraphExecDestroy(g.executable);
  if (g.graph)
    (void)cudaGraphDestroy(g.graph);
  g.executable = nullptr;
  g.graph = nullptr;
}

/// Finds the captured nodes by the ordinals in their launch tags.
inline status index_nodes(run_graph &g) {
  for (int i = 0; i < g.launch_count; ++i)
    g.nodes[i] = nullptr;
  size_t count = 0;
  TENON_CHECK_CUDA(cudaGraphGetNodes(g.graph, nullptr, &count));
  if (count == 0)
    return ok;
  cudaGraphNode_t *all = static_cast<cudaGraphNode_t *>(calloc(count, sizeof(cudaGraphNode_t)));
  if (!all)
    return out_of_memory;
  status s = from_cuda(cudaGraphGetNodes(g.graph, all, &count));
  for (size_t i = 0; s == ok && i < count; ++i) {
    cudaKernelNodeParams params{};
    s = from_cuda(cudaGraphKernelNodeGetParams(all[i], &params));
    if (s == ok)
      g.nodes[static_cast<const launch_tag *>(params.kernelParams[1])->ordinal] = all[i];
  }
  free(all);
  return s;
}

inline bool keeps_dims(const context &c) {
  return memcmp(c.dims, c.now->dims, size_t(c.owner->code->dim_count) * sizeof(index_t)) == 0;
}
inline void keep_dims(context &c) {
  memcpy(c.now->dims, c.dims, size_t(c.owner->code->dim_count) * sizeof(index_t));
}

inline status capture(context &c) {
  run_graph &g = *c.now;
  TENON_CHECK_CUDA(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeThreadLocal));
  const status issued = launch_all(c, c.stream, g.where);
  const status ended = from_cuda(cudaStreamEndCapture(c.stream, &g.graph));
  TENON_CHECK(issued);
  TENON_CHECK(ended);
  TENON_CHECK(index_nodes(g));
  TENON_CHECK_CUDA(cudaGraphInstantiate(&g.executable, g.graph, 0));
  // The first launch then costs what every other does.
  TENON_CHECK_CUDA(cudaGraphUpload(g.executable, c.stream));
  TENON_CHECK_CUDA(cudaStreamSynchronize(c.stream));
  keep_dims(c);
  return ok;
}

/// Gives the graph's nodes new arguments, all of them or those of inputs and outputs; captures it
/// anew where that is not enough. Launches under way keep what they have.
inline status update_graph(context &c, bool io_only) {
  run_graph &g = *c.now;
  c.prepared = false; // until all nodes agree
  issue to = issue::update(g.executable, g.nodes, io_only ? nullptr : c.owner->early(), c.stamps);
  status s = issue_steps(g, to, io_only);
  if (s == graph_outgrown) {
    drop_graph(g);
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
