// Times the contraction kernels of runtime/cuda against cuBLAS on one GPU: matrix products, squares
// from 512 to 8192 and shapes of real networks, and convolutions. For tuning schedules, not a test,
// though every result is checked first.
//
//   nvcc -std=c++17 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -split-compile 0
//        -I runtime bench/gemm.cu -lcublasLt -o gemm && ./gemm
//
// usage: gemm [--csv=FILE] [--only=TEXT] [--schedule=TEXT] [--plain]
//   --csv       every schedule's time, not only the best three
//   --only      rows whose name contains TEXT
//   --schedule  schedules whose name contains TEXT
//   --plain     without programmatic dependent launch
//
// Before timing, each schedule runs once on fresh random operands into a poisoned result, which is
// compared with cuBLAS's (of convolutions: on the unfolded matrix). A time is the median of replays
// of a graph of 20 launches that walk over more sets of operands than the second-level cache holds.
// Of cuBLAS the fastest of its first eight heuristic choices counts. Where a row says so, the
// library's time is not measured here but the one given in the table below: the best of cuDNN and
// cuBLAS in the same kind of graph, measured once on an H200 (CUDA 13.0, cuDNN 9).
#include "cuda/contract_wgmma_sm90.cuh"
#include "cuda/launch.h"

#include <algorithm>
#include <chrono>
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

using namespace tenon;
using tenon::cuda::issue;
using tenon::cuda::status;

namespace {

using any = cuda::variant<0, 100000>;
constexpr int kLaunches = 20;
constexpr size_t kCacheBytes = size_t(200) << 20; // several times the second-level cache
constexpr size_t kPartialBytes = size_t(256) << 20, kCounterBytes = size_t(1) << 20;

#define CHECK(call) check(int(call), #call, __LINE__)
void check(int error, const char *what, int line) {
  if (error != 0) {
    printf("gemm.cu:%d: %s: error %d\n", line, what, error);
    exit(1);
  }
}

//===--- Problems
//---------------------------------------------------------------------------------===//

/// A product m x k by k x n, or a convolution of a square image.
struct problem {
  std::string name;
  index_t m, n, k;
  index_t batch = 0, side = 0, channels = 0, kernel = 1, stride = 1, pad = 0; // of a convolution
  double recorded_us = 0;

