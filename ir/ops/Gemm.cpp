// Implements the interpreter's matrix product with a register-blocked kernel on GCC vectors.
#include "ir/ops/Gemm.h"

#include "ir/ops/Clones.h"

#include <cstring>

namespace tenon {
namespace {

constexpr int64_t kRows = 6, kPanelColumns = 8, kDepth = 256;
static_assert(kGemmColumns % kPanelColumns == 0);

typedef double Vector __attribute__((vector_size(32), aligned(8)));

/// c[6][8] += a[depth][6] · b[depth][8], twelve accumulators in registers.
TENON_CLONES void kernel(int64_t depth, const double *a, const double *b, double *c) {
  Vector *c0 = (Vector *)c, *c1 = (Vector *)(c + kGemmColumns),
         *c2 = (Vector *)(c + 2 * kGemmColumns), *c3 = (Vector *)(c + 3 * kGemmColumns),
         *c4 = (Vector *)(c + 4 * kGemmColumns), *c5 = (Vector *)(c + 5 * kGemmColumns);
  Vector s00 = c0[0], s01 = c0[1], s10 = c1[0], s11 = c1[1], s20 = c2[0], s21 = c2[1];
  Vector s30 = c3[0], s31 = c3[1], s40 = c4[0], s41 = c4[1], s50 = c5[0], s51 = c5[1];
  for (int64_t p = 0; p < depth; ++p, a += kRows, b += kGemmColumns) {
    const Vector b0 = ((const Vector *)b)[0], b1 = ((const Vector *)b)[1];
    s00 += a[0] * b0, s01 += a[0] * b1;
    s10 += a[1] * b0, s11 += a[1] * b1;
    s20 += a[2] * b0, s21 += a[2] * b1;
    s30 += a[3] * b0, s31 += a[3] * b1;
    s40 += a[4] * b0, s41 += a[4] * b1;
    s50 += a[5] * b0, s51 += a[5] * b1;
  }
  c0[0] = s00, c0[1] = s01, c1[0] = s10, c1[1] = s11, c2[0] = s20, c2[1] = s21;
  c3[0] = s30, c3[1] = s31, c4[0] = s40, c4[1] = s41, c5[0] = s50, c5[1] = s51;
}

int64_t roundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

} // namespace

PackedRows::PackedRows(const double *a, int64_t m, int64_t k, int64_t rowStride,
                       int64_t columnStride)
    : m_(m), k_(k), data_(size_t(roundUp(m, kRows) * k)) {
  double *out = data_.data();
  for (int64_t i0 = 0; i0 < m; i0 += kRows)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = i0; i < i0 + kRows; ++i)
        *out++ = i < m ? a[i * rowStride + p * columnStride] : 0.0;
}

const double *PackedRows::panel(int64_t i, int64_t p) const {
  return data_.data() + i * k_ + p * kRows;
}

void gemmColumns(const PackedRows &a, int64_t columns,
                 llvm::function_ref<void(int64_t, int64_t, double *)> load,
                 std::vector<double> &c) {
  const int64_t rows = roundUp(a.m(), kRows), wide = roundUp(columns, kPanelColumns);
  c.assign(size_t(rows * kGemmColumns), 0.0);
  std::vector<double> b(size_t(std::min(kDepth, a.k()) * kGemmColumns), 0.0);
  for (int64_t p = 0; p < a.k(); p += kDepth) {
    const int64_t end = std::min(p + kDepth, a.k());
    load(p, end, b.data());
    for (int64_t i = 0; i < rows; i += kRows)
      for (int64_t j = 0; j < wide; j += kPanelColumns)
        kernel(end - p, a.panel(i, p), b.data() + j, c.data() + i * kGemmColumns + j);
  }
}

} // namespace tenon
