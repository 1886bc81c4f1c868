// One instance of every kernel and of the launching machinery, compiled and not run: by nvcc for
// all architectures without a warning, and, as plain C++, against the headers of older toolkits.
#include "cuda/attention/kernel.cuh"
#include "cuda/base/computed.cuh"
#include "cuda/contract_any/kernel.cuh"
#include "cuda/contract_cluster/kernel.cuh"
#include "cuda/contract_halo/kernel.cuh"
#include "cuda/contract_mma/int8.cuh"
#include "cuda/contract_mma/sm75.cuh"
#include "cuda/contract_mma/sm80.cuh"
#include "cuda/contract_mma/tf32.cuh"
#include "cuda/contract_simt/kernel.cuh"
#include "cuda/contract_wgmma/kernel.cuh"
#include "cuda/conv_patch/sm75.cuh"
#include "cuda/conv_patch/sm80.cuh"
#include "cuda/conv_patch/sm90.cuh"
#include "cuda/conv_patch_simt/kernel.cuh"
#include "cuda/conv_pool/kernel.cuh"
#include "cuda/depthwise/kernel.cuh"
#include "cuda/depthwise/mma.cuh"
#include "cuda/expand_depthwise/kernel.cuh"
#include "cuda/gather/bordered.cuh"
#include "cuda/gather/kernel.cuh"
#include "cuda/gather/shape_values.cuh"
#include "cuda/gemv/kernel.cuh"
#include "cuda/gemv/narrow.cuh"
#include "cuda/host/host_run.h"
#include "cuda/host/watch.h"
#include "cuda/map/kernel.cuh"
#include "cuda/map/transposed.cuh"
#include "cuda/nonzero/kernel.cuh"
#include "cuda/normalize/kernel.cuh"
#include "cuda/pool/any.cuh"
#include "cuda/reduce/fold.cuh"
#include "cuda/reduce/kernel.cuh"
#include "cuda/resize/any.cuh"
#include "cuda/resize/kernel.cuh"
#include "cuda/scan/kernel.cuh"
#include "cuda/scatter/last.cuh"
#include "cuda/scatter/sorted.cuh"
#include "cuda/softmax/kernel.cuh"
#include "cuda/squeeze_excite/kernel.cuh"
#include "cuda/strip/kernel.cuh"
#include "cuda/suppression/kernel.cuh"
#include "cuda/suppression/sorted.cuh"
#include "cuda/topk/kernel.cuh"
#include "cuda/topk/rows.cuh"
#include "cuda/topk/sorted.cuh"
#include "cuda/unique/kernel.cuh"
#include "cuda/winograd/kernel.cuh"

using namespace tenon;
using tenon::cuda::frame;
using tenon::cuda::issue;
using tenon::cuda::status;

// Not of this file alone: some machines have no such kernels, which leaves members unused.
struct strip_config : cuda::strip_schedule<2, 2, 4, 1, 132> {
  static constexpr fixed<9> m{};
  static constexpr int n = 96, k = 256;
  static constexpr bool aligned = false;
};
struct shared_strip_config : cuda::strip_schedule<2, 2, 4, 2, 132> {
  static constexpr fixed<2> m{};
  static constexpr int n = 96, k = 256;
  static constexpr bool aligned = false;
};
struct attention_config : cuda::attention_schedule<2, 2, 32, 2> {
  dims<dyn, fixed<12>> batch;
  dyn n;
  static constexpr fixed<197> m{};
  static constexpr fixed<64> d{};
  static constexpr fixed<40> e{};
  static constexpr int causal = 0;
  static constexpr bool zero_undefined = true;
};
struct pooled_windows {
  static constexpr int pool_h = 3, pool_w = 3, pool_stride_h = 2, pool_stride_w = 2;
  static constexpr int pool_top = 1, pool_left = 1;
  static constexpr fixed<4> pooled_h{}, pooled_w{};
};
template <bool Widened>
struct expanded_config : cuda::expand_depthwise_schedule<7, 8, 32, 4, 2, 8, Widened> {
  dyn batch;
  static constexpr fixed<7> in_h{}, in_w{}, out_h{}, out_w{};
  static constexpr int depth = 64, channels = 64, kernel_h = 3, kernel_w = 3;
  static constexpr int stride_h = 1, stride_w = 1, pad_top = 1, pad_left = 1;
};

namespace {

using V = cuda::variant<0, 100000>;
using nhwc = extents<3136, 1, 448, 64>;

struct bias_relu {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> acc, f32<L> bias) const {
    return acc + bias > 0 ? acc + bias : 0.0f;
  }
};
struct scale {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> s) const { return a * s; }
};
struct sum {
  template <class L> TENON_FN f32<L> identity(L) const { return 0; }
  template <class L> TENON_FN f32<L> operator()(L, f32<L> a, f32<L> b) const { return a + b; }
};

