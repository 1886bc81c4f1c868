// Defines `schedule`: one kernel of runtime/cuda with its tiles, as bench/gemm.cu times it, and the
// calls that configure it for a problem.
#pragma once

#include "cuda/contract_halo/geometry.h"
#include "cuda/host/launch.h"
#include "cuda/tile/contraction.cuh"
#include "cuda/tile/split_k.cuh"

#include "problem.h"

#include <type_traits>

namespace bench {

using namespace tenon;
using cuda::early_starts;
using cuda::issue;
using cuda::status;

// What is multiplied: GEMM_PRECISION is 0 fp16, 1 bf16, 2 tf32x3, 3 fp32, 4 tf32.
#ifndef GEMM_PRECISION
#define GEMM_PRECISION 0
#endif
constexpr int kPrecision = GEMM_PRECISION;
static_assert(kPrecision >= 0 && kPrecision <= 4, "0 fp16, 1 bf16, 2 tf32x3, 3 fp32, 4 tf32");
constexpr const char *kPrecisionName = kPrecision == 0   ? "fp16"
                                       : kPrecision == 1 ? "bf16"
                                       : kPrecision == 2 ? "tf32x3"
                                       : kPrecision == 3 ? "fp32"
                                                         : "tf32";
using element = tenon::detail::choose_type<
    kPrecision == 0, f16, tenon::detail::choose_type<kPrecision == 1, bf16, float>::type>::type;

/// How a kernel wants its weights.
enum class packing {
  rows,         // [groups * filters][k]
  rounded_rows, // the same, channels rounded up to 16 bytes
  parts,        // the same twice: tf32's big parts, then the small ones
  tiles,        // [groups][ceil(n / tile_n)][k][tile_n]
  winograd,     // [ceil(n / tile_n)][channels][16][tile_n], transformed
};

struct operands {
  const element *a, *w;
  element *y;
  cuda::split_scratch scratch;
};

struct schedule {
  std::string name; // as the compiler writes it, without what is the same in all
  int tile_m, tile_n, tile_k, splits;
  packing weights;
  int run;         // neighbours along K of a convolution that must not be split; 1: any number
  bool for_groups; // of several
  status (*product)(const problem &, const operands &, issue &);
  status (*conv)(const problem &, const operands &, issue &);
  const shape *only = nullptr;             // the one shape that it is built for; null: any
  int halo_consumers = 0, halo_stages = 0; // of tiles with their halo beside all weights

