// Defines the model: the weights on one device, uploaded once and never changed. Any number of
// contexts and threads share it.
#ifndef TENON_RUNTIME_CUDA_HOST_MODEL_H
#define TENON_RUNTIME_CUDA_HOST_MODEL_H

#include "common/open_options.h"
#include "cuda/host/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace tenon {
namespace cuda {

struct model {
  const program *code;
  const variant_table *variant;
  unsigned char *weights;
  memory_source memory; // of the weights and of contexts, on the device
  int device;
  int shared_limit;         // bytes of shared memory a block may have
  bool programmatic;        // programmatic dependent launch works here
  early_starts early_facts; // what kernels know then
  bool integrated;          // host and device share one memory

  const early_starts *early() const { return programmatic ? &early_facts : nullptr; }
};

/// Makes a device current for a scope.
class device_scope {
public:
  explicit device_scope(int device) {
    status_ = from_cuda(cudaGetDevice(&before_));
    if (status_ == ok && before_ != device) {
      status_ = from_cuda(cudaSetDevice(device));
      changed_ = status_ == ok;
    }
  }
  ~device_scope() {
    if (changed_)
      (void)cudaSetDevice(before_);
  }
  device_scope(const device_scope &) = delete;
  device_scope &operator=(const device_scope &) = delete;
  status entered() const { return status_; }

private:
  int before_ = 0;
  bool changed_ = false;
  status status_ = ok;
};

/// The device's own memory as a memory_source: whoever calls has made the device current.
inline void *device_allocate(void *, size_t bytes, size_t) {
  void *block = nullptr;
  if (cudaMalloc(&block, bytes) == cudaSuccess)
    return block;
  (void)cudaGetLastError();
  return nullptr;
}
inline void device_release(void *, void *block) { (void)cudaFree(block); }

/// What a weights file begins with; the weights follow.
struct weights_header {
  char magic[8]; // "TENONWT1"
  uint64_t bytes;
  uint64_t hash;
  uint64_t reserved;
};

namespace detail {

inline status attribute(int &value, cudaDeviceAttr a, int device) {
  return from_cuda(cudaDeviceGetAttribute(&value, a, device));
}

/// What reading a weights file needs for a while.
struct upload {
  static constexpr size_t piece = size_t(4) << 20;
  FILE *file = nullptr;
  unsigned char *pinned = nullptr; // two pieces
  cudaStream_t stream = nullptr;
  cudaEvent_t done[2] = {};

