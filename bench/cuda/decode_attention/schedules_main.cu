// Times what schedules.cu adds.
#include "schedules.h"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>

namespace study {
namespace {

using tenon::f16;

void require(cudaError_t e, const char *what) {
  if (e != cudaSuccess) {
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
  }
}
template <class T> T *allocate(size_t count) {
  void *p = nullptr;
  require(cudaMalloc(&p, count * sizeof(T)), "cudaMalloc");
  require(cudaMemset(p, 0, count * sizeof(T)), "cudaMemset");
  return static_cast<T *>(p);
}

constexpr int kLaunches = 48, kReplays = 7;
constexpr size_t kCaches = size_t(160) << 20; // bytes of the caches that launches take in turn

/// Microseconds of one launch; negative: it does not run.
double time_of(const entry &e, const std::vector<decode_problem> &problems, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  bool runs = true;
  for (int i = 0; i < kLaunches; ++i)
    runs = runs && e.run(problems[size_t(i) % problems.size()], stream);
  require(cudaStreamEndCapture(stream, &graph), "capture");
  if (!runs) {
    (void)cudaGetLastError();
    cudaGraphDestroy(graph);
    return -1;
  }
  require(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin), "event"), require(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i <= kReplays; ++i) {
    require(cudaEventRecord(begin, stream), "record");
    require(cudaGraphLaunch(exec, stream), "launch");
    require(cudaEventRecord(end, stream), "record");
    require(cudaEventSynchronize(end), e.schedule.c_str());
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i > 0)
      times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin), cudaEventDestroy(end);
  cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
  return double(times[kReplays / 2]) * 1000 / kLaunches;
}

} // namespace
} // namespace study

int main() {
  using namespace study;
  cudaStream_t stream;
  require(cudaStreamCreate(&stream), "stream");
  const long problems[][6] = {
      // batch, heads of keys, group, queries, columns, keys
      {1, 8, 4, 1, 64, 256},   {1, 8, 4, 1, 64, 512},    {1, 8, 4, 1, 64, 1025},
      {1, 8, 4, 1, 64, 2048},  {1, 8, 4, 1, 64, 4096},   {1, 8, 4, 1, 64, 8192},
      {1, 8, 4, 1, 64, 16384}, {1, 2, 4, 1, 64, 1024},   {1, 2, 4, 1, 64, 4096},
      {1, 8, 4, 4, 64, 1024},  {1, 8, 4, 16, 64, 1024},  {4, 8, 4, 1, 64, 1024},
      {16, 8, 4, 1, 64, 1024}, {1, 8, 4, 1, 128, 512},   {1, 8, 4, 1, 128, 1024},
      {1, 8, 4, 1, 128, 4096}, {1, 8, 4, 1, 128, 16384}, {1, 4, 4, 1, 128, 1024},
      {1, 4, 4, 1, 128, 4096}, {8, 8, 4, 1, 128, 1024},  {1, 12, 1, 1, 64, 64},
      {1, 12, 1, 1, 64, 448},  {1, 20, 1, 1, 64, 1500},  {8, 20, 1, 1, 64, 448},
      {1, 12, 1, 16, 64, 128},
  };
  float *const partials = allocate<float>(size_t(32) << 20);
  int *const counters = allocate<int>(1 << 16);
  f16 *const memory = reinterpret_cast<f16 *>(allocate<char>(2 * kCaches));
  printf("batch;heads;group;queries;columns;keys\n");
  for (const auto &p : problems) {
    decode_problem of{p[0], p[1], p[2], p[3], p[4], p[5]};
    const size_t cache = size_t(of.batch * of.heads * of.keys * of.columns);
    const size_t rows = size_t(of.batch * of.heads * of.group * of.queries * of.columns);
    f16 *const q = allocate<f16>(rows), *const y = allocate<f16>(rows);
    const int filled = int(of.keys - of.queries);
    int *const first = allocate<int>(1);
    require(cudaMemcpy(first, &filled, sizeof(int), cudaMemcpyHostToDevice), "copy");
    std::vector<decode_problem> all;
    const size_t copies = std::min(size_t(kLaunches), std::max(size_t(1), kCaches / (4 * cache)));
    for (size_t i = 0; i < copies; ++i) {
      of.q = q, of.y = y, of.first = first, of.partials = partials, of.counters = counters;
      of.k = memory + 2 * i * cache, of.v = of.k + cache;
      all.push_back(of);
    }
    printf("%ld;%ld;%ld;%ld;%ld;%ld\n", p[0], p[1], p[2], p[3], p[4], p[5]);
    for (const entry &e : entries())
      if (e.group == of.group && e.columns == of.columns)
        if (const double us = time_of(e, all, stream); us > 0)
          printf("  %s;%.2f\n", e.schedule.c_str(), us);
    cudaFree(q), cudaFree(y), cudaFree(first);
  }
  return 0;
}