  long tiles(const problem &p) const {
    if (weights == packing::winograd)
      return (p.batch * ((p.out_h() + 1) / 2) * ((p.out_w() + 1) / 2) + tile_m - 1) / tile_m *
             ((p.n() + tile_n - 1) / tile_n);
    return p.groups * ((p.m() + tile_m - 1) / tile_m) * ((p.n() + tile_n - 1) / tile_n);
  }
  long steps(const problem &p) const {
    const long channels = p.channels / p.groups;
    if (weights == packing::winograd)
      return (channels + tile_k - 1) / tile_k;
    return weights == packing::rounded_rows || weights == packing::parts
               ? p.kernel_h * p.kernel_w * ((channels + tile_k - 1) / tile_k)
               : (p.k() + tile_k - 1) / tile_k;
  }
  /// Whether tiles with their halo, and the weights, fit into shared memory.
  bool covers(const problem &p) const {
    const cuda::contract_halo_geometry<long> of{tile_m,
                                                tile_n,
                                                tile_k,
                                                halo_consumers,
                                                halo_stages,
                                                (p.channels + tile_k - 1) / tile_k,
                                                (p.n() + tile_n - 1) / tile_n,
                                                p.kernel_h,
                                                p.kernel_w,
                                                p.dilation_h,
                                                p.dilation_w,
                                                p.batch,
                                                p.out_h(),
                                                p.out_w()};
    return p.kernel_h * p.kernel_w > 1 && p.stride_h == 1 && p.stride_w == 1 &&
           of.shared_bytes() <= 232448;
  }
  /// Whether the compiler would consider it for `p` on a machine of `multiprocessors`: splits where
  /// tiles are few. Tiles much smaller than the problem are not worth the time.
  bool suits(const problem &p, int multiprocessors) const {
    if (!(p.is_product() ? product : conv) || (p.channels / p.groups) % run ||
        (only && !only->is_same(p)))
      return false;
    if (p.groups > 1 && !for_groups)
      return false;
    if (weights == packing::winograd && (p.kernel_h != 3 || p.kernel_w != 3 || p.stride_h != 1 ||
                                         p.stride_w != 1 || p.dilation_h != 1 || p.dilation_w != 1))
      return false;
    if (weights == packing::tiles && p.groups > 1 && p.n() % tile_n)
      return false;
    if (halo_stages && (!covers(p) || tile_n >= 2 * ((p.n() + 31) / 32 * 32)))
      return false;
    if (splits > 1)
      return steps(p) >= 2 * splits && tiles(p) * splits <= 2 * multiprocessors;
    return tiles(p) <= 64L * multiprocessors;
  }
};

// Extents are numbers, as in kernels that layers share (--kernels). A type says what they are known
// to be multiples of (cuda::multiple), without which A is copied element by element.
template <class Schedule, class K, class N>
struct product_config : cuda::matmul_defaults, Schedule {
  dyn m;
  N n;
  K k;
  static constexpr bool aligned = true, aligned_results = true;
};
template <class Schedule, class Channels> struct conv_config : Schedule {
  dyn batch, in_h, in_w, out_h, out_w, groups, filters, kernel_h, kernel_w, stride_h, stride_w;
  dyn dilation_h, dilation_w, pad_top, pad_left;
  Channels channels;
  static constexpr bool aligned = true;
};

/// Only one variant in a file.
using whole_range = cuda::variant<0, 100000>;

/// Whether a kernel is known to copy A in runs of 16 bytes, if Extent, that of its channels, is a
/// multiple of anything.
template <class Kernel, class Extent> constexpr bool copies_runs() {
  if constexpr (std::is_same_v<Extent, dyn>)
    return true; // not asked for
  else
    return decltype(Kernel::problem)::template must_be_vector<16 / int(sizeof(element))>();
}

/// Kernels: static conv(...), matmul(...), weights(pointer).
template <class Kernels, class Schedule, class K, class N = dyn>
status launch_product(const problem &p, const operands &o, issue &to) {
  using a_strides = dims<fixed<0>, fixed<0>, K, fixed<1>>;
  using y_strides = dims<fixed<0>, fixed<0>, N, fixed<1>>;
  product_config<Schedule, K, N> cfg;
  cfg.m = p.m(), cfg.n = N(p.n()), cfg.k = K(p.k());
  const auto kernel =
      Kernels::matmul(cfg, make_view(o.a, a_strides({}, {}, K(p.k()), {})), Kernels::weights(o.w),
                      pack(make_view(o.y, y_strides({}, {}, N(p.n()), {}))), pack(),
                      cuda::identity_body{}, o.scratch);
  static_assert(copies_runs<decltype(kernel), K>(), "elements are copied one by one");
  return to.launch<whole_range>(kernel);
}
/// The same with K and N in whole vectors and tiles where they are.
template <class Kernels, class Schedule, int Run>
status launch_whole_product(const problem &p, const operands &o, issue &to) {
  using whole = cuda::multiple<64>; // the most that codegen/emit/KernelShape.cpp asks for
  if (p.k() % 64 == 0 && p.n() % 64 == 0)
    return launch_product<Kernels, Schedule, whole, whole>(p, o, to);
  return launch_product<Kernels, Schedule, cuda::multiple<Run>>(p, o, to);
}
template <class Kernels, class Schedule, class Channels>
status launch_conv(const problem &p, const operands &o, issue &to) {
  using image = dims<Channels, fixed<1>, Channels, Channels>; // NHWC
  using result = dims<dyn, fixed<1>, dyn, dyn>;
  conv_config<Schedule, Channels> cfg;
  cfg.batch = p.batch, cfg.in_h = p.height, cfg.in_w = p.width;
  cfg.out_h = p.out_h(), cfg.out_w = p.out_w(), cfg.groups = p.groups, cfg.filters = p.n();
  cfg.kernel_h = p.kernel_h, cfg.kernel_w = p.kernel_w;
  cfg.stride_h = p.stride_h, cfg.stride_w = p.stride_w;
  cfg.dilation_h = p.dilation_h, cfg.dilation_w = p.dilation_w;
  cfg.pad_top = p.pad_h, cfg.pad_left = p.pad_w;
  cfg.channels = Channels(p.channels / p.groups);
  const long row = p.width * p.channels, out = p.out_w() * p.filters;
  const auto kernel = Kernels::conv(
      cfg, make_view(o.a, image(p.height * row, {}, row, p.channels)), Kernels::weights(o.w),
      pack(make_view(o.y, result(p.out_h() * out, {}, out, p.filters))), pack(),
      cuda::identity_body{}, o.scratch);
  static_assert(copies_runs<decltype(kernel), Channels>(), "elements are copied one by one");
  return to.launch<whole_range>(kernel);
}

/// A layer whose extents are constants, as in generated code; one tap walks one long row.
template <long Batch, long Channels, long Height, long Width, long Filters, long KernelH,
          long KernelW, long StrideH, long StrideW, long PadH, long PadW, long DilationH,
          long DilationW, long Groups>
struct layer {
  static constexpr shape extents() {
    shape s;
    s.batch = Batch, s.channels = Channels, s.height = Height, s.width = Width;
    s.filters = Filters, s.kernel_h = KernelH, s.kernel_w = KernelW, s.stride_h = StrideH;
    s.stride_w = StrideW, s.pad_h = PadH, s.pad_w = PadW, s.dilation_h = DilationH;
    s.dilation_w = DilationW, s.groups = Groups;
    return s;
  }
  static constexpr bool is_row =
      KernelH * KernelW * StrideH * StrideW * Groups == 1 && PadH + PadW == 0;
  static constexpr long images = is_row ? 1 : Batch, rows = is_row ? 1 : Height,
                        columns = is_row ? Batch * Height * Width : Width;
  static constexpr long out_h = out_extent(rows, KernelH, StrideH, PadH, DilationH),
                        out_w = out_extent(columns, KernelW, StrideW, PadW, DilationW);
  static constexpr long m = images * out_h * out_w, k = KernelH * KernelW * Channels / Groups;
  template <class Schedule> struct config : cuda::conv_defaults, Schedule {
    // As leastShared() of codegen/cuda/shared/Contraction.h on an H200.
    static constexpr long blocks = Groups * Schedule::splits *
                                   ((m + Schedule::tile_m - 1) / Schedule::tile_m) *
                                   ((Filters / Groups + Schedule::tile_n - 1) / Schedule::tile_n);
    static constexpr int least_shared = blocks <= 132 ? 232448 / 2 + 1024 : 0;
    static constexpr fixed<images> batch{};
    static constexpr fixed<rows> in_h{};
    static constexpr fixed<columns> in_w{};
    static constexpr fixed<layer::out_h> out_h{};
    static constexpr fixed<layer::out_w> out_w{};
    static constexpr fixed<Groups> groups{};
    static constexpr fixed<Filters / Groups> filters{};
    static constexpr fixed<Channels / Groups> channels{};
    static constexpr fixed<KernelH> kernel_h{};
    static constexpr fixed<KernelW> kernel_w{};
    static constexpr fixed<StrideH> stride_h{};
    static constexpr fixed<StrideW> stride_w{};
    static constexpr fixed<DilationH> dilation_h{};
    static constexpr fixed<DilationW> dilation_w{};
    static constexpr fixed<PadH> pad_top{};
    static constexpr fixed<PadW> pad_left{};
    static constexpr bool aligned = true;
  };
  using x = tenon::dims<fixed<rows * columns * Channels>, fixed<1>, fixed<columns * Channels>,
                        fixed<Channels>>;
  using y = tenon::dims<fixed<m / images * Filters>, fixed<1>, fixed<layer::out_w * Filters>,
                        fixed<Filters>>;
};
template <class Kernels, class Schedule, class Layer>
status launch_layer(const problem &, const operands &o, issue &to) {
  return to.launch<whole_range>(Kernels::conv(
      typename Layer::template config<Schedule>{}, make_view(o.a, typename Layer::x{}),
      Kernels::weights(o.w), pack(make_view(o.y, typename Layer::y{})), pack(),
      cuda::identity_body{}, o.scratch));
}

/// The kernels of warp-wide mma instructions or CUDA cores, those of wgmma, and those that
/// transform (none where there are none for the precision).
std::vector<schedule> mma_schedules();
std::vector<schedule> wgmma_schedules();
std::vector<schedule> winograd_schedules();

} // namespace bench
