// Defines the emulated CUDA runtime: see cuda_runtime.h.
#pragma once

#include "machine.h"

#include <map>
#include <memory>
#include <mutex>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

#if !defined(TENON_EMULATED_SPECIFIC)
#define TENON_EMULATED_SPECIFIC 0
#endif
// The device that runs what was built for TENON_EMULATED_ARCH.
#if !defined(TENON_EMULATED_DEVICE)
#define TENON_EMULATED_DEVICE TENON_EMULATED_ARCH
#endif
#define CUDART_VERSION 13000

namespace emulator {

/// What a kernel's host stub is here.
struct function {
  void (*run)(void *const *arguments, dim3 blocks, int cluster, int threads, int shared_bytes);
  size_t argument_bytes[2];
  int threads;
};

/// Dynamic shared memory that a function may have: 48 KiB until it is given `bytes`.
inline int shared_limit(const void *f, int bytes = 0) {
  static std::mutex guard;
  static std::map<const void *, int> given;
  const std::lock_guard<std::mutex> lock(guard);
  if (bytes)
    given[f] = bytes;
  const auto it = given.find(f);
  return it == given.end() ? 48 * 1024 : it->second;
}

/// One launch with copies of its arguments.
struct launch_record {
  const function *code = nullptr;
  dim3 blocks, threads;
  unsigned shared_bytes = 0;
  int cluster = 1;
  std::vector<uint64_t> storage[2];
  void *arguments[2] = {};

  void set(const void *f, dim3 b, dim3 t, unsigned shared, void *const *from) {
    code = static_cast<const function *>(f);
    blocks = b;
    threads = t;
    shared_bytes = shared;
    for (int i = 0; i < 2; ++i) {
      // Kernels hold no member that needs more than 16 bytes of alignment.
      storage[i].assign(code->argument_bytes[i] / 8 + 2, 0);
      memcpy(storage[i].data(), from[i], code->argument_bytes[i]);
      arguments[i] = storage[i].data();
    }
  }
  void run() const {
    if (int(shared_bytes) > shared_limit(code)) {
      fprintf(stderr, "emulator: %u bytes of shared memory, %d allowed\n", shared_bytes,
              shared_limit(code));
      abort();
    }
    code->run(arguments, blocks, cluster, int(threads.x), int(shared_bytes));
  }
};

} // namespace emulator

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
};

struct CUgraphNode_st {
  emulator::launch_record launch;
  std::vector<int> after; // numbers of the nodes that must have finished
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  bool ended = false; // a capture whose nodes were handed over
};
struct CUgraphExec_st {
  std::vector<std::pair<const CUgraphNode_st *, std::unique_ptr<CUgraphNode_st>>> nodes;
  unsigned turn = 1;
};
/// A capture belongs to the stream that began it and to those that waited for its events.
struct CUstream_st {
  std::shared_ptr<CUgraph_st> joined;
  std::vector<int> tail; // what the next node comes after
  bool began = false;

  CUgraph_st *capture() const { return joined && !joined->ended ? joined.get() : nullptr; }
};
struct CUevent_st {
  std::weak_ptr<CUgraph_st> capture;
  std::vector<int> after;
};
using cudaGraphNode_t = CUgraphNode_st *;
using cudaGraph_t = CUgraph_st *;
using cudaGraphExec_t = CUgraphExec_st *;
using cudaStream_t = CUstream_st *;
using cudaEvent_t = CUevent_st *;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrIntegrated,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMultiProcessorCount,
};
enum cudaLaunchAttributeID {
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributeClusterDimension,
};
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0,
                   cudaHostAllocMapped = 2;

struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  int maxDynamicSharedSizeBytes, ptxVersion;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};
struct cudaKernelNodeParams {
  void *func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void **kernelParams;
  void **extra;
};

// --- Devices ---

inline const char *cudaGetErrorString(cudaError_t e) {
  return e == cudaSuccess ? "no error" : "emulated error";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int *n) { return *n = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int *version) {
  return *version = CUDART_VERSION, cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr a, int) {
  switch (a) {
  case cudaDevAttrComputeCapabilityMajor: *value = TENON_EMULATED_DEVICE / 100; break;
  case cudaDevAttrComputeCapabilityMinor: *value = TENON_EMULATED_DEVICE / 10 % 10; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 * 1024; break;
  case cudaDevAttrMultiProcessorCount: *value = 4; break;
  default: *value = 0;
  }
  return cudaSuccess;
}

// --- Memory ---

