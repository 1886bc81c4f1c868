// Architectures: 750 800
//
// Tests of gemv with bytes: sums are exact, zero points included.
#include "gemv/cases.h"
#include "shared/int8_cases.h"

using namespace test;

namespace {

template <class T, int Zero, index_t M, int Lanes, int Columns>
void gemv(index_t n, index_t k, index_t skew = 0) {
  name_case("gemv zero %d m%ld n%ld k%ld lanes %d columns %d skew %ld", Zero, long(M), long(n),
            long(k), Lanes, Columns, long(skew));
  with_zero<gemv_case<M, Lanes, Columns>, Zero> cfg;
  cfg.n = n, cfg.k = k;
  const index_t pitch = (k + 15) / 16 * 16;
  buffer<T> x(M * k, skew);
  buffer<int8_t> w(n * pitch);
  buffer<int32_t> y(M * n);
  fill_bytes(x);
  for (index_t j = 0; j < n; ++j)
    for (index_t i = 0; i < pitch; ++i)
      w.set(j * pitch + i, i < k ? random_int(-128, 127) : 0);
  w.upload();
  std::vector<double> want;
  for (index_t m = 0; m < M; ++m)
    for (index_t j = 0; j < n; ++j) {
      double sum = 0;
      for (index_t i = 0; i < k; ++i)
        sum += (double(x.get(m * k + i)) - Zero) * double(w.get(j * pitch + i));
      want.push_back(sum);
    }
  launch(cuda::gemv(cfg, make_view<const T>(x.device(), dims<dyn, fixed<1>>(k, {})),
                    static_cast<const int8_t *>(w.device()),
                    pack(make_view(y.device(), dims<dyn, fixed<1>>(n, {}))), pack(),
                    cuda::identity_body{}));
  expect_close(y, want, 0);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  gemv<int8_t, 0, 1, 64, 2>(37, 200);
  gemv<uint8_t, 3, 1, 256, 4>(65, 5000);
#endif
  gemv<uint8_t, 128, 8, 128, 2>(19, 1000, 1);
  gemv<int8_t, -128, 3, 32, 1>(9, 77);
  return finish();
}
