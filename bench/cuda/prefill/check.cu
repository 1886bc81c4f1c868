// Checks every variant of the study of many rows times int4 weights against fp64 on the host: fresh
// random operands, poisoned results. For compute-sanitizer, too. usage: check [seed [small]]
#include "../gemv/pack.h"
#include "variants.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace study;

namespace {

void check(cudaError_t e, const char *what) {
  if (e != cudaSuccess)
    printf("%s: %s\n", what, cudaGetErrorString(e)), exit(1);
}
void *to_device(const void *from, size_t bytes) {
  void *to;
  check(cudaMalloc(&to, bytes), "memory");
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy");
  return to;
}
int right = 0, wrong = 0;

void check_shape(int n, int k, int tokens, std::mt19937 &random) {
  std::normal_distribution<float> normal(0, 1);
  const packed p = pack(layout_int4, n, k, random, 1 / std::sqrt(float(k)));
  std::vector<unsigned short> x(size_t(tokens) * size_t(k)), turned(x.size()),
      y(size_t(tokens) * size_t(n));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = bits_of(normal(random));
    const size_t at = i % 32, t = at / 8, s = at % 8 / 4, r = at % 4 / 2, h = at % 2;
    turned[i - at + 16 * s + 8 * r + 2 * t + h] = x[i];
  }
  const narrow_problem problem{to_device(p.w.data(), p.w.size()),
                               to_device(p.scale.data(), p.scale.size() * 2),
                               to_device(turned.data(), turned.size() * 2),
                               to_device(y.data(), y.size() * 2),
                               n,
                               k,
                               tokens};
  for (int i = 0; i < narrow_count(); ++i) {
    check(cudaMemset(problem.y, 0xff, y.size() * 2), "poison");
    const int e = narrow_launch(i, &problem, nullptr);
    if (e == 1000)
      continue;
    check(cudaError_t(e), narrow_name(i));
    check(cudaDeviceSynchronize(), narrow_name(i));
    check(cudaMemcpy(y.data(), problem.y, y.size() * 2, cudaMemcpyDeviceToHost), "copy");
    double off = 0, norm = 0;
    for (int t = 0; t < tokens; ++t)
      for (int o = 0; o < n; ++o) {
        double want = 0;
        for (int j = 0; j < k; ++j)
          want += p.value[size_t(o) * size_t(k) + size_t(j)] *
                  value_of(x[size_t(t) * size_t(k) + size_t(j)]);
        const double is = value_of(y[size_t(t) * size_t(n) + size_t(o)]);
        off += (is - want) * (is - want), norm += want * want;
      }
    const double error = std::sqrt(off / norm);
    if (error < 8e-4) // false for what is no number
      ++right;
    else
      ++wrong,
          printf("WRONG: %s, n %d, k %d, %d tokens: %.2e\n", narrow_name(i), n, k, tokens, error);
  }
  for (const void *m : {problem.w, problem.scale, problem.x, (const void *)problem.y})
    check(cudaFree(const_cast<void *>(m)), "free");
}

} // namespace

int main(int argc, char **argv) {
  const unsigned seed = argc > 1
                            ? unsigned(atoi(argv[1]))
                            : unsigned(std::chrono::system_clock::now().time_since_epoch().count());
  std::mt19937 random(seed);
  check_shape(128, 128, 40, random);
  check_shape(256, 896, 300, random);
  if (argc <= 2)
    check_shape(384, 2048, 513, random);
  printf("prefill check, seed %u: %d right, %d wrong\n", seed, right, wrong);
  return wrong != 0;
}