struct image : cuda::conv_defaults {
  dyn batch;
  static constexpr fixed<7> in_h{}, in_w{}, out_h{}, out_w{};
  static constexpr fixed<64> channels{}, filters{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<1> pad_top{}, pad_left{};
};
struct simt_config : image, cuda::contract_simt_schedule<64, 64, 16, 4, 4, 3, 2> {};
struct mma_config : image, cuda::contract_mma_schedule<64, 64, 32, 32, 32, 3, 2> {};
struct int8_config : image, cuda::contract_mma_schedule<64, 64, 64, 32, 32, 2, 2> {
  static constexpr int x_zero = -5;
};
struct int8_wgmma_config : image, cuda::contract_wgmma_schedule<64, 64, 64, 2, true, 3, 2> {};
struct wgmma_config : image, cuda::contract_wgmma_schedule<64, 64, 64, 2, true, 3, 2> {};
template <int Splits>
struct cluster_config : image, cuda::contract_cluster_schedule<64, 64, 64, 2, 3, Splits> {};
struct float_cluster_config : image, cuda::contract_cluster_schedule<64, 64, 32, 2, 3, 2> {};
struct halo_config : image, cuda::contract_halo_schedule<64, 32, 64, 3, 3> {};
struct tall_halo_config : image, cuda::contract_halo_schedule<128, 64, 64, 1, 2> {};
struct open_halo_config : cuda::conv_defaults, cuda::contract_halo_schedule<64, 32, 64, 3, 3> {
  dyn batch, in_h, in_w, out_h, out_w, channels, filters, kernel_h, kernel_w, pad_top, pad_left;
};
struct float_wgmma_config : image, cuda::contract_wgmma_schedule<128, 64, 32, 2, false, 3, 2> {};
struct volume : image {
  static constexpr fixed<5> in_d{}, out_d{};
  static constexpr fixed<3> kernel_d{};
  static constexpr fixed<1> pad_front{};
};
struct teams_config : image, cuda::contract_simt_schedule<64, 48, 32, 8, 4, 4, 2, 4> {};
struct winograd_config : image, cuda::winograd_schedule<16, 32, 8, 8, 3, 2> {};
struct simt_volume : volume, cuda::contract_simt_schedule<64, 64, 16, 4, 4, 3> {};
struct mma_volume : volume, cuda::contract_mma_schedule<64, 64, 32, 32, 32, 3> {};
struct wgmma_volume : volume, cuda::contract_wgmma_schedule<64, 64, 64, 1, false, 3> {};
/// The tiles of large products.
struct large_config : image, cuda::contract_mma_schedule<128, 256, 32, 64, 64, 4> {};
struct patch_config : image, cuda::conv_patch_schedule<7, 7, 1, 32, 2, 2> {};
struct grouped_config : image, cuda::conv_patch_simt_schedule<4, 8, 2, 8, 2, 4, 2, 4> {
  static constexpr fixed<8> groups{}, channels{}, filters{};
};
template <int Stride> struct first_layer : image, cuda::conv_patch_sm90_schedule<6, 64, 3> {
  static constexpr fixed<3> channels{};
  static constexpr fixed<Stride> stride_h{}, stride_w{};
};
template <int Stride> struct pooled_layer : first_layer<Stride>, pooled_windows {};
struct any_config {
  extents<8, 64, 7, 7> space;
  extents<7, 7> in;
  extents<3, 3> kernel;
  extents<1, 1> strides, dilations, pads, pads_end;
  fixed<64> filters, channels, depth;
  static constexpr bool transposed = true;
  using kind = cuda::pooling_mean;
  using accumulator = float;
};
struct window_config : cuda::window_defaults {
  dyn batch;
  static constexpr fixed<7> in_h{}, in_w{}, out_h{}, out_w{};
  static constexpr fixed<64> channels{};
  static constexpr fixed<3> kernel_h{}, kernel_w{};
  static constexpr fixed<1> pad_top{}, pad_left{}, pad_bottom{}, pad_right{};
  static constexpr int columns = 2;
  using kind = cuda::pooling_max;
  using accumulator = float;
};
struct multiplied_config : window_config {
  static constexpr fixed<2> multiplier{};
};
struct gate_config {
  dyn images;
  extents<49> pixels;
  static constexpr int channels = 64, hidden = 16, outputs = 64;
  static constexpr int threads = 256, channel_parts = 4, pixel_parts = 2;
  static constexpr bool staged = true;
};
struct unstaged_gate_config : gate_config {
  static constexpr bool staged = false;
};
struct map_config {
  extents<49, 64> space;
  static constexpr int vector = 4, across = 0;
};
struct product_of_sums {
  template <class L> TENON_FN float operator()(L, float x, float y) const { return x * y; }
};
struct narrow_config {
  static constexpr fixed<1> m{};
  static constexpr fixed<64> n{};
  static constexpr int k = 64, block = 32, lanes = 32, columns = 2, run = 16;
};
struct rows_config {
  extents<49> kept;
  extents<64> reduced;
  extents<49, 64> space;
  static constexpr fixed<1> m{};
  static constexpr fixed<64> n{}, k{};
  static constexpr int lanes = 32, columns = 2;
  static constexpr bool across = false, log = false, centered = true, exclusive = false,
                        reverse = false;
  static constexpr int threads = 128, vector = 2, held = 1;
};

struct patch_of_bytes : patch_config {
  static constexpr int x_zero = -5;
};
struct window_of_bytes : window_config {
  static constexpr int x_zero = -5;
};
struct row_of_bytes : rows_config {
  static constexpr int x_zero = -5;
};

struct topk_config {
  extents<49, 64> space;
  static constexpr fixed<5> k{};
  static constexpr bool largest = true;
  static constexpr int threads = 128, run = 1;
};
struct scatter_config {
  extents<49, 64> space;
  extents<300> rows;
  extents<64> inner;
};
struct nonzero_config {
  extents<49, 64> space;
};
struct unique_config {
  static constexpr fixed<49> rows{};
  static constexpr fixed<64> columns{};
  static constexpr bool sorted = true;
};
struct boxes_config {
  static constexpr fixed<1> batch{};
  static constexpr fixed<4> classes{};
  static constexpr fixed<49> n{};
  static constexpr fixed<5> k{};
  static constexpr bool center = false;
};
struct shape_config {
  extents<2> space;
  static constexpr int vector = 1;
};
struct value_and_index {
  template <class L> TENON_FN results<f32<L>, i64<L>> operator()(L, f32<L> v, i64<L> i) const {
    return pack(v, i);
  }
};

template <class T> auto activation(const frame &f) { return make_view(f.at<const T>(0), nhwc{}); }
template <class T> auto result(const frame &f) { return pack(make_view(f.at<T>(65536), nhwc{})); }
auto bias(const frame &f) { return pack(make_view(f.weight<float>(0), extents<0, 1, 0, 0>{})); }

struct gated {
  template <class L> TENON_FN f32<L> operator()(L, f32<L> gate, f32<L> x) const { return gate * x; }
};
template <class T, class Config> status gates(const frame &f, issue &to) {
  Config cfg;
  cfg.images = f.dims[0];
  const auto x = make_view(f.at<const T>(0), extents<3136, 64, 1>{});
  const auto y = make_view(f.at<T>(0), extents<3136, 64, 1>{});
  TENON_CHECK(to.launch<V>(cuda::squeeze_excite_image(
      cfg, x, 1.0f / 49, f.weight<T>(0), pack(), cuda::identity_body{}, f.weight<T>(0), pack(),
      cuda::identity_body{}, pack(y), pack(x), gated{})));
  return to.launch<V>(cuda::squeeze_excite(
      cfg, x, 1.0f / 49, f.weight<T>(0), pack(), cuda::identity_body{}, f.weight<T>(0), pack(),
      cuda::identity_body{}, pack(make_view(f.at<T>(0), extents<64, 1>{}))));
}

template <class T> status convolutions(const frame &f, issue &to) {
  simt_config simt;
  simt.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(
      cuda::conv_simt(simt, activation<T>(f), cuda::make_packed_weights(f.weight<T>(0)),
                      result<T>(f), bias(f), bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
  TENON_CHECK(to.launch<V>(
      cuda::conv_simt(simt, activation<T>(f), cuda::make_packed_weights(f.weight<T>(0)),
                      result<T>(f), bias(f), bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)},
                      scale{}, pack(make_view(f.weight<float>(0), extents<1>{})))));
  teams_config teams;
  teams.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(
      cuda::conv_simt(teams, activation<T>(f), cuda::make_packed_weights(f.weight<T>(0)),
                      result<T>(f), bias(f), bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
  winograd_config winograd;
  winograd.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(
      cuda::conv_winograd(winograd, activation<T>(f), cuda::make_packed_weights(f.weight<float>(0)),
                          result<T>(f), bias(f), bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)},
                          scale{}, pack(make_view(f.weight<float>(0), extents<1>{})))));
  mma_config mma;
  mma.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(
      cuda::conv_mma_sm80(mma, activation<T>(f), cuda::make_packed_weights(f.weight<f16>(0)),
                          result<T>(f), bias(f), bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
  TENON_CHECK(to.launch<V>(
      cuda::conv_mma_sm80(mma, activation<T>(f), cuda::make_packed_weights(f.weight<bf16>(0)),
                          result<T>(f), bias(f), bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
  TENON_CHECK(to.launch<V>(
      cuda::conv_mma_sm75(mma, activation<T>(f), cuda::make_packed_weights(f.weight<f16>(0)),
                          result<T>(f), bias(f), bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
  TENON_CHECK(to.launch<V>(cuda::conv_tf32_sm80(
      mma, activation<T>(f), cuda::make_k_major_weights(f.weight<float>(0)), result<T>(f), bias(f),
      bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
  TENON_CHECK(to.launch<V>(cuda::conv_tf32x3_sm80(
      mma, activation<T>(f), cuda::make_k_major_weights(f.weight<float>(0)), result<T>(f), bias(f),
      bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
  patch_config patch;
  patch.batch = f.dims[0];
  const auto reads = pack(make_view(f.weight<float>(0), extents<1>{}));
  TENON_CHECK(to.launch<V>(cuda::conv_patch_sm75(patch, activation<T>(f),
                                                 cuda::make_packed_weights(f.weight<f16>(0)),
                                                 result<T>(f), bias(f), bias_relu{})));
  TENON_CHECK(to.launch<V>(
      cuda::conv_patch_sm80(patch, activation<T>(f), cuda::make_packed_weights(f.weight<bf16>(0)),
                            result<T>(f), bias(f), bias_relu{}, scale{}, reads)));
  grouped_config grouped;
  grouped.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(cuda::conv_patch_simt(grouped, activation<T>(f),
                                                 cuda::make_packed_weights(f.weight<float>(0)),
                                                 result<T>(f), bias(f), bias_relu{})));
  TENON_CHECK(to.launch<V>(
      cuda::conv_patch_simt(grouped, activation<T>(f), cuda::make_packed_weights(f.weight<f16>(0)),
                            result<T>(f), bias(f), bias_relu{}, scale{}, reads)));
  first_layer<1> every;
  every.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(cuda::conv_patch_sm90(every, activation<T>(f),
                                                 cuda::make_packed_weights(f.weight<f16>(0)),
                                                 result<T>(f), bias(f), bias_relu{})));
  first_layer<2> second;
  second.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(
      cuda::conv_patch_sm90(second, activation<T>(f), cuda::make_packed_weights(f.weight<bf16>(0)),
                            result<T>(f), bias(f), bias_relu{}, scale{}, reads)));
  pooled_layer<2> pooled;
  pooled.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(cuda::conv_pool_sm90<bf16>(
      pooled, activation<T>(f), cuda::make_packed_weights(f.weight<f16>(0)), bias(f), bias_relu{},
      result<T>(f), pack(), cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(cuda::conv_pool_sm90<f16>(
      pooled, activation<T>(f), cuda::make_packed_weights(f.weight<bf16>(0)), pack(),
      cuda::identity_body{}, result<T>(f), bias(f), bias_relu{}, scale{}, reads)));
  if constexpr (sizeof(T) == 2) {
    expanded_config<false> narrow;
    narrow.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::expand_depthwise_sm80(narrow, activation<T>(f), f.weight<T>(0),
                                                         f.weight<T>(0), bias(f), bias_relu{},
                                                         result<T>(f), bias(f), bias_relu{})));
    expanded_config<true> wide;
    wide.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::expand_depthwise_sm80(
        wide, activation<T>(f), f.weight<T>(0), f.weight<T>(0), pack(), cuda::identity_body{},
        result<T>(f), pack(), cuda::identity_body{})));
    wgmma_config wgmma;
    wgmma.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::conv_wgmma_sm90(
        wgmma, activation<T>(f), cuda::make_packed_weights(f.weight<T>(0)), result<T>(f), bias(f),
        bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
    cluster_config<1> whole;
    whole.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::conv_cluster_sm90(whole, activation<T>(f),
                                                     cuda::make_packed_weights(f.weight<T>(0)),
                                                     result<T>(f), bias(f), bias_relu{})));
    halo_config covered;
    covered.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::conv_halo_sm90(covered, activation<T>(f),
                                                  cuda::make_packed_weights(f.weight<T>(0)),
                                                  result<T>(f), bias(f), bias_relu{})));
    tall_halo_config tall;
    tall.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::conv_halo_sm90(tall, activation<T>(f),
                                                  cuda::make_packed_weights(f.weight<T>(0)),
                                                  result<T>(f), bias(f), bias_relu{})));
    TENON_CHECK(to.launch<V>(cuda::conv_halo_sm90(open_halo_config{}, activation<T>(f),
                                                  cuda::make_packed_weights(f.weight<T>(0)),
                                                  result<T>(f), bias(f), bias_relu{})));
    cluster_config<4> parts;
    parts.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::conv_cluster_sm90(parts, activation<T>(f),
                                                     cuda::make_packed_weights(f.weight<T>(0)),
                                                     result<T>(f), bias(f), bias_relu{})));
  }
  if constexpr (sizeof(T) == 4) {
    float_wgmma_config wgmma;
    wgmma.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::conv_tf32x3_sm90(
        wgmma, activation<T>(f), cuda::make_packed_weights(f.weight<T>(0)), result<T>(f), bias(f),
        bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
    TENON_CHECK(to.launch<V>(cuda::conv_tf32x3_sm90(
        wgmma, activation<T>(f), cuda::make_packed_parts(f.weight<T>(0)), result<T>(f), bias(f),
        bias_relu{}, {f.at<float>(0), f.zeroed<int>(0)})));
    float_cluster_config whole;
    whole.batch = f.dims[0];
    TENON_CHECK(to.launch<V>(cuda::conv_cluster_sm90(whole, activation<T>(f),
                                                     cuda::make_packed_weights(f.weight<T>(0)),
                                                     result<T>(f), bias(f), bias_relu{})));
    TENON_CHECK(to.launch<V>(cuda::conv_cluster_sm90(whole, activation<T>(f),
                                                     cuda::make_packed_parts(f.weight<T>(0)),
                                                     result<T>(f), bias(f), bias_relu{})));
  }
  window_config window;
  window.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(cuda::depthwise(window, activation<T>(f), f.weight<T>(0), result<T>(f),
                                           bias(f), bias_relu{})));
  if constexpr (sizeof(T) == 2)
    TENON_CHECK(to.launch<V>(cuda::depthwise_mma_sm80(window, activation<T>(f), f.weight<T>(0),
                                                      result<T>(f), bias(f), bias_relu{})));
  TENON_CHECK(to.launch<V>(
      cuda::pooling(window, activation<T>(f), result<T>(f), pack(), cuda::identity_body{})));
  const auto computed =
      cuda::make_computed_view<float, 4>(pack(activation<T>(f)), cuda::identity_body{});
  TENON_CHECK(to.launch<V>(
      cuda::depthwise(window, computed, f.weight<T>(0), result<T>(f), bias(f), bias_relu{})));
  multiplied_config multiplied;
  multiplied.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(
      cuda::depthwise(multiplied, computed, f.weight<T>(0), result<T>(f), bias(f), bias_relu{})));
  TENON_CHECK(
      to.launch<V>(cuda::pooling(window, computed, result<T>(f), pack(), cuda::identity_body{})));
  TENON_CHECK(
      to.launch<V>(cuda::resize(window, computed, cuda::resize_linear_axis{2, 0, 7},
                                cuda::resize_table<2>{f.weight<int32_t>(0), f.weight<float>(0)},
                                result<T>(f), pack(), cuda::identity_body{})));
  TENON_CHECK((gates<T, gate_config>(f, to)));
  TENON_CHECK((gates<T, unstaged_gate_config>(f, to)));
  return to.launch<V>(cuda::resize(window, activation<T>(f), cuda::resize_linear_axis{2, 0, 7},
                                   cuda::resize_table<2>{f.weight<int32_t>(0), f.weight<float>(0)},
                                   result<T>(f), pack(), cuda::identity_body{}));
}

