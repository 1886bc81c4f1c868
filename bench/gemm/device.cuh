// Defines what bench/gemm.cu keeps on the device: operands in rotated sets, the reference result
// and its comparison, and the clock of a graph of launches.
#pragma once

#include "schedule.h"

#include "cuda/tile/tf32.cuh"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string.h>

namespace bench {

constexpr int kLaunches = 20;
constexpr size_t kCacheBytes = size_t(200) << 20; // several times the second-level cache
constexpr size_t kPartialBytes = size_t(256) << 20, kCounterBytes = size_t(1) << 20;

#define CHECK(call) ::bench::check(int(call), #call, __FILE__, __LINE__)
inline void check(int error, const char *what, const char *file, int line) {
  if (error != 0) {
    printf("%s:%d: %s: error %d\n", file, line, what, error);
    exit(1);
  }
}

//===--- Kernels that make and check data ---===//

TENON_FN element element_of(float x) {
  element e;
  store_element(&e, x);
  return e;
}
__global__ void fill_random(element *p, size_t count, unsigned seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count;
       i += size_t(gridDim.x) * blockDim.x) {
    unsigned x = unsigned(i) * 2654435761u ^ unsigned(i >> 32) ^ seed * 0x9e3779b9u;
    x ^= x >> 16, x *= 0x85ebca6bu, x ^= x >> 13, x *= 0xc2b2ae35u, x ^= x >> 16;
    p[i] = element_of(float(x >> 8) * (2.0f / 16777216.0f) - 1.0f);
  }
}
/// The matrix that a convolution's group multiplies: [batch * out_h * out_w][k].
__global__ void unfold(element *to, const element *from, shape p, long out_h, long out_w,
                       long group) {
  const long per_group = p.channels / p.groups, k = p.kernel_h * p.kernel_w * per_group;
  const long count = p.batch * out_h * out_w * k;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count;
       i += long(gridDim.x) * blockDim.x) {
    const long c = i % per_group, tap = i % k / per_group, pixel = i / k;
    const long y = pixel / out_w % out_h * p.stride_h - p.pad_h + tap / p.kernel_w * p.dilation_h,
               x = pixel % out_w * p.stride_w - p.pad_w + tap % p.kernel_w * p.dilation_w,
               b = pixel / (out_w * out_h);
    const bool inside = y >= 0 && y < p.height && x >= 0 && x < p.width;
    to[i] = inside ? from[((b * p.height + y) * p.width + x) * p.channels + group * per_group + c]
                   : element_of(0.0f);
  }
}
/// Weights [groups * n][taps][channels] as a kernel wants them: rows of `pitch` channels, or tiles
/// of `tile_n` columns (0: rows).
__global__ void repack(element *to, const element *from, long groups, long n, long taps,
                       long channels, long pitch, long tile_n) {
  const long columns = tile_n ? (n + tile_n - 1) / tile_n * tile_n : n;
  const long count = groups * columns * taps * pitch;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count;
       i += long(gridDim.x) * blockDim.x) {
    const long c = i % pitch, tap = i / pitch % taps, f = i / (pitch * taps) % columns,
               g = i / (pitch * taps * columns);
    const bool inside = c < channels && f < n;
    const element value =
        inside ? from[((g * n + f) * taps + tap) * channels + c] : element_of(0.0f);
    const long tile = tile_n ? g * (columns / tile_n) + f / tile_n : 0;
    to[tile_n ? ((tile * taps + tap) * pitch + c) * tile_n + f % tile_n : i] = value;
  }
}
/// Weights [n][9][channels] as runtime/cuda/winograd/kernel.cuh wants them, G g G^T in tiles of
/// `tile_n` columns.
__global__ void transform_weights(element *to, const element *from, long n, long channels,
                                  long tile_n) {
  const float G[4][3] = {{1, 0, 0}, {.5f, .5f, .5f}, {.5f, -.5f, .5f}, {0, 0, 1}};
  const long columns = (n + tile_n - 1) / tile_n * tile_n, count = columns * channels;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count;
       i += long(gridDim.x) * blockDim.x) {
    const long c = i % channels, f = i / channels;
    for (int p = 0; p < 16; ++p) {
      float sum = 0;
      for (int t = 0; t < 9 && f < n; ++t)
        sum += G[p / 4][t / 3] * G[p % 4][t % 3] * load_element(&from[(f * 9 + t) * channels + c]);
      to[((f / tile_n * channels + c) * 16 + p) * tile_n + f % tile_n] = element_of(sum);
    }
  }
}
/// found[0]: the largest difference (its bits order as integers), found[1]: the largest value,
/// found[2]: elements that are no numbers.
__global__ void compare(const element *got, const element *want, size_t count, int *found) {
  float difference = 0, largest = 0;
  int bad = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count;
       i += size_t(gridDim.x) * blockDim.x) {
    const float g = load_element(&got[i]), w = load_element(&want[i]), d = fabsf(g - w);
    if (!(d < 1e30f))
      ++bad;
    else
      difference = fmaxf(difference, d);
    largest = fmaxf(largest, fabsf(w));
  }
  atomicMax(found, __float_as_int(difference));
  atomicMax(found + 1, __float_as_int(largest));
  atomicAdd(found + 2, bad);
}

