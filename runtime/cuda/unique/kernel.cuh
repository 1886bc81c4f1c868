// Defines `unique`: classes of equal rows.
//
//   out[0, i] = class of row i, out[1, c] = first row of class c, out[2, c] = number of its rows
//
// Behind the last class stand -1 and 0. Classes are in order of value, element by element, or of
// their first rows. NaN is equal to NaN and larger than any number.
//
// Algorithm: two launches, unique_first and unique_class, one thread per row. The first finds the
// first row equal to its own, the second counts the first rows that come before that: the square of
// the number of rows.
// Config: rows, columns (extents), sorted (bool). x: view over (rows, columns); out: view of
// int64_t over (3, rows); firsts: an int for each row.
#ifndef TENON_RUNTIME_CUDA_UNIQUE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_UNIQUE_KERNEL_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Out> struct unique_part {
  Config cfg;
  X x;
  Out out;
  int *firsts;

  static constexpr int threads = 128, blocks_per_sm = 1;

  grid blocks() const { return {ceil_div(index_t(cfg.rows), index_t(threads)), 1, 1}; }

protected:
  TENON_DEVICE int rows() const { return int(index_t(cfg.rows)); }
  TENON_DEVICE static int row() { return block_x() * threads + thread(); }
  /// -1, 0 or 1.
  TENON_DEVICE int compare(int a, int b) const {
    for (int k = 0; k < int(index_t(cfg.columns)); ++k) {
      const int at_a[] = {a, k}, at_b[] = {b, k};
      const auto u = load_element(x.data + offset(x.strides, at_a));
      const auto v = load_element(x.data + offset(x.strides, at_b));
      const bool u_nan = u != u, v_nan = v != v;
      if (u_nan != v_nan)
        return v_nan ? -1 : 1;
      if (u < v || v < u)
        return u < v ? -1 : 1;
    }
    return 0;
  }
  TENON_DEVICE void store(int kind, int i, int64_t value) const {
    const int at[] = {kind, i};
    out.data[offset(out.strides, at)] = value;
  }
};

template <class Config, class X, class Out>
struct unique_first_kernel : unique_part<Config, X, Out> {
  TENON_DEVICE void run(unsigned char *) const {
    const int mine = this->row();
    if (mine >= this->rows())
      return;
    int first = 0;
    while (first < mine && this->compare(first, mine) != 0)
      ++first;
    this->firsts[mine] = first;
    this->store(1, mine, -1);
    this->store(2, mine, 0);
  }
};

template <class Config, class X, class Out>
struct unique_class_kernel : unique_part<Config, X, Out> {
  TENON_DEVICE void run(unsigned char *) const {
    const int mine = this->row();
    if (mine >= this->rows())
      return;
    const int first = this->firsts[mine];
    int before = 0, equal = 0;
    for (int i = 0; i < this->rows(); ++i) {
      const int other = this->firsts[i];
      equal += other == first;
      if (other == i && other != first)
        before += Config::sorted ? this->compare(i, first) < 0 : i < first;
    }
    this->store(0, mine, before);
    if (first == mine) {
      this->store(1, before, mine);
      this->store(2, before, equal);
    }
  }
};

template <class Config, class X, class Out>
unique_first_kernel<Config, X, Out> unique_first(Config cfg, X x, Out out, int *firsts) {
  return {{cfg, x, out, firsts}};
}
template <class Config, class X, class Out>
unique_class_kernel<Config, X, Out> unique_class(Config cfg, X x, Out out, int *firsts) {
  return {{cfg, x, out, firsts}};
}

} // namespace cuda
} // namespace tenon

#endif
