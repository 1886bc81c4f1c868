// Defines the model: the weights on one device, uploaded once and never changed. Any number of
// contexts and threads share it.
#ifndef TENON_RUNTIME_CUDA_HOST_MODEL_H
#define TENON_RUNTIME_CUDA_HOST_MODEL_H

#include "cuda/host/weights.h"
#include <stdlib.h>

namespace tenon {
namespace cuda {

struct model {
  const program *code;
  const variant_table *variant;
  device_weights weights;
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

namespace detail {

inline status attribute(int &value, cudaDeviceAttr a, int device) {
  return from_cuda(cudaDeviceGetAttribute(&value, a, device));
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
  return bring_weights(*m.code, m.memory, o, m.weights);
}
} // namespace detail

inline void destroy(model *m) {
  if (!m)
    return;
  const device_scope scope(m->device);
  if (m->weights.own)
    m->memory.release(m->memory.user, m->weights.own);
  free(m->weights.ranges);
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
