// Defines the emulated CUDA runtime: see cuda_runtime.h.
#pragma once

#include "machine.h"

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

namespace emulator {

/// What a kernel's host stub is here.
struct function {
  void (*run)(void *const *arguments, dim3 blocks, int cluster, int threads, int shared_bytes);
  size_t argument_bytes[2];
  int threads;
};

/// As many as a machine of several has at least. They run the same code; each has its own memory,
/// streams and limits of functions.
constexpr int devices = 2;

/// Dynamic shared memory that a function may have on the current device: 48 KiB until it is given
/// `bytes`.
int shared_limit(const void *f, int bytes = 0);
/// What was asked for last, -1 where nothing was.
int carveout(const void *f, int percent = -1);

} // namespace emulator

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
};

struct CUgraphNode_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUstream_st;
struct CUevent_st;
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
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout
};
constexpr int cudaSharedmemCarveoutMaxShared = 100;
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrIntegrated,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrReservedSharedMemoryPerBlock,
};
enum cudaLaunchAttributeID {
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributeClusterDimension,
};
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0,
                   cudaHostAllocMapped = 2;

struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  int maxDynamicSharedSizeBytes, ptxVersion, preferredShmemCarveout;
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
inline cudaError_t cudaGetDeviceCount(int *n) { return *n = emulator::devices, cudaSuccess; }
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int *version) {
  return *version = CUDART_VERSION, cudaSuccess;
}

// --- Memory ---

cudaError_t cudaMalloc(void **p, size_t bytes);
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void **>(p), bytes);
}
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned);
cudaError_t cudaFreeHost(void *p);
inline cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
  return *device = host, cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s);

// --- Streams, events ---

cudaError_t cudaStreamCreate(cudaStream_t *s);
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
  return cudaStreamCreate(s);
}
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned);
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

// --- Functions, launches ---

cudaError_t cudaFuncSetAttribute(const void *f, cudaFuncAttribute, int bytes);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **arguments);

// --- Graphs ---

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g);
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status);
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) {
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *count);
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *p);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long);
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                             const cudaKernelNodeParams *p);
/// Runs the nodes in an order that the edges allow, another one each time: what lacks an edge shows
/// as wrong data.
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e);

// --- What depends on the architecture that kernels are compiled for; emulator.cpp does not ---

#if defined(TENON_EMULATED_ARCH)
#if !defined(TENON_EMULATED_SPECIFIC)
#define TENON_EMULATED_SPECIFIC 0
#endif
// The device that runs what was built for TENON_EMULATED_ARCH.
#if !defined(TENON_EMULATED_DEVICE)
#define TENON_EMULATED_DEVICE TENON_EMULATED_ARCH
#endif

inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr a, int) {
  switch (a) {
  case cudaDevAttrComputeCapabilityMajor: *value = TENON_EMULATED_DEVICE / 100; break;
  case cudaDevAttrComputeCapabilityMinor: *value = TENON_EMULATED_DEVICE / 10 % 10; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 * 1024; break;
  case cudaDevAttrMultiProcessorCount: *value = 4; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 * 1024; break;
  case cudaDevAttrReservedSharedMemoryPerBlock: *value = 1024; break;
  default: *value = 0;
  }
  return cudaSuccess;
}
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *f) {
  a->maxDynamicSharedSizeBytes = emulator::shared_limit(f);
  a->preferredShmemCarveout = emulator::carveout(f);
  a->ptxVersion = TENON_EMULATED_ARCH / 10;
  a->sharedSizeBytes = TENON_EMULATED_SPECIFIC ? 4096 : 256;
  return cudaSuccess;
}
#endif