  bool is_conv() const { return batch > 0; }
  index_t out_side() const { return (side + 2 * pad - kernel) / stride + 1; }
  index_t a_elements() const { return is_conv() ? batch * side * side * channels : m * k; }
  double flops() const { return 2.0 * double(m) * double(n) * double(k); }
};
problem product(const char *name, index_t m, index_t n, index_t k, double recorded_us = 0) {
  return {name, m, n, k, 0, 0, 0, 1, 1, 0, recorded_us};
}
problem square(index_t n) { return product(("square " + std::to_string(n)).c_str(), n, n, n); }
problem conv(index_t batch, index_t channels, index_t side, index_t filters, index_t kernel,
             index_t stride, index_t pad, double recorded_us) {
  const index_t out = (side + 2 * pad - kernel) / stride + 1;
  char name[80];
  snprintf(name, sizeof(name), "conv b%ld %ldx%ld c%ld f%ld k%ld s%ld", long(batch), long(side),
           long(side), long(channels), long(filters), long(kernel), long(stride));
  return {name,      batch * out * out,
          filters,   kernel * kernel * channels,
          batch,     side,
          channels,  kernel,
          stride,    pad,
          recorded_us};
}

struct operands {
  const f16 *a, *w;
  f16 *y;
  cuda::split_scratch scratch;
};

//===--- Schedules
//--------------------------------------------------------------------------------===//

template <class Schedule> struct product_config : cuda::matmul_defaults, Schedule { dyn m, n, k; };
template <class Schedule> struct conv_config : Schedule {
  static constexpr fixed<1> groups{}, dilation_h{}, dilation_w{};
  dyn batch, in_h, in_w, out_h, out_w, channels, filters, kernel_h, kernel_w, stride_h, stride_w;
  dyn pad_top, pad_left;
};
using matrix = dims<fixed<0>, fixed<0>, dyn, fixed<1>>;
using image = dims<dyn, fixed<1>, dyn, dyn>; // NHWC

template <class Schedule> status wgmma_product(const problem &p, const operands &o, issue &to) {
  product_config<Schedule> cfg;
  cfg.m = p.m, cfg.n = p.n, cfg.k = p.k;
  return to.launch<any>(cuda::matmul_wgmma_sm90(
      cfg, make_view(o.a, matrix({}, {}, p.k, {})), cuda::make_packed_weights(o.w),
      pack(make_view(o.y, matrix({}, {}, p.n, {}))), pack(), cuda::identity_body{}, o.scratch));
}
template <class Schedule> status wgmma_conv(const problem &p, const operands &o, issue &to) {
  conv_config<Schedule> cfg;
  const index_t out = p.out_side();
  cfg.batch = p.batch, cfg.in_h = p.side, cfg.in_w = p.side, cfg.out_h = out, cfg.out_w = out;
  cfg.channels = p.channels, cfg.filters = p.n, cfg.kernel_h = p.kernel, cfg.kernel_w = p.kernel;
  cfg.stride_h = p.stride, cfg.stride_w = p.stride, cfg.pad_top = p.pad, cfg.pad_left = p.pad;
  return to.launch<any>(cuda::conv_wgmma_sm90(
      cfg, make_view(o.a, image(p.side * p.side * p.channels, {}, p.side * p.channels, p.channels)),
      cuda::make_packed_weights(o.w),
      pack(make_view(o.y, image(out * out * p.n, {}, out * p.n, p.n))), pack(),
      cuda::identity_body{}, o.scratch));
}

struct schedule {
  std::string name;
  int tile_m, tile_n, tile_k, splits;
  status (*product)(const problem &, const operands &, issue &);
  status (*conv)(const problem &, const operands &, issue &);

