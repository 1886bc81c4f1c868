// Checks every variant of the attention study on small, ragged problems against fp64 on the host:
// fresh random operands, poisoned results. For compute-sanitizer, too. usage: check [seed [TEXT]]
#include "variants.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <random>
#include <string>

using namespace study;

namespace {

void check(cudaError_t e, const char *what) {
  if (e != cudaSuccess)
    printf("%s: %s\n", what, cudaGetErrorString(e)), exit(1);
}

struct shape {
  int batch, heads, group, m, n, d, causal, offset;
};

unsigned short to_bits(float x, bool is_bf16) {
  unsigned short bits;
  if (is_bf16) {
    const __nv_bfloat16 h = __float2bfloat16(x);
    memcpy(&bits, &h, 2);
  } else {
    const __half h = __float2half(x);
    memcpy(&bits, &h, 2);
  }
  return bits;
}
float from_bits(unsigned short bits, bool is_bf16) {
  if (is_bf16) {
    __nv_bfloat16 h;
    memcpy(&h, &bits, 2);
    return __bfloat162float(h);
  }
  __half h;
  memcpy(&h, &bits, 2);
  return __half2float(h);
}

std::vector<unsigned short> random_bits(size_t count, float by, bool is_bf16, std::mt19937 &r) {
  std::normal_distribution<float> normal(0, by);
  std::vector<unsigned short> v(count);
  for (auto &x : v)
    x = to_bits(normal(r), is_bf16);
  return v;
}

std::vector<double> reference(const shape &s, float scale, const std::vector<unsigned short> &q,
                              const std::vector<unsigned short> &k,
                              const std::vector<unsigned short> &v, bool is_bf16) {
  std::vector<double> y(size_t(s.batch) * s.heads * s.m * s.d), w(size_t(s.n));
  const auto widen = [&](const std::vector<unsigned short> &x) {
    std::vector<float> f(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      f[i] = from_bits(x[i], is_bf16);
    return f;
  };
  const std::vector<float> qf = widen(q), kf = widen(k), vf = widen(v);
  for (int bh = 0; bh < s.batch * s.heads; ++bh)
    for (int m = 0; m < s.m; ++m) {
      const size_t kv = size_t(bh / s.group) * s.n * s.d; // heads is a multiple of group
      const float *row = &qf[(size_t(bh) * s.m + m) * s.d];
      const int visible = s.causal ? std::min(s.n, m + s.offset + 1) : s.n;
      double largest = -INFINITY, total = 0, *out = &y[(size_t(bh) * s.m + m) * s.d];
      for (int n = 0; n < visible; ++n) {
        double dot = 0;
        for (int d = 0; d < s.d; ++d)
          dot += double(row[d]) * kf[kv + size_t(n) * s.d + d];
        w[n] = dot * scale;
        largest = std::max(largest, w[n]);
      }
      for (int n = 0; n < visible; ++n)
        total += w[n] = exp(w[n] - largest);
      for (int n = 0; n < visible; ++n)
        for (int d = 0; d < s.d; ++d)
          out[d] += w[n] / total * vf[kv + size_t(n) * s.d + d];
    }
  return y;
}

} // namespace

int main(int count, char **arguments) {
  const unsigned seed = count > 1
                            ? unsigned(atol(arguments[1]))
                            : unsigned(std::chrono::steady_clock::now().time_since_epoch().count());
  const char *only = count > 2 ? arguments[2] : "";
  std::mt19937 random(seed);
  const shape shapes[] = {{1, 2, 1, 64, 64, 64, 0, 0},     {2, 2, 2, 197, 333, 64, 0, 0},
                          {1, 2, 1, 70, 77, 40, 0, 0},     {1, 2, 1, 300, 300, 64, 1, 0},
                          {1, 2, 1, 130, 400, 64, 1, 270}, {1, 1, 1, 500, 1100, 64, 0, 0},
                          {1, 2, 2, 197, 333, 128, 0, 0},  {1, 1, 1, 64, 30, 80, 0, 0},
                          {1, 2, 1, 300, 300, 128, 1, 0},  {2, 1, 1, 130, 400, 128, 1, 270},
                          {1, 1, 1, 300, 1000, 128, 0, 0}};
  int wrong = 0, right = 0;
  for (const shape &s : shapes)
    for (int is_bf16 = 0; is_bf16 < 2; ++is_bf16) {
      const size_t q_count = size_t(s.batch) * s.heads * s.m * s.d,
                   k_count = size_t(s.batch) * s.heads / s.group * s.n * s.d;
      const auto q = random_bits(q_count, 1.5f, is_bf16, random),
                 k = random_bits(k_count, 1.5f, is_bf16, random),
                 v = random_bits(k_count, 1, is_bf16, random);
      const float scale = 1 / std::sqrt(float(s.d));
      std::vector<double> want;
      void *memory[4];
      const size_t counts[4] = {q_count, k_count, k_count, q_count};
      for (int i = 0; i < 4; ++i)
        check(cudaMalloc(&memory[i], counts[i] * 2), "cudaMalloc");
      check(cudaMemcpy(memory[0], q.data(), q_count * 2, cudaMemcpyHostToDevice), "copy");
      check(cudaMemcpy(memory[1], k.data(), k_count * 2, cudaMemcpyHostToDevice), "copy");
      check(cudaMemcpy(memory[2], v.data(), k_count * 2, cudaMemcpyHostToDevice), "copy");
      attention_problem p{};
      p.q = memory[0], p.k = memory[1], p.v = memory[2], p.y = memory[3];
      p.batch = s.batch, p.heads = s.heads, p.group = s.group, p.m = s.m, p.n = s.n, p.d = s.d;
      for (int i = 0; i < 2; ++i) {
        long *const of_q = i ? p.y_stride : p.q_stride, *const of_k = i ? p.v_stride : p.k_stride;
        of_q[0] = long(s.heads) * s.m * s.d, of_q[1] = long(s.m) * s.d, of_q[2] = s.d;
        of_k[0] = long(s.heads / s.group) * s.n * s.d, of_k[1] = long(s.n) * s.d, of_k[2] = s.d;
      }
      p.scale = scale, p.causal = s.causal, p.offset = s.offset, p.bf16 = is_bf16;
      for (int i = 0; i < attention_count(); ++i) {
        if (!attention_suits(i, s.d, s.causal, is_bf16) || !strstr(attention_name(i), only))
          continue;
        if (want.empty())
          want = reference(s, scale, q, k, v, is_bf16);
        check(cudaMemset(memory[3], 0xff, q_count * 2), "poison");
        const int e = attention_launch(i, &p, nullptr, 0);
        if (e)
          printf("%s: error %d\n", attention_name(i), e);
        check(cudaDeviceSynchronize(), attention_name(i));
        std::vector<unsigned short> got(q_count);
        check(cudaMemcpy(got.data(), memory[3], q_count * 2, cudaMemcpyDeviceToHost), "copy");
        double error = 0, norm = 0;
        for (size_t j = 0; j < q_count; ++j) {
          const double g = from_bits(got[j], is_bf16), difference = g - want[j];
          error += difference * difference, norm += want[j] * want[j];
        }
        error = std::sqrt(error / norm);
        const bool good = error < (is_bf16 ? 8e-3 : 1e-3) && e == 0; // NaN: false
        ++(good ? right : wrong);
        if (!good)
          printf("WRONG d%d %dx%d causal %d bf16 %d, %s: %.2e\n", s.d, s.m, s.n, s.causal, is_bf16,
                 attention_name(i), error);
      }
      for (void *m : memory)
        cudaFree(m);
    }
  printf("attention check, seed %u: %d right, %d wrong\n", seed, right, wrong);
  return wrong != 0;
}
