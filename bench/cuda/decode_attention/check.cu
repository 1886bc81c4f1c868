// Checks every variant of the study of decoding attention against fp64 on the host: fresh random
// operands, poisoned results, launched both ways. For compute-sanitizer, too.
// usage: check [seed [small]]
#include "variants.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_fp16.h>
#include <random>
#include <vector>

using namespace study;

namespace {

void check(cudaError_t e, const char *what) {
  if (e != cudaSuccess)
    printf("%s: %s\n", what, cudaGetErrorString(e)), exit(1);
}

std::vector<__half> random_halves(size_t count, float by, std::mt19937 &random) {
  std::normal_distribution<float> normal(0, by);
  std::vector<__half> v(count);
  for (auto &x : v)
    x = __float2half(normal(random));
  return v;
}

void *to_device(const void *from, size_t bytes) {
  void *to;
  check(cudaMalloc(&to, bytes), "memory");
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy");
  return to;
}

int right = 0, wrong = 0;

void check_shape(int heads, int group, int d, int length, int capacity, std::mt19937 &random) {
  const int shared = heads / group;
  const float scale = 1 / std::sqrt(float(d));
  std::vector<__half> q = random_halves(size_t(heads) * d, 2, random);
  std::vector<__half> k = random_halves(size_t(shared) * capacity * d, 1, random);
  std::vector<__half> v = random_halves(size_t(shared) * capacity * d, 1, random);
  for (int h = 0; h < shared; ++h) // keys beyond the length are no numbers
    for (size_t i = (size_t(h) * capacity + length) * d; i < size_t(h + 1) * capacity * d; ++i)
      k[i] = v[i] = __float2half(NAN);
  std::vector<double> want(size_t(heads) * d, 0.0);
  double norm = 0;
  for (int h = 0; h < heads; ++h) {
    const size_t base = size_t(h / group) * capacity * d;
    std::vector<double> p(size_t(length), 0.0);
    double sum = 0;
    for (int n = 0; n < length; ++n) {
      double s = 0;
      for (int i = 0; i < d; ++i)
        s += double(__half2float(q[size_t(h) * d + i])) * __half2float(k[base + size_t(n) * d + i]);
      sum += p[size_t(n)] = std::exp(s * scale);
    }
    for (int i = 0; i < d; ++i) {
      double o = 0;
      for (int n = 0; n < length; ++n)
        o += p[size_t(n)] * __half2float(v[base + size_t(n) * d + i]);
      want[size_t(h) * d + i] = o / sum, norm += o / sum * (o / sum);
    }
  }
  std::vector<__half> y(q.size());
  decode_problem p{};
  p.q = to_device(q.data(), q.size() * 2), p.k = to_device(k.data(), k.size() * 2);
  p.v = to_device(v.data(), v.size() * 2), p.y = to_device(y.data(), y.size() * 2);
  p.length = static_cast<int *>(to_device(&length, 4));
  p.heads = heads, p.group = group, p.capacity = capacity, p.d = d, p.scale = scale;
  for (int i = 0; i < decode_count(); ++i)
    for (int early = 0; early < 2; ++early) {
      check(cudaMemset(p.y, 0xff, y.size() * 2), "poison");
      check(cudaError_t(decode_launch(i, &p, nullptr, early)), decode_name(i));
      check(cudaDeviceSynchronize(), decode_name(i));
      check(cudaMemcpy(y.data(), p.y, y.size() * 2, cudaMemcpyDeviceToHost), "copy");
      double off = 0;
      for (size_t j = 0; j < y.size(); ++j)
        off += (__half2float(y[j]) - want[j]) * (__half2float(y[j]) - want[j]);
      const double error = std::sqrt(off / norm);
      if (error < 1e-3) // false for what is no number
        ++right;
      else
        ++wrong, printf("WRONG: %s, %d heads of %d, %d share, %d keys: %.2e\n", decode_name(i),
                        heads, d, group, length, error);
    }
  for (const void *m : {p.q, p.k, p.v, (const void *)p.y, (const void *)p.length})
    check(cudaFree(const_cast<void *>(m)), "free");
}

} // namespace

int main(int argc, char **argv) {
  const unsigned seed = argc > 1
                            ? unsigned(atoi(argv[1]))
                            : unsigned(std::chrono::system_clock::now().time_since_epoch().count());
  std::mt19937 random(seed);
  for (int d : {64, 128}) {
    const int shapes[][4] = {{4, 4, 1, 16}, {8, 4, 37, 64}, {14, 7, 200, 200}, {3, 1, 515, 600}};
    for (auto &s : shapes)
      check_shape(s[0], s[1], d, s[2], s[3], random);
    if (argc > 2)
      continue;
    check_shape(32, 4, d, 1024, 2048, random);
    check_shape(32, 4, d, 1025, 2048, random);
    check_shape(16, 8, d, 4099, 4200, random);
    check_shape(16, 2, d, 3000, 3000, random);
  }
  printf("decode attention check, seed %u: %d right, %d wrong\n", seed, right, wrong);
  return wrong != 0;
}