  index_t tiles(const problem &p) const {
    return (p.m + tile_m - 1) / tile_m * ((p.n + tile_n - 1) / tile_n);
  }
  index_t steps(const problem &p) const {
    return p.is_conv() ? p.kernel * p.kernel * ((p.channels + tile_k - 1) / tile_k)
                       : (p.k + tile_k - 1) / tile_k;
  }
  /// Worth a try: splits where tiles are few, large tiles where there are many.
  bool suits(const problem &p) const {
    if (!(p.is_conv() ? conv : product))
      return false;
    if (splits > 1)
      return steps(p) >= 2 * splits && tiles(p) * splits <= 280 &&
             size_t(tiles(p)) * size_t(splits * tile_m * tile_n * 4) <= kPartialBytes;
    return tiles(p) >= 16 || tile_m * tile_n <= 128 * 128;
  }
};

template <int M, int N, int K, int Consumers, bool PingPong, int Stages, int Splits = 1>
schedule row() {
  using s = cuda::contract_wgmma_schedule<M, N, K, Consumers, PingPong, Stages, Splits>;
  char name[80];
  snprintf(name, sizeof(name), "%dx%dx%d %s%d st%d%s", M, N, K, PingPong ? "pp" : "co", Consumers,
           Stages, Splits > 1 ? (" sk" + std::to_string(Splits)).c_str() : "");
  return {name, M, N, K, Splits, wgmma_product<s>, M * N <= 128 * 128 ? wgmma_conv<s> : nullptr};
}

std::vector<schedule> all_schedules() {
  return {
      row<128, 256, 64, 2, false, 4>(),
      row<256, 128, 64, 2, false, 4>(),
      row<128, 192, 64, 2, false, 5>(),
      row<128, 128, 64, 2, true, 6>(),
      row<64, 256, 64, 2, true, 5>(),
      row<128, 128, 64, 2, false, 6>(),
      row<128, 128, 64, 1, false, 6>(),
      row<64, 192, 64, 2, true, 6>(),
      row<128, 64, 64, 2, false, 8>(),
      row<64, 128, 64, 1, false, 8>(),
      row<64, 64, 64, 1, false, 8>(),
      row<64, 32, 64, 1, false, 8>(),
      row<64, 64, 64, 1, false, 8, 2>(),
      row<64, 64, 64, 1, false, 8, 4>(),
      row<64, 64, 64, 1, false, 8, 8>(),
      row<64, 128, 64, 1, false, 8, 2>(),
      row<64, 128, 64, 1, false, 8, 4>(),
      row<64, 32, 64, 1, false, 8, 2>(),
      row<64, 32, 64, 1, false, 8, 4>(),
      row<128, 128, 64, 2, false, 6, 2>(),
      // Two blocks' buffers fit on a multiprocessor: the next launch's weights come early.
      row<64, 64, 64, 1, false, 6>(),
      row<64, 64, 64, 1, false, 6, 4>(),
      row<64, 128, 64, 1, false, 4>(),
  };
}

// Times of the library: measured once, see the head of this file.
std::vector<problem> all_problems() {
  return {
      square(512),
      square(1024),
      square(2048),
      square(4096),
      square(8192),
      product("1x1 56x56 c64 f256", 3136, 256, 64, 3.52),
      product("1x1 56x56 c256 f64", 3136, 64, 256, 4.48),
      product("1x1 28x28 c512 f128", 784, 128, 512, 3.2),
      product("1x1 14x14 c1024 f256", 196, 256, 1024),
      product("1x1 7x7 c2048 f512", 49, 512, 2048),
      product("1x1 7x7 c512 f2048", 49, 2048, 512),
      product("bert 128 768 3072", 128, 3072, 768),
      product("bert 128 3072 768", 128, 768, 3072),
      product("ragged 1000 1016 1032", 1000, 1016, 1032),
      conv(1, 64, 56, 64, 3, 1, 1, 5.09),
      conv(1, 128, 56, 128, 3, 2, 1, 7.38),
      conv(1, 128, 28, 128, 3, 1, 1, 6.48),
      conv(1, 256, 14, 256, 3, 1, 1, 0),
      conv(1, 512, 7, 512, 3, 1, 1, 0),
      conv(8, 64, 56, 64, 3, 1, 1, 0),
      conv(8, 256, 14, 256, 3, 1, 1, 0),
      conv(64, 128, 28, 128, 3, 1, 1, 0),
      conv(3, 24, 13, 40, 5, 3, 2, 0),
  };
}

//===--- Data
//-------------------------------------------------------------------------------------===//

__global__ void fill_random(f16 *p, size_t count, unsigned seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count;
       i += size_t(gridDim.x) * blockDim.x) {
    unsigned x = unsigned(i) * 2654435761u ^ unsigned(i >> 32) ^ seed * 0x9e3779b9u;
    x ^= x >> 16, x *= 0x85ebca6bu, x ^= x >> 13, x *= 0xc2b2ae35u, x ^= x >> 16;
    p[i] = __float2half(float(x >> 8) * (2.0f / 16777216.0f) - 1.0f);
  }
}
/// The matrix that a convolution multiplies: [batch * out * out][kernel * kernel * channels].
__global__ void unfold(f16 *to, const f16 *from, index_t count, index_t side, index_t channels,
                       index_t kernel, index_t stride, index_t pad, index_t out) {
  for (index_t i = blockIdx.x * index_t(blockDim.x) + threadIdx.x; i < count;
       i += index_t(gridDim.x) * blockDim.x) {
    const index_t c = i % channels, tap = i / channels % (kernel * kernel),
                  pixel = i / (channels * kernel * kernel);
    const index_t y = pixel / out % out * stride - pad + tap / kernel,
                  x = pixel % out * stride - pad + tap % kernel, b = pixel / (out * out);
    const bool inside = y >= 0 && y < side && x >= 0 && x < side;
    to[i] = inside ? from[((b * side + y) * side + x) * channels + c] : __float2half(0.0f);
  }
}
/// found[0]: the largest difference (its bits order as integers), found[1]: the largest value,
/// found[2]: elements that are no numbers.
__global__ void compare(const f16 *got, const f16 *want, size_t count, int *found) {
  float difference = 0, largest = 0;
  int bad = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count;
       i += size_t(gridDim.x) * blockDim.x) {
    const float g = __half2float(got[i]), w = __half2float(want[i]), d = fabsf(g - w);
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

/// Sets of operands one after another in one allocation.
class data {
public:
  data(const problem &p, unsigned seed) : p_(p) {
    a_ = rounded(size_t(p.a_elements())), w_ = rounded(size_t(p.n * p.k)),
    y_ = rounded(size_t(p.m * p.n));
    const size_t set = (a_ + w_ + y_) * sizeof(f16);
    sets_ = int(std::min<size_t>(kLaunches, std::max<size_t>(2, kCacheBytes / set + 1)));
    CHECK(cudaMalloc(&memory_, set * size_t(sets_)));
    for (int i = 0; i < sets_; ++i)
      fill_random<<<1024, 256>>>(memory_ + size_t(i) * (a_ + w_ + y_), a_ + w_, seed + unsigned(i));
    CHECK(cudaMalloc(&reference_, y_ * sizeof(f16)));
    CHECK(cudaMalloc(&unfolded_, p.is_conv() ? size_t(p.m * p.k) * sizeof(f16) : 16));
    CHECK(cudaMalloc(&partials_, kPartialBytes));
    CHECK(cudaMalloc(&counters_, kCounterBytes));
    CHECK(cudaMemset(counters_, 0, kCounterBytes));
    CHECK(cudaMalloc(&found_, 3 * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
  }
  ~data() {
    for (void *p : {(void *)memory_, (void *)reference_, (void *)unfolded_, (void *)partials_,
                    (void *)counters_, (void *)found_})
      (void)cudaFree(p);
  }
  data(const data &) = delete;
  data &operator=(const data &) = delete;

  operands set(int i) const {
    f16 *at = memory_ + size_t(i % sets_) * (a_ + w_ + y_);
    return {at, at + a_, at + a_ + w_, {partials_, counters_}};
  }
  f16 *reference() const { return reference_; }
  /// A as a matrix.
  const f16 *matrix_a() const {
    if (!p_.is_conv())
      return set(0).a;
    unfold<<<1024, 256>>>(unfolded_, set(0).a, p_.m * p_.k, p_.side, p_.channels, p_.kernel,
                          p_.stride, p_.pad, p_.out_side());
    CHECK(cudaDeviceSynchronize());
    return unfolded_;
  }
  void poison() const { CHECK(cudaMemset(set(0).y, 0xff, y_ * sizeof(f16))); }
  /// Whether y of the first set is the reference, within what two orders of summation may differ.
  bool right(std::string &why) const {
    CHECK(cudaMemset(found_, 0, 3 * sizeof(int)));
    compare<<<512, 256>>>(set(0).y, reference_, size_t(p_.m * p_.n), found_);
    int found[3];
    CHECK(cudaMemcpy(found, found_, sizeof(found), cudaMemcpyDeviceToHost));
    float difference, largest;
    memcpy(&difference, &found[0], 4);
    memcpy(&largest, &found[1], 4);
    char text[120];
    snprintf(text, sizeof(text), "%d no numbers, difference %.3g of %.3g", found[2],
             double(difference), double(largest));
    why = text;
    return found[2] == 0 && largest > 0 && difference <= 2e-3f * largest;
  }

private:
  static size_t rounded(size_t n) { return (n + 511) / 512 * 512; }
  const problem &p_;
  size_t a_, w_, y_;
  int sets_;
  f16 *memory_ = nullptr, *reference_ = nullptr, *unfolded_ = nullptr;
  float *partials_ = nullptr;
  int *counters_ = nullptr, *found_ = nullptr;
};

//===--- Timing
//-----------------------------------------------------------------------------------===//

cudaStream_t the_stream;

/// Waits for the stream; a kernel that never ends must not take the machine's time.
void wait_or_leave(const std::string &what) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t e = cudaStreamQuery(the_stream);
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

/// Microseconds of one launch; `launch(i)` issues the i-th of a graph of twenty.
template <class F> double time_graph(const std::string &what, F launch) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(the_stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kLaunches; ++i)
    launch(i);
  CHECK(cudaStreamEndCapture(the_stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t from, to;
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  std::vector<float> times;
  for (int i = 0; i < 13; ++i) {
    CHECK(cudaEventRecord(from, the_stream));
    CHECK(cudaGraphLaunch(executable, the_stream));
    CHECK(cudaEventRecord(to, the_stream));
    wait_or_leave(what);
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, from, to));
    if (i >= 2)
      times.push_back(ms);
  }
  CHECK(cudaEventDestroy(from));
  CHECK(cudaEventDestroy(to));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  std::sort(times.begin(), times.end());
  return double(times[times.size() / 2]) * 1000 / kLaunches;
}

/// Row-major y[m][n] = a[m][k] * w[n][k], which in cuBLAS's column-major terms is y' = w' * a.
class library {
public:
  library() {
    CHECK(cublasLtCreate(&handle_));
    CHECK(cudaMalloc(&workspace_, workspace_bytes));
  }
  void set(const problem &p) {
    const auto n = uint64_t(p.n), m = uint64_t(p.m), k = uint64_t(p.k);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    CHECK(cublasLtMatmulDescCreate(&op_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(cublasLtMatmulDescSetAttribute(op_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof(transposed)));
    CHECK(cublasLtMatrixLayoutCreate(&w_, CUDA_R_16F, k, n, int64_t(k)));
    CHECK(cublasLtMatrixLayoutCreate(&a_, CUDA_R_16F, k, m, int64_t(k)));
    CHECK(cublasLtMatrixLayoutCreate(&y_, CUDA_R_16F, n, m, int64_t(n)));
    cublasLtMatmulPreference_t preference;
    CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const size_t bytes = workspace_bytes;
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof(bytes)));
    choices_.resize(8);
    int found = 0;
    CHECK(cublasLtMatmulAlgoGetHeuristic(handle_, op_, w_, a_, y_, y_, preference, 8,
                                         choices_.data(), &found));
    choices_.resize(size_t(found));
    (void)cublasLtMatmulPreferenceDestroy(preference);
  }
  int choices() const { return int(choices_.size()); }
  void multiply(int choice, const f16 *a, const f16 *w, f16 *y) {
    const float one = 1, zero = 0;
    CHECK(cublasLtMatmul(handle_, op_, &one, w, w_, a, a_, &zero, y, y_, y, y_,
                         &choices_[size_t(choice)].algo, workspace_, workspace_bytes, the_stream));
  }

private:
  static constexpr size_t workspace_bytes = size_t(64) << 20;
  cublasLtHandle_t handle_;
  void *workspace_ = nullptr;
  cublasLtMatmulDesc_t op_;
  cublasLtMatrixLayout_t a_, w_, y_;
  std::vector<cublasLtMatmulHeuristicResult_t> choices_;
};

struct options {
  const char *csv = nullptr, *only = "", *schedule = "";
  bool programmatic = true;
};

struct result {
  std::string name;
  double us;
};

result best_of_library(library &lib, const problem &p, const data &d) {
  lib.set(p);
  lib.multiply(0, d.matrix_a(), d.set(0).w, d.reference());
  wait_or_leave("cuBLAS");
  result best = {"cuBLAS", 1e30};
  if (p.is_conv())
    return {"cuDNN*", p.recorded_us};
  for (int c = 0; c < lib.choices(); ++c)
    best.us = std::min(best.us, time_graph("cuBLAS", [&](int i) {
                         const operands o = d.set(i);
                         lib.multiply(c, o.a, o.w, o.y);
                       }));
  return best;
}

/// Returns false when a schedule gives a wrong result.
bool run(const problem &p, library &lib, const std::vector<schedule> &schedules, const options &opt,
         FILE *csv) {
  const auto clock = std::chrono::steady_clock::now().time_since_epoch().count();
  const data d(p, unsigned(clock));
  const result reference = best_of_library(lib, p, d);
  std::vector<result> results;
  bool good = true;
  for (const schedule &s : schedules) {
    if (!s.suits(p) || s.name.find(opt.schedule) == std::string::npos)
      continue;
    const auto function = p.is_conv() ? s.conv : s.product;
    const std::string what = p.name + ", " + s.name;
    issue configure = issue::configure(232448), to = issue::launch_on(the_stream, false, nullptr);
    d.poison();
    CHECK(cudaDeviceSynchronize());
    status e = function(p, d.set(0), configure);
    if (e == cuda::ok)
      e = function(p, d.set(0), to);
    if (e != cuda::ok) {
      printf("%s: %s\n", what.c_str(), cuda::message(e));
      good = false;
      continue;
    }
    wait_or_leave(what);
    std::string why;
    if (!d.right(why)) {
      printf("%s: WRONG: %s\n", what.c_str(), why.c_str());
      good = false;
      continue;
    }
    issue timed = issue::launch_on(the_stream, opt.programmatic, nullptr);
    const double us = time_graph(what, [&](int i) { CHECK(function(p, d.set(i), timed)); });
    results.push_back({s.name, us});
    if (csv)
      fprintf(csv, "%s,%s,%.3f,%.1f,%.3f\n", p.name.c_str(), s.name.c_str(), us,
              p.flops() / us * 1e-6, reference.us);
  }
  std::sort(results.begin(), results.end(),
            [](const result &a, const result &b) { return a.us < b.us; });
  printf("%-26s %8.2f us %6.1f |", p.name.c_str(), reference.us,
         reference.us > 0 ? p.flops() / reference.us * 1e-6 : 0);
  for (size_t i = 0; i < results.size() && i < 3; ++i)
    printf(" %s %.2f us %.1f%s", results[i].name.c_str(), results[i].us,
           p.flops() / results[i].us * 1e-6, i + 1 < results.size() && i < 2 ? "," : "");
  if (!results.empty() && reference.us > 0)
    printf(" | %.3f", reference.us / results[0].us);
  printf("\n");
  fflush(stdout);
  return good;
}

} // namespace

int main(int count, char **arguments) {
  options opt;
  for (int i = 1; i < count; ++i) {
    const char *a = arguments[i];
    if (!strncmp(a, "--csv=", 6))
      opt.csv = a + 6;
    else if (!strncmp(a, "--only=", 7))
      opt.only = a + 7;
    else if (!strncmp(a, "--schedule=", 11))
      opt.schedule = a + 11;
    else if (!strcmp(a, "--plain"))
      opt.programmatic = false;
    else {
      fprintf(stderr, "gemm: unknown option '%s'\n", a);
      return 2;
    }
  }
  CHECK(cudaStreamCreateWithFlags(&the_stream, cudaStreamNonBlocking));
  FILE *csv = opt.csv ? fopen(opt.csv, "w") : nullptr;
  library lib;
  const std::vector<schedule> schedules = all_schedules();
  printf("fp16; row, library us and TFLOP/s | the three fastest schedules | library / ours\n"
         "(convolutions: the library's time is a recorded one, 0 where none is)\n");
  bool good = true;
  for (const problem &p : all_problems())
    if (p.name.find(opt.only) != std::string::npos)
      good = run(p, lib, schedules, opt, csv) && good;
  if (csv)
    fclose(csv);
  return good ? 0 : 1;
}