  upload() = default;
  upload(const upload &) = delete;
  upload &operator=(const upload &) = delete;
  ~upload() {
    for (cudaEvent_t e : done)
      if (e)
        (void)cudaEventDestroy(e);
    if (stream)
      (void)cudaStreamDestroy(stream);
    if (pinned)
      (void)cudaFreeHost(pinned);
    if (file)
      (void)fclose(file);
  }
  status open(const char *path) {
    file = fopen(path, "rb");
    if (!file)
      return weights_unreadable;
    void *p = nullptr;
    TENON_CHECK_CUDA(cudaHostAlloc(&p, 2 * piece, cudaHostAllocDefault));
    pinned = static_cast<unsigned char *>(p);
    TENON_CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t &e : done)
      TENON_CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return ok;
  }
};

inline bool belongs(const weights_header &header, const program &code) {
  return memcmp(header.magic, "TENONWT1", 8) == 0 && header.bytes == code.weight_bytes &&
         header.hash == code.weight_hash;
}

/// Copies weights that lie in host memory.
inline status upload_memory(const unsigned char *from, size_t bytes, unsigned char *to) {
  TENON_CHECK_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  // From pageable memory the last piece may still be on its way when the call returns.
  return from_cuda(cudaStreamSynchronize(nullptr));
}

/// Copies what the caller says are the bytes of a weights file.
inline status upload_given(const program &code, const void *file, size_t bytes, unsigned char *to) {
  weights_header header;
  if (bytes != sizeof(header) + code.weight_bytes)
    return weights_mismatch;
  memcpy(&header, file, sizeof(header));
  if (!belongs(header, code))
    return weights_mismatch;
  return upload_memory(static_cast<const unsigned char *>(file) + sizeof(header), code.weight_bytes,
                       to);
}

/// Copies a file's weights to the device piece by piece, so that neither the whole file nor its
/// pages stay in host memory; each piece is read while the one before is on its way.
inline status upload_file(const program &code, const char *path, unsigned char *to) {
  upload u;
  TENON_CHECK(u.open(path));
  weights_header header;
  if (fread(&header, sizeof(header), 1, u.file) != 1)
    return weights_unreadable;
  if (!belongs(header, code))
    return weights_mismatch;
  int turn = 0;
  for (size_t at = 0; at < code.weight_bytes; at += upload::piece, turn ^= 1) {
    const size_t n =
        code.weight_bytes - at < upload::piece ? code.weight_bytes - at : upload::piece;
    unsigned char *from = u.pinned + size_t(turn) * upload::piece;
    TENON_CHECK_CUDA(cudaEventSynchronize(u.done[turn]));
    if (fread(from, 1, n, u.file) != n)
      return weights_unreadable;
    TENON_CHECK_CUDA(cudaMemcpyAsync(to + at, from, n, cudaMemcpyHostToDevice, u.stream));
    TENON_CHECK_CUDA(cudaEventRecord(u.done[turn], u.stream));
  }
  return from_cuda(cudaStreamSynchronize(u.stream));
}

/// `Options` is the generated struct, which says where weights are that the program has not.
template <class Options> status upload_weights(model &m, const Options &o) {
  const program &code = *m.code;
  if (code.weight_bytes == 0)
    return ok;
  m.weights = static_cast<unsigned char *>(
      m.memory.allocate(m.memory.user, code.weight_bytes, memory_alignment));
  if (!m.weights)
    return out_of_memory;
  if (code.weights)
    return upload_memory(code.weights, code.weight_bytes, m.weights);
  if (o.weights)
    return upload_given(code, o.weights, o.weights_bytes, m.weights);
  return o.weights_path ? upload_file(code, o.weights_path, m.weights) : weights_unreadable;
}

/// Finds the device and what it can do.
inline status find_device(model &m) {
  const program &code = *m.code;
  int count = 0;
  TENON_CHECK_CUDA(cudaGetDeviceCount(&count));
  if (m.device < 0 || m.device >= count)
    return invalid_argument;
  int major = 0, minor = 0, integrated = 0, driver = 0;
  TENON_CHECK(attribute(major, cudaDevAttrComputeCapabilityMajor, m.device));
  TENON_CHECK(attribute(minor, cudaDevAttrComputeCapabilityMinor, m.device));
  TENON_CHECK(attribute(integrated, cudaDevAttrIntegrated, m.device));
  TENON_CHECK(attribute(m.shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, m.device));
  TENON_CHECK_CUDA(cudaDriverGetVersion(&driver));
  m.integrated = integrated != 0;
  // Captured programmatic launches came with 12.3, in the toolkit and in the driver.
  m.programmatic = major >= 9 && driver >= 12030 && CUDART_VERSION >= 12030;
  TENON_CHECK(read_facts(m.early_facts, m.device));
  m.variant = select_variant(code, major, minor);
  return m.variant ? ok : wrong_architecture;
}

template <class Options> status open_model(model &m, const Options &o) {
  TENON_CHECK(find_device(m));
  const device_scope scope(m.device);
  TENON_CHECK(scope.entered());
  TENON_CHECK(m.variant->check_build());
  return upload_weights(m, o);
}
} // namespace detail

inline void destroy(model *m) {
  if (!m)
    return;
  const device_scope scope(m->device);
  if (m->weights)
    m->memory.release(m->memory.user, m->weights);
  free(m);
}

/// `given` may be null: the defaults of the generated struct `Options`.
template <class Options> status open(model **out, const program &code, const Options *given) {
  Options o = {};
  if (!out)
    return invalid_argument;
  *out = nullptr;
  if (!read_options(given, o) || !o.allocate != !o.release || o.threads < 0)
    return invalid_argument;
  model *m = static_cast<model *>(calloc(1, sizeof(model)));
  if (!m)
    return out_of_memory;
  m->code = &code;
  m->device = o.device;
  m->memory = o.allocate ? memory_source{o.allocate, o.release, o.user}
                         : memory_source{device_allocate, device_release, nullptr};
  const status s = detail::open_model(*m, o);
  if (s != ok) {
    destroy(m);
    return s;
  }
  *out = m;
  return ok;
}

} // namespace cuda
} // namespace tenon

#endif