inline cudaError_t cudaMalloc(void **p, size_t bytes) {
  bytes = (bytes + 255) / 256 * 256 + 256;
  *p = aligned_alloc(256, bytes);
  memset(*p, 0xff, bytes);
  return cudaSuccess;
}
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void **>(p), bytes);
}
inline cudaError_t cudaFree(void *p) { return free(p), cudaSuccess; }
inline cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned) { return cudaMalloc(p, bytes); }
inline cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }
inline cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
  return *device = host, cudaSuccess;
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  return memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t s) {
  return s && s->capture() ? cudaErrorStreamCaptureInvalidated : cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemset(void *p, int value, size_t bytes) {
  return memset(p, value, bytes), cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s) {
  return s && s->capture() ? cudaErrorStreamCaptureInvalidated : cudaMemset(p, value, bytes);
}

// --- Streams, events ---

inline cudaError_t cudaStreamCreate(cudaStream_t *s) { return *s = new CUstream_st, cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
  return cudaStreamCreate(s);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t s) { return delete s, cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  return s && s->capture() ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) {
  return *e = new CUevent_st, cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t e) { return delete e, cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  e->capture.reset();
  if (s && s->capture()) {
    e->capture = s->joined;
    e->after = s->tail;
  }
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const std::shared_ptr<CUgraph_st> capture = e->capture.lock();
  if (!capture || capture->ended)
    return s && s->capture() ? cudaErrorStreamCaptureIsolation : cudaSuccess;
  if (s->capture() && s->joined != capture)
    return cudaErrorStreamCaptureIsolation;
  if (!s->capture())
    s->tail.clear();
  s->joined = capture;
  s->tail.insert(s->tail.end(), e->after.begin(), e->after.end());
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

// --- Functions, launches ---

inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *f) {
  a->maxDynamicSharedSizeBytes = emulator::shared_limit(f);
  a->ptxVersion = TENON_EMULATED_ARCH / 10;
  a->sharedSizeBytes = TENON_EMULATED_SPECIFIC ? 4096 : 256;
  return cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute, int bytes) {
  emulator::shared_limit(f, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f,
                                       void **arguments) {
  emulator::launch_record r;
  r.set(f, c->gridDim, c->blockDim, unsigned(c->dynamicSmemBytes), arguments);
  bool early = false;
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    if (c->attrs[i].id == cudaLaunchAttributeClusterDimension)
      r.cluster = int(c->attrs[i].val.clusterDim.x);
    else
      early = true;
  }
  if (c->stream && c->stream->capture()) {
    CUgraph_st &graph = *c->stream->capture();
    graph.nodes.push_back(std::make_unique<CUgraphNode_st>());
    CUgraphNode_st &node = *graph.nodes.back();
    // The copies' addresses must be those of the node.
    node.launch.set(f, r.blocks, r.threads, r.shared_bytes, arguments);
    node.launch.cluster = r.cluster;
    node.after = std::move(c->stream->tail);
    if (early && node.after.size() != 1) {
      fprintf(stderr, "emulator: an early start with %zu nodes to wait for\n", node.after.size());
      abort();
    }
    c->stream->tail = {int(graph.nodes.size()) - 1};
  } else {
    r.run();
  }
  return cudaSuccess;
}

// --- Graphs ---

inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (s->capture())
    return cudaErrorStreamCaptureInvalidated;
  s->joined = std::make_shared<CUgraph_st>();
  s->tail.clear();
  s->began = true;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
  *g = nullptr;
  if (!s->began)
    return cudaErrorStreamCaptureInvalidated;
  s->began = false;
  CUgraph_st &made = *s->joined;
  made.ended = true;
  // Every node must lie before the end of the stream that began.
  std::vector<bool> reached(made.nodes.size(), false);
  size_t count = 0;
  std::vector<int> open = s->tail;
  while (!open.empty()) {
    const auto n = size_t(open.back());
    open.pop_back();
    if (reached[n])
      continue;
    reached[n] = true;
    ++count;
    open.insert(open.end(), made.nodes[n]->after.begin(), made.nodes[n]->after.end());
  }
  if (count < made.nodes.size())
    return cudaErrorStreamCaptureUnjoined;
  *g = new CUgraph_st;
  (*g)->nodes = std::move(made.nodes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
  *status = s && s->capture() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *count) {
  // As on hardware, the order says nothing about the order of launches.
  if (nodes)
    for (size_t i = 0; i < g->nodes.size(); ++i)
      nodes[i] = g->nodes[g->nodes.size() - 1 - i].get();
  *count = g->nodes.size();
  return cudaSuccess;
}
inline cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *p) {
  emulator::launch_record &r = node->launch;
  *p = {const_cast<emulator::function *>(r.code),
        r.blocks,
        r.threads,
        r.shared_bytes,
        r.arguments,
        nullptr};
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long) {
  *e = new CUgraphExec_st;
  for (const auto &node : g->nodes) {
    auto copy = std::make_unique<CUgraphNode_st>();
    const emulator::launch_record &r = node->launch;
    copy->launch.set(r.code, r.blocks, r.threads, r.shared_bytes, r.arguments);
    copy->launch.cluster = r.cluster;
    copy->after = node->after;
    (*e)->nodes.emplace_back(node.get(), std::move(copy));
  }
  return cudaSuccess;
}
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                                    const cudaKernelNodeParams *p) {
  for (auto &[original, copy] : e->nodes)
    if (original == node && original->launch.code == p->func) {
      copy->launch.set(p->func, p->gridDim, p->blockDim, p->sharedMemBytes, p->kernelParams);
      return cudaSuccess;
    }
  return cudaErrorInvalidValue;
}
/// Runs the nodes in an order that the edges allow, another one each time: what lacks an edge shows
/// as wrong data.
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t) {
  std::vector<bool> done(e->nodes.size(), false);
  for (size_t left = done.size(); left > 0; --left) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < done.size(); ++i) {
      bool is_ready = !done[i];
      for (const int n : e->nodes[i].second->after)
        is_ready = is_ready && done[size_t(n)];
      if (is_ready)
        ready.push_back(i);
    }
    e->turn = e->turn * 1664525u + 1013904223u;
    const size_t next = ready[(e->turn >> 16) % ready.size()];
    e->nodes[next].second->launch.run();
    done[next] = true;
  }
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t g) { return delete g, cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) { return delete e, cudaSuccess; }