/// Memory that grows and is kept.
class store {
public:
  template <class T> T *at_least(size_t count) {
    if (count * sizeof(T) > bytes_) {
      (void)cudaFree(memory_);
      bytes_ = count * sizeof(T);
      CHECK(cudaMalloc(&memory_, bytes_));
    }
    return static_cast<T *>(memory_);
  }

private:
  void *memory_ = nullptr;
  size_t bytes_ = 0;
};

#if GEMM_PRECISION == 2
/// Floats in two parts, the small ones behind all big ones.
__global__ void split_parts(float *w, long count) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < count;
       i += long(gridDim.x) * blockDim.x) {
    const cuda::tf32_pair p(__float_as_uint(w[i]));
    w[i] = __uint_as_float(p.big);
    w[count + i] = __uint_as_float(p.small);
  }
}
#endif

/// The operands of one problem at a time, sets of them one after another.
class data {
public:
  data() {
    scratch_ = {partials_.at_least<float>(kPartialBytes / sizeof(float)),
                counters_.at_least<int>(kCounterBytes / sizeof(int))};
    CHECK(cudaMemset(scratch_.counters, 0, kCounterBytes));
    found_ = counts_.at_least<int>(3);
  }
  void set_problem(const problem &p, unsigned seed) {
    p_ = p;
    a_ = rounded(p.a_elements());
    // Room for columns of whole tiles and rows of whole runs.
    const size_t columns = size_t(p.groups) * (size_t(p.n()) + 256);
    const size_t taps = std::max<size_t>(size_t(p.kernel_h * p.kernel_w),
                                         p.kernel_h == 3 && p.kernel_w == 3 ? 16 : 1),
                 channels = size_t(p.channels / p.groups);
    w_ = rounded(columns * taps * ((channels + 15) / 16 * 16) * (kPrecision == 2 ? 2 : 1));
    y_ = rounded(p.y_elements());
    const size_t moved = (a_ + p.w_elements() + y_) * sizeof(element);
    sets_ = int(std::min<size_t>(kLaunches, std::max<size_t>(2, kCacheBytes / moved + 1)));
    memory_ = sets_memory_.at_least<element>((a_ + w_ + y_) * size_t(sets_));
    for (int i = 0; i < sets_; ++i)
      fill_random<<<1024, 256>>>(memory_ + size_t(i) * (a_ + w_ + y_), a_ + w_, seed + unsigned(i));
    reference_ = reference_memory_.at_least<element>(y_);
    packed_ = packed_memory_.at_least<element>(w_);
    CHECK(cudaDeviceSynchronize());
  }
  operands set(int i) const {
    element *at = memory_ + size_t(i % sets_) * (a_ + w_ + y_);
    return {at, at + a_, at + a_ + w_, scratch_};
  }
  /// The first set, with weights as the schedule wants them.
  operands packed_set(const schedule &s) {
    operands o = set(0);
    const long channels = p_.channels / p_.groups, taps = p_.kernel_h * p_.kernel_w,
               run = 16 / long(sizeof(element));
    const bool round = s.weights == packing::rounded_rows || s.weights == packing::parts;
    const long pitch = round ? (channels + run - 1) / run * run : channels;
    if (s.weights == packing::winograd) {
      transform_weights<<<1024, 256>>>(packed_, o.w, p_.n(), channels, s.tile_n);
      o.w = packed_;
      return o;
    }
    repack<<<1024, 256>>>(packed_, o.w, p_.groups, p_.n(), taps, channels, pitch,
                          s.weights == packing::tiles ? s.tile_n : 0);
#if GEMM_PRECISION == 2
    if (s.weights == packing::parts)
      split_parts<<<1024, 256>>>(packed_, p_.groups * p_.n() * taps * pitch);
#endif
    o.w = packed_;
    return o;
  }
  element *reference() const { return reference_; }
  /// A of a group as a matrix.
  const element *matrix_a(long group) {
    if (p_.is_product())
      return set(0).a;
    element *to = unfolded_.at_least<element>(size_t(p_.m() * p_.k()));
    unfold<<<4096, 256>>>(to, set(0).a, p_, p_.out_h(), p_.out_w(), group);
    CHECK(cudaDeviceSynchronize());
    return to;
  }
  void poison() const { CHECK(cudaMemset(set(0).y, 0xff, y_ * sizeof(element))); }
  /// Whether y of the first set is the reference, within what two orders of summation and one
  /// rounding may differ.
  bool right(std::string &why) const {
    CHECK(cudaMemset(found_, 0, 3 * sizeof(int)));
    compare<<<512, 256>>>(set(0).y, reference_, p_.y_elements(), found_);
    int found[3];
    CHECK(cudaMemcpy(found, found_, sizeof(found), cudaMemcpyDeviceToHost));
    float difference, largest;
    memcpy(&difference, &found[0], 4);
    memcpy(&largest, &found[1], 4);
    char text[120];
    snprintf(text, sizeof(text), "%d no numbers, difference %.3g of %.3g", found[2],
             double(difference), double(largest));
    why = text;
    // Weights are not rounded to tf32 here: they are cut off.
    const float bound = kPrecision == 0   ? 2e-3f
                        : kPrecision == 1 ? 1e-2f
                        : kPrecision == 4 ? 4e-3f
                                          : 1e-5f;
    return found[2] == 0 && largest > 0 && difference <= bound * largest;
  }

private:
  static size_t rounded(size_t n) { return (n + 511) / 512 * 512; }
  problem p_;
  size_t a_ = 0, w_ = 0, y_ = 0;
  int sets_ = 0;
  store sets_memory_, reference_memory_, packed_memory_, unfolded_, partials_, counters_, counts_;
  element *memory_ = nullptr, *reference_ = nullptr, *packed_ = nullptr;
  cuda::split_scratch scratch_;
  int *found_ = nullptr;
};

