// Defines `problem`: a matrix product or a convolution that bench/gemm.cu times, and the reading of
// the tables that list them (written by layers.py).
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

namespace bench {

/// How many outputs a window has along one dimension.
constexpr long out_extent(long in, long kernel, long stride, long pad, long dilation) {
  return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

/// The extents of a convolution, NHWC; products have kernels of 1 x 1.
struct shape {
  long batch = 1, channels = 1, height = 1, width = 1, filters = 1; // of all groups
  long kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  long dilation_h = 1, dilation_w = 1, groups = 1;

  bool is_same(const shape &o) const {
    return batch == o.batch && channels == o.channels && height == o.height && width == o.width &&
           filters == o.filters && kernel_h == o.kernel_h && kernel_w == o.kernel_w &&
           stride_h == o.stride_h && stride_w == o.stride_w && pad_h == o.pad_h &&
           pad_w == o.pad_w && dilation_h == o.dilation_h && dilation_w == o.dilation_w &&
           groups == o.groups;
  }
};

/// What is timed.
struct problem : shape {
  std::string name, key; // key: precision, batch and fields as in the tables; empty for squares
  std::string networks;
  int occurrences = 1;
  double recorded_us = 0; // of the library; 0: none
  std::string chosen;     // the compiler's schedule; empty: unknown

  /// A plain product: pixels are rows.
  bool is_product() const {
    return kernel_h * kernel_w == 1 && stride_h * stride_w == 1 && pad_h + pad_w == 0 &&
           groups == 1;
  }
  long out_h() const { return out_extent(height, kernel_h, stride_h, pad_h, dilation_h); }
  long out_w() const { return out_extent(width, kernel_w, stride_w, pad_w, dilation_w); }
  long m() const { return batch * out_h() * out_w(); }
  long n() const { return filters / groups; } // of one group
  long k() const { return kernel_h * kernel_w * channels / groups; }
  size_t a_elements() const { return size_t(batch * height * width * channels); }
  size_t w_elements() const { return size_t(filters * k()); }
  size_t y_elements() const { return size_t(m() * filters); }
  double flops() const { return 2.0 * double(m()) * double(filters) * double(k()); }
};

inline problem product(const std::string &name, long m, long n, long k) {
  problem p;
  p.name = name;
  p.height = m, p.width = 1, p.channels = k, p.filters = n;
  return p;
}

namespace detail {
constexpr size_t kFields = 14; // of a shape

inline std::vector<std::string> split(const std::string &line, char by) {
  std::vector<std::string> parts;
  std::string part;
  for (std::stringstream s(line); std::getline(s, part, by);)
    parts.push_back(part);
  return parts;
}
/// Rows of a table without comments and the line of headings.
inline std::vector<std::string> rows_of(const std::string &path) {
  std::ifstream file(path);
  if (!file) {
    fprintf(stderr, "gemm: cannot read '%s'; --tables names the folder of layers.csv\n",
            path.c_str());
    exit(2);
  }
  std::vector<std::string> rows;
  bool heading = true;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') {
      if (!heading)
        rows.push_back(line);
      heading = false;
    }
  return rows;
}
inline problem read(const std::string &row, long batch, const std::string &precision) {
  const std::vector<std::string> f = split(row, ';');
  if (f.size() != kFields + 1) {
    fprintf(stderr, "gemm: layers.csv: %zu fields expected, found '%s'\n", kFields + 1,
            row.c_str());
    exit(2);
  }
  auto at = [&](size_t i) { return atol(f[i].c_str()); };
  problem p;
  p.batch = batch;
  p.channels = at(1), p.height = at(2), p.width = at(3), p.filters = at(4);
  p.kernel_h = at(5), p.kernel_w = at(6), p.stride_h = at(7), p.stride_w = at(8);
  p.pad_h = at(9), p.pad_w = at(10), p.dilation_h = at(11), p.dilation_w = at(12);
  p.groups = at(13);
  p.networks = f[kFields];
  p.occurrences = 0;
  for (const std::string &network : split(p.networks, ' '))
    p.occurrences += atoi(network.c_str() + network.find(':') + 1);
  p.key = precision + ";" + std::to_string(batch) + ";" + row.substr(0, row.rfind(';'));
  char name[100];
  snprintf(name, sizeof(name), "b%ld %ldx%ldx%ld f%ld k%ldx%ld s%ld%s", batch, p.height, p.width,
           p.channels, p.filters, p.kernel_h, p.kernel_w, p.stride_w,
           p.groups > 1 ? (" g" + std::to_string(p.groups)).c_str() : "");
  p.name = name;
  return p;
}
/// The last field of rows by all before it.
inline std::map<std::string, std::string> lookup(const std::string &path) {
  std::map<std::string, std::string> found;
  for (const std::string &row : rows_of(path)) {
    const size_t end = row.rfind(';');
    found[row.substr(0, end)] = row.substr(end + 1);
  }
  return found;
}
} // namespace detail

/// The networks' shapes from `tables`/layers.csv at each batch, with the library's recorded times
/// for `precision` and, from the file `choices` where that is not empty, the compiler's schedules.
/// Depthwise convolutions are left out: none of the kernels timed here runs them.
inline std::vector<problem> network_problems(const std::string &tables, const std::string &choices,
                                             const std::string &precision,
                                             const std::vector<long> &batches) {
  const auto recorded = detail::lookup(tables + "/library_h200.csv");
  const auto chosen =
      choices.empty() ? std::map<std::string, std::string>() : detail::lookup(choices);
  std::vector<problem> all;
  for (long batch : batches)
    for (const std::string &row : detail::rows_of(tables + "/layers.csv")) {
      problem p = detail::read(row, batch, precision);
      if (p.groups > 1 && p.groups == p.channels)
        continue;
      const auto time = recorded.find(p.key);
      if (time != recorded.end())
        p.recorded_us = atof(time->second.c_str());
      const auto schedule = chosen.find(p.key);
      if (schedule != chosen.end())
        p.chosen = schedule->second;
      all.push_back(p);
    }
  return all;
}

} // namespace bench
