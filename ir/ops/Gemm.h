// Declares the interpreter's matrix product: double precision, blocked, each sum in order of k.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <cstdint>
#include <vector>

namespace tenon {

/// Columns that one call of gemmColumns computes at most.
constexpr int64_t kGemmColumns = 96;

/// The left operand [m, k] in the order the kernel reads it.
class PackedRows {
public:
  /// Element (i, p) is at a[i · rowStride + p · columnStride].
  PackedRows(const double *a, int64_t m, int64_t k, int64_t rowStride, int64_t columnStride);
  int64_t m() const { return m_; }
  int64_t k() const { return k_; }
  const double *panel(int64_t i, int64_t p) const;

private:
  int64_t m_, k_;
  std::vector<double> data_;
};

/// Computes c[i · kGemmColumns + j] = Σ_p a(i, p) · b(p, j) for all rows and for j below `columns`
/// (at most kGemmColumns), adding up in order of p. `load(p0, p1, out)` writes rows p0 … p1 of b to
/// out[(p − p0) · kGemmColumns + j]; it may leave columns from `columns` on as they are.
void gemmColumns(const PackedRows &a, int64_t columns,
                 llvm::function_ref<void(int64_t p0, int64_t p1, double *out)> load,
                 std::vector<double> &c);

} // namespace tenon