//===--- Timing ---===//

/// Waits for the stream; a kernel that never ends must not take the machine's time.
inline void wait_or_leave(cudaStream_t stream, const std::string &what) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t e = cudaStreamQuery(stream);
    if (e == cudaSuccess)
      return;
    if (e != cudaErrorNotReady) {
      printf("%s: %s\n", what.c_str(), cudaGetErrorString(e));
      exit(1);
    }
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5)) {
      printf("%s: does not end\n", what.c_str());
      fflush(stdout);
      _Exit(3);
    }
  }
}

inline double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// A graph of twenty launches, of which `launch(i)` issues the i-th.
class launches {
public:
  template <class F>
  launches(cudaStream_t stream, const std::string &what, F launch) : stream_(stream), what_(what) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kLaunches; ++i)
      launch(i);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable_, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventCreate(&from_));
    CHECK(cudaEventCreate(&to_));
  }
  launches(const launches &) = delete;
  launches &operator=(const launches &) = delete;
  ~launches() {
    CHECK(cudaEventDestroy(from_));
    CHECK(cudaEventDestroy(to_));
    CHECK(cudaGraphExecDestroy(executable_));
  }

  /// Microseconds of a launch in one replay.
  double replay() const {
    CHECK(cudaEventRecord(from_, stream_));
    CHECK(cudaGraphLaunch(executable_, stream_));
    CHECK(cudaEventRecord(to_, stream_));
    wait_or_leave(stream_, what_);
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, from_, to_));
    return double(ms) * 1000 / kLaunches;
  }
  /// The median over replays.
  double time() const {
    std::vector<double> times;
    for (int i = 0; i < 13; ++i) {
      const double us = replay();
      if (i >= 2)
        times.push_back(us);
      if (i >= 4 && us * kLaunches > 20e3) // long ones vary little
        break;
    }
    return median(times);
  }

private:
  cudaStream_t stream_;
  std::string what_;
  cudaGraphExec_t executable_;
  cudaEvent_t from_, to_;
};

/// The medians of both over replays in turn, a b b a and so on. What runs for long is slowed down
/// by the power that it takes, and what comes after it, too: timed one after the other, the first
/// is faster.
inline std::pair<double, double> times_in_turn(const launches &a, const launches &b) {
  constexpr int kRounds = 16, kWarmUp = 4;
  std::vector<double> of_a, of_b;
  for (int round = 0; round < kRounds; ++round) {
    const bool a_first = round % 2 == 0;
    const double first = (a_first ? a : b).replay(), second = (a_first ? b : a).replay();
    if (round < kWarmUp)
      continue;
    of_a.push_back(a_first ? first : second);
    of_b.push_back(a_first ? second : first);
  }
  return {median(of_a), median(of_b)};
}

} // namespace bench
