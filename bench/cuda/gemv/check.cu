// Checks every variant of the study of few rows against fp64 on the host: fresh random operands,
// poisoned results, ragged sizes. For compute-sanitizer, too. usage: check [seed [small]]
#include "pack.h"
#include "variants.h"

#include <algorithm>
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
    if (gemv_layout_of(i) != layout || !gemv_suits(i, tokens) || gemv_is_chain(i))
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

/// Products of which each takes the leading columns of what the one before wrote; the reference
/// rounds in between, too.
void check_chain(int layout, const std::vector<std::pair<int, int>> &shapes, int tokens,
                 std::mt19937 &random) {
  struct on_device { // as strip.cuh's product
    const void *w, *scale, *x;
    void *y;
    int n, k;
  };
  std::normal_distribution<float> normal(0, 1);
  std::vector<unsigned short> first(size_t(tokens) * shapes[0].second);
  std::vector<double> x(first.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = value_of(first[i] = bits_of(normal(random)));
  std::vector<std::vector<double>> want;
  std::vector<on_device> products[2];
  size_t bytes = 0;
  for (auto &s : shapes)
    bytes += (size_t(s.first) * tokens * 2 + 255) / 256 * 256;
  unsigned char *results;
  check(cudaMalloc(&results, 2 * bytes), "memory");
  check(cudaMemset(results, 0xff, 2 * bytes), "poison");
  void *input = to_device(first.data(), first.size() * 2);
  size_t at = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const int n = shapes[i].first, k = shapes[i].second;
    const float weight = layout == layout_fp16 ? 1 : layout == layout_int8 ? 7 : 0.5f;
    const packed p = pack(layout, n, k, random, 1 / (weight * std::sqrt(float(k))));
    // A product's rows lie as its k says, whatever the result before is wide.
    if (i > 0) {
      std::vector<double> part(size_t(tokens) * k);
      for (size_t j = 0; j < part.size(); ++j)
        part[j] = value_of(bits_of(float(want.back()[j])));
      x = part;
    }
    std::vector<double> y(size_t(tokens) * n);
    for (int t = 0; t < tokens; ++t)
      for (int o = 0; o < n; ++o) {
        double sum = 0;
        for (int j = 0; j < k; ++j)
          sum += p.value[size_t(o) * k + j] * x[size_t(t) * k + j];
        y[size_t(t) * n + o] = sum;
      }
    want.push_back(y);
    const void *w = to_device(p.w.data(), p.w.size());
    const void *scale = to_device(p.scale.data(), p.scale.size() * 2);
    for (int set = 0; set < 2; ++set)
      products[set].push_back(
          {w, scale, i ? products[set].back().y : input, results + set * bytes + at, n, k});
    at += (size_t(n) * tokens * 2 + 255) / 256 * 256;
  }
  const void *tables[2];
  for (int set = 0; set < 2; ++set)
    tables[set] = to_device(products[set].data(), products[set].size() * sizeof(on_device));
  std::vector<unsigned short> y(bytes / 2);
  for (int i = 0; i < gemv_count(); ++i) {
    if (gemv_layout_of(i) != layout || !gemv_suits(i, tokens) || !gemv_is_chain(i))
      continue;
    for (int run = 0; run < 4; ++run) { // an even number: the first set is free again then
      const int set = run % 2;
      gemv_chain c{tables[set], results + (1 - set) * bytes, long(bytes), int(shapes.size()),
                   tokens};
      check(cudaError_t(gemv_launch_chain(i, &c, nullptr)), gemv_name(i));
      check(cudaDeviceSynchronize(), gemv_name(i));
      check(cudaMemcpy(y.data(), results + (1 - set) * bytes, bytes, cudaMemcpyDeviceToHost),
            "copy");
      for (unsigned short bits : y)
        if (bits != 0xffff) {
          ++wrong, printf("WRONG: layout %d, %s: results of the next launch are not cleared\n",
                          layout, gemv_name(i));
          break;
        }
      check(cudaMemcpy(y.data(), results + set * bytes, bytes, cudaMemcpyDeviceToHost), "copy");
      size_t from = 0;
      for (size_t j = 0; j < shapes.size(); ++j) {
        double off = 0, norm = 0;
        for (size_t e = 0; e < want[j].size(); ++e) {
          off += (value_of(y[from + e]) - want[j][e]) * (value_of(y[from + e]) - want[j][e]);
          norm += want[j][e] * want[j][e];
        }
        const double error = std::sqrt(off / norm);
        if (error < 2e-3)
          ++right;
        else
          ++wrong, printf("WRONG: layout %d, %s, product %d of a chain, %d rows: %.2e\n", layout,
                          gemv_name(i), int(j), tokens, error);
        from += (size_t(shapes[j].first) * tokens * 2 + 255) / 256 * 128;
      }
    }
  }
  for (auto &p : products[0])
    check(cudaFree(const_cast<void *>(p.w)), "free"),
        check(cudaFree(const_cast<void *>(p.scale)), "free");
  for (const void *m : {tables[0], tables[1], (const void *)results, (const void *)input})
    check(cudaFree(const_cast<void *>(m)), "free");
}

} // namespace

int main(int argc, char **argv) {
  const unsigned seed = argc > 1
                            ? unsigned(atoi(argv[1]))
                            : unsigned(std::chrono::system_clock::now().time_since_epoch().count());
  std::mt19937 random(seed);
  const bool small = argc > 2;
  for (int layout : {layout_fp16, layout_int8, layout_int4}) {
    check_chain(layout, {{96, 64}, {200, 96}, {33, 200}}, 1, random);
    check_chain(layout, {{3000, 264}, {40, 3000}, {88, 40}, {2600, 88}}, small ? 3 : 1, random);
    check_chain(layout, {{96, 264}, {40, 96}}, 12, random);
    if (small)
      continue;
    check_chain(layout, {{17000, 96}, {72, 17000}, {9000, 72}, {264, 8000}}, 1, random);
    for (int tokens : {2, 5, 8, 9, 16})
      check_chain(layout, {{3000, 264}, {40, 3000}, {88, 40}, {2600, 88}}, tokens, random);
  }
  for (int layout : {layout_fp16, layout_int8, layout_int4, layout_rows}) {
    const int shapes[][3] = {{16, 64, 1},  {40, 200, 3},  {129, 1000, 1},
                             {72, 88, 16}, {33, 2048, 9}, {304, 1096, 8}};
    for (auto &s : shapes)
      check_shape(layout, s[0], s[1], s[2], random);
    if (small)
      continue;
    for (int tokens = 1; tokens <= 16; ++tokens)
      check_shape(layout, 88, 520, tokens, random);
    check_shape(layout, 3072, 2048, 1, random);
    check_shape(layout, 9000, 264, 1, random);
    check_shape(layout, 9000, 264, 12, random);
    check_shape(layout, 512, 8192, 4, random);
    check_shape(layout, 512, 3072, 16, random);
  }
  printf("gemv check, seed %u: %d right, %d wrong\n", seed, right, wrong);
  return wrong != 0;
}
