// Defines what kernel tests share: guarded and poisoned buffers, random values, launches,
// comparison and the last line "N passed, N failed".
//
// Built by nvcc, tests run on the GPU. Built by a C++ compiler with emulator/ in front of the
// include path, the same tests run on the CPU. Built with TENON_INSTANCES and not run, by nvcc for
// every architecture and by a C++ compiler against the headers of older toolkits, a test is its
// last cases alone, one or a few of each kernel: main() leaves the others out.
#pragma once

#include "cuda/base/operands.cuh"
#if defined(__CUDACC__) || defined(TENON_INSTANCES)
#define TENON_TEST_ON_DEVICE // not on the emulator
#include "cuda/host/launch.h"
#else
#include "cuda/host/entry.cuh"
#include "machine.h"
#endif

#include <math.h>
#include <memory>
#include <random>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

namespace test {

using namespace tenon;
using tenon::cuda::grid;

inline int passed = 0, failed = 0;
inline std::string current;

inline int finish() {
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

/// Names the case that the next comparisons belong to.
__attribute__((format(printf, 1, 2))) inline void name_case(const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  current = text;
}

inline void record(bool good, const char *what) {
  ++(good ? passed : failed);
  if (!good)
    printf("FAIL %s: %s\n", current.c_str(), what);
}

inline std::mt19937 &generator() {
  static std::mt19937 g(12345);
  return g;
}
inline float random_float() {
  return std::uniform_real_distribution<float>(-1.0f, 1.0f)(generator());
}
inline int random_int(int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(generator());
}

inline void require(cudaError_t e, const char *what) {
  if (e != cudaSuccess) {
    printf("FAIL %s: %s: %s\n", current.c_str(), what, cudaGetErrorString(e));
    ++failed;
    exit(finish());
  }
}

/// Copies to the device and waits for the data to be there. cudaMemcpy() returns once pageable
/// memory has been read, cudaMemcpy() within the device and cudaMemset() at once: a stream that
/// does not wait for the default one could read what was there before.
inline void copy_to_device(void *to, const void *from, size_t bytes,
                           cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  require(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy to the device");
  require(cudaDeviceSynchronize(), "cudaMemcpy to the device");
}
/// The same of bytes that are all equal.
inline void fill_device(void *to, int value, size_t bytes) {
  require(cudaMemset(to, value, bytes), "cudaMemset");
  require(cudaDeviceSynchronize(), "cudaMemset");
}

/// Elements on the device between margins that must stay as they are. `skew` elements move the
/// first away from its 16-byte boundary. Contents start as 0xff bytes (NaN).
template <class T> class buffer {
public:
  explicit buffer(index_t count, index_t skew = 0) : count_(size_t(count)), skew_(size_t(skew)) {
    host_.resize(count_);
    const size_t bytes = (2 * margin + skew_ + count_) * sizeof(T);
    image_.assign(bytes, 0xff);
#if defined(TENON_TEST_ON_DEVICE)
    require(cudaMalloc(&device_, bytes), "cudaMalloc");
    copy_to_device(device_, image_.data(), bytes);
#else
    memory_ = std::make_unique<emulator::guarded>(bytes, 16);
    device_ = reinterpret_cast<unsigned char *>(memory_->data());
    memcpy(device_, image_.data(), bytes);
#endif
  }
  ~buffer() {
#if defined(TENON_TEST_ON_DEVICE)
    (void)cudaFree(device_);
#endif
  }
  buffer(const buffer &) = delete;
  buffer &operator=(const buffer &) = delete;

  index_t size() const { return index_t(count_); }
  T *device() { return reinterpret_cast<T *>(device_) + margin + skew_; }
  compute_t<T> get(index_t i) const { return load_element(&host_[size_t(i)]); }
  void set(index_t i, compute_t<T> v) { store_element(&host_[size_t(i)], v); }

  /// One value, written to the device.
  void fill(compute_t<T> v) {
    for (index_t i = 0; i < size(); ++i)
      set(i, v);
    upload();
  }
  /// Random values, in [-1, 1] or over the range of small integers, written to the device.
  void fill_random(int low = -100, int high = 100) {
    for (index_t i = 0; i < size(); ++i)
      if constexpr (tenon::detail::is_float<compute_t<T>>)
        set(i, compute_t<T>(random_float()));
      else
        set(i, compute_t<T>(random_int(low, high)));
    upload();
  }
  void upload() {
#if defined(TENON_TEST_ON_DEVICE)
    copy_to_device(device(), host_.data(), count_ * sizeof(T));
#else
    memcpy(static_cast<void *>(device()), host_.data(), count_ * sizeof(T));
#endif
  }
  /// Reads the device and checks the margins.
  void download() {
#if defined(TENON_TEST_ON_DEVICE)
    require(cudaMemcpy(image_.data(), device_, image_.size(), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
#else
    memcpy(image_.data(), device_, image_.size());
#endif
    const size_t before = (margin + skew_) * sizeof(T), inside = count_ * sizeof(T);
    bool untouched = true;
    for (size_t i = 0; i < image_.size(); ++i)
      if ((i < before || i >= before + inside) && image_[i] != 0xff)
        untouched = false;
    if (!untouched)
      record(false, "elements beside the tensor were written");
    memcpy(static_cast<void *>(host_.data()), image_.data() + before, inside);
  }

private:
  static constexpr size_t margin = 64;
  size_t count_, skew_;
  std::vector<T> host_;
  std::vector<unsigned char> image_;
  unsigned char *device_ = nullptr;
#if !defined(TENON_TEST_ON_DEVICE)
  std::unique_ptr<emulator::guarded> memory_;
#endif
};

/// Runs one kernel and waits for it.
template <class K> void launch(const K &given) {
  const grid g = given.blocks();
  if (g.x == 0 || g.y == 0 || g.z == 0)
    return;
#if defined(TENON_TEST_ON_DEVICE)
  const K &kernel = given;
  using every = cuda::variant<0, 100000>;
  int limit = 0;
  require(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "attribute");
  cuda::issue configure = cuda::issue::configure(limit, nullptr);
  cuda::status s = configure.launch<every>(kernel);
  if (s == cuda::ok) {
    cuda::issue to = cuda::issue::launch_on(nullptr, nullptr, nullptr);
    s = to.launch<every>(kernel);
  }
  if (s != cuda::ok) {
    printf("FAIL %s: %s\n", current.c_str(), cuda::message(s));
    ++failed;
    return;
  }
  require(cudaDeviceSynchronize(), "kernel");
#else
  K kernel = given;
  int (*const complete)(void *) = cuda::detail::completion<K>::function;
  if (const int s = complete ? complete(&kernel) : 0) {
    record(false, ("completion fails with status " + std::to_string(s)).c_str());
    return;
  }
  const auto body = [&](unsigned char *shared) { cuda::detail::run_parts(kernel, shared); };
  emulator::machine::instance().launch(int(g.x), int(g.y), int(g.z), cuda::detail::cluster_of<K>,
                                       K::threads, cuda::detail::shared_memory<K>::bytes(kernel),
                                       body);
#endif
}

/// Whether clusters of blocks run here.
inline bool runs_clusters() {
#if defined(TENON_TEST_ON_DEVICE)
  int major = 0;
  require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "attribute");
  return major >= 9;
#else
  return cuda::this_target.arch == 0 || cuda::this_target.arch >= 900;
#endif
}

/// Error that storing as T brings, relative to the largest value.
template <class T> constexpr double rounding() {
  return sizeof(T) > 2 ? 1e-6 : tenon::detail::is_same<T, bf16> ? 8e-3 : 1e-3;
}

/// Compares device contents with `want`; the error bound is relative to the largest value wanted.
template <class T>
void expect_close(buffer<T> &got, const std::vector<double> &want, double tolerance) {
  got.download();
  double largest = 1e-30, worst = 0;
  for (double w : want)
    largest = fabs(w) > largest ? fabs(w) : largest;
  size_t where = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double value = double(got.get(index_t(i))), error = fabs(value - want[i]);
    if (!(error <= worst) && value != want[i]) {
      worst = error;
      where = i;
      if (error != error)
        break;
    }
  }
  const bool good = worst <= tolerance * largest;
  char text[200];
  if (!good)
    snprintf(text, sizeof(text), "element %zu of %zu is %g, expected %g (error %.3g of largest %g)",
             where, want.size(), double(got.get(index_t(where))), want[where], worst, largest);
  record(good, good ? "" : text);
}

/// Compares device contents with want(i), exactly; NaN is like NaN.
template <class T, class Want> void expect_same(buffer<T> &got, Want want, const char *what) {
  got.download();
  bool same = true;
  for (index_t i = 0; i < got.size(); ++i) {
    const auto a = got.get(i), b = decltype(a)(want(i));
    same = same && (a == b || (a != a && b != b));
  }
  record(same, what);
}
inline void expect_zero(buffer<int> &counters) {
  expect_same(
      counters, [](index_t) { return 0; }, "counters are not left zero");
}

} // namespace test
