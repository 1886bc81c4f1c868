// Defines the lists of registers that hold wgmma's sums, for asm: TENON_WGMMA_LIST_<n>, their
// names, and TENON_WGMMA_OUT_<n>(constraint), what stands for them, array d. n columns, 16 or a
// multiple of 32, have n / 2 sums in each thread. And TENON_WGMMA_OF_N(multiply, ...), which is
// multiply(N, numbers of the seven operands behind the sums, ...).
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_LISTS_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_LISTS_CUH

#define TENON_WGMMA_REGS_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define TENON_WGMMA_REGS_1                                                                         \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TENON_WGMMA_REGS_2                                                                         \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TENON_WGMMA_REGS_3                                                                         \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TENON_WGMMA_REGS_4                                                                         \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define TENON_WGMMA_REGS_5                                                                         \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TENON_WGMMA_REGS_6                                                                         \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define TENON_WGMMA_REGS_7                                                                         \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "   \
  "%127"
#define TENON_WGMMA_LIST_32 TENON_WGMMA_REGS_0
#define TENON_WGMMA_LIST_64 TENON_WGMMA_LIST_32 TENON_WGMMA_REGS_1
#define TENON_WGMMA_LIST_96 TENON_WGMMA_LIST_64 TENON_WGMMA_REGS_2
#define TENON_WGMMA_LIST_128 TENON_WGMMA_LIST_96 TENON_WGMMA_REGS_3
#define TENON_WGMMA_LIST_160 TENON_WGMMA_LIST_128 TENON_WGMMA_REGS_4
#define TENON_WGMMA_LIST_192 TENON_WGMMA_LIST_160 TENON_WGMMA_REGS_5
#define TENON_WGMMA_LIST_224 TENON_WGMMA_LIST_192 TENON_WGMMA_REGS_6
#define TENON_WGMMA_LIST_256 TENON_WGMMA_LIST_224 TENON_WGMMA_REGS_7
#define TENON_WGMMA_LIST_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TENON_WGMMA_OUT_8(c, i)                                                                    \
  c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]), c(d[i + 7])
#define TENON_WGMMA_OUT_16(c) TENON_WGMMA_OUT_8(c, 0)
#define TENON_WGMMA_OUT_32(c) TENON_WGMMA_OUT_8(c, 0), TENON_WGMMA_OUT_8(c, 8)
#define TENON_WGMMA_OUT_64(c)                                                                      \
  TENON_WGMMA_OUT_32(c), TENON_WGMMA_OUT_8(c, 16), TENON_WGMMA_OUT_8(c, 24)
#define TENON_WGMMA_OUT_96(c)                                                                      \
  TENON_WGMMA_OUT_64(c), TENON_WGMMA_OUT_8(c, 32), TENON_WGMMA_OUT_8(c, 40)
#define TENON_WGMMA_OUT_128(c)                                                                     \
  TENON_WGMMA_OUT_96(c), TENON_WGMMA_OUT_8(c, 48), TENON_WGMMA_OUT_8(c, 56)
#define TENON_WGMMA_OUT_160(c)                                                                     \
  TENON_WGMMA_OUT_128(c), TENON_WGMMA_OUT_8(c, 64), TENON_WGMMA_OUT_8(c, 72)
#define TENON_WGMMA_OUT_192(c)                                                                     \
  TENON_WGMMA_OUT_160(c), TENON_WGMMA_OUT_8(c, 80), TENON_WGMMA_OUT_8(c, 88)
#define TENON_WGMMA_OUT_224(c)                                                                     \
  TENON_WGMMA_OUT_192(c), TENON_WGMMA_OUT_8(c, 96), TENON_WGMMA_OUT_8(c, 104)
#define TENON_WGMMA_OUT_256(c)                                                                     \
  TENON_WGMMA_OUT_224(c), TENON_WGMMA_OUT_8(c, 112), TENON_WGMMA_OUT_8(c, 120)

#define TENON_WGMMA_OF_N(multiply, ...)                                                            \
  if constexpr (N == 16)                                                                           \
    multiply(16, "8", "9", "10", "11", "12", "13", "14", __VA_ARGS__);                             \
  else if constexpr (N == 32)                                                                      \
    multiply(32, "16", "17", "18", "19", "20", "21", "22", __VA_ARGS__);                           \
  else if constexpr (N == 64)                                                                      \
    multiply(64, "32", "33", "34", "35", "36", "37", "38", __VA_ARGS__);                           \
  else if constexpr (N == 96)                                                                      \
    multiply(96, "48", "49", "50", "51", "52", "53", "54", __VA_ARGS__);                           \
  else if constexpr (N == 128)                                                                     \
    multiply(128, "64", "65", "66", "67", "68", "69", "70", __VA_ARGS__);                          \
  else if constexpr (N == 160)                                                                     \
    multiply(160, "80", "81", "82", "83", "84", "85", "86", __VA_ARGS__);                          \
  else if constexpr (N == 192)                                                                     \
    multiply(192, "96", "97", "98", "99", "100", "101", "102", __VA_ARGS__);                       \
  else if constexpr (N == 224)                                                                     \
    multiply(224, "112", "113", "114", "115", "116", "117", "118", __VA_ARGS__);                   \
  else if constexpr (N == 256)                                                                     \
    multiply(256, "128", "129", "130", "131", "132", "133", "134", __VA_ARGS__);

#endif
