// Checks every variant of the study of few rows against fp64 on the host: fresh random operands,
// poisoned results, ragged sizes. For compute-sanitizer, too. usage: check [seed [small]]
#include "variants.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_fp16.h>
#include <random>

using namespace study;

namespace {

void check(cudaError_t e, const char *what) {
  if (e != cudaSuccess)
    printf("%s: %s\n", what, cudaGetErrorString(e)), exit(1);
}
unsigned short bits_of(float x) {
  const __half h = __float2half(x);
  unsigned short bits;
  memcpy(&bits, &h, 2);
  return bits;
}
float value_of(unsigned short bits) {
  __half h;
  memcpy(&h, &bits, 2);
  return __half2float(h);
}

/// Weights [n][k]: those packed, their scales, and what they mean.
struct packed {
  std::vector<unsigned char> w;
  std::vector<unsigned short> scale;
  std::vector<double> value;
};

packed pack(int layout, int n, int k, std::mt19937 &random) {
  std::normal_distribution<float> normal(0, 1);
  packed p;
  p.value.resize(size_t(n) * k);
  if (layout == layout_rows) {
    const int stride = (k + 7) / 8 * 8;
    p.w.resize(size_t(n) * stride * 2);
    auto *to = reinterpret_cast<unsigned short *>(p.w.data());
    for (int o = 0; o < n; ++o)
      for (int i = 0; i < k; ++i)
        p.value[size_t(o) * k + i] = value_of(to[size_t(o) * stride + i] = bits_of(normal(random)));
    return p;
  }
  const int depth = layout == layout_fp16 ? 16 : layout == layout_int8 ? 32 : 64;
  const int blocks = layout == layout_fp16 ? 0 : depth / 32;
  const int tiles = (k + depth - 1) / depth, strips = (n + 15) / 16;
  // What fills up: q = 0 with scale 0.
  p.w.assign(size_t(strips) * tiles * 512, layout == layout_int8   ? 128
                                           : layout == layout_int4 ? 0x88
                                                                   : 0);
  p.scale.assign(size_t(strips) * tiles * 16 * size_t(blocks), 0);
  for (int o = 0; o < n; ++o)
    for (int i = 0; i < k; ++i) {
      const size_t tile = size_t(o / 16) * tiles + i / depth;
      const int row = o % 16, at = i % depth, step = at / 16, in = at % 16;
      const int g = row % 8, t = in % 8 / 2, h = in % 2, r = row / 8 + 2 * (in / 8);
      unsigned char *lane = &p.w[tile * 512 + size_t(4 * g + t) * 16];
      double &value = p.value[size_t(o) * k + i];
      if (layout == layout_fp16) {
        const unsigned short bits = bits_of(normal(random));
        memcpy(lane + 4 * r + 2 * h, &bits, 2);
        value = value_of(bits);
        continue;
      }
      unsigned short &scale = p.scale[((tile * 8 + size_t(g)) * blocks + at / 32) * 2 + row / 8];
      if (i % 32 == 0)
        scale = bits_of(0.02f + 0.1f * fabsf(normal(random)));
      int q;
      if (layout == layout_int8) {
        q = int(random() % 256) - 128;
        lane[8 * step + 2 * r + h] = (unsigned char)(q + 128);
      } else {
        q = int(random() % 16) - 8;
        const int bit = 4 * (4 * h + r);
        unsigned word;
        memcpy(&word, lane + 4 * step, 4);
        word = (word & ~(15u << bit)) | unsigned(q + 8) << bit;
        memcpy(lane + 4 * step, &word, 4);
      }
      value = q * double(value_of(scale));
    }
  return p;
}

void *to_device(const void *from, size_t bytes) {
  void *to;
  check(cudaMalloc(&to, bytes ? bytes : 16), "memory");
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy");
  return to;
}

int right = 0, wrong = 0;

void check_shape(int layout, int n, int k, int tokens, std::mt19937 &random) {
  std::normal_distribution<float> normal(0, 1 / std::sqrt(float(k)));
  const packed p = pack(layout, n, k, random);
  std::vector<unsigned short> x(size_t(tokens) * k), y(size_t(tokens) * n);
  for (auto &b : x)
    b = bits_of(normal(random));
  std::vector<double> want(y.size());
  double norm = 0;
  for (int t = 0; t < tokens; ++t)
    for (int o = 0; o < n; ++o) {
      double sum = 0;
      for (int i = 0; i < k; ++i)
        sum += p.value[size_t(o) * k + i] * value_of(x[size_t(t) * k + i]);
      want[size_t(t) * n + o] = sum, norm += sum * sum;
    }
  gemv_problem problem{to_device(p.w.data(), p.w.size()),
                       to_device(p.scale.data(), p.scale.size() * 2),
                       to_device(x.data(), x.size() * 2),
                       to_device(y.data(), y.size() * 2),
                       n,
                       k,
                       tokens};
  for (int i = 0; i < gemv_count(); ++i) {
    if (gemv_layout_of(i) != layout || !gemv_suits(i, tokens))
      continue;
    for (int early = 0; early < 2; ++early) {
      check(cudaMemset(problem.y, 0xff, y.size() * 2), "poison");
      const int e = gemv_launch(i, &problem, nullptr, early);
      if (e == 1000)
        continue;
      check(cudaError_t(e), gemv_name(i));
      check(cudaDeviceSynchronize(), gemv_name(i));
      check(cudaMemcpy(y.data(), problem.y, y.size() * 2, cudaMemcpyDeviceToHost), "copy");
      double off = 0;
      for (size_t j = 0; j < y.size(); ++j)
        off += (value_of(y[j]) - want[j]) * (value_of(y[j]) - want[j]);
      const double error = std::sqrt(off / norm);
      if (error < 6e-4) // false for what is no number
        ++right;
      else
        ++wrong, printf("WRONG: layout %d, %s, n %d, k %d, %d rows: %.2e\n", layout, gemv_name(i),
                        n, k, tokens, error);
    }
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
  const bool small = argc > 2;
  for (int layout : {layout_fp16, layout_int8, layout_int4, layout_rows}) {
    const int shapes[][3] = {{16, 64, 1},  {40, 200, 3},  {129, 1000, 1},
                             {72, 77, 16}, {33, 2048, 9}, {304, 1096, 8}};
    for (auto &s : shapes)
      check_shape(layout, s[0], s[1], s[2], random);
    if (small)
      continue;
    for (int tokens = 1; tokens <= 16; ++tokens)
      check_shape(layout, 88, 520, tokens, random);
    check_shape(layout, 3072, 2048, 1, random);
    check_shape(layout, 512, 8192, 4, random);
    check_shape(layout, 512, 3072, 16, random);
  }
  printf("gemv check, seed %u: %d right, %d wrong\n", seed, right, wrong);
  return wrong != 0;
}