struct requantise {
  template <class L> TENON_FN i32<L> operator()(L, i32<L> sum, i32<L> bias) const {
    return clamp<L>(shift_right<L>(mul_high<L>(sum + bias, i32<L>{} + 1431655765), i32<L>{} + 5),
                    i32<L>{} - 128, i32<L>{} + 127);
  }
};
template <class T> status convolutions_of_bytes(const frame &f, issue &to) {
  int8_config cfg;
  cfg.batch = f.dims[0];
  const auto x = activation<T>(f);
  const auto y = result<int8_t>(f);
  const auto w = cuda::make_k_major_weights(f.weight<int8_t>(0));
  const auto b = pack(make_view(f.weight<int32_t>(0), extents<0, 1, 0, 0>{}));
  const cuda::split_scratch scratch{f.at<float>(0), f.zeroed<int>(0)};
  TENON_CHECK(to.launch<V>(cuda::conv_int8_sm75(cfg, x, w, y, b, requantise{}, scratch)));
  TENON_CHECK(to.launch<V>(cuda::conv_int8_sm80(cfg, x, w, y, b, requantise{}, scratch)));
  const auto packed = cuda::make_packed_weights(f.weight<int8_t>(0));
  int8_wgmma_config wgmma;
  wgmma.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(cuda::conv_int8_sm90(wgmma, x, packed, y, b, requantise{}, scratch)));
  patch_of_bytes patch;
  patch.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(cuda::conv_patch_sm75(patch, x, packed, y, b, requantise{})));
  TENON_CHECK(to.launch<V>(cuda::conv_patch_sm80(patch, x, packed, y, b, requantise{})));
  window_of_bytes window;
  window.batch = f.dims[0];
  TENON_CHECK(to.launch<V>(cuda::depthwise(window, x, f.weight<int8_t>(0), y, b, requantise{})));
  using dense = extents<64, 1>;
  return to.launch<V>(cuda::gemv(row_of_bytes{}, make_view(f.at<const T>(0), dense{}),
                                 f.weight<int8_t>(0), pack(make_view(f.at<int8_t>(65536), dense{})),
                                 pack(make_view(f.weight<int32_t>(0), extents<0, 1>{})),
                                 requantise{}));
}

