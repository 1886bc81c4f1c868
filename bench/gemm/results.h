// Defines what bench/gemm.cu prints: a row for each problem and the summary.
#pragma once

#include "schedule.h"

#include <algorithm>
#include <math.h>

namespace bench {

struct timed {
  std::string schedule;
  double us;
};

/// The compiler's schedule in the words of this benchmark; empty where no kernel of it is meant.
/// Kernels' names and members: codegen/cuda/.
inline std::string in_short(const std::string &chosen) {
  const auto number = [&](const char *member) {
    const size_t at = chosen.find(member + std::string("="));
    return at == std::string::npos ? 0 : atoi(chosen.c_str() + at + strlen(member) + 1);
  };
  const auto teams = [](int count) { return count > 1 ? " t" + std::to_string(count) : ""; };
  char text[120];
  const std::string tactic = chosen.substr(0, chosen.find('<'));
  const int m = number("tile_m"), n = number("tile_n"), k = number("tile_k"),
            stages = number("stages"), splits = number("splits");
  const bool clustered = tactic.rfind("contract_cluster", 0) == 0;
  if (tactic == "contract_halo_sm90a")
    snprintf(text, sizeof(text), "wgmma %dx%dx%d c%d st%d halo", m, n, k, number("consumers"),
             stages);
  else if (tactic == "contract_wgmma_sm90a" || tactic == "contract_tf32_sm90a" ||
           tactic == "contract_tf32x3_sm90a" || clustered)
    snprintf(text, sizeof(text), "wgmma %dx%dx%d c%d st%d sk%d%s", m, n, k, number("consumers"),
             stages, splits, clustered ? " cl" : "");
  else if (tactic == "contract_simt")
    snprintf(text, sizeof(text), "simt %dx%dx%d p%dx%d st%d t%d sk%d", m, n, k, number("thread_m"),
             number("thread_n"), stages, number("intra_block_split_k"), splits);
  else if (tactic == "contract_mma_sm80" || tactic == "contract_tf32_sm80" ||
           tactic == "contract_tf32x3_sm80")
    snprintf(text, sizeof(text), "mma%s %dx%dx%d p%dx%d st%d%s sk%d",
             tactic == "contract_mma_sm80"    ? ""
             : tactic == "contract_tf32_sm80" ? " tf32"
                                              : " tf32x3",
             m, n, k, number("warp_m"), number("warp_n"), stages,
             teams(number("intra_block_split_k")).c_str(), splits);
  else
    return "";
  return text;
}
/// Whether the compiler gives `p` to another kernel.
inline bool is_run_elsewhere(const problem &p) {
  return !p.chosen.empty() && in_short(p.chosen).empty();
}

struct row {
  problem of;
  double peer_us = 0; // 0: unknown
  std::vector<timed> times;

  void sort() {
    std::sort(times.begin(), times.end(),
              [](const timed &a, const timed &b) { return a.us < b.us; });
  }
  /// The fastest of those whose name begins so.
  const timed *best(const char *prefix = "") const {
    for (const timed &t : times)
      if (t.schedule.rfind(prefix, 0) == 0)
        return &t;
    return nullptr;
  }
  const timed *chosen() const {
    const std::string name = in_short(of.chosen);
    for (const timed &t : times)
      if (t.schedule == name)
        return &t;
    return nullptr;
  }
  double tflops(double us) const { return us > 0 ? of.flops() / us * 1e-6 : 0; }

  void print() const {
    printf("%-34s %8.2f %6.1f", of.name.c_str(), peer_us, tflops(peer_us));
    for (const char *family : {"mma", "simt", "wgmma", "winograd"})
      if (const timed *t = best(family))
        printf(" | %8.2f %6.1f %s", t->us, tflops(t->us), t->schedule.c_str());
    if (peer_us > 0 && best())
      printf(" | %.3f", peer_us / best()->us);
    if (const timed *t = chosen())
      printf(" | %.3f %s", t->us / best()->us, t->schedule.c_str());
    printf("\n");
    fflush(stdout);
  }
};

/// A geometric mean; each ratio counts as often as the shape occurs where `weighted`.
class geometric_mean {
public:
  void add(double ratio, int times = 1) { sum_ += log(ratio) * times, count_ += times; }
  int count() const { return count_; }
  double value() const { return count_ ? exp(sum_ / count_) : 0; }

private:
  double sum_ = 0;
  int count_ = 0;
};

/// The rows whose choice loses most, and the geometric means.
inline void print_summary(const std::vector<row> &rows, int elsewhere, int missing) {
  std::vector<const row *> miscosts;
  geometric_mean choice;
  for (const row &r : rows)
    if (r.chosen()) {
      choice.add(r.chosen()->us / r.best()->us);
      miscosts.push_back(&r);
    }
  std::sort(miscosts.begin(), miscosts.end(), [](const row *a, const row *b) {
    return a->chosen()->us / a->best()->us > b->chosen()->us / b->best()->us;
  });
  if (!miscosts.empty()) {
    printf("\nthe compiler's choice against the fastest of all, the largest losses first\n");
    for (size_t i = 0; i < miscosts.size() && i < 16; ++i) {
      const row &r = *miscosts[i];
      printf("%-34s %.2f: %8.2f %s, %8.2f %s\n", r.of.name.c_str(), r.chosen()->us / r.best()->us,
             r.chosen()->us, r.chosen()->schedule.c_str(), r.best()->us,
             r.best()->schedule.c_str());
    }
  }
  printf("\nlibrary / ours, geometric means over network shapes (rows)\n");
  for (const char *family : {"", "mma", "simt", "wgmma", "winograd"}) {
    std::map<long, geometric_mean> by_batch;
    geometric_mean all;
    for (const row &r : rows)
      if (const timed *t = r.of.key.empty() || r.peer_us <= 0 ? nullptr : r.best(family)) {
        by_batch[r.of.batch].add(r.peer_us / t->us);
        all.add(r.peer_us / t->us);
      }
    if (!all.count())
      continue;
    printf("%-12s %.3f (%d)", *family ? family : "best of all", all.value(), all.count());
    for (const auto &[batch, mean] : by_batch)
      printf(", batch %ld %.3f (%d)", batch, mean.value(), mean.count());
    printf("\n");
  }
  if (choice.count())
    printf("choice / best %.3f (%d)\n", choice.value(), choice.count());
  for (const row &r : rows)
    if (r.of.name == "square 8192")
      for (const char *family : {"mma", "simt", "wgmma", "winograd"})
        if (const timed *t = r.best(family))
          printf("8192^3 %s: %.1f TFLOP/s, library %.1f, ratio %.3f\n", family, r.tflops(t->us),
                 r.tflops(r.peer_us), r.peer_us / t->us);
  printf("rows: %zu; for other kernels: %d; not reached: %d\n", rows.size(), elsewhere, missing);
}

} // namespace bench
