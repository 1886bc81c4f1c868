// Defines `library`: cuBLASLt's products, the reference of bench/gemm.cu and what it is measured
// against.
#pragma once

#include "device.cuh"

#include <cublasLt.h>

namespace bench {

/// Row-major y[m][n] = a[m][k] * w[n][k], which in cuBLAS's column-major terms is y' = w' * a; fp32
/// in true fp32. Rows of y may lie further apart than n.
class library {
public:
  explicit library(cudaStream_t stream) : stream_(stream) {
    CHECK(cublasLtCreate(&handle_));
    CHECK(cudaMalloc(&workspace_, workspace_bytes));
  }
  library(const library &) = delete;
  library &operator=(const library &) = delete;

  /// The products that follow; `pitch`: elements from row to row of y.
  void set(long m, long n, long k, long pitch) {
    forget();
    const cublasOperation_t transposed = CUBLAS_OP_T;
    CHECK(cublasLtMatmulDescCreate(&op_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(cublasLtMatmulDescSetAttribute(op_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof(transposed)));
    const cudaDataType_t type = kPrecision == 0   ? CUDA_R_16F
                                : kPrecision == 1 ? CUDA_R_16BF
                                                  : CUDA_R_32F;
    CHECK(cublasLtMatrixLayoutCreate(&w_, type, uint64_t(k), uint64_t(n), k));
    CHECK(cublasLtMatrixLayoutCreate(&a_, type, uint64_t(k), uint64_t(m), k));
    CHECK(cublasLtMatrixLayoutCreate(&y_, type, uint64_t(n), uint64_t(m), pitch));
    cublasLtMatmulPreference_t preference;
    CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const size_t bytes = workspace_bytes;
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof(bytes)));
    choices_.resize(8);
    int found = 0;
    CHECK(cublasLtMatmulAlgoGetHeuristic(handle_, op_, w_, a_, y_, y_, preference, 8,
                                         choices_.data(), &found));
    choices_.resize(size_t(found));
    (void)cublasLtMatmulPreferenceDestroy(preference);
    if (found == 0) {
      printf("cuBLAS has no algorithm for %ld x %ld x %ld\n", m, n, k);
      exit(1);
    }
  }
  int choices() const { return int(choices_.size()); }
  void multiply(int choice, const element *a, const element *w, element *y) {
    const float one = 1, zero = 0;
    CHECK(cublasLtMatmul(handle_, op_, &one, w, w_, a, a_, &zero, y, y_, y, y_,
                         &choices_[size_t(choice)].algo, workspace_, workspace_bytes, stream_));
  }
  /// d.reference() = the first set's product, group by group.
  void make_reference(const problem &p, data &d) {
    const operands o = d.set(0);
    set(p.m(), p.n(), p.k(), p.filters);
    for (long g = 0; g < p.groups; ++g) {
      multiply(0, d.matrix_a(g), o.w + g * p.n() * p.k(), d.reference() + g * p.n());
      wait_or_leave(stream_, "cuBLAS");
    }
  }
  /// A product by the fastest of the first eight heuristic choices.
  std::unique_ptr<launches> fastest(const problem &p, const data &d) {
    set(p.m(), p.n(), p.k(), p.filters);
    std::unique_ptr<launches> best;
    double best_us = 1e30;
    for (int c = 0; c < choices(); ++c) {
      auto candidate = std::make_unique<launches>(stream_, "cuBLAS", [&](int i) {
        const operands o = d.set(i);
        multiply(c, o.a, o.w, o.y);
      });
      const double us = candidate->time();
      if (us < best_us) {
        best_us = us;
        best = std::move(candidate);
      }
    }
    return best;
  }

private:
  void forget() {
    if (!op_)
      return;
    (void)cublasLtMatmulDescDestroy(op_);
    for (cublasLtMatrixLayout_t layout : {a_, w_, y_})
      (void)cublasLtMatrixLayoutDestroy(layout);
  }
  static constexpr size_t workspace_bytes = size_t(64) << 20;
  cudaStream_t stream_;
  cublasLtHandle_t handle_;
  void *workspace_ = nullptr;
  cublasLtMatmulDesc_t op_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, w_ = nullptr, y_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> choices_;
};

} // namespace bench