template <class T> status volumes(const frame &f, issue &to) {
  using ndhwc = extents<15680, 1, 3136, 448, 64>;
  const auto x = make_view(f.at<const T>(0), ndhwc{});
  const auto y = pack(make_view(f.at<T>(65536), ndhwc{}));
  const auto b = pack(make_view(f.weight<float>(0), extents<0, 1, 0, 0, 0>{}));
  const auto w = cuda::make_packed_weights(f.weight<T>(0));
  if constexpr (sizeof(T) == 2) {
    TENON_CHECK(to.launch<V>(cuda::conv_mma_sm75(mma_volume{}, x, w, y, b, bias_relu{})));
    TENON_CHECK(to.launch<V>(cuda::conv_mma_sm80(mma_volume{}, x, w, y, b, bias_relu{})));
    TENON_CHECK(to.launch<V>(cuda::conv_mma_sm80(large_config{}, activation<T>(f), w, result<T>(f),
                                                 bias(f), bias_relu{})));
    return to.launch<V>(cuda::conv_wgmma_sm90(wgmma_volume{}, x, w, y, b, bias_relu{}));
  } else {
    return to.launch<V>(cuda::conv_simt(simt_volume{}, x, w, y, b, bias_relu{}));
  }
}

template <class T> status matrices(const frame &f, issue &to) {
  using dense = extents<64, 1>;
  const auto in = make_view(f.input<T>(0), dense{});
  const auto out = pack(make_view(f.output<T>(0), dense{}));
  TENON_CHECK(to.launch<V>(cuda::map(
      map_config{}, out, pack(in, make_view(f.weight<float>(0), extents<0, 1>{})), bias_relu{})));
  TENON_CHECK(to.launch<V>(cuda::map_transposed(map_config{}, out,
                                                pack(make_view(f.at<const T>(0), extents<1, 49>{})),
                                                cuda::identity_body{})));
  const auto gathered = cuda::make_gathered_view(make_view(f.input<T>(0), extents<0, 1>{}),
                                                 make_view(f.input<int64_t>(1), extents<1, 0>{}),
                                                 fixed<64>{}, fixed<49>{});
  TENON_CHECK(to.launch<V>(cuda::map(map_config{}, out, pack(gathered), cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(cuda::reduce(rows_config{}, pack(in), cuda::identity_body{}, sum{},
                                        pack(make_view(f.output<T>(0), extents<1>{})), pack(),
                                        cuda::identity_body{})));
  TENON_CHECK(
      to.launch<V>(cuda::scan(rows_config{}, in, sum{}, out, pack(), cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(cuda::softmax(rows_config{}, in, out, pack(), cuda::identity_body{})));
  TENON_CHECK(
      to.launch<V>(cuda::normalize(rows_config{}, 1e-5f, in, out, pack(), cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(
      cuda::gemv(rows_config{}, in, f.weight<T>(0), out, pack(), cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(cuda::fold(rows_config{}, pack(in), cuda::identity_body{}, sum{},
                                      pack(make_view(f.output<T>(0), extents<1>{})), pack(),
                                      cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(cuda::gemv_narrow<int4_t>(
      narrow_config{}, in, f.weight<unsigned char>(0), f.weight<T>(0),
      static_cast<const T *>(nullptr), out, pack(), cuda::identity_body{})));
  if constexpr (sizeof(T) == 2) {
    const cuda::strip_weights<T, T> halves = {f.weight<T>(0), nullptr};
    const auto row = cuda::make_row_norm<true>(1e-5f, pack(), cuda::identity_body{});
    TENON_CHECK(
        to.launch<V>(cuda::strip_sm80(strip_config{}, in, cuda::strip_matrices<T, T, 1>{{halves}},
                                      out, pack(), cuda::identity_body{})));
    TENON_CHECK(to.launch<V>(cuda::strip_sm90(shared_strip_config{}, in,
                                              cuda::strip_matrices<T, T, 2>{{halves, halves}}, out,
                                              pack(), product_of_sums{}, row)));
    TENON_CHECK(to.launch<V>(cuda::strip_sm90(
        strip_config{}, in,
        cuda::strip_matrices<int4_t, T, 1>{{{f.weight<unsigned char>(0), f.weight<T>(0)}}}, out,
        pack(), cuda::identity_body{})));
  }
  const auto computed = cuda::make_computed_view<float, 2>(pack(in), cuda::identity_body{});
  TENON_CHECK(to.launch<V>(
      cuda::gemv(rows_config{}, computed, f.weight<T>(0), out, pack(), cuda::identity_body{})));
  const auto image = activation<T>(f);
  TENON_CHECK(to.launch<V>(
      cuda::pooling_any(any_config{}, image, result<T>(f), pack(), cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(cuda::conv_any(any_config{}, image, cuda::no_zero_point{}, image,
                                          cuda::no_zero_point{}, result<T>(f), pack(),
                                          cuda::identity_body{})));
  return to.launch<V>(cuda::matmul_any(any_config{}, image, cuda::no_zero_point{}, image,
                                       cuda::no_zero_point{}, result<T>(f), pack(),
                                       cuda::identity_body{}));
}

template <class T> status attentions(const frame &f, issue &to) {
  attention_config cfg;
  cfg.batch = {f.dims[0], {}};
  cfg.n = f.dims[0];
  using heads = extents<453888, 64, 2304, 1>;
  const auto q = make_view(f.input<T>(0), heads{});
  const auto y = make_view(f.output<T>(0), extents<94560, 40, 480, 1>{});
  TENON_CHECK(to.launch<V>(cuda::attention_sm80(cfg, 0.125f, q, q, q, pack(), y)));
  const auto mask = pack(make_view(f.at<const float>(0), extents<197, 0, 0, 1>{}));
  return to.launch<V>(cuda::attention_sm80(cfg, 0.125f, q, q, q, mask, y));
}

/// What moves elements and does not compute with them.
template <class T> status movements(const frame &f, issue &to) {
  using dense = extents<64, 1>;
  const auto in = make_view(f.input<T>(0), dense{});
  const auto out = pack(make_view(f.output<T>(0), dense{}));
  const auto axes =
      pack(cuda::resize_linear_axis{2, 0, 49}, cuda::resize_nearest_axis{1, 0, 0, 64});
  TENON_CHECK(to.launch<V>(
      cuda::resize_any(map_config{}, in, axes, 0.0f, out, pack(), cuda::identity_body{})));
  const auto bordered = cuda::make_bordered_view<cuda::border_reflect>(
      f.input<T>(0), dense{}, extents<1, 2>{}, extents<47, 60>{});
  TENON_CHECK(to.launch<V>(cuda::map(map_config{}, out, pack(bordered), cuda::identity_body{})));
  TENON_CHECK(to.launch<V>(
      cuda::map(shape_config{}, pack(make_view(f.output<int64_t>(1), extents<1>{})),
                pack(cuda::make_shape_values(extents<49, 64>{})), cuda::identity_body{})));
  const auto best =
      pack(make_view(f.output<T>(0), dense{}), make_view(f.output<int64_t>(1), dense{}));
  TENON_CHECK(to.launch<V>(cuda::topk(topk_config{}, in, best, pack(), value_and_index{})));
  TENON_CHECK(to.launch<V>(cuda::topk_rows(topk_config{}, in, best, pack(), value_and_index{})));
  const auto sort = cuda::sort_space::over(f.at<cuda::sort_item>(0), 49 * 64, 49 * 64);
  int from = 0;
  TENON_CHECK(to.launch<V>(cuda::topk_keys(topk_config{}, in, sort)));
  TENON_CHECK(cuda::sort_by<V>(to, sort, 32, 0, from));
  TENON_CHECK(cuda::sort_by<V>(to, sort, 6, 64, from));
  TENON_CHECK(to.launch<V>(cuda::sort_rows<512, 8>(sort, 49 * 64, 32)));
  return to.launch<V>(
      cuda::topk_sorted(topk_config{}, in, best, pack(), value_and_index{}, sort.lists[from]));
}

/// Rows at indices: the few, the many.
template <class T> status scattered(const frame &f, issue &to) {
  const scatter_config cfg{};
  const auto indices = make_view(f.at<const int64_t>(0), extents<1>{});
  const auto updates = make_view(f.input<T>(0), extents<64, 1>{});
  const auto y = make_view(f.output<T>(0), extents<64, 1>{});
  TENON_CHECK(to.launch<V>(cuda::scatter<scatter_add>(cfg, indices, updates, y)));
  int *const last = f.at<int>(8192);
  TENON_CHECK(to.launch<V>(cuda::scatter_clear(cfg, last)));
  TENON_CHECK(to.launch<V>(cuda::scatter_claim(cfg, indices, last)));
  TENON_CHECK(to.launch<V>(cuda::scatter_last(cfg, indices, updates, y, last)));
  const auto sort = cuda::sort_space::over(f.at<cuda::sort_item>(8192), 300, 300);
  int from = 0;
  TENON_CHECK(to.launch<V>(cuda::scatter_keys(cfg, indices, sort)));
  TENON_CHECK(cuda::sort_by<V>(to, sort, 6, 0, from));
  return to.launch<V>(
      cuda::scatter_sorted<scatter_add>(cfg, indices, updates, y, sort.lists[from]));
}

template <class T> status found(const frame &f, issue &to) {
  const auto in = make_view(f.input<T>(0), extents<64, 1>{});
  const auto numbers = f.at<cuda::counted>(0);
  TENON_CHECK(to.launch<V>(cuda::nonzero_count(nonzero_config{}, in, numbers)));
  TENON_CHECK(
      to.launch<V>(cuda::nonzero_place(nonzero_config{}, in, numbers, f.output<int64_t>(1))));
  const auto classes = make_view(f.output<int64_t>(1), extents<49, 1>{});
  TENON_CHECK(to.launch<V>(cuda::unique_first(unique_config{}, in, classes, f.at<int>(8192))));
  TENON_CHECK(to.launch<V>(cuda::unique_class(unique_config{}, in, classes, f.at<int>(8192))));
  const auto boxes = make_view(f.input<T>(0), extents<196, 4, 1>{});
  const auto scores = make_view(f.input<T>(0), extents<196, 49, 1>{});
  const auto best = make_view(f.output<int64_t>(1), extents<20, 5, 1>{});
  const boxes_config cfg;
  TENON_CHECK(to.launch<V>(
      cuda::non_max_suppression(cfg, boxes, scores, best, 0.5f, 0.0f, f.at<int>(8192))));
  const auto space = cuda::suppression_space::over(f.at<unsigned char>(16384), 4, 5);
  const index_t items = cuda::suppression_scores(cfg);
  const auto sort = cuda::sort_space::over(f.at<cuda::sort_item>(8192), items, items);
  int from = 0;
  TENON_CHECK(
      to.launch<V>(cuda::suppression_begin(cfg, boxes, scores, best, 0.5f, 0.0f, space, sort)));
  TENON_CHECK(cuda::sort_by<V>(to, sort, 32, 0, from));
  return to.launch<V>(
      cuda::non_max_suppression_sorted(cfg, boxes, scores, best, 0.5f, 0.0f, space,
                                       static_cast<const cuda::sort_item *>(sort.lists[from])));
}

/// What the host issues behind the graph.
status finish(cuda::host_part &h) {
  const frame &f = h.where();
  TENON_CHECK(h.read_dim(0, f.at<const int64_t>(0)));
  bool which = false;
  TENON_CHECK(h.read(f.at<const bool>(64), which));
  if (which)
    TENON_CHECK(h.step(13));
  TENON_CHECK(h.write(f.at<int64_t>(64), int64_t(1)));
  return h.copy(f.at<float>(128), f.weight<float>(0), 4);
}

const cuda::step steps[] = {
    {"f32 convolutions", convolutions<float>, false},
    {"f16 convolutions", convolutions<f16>, false},
    {"s8 convolutions", convolutions_of_bytes<int8_t>, false},
    {"u8 convolutions", convolutions_of_bytes<uint8_t>, false},
    {"f32 volumes", volumes<float>, false},
    {"f16 volumes", volumes<f16>, false},
    {"f32 matrices", matrices<float>, true},
    {"f16 matrices", matrices<f16>, true},
    {"f16 attentions", attentions<f16>, true},
    {"bf16 attentions", attentions<bf16>, true},
    {"f32 movements", movements<float>, true},
    {"f16 movements", movements<f16>, true},
    {"f32 scattered", scattered<float>, true},
    {"f16 scattered", scattered<f16>, true},
    {"f32 found", found<float>, true},
    {"f16 found", found<f16>, true},
};
const cuda::variant_table variants[] = {
    {800, false, true, cuda::check_build<V>, steps, 14, 131072, 256, 0, 1, nullptr, 0, finish, 13}};
const cuda::dim_range range[] = {{1, 8}};
const cuda::program program = {variants, 1, nullptr, 65536, 0, nullptr, 0, nullptr, 0, range, 1};

} // namespace

int main(int count, char **arguments) {
  cuda::model *model = nullptr;
  cuda::context *context = nullptr;
  status s = cuda::create(&model, program, count > 1 ? arguments[1] : nullptr, 0);
  if (s == cuda::ok)
    s = cuda::create(&context, model);
  if (s == cuda::ok)
    s = cuda::run(context, nullptr, nullptr);
  cuda::destroy(context);
  cuda::destroy(model);
  puts(cuda::message(s));
  return s != cuda::ok;
}
