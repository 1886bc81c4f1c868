// Defines what schedules.cu adds and schedules_main.cu times.
#pragma once

#include "common/float16.h"

#include <cuda_runtime.h>
#include <string>
#include <vector>

namespace study {

struct decode_problem {
  long batch, heads, group, queries, columns, keys; // heads of keys, each of `group` of queries
  const tenon::f16 *q, *k, *v;
  tenon::f16 *y;
  const int *first; // keys less queries, in memory
  float *partials;
  int *counters;
};
struct entry {
  std::string schedule;
  int group, columns;
  bool (*run)(const decode_problem &, cudaStream_t);
};
inline std::vector<entry> &entries() {
  static std::vector<entry> all;
  return all;
}

} // namespace study
